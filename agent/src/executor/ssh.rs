//! The SSH server of a task: its program in the container, and the command that starts it there.

use std::path::Path;

use muster_exec::engine::BindMount;
use muster_model::exit::Cause;
use muster_model::launch::TaskSpec;
use muster_model::protocol::Secrets;
use muster_model::ssh::{SSH_SETTINGS_VARIABLE, SshAccess, SshSettings};

/// The program, beside muster-init on the host.
const PROGRAM: &str = "muster-sshd";
/// The program, in the container.
const CONTAINER_SSHD: &str = "/usr/local/muster/sshd";

/// What a task with a server has more than others.
#[derive(Debug)]
pub(super) struct SshStart {
    /// Its program.
    pub(super) mount: BindMount,
    /// Starts it, before all other commands.
    pub(super) command: String,
}

impl SshStart {
    /// That of a task; none if nobody may log in to it.
    ///
    /// # Errors
    /// When this machine has no such program, or the job no keys.
    pub(super) fn of(
        spec: &TaskSpec,
        secrets: &Secrets,
        init: &Path,
    ) -> Result<Option<Self>, (Cause, String)> {
        let Some(access) = &spec.ssh else {
            return Ok(None);
        };
        let source = init.with_file_name(PROGRAM);
        if !source.is_file() {
            let message = format!(
                "{} is missing, which the runtime plugin ssh needs; build it with deploy/build.sh",
                source.display()
            );
            return Err((Cause::RuntimeFailed, message));
        }
        let keys = secrets.ssh_keys().ok_or_else(|| {
            let message = "the job has no keys for SSH: it was submitted to an older release";
            (Cause::RuntimeFailed, message.to_owned())
        })?;
        let user = spec.job.user.to_string();
        Ok(Some(Self {
            mount: BindMount {
                source,
                target: CONTAINER_SSHD.into(),
                read_only: true,
            },
            command: command(access, user, keys),
        }))
    }
}

fn command(access: &SshAccess, user: String, (host_key, job_key): (&str, &str)) -> String {
    let settings = SshSettings {
        user,
        keys: access.keys.clone(),
        host_key: host_key.to_owned(),
        job_key: (!access.peers.is_empty()).then(|| job_key.to_owned()),
        peers: access.peers.clone(),
        barrier_s: access.barrier_s,
    };
    // Plain data has a form in JSON. Quotes would end the shell's text.
    let settings = serde_json::to_string(&settings).unwrap_or_default();
    let settings = settings.replace('\'', "\\u0027");
    let start = format!("{SSH_SETTINGS_VARIABLE}='{settings}' {CONTAINER_SSHD} start");
    match access.may_fail {
        true => format!("{start} || true"),
        false => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_reach_the_program_whatever_is_in_them() {
        let access = SshAccess {
            keys: vec!["ssh-ed25519 AAAA".to_owned()],
            system_keys: false,
            peers: Vec::new(),
            barrier_s: None,
            may_fail: true,
        };
        let user = "o'ada".to_owned();
        let text = command(&access, user.clone(), ("11", "22"));
        let told = std::process::Command::new("sh")
            .arg("-c")
            .arg(text.replace(
                CONTAINER_SSHD,
                "sh -c 'printf %s \"$MUSTER_SSH\"; exit 3' --",
            ))
            .output()
            .unwrap();
        assert!(told.status.success(), "{text}");
        let settings: SshSettings = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(settings.user, user);
        assert_eq!((&*settings.host_key, settings.job_key), ("11", None));
        let peers = SshAccess {
            peers: vec!["worker".parse().unwrap()],
            may_fail: false,
            ..access
        };
        let text = command(&peers, user, ("11", "22"));
        assert!(text.contains("\"22\"") && text.ends_with("start"), "{text}");
    }
}
