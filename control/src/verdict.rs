//! Verdicts that are decided here and not on a node: stops, completion, the barrier.

use muster_model::exit::{Behavior, Cause, DEVICE_FAULTS, ExitSpec, Verdict};
use muster_model::health::{DeviceEvent, EventClass};
use muster_model::state::{EXIT_ATTEMPT_COMPLETED, EXIT_STOPPED};

/// Exit code of an attempt whose tasks did not all become ready in time.
pub const EXIT_BARRIER_TIMEOUT: i32 = 251;
/// Exit code of a task whose image is not to be had.
pub const EXIT_IMAGE: i32 = 254;
/// Exit code of a task that vanished.
pub const EXIT_LOST: i32 = -101;
/// A storage of the task cannot be used.
pub const EXIT_STORAGE: i32 = 219;

/// Exit code of a task whose container could not be made, by the machine's fault or its own.
pub const EXIT_NOT_CREATED: i32 = -1204;
/// Exit code of what ran for as long as it may.
pub const EXIT_RUN_TIME: i32 = 209;
/// What to do about it.
const RUN_TIME_SOLUTION: &str = "Declare a longer maxRunTime, as far as the virtual cluster allows, or save checkpoints and continue in another job.";
/// Exit code of what had to give way.
pub const EXIT_PREEMPTED: i32 = -1003;

/// The attempt succeeded.
pub fn succeeded() -> Verdict {
    let kind = [
        "USER_CONTAINER",
        "USER_CONTAINER",
        "USER_SUCCESS",
        "COMPLETING",
    ];
    bare(0, "Succeeded", kind, Behavior::Unknown, "All tasks ended.")
}

/// A task vanished without an exit.
pub fn lost() -> Verdict {
    vanished("The task's container vanished without leaving an exit.")
}

fn vanished(reason: &str) -> Verdict {
    let kind = ["PAI_FC", "PAI_UNKNOWN", "PLATFORM_FAILURE", "UNKNOWN"];
    bare(
        EXIT_LOST,
        "PodExternalDeleted",
        kind,
        Behavior::Transient,
        reason,
    )
}

fn gave_way(reason: &str) -> Verdict {
    let kind = ["PAI_K8S", "PAI_K8S", "PLATFORM_FAILURE", "RUNNING"];
    let phrase = "PodPreemptedForCriticalPod";
    bare(EXIT_PREEMPTED, phrase, kind, Behavior::Transient, reason)
}

/// It ran for as long as it may. Another attempt would have no more time.
fn run_time_over(reason: &str) -> Verdict {
    let kind = ["PAI_RUNTIME", "USER_CONTAINER", "USER_FAILURE", "RUNNING"];
    let phrase = "JobRunTimeExceeded";
    let verdict = bare(EXIT_RUN_TIME, phrase, kind, Behavior::Permanent, reason);
    Verdict {
        spec: ExitSpec {
            solution: vec![RUN_TIME_SOLUTION.to_owned()],
            ..verdict.spec
        },
        ..verdict
    }
}

/// The same, with how long that is.
pub(crate) fn run_time_over_after(seconds: u64) -> Verdict {
    run_time_over(&format!(
        "The job had run for {seconds} s, which is its run time limit."
    ))
}

/// What a task or an attempt ends with when the platform ended it for `cause`.
pub fn stopped(cause: Cause) -> Verdict {
    match cause {
        Cause::UserStop => {
            let kind = ["PAI_FC", "USER_STOP", "USER_STOP", "UNKNOWN"];
            let reason = "The user stopped the job.";
            bare(
                EXIT_STOPPED,
                "StopFrameworkRequested",
                kind,
                Behavior::Permanent,
                reason,
            )
        }
        Cause::BarrierTimeout => {
            let kind = [
                "PAI_RUNTIME",
                "RESOURCE_ALLOCATION_TIMEOUT",
                "RESOURCE_ALLOCATION_TIMEOUT",
                "ALLOCATING",
            ];
            let reason = "Not all tasks of the gang became ready in time.";
            let behavior = Behavior::TransientConflict;
            bare(
                EXIT_BARRIER_TIMEOUT,
                "JobGangAllocationTimeout",
                kind,
                behavior,
                reason,
            )
        }
        Cause::Preempted => {
            gave_way("It gave way to a job with a better claim, and waits for its turn again.")
        }
        Cause::Drained => {
            gave_way("An admin has its node drained; it waits for its turn to run on other nodes.")
        }
        Cause::Lost | Cause::NodeRestarted => lost(),
        Cause::LeaseEnded => vanished(
            "Nothing was heard of the task's node for so long that its run lease ended, and with \
             it the task.",
        ),
        Cause::NodeSilent => vanished(
            "The task's node cannot be reached, and the job is to start anew elsewhere at once.",
        ),
        Cause::DeviceLost => {
            let kind = ["PAI_RUNTIME", "PAI_HW", "PLATFORM_FAILURE", "RUNNING"];
            let reason = "A device of the task vanished from its node.";
            let phrase = "ContainerDeviceFault";
            bare(DEVICE_FAULTS[0], phrase, kind, Behavior::Transient, reason)
        }
        Cause::RunTimeOver => run_time_over("The job ran for as long as it may."),
        Cause::NodeOff => vanished("An admin said that the task's node is off."),
        Cause::AttemptCompleted
        | Cause::ImageNotFound
        | Cause::RegistryUnknown
        | Cause::ImageNotFetched
        | Cause::CommandNotFound
        | Cause::EngineRefused
        | Cause::PortConflict
        | Cause::RuntimeFailed
        | Cause::StorageFailed
        | Cause::DiskLimit => {
            let kind = ["PAI_FC", "USER_STOP", "USER_STOP", "UNKNOWN"];
            let reason = "The task was stopped because its job attempt was decided.";
            let phrase = "FrameworkAttemptCompletion";
            bare(
                EXIT_ATTEMPT_COMPLETED,
                phrase,
                kind,
                Behavior::Permanent,
                reason,
            )
        }
    }
}

