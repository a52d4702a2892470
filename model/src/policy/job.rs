//! What holds for the jobs of a virtual cluster: how long they run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cluster_spec::SpecProblem;
use crate::id::VcName;
use crate::job::{HOLD_S_MAX, JobSpec};
use crate::protocol::{JobProblem, RUN_S_MAX};

/// What holds for jobs, in all virtual clusters and in single ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobPolicy {
    /// In all virtual clusters, unless an entry of `vcs` says otherwise. What is not named has the default.
    pub all: JobBounds,
    /// By virtual cluster. What an entry does not name holds as in `all`.
    pub vcs: BTreeMap<VcName, JobBounds>,
}

/// Bounds of jobs, all in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobBounds {
    /// The run time limit of a job that declares no run time. 0: it has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_time_s: Option<u64>,
    /// The longest run time of any job. 0: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_time_max_s: Option<u64>,
    /// The longest that the container of a failed task is kept. 0: none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_max_s: Option<u64>,
}

/// The longest that the container of a failed task is kept where the policy does not say, seconds.
const HOLD_MAX_S: u64 = 24 * 3600;

impl Default for JobPolicy {
    fn default() -> Self {
        Self {
            all: JobBounds {
                run_time_s: Some(0),
                run_time_max_s: Some(0),
                hold_max_s: Some(HOLD_MAX_S),
            },
            vcs: BTreeMap::new(),
        }
    }
}

/// What holds for the jobs of one virtual cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcJobBounds {
    /// The run time limit of a job that declares no run time, seconds.
    pub run_time_s: Option<u64>,
    /// The longest run time of any job, seconds.
    pub run_time_max_s: Option<u64>,
    /// The longest that the container of a failed task is kept, seconds; 0: none is.
    pub hold_max_s: u64,
}

impl JobPolicy {
    /// What holds in this virtual cluster.
    pub fn of(&self, vc: &VcName) -> VcJobBounds {
        let own = self.vcs.get(vc);
        let seconds = |field: fn(&JobBounds) -> Option<u64>, usual| {
            let named = own.and_then(field).or_else(|| field(&self.all));
            named.unwrap_or(usual)
        };
        let above_0 = |seconds: u64| Some(seconds).filter(|seconds| *seconds > 0);
        VcJobBounds {
            run_time_s: above_0(seconds(|bounds| bounds.run_time_s, 0)),
            run_time_max_s: above_0(seconds(|bounds| bounds.run_time_max_s, 0)),
            hold_max_s: seconds(|bounds| bounds.hold_max_s, HOLD_MAX_S),
        }
    }
}

impl VcJobBounds {
    /// After so many seconds each attempt of the job is ended; none: it may run for as long as it likes.
    ///
    /// The run time that a job declares is its limit where the job or the virtual cluster makes it one.
    pub fn run_limit_s(&self, job: &JobSpec) -> Option<u64> {
        let has_limits = self.run_time_s.is_some() || self.run_time_max_s.is_some();
        let declared = job.max_run_s;
        let limit = match declared.filter(|_| has_limits || job.ending.is_max_run_binding) {
            Some(seconds) => Some(seconds),
            None => self.run_time_s,
        };
        [limit, self.run_time_max_s].into_iter().flatten().min()
    }

    /// For so many seconds the container of a failed task is kept; none: it is not.
    pub fn hold_s(&self, job: &JobSpec) -> Option<u32> {
        let most = u32::try_from(self.hold_max_s).unwrap_or(u32::MAX);
        let hold_s = job.ending.hold_s.map(|asked| asked.min(most));
        hold_s.filter(|seconds| *seconds > 0)
    }

