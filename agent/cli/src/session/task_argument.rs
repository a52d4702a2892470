//! How users name a task of a job.

use std::str::FromStr;

use clap::Args;
use muster_model::id::{JobKey, RoleName, TaskId};
use muster_model::view::{Dated, JobDetail};

use crate::api::Api;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job_ref::{Acting, JobRef};
use crate::names;

/// Roles that an error names.
const ROLES_NAMED: usize = 8;

/// `JOB`, `JOB:ROLE` or `JOB:ROLE:INDEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskRef {
    job: JobRef,
    role: Option<RoleName>,
    index: Option<u32>,
}

impl FromStr for TaskRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let job = parts.next().unwrap_or_default();
        let job = job.parse().map_err(|error| format!("{error}"))?;
        let role = parts.next().map(RoleName::from_str).transpose();
        let role = role.map_err(|error| format!("the role: {error}"))?;
        let index = parts.next().map(u32::from_str).transpose();
        let index =
            index.map_err(|_| "a task is named JOB:ROLE:INDEX, as train:worker:0".to_owned())?;
        match parts.next() {
            Some(_) => Err("a task is named JOB:ROLE:INDEX, as train:worker:0".to_owned()),
            None => Ok(Self { job, role, index }),
        }
    }
}

/// The task that a command is about, and who acts.
#[derive(Clone, Debug, Args)]
pub(crate) struct TaskArgument {
    /// The task: JOB, JOB:ROLE or JOB:ROLE:INDEX. Where there are several, the index has to be named.
    #[arg(value_name = "JOB[:ROLE[:INDEX]]")]
    task: TaskRef,
    #[command(flatten)]
    acting: Acting,
}

/// A task, and the agent to ask.
#[derive(Clone, Debug)]
pub(crate) struct TaskTarget {
    pub(crate) api: Api,
    pub(crate) job: JobKey,
    pub(crate) task: TaskId,
}

impl TaskArgument {
    /// The agent to ask, and the task in full.
    pub(crate) async fn resolve(
        self,
        connection: &EndpointArguments,
    ) -> Result<TaskTarget, CliError> {
        self.task.resolve(self.acting.api(connection)?).await
    }
}

impl TaskRef {
    /// The task in full.
    pub(crate) async fn resolve(self, api: Api) -> Result<TaskTarget, CliError> {
        let job = self.job.key(&api)?;
        let task = match (self.role, self.index) {
            (Some(role), Some(index)) => TaskId { role, index },
            (role, _) => {
                let Dated { value: detail, .. } = api.job(&job, None).await?;
                only(&detail, role.as_ref())?
            }
        };
        Ok(TaskTarget { api, job, task })
    }
}

/// The one task of a job, or of a role of it.
fn only(detail: &JobDetail, role: Option<&RoleName>) -> Result<TaskId, CliError> {
    let key = &detail.summary.key;
    let is_role = |name: &str| role.is_none_or(|role| role.as_str() == name);
    let roles = detail.roles.iter().filter(|found| is_role(&found.name));
    let mut tasks = roles.flat_map(|role| &role.tasks);
    match (tasks.next(), tasks.next()) {
        (Some(task), None) => Ok(task.id.clone()),
        (None, _) if detail.tasks().next().is_none() => Err(CliError::Usage(format!(
            "{key} has no task yet; `muster job show {key}` tells why"
        ))),
        (None, _) => Err(CliError::Usage(format!(
            "{key} has no such role; it has {}",
            roles_of(detail)
        ))),
        (Some(_), Some(_)) => Err(CliError::Usage(format!(
            "which task of {key}? Name one as {}: it has {}",
            example(detail, role),
            roles_of(detail)
        ))),
    }
}

fn example(detail: &JobDetail, role: Option<&RoleName>) -> String {
    let first = detail.roles.first().map_or("worker", |role| &role.name);
    let role = role.map_or(first, RoleName::as_str);
    format!("{}:{role}:0", detail.summary.key.name)
}

fn roles_of(detail: &JobDetail) -> String {
    let roles = detail.roles.iter().map(|role| match role.tasks.len() {
        0 | 1 => format!("{}:0", role.name),
        count => format!("{}:0 to {}", role.name, count - 1),
    });
    names::at_most(ROLES_NAMED, roles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_with_as_much_as_is_needed() {
        let read = |text: &str| text.parse::<TaskRef>();
        let task = read("ada~train:worker:3").unwrap();
        assert_eq!(task.job, "ada~train".parse().unwrap());
        assert_eq!(
            (task.role.unwrap().as_str(), task.index),
            ("worker", Some(3))
        );
        let task = read("train").unwrap();
        assert_eq!((task.role, task.index), (None, None));
        for wrong in ["", "train:", "train:worker:x", "train:worker:0:1", "a b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
