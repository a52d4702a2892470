//! The policy of a cluster: what holds on all its machines alike. It is one of the cluster's documents.

mod access;
mod health;
mod job;
mod limit;
mod period;
mod plugin;

use serde::{Deserialize, Serialize};

use crate::cluster_spec::SpecProblem;
use crate::document_text::{self, TextLimits};

pub use access::{AccessPolicy, JobVisibility};
pub use health::{BreakerPolicy, HealthPolicy};
pub use job::{JobBounds, JobPolicy, VcJobBounds};
pub use limit::{LIMITS_MAX, LimitSubject, UsageLimit};
pub(crate) use period::date;
pub use period::{DAY_MS, LimitPeriod, PeriodSpan};
pub use plugin::{PLUGINS_MAX, PluginPlace, PortalPlugin, PortalPolicy, host_of};

/// Most bytes of a policy that is read.
pub const POLICY_BYTES_MAX: usize = 64 << 10;

/// Longest time that `placement` admits, in seconds.
const PLACEMENT_S_MAX: u64 = 10 * 365 * DAY_S;
const DAY_S: u64 = 24 * 3600;

/// What holds on all machines of a cluster alike. What is not named has the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterPolicy {
    /// Whose turn it is when not every job fits.
    pub placement: PlacementPolicy,
    /// Limits of tasks.
    pub tasks: TaskPolicy,
    /// Logs of finished tasks.
    pub logs: LogPolicy,
    /// How documents come into force.
    pub documents: DocumentPolicy,
    /// Which users see which jobs.
    pub access: AccessPolicy,
    /// How much of a virtual cluster users and groups may have.
    pub limits: Vec<UsageLimit>,
    /// How long jobs may run.
    pub jobs: JobPolicy,
    /// What rules of health may do.
    pub health: HealthPolicy,
    /// What the portal shows besides its own pages.
    pub portal: PortalPolicy,
}

/// Whose turn it is when not every job fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlacementPolicy {
    /// How long a job runs before a more important one of its own virtual cluster may evict it, in
    /// seconds. 0: at once. Opportunistic jobs always make room at once for a job that was promised
    /// their devices.
    pub min_run_s: u64,
    /// Of jobs that ask for as much, the one whose user has the least comes first.
    pub fair_share: bool,
    /// Jobs that ask for fewer devices come first, until others are overdue.
    pub smaller_first: bool,
    /// A job that has waited this long, in seconds, is overdue: it comes before its equals, and
    /// devices are kept for it. 0: never.
    pub overdue_after_s: u64,
    /// The same for a job that needs several machines; the larger its share of its virtual cluster,
    /// the later. 0: as for the others.
    pub wide_overdue_after_s: u64,
    /// How much of a virtual cluster is kept for overdue jobs at a time, in percent. The oldest of
    /// them has its devices kept in any case.
    pub kept_percent: u8,
}

impl Default for PlacementPolicy {
    fn default() -> Self {
        Self {
            min_run_s: 0,
            fair_share: true,
            smaller_first: true,
            overdue_after_s: DAY_S,
            wide_overdue_after_s: 3600,
            kept_percent: 25,
        }
    }
}

/// Limits of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TaskPolicy {
    /// Processes and threads of one task; a quarter of `kernel.pid_max` of its machine where that is
    /// less.
    pub pids: u32,
    /// Size of a task's writable layer in MiB; half of the disk if that is less. 0 for no limit.
    pub disk_mb: u64,
    /// Time between SIGTERM and SIGKILL, in milliseconds.
    pub stop_grace_ms: u64,
}

impl Default for TaskPolicy {
    fn default() -> Self {
        Self {
            pids: 32_768,
            disk_mb: 102_400,
            stop_grace_ms: 20_000,
        }
    }
}

/// Logs of finished tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogPolicy {
    /// Days that they are kept.
    pub days: u32,
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self { days: 30 }
    }
}

/// How documents come into force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentPolicy {
    /// How long the first machines use a new version of the failure rules before all others follow,
    /// in seconds.
    pub soak_s: u32,
}

impl Default for DocumentPolicy {
    fn default() -> Self {
        Self { soak_s: 60 }
    }
}

