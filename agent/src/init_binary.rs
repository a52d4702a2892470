//! Where muster-init is. It is a build of its own, so it lies beside muster, not in it.

use std::path::{Path, PathBuf};

/// muster-init is nowhere.
#[derive(Debug, thiserror::Error)]
#[error(
    "muster-init is not at {}; build it with deploy/build.sh, or name it as tasks.init in agent.toml",
    .looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
)]
pub(crate) struct InitBinaryError {
    looked: Vec<PathBuf>,
}

/// Finds muster-init: the configured path alone; else where a build leaves it, which is the
/// folder of its own target beside this program's; else beside this program; else where the
/// package puts it.
///
/// # Errors
/// When it is in none of these places.
pub(crate) fn find(configured: Option<&Path>) -> Result<PathBuf, InitBinaryError> {
    let looked: Vec<PathBuf> = match configured {
        Some(path) => vec![path.to_owned()],
        None => {
            let program = std::env::current_exe()
                .and_then(|exe| exe.canonicalize())
                .ok();
            let near = program.as_deref().and_then(near).into_iter().flatten();
            near.chain(["/usr/lib/muster/muster-init".into()]).collect()
        }
    };
    looked
        .iter()
        .find(|path| path.is_file())
        .cloned()
        .ok_or(InitBinaryError { looked })
}

/// A build of the whole workspace leaves a muster-init beside muster that is not static and
/// runs in no container, so the one built for its own target comes first.
fn near(program: &Path) -> Option<[PathBuf; 2]> {
    let folder = program.parent()?;
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let own = folder.parent()?.join(target).join(folder.file_name()?);
    Some([own.join("muster-init"), folder.join("muster-init")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_for_its_own_target_comes_first() {
        let [own, beside] = near(Path::new("/src/target/debug/muster")).unwrap();
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        assert_eq!(
            own,
            Path::new("/src/target")
                .join(target)
                .join("debug/muster-init")
        );
        assert_eq!(beside, Path::new("/src/target/debug/muster-init"));
    }
}
