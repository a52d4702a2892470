//! Where muster-init is. It is a build of its own, so it lies beside muster, not in it.

use std::path::{Path, PathBuf};

/// muster-init is nowhere.
#[derive(Debug, thiserror::Error)]
#[error(
    "muster-init is not at {}; build it with deploy/build.sh, or name it as tasks.init in agent.toml",
    .looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
)]
pub(crate) struct Error {
    looked: Vec<PathBuf>,
}

/// Finds muster-init: the configured path alone, else beside this program, else where the
/// package puts it.
///
/// # Errors
/// When it is in none of these places.
pub(crate) fn find(configured: Option<&Path>) -> Result<PathBuf, Error> {
    let beside = || {
        let exe = std::env::current_exe()
            .and_then(|exe| exe.canonicalize())
            .ok()?;
        Some(exe.parent()?.join("muster-init"))
    };
    let looked: Vec<PathBuf> = match configured {
        Some(path) => vec![path.to_owned()],
        None => beside()
            .into_iter()
            .chain(["/usr/lib/muster/muster-init".into()])
            .collect(),
    };
    looked
        .iter()
        .find(|path| path.is_file())
        .cloned()
        .ok_or(Error { looked })
}