impl ClusterPolicy {
    /// The default as a text, with what each field means: to be edited.
    pub const fn default_text() -> &'static str {
        include_str!("default.yaml")
    }

    /// Reads a policy.
    ///
    /// # Errors
    /// Everything that is wrong, each with the path of the field.
    pub fn read(text: &str) -> Result<Self, Vec<SpecProblem>> {
        let limits = TextLimits {
            bytes: POLICY_BYTES_MAX,
            depth: 16,
            nodes: 8_192,
        };
        let policy: Self = document_text::read(text, limits).map_err(|problem| vec![problem])?;
        let problems = policy.problems();
        match problems.is_empty() {
            true => Ok(policy),
            false => Err(problems),
        }
    }

    fn problems(&self) -> Vec<SpecProblem> {
        let mut problems = Vec::new();
        let mut at_most = |field: &str, value: u64, most: u64, unit: &str| {
            if value > most {
                problems.push(SpecProblem::new(
                    field,
                    format!("must be at most {most}{unit}"),
                ));
            }
        };
        let placement = &self.placement;
        for (field, value) in [
            ("placement.min_run_s", placement.min_run_s),
            ("placement.overdue_after_s", placement.overdue_after_s),
            (
                "placement.wide_overdue_after_s",
                placement.wide_overdue_after_s,
            ),
        ] {
            at_most(field, value, PLACEMENT_S_MAX, ", which is ten years");
        }
        at_most(
            "placement.kept_percent",
            placement.kept_percent.into(),
            100,
            "",
        );
        let grace = self.tasks.stop_grace_ms;
        at_most(
            "tasks.stop_grace_ms",
            grace,
            DAY_S * 1000,
            ", which is a day",
        );
        let soak = self.documents.soak_s.into();
        at_most("documents.soak_s", soak, DAY_S, ", which is a day");
        if self.tasks.pids < 16 {
            problems.push(SpecProblem::new("tasks.pids", "must be at least 16"));
        }
        problems.extend(health::problems(&self.health));
        problems.extend(limit::problems(&self.limits));
        problems.extend(job::problems(&self.jobs));
        problems.extend(plugin::problems(&self.portal.plugins));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_that_is_edited_first_names_every_field_with_its_default() {
        let text = ClusterPolicy::default_text();
        assert_eq!(ClusterPolicy::read(text).unwrap(), ClusterPolicy::default());
        let shown: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(
            shown,
            serde_json::to_value(ClusterPolicy::default()).unwrap()
        );
    }

    #[test]
    fn what_is_not_named_has_the_default() {
        let read = ClusterPolicy::read("tasks: {pids: 100}").unwrap();
        let expect = ClusterPolicy {
            tasks: TaskPolicy {
                pids: 100,
                ..TaskPolicy::default()
            },
            ..ClusterPolicy::default()
        };
        assert_eq!(read, expect);
        assert_eq!(ClusterPolicy::read("{}").unwrap(), ClusterPolicy::default());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        for (text, expect) in [
            (
                "placement: {kept_percent: 101}",
                "placement.kept_percent: must be at most 100",
            ),
            ("placement: {min_run_s: -1}", "placement.min_run_s: "),
            (
                "placement: {overdue_after_s: 315360001}",
                "placement.overdue_after_s: must be at most 315360000, which is ten years",
            ),
            ("tasks: {pids: 1}", "tasks.pids: must be at least 16"),
            ("tasks: {stop_grace_ms: 86400001}", "tasks.stop_grace_ms"),
            ("documents: {soak_s: 86401}", "documents.soak_s"),
            (
                "health: {breaker: {window_s: 0}}",
                "health.breaker.window_s: must be from 1 to 86400",
            ),
            (
                "health: {breaker: {share_percent: 101}}",
                "health.breaker.share_percent: must be at most 100",
            ),
            ("task: {pids: 100}", "task"),
            ("3", "expected mapping"),
        ] {
            let problems = ClusterPolicy::read(text).unwrap_err();
            let told = problems[0].to_string();
            assert!(told.contains(expect), "{text}: {told}");
        }
        let long = " ".repeat(POLICY_BYTES_MAX + 1);
        assert!(ClusterPolicy::read(&long).is_err());
    }
}
