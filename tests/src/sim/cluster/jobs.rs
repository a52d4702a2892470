//! What users submit.

use muster_model::id::VcName;
use muster_model::job::{JobEnding, JobSpec, Partition, Resources, RoleSpec};
use muster_model::state::PriorityClass;

use crate::sim::random::Random;

/// A job of any kind.
pub(super) fn any(vc: &VcName, random: &mut Random, devices: u32) -> JobSpec {
    let tasks = 1 + random.below(4);
    let gpus = random.below(u64::from(devices) / 2 + 1);
    let runs = [2_000, 2_000, 20_000, 60_000][random.index(4)];
    let ends = [0, 0, 0, 0, 0, 1, 3, 3][random.index(8)];
    let ms = 10 * (1 + random.below(runs / 10)) + ends;
    let classes = [
        None,
        None,
        Some(PriorityClass::Oppo),
        Some(PriorityClass::Prod),
    ];
    let partitions = [
        Partition::FailoverAfter { seconds: 15 },
        Partition::FailoverAfter { seconds: 15 },
        Partition::FailoverAfter { seconds: 30 },
        Partition::Hold,
        Partition::Overlap,
    ];
    let limit_s = (random.below(8) == 0).then(|| 1 + random.below(40));
    JobSpec {
        max_run_s: limit_s,
        ending: JobEnding {
            is_max_run_binding: limit_s.is_some(),
            ..JobEnding::default()
        },
        gang: ends == 3 || random.below(3) != 0,
        retry_count: i32::try_from(random.below(3)).unwrap_or(0),
        priority: classes[random.index(classes.len())],
        partition: partitions[random.index(partitions.len())],
        ..gang(vc, tasks, gpus, ms)
    }
}

/// A gang of tasks that need each other, so many with so many devices each, for about so long.
pub(super) fn ranks(vc: &VcName, tasks: u64, gpus: u64, ms: u64) -> JobSpec {
    gang(vc, tasks, gpus, ms / 10 * 10 + 3)
}

/// A gang of tasks, each with so many devices, that runs for so long. Where that ends in 1 they fail, and where
/// it ends in 3 those fail that lose a peer.
pub(crate) fn gang(vc: &VcName, tasks: u64, gpus: u64, ms: u64) -> JobSpec {
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let role = RoleSpec {
        name: match "worker".parse() {
            Ok(name) => name,
            Err(error) => panic!("bug in the simulator: {error}"),
        },
        instances: small(tasks),
        min_failed: 1,
        min_succeeded: -1,
        task_retry_count: 0,
        image: "image".to_owned(),
        image_auth: None,
        resources: Resources {
            cpu: 1,
            memory_mb: 512,
            gpu: small(gpus),
            ports: vec![("ssh".to_owned(), 1), ("http".to_owned(), 1)],
        },
        sku: None,
        pinned: None,
        affinity_group: None,
        near: None,
        shm_mb: None,
        infiniband: false,
        storages: Vec::new(),
        has_ssh: false,
        ssh: None,
        pre_commands: Vec::new(),
        entrypoint: ms.to_string(),
        post_commands: Vec::new(),
    };
    JobSpec {
        vc: vc.clone(),
        retry_count: 0,
        gang: true,
        priority: None,
        lazy: false,
        max_run_s: None,
        ending: JobEnding::default(),
        partition: Partition::FailoverAfter { seconds: 15 },
        roles: vec![role],
        warnings: Vec::new(),
    }
}
