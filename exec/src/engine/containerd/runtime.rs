//! The low-level runtime that a shim calls to make a container: runc, or crun, which took a fifth
//! off the processor time of a whole launch where it was measured.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::cgroup::Cgroups;

/// The configuration's word for "the best one that works here".
pub(super) const AUTO: &str = "auto";
const RUNC: &str = "runc";
const CRUN: &str = "crun";
/// Older ones fail on specifications and kernels of today.
const CRUN_VERSION_MIN: (u32, u32) = (1, 8);

/// The runtime to use: the configured one, which must exist, or the best of `path` (as `$PATH`
/// is written). The error says what is wrong with the configured one.
pub(super) fn choose(wanted: &str, path: &str, cgroups: &Cgroups) -> Result<PathBuf, String> {
    if wanted != AUTO {
        return find(wanted, path).ok_or_else(|| {
            format!("runtime {wanted:?} is not installed; name a program such as {RUNC}, or {AUTO}")
        });
    }
    // crun gives up on a machine that has its controllers in two places.
    let crun = find(CRUN, path).filter(|crun| !cgroups.is_split() && is_recent(crun));
    // containerd looks for runc itself, so that the error about a missing one is its own.
    Ok(crun.unwrap_or_else(|| RUNC.into()))
}

/// The chosen program, and what it says of itself.
#[derive(Debug)]
pub(super) struct RuntimeProgram {
    program: PathBuf,
    /// The version, and of which change of the file.
    seen: Mutex<Option<(SystemTime, String)>>,
}

impl RuntimeProgram {
    pub(super) fn new(program: PathBuf) -> Self {
        Self {
            program,
            seen: Mutex::default(),
        }
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Its name and version: `crun 1.8.1`, or the name alone where it says something else. It is run again
    /// only where its file has changed, by an upgrade say.
    pub(super) fn describe(&self) -> String {
        let name = self.program.file_name().unwrap_or_default().display();
        match self.version() {
            Some(version) => format!("{name} {version}"),
            None => name.to_string(),
        }
    }

    fn version(&self) -> Option<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let file = find(&self.program.to_string_lossy(), &path)?;
        let changed = file.metadata().and_then(|data| data.modified()).ok()?;
        let mut seen = self.seen.lock().ok()?;
        if let Some((at, version)) = &*seen
            && *at == changed
        {
            return Some(version.clone());
        }
        let version = number(&output(&file)?)?.to_owned();
        *seen = Some((changed, version.clone()));
        Some(version)
    }
}

fn find(program: &str, path: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|it| it.is_file());
    }
    std::env::split_paths(path)
        .map(|dir| dir.join(program))
        .find(|it| it.is_file())
}

fn is_recent(crun: &Path) -> bool {
    let version = output(crun).and_then(|text| version(number(&text)?));
    version.is_some_and(|it| it >= CRUN_VERSION_MIN)
}

fn output(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()
}

/// The last word of the first line: `crun version 1.8.1`.
fn number(text: &str) -> Option<&str> {
    text.lines().next()?.rsplit(' ').next()
}

/// Its major and minor number.
fn version(number: &str) -> Option<(u32, u32)> {
    let mut numbers = number.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn cgroups(root: &Path, controllers: &str) -> Cgroups {
        let cgroup = root.join("sys/fs/cgroup");
        fs::create_dir_all(cgroup.join("memory")).unwrap();
        fs::create_dir_all(cgroup.join("unified")).unwrap();
        fs::write(cgroup.join("unified/cgroup.controllers"), controllers).unwrap();
        Cgroups::detect(root, "muster").unwrap()
    }

    fn install(dir: &Path, version: &str) -> PathBuf {
        let program = dir.join("crun");
        fs::write(
            &program,
            format!("#!/bin/sh\necho crun version {version}\n"),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn crun_is_taken_where_it_works() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let plain = cgroups(dir.path(), "");
        let auto = |cgroups: &Cgroups| choose(AUTO, &path, cgroups).unwrap();
        assert_eq!(auto(&plain), Path::new("runc"), "crun is not there");
        for (version, taken) in [("1.8.1", true), ("2.0", true), ("0.17", false), ("", false)] {
            let crun = install(dir.path(), version);
            assert_eq!(auto(&plain) == crun, taken, "crun {version:?}");
        }
        let crun = install(dir.path(), "1.14.1");
        assert_eq!(auto(&cgroups(dir.path(), "hugetlb\n")), Path::new("runc"));
        let split = cgroups(dir.path(), "hugetlb\n");
        assert_eq!(choose("crun", &path, &split), Ok(crun), "as was asked");
    }

    #[test]
    fn an_upgraded_runtime_says_its_new_version() {
        let dir = tempfile::tempdir().unwrap();
        let program = install(dir.path(), "1.8.1");
        let runtime = RuntimeProgram::new(program.clone());
        assert_eq!(runtime.describe(), "crun 1.8.1");
        install(dir.path(), "1.29");
        let later = SystemTime::now() + std::time::Duration::from_secs(9);
        let file = fs::File::options().append(true).open(&program).unwrap();
        file.set_modified(later).unwrap();
        // A file that is open for writing cannot be run.
        drop(file);
        assert_eq!(runtime.describe(), "crun 1.29");
        fs::remove_file(program).unwrap();
        assert_eq!(runtime.describe(), "crun", "it is gone");
    }

    #[test]
    fn a_runtime_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let cgroups = cgroups(dir.path(), "");
        for wanted in ["krun", "/nowhere/crun"] {
            let problem = choose(wanted, "/bin", &cgroups).unwrap_err();
            assert!(problem.contains(wanted), "{problem}");
        }
    }
}