/// The verdict of a task that was being stopped when it ended: the stop's meaning with the
/// exit's facts. The logs are left out; the log files keep them.
pub(crate) fn overruled(cause: Cause, exit: Verdict) -> Verdict {
    Verdict {
        container_exit_code: exit.container_exit_code,
        origin_exit_code: exit.origin_exit_code,
        signal: exit.signal,
        device_events: exit.device_events,
        used: exit.used,
        ..stopped(cause)
    }
}

/// A task of the gang had a device or a link that failed, as its machine reported.
pub(crate) fn device_fault(event: &DeviceEvent) -> Verdict {
    let [fault, link, contained] = DEVICE_FAULTS;
    let (code, phrase, what) = match event.class {
        EventClass::Link => (link, "ContainerDeviceLinkFault", "A link of a device"),
        EventClass::ContainedEcc => (
            contained,
            "ContainerDeviceMemoryErrorContained",
            "The memory of a device",
        ),
        _ => (fault, "ContainerDeviceFault", "A device"),
    };
    let kind = ["PAI_RUNTIME", "PAI_HW", "PLATFORM_FAILURE", "RUNNING"];
    let reason = format!("{what} of the job failed while it ran: \"{}\".", event.text);
    Verdict {
        device_events: vec![event.clone()],
        ..bare(code, phrase, kind, Behavior::Transient, &reason)
    }
}

fn bare(
    code: i32,
    phrase: &str,
    [issuer, causer, kind, stage]: [&str; 4],
    behavior: Behavior,
    reason: &str,
) -> Verdict {
    Verdict {
        spec: ExitSpec {
            code,
            phrase: phrase.to_owned(),
            issuer: Some(issuer.to_owned()),
            causer: Some(causer.to_owned()),
            kind: Some(kind.to_owned()),
            stage: Some(stage.to_owned()),
            behavior,
            // Upstream's row of a success has neither.
            reaction: (code != 0).then(|| reaction(behavior).to_owned()),
            reason: (code != 0).then(|| reason.to_owned()),
            ..ExitSpec::default()
        },
        container_exit_code: None,
        origin_exit_code: None,
        signal: None,
        matched_user_log: None,
        matched_platform_log: None,
        user_log: String::new(),
        platform_log: String::new(),
        device_events: Vec::new(),
        used: None,
        judged: None,
        progress: None,
        diagnostics: reason.to_owned(),
    }
}

/// What the platform does by itself, in OpenPAI's words.
const fn reaction(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Transient => "ALWAYS_RETRY",
        Behavior::TransientConflict => "ALWAYS_BACKOFF_RETRY",
        Behavior::Permanent => "NEVER_RETRY",
        Behavior::Unknown => "RETRY_TO_MAX",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_our_own_says_why_and_what_the_platform_does() {
        for (cause, code, reaction) in [
            (Cause::UserStop, EXIT_STOPPED, "NEVER_RETRY"),
            (
                Cause::AttemptCompleted,
                EXIT_ATTEMPT_COMPLETED,
                "NEVER_RETRY",
            ),
            (
                Cause::BarrierTimeout,
                EXIT_BARRIER_TIMEOUT,
                "ALWAYS_BACKOFF_RETRY",
            ),
            (Cause::Preempted, EXIT_PREEMPTED, "ALWAYS_RETRY"),
            (Cause::Drained, EXIT_PREEMPTED, "ALWAYS_RETRY"),
            (Cause::NodeOff, EXIT_LOST, "ALWAYS_RETRY"),
            (Cause::LeaseEnded, EXIT_LOST, "ALWAYS_RETRY"),
            (Cause::RunTimeOver, EXIT_RUN_TIME, "NEVER_RETRY"),
        ] {
            let Verdict {
                spec, diagnostics, ..
            } = stopped(cause);
            assert_eq!(spec.code, code, "{cause:?}");
            assert_eq!(spec.reaction.as_deref(), Some(reaction), "{cause:?}");
            assert_eq!(spec.reason, Some(diagnostics), "{cause:?}");
        }
        let succeeded = succeeded().spec;
        assert_eq!((succeeded.reaction, succeeded.reason), (None, None));
    }
}
