//! A rule as the file gives it, with its expressions compiled.

use muster_model::exit::ExitSpec;
use muster_model::health::{DeviceEvent, EventClass};

use crate::ending::{EndReport, Launcher, ReportedEnd};
use crate::pattern::CompiledPattern;
use crate::scan::PatternId;
use crate::treatment::Treatment;

/// One row of a rule file: a code, what it means, and how it is recognized.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) spec: ExitSpec,
    /// Matched against the user's exit code and the logs; any one is enough.
    pub(crate) runtime: Vec<RuntimePattern>,
    /// Matched against the platform's own findings; any one is enough.
    pub(crate) pod: Vec<PodPattern>,
    pub(crate) treatment: Treatment,
}

/// Facts from inside the container. All that are given must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuntimePattern {
    pub(crate) exit_code: Option<i32>,
    pub(crate) user_log: Option<PatternId>,
    /// Looks only at this many last lines of the user log. Our addition to the format: an
    /// error that the program survived long ago is not what ended it.
    pub(crate) user_log_last_lines: Option<usize>,
    /// Where in the end of the user log the expression looks; in the log as it is if absent. The
    /// following are additions of ours too.
    pub(crate) user_log_in: Option<EndPlace>,
    /// Must occur in the end of the user log before what `user_log` matches.
    pub(crate) user_log_before: Option<PatternId>,
    /// Must not occur in the end of the user log.
    pub(crate) user_log_not: Option<PatternId>,
    /// What a launcher or a shell reported of the program.
    pub(crate) reported: Option<ReportedPattern>,
    pub(crate) role: LineRole,
    pub(crate) platform_log: Option<PatternId>,
    pub(crate) double_ecc_error: Option<bool>,
    /// Our addition to the format.
    pub(crate) device_event: Option<DeviceEventPattern>,
}

/// Where in the end of a log an expression looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndPlace {
    /// The message of the error that ended the command, and the program's last lines after it.
    Error,
    /// The message of the error alone.
    Message,
    /// The messages of the error and of those that it came from.
    Messages,
    /// The same, and the messages of the errors that it came from.
    Chain,
    /// The same as `Error`, with the traceback.
    Traceback,
    /// The program's last line.
    Last,
    /// All last lines, whatever printed them.
    End,
}

impl EndPlace {
    pub(crate) const NAMES: [(&str, Self); 7] = [
        ("error", Self::Error),
        ("message", Self::Message),
        ("messages", Self::Messages),
        ("chain", Self::Chain),
        ("traceback", Self::Traceback),
        ("last", Self::Last),
        ("end", Self::End),
    ];
}

/// What a match says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineRole {
    /// Why the task failed.
    #[default]
    Root,
    /// What another process or task caused here. A root of another process explains more.
    Cascade,
    /// That it failed. It stands if nothing says why.
    Confirmation,
}

impl LineRole {
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("root", Self::Root),
        ("cascade", Self::Cascade),
        ("confirmation", Self::Confirmation),
    ];
}

/// A report for which all that is given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedPattern {
    /// Any of these; any at all if there are none.
    pub(crate) launchers: Vec<Launcher>,
    /// The program was ended by one of these signals.
    pub(crate) signals: Vec<i32>,
    /// The program ended with one of these codes.
    pub(crate) exit_codes: Vec<i32>,
}

impl ReportedPattern {
    pub(crate) fn matches(&self, report: &EndReport) -> bool {
        let is_known = self.launchers.is_empty() || self.launchers.contains(&report.launcher);
        is_known
            && match report.end {
                ReportedEnd::Exit(code) => self.exit_codes.contains(&code),
                ReportedEnd::Signal(signal) => self.signals.contains(&signal),
            }
    }
}

/// One event of a device of the task for which all that is given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceEventPattern {
    /// Any of these classes; any class at all if there are none.
    pub(crate) classes: Vec<EventClass>,
    /// Any of these codes; any code at all if there are none.
    pub(crate) codes: Vec<String>,
}

impl DeviceEventPattern {
    pub(crate) fn matches(&self, event: &DeviceEvent) -> bool {
        (self.classes.is_empty() || self.classes.contains(&event.class))
            && (self.codes.is_empty() || self.codes.contains(&event.code))
    }
}

/// Facts from outside the container. All that are given must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodPattern {
    pub(crate) reason: Option<CompiledPattern>,
    pub(crate) message: Option<CompiledPattern>,
    pub(crate) containers: Vec<ContainerPattern>,
}

/// Facts about one container. All that are given must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerPattern {
    pub(crate) name: Option<CompiledPattern>,
    pub(crate) reason: Option<CompiledPattern>,
    pub(crate) message: Option<CompiledPattern>,
    /// Absent means any failure: 1 and above.
    pub(crate) exit_code: Option<i32>,
}
