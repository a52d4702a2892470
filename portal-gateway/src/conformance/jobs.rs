use std::time::Duration;

use muster_model::id::{JobKey, TaskId};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::state::ExecutionType;

use crate::port::{Awaited, Caller, Jobs, PortError};

/// Jobs, none of them called `conform`; `caller` may submit.
pub async fn jobs(jobs: &dyn Jobs, caller: &Caller) {
    let key: JobKey = format!("{}~conform", caller.user).parse().unwrap();
    missing(jobs, &key).await;
    submitted(jobs, caller, &key).await;
    changed(jobs, &key).await;
}

fn task() -> TaskId {
    TaskId {
        role: "w".parse().unwrap(),
        index: 0,
    }
}

/// A job that there is not.
async fn missing(jobs: &dyn Jobs, key: &JobKey) {
    let (task, stop) = (task(), ExecutionType::Stop);
    refused!(jobs.job(key, None), PortError::NoJob(_));
    refused!(jobs.explanation(key), PortError::NoJob(_));
    refused!(jobs.config(key), PortError::NoJob(_));
    refused!(jobs.events(key), PortError::NoJob(_));
    refused!(jobs.task(key, 0, &task), PortError::NoJob(_));
    let end = Awaited::End;
    refused!(jobs.wait(key, &end, Duration::ZERO), PortError::NoJob(_));
    refused!(jobs.add_tag(key, "a"), PortError::NoJob(_));
    refused!(jobs.remove_tag(key, "a"), PortError::NoJob(_));
    let stopped = jobs.set_execution_type(key, stop);
    refused!(stopped, PortError::NoJob(_));
}

async fn submitted(jobs: &dyn Jobs, caller: &Caller, key: &JobKey) {
    let text = "protocolVersion: 2\nname: conform\ntype: job\nprerequisites: [{type: dockerimage, name: i, \
                uri: no.such.registry/i}]\ntaskRoles: {w: {dockerImage: i, resourcePerInstance: {cpu: 1, \
                memoryMB: 64, gpu: 0}, commands: ['true']}}\n";
    refused!(jobs.submit(caller, "[]"), PortError::InvalidJob(_));
    let submitted = jobs.submit(caller, text).await.unwrap();
    assert_eq!((&submitted.key, submitted.warnings.len()), (key, 0));
    let again = jobs.submit(caller, text);
    refused!(
        again,
        PortError::JobExists {
            same: Some(true),
            ..
        }
    );
    let other = text.replace("'true'", "'false'");
    let other = jobs.submit(caller, &other);
    refused!(
        other,
        PortError::JobExists {
            same: Some(false),
            ..
        }
    );

    let of = |user: &str| JobQuery {
        filter: JobFilter {
            users: vec![user.to_owned()],
            ..JobFilter::default()
        },
        first: None,
    };
    let listed = jobs.list(&of(key.user.as_str())).await.unwrap();
    assert!(listed.away.is_empty() && listed.aged.is_empty());
    assert_eq!(listed.total, listed.jobs.len());
    assert!(listed.jobs.iter().any(|job| job.key == *key));
    assert_eq!(jobs.list(&of(super::NOBODY)).await.unwrap().total, 0);

    let job = jobs.job(key, None).await.unwrap();
    assert_eq!((&job.value.summary.key, job.age), (key, None));
    assert_eq!(jobs.explanation(key).await.unwrap().key, *key);
    let config = jobs.config(key).await.unwrap().value;
    assert_eq!(config["name"], key.name.as_str());
    assert!(jobs.events(key).await.is_ok());
    refused!(
        jobs.job(key, Some(99)),
        PortError::NoAttempt { attempt: 99, .. }
    );
    refused!(jobs.task(key, 99, &task()), PortError::NoAttempt { .. });

    let other = Awaited::Change("another mark".to_owned());
    let long = Duration::from_secs(600);
    let at_once = jobs.wait(key, &other, long).await.unwrap();
    assert_eq!(at_once.key, *key);
    let soon = Duration::from_millis(1);
    assert!(jobs.wait(key, &Awaited::End, soon).await.is_ok());
}

async fn changed(jobs: &dyn Jobs, key: &JobKey) {
    let tags = async || jobs.job(key, None).await.unwrap().value.summary.tags;
    for _ in 0..2 {
        jobs.add_tag(key, "a").await.unwrap();
        assert_eq!(tags().await, ["a"]);
    }
    jobs.remove_tag(key, "a").await.unwrap();
    assert!(tags().await.is_empty());
    refused!(jobs.remove_tag(key, "a"), PortError::NoTag(_));
    let stop = ExecutionType::Stop;
    jobs.set_execution_type(key, stop).await.unwrap();
    let job = jobs.job(key, None).await.unwrap().value;
    assert_eq!(job.summary.execution_type, stop);
}
