use std::time::Duration;

use muster_model::id::{JobKey, TaskId};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::sight::JobSight;
use muster_model::stacks::StacksFilter;
use muster_model::state::ExecutionType;

use crate::port::{Awaited, Caller, JobReader, Jobs, PortError};

const ALL: &JobSight = &JobSight::All;

/// Jobs, none of them called `conform`; `caller` may submit.
pub async fn jobs(jobs: &dyn Jobs, caller: &Caller) {
    let key: JobKey = format!("{}~conform", caller.user).parse().unwrap();
    missing(jobs, &key).await;
    submitted(jobs, caller, &key).await;
    seen(jobs, caller, &key).await;
    hidden(jobs, &key).await;
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
    refused!(jobs.job(ALL, key, None), PortError::NoJob(_));
    refused!(jobs.explanation(ALL, key), PortError::NoJob(_));
    let all = StacksFilter::default();
    refused!(jobs.stacks(ALL, key, &all), PortError::NoJob(_));
    refused!(jobs.config(ALL, key), PortError::NoJob(_));
    refused!(jobs.events(ALL, key), PortError::NoJob(_));
    refused!(jobs.task(ALL, key, (0, &task)), PortError::NoJob(_));
    let end = Awaited::End;
    refused!(
        jobs.wait(ALL, key, &end, Duration::ZERO),
        PortError::NoJob(_)
    );
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
    refused!(jobs.forecast(caller, ALL, "[]"), PortError::InvalidJob(_));
    let forecast = jobs.forecast(caller, ALL, text).await.unwrap();
    assert_eq!((&forecast.key, forecast.tasks), (key, 1));
    // It was not submitted by that.
    refused!(jobs.job(ALL, key, None), PortError::NoJob(_));
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
    refused!(
        jobs.forecast(caller, ALL, text),
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
        reasons: false,
    };
    let listed = jobs.list(ALL, &of(key.user.as_str())).await.unwrap();
    assert!(listed.away.is_empty() && listed.aged.is_empty());
    assert_eq!(listed.total, listed.jobs.len());
    assert!(listed.jobs.iter().any(|job| job.key == *key));
    assert_eq!(jobs.list(ALL, &of(super::NOBODY)).await.unwrap().total, 0);

    let job = jobs.job(ALL, key, None).await.unwrap();
    assert_eq!((&job.value.summary.key, job.age), (key, None));
    assert_eq!(jobs.explanation(ALL, key).await.unwrap().key, *key);
    let config = jobs.config(ALL, key).await.unwrap().value;
    assert_eq!(config["name"], key.name.as_str());
    assert!(jobs.events(ALL, key).await.is_ok());
    refused!(
        jobs.job(ALL, key, Some(99)),
        PortError::NoAttempt { attempt: 99, .. }
    );
    refused!(
        jobs.task(ALL, key, (99, &task())),
        PortError::NoAttempt { .. }
    );

    let other = Awaited::Change("another mark".to_owned());
    let long = Duration::from_secs(600);
    let at_once = jobs.wait(ALL, key, &other, long).await.unwrap();
    assert_eq!(at_once.key, *key);
    let soon = Duration::from_millis(1);
    assert!(jobs.wait(ALL, key, &Awaited::End, soon).await.is_ok());
}

/// Sights are made of what users may do. The caller is an admin.
async fn seen(jobs: &dyn Jobs, caller: &Caller, key: &JobKey) {
    assert_eq!(jobs.sight(&JobReader::Root).unwrap(), JobSight::All);
    let own = jobs.sight(&JobReader::User(caller.user.clone())).unwrap();
    assert_eq!(own, JobSight::All);
    // Nothing is hidden by the policy of a new cluster.
    assert_eq!(jobs.sight(&JobReader::Guest).unwrap(), JobSight::All);
    let nobody = JobReader::User(super::NOBODY.parse().unwrap());
    assert_eq!(jobs.sight(&nobody), Err(PortError::InvalidToken));
    let vc = jobs.job(ALL, key, None).await.unwrap().value.summary.vc;
    let ends = jobs.until_hidden(&JobReader::Root, &vc, &key.user);
    let ended = tokio::time::timeout(Duration::from_millis(1), ends).await;
    assert!(ended.is_err(), "it is seen");
}

