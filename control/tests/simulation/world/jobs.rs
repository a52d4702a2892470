//! What users submit, and stop again.

use muster_control::vc::{AcceptedJob, JobDocument, VcEntry};
use muster_model::job::{JobEnding, JobSpec, Partition, Resources, RoleSpec};
use muster_model::state::{ExecutionType, PriorityClass};

use super::{World, WorldEvent};

impl World {
    pub(super) fn submit(&mut self, vc: usize, i: u64, within_ms: u64) {
        let job = AcceptedJob {
            key: format!("alice~job{i}").parse().unwrap(),
            uid: format!("uid-{vc}-{i}").parse().unwrap(),
            spec: self.job_spec(vc),
            document: JobDocument::default(),
            sealed_secrets: Vec::new(),
            submitted_ms: self.now.as_millis(),
        };
        let at = self.chance.below(within_ms);
        if self.chance.one_in(5) {
            let stop = VcEntry::SetExecution {
                job: job.key.clone(),
                value: ExecutionType::Stop,
                at_ms: self.now.as_millis() + at,
            };
            let later = at + self.chance.below(60_000);
            self.at(later, WorldEvent::Entry(vc, Box::new(stop)));
        }
        self.at(
            at,
            WorldEvent::Entry(vc, Box::new(VcEntry::Accept(Box::new(job)))),
        );
    }

    pub(super) fn job_spec(&mut self, vc: usize) -> JobSpec {
        let instances = [(); 2].map(|()| 1 + u32::try_from(self.chance.below(3)).unwrap());
        // So that every gang fits the empty machines.
        let most = |instances| if instances == 1 { 4 } else { 2 };
        let mut gpus = instances.map(|n| u32::try_from(self.chance.below(most(n))).unwrap());
        if self.reigns.len() > 1 {
            // So that it fits one machine, which is what each is promised.
            gpus[1] = 0;
        }
        let mut role = |name: &str, i: usize| RoleSpec {
            name: name.parse().unwrap(),
            instances: instances[i],
            min_failed: [1, 1, -1, 2][self.chance.below(4) as usize],
            min_succeeded: [-1, 1, 2][self.chance.below(3) as usize],
            task_retry_count: 1,
            image: "image".to_owned(),
            image_auth: None,
            resources: Resources {
                cpu: 1,
                memory_mb: 512,
                gpu: gpus[i],
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
            entrypoint: "true".to_owned(),
            post_commands: Vec::new(),
        };
        let roles = vec![role("worker", 0), role("ps", 1)];
        let classes = [
            None,
            Some(PriorityClass::Oppo),
            Some(PriorityClass::Prod),
            Some(PriorityClass::Crit),
        ];
        JobSpec {
            vc: self.reigns[vc].vc.clone(),
            retry_count: i32::try_from(self.chance.below(3)).unwrap(),
            gang: !self.chance.one_in(3),
            priority: classes[self.chance.below(4) as usize],
            lazy: false,
            max_run_s: None,
            ending: JobEnding::default(),
            partition: [
                Partition::FailoverAfter { seconds: 15 },
                Partition::FailoverAfter { seconds: 15 },
                Partition::FailoverAfter { seconds: 30 },
                Partition::default(),
                Partition::Hold,
                Partition::Overlap,
            ][self.chance.below(6) as usize],
            roles,
            warnings: Vec::new(),
        }
    }
}
