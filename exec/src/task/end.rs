//! How a task ended, put together from those who saw it.

use std::time::{SystemTime, UNIX_EPOCH};

use muster_init::exit_report::{ExitReport, FailureKind, TaskPhase as InitPhase};
use muster_model::exit::{Cause, ExitPhase, RawExit};

use crate::engine::{EngineExit, Usage};

/// 128 + SIGKILL.
const CODE_KILLED: i32 = 137;
const SIGNAL_BASE: i32 = 128;

/// Who saw the end.
#[derive(Clone, Debug)]
pub(super) enum Witness {
    /// muster-init itself.
    Report(ExitReport),
    /// Only the engine: muster-init was killed.
    Engine(EngineExit),
    /// Nobody: the container or its process is missing.
    Nobody(Cause, String),
}

/// A stop as it was carried out.
#[derive(Clone, Debug)]
pub(super) struct StopCause {
    pub(super) cause: Cause,
    pub(super) message: String,
}

/// The facts of the end. `reached` is how far the task was known to have come.
pub(super) fn raw_exit(
    witness: &Witness,
    reached: InitPhase,
    stop: Option<&StopCause>,
    usage: Usage,
) -> RawExit {
    let mut exit = match witness {
        Witness::Report(report) => from_report(report),
        Witness::Engine(ended) => from_engine(*ended, reached),
        Witness::Nobody(cause, message) => from_nobody(*cause, message, reached),
    };
    exit.oom_killed = usage.oom_kills > 0 && exit.code != 0;
    exit.own_doing &= !exit.oom_killed;
    // A task that ended by itself before the stop arrived was not ended by it.
    let stopped = match witness {
        Witness::Report(report) => report.stopped,
        Witness::Engine(_) | Witness::Nobody(..) => true,
    };
    if let Some(stop) = stop.filter(|_| stopped) {
        exit.cause = Some(stop.cause);
        exit.message.clone_from(&stop.message);
    }
    exit
}

fn from_report(report: &ExitReport) -> RawExit {
    let failure = report.failure.as_ref();
    RawExit {
        code: report.code,
        signal: report.signal,
        oom_killed: false,
        own_doing: !report.stopped && !report.lease_ended && failure.is_none(),
        phase: phase_of(report.phase),
        cause: match failure.map(|failure| failure.kind) {
            Some(FailureKind::NoShell) => Some(Cause::CommandNotFound),
            Some(FailureKind::Runtime) => Some(Cause::RuntimeFailed),
            // It would be so on any machine, at each try.
            Some(FailureKind::TooLong) => Some(Cause::EngineRefused),
            None => report.lease_ended.then_some(Cause::LeaseEnded),
        },
        message: failure.map(|it| it.message.clone()).unwrap_or_default(),
        ended_ms: report.ended_ms,
    }
}

fn from_engine(ended: EngineExit, reached: InitPhase) -> RawExit {
    let code = i32::try_from(ended.code).unwrap_or(CODE_KILLED);
    RawExit {
        code,
        signal: (code > SIGNAL_BASE).then(|| code - SIGNAL_BASE),
        oom_killed: false,
        // Nothing inside can end a container's first process.
        own_doing: false,
        phase: phase_of(reached),
        cause: None,
        message: "only the container engine saw it end".to_owned(),
        ended_ms: match ended.ended_ms {
            0 => now_ms(),
            ms => ms,
        },
    }
}

fn from_nobody(cause: Cause, message: &str, reached: InitPhase) -> RawExit {
    RawExit {
        code: CODE_KILLED,
        signal: None,
        oom_killed: false,
        own_doing: false,
        phase: phase_of(reached),
        cause: Some(cause),
        message: message.to_owned(),
        ended_ms: now_ms(),
    }
}

/// Stored for readers of the log where muster-init could not store one.
pub(super) fn report_of(exit: &RawExit, reached: InitPhase, launched_ms: u64) -> ExitReport {
    ExitReport {
        code: exit.code,
        signal: exit.signal,
        phase: reached,
        stopped: exit.cause.is_some(),
        lease_ended: exit.cause == Some(Cause::LeaseEnded),
        launched_ms,
        ended_ms: exit.ended_ms,
        failure: None,
    }
}

const fn phase_of(phase: InitPhase) -> ExitPhase {
    match phase {
        InitPhase::Setup | InitPhase::Ready => ExitPhase::Launch,
        InitPhase::PreCommands => ExitPhase::PreCommands,
        InitPhase::UserCommands | InitPhase::Ended => ExitPhase::UserCommands,
        InitPhase::PostCommands => ExitPhase::PostCommands,
    }
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(code: i32, stopped: bool) -> Witness {
        Witness::Report(ExitReport {
            code,
            signal: None,
            phase: InitPhase::UserCommands,
            stopped,
            lease_ended: false,
            launched_ms: 1,
            ended_ms: 2,
            failure: None,
        })
    }

    #[test]
    fn a_task_ended_by_itself_where_nobody_else_can_have() {
        let killed = Witness::Engine(EngineExit {
            code: 137,
            ended_ms: 3,
        });
        let nobody = Witness::Nobody(Cause::Lost, String::new());
        for (witness, oom_kills, own_doing) in [
            (report(137, false), 0, true),
            (report(137, false), 1, false),
            (report(143, true), 0, false),
            (killed, 0, false),
            (nobody, 0, false),
        ] {
            let usage = Usage {
                oom_kills,
                ..Usage::default()
            };
            let exit = raw_exit(&witness, InitPhase::UserCommands, None, usage);
            assert_eq!(exit.own_doing, own_doing, "{witness:?} {oom_kills}");
        }
    }

    #[test]
    fn causes_and_oom_are_told_only_where_they_hold() {
        let stop = StopCause {
            cause: Cause::UserStop,
            message: String::new(),
        };
        let killed = EngineExit {
            code: 137,
            ended_ms: 3,
        };
        let check = |witness: &Witness, stop: Option<&StopCause>, oom_kills| {
            let usage = Usage {
                oom_kills,
                ..Usage::default()
            };
            let exit = raw_exit(witness, InitPhase::UserCommands, stop, usage);
            (exit.code, exit.signal, exit.oom_killed, exit.cause)
        };
        let user = Some(Cause::UserStop);
        assert_eq!(check(&report(3, false), None, 0), (3, None, false, None));
        assert_eq!(check(&report(137, false), None, 2), (137, None, true, None));
        assert_eq!(check(&report(0, false), None, 2), (0, None, false, None));
        assert_eq!(
            check(&report(1, false), Some(&stop), 0),
            (1, None, false, None)
        );
        assert_eq!(
            check(&report(0, true), Some(&stop), 0),
            (0, None, false, user)
        );
        let engine = Witness::Engine(killed);
        assert_eq!(check(&engine, None, 1), (137, Some(9), true, None));
        assert_eq!(check(&engine, Some(&stop), 0), (137, Some(9), false, user));
        let Witness::Report(of_init) = report(143, true) else {
            panic!("not muster-init's");
        };
        let lease_ended = Witness::Report(ExitReport {
            lease_ended: true,
            ..of_init
        });
        let over = Some(Cause::LeaseEnded);
        assert_eq!(check(&lease_ended, None, 0), (143, None, false, over));
        let nobody = Witness::Nobody(Cause::Lost, String::new());
        assert_eq!(
            check(&nobody, None, 0),
            (137, None, false, Some(Cause::Lost))
        );
    }
}
