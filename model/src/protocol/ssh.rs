//! The runtime plugin `ssh`: who may log in to which tasks.

use serde_json::Value;

use crate::id::RoleName;
use crate::remark::Remark;
use crate::ssh::{SSH_KEYS_BYTES_MAX, SSH_KEYS_MAX, SshAccess, public_keys};

use super::JobProblem;
use super::document::{FailurePolicy, WrittenJob};
use super::plugins::{Use, uses};
use super::spec::scope;
use super::template::{OPEN, RenderBudget, Scope, render};

/// Its name.
pub(super) const PLUGIN: &str = "ssh";
/// The parameters that mean something.
pub(super) const KEYS: [&str; 4] = [JOB_SSH, BARRIER, BARRIER_TIMEOUT, USER_SSH];
/// Those of `userssh`.
pub(super) const USER_KEYS: [&str; 2] = ["type", "value"];
const JOB_SSH: &str = "jobssh";
const BARRIER: &str = "sshbarrier";
const BARRIER_TIMEOUT: &str = "sshbarrierTimeout";
const USER_SSH: &str = "userssh";
/// In minutes, as upstream.
const BARRIER_MINUTES_DEFAULT: u64 = 10;
/// A day.
const BARRIER_MINUTES_MAX: u64 = 24 * 60;

/// What one role asks for.
#[derive(Default)]
struct Asked {
    keys: Vec<String>,
    system_keys: bool,
    job: bool,
    barrier_minutes: Option<u64>,
    may_fail: bool,
}