    /// Whether a job may ask for what it asks.
    ///
    /// # Errors
    /// Every field that asks for more than the virtual cluster allows.
    pub fn check(&self, job: &JobSpec) -> Result<(), Vec<JobProblem>> {
        let mut problems = Vec::new();
        if let (Some(most), Some(asked)) = (self.run_time_max_s, job.max_run_s)
            && asked > most
        {
            let message = format!(
                "should be at most {most}: virtual cluster {} lets no job run longer",
                job.vc
            );
            problems.push(JobProblem::at(".extras.muster.maxRunTime", message));
        }
        if let Some(asked) = job
            .ending
            .hold_s
            .filter(|asked| u64::from(*asked) > self.hold_max_s)
        {
            let message = match self.hold_max_s {
                0 => format!("is not allowed in virtual cluster {}: leave it out", job.vc),
                most => format!(
                    "is {asked}, and should be at most {most}: virtual cluster {} keeps no failed task longer",
                    job.vc
                ),
            };
            problems.push(JobProblem::at(".extras.muster.holdOnFailure", message));
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }
}

/// What is wrong with the section, each with its path.
pub(super) fn problems(policy: &JobPolicy) -> Vec<SpecProblem> {
    let mut problems = bounds_problems("jobs.all", &policy.all);
    for (vc, bounds) in &policy.vcs {
        problems.extend(bounds_problems(&format!("jobs.vcs.{vc}"), bounds));
        let VcJobBounds {
            run_time_s,
            run_time_max_s,
            ..
        } = policy.of(vc);
        problems.extend(above_max(
            &format!("jobs.vcs.{vc}"),
            run_time_s,
            run_time_max_s,
        ));
    }
    let above_0 = |seconds: Option<u64>| seconds.filter(|seconds| *seconds > 0);
    let all = &policy.all;
    problems.extend(above_max(
        "jobs.all",
        above_0(all.run_time_s),
        above_0(all.run_time_max_s),
    ));
    problems
}

fn bounds_problems(path: &str, bounds: &JobBounds) -> Vec<SpecProblem> {
    let mut problems = Vec::new();
    for (field, value) in [
        ("run_time_s", bounds.run_time_s),
        ("run_time_max_s", bounds.run_time_max_s),
    ] {
        if value.is_some_and(|value| value > RUN_S_MAX) {
            let what = format!("must be at most {RUN_S_MAX}, which is ten years");
            problems.push(SpecProblem::new(format!("{path}.{field}"), what));
        }
    }
    if bounds
        .hold_max_s
        .is_some_and(|most| most > HOLD_S_MAX.into())
    {
        let what = format!("must be at most {HOLD_S_MAX}, which is thirty days");
        problems.push(SpecProblem::new(format!("{path}.hold_max_s"), what));
    }
    problems
}

fn above_max(path: &str, usual: Option<u64>, most: Option<u64>) -> Option<SpecProblem> {
    let (usual, most) = (usual?, most?);
    (usual > most).then(|| {
        let what = format!("is {usual}, above run_time_max_s, which is {most}");
        SpecProblem::new(format!("{path}.run_time_s"), what)
    })
}

#[cfg(test)]
mod tests {
    use crate::policy::ClusterPolicy;
    use crate::protocol;

    fn bounds(text: &str, vc: &str) -> super::VcJobBounds {
        let policy = ClusterPolicy::read(text).unwrap();
        policy.jobs.of(&vc.parse().unwrap())
    }

    fn job(muster: &str) -> crate::job::JobSpec {
        let text = format!(
            "protocolVersion: 2\nname: a\ntype: job\nprerequisites: [{{type: dockerimage, name: i, uri: x}}]\n\
             taskRoles: {{w: {{dockerImage: i, resourcePerInstance: {{cpu: 1, memoryMB: 1, gpu: 0}}, \
             commands: [a]}}}}\nextras: {{muster: {muster}}}\n"
        );
        protocol::parse(&text).unwrap().job_spec().unwrap()
    }

