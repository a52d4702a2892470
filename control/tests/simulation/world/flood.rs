//! Everything is used by opportunistic jobs of one virtual cluster; another one wants what it was
//! promised.

use std::collections::BTreeSet;

use muster_control::gang::JobId;
use muster_control::vc::{JobDocument, VcEntry};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::AttemptUid;
use muster_model::sight::JobSight;
use muster_model::state::PriorityClass;

use super::{AcceptedJob, World, WorldEvent};

/// By then every device is in use.
const FLOODED_MS: u64 = 60_000;
/// The grace of those that give way, and messages.
const WITHIN_MS: u64 = 7_000;
/// Opportunistic jobs, each of one device.
const FLOOD: u64 = 200;

impl World {
    /// Lets a gang that takes all that its virtual cluster was promised come into a cluster that is
    /// full; gives how many tasks had to give way for it.
    pub(crate) fn flood(&mut self) -> usize {
        let shares: ClusterSpec = self.shares();
        self.describe(shares);
        for vc in self.vcs() {
            self.at(0, WorldEvent::Election(vc));
        }
        for i in 0..FLOOD {
            self.accept(0, &format!("flood{i}"), Some(PriorityClass::Oppo), 1);
        }
        let limit = self.now.plus_millis(FLOODED_MS);
        while self.idle_devices() > 0 {
            assert!(self.now < limit, "devices are idle though jobs wait");
            self.pass(100);
        }
        self.accept(1, "promised", None, 3);
        self.pass(WITHIN_MS);
        let reign = &self.reigns[1];
        let key = "alice~promised".parse().unwrap();
        let id: Option<JobId> = reign.state.job_id(&key);
        let launched: BTreeSet<_> = self.launched().collect();
        let own = reign.placed.iter();
        let mut own = own.filter(|(run, _)| Some(run.gang.job) == id);
        assert!(
            own.any(|(_, uid)| launched.contains(uid)),
            "it waits for what it was promised: {:?}",
            id.and_then(|_| reign
                .coordinator
                .waiting_for(&reign.state, &key, &JobSight::All))
        );
        let reign = &self.reigns[0];
        reign.check_charges();
        self.evicted.len()
    }

    fn idle_devices(&self) -> usize {
        let free = self.machines.values().map(|m| m.ledger.free().free);
        free.map(|free| free.devices.len()).sum()
    }

    /// Tasks whose devices were free for them: their containers were made, whether for long or not.
    fn launched(&self) -> impl Iterator<Item = &AttemptUid> {
        let executors = self.machines.values().map(|machine| &machine.executor);
        executors.flat_map(|it| it.containers.keys().chain(it.exits.keys()))
    }

    fn accept(&mut self, vc: usize, name: &str, priority: Option<PriorityClass>, gpus: u32) {
        let mut spec = self.job_spec(vc);
        spec.priority = priority;
        spec.gang = true;
        spec.roles.truncate(1);
        let role = &mut spec.roles[0];
        role.instances = 1;
        role.resources.gpu = gpus;
        let job = AcceptedJob {
            key: format!("alice~{name}").parse().unwrap(),
            uid: format!("uid-{name}").parse().unwrap(),
            spec,
            document: JobDocument::default(),
            sealed_secrets: Vec::new(),
            submitted_ms: self.now.as_millis(),
        };
        self.at(
            1,
            WorldEvent::Entry(vc, Box::new(VcEntry::Accept(Box::new(job)))),
        );
    }

    fn pass(&mut self, ms: u64) {
        let until = self.now.plus_millis(ms);
        while self.now < until {
            self.advance();
            self.check();
        }
    }
}
