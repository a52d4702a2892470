//! How a task ended: the raw facts, the exit spec rows, and the verdict drawn from both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::health::DeviceEvent;
use crate::rule_test::JudgedAs;
use crate::task_use::TaskUsed;

/// Where in a task's life it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitPhase {
    /// Before any command ran: image, devices, ports, mounts, container creation.
    Launch,
    /// In the runtime plugins' commands that run first.
    PreCommands,
    /// In the user's commands.
    UserCommands,
    /// In the runtime plugins' commands that run after a success.
    PostCommands,
}

/// The platform's own reason for an end, where there was one. Each maps to one exit spec code
/// of OpenPAI, so that old tools keep their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The user asked for the stop (-210).
    UserStop,
    /// The attempt was decided by other tasks (-220).
    AttemptCompleted,
    /// The image name, the registry's answer or the login is definitely wrong (254).
    ImageNotFound,
    /// The image has no shell to run commands with (-1203).
    CommandNotFound,
    /// The engine could not create or start the container, maybe by the container's fault (-1204).
    EngineRefused,
    /// A port, mount or device was taken, missing or sick when the container was to be made (253).
    PortConflict,
    /// The gang did not become ready in time (251).
    BarrierTimeout,
    /// The runtime inside the container failed before the user's command (250).
    RuntimeFailed,
    /// The writable layer grew over its limit (-1000, as an eviction).
    DiskLimit,
    /// The container or its process vanished without an exit (-101).
    Lost,
    /// The node was restarted (-101).
    NodeRestarted,
    /// A gang with a better claim needed its place (-1003).
    Preempted,
    /// Nobody renewed its run lease: its node was cut off for too long (-101).
    LeaseEnded,
    /// Its node cannot be reached, and the job does not wait for it (-101).
    NodeSilent,
    /// An admin moves work off its node (-1003).
    Drained,
    /// A device of it vanished from its node (211).
    DeviceLost,
    /// An admin said that its node is off (-101).
    NodeOff,
    /// The host name of the image's registry cannot be resolved (254): a few tries are made, since the name
    /// service may be away.
    RegistryUnknown,
    /// The image could not be fetched for a reason that may pass: the registry, or the way to it (250).
    ImageNotFetched,
    /// A storage of the task cannot be mounted, or its server does not answer (219).
    StorageFailed,
    /// It ran for as long as it may (209).
    RunTimeOver,
}

/// The facts of one task's end, as its node saw them. Input of the failure rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawExit {
    /// Exit status as a shell would see it: 128+N for signal N.
    pub code: i32,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The kernel killed a process of it at the memory limit.
    pub oom_killed: bool,
    /// The task ended by itself: its first process saw it end, nobody outside had asked for that,
    /// and no memory limit was met. What signal there was came from the task's own processes.
    pub own_doing: bool,
    /// Where it ended.
    pub phase: ExitPhase,
    /// The platform's own reason, if the platform ended it or could not run it.
    pub cause: Option<Cause>,
    /// What the platform has to say: an engine's error text, a limit and its value.
    pub message: String,
    /// When it ended, milliseconds since the epoch.
    pub ended_ms: u64,
}

/// The raw exit with the ends of the logs: everything that the rules look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How it ended.
    pub exit: RawExit,
    /// The end of the merged user log.
    pub user_log: Vec<u8>,
    /// Where it begins: bytes of the user log from its first one that was ever written.
    pub user_log_from: u64,
    /// The end of the runtime's own log.
    pub platform_log: Vec<u8>,
    /// What the kernel and drivers reported of the task's own devices during its life, the oldest
    /// first.
    pub device_events: Vec<DeviceEvent>,
}

/// The end of a task as a user describes it, to be held against the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriedEnd {
    /// Exit status as a shell would see it: 128+N for signal N.
    pub exit_code: i32,
    /// Whether the kernel killed a process of it at the memory limit.
    pub oom_killed: bool,
    /// The end of its log.
    pub user_log: String,
    /// The end of the runtime's own log.
    pub platform_log: String,
}

impl From<&TriedEnd> for Evidence {
    /// As of a task whose command ended by itself, if not at the memory limit.
    fn from(end: &TriedEnd) -> Self {
        let signal = end.exit_code - 128;
        Self {
            exit: RawExit {
                code: end.exit_code,
                signal: (1..=64).contains(&signal).then_some(signal),
                oom_killed: end.oom_killed,
                own_doing: !end.oom_killed,
                phase: ExitPhase::UserCommands,
                cause: None,
                message: String::new(),
                ended_ms: 0,
            },
            user_log: end.user_log.clone().into_bytes(),
            user_log_from: 0,
            platform_log: end.platform_log.clone().into_bytes(),
            device_events: Vec::new(),
        }
    }
}

/// Whether running again may help. Decides retries (FrameworkController's attributes).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Behavior {
    /// Passes by itself: retried at once, not counted against the user.
    Transient,
    /// Passes when others give way: retried after a back-off, not counted.
    TransientConflict,
    /// Will fail again: not retried.
    Permanent,
    /// Not known: retried as often as the user allows.
    #[default]
    Unknown,
}

