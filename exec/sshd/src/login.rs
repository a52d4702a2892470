//! The user that the container runs as, and the names to log in by.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::getuid;

/// A line of /etc/passwd. The static C library would have to load parts of the image's own to look users up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerUser {
    /// Its name; none if the image has none for it.
    pub(crate) name: Option<String>,
    /// Its home directory.
    pub(crate) home: PathBuf,
    /// Its shell.
    pub(crate) shell: Option<PathBuf>,
}

impl ContainerUser {
    /// The user of this process.
    pub(crate) fn own() -> Self {
        let uid = getuid();
        let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        Self::find(&table, uid.as_raw(), home)
    }

    fn find(table: &str, uid: u32, home: Option<OsString>) -> Self {
        let root = (uid == 0).then(|| "root".to_owned());
        let usual = || PathBuf::from(if uid == 0 { "/root" } else { "/" });
        let uid = uid.to_string();
        let mut lines = table.lines().map(|line| line.split(':').collect());
        let line = lines.find(|fields: &Vec<&str>| fields.get(2) == Some(&&*uid));
        let field = |index: usize| {
            let field = line.as_ref()?.get(index)?;
            (!field.is_empty()).then_some(*field)
        };
        Self {
            name: field(0).map(str::to_owned).or(root),
            // Programs such as ssh ask the table, and nothing else.
            home: field(5)
                .map(PathBuf::from)
                .or_else(|| home.map(PathBuf::from))
                .unwrap_or_else(usual),
            shell: field(6).map(PathBuf::from),
        }
    }

    /// The shell of sessions: the user's own, else bash or sh by the search path.
    ///
    /// # Errors
    /// When the image has none.
    pub(crate) fn shell(&self) -> Result<PathBuf, String> {
        let own = self.shell.clone().filter(|shell| {
            let name = shell.file_name().unwrap_or_default();
            name != "nologin" && name != "false"
        });
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = ["bash", "sh"].into_iter().flat_map(|name| {
            let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
            folders.into_iter().map(move |folder| folder.join(name))
        });
        let mut all = own.into_iter().chain(found);
        let shell = all.find(|shell| is_program(shell));
        shell.ok_or_else(|| "the image has no shell".to_owned())
    }
}

fn is_program(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The names by which one may log in: the job's user and the container's.
pub(crate) fn names(job_user: &str, own: &ContainerUser) -> Vec<String> {
    let mut names = vec![job_user.to_owned()];
    names.extend(own.name.clone().filter(|name| name != job_user));
    names
}

/// Variables that programs expect in a session and that the task's commands may lack.
pub(crate) fn variables(own: &ContainerUser, shell: &Path) -> Vec<(&'static str, OsString)> {
    let is_missing = |name: &&str| std::env::var_os(name).is_none();
    let name = own.name.clone().map(OsString::from);
    let all = [
        ("HOME", Some(own.home.clone().into_os_string())),
        ("USER", name.clone()),
        ("LOGNAME", name),
        ("SHELL", Some(OsStr::to_owned(shell.as_os_str()))),
    ];
    all.into_iter()
        .filter(|(name, _)| is_missing(name))
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:\n";

    #[test]
    fn a_user_is_found_by_its_number() {
        let of = |table: &str, uid, home: Option<&str>| {
            let user = ContainerUser::find(table, uid, home.map(OsString::from));
            let home = user.home.display().to_string();
            (user.name.unwrap_or_default(), home, user.shell)
        };
        let text = |name: &str, home: &str| (name.to_owned(), home.to_owned(), None);
        let (name, home, shell) = of(TABLE, 0, Some("/elsewhere"));
        assert_eq!((&*name, &*home), ("root", "/root"));
        assert_eq!(shell, Some("/bin/bash".into()));
        assert_eq!(of(TABLE, 1000, None), text("ada", "/home/ada"));
        assert_eq!(of(TABLE, 7, Some("/h")), text("", "/h"));
        assert_eq!(of(TABLE, 7, None), text("", "/"));
        assert_eq!(of("", 0, None), text("root", "/root"));
    }

    #[test]
    fn the_users_of_the_job_and_of_the_container_log_in() {
        let root = ContainerUser::find(TABLE, 0, None);
        assert_eq!(names("eve", &root), ["eve", "root"]);
        assert_eq!(names("root", &root), ["root"]);
        assert_eq!(names("eve", &ContainerUser::find(TABLE, 7, None)), ["eve"]);
    }
}
