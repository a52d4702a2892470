//! Commands that a CDI file wants run around a container's life.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Commands that the runtime runs around a container's life, in the specification's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::oci) struct OciHooks {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prestart: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    create_runtime: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    create_container: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    start_container: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    poststart: Vec<Hook>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    poststop: Vec<Hook>,
}

impl OciHooks {
    /// Adds one; `None` for a name that is no point of a container's life.
    pub(super) fn add(&mut self, hook: &NamedHook) -> Option<()> {
        let list = match &*hook.hook_name {
            "prestart" => &mut self.prestart,
            "createRuntime" => &mut self.create_runtime,
            "createContainer" => &mut self.create_container,
            "startContainer" => &mut self.start_container,
            "poststart" => &mut self.poststart,
            "poststop" => &mut self.poststop,
            _ => return None,
        };
        list.push(Hook {
            path: hook.path.clone(),
            args: hook.args.clone(),
            env: hook.env.clone(),
            timeout: hook.timeout,
        });
        Some(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Hook {
    path: PathBuf,
    args: Vec<String>,
    env: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u32>,
}

/// A command as a CDI file names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NamedHook {
    pub(super) hook_name: String,
    path: PathBuf,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    timeout: Option<u32>,
}
