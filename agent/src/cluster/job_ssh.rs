//! The keys of jobs whose tasks can be logged in to: those of users' profiles, and the job's own.

use std::fmt::Write as _;

use muster_model::job::JobSpec;
use muster_model::remark::Remark;
use muster_model::ssh::{SSH_KEYS_BYTES_MAX, SSH_KEYS_MAX, SshAccess, public_keys};
use serde_json::Value;

/// Where a user's keys are in what clients keep with the user, as upstream: a list of `{title, value}`.
const PROFILE_KEYS: &str = "sshKeys";
const PATH: &str = ".extras.com.microsoft.pai.runtimeplugin";

/// Lets in the keys of the user's profile where the job asks for them. Those that are no keys are warned of.
pub(super) fn add_system_keys(spec: &mut JobSpec, extension: &Value) {
    let wanted = spec.roles.iter().filter_map(|role| role.ssh.as_ref());
    if !wanted.clone().any(|access| access.system_keys) {
        return;
    }
    let (keys, mut problems) = profile_keys(extension);
    if keys.is_empty() {
        let message = "Your profile has no SSH keys, so userssh.type system lets nobody in. Add one under \
                       extension.sshKeys of your user, or write it into the job: type custom, value ssh-ed25519 ...";
        problems.push(message.to_owned());
    }
    let warnings = problems.into_iter();
    spec.warnings
        .extend(warnings.map(|message| Remark::at(PATH, message)));
    for role in &mut spec.roles {
        if let Some(access) = role.ssh.as_mut().filter(|access| access.system_keys) {
            add(access, &keys);
            if access.keys.is_empty() && access.peers.is_empty() {
                role.ssh = None;
                role.has_ssh = false;
            }
        }
    }
}

/// Adds keys as far as there is room.
fn add(access: &mut SshAccess, keys: &[String]) {
    for key in keys {
        let bytes: usize = access.keys.iter().map(String::len).sum();
        let fits = access.keys.len() < SSH_KEYS_MAX && bytes + key.len() <= SSH_KEYS_BYTES_MAX;
        if fits && !access.keys.contains(key) {
            access.keys.push(key.clone());
        }
    }
}

/// The keys of a profile, and what is wrong with others.
fn profile_keys(extension: &Value) -> (Vec<String>, Vec<String>) {
    let (mut keys, mut problems) = (Vec::new(), Vec::new());
    let entries = extension.get(PROFILE_KEYS).and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        match public_keys(text("value")) {
            Ok(found) => keys.extend(found),
            Err(problem) => {
                let title: String = text("title").chars().take(60).collect();
                problems.push(format!(
                    "The SSH key \"{title}\" of your profile is left out: {problem}."
                ));
            }
        }
    }
    if keys.len() > SSH_KEYS_MAX {
        problems.push(format!(
            "Your profile has {} SSH keys; the first {SSH_KEYS_MAX} are let in.",
            keys.len()
        ));
    }
    (keys, problems)
}

/// A new private key, as 32 random bytes in hexadecimal digits.
pub(super) fn new_key() -> String {
    let bytes: [u8; 32] = rand::random();
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use muster_model::protocol;
    use serde_json::json;

    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILl71p6NupexlB2OXwcMWSFU7MXaGQaPxRz5iWZm6ifa";

    fn spec(parameters: &str) -> JobSpec {
        let yaml = format!(
            "protocolVersion: 2
name: j
type: job
prerequisites: [{{name: i, type: dockerimage, uri: u}}]
taskRoles:
  worker: {{dockerImage: i, resourcePerInstance: {{cpu: 1, memoryMB: 1, gpu: 0}}, commands: [x]}}
extras: {{com.microsoft.pai.runtimeplugin: [{{plugin: ssh, parameters: {parameters}}}]}}
"
        );
        protocol::parse(&yaml).unwrap().job_spec().unwrap()
    }

    #[test]
    fn keys_of_the_profile_are_let_in_where_the_job_asks() {
        let extension = json!({"sshKeys": [
            {"title": "desk", "value": format!("{KEY} ada@desk"), "time": 1},
            {"title": "old", "value": "ssh-dss AAAA"},
        ]});
        let mut asks = spec("{userssh: {type: system}}");
        add_system_keys(&mut asks, &extension);
        assert_eq!(asks.roles[0].ssh.as_ref().unwrap().keys, [KEY]);
        assert_eq!(asks.warnings.len(), 1);
        assert!(
            asks.warnings[0]
                .message
                .contains("\"old\" of your profile is left out: line 1")
        );
        let mut other = spec("{jobssh: true}");
        let before = other.clone();
        add_system_keys(&mut other, &extension);
        assert_eq!(other, before);
    }

    #[test]
    fn a_profile_without_keys_lets_nobody_in_and_is_told() {
        let mut asks = spec("{userssh: {type: system}}");
        add_system_keys(&mut asks, &json!({}));
        assert!(asks.roles[0].ssh.is_none() && !asks.roles[0].has_ssh);
        assert!(asks.warnings[0].message.contains("no SSH keys"));
        let mut both = spec("{jobssh: true, userssh: {type: system}}");
        add_system_keys(&mut both, &json!({"sshKeys": "none"}));
        assert!(both.roles[0].has_ssh);
    }

    #[test]
    fn keys_are_32_bytes_and_new_ones_each_time() {
        let (one, other) = (new_key(), new_key());
        assert!(one.len() == 64 && one.chars().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(one, other);
    }
}