/// One row of the exit spec: a code and what it means. Field names are OpenPAI's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExitSpec {
    /// The code, unique.
    pub code: i32,
    /// The code in words, unique.
    pub phrase: String,
    /// Who raised it.
    #[serde(default)]
    pub issuer: Option<String>,
    /// Who caused it.
    #[serde(default)]
    pub causer: Option<String>,
    /// USER_SUCCESS, USER_STOP, USER_FAILURE, PLATFORM_FAILURE,
    /// RESOURCE_ALLOCATION_TIMEOUT or UNKNOWN_FAILURE.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// The stage just before.
    #[serde(default)]
    pub stage: Option<String>,
    /// Whether running again may help.
    #[serde(default)]
    pub behavior: Behavior,
    /// What the platform does by itself.
    #[serde(default)]
    pub reaction: Option<String>,
    /// Why, in a sentence.
    #[serde(default)]
    pub reason: Option<String>,
    /// How to make it happen.
    #[serde(default)]
    pub repro: Vec<String>,
    /// What to do about it.
    #[serde(default)]
    pub solution: Vec<String>,
}

/// Codes of ends that a device, a link or a contained memory error brought about.
pub const DEVICE_FAULTS: [i32; 3] = [211, 212, 213];

/// Codes of ends that another task of the job brought about, by its own end or by its absence.
pub const PEER_FAULTS: [i32; 2] = [238, 241];

/// Most events of devices in a verdict.
pub const DEVICE_EVENTS_MAX: usize = 8;

/// What the rules say of one end. Goes into the job record and is shown to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The row that was found; `spec.code` is the code users see.
    pub spec: ExitSpec,
    /// What OpenPAI's container would have exited with; absent if none ran.
    pub container_exit_code: Option<i32>,
    /// The user command's own exit status; absent if it never ran.
    pub origin_exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The part of the user log that a rule matched.
    pub matched_user_log: Option<String>,
    /// The part of the runtime log that a rule matched.
    pub matched_platform_log: Option<String>,
    /// Last lines of the user log, or the lines around the match.
    pub user_log: String,
    /// Last lines of the runtime log.
    pub platform_log: String,
    /// What was reported of the task's devices during its life: those events that explain the
    /// end first, at most [`DEVICE_EVENTS_MAX`].
    pub device_events: Vec<DeviceEvent>,
    /// One readable sentence or two: what ended it.
    pub diagnostics: String,
    /// What the task used until then; absent if it never ran, or of what decides about several tasks.
    pub used: Option<TaskUsed>,
    /// Which rule led to the verdict; absent if no node judged, as for a job that was stopped.
    pub judged: Option<JudgedBy>,
    /// How far its log says that it came; absent if it says nothing of it.
    pub progress: Option<Progress>,
}

/// How far a program came, by the last lines of its log that count epochs or steps. At least one is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// The last epoch.
    pub epoch: Option<u64>,
    /// The last step, iteration or checkpoint.
    pub step: Option<u64>,
}

impl Progress {
    /// Whether it is further than `before`. Steps may begin anew with each epoch.
    pub fn is_beyond(&self, before: &Self) -> bool {
        match (self.epoch, before.epoch) {
            (Some(now), Some(then)) if now != then => now > then,
            _ => matches!((self.step, before.step), (Some(now), Some(then)) if now > then),
        }
    }
}

/// The rule that led to a verdict, and where in the log it matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedBy {
    /// The version of the failure rules; 0 for those that are part of the program.
    pub rules_version: u64,
    /// Which of the patterns of the verdict's rule held, counted from 1; absent if the code follows from the exit
    /// itself.
    pub pattern: Option<u32>,
    /// Where the lines that it matched stand in the task's log; absent if it matched none there.
    pub place: Option<LinePlace>,
    /// What the verdict would be if the rules in shadow decided; absent if it would be the same.
    pub shadow: Option<JudgedAs>,
    /// Whether the rule has the next attempt go to other nodes, if they have room.
    pub goes_elsewhere: bool,
    /// So many attempts in a row that end so are the last, by the rule; absent if it has no such limit.
    pub in_a_row_max: Option<u32>,
}

/// Where lines stand in the log of a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinePlace {
    /// The first byte of the first line, counted from the first byte that was ever written.
    pub offset: u64,
    /// The number of that line, counted from 1; absent if older lines are gone or were not read.
    pub line: Option<u64>,
    /// Bytes from there to the log's end.
    pub to_end: u64,
}

impl Verdict {
    /// The code users see.
    pub const fn code(&self) -> i32 {
        self.spec.code
    }

    /// Whether the rules took the end of another task for what ended this one.
    pub fn is_peer_fault(&self) -> bool {
        PEER_FAULTS.contains(&self.spec.code)
    }

    /// The event of a device of the task, or of its links, that no program brings about.
    pub fn device_fault(&self) -> Option<&DeviceEvent> {
        self.device_events.iter().find(|event| event.is_fault())
    }

    /// Whether the rules took such an event for what ended the task.
    pub fn is_device_fault(&self) -> bool {
        DEVICE_FAULTS.contains(&self.spec.code) && self.device_fault().is_some()
    }
}