/// The answers that one user gets about another user's job in a private virtual cluster.
async fn hidden(jobs: &dyn Jobs, key: &JobKey) {
    let access = AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    };
    let of = |user: &str| JobSight::of(Some(&user.parse().unwrap()), [].into(), &access);
    let sight = &of(super::NOBODY);
    let (task, end) = (task(), Awaited::End);
    refused!(jobs.job(sight, key, None), PortError::Hidden(_));
    refused!(jobs.job(sight, key, Some(99)), PortError::Hidden(_));
    refused!(jobs.explanation(sight, key), PortError::Hidden(_));
    let all = StacksFilter::default();
    refused!(jobs.stacks(sight, key, &all), PortError::Hidden(_));
    // Its image is nowhere: it never runs.
    refused!(jobs.stacks(ALL, key, &all), PortError::NotNow(_));
    refused!(jobs.config(sight, key), PortError::Hidden(_));
    refused!(jobs.events(sight, key), PortError::Hidden(_));
    refused!(jobs.task(sight, key, (0, &task)), PortError::Hidden(_));
    let waited = jobs.wait(sight, key, &end, Duration::ZERO);
    refused!(waited, PortError::Hidden(_));
    // What is not there is missing for everybody.
    let missing: JobKey = format!("{}~missing", key.user).parse().unwrap();
    refused!(jobs.job(sight, &missing, None), PortError::NoJob(_));
    refused!(jobs.config(sight, &missing), PortError::NoJob(_));

    let query = |users: &[&str]| JobQuery {
        filter: JobFilter {
            users: users.iter().map(|user| (*user).to_owned()).collect(),
            ..JobFilter::default()
        },
        first: None,
        reasons: false,
    };
    let listed = jobs.list(sight, &query(&[])).await.unwrap();
    assert_eq!((listed.jobs.len(), listed.total), (0, 0));
    assert!(!listed.hidden.is_empty());
    let owner = key.user.as_str();
    refused!(jobs.list(sight, &query(&[owner])), PortError::Hidden(_));
    let nothing = jobs.list(sight, &query(&[super::NOBODY])).await.unwrap();
    assert_eq!((nothing.total, nothing.hidden), (0, Vec::new()));
    // The owner sees it in every way.
    let own = &of(owner);
    assert!(jobs.config(own, key).await.is_ok() && jobs.events(own, key).await.is_ok());
    assert!(jobs.explanation(own, key).await.is_ok());
    let listed = jobs.list(own, &query(&[owner])).await.unwrap();
    assert!(listed.jobs.iter().any(|job| job.key == *key) && listed.hidden.is_empty());
}

async fn changed(jobs: &dyn Jobs, key: &JobKey) {
    let tags = async || jobs.job(ALL, key, None).await.unwrap().value.summary.tags;
    let revision = async || jobs.revision(&JobFilter::default()).await.unwrap();
    let before = revision().await;
    for _ in 0..2 {
        jobs.add_tag(key, "a").await.unwrap();
        assert_eq!(tags().await, ["a"]);
    }
    let tagged = revision().await;
    assert_ne!(tagged, before);
    jobs.remove_tag(key, "a").await.unwrap();
    assert!(tags().await.is_empty());
    assert_ne!(revision().await, tagged);
    refused!(jobs.remove_tag(key, "a"), PortError::NoTag(_));
    let stop = ExecutionType::Stop;
    jobs.set_execution_type(key, stop).await.unwrap();
    let job = jobs.job(ALL, key, None).await.unwrap().value;
    assert_eq!(job.summary.execution_type, stop);
}
