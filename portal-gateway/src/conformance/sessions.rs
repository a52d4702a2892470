use muster_model::id::TaskId;
use muster_model::session::SessionWish;
use muster_model::sight::JobSight;

use super::NOBODY;
use crate::port::{Caller, Jobs, PortError, SessionOpener, Sessions};

/// A job that nobody can run.
const JOB: &str = "protocolVersion: 2\nname: unentered\ntype: job\nprerequisites: [{type: dockerimage, name: i, \
    uri: no.such.registry/i}]\ntaskRoles: {w: {dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}, \
    commands: ['true']}}\n";

/// Sessions, where no task runs.
pub async fn sessions(sessions: &dyn Sessions, jobs: &dyn Jobs, caller: &Caller) {
    let job = jobs.submit(caller, JOB).await.unwrap().key;
    let opener = SessionOpener {
        user: caller.user.to_string(),
        address: "192.0.2.1".to_owned(),
    };
    let task = TaskId {
        role: NOBODY.parse().unwrap(),
        index: 0,
    };
    let sight = JobSight::All;
    let place = (&sight, &job, &task);
    let wish = SessionWish::Port(80);
    refused!(
        sessions.open(&opener, place, wish.clone()),
        PortError::NoTask { .. }
    );
    let other = format!("{NOBODY}~none").parse().unwrap();
    let place = (&sight, &other, &task);
    refused!(sessions.open(&opener, place, wish), PortError::NoJob(_));
}
