//! Sessions in tasks: opened at the node that runs the task.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_model::id::{JobKey, TaskId};
use muster_model::session::{SessionRequest, SessionWish};
use muster_model::sight::JobSight;
use muster_model::state::JobState;
use muster_portal_gateway::port::{Jobs as _, PortError, SessionIo, SessionOpener, Sessions};

use super::jobs::LocalJobs;
use super::running_task::{RunningTask, running};
use crate::sessions::{self, TaskSessions};

/// Bytes on the way to and from a session of this node.
const WAY_BYTES: usize = 256 << 10;
/// How long it may take to reach another node.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// The sessions of this cluster.
#[derive(Debug)]
pub(super) struct LocalSessions {
    pub(super) jobs: Arc<LocalJobs>,
    /// Those in the tasks of this node.
    pub(super) here: TaskSessions,
}

impl LocalSessions {
    async fn task(
        &self,
        sight: &JobSight,
        job: &JobKey,
        task: &TaskId,
    ) -> Result<RunningTask, PortError> {
        let detail = self.jobs.job(sight, job, None).await?.value;
        let tasks = detail.roles.iter().flat_map(|role| &role.tasks);
        let found = tasks.into_iter().find(|found| found.id == *task);
        let missing = || PortError::NoTask {
            job: job.to_string(),
            task: task.to_string(),
        };
        let found = found.ok_or_else(missing)?;
        let state = JobState::of(found.sub_state, None);
        running(found).ok_or_else(|| {
            let why = format!(
                "Task {task} of job {job} is {state}: a session needs a task that runs. `muster job show {job}` tells \
                 more."
            );
            PortError::NotNow(why)
        })
    }
}

#[async_trait]
impl Sessions for LocalSessions {
    async fn open(
        &self,
        opener: &SessionOpener,
        (sight, job, task): (&JobSight, &JobKey, &TaskId),
        wish: SessionWish,
    ) -> Result<Box<dyn SessionIo>, PortError> {
        let running = self.task(sight, job, task).await?;
        let request = SessionRequest {
            job: job.clone(),
            task: task.clone(),
            uid: running.uid,
            wish,
            user: opener.user.clone(),
            address: opener.address.clone(),
        };
        let name = running.node.to_string();
        if running.node == self.jobs.node.identity.node {
            let (near, far) = tokio::io::duplex(WAY_BYTES);
            let here = self.here.clone();
            tokio::spawn(async move { here.serve(request, far).await });
            return sessions::opened(near, &name).await;
        }
        let header = sessions::ask(&request)?;
        let member = self.jobs.mesh.member();
        let stream = member.stream_to(&running.node, &header, OPEN_LIMIT).await;
        let stream = stream.map_err(|error| sessions::not_asked(&name, &error))?;
        sessions::opened(stream, &name).await
    }
}
