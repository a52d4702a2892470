//! A rule as the file gives it, with its expressions compiled.

use muster_model::exit::ExitSpec;
use muster_model::health::{DeviceEvent, EventClass};

use crate::pattern::CompiledPattern;
use crate::scan::PatternId;

/// One row of a rule file: a code, what it means, and how it is recognized.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) spec: ExitSpec,
    /// Matched against the user's exit code and the logs; any one is enough.
    pub(crate) runtime: Vec<RuntimePattern>,
    /// Matched against the platform's own findings; any one is enough.
    pub(crate) pod: Vec<PodPattern>,
}

/// Facts from inside the container. All that are given must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuntimePattern {
    pub(crate) exit_code: Option<i32>,
    pub(crate) user_log: Option<PatternId>,
    /// Looks only at this many last lines of the user log. Our addition to the format: an
    /// error that the program survived long ago is not what ended it.
    pub(crate) user_log_last_lines: Option<usize>,
    pub(crate) platform_log: Option<PatternId>,
    pub(crate) double_ecc_error: Option<bool>,
    /// Our addition to the format.
    pub(crate) device_event: Option<DeviceEventPattern>,
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