/// Who may log in to the tasks of each role, in the order of the roles; none where nobody may.
pub(super) fn accesses(
    document: &WrittenJob,
    budget: &mut RenderBudget,
) -> Result<Vec<Option<SshAccess>>, Vec<JobProblem>> {
    let mut all = Vec::new();
    let mut problems = Vec::new();
    for (name, role) in &document.task_roles {
        let mut asked = Asked::default();
        for used in uses(document, name, role) {
            if used.plugin == PLUGIN
                && let Err(problem) = asked.add(&used, &scope(document, role), budget)
                && !problems.contains(&problem)
            {
                problems.push(problem);
            }
        }
        all.push((name, asked));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let is_gang = document.is_gang();
    let peers = all.iter().filter(|(_, asked)| asked.job && is_gang);
    let peers: Vec<RoleName> = peers.filter_map(|(name, _)| name.parse().ok()).collect();
    Ok(all
        .into_iter()
        .map(|(_, asked)| asked.access(&peers, is_gang))
        .collect())
}

/// What of a use is not carried out as it reads.
pub(super) fn warnings(used: &Use, is_gang: bool) -> Vec<Remark> {
    let mut found = Vec::new();
    let field = |name: &str| used.parameters.get(name);
    let mut warn = |name: &str, message: &str| {
        found.push(Remark::at(format!("{}.{name}", used.path), message));
    };
    let job = field(JOB_SSH) == Some(&Value::Bool(true));
    if job && !is_gang {
        let message = "This has no effect without gang allocation: tasks that start one by one do not know where \
                       the others run.";
        warn(JOB_SSH, message);
    }
    if field(BARRIER) == Some(&Value::Bool(true)) && !job {
        warn(BARRIER, "This has no effect without jobssh: true.");
    }
    let user = field(USER_SSH).unwrap_or(&Value::Null);
    let value = user.get("value").and_then(Value::as_str);
    if kind_of(user) == Some("custom") && value.is_none_or(|value| value.trim().is_empty()) {
        let message = "It has no public key: nobody can log in. Put one into value, a line of a file that ends in \
                       .pub.";
        warn(USER_SSH, message);
    }
    if kind_of(user) == Some("custom") && value.is_some_and(|value| value.contains("$secrets")) {
        let message =
            "Keys that refer to secrets are left out: a public key is no secret. Write it out.";
        warn(USER_SSH, message);
    }
    found
}

fn kind_of(user: &Value) -> Option<&str> {
    user.get("type").and_then(Value::as_str)
}

impl Asked {
    fn add(
        &mut self,
        used: &Use,
        scope: &Scope,
        budget: &mut RenderBudget,
    ) -> Result<(), JobProblem> {
        let flag = |name: &str| match used.parameters.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(wrong(used, name, "should be boolean")),
        };
        self.job |= flag(JOB_SSH)?;
        self.may_fail |= used.on_failure == FailurePolicy::Ignore;
        if flag(BARRIER)? {
            let minutes = minutes(used)?;
            self.barrier_minutes = self.barrier_minutes.max(Some(minutes));
        }
        let user = used.parameters.get(USER_SSH).unwrap_or(&Value::Null);
        if user.is_null() {
            return Ok(());
        }
        match kind_of(user) {
            Some("none") => {}
            // As the portal writes it where nothing was chosen.
            None if user
                .as_object()
                .is_some_and(|user| !user.contains_key("type")) => {}
            Some("system") => self.system_keys = true,
            Some("custom") => self.add_keys(used, user, (scope, budget))?,
            _ => {
                let name = format!("{USER_SSH}.type");
                return Err(wrong(used, &name, "should be custom, system or none"));
            }
        }
        Ok(())
    }

    fn add_keys(
        &mut self,
        used: &Use,
        user: &Value,
        (scope, budget): (&Scope, &mut RenderBudget),
    ) -> Result<(), JobProblem> {
        let name = format!("{USER_SSH}.value");
        let text = match user.get("value") {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => return Err(wrong(used, &name, "should be string")),
        };
        let text =
            render(text, scope, budget).map_err(|error| wrong(used, &name, &error.to_string()))?;
        // Secrets are opened on the node alone; the job is warned that these are left out.
        let clear = |line: &&str| !line.contains(OPEN);
        let text: Vec<&str> = text.lines().filter(clear).collect();
        let keys = public_keys(&text.join("\n")).map_err(|problem| wrong(used, &name, &problem))?;
        for key in keys {
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
        }
        let bytes: usize = self.keys.iter().map(String::len).sum();
        if self.keys.len() > SSH_KEYS_MAX || bytes > SSH_KEYS_BYTES_MAX {
            let message = format!(
                "should NOT have more than {SSH_KEYS_MAX} keys or {SSH_KEYS_BYTES_MAX} bytes"
            );
            return Err(wrong(used, &name, &message));
        }
        Ok(())
    }

    fn access(self, peers: &[RoleName], is_gang: bool) -> Option<SshAccess> {
        let job = self.job && is_gang;
        let seconds = |minutes: u64| u32::try_from(minutes * 60).unwrap_or(u32::MAX);
        let is_open = job || self.system_keys || !self.keys.is_empty();
        is_open.then(|| SshAccess {
            keys: self.keys,
            system_keys: self.system_keys,
            peers: if job { peers.to_vec() } else { Vec::new() },
            barrier_s: self.barrier_minutes.filter(|_| job).map(seconds),
            may_fail: self.may_fail,
        })
    }
}

/// How long the barrier waits.
fn minutes(used: &Use) -> Result<u64, JobProblem> {
    let minutes = match used.parameters.get(BARRIER_TIMEOUT) {
        None | Some(Value::Null) => Some(BARRIER_MINUTES_DEFAULT),
        Some(value) => value.as_u64(),
    };
    let minutes = minutes.filter(|minutes| (1..=BARRIER_MINUTES_MAX).contains(minutes));
    minutes.ok_or_else(|| {
        let message = format!("should be minutes, a whole number from 1 to {BARRIER_MINUTES_MAX}");
        wrong(used, BARRIER_TIMEOUT, &message)
    })
}

fn wrong(used: &Use, name: &str, message: &str) -> JobProblem {
    JobProblem::at(format!("{}.{name}", used.path), message)
}
