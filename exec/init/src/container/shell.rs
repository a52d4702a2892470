//! The image's shell, which runs all commands.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fmt};

use nix::unistd::{AccessFlags, access};

use crate::exit_report::{FailureKind, RuntimeFailure};

/// Looked into before `PATH`, where images keep their shells.
const SHELL_DIRS: [&str; 3] = ["/bin", "/usr/bin", "/usr/local/bin"];

/// A shell and how to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shell {
    /// The program.
    pub(crate) program: PathBuf,
    /// Which one it is.
    pub(crate) kind: ShellKind,
}

/// The shells that differ for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellKind {
    Bash,
    /// Some POSIX shell; may know `pipefail` or not.
    Sh,
    /// A busybox that was not linked as `sh`.
    Busybox,
}

/// In order of preference.
const CANDIDATES: [(&str, ShellKind); 3] = [
    ("bash", ShellKind::Bash),
    ("sh", ShellKind::Sh),
    ("busybox", ShellKind::Busybox),
];

impl Shell {
    /// Finds the best shell of the image; `path` is the task's `PATH`.
    pub(crate) fn find(path: &OsStr) -> Result<Self, RuntimeFailure> {
        let dirs: Vec<PathBuf> = SHELL_DIRS
            .iter()
            .map(PathBuf::from)
            .chain(env::split_paths(path).filter(|dir| dir.is_absolute()))
            .collect();
        Self::find_in(&dirs).ok_or_else(|| RuntimeFailure {
            kind: FailureKind::NoShell,
            message: format!("image has no shell (looked for {})", WantedShells(&dirs)),
        })
    }

    fn find_in(dirs: &[PathBuf]) -> Option<Self> {
        CANDIDATES.iter().find_map(|(name, kind)| {
            dirs.iter()
                .map(|dir| dir.join(name))
                .find(|program| is_program(program))
                .map(|program| Self {
                    program,
                    kind: *kind,
                })
        })
    }

    /// Arguments before the script's path: fail on the first error, like OpenPAI's runtime.
    pub(crate) const fn args(&self) -> &'static [&'static str] {
        match self.kind {
            ShellKind::Bash => &["-e", "-u", "-o", "pipefail"],
            ShellKind::Sh => &["-e", "-u"],
            ShellKind::Busybox => &["sh", "-e", "-u"],
        }
    }

    /// What to put before the script's text to get `pipefail` where only the shell itself
    /// knows whether it has it.
    pub(crate) const fn prologue(&self) -> &'static str {
        match self.kind {
            ShellKind::Bash => "",
            ShellKind::Sh | ShellKind::Busybox => {
                "if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi; "
            }
        }
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

struct WantedShells<'a>(&'a [PathBuf]);

impl fmt::Display for WantedShells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bash, sh and busybox in")?;
        for dir in self.0 {
            write!(f, " {}", dir.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn bash_is_preferred_wherever_it_is_and_broken_ones_are_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let dirs = [root.path().join("a"), root.path().join("b")];
        let add = |path: &Path, mode| {
            File::create(path).unwrap();
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let found = || Shell::find_in(&dirs).map(|shell| (shell.program, shell.kind));
        for dir in &dirs {
            fs::create_dir(dir).unwrap();
        }
        assert_eq!(found(), None);
        symlink("/nowhere", dirs[0].join("sh")).unwrap();
        add(&dirs[1].join("busybox"), 0o755);
        assert_eq!(found(), Some((dirs[1].join("busybox"), ShellKind::Busybox)));
        add(&dirs[1].join("sh"), 0o755);
        assert_eq!(found(), Some((dirs[1].join("sh"), ShellKind::Sh)));
        add(&dirs[1].join("bash"), 0o755);
        fs::create_dir(dirs[0].join("bash")).unwrap();
        assert_eq!(found(), Some((dirs[1].join("bash"), ShellKind::Bash)));
    }
}
