//! A wall clock that one process alone goes by, and that can be set while it runs. The machine's
//! own clock stays as it is.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// Where Debian's package `libfaketime` puts its library, below the folder of libraries.
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// A wall clock. The clocks that only count, since boot or since a start, are never shifted.
#[derive(Clone, Debug)]
pub struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// The library that such clocks are made with, if it is installed.
    pub fn library() -> Option<PathBuf> {
        let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let library = Path::new(&folder).join(LIBRARY);
        library.exists().then_some(library)
    }

    /// A clock that shows the right time until it is set. `offset` is the file that it is set by.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(library: PathBuf, offset: PathBuf) -> Result<Self> {
        let clock = Self { library, offset };
        clock.shift(0)?;
        Ok(clock)
    }

    /// Sets it so many seconds before (less than 0) or after the right time, within a second.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn shift(&self, seconds: i64) -> Result<()> {
        // Put in place as a whole: it may be read at any moment.
        let new = self.offset.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n"))?;
        std::fs::rename(&new, &self.offset)?;
        Ok(())
    }

    /// The variables of a process that goes by it.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("LD_PRELOAD", self.library.clone()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset.clone()),
            ("FAKETIME_CACHE_DURATION", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn only_who_goes_by_it_sees_it() -> Result<()> {
        let Some(library) = WallClock::library() else {
            let in_ci = std::env::var_os("CI").is_some();
            assert!(
                !in_ci,
                "in CI nothing is skipped: libfaketime is not installed"
            );
            eprintln!("SKIPPED: libfaketime is not installed; see deploy/test.sh");
            return Ok(());
        };
        let dir = tempfile::tempdir()?;
        let clock = WallClock::new(library, dir.path().join("offset"))?;
        for offset in [0_i64, 3600, -60] {
            clock.shift(offset)?;
            let mut date = Command::new("date");
            let output = date.arg("+%s").envs(clock.environment()).output()?;
            let shown: i64 = String::from_utf8(output.stdout)?.trim().parse()?;
            let right = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            let off = shown - i64::try_from(right)?;
            assert!((off - offset).abs() <= 1, "{off} in place of {offset}");
        }
        Ok(())
    }
}
