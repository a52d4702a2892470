//! What the look-alikes take from where they are started.

use std::path::PathBuf;

use muster_model::id::UserName;

use super::option::{GivenOption, OptionOrigin};
use crate::error::CliError;

/// Names the image of jobs that name none.
const IMAGE_VARIABLE: &str = "MUSTER_IMAGE";
/// In the user's directory for settings.
const IMAGE_FILE: &str = "muster/image";

/// Who acts, as `--user` of other commands.
pub(super) fn user() -> Result<Option<UserName>, CliError> {
    let Some(user) = variable("MUSTER_USER") else {
        return Ok(None);
    };
    let user = user.parse();
    user.map(Some)
        .map_err(|why| CliError::Usage(format!("MUSTER_USER: {why}")))
}

/// A variable that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The image where no option names one.
pub(super) fn image() -> Result<Option<String>, CliError> {
    if let Some(image) = variable(IMAGE_VARIABLE) {
        return Ok(Some(image));
    }
    let own = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let own = own.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    let Some(path) = own.map(|folder| folder.join(IMAGE_FILE)) else {
        return Ok(None);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CliError::Read { path, source }),
    }
}

/// Options that variables stand for.
pub(super) fn options(known: &[(&'static str, &'static str)]) -> Vec<GivenOption> {
    let set = known.iter().filter_map(|&(name, option)| {
        Some(GivenOption {
            name: option,
            value: variable(name)?,
            origin: OptionOrigin::Variable(name),
        })
    });
    set.collect()
}

/// The directory that a command was given in.
pub(super) fn directory() -> String {
    let directory = std::env::current_dir().unwrap_or_default();
    directory.display().to_string()
}

/// The name of this machine; empty if it is not known.
pub(super) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
