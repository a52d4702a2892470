//! Whose fault it is that a container could not be made: the machine's, or maybe the container's.
//!
//! containerd says both with one code and a text, which is its own, its shim's and the runtime's.

use crate::engine::EngineError;

/// What the machine's faults say, in lower case. Anything else may be the container's: a working directory
/// that is a file, a command that is not there, a memory limit that is too low.
const OF_MACHINE: &[&str] = &[
    // runc's and crun's words for a CDI hook that fails: a driver that does not answer, mostly.
    "error running hook",
    "error running prestart hook",
    "error executing hook",
    // crun's where the hook ends before it has read what it is told.
    "writing to pipe",
    // The runtime died or is not installed, so that it left no error.
    "unable to retrieve oci runtime error",
    "failed to start shim",
    // The logger, which is ours.
    "failed to start binary process",
    "failed to read from logging binary",
    "no space left on device",
    "disk quota exceeded",
    "input/output error",
    "too many open files",
];

/// What a hook says of an image that needs a newer driver than there is. All machines may have the same.
const OF_IMAGE: &str = "requirement error";

/// A refusal that can only be the machine's, because the call was about nothing of the container's own.
pub(super) fn of_machine(error: EngineError) -> EngineError {
    match error {
        EngineError::Refused { call, reason } => EngineError::Unfit { call, reason },
        other => other,
    }
}

/// A refusal to make or start the container's process, by whose fault the text says it is.
pub(super) fn sorted(error: EngineError) -> EngineError {
    match &error {
        EngineError::Refused { reason, .. } if is_of_machine(reason) => of_machine(error),
        _ => error,
    }
}

fn is_of_machine(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    !reason.contains(OF_IMAGE) && OF_MACHINE.iter().any(|text| reason.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNC: &str = "failed to create shim task: OCI runtime create failed: runc create failed: \
                        unable to start container process: ";

    #[test]
    fn the_machines_faults_are_told_from_the_containers() {
        for (reason, expect) in [
            (
                "error during container init: error running hook #0: error running hook: exit \
                 status 1, stdout: , stderr: nvidia-container-cli: initialization error: nvml \
                 error: driver not loaded: unknown",
                true,
            ),
            (
                "error executing hook `/usr/bin/nvidia-ctk` (exit code: 1)",
                true,
            ),
            (
                "unable to retrieve OCI runtime error (open log.json: no such file or \
                 directory): exec: \"crun\": executable file not found in $PATH: unknown",
                true,
            ),
            ("writing to pipe: Broken pipe: unknown", true),
            ("mkdir /run/containerd/x: No space left on device", true),
            (
                "error running hook #0: error running hook: exit status 1, stderr: \
                 nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4",
                false,
            ),
            (
                "exec: \"/no/such\": stat /no/such: no such file or directory: unknown",
                false,
            ),
            (
                "error during container init: mkdir /etc/passwd/x: not a directory",
                false,
            ),
            ("failed to read from logging binary: EOF", true),
            (
                "container init was OOM-killed (memory limit too low?)",
                false,
            ),
        ] {
            assert_eq!(
                is_of_machine(&format!("{RUNC}{reason}")),
                expect,
                "{reason}"
            );
        }
    }
}