    #[test]
    fn a_declared_run_time_binds_where_the_job_or_its_virtual_cluster_says_so() {
        let none = "{}";
        let default = "jobs: {all: {run_time_s: 100}}";
        let most = "jobs: {all: {run_time_max_s: 50}}";
        let lifted = "jobs: {all: {run_time_s: 100, run_time_max_s: 200}, \
                      vcs: {lab: {run_time_s: 0, run_time_max_s: 0}}}";
        let in_part = "jobs: {all: {run_time_s: 100}, vcs: {lab: {run_time_max_s: 500}}}";
        let said = "{maxRunTime: 30}";
        let asked = "{maxRunTime: 30, enforceMaxRunTime: true}";
        let long = "{maxRunTime: 300}";
        for (policy, muster, expect) in [
            (none, "{}", None),
            (none, said, None),
            (none, asked, Some(30)),
            (default, "{}", Some(100)),
            (default, said, Some(30)),
            (default, long, Some(300)),
            (most, "{}", Some(50)),
            (most, said, Some(30)),
            (most, long, Some(50)),
            (lifted, "{}", None),
            (lifted, said, None),
            (lifted, asked, Some(30)),
            (in_part, "{}", Some(100)),
            (in_part, long, Some(300)),
        ] {
            let found = bounds(policy, "lab").run_limit_s(&job(muster));
            assert_eq!(found, expect, "{policy} {muster}");
        }
    }

    #[test]
    fn who_asks_for_longer_than_the_virtual_cluster_allows_is_refused() {
        let text = "jobs: {vcs: {default: {run_time_max_s: 60}}}";
        assert!(
            bounds(text, "default")
                .check(&job("{maxRunTime: 60}"))
                .is_ok()
        );
        assert!(bounds(text, "lab").check(&job("{maxRunTime: 61}")).is_ok());
        let problems = bounds(text, "default").check(&job("{maxRunTime: 61}"));
        let remark = problems.unwrap_err()[0].remark().unwrap().to_string();
        let expect = ".extras.muster.maxRunTime: should be at most 60: virtual cluster default lets no job run longer";
        assert_eq!(remark, expect);
    }

    #[test]
    fn a_failed_task_is_kept_no_longer_than_the_virtual_cluster_allows() {
        for (policy, seconds, expect, kept) in [
            ("{}", 86_400, None, Some(86_400)),
            (
                "{}",
                86_401,
                Some("is 86401, and should be at most 86400"),
                Some(86_400),
            ),
            (
                "jobs: {all: {hold_max_s: 60}}",
                61,
                Some("at most 60"),
                Some(60),
            ),
            (
                "jobs: {vcs: {default: {hold_max_s: 0}}}",
                1,
                Some("is not allowed in virtual cluster default"),
                None,
            ),
        ] {
            let bounds = bounds(policy, "default");
            let job = job(&format!("{{holdOnFailure: {seconds}}}"));
            let problems = bounds.check(&job).err().unwrap_or_default();
            let told = problems.first().and_then(|problem| problem.remark());
            let told = told.map(|told| told.to_string()).unwrap_or_default();
            match expect {
                Some(expect) => assert!(told.contains(expect), "{told}"),
                None => assert_eq!(told, ""),
            }
            assert_eq!(bounds.hold_s(&job), kept, "as the policy is when it starts");
        }
    }

    #[test]
    fn bounds_that_contradict_each_other_are_refused() {
        for (jobs, expect) in [
            (
                "{all: {run_time_s: 315360001}}",
                "jobs.all.run_time_s: must be at most 315360000",
            ),
            (
                "{all: {run_time_s: 2, run_time_max_s: 1}}",
                "jobs.all.run_time_s: is 2, above run_time_max_s, which is 1",
            ),
            (
                "{all: {run_time_s: 2}, vcs: {lab: {run_time_max_s: 1}}}",
                "jobs.vcs.lab.run_time_s: is 2, above",
            ),
            (
                "{all: {hold_max_s: 2592001}}",
                "jobs.all.hold_max_s: must be at most 2592000",
            ),
            ("{all: {run_times: 2}}", "run_times"),
            ("{vcs: {lab: {run_time_s: -1}}}", "jobs.vcs.lab.run_time_s"),
        ] {
            let problems = ClusterPolicy::read(&format!("jobs: {jobs}")).unwrap_err();
            let told = problems[0].to_string();
            assert!(told.contains(expect), "{jobs}: {told}");
        }
    }
}
