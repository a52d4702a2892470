//! Lets go of the parts of the program that nothing runs any more.
//!
//! A page of code that ran once stays mapped, and counts as the agent's memory, for as long as the
//! machine has memory to spare. What is let go is still the file's, and is mapped again when it is used,
//! by a fault as at its first use.

use std::io;
use std::ops::Range;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

/// How long after its start an agent has done what only a start needs.
const FIRST: Duration = Duration::from_secs(15);
/// A page of the agent, or a listing, runs code that may not run again for days.
const PAUSE: Duration = Duration::from_secs(600);

/// Runs until the agent ends.
pub(crate) async fn run() {
    let mut pause = interval_at(Instant::now() + FIRST, PAUSE);
    loop {
        pause.tick().await;
        if let Err(error) = let_go() {
            tracing::debug!(%error, "code that is not run stays mapped");
            return;
        }
    }
}

/// Unmaps every page of the program's code.
///
/// # Errors
/// When the kernel does not say where the code is, or refuses.
fn let_go() -> io::Result<()> {
    let program = std::fs::read_link("/proc/self/exe")?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    for code in code_of(&maps, &program.to_string_lossy()) {
        unmap(code)?;
    }
    Ok(())
}

/// Where the code of `program` is, by the kernel's list of mappings (proc(5), `/proc/pid/maps`). Only
/// what runs and cannot be written: the rest may have been changed since it was read from the file.
fn code_of(maps: &str, program: &str) -> Vec<Range<usize>> {
    let code = |line: &str| {
        let (range, line) = line.split_once(' ')?;
        let (rights, line) = line.split_once(' ')?;
        // Offset, device and inode, padded, come before the path.
        let path = &line[line.find('/')?..];
        let (from, to) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        (rights == "r-xp" && path == program).then_some(address(from)?..address(to)?)
    };
    maps.lines().filter_map(code).collect()
}

fn unmap(code: Range<usize>) -> io::Result<()> {
    // SAFETY: the kernel has just said that this is a private mapping of the program's file that
    // nobody can write to, so what comes back at the next use is what was there. Nothing is freed.
    #[allow(unsafe_code)]
    let result = unsafe {
        let from = std::ptr::with_exposed_provenance_mut(code.start);
        libc::madvise(from, code.len(), libc::MADV_DONTNEED)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c00a0000 r--p 00000000 fe:00 131 /usr/bin/muster
55d0c00a0000-55d0c1c00000 r-xp 000a0000 fe:00 131                        /usr/bin/muster
55d0c1c00000-55d0c1d00000 r--p 01c00000 fe:00 131                        /usr/bin/muster
55d0c1d00000-55d0c1d10000 rw-p 01d00000 fe:00 131                        /usr/bin/muster
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f10a0000000-7f10a0160000 r-xp 00028000 fe:00 977                        /usr/lib/libc.so.6
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn only_the_programs_own_code_is_found() {
        let code = 0x55d0_c00a_0000..0x55d0_c1c0_0000;
        assert_eq!(code_of(MAPS, "/usr/bin/muster"), vec![code]);
        assert!(code_of(MAPS, "/usr/bin/must").is_empty());
    }

    #[test]
    fn a_program_that_was_replaced_is_found_by_the_name_it_has_now() {
        let maps = MAPS.replace("/usr/bin/muster", "/usr/bin/muster (deleted)");
        assert_eq!(code_of(&maps, "/usr/bin/muster (deleted)").len(), 1);
    }

    /// KiB of this program's code that are mapped.
    fn resident() -> usize {
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let program = program.to_string_lossy();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = smaps.lines();
        lines
            .by_ref()
            .find(|line| line.contains(" r-xp ") && line.ends_with(&*program))
            .unwrap();
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    /// Has all code of this program mapped. What a kernel maps of it besides what runs depends on how the file
    /// came into memory, and can be almost all that a short run needs.
    fn map_all() {
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        for code in code_of(&maps, &program.to_string_lossy()) {
            let mut bytes = vec![0; code.len()];
            memory.read_exact_at(&mut bytes, code.start as u64).unwrap();
        }
    }

    #[test]
    fn code_that_was_let_go_counts_no_more_and_runs_when_it_is_called() {
        let run = || serde_json::from_str::<Vec<u8>>("[1, 2]").unwrap();
        assert_eq!(run(), [1, 2]);
        map_all();
        let before = resident();
        let_go().unwrap();
        let after = resident();
        // Asking how much is mapped runs code too.
        assert!(
            after < before / 4 * 3,
            "{before} KiB before, {after} KiB after"
        );
        assert_eq!(run(), [1, 2]);
    }
}
