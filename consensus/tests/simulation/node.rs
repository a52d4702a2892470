//! A node: a host, its store, its disk.

use muster_consensus::{
    GroupId, Host, HostInput, HostOptions, HostOutput, LogStore, NodeId, StoreId, StoredGroup,
    Write,
};
use muster_model::time::Time;
use rand::Rng;
use rand::rngs::StdRng;

use crate::chain::HashChain;
use crate::disk::Disk;

pub(crate) type Outputs = Vec<HostOutput<(u64, u64)>>;

/// What runs while a node is up.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) host: Host<HashChain>,
    store: LogStore,
    /// A write on its way, and when it is durable.
    pub(crate) writing: Option<(Time, Write)>,
}

/// A node, up or down.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    disk: Disk,
    pub(crate) running: Option<Running>,
    /// Does nothing until then.
    pub(crate) paused: Time,
    /// Takes this longer for every sync.
    pub(crate) slow_us: u64,
}

impl Node {
    pub(crate) fn new(id: NodeId) -> Self {
        Self {
            id,
            disk: Disk::default(),
            running: None,
            paused: Time(0),
            slow_us: 0,
        }
    }

    pub(crate) fn host(&self) -> Option<&Host<HashChain>> {
        self.running.as_ref().map(|running| &running.host)
    }

    /// Starts from what the disk holds. What a crash tore is the store's business.
    pub(crate) fn start(
        &mut self,
        now: Time,
        seed: u64,
        rng: &mut StdRng,
    ) -> Result<(Outputs, Vec<StoredGroup>), String> {
        let fresh = StoreId(rng.random());
        let opened = LogStore::on(self.disk.clone(), fresh);
        let mut store = opened.map_err(|error| format!("{:?}: {error:?}", self.id))?;
        let found = store.load().map_err(|error| format!("{error:?}"))?;
        let options = HostOptions {
            log_entries_max: 60,
            ..HostOptions::new(self.id, store.id(), seed)
        };
        let mut out = Vec::new();
        let make = |_: GroupId| HashChain::default();
        let host = Host::open(now, options, found.clone(), make, &mut out);
        self.running = Some(Running {
            host,
            store,
            writing: None,
        });
        Ok((out, found))
    }

    pub(crate) fn store(&self) -> Option<StoreId> {
        self.running.as_ref().map(|running| running.store.id())
    }

    /// The power fails.
    pub(crate) fn crash(&mut self, rng: &mut StdRng) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        if let Some((_, write)) = running.writing.take()
            && rng.random()
        {
            // It was on its way: nobody heard of it, but it may have come to the disk.
            self.disk = self.disk.torn(&mut running.store, &write, rng);
        } else {
            self.disk = self.disk.crash(rng);
        }
    }

    /// The disk is replaced by an empty one.
    pub(crate) fn lose_disk(&mut self) {
        self.disk = Disk::default();
    }

    pub(crate) fn begin_write(&mut self, now: Time, write: Write, rng: &mut StdRng) {
        let most = if rng.random_range(0..8) == 0 {
            40_000
        } else {
            2_000
        };
        let at = Time(now.0 + rng.random_range(200..most) + self.slow_us);
        if let Some(running) = &mut self.running {
            assert!(running.writing.is_none(), "two writes at a time");
            running.writing = Some((at, write));
        }
    }

    /// When it wants to run next.
    pub(crate) fn due(&self) -> Option<Time> {
        let running = self.running.as_ref()?;
        let write = running.writing.as_ref().map(|(at, _)| *at);
        let due = write.into_iter().chain(running.host.deadline()).min()?;
        Some(due.max(self.paused))
    }

    /// Performs what is due.
    pub(crate) fn wake(&mut self, now: Time, out: &mut Outputs) -> Result<(), String> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        if let Some((_, write)) = running.writing.take_if(|(at, _)| *at <= now) {
            let written = running.store.write(&write);
            written.map_err(|error| format!("{error:?}"))?;
            running
                .host
                .handle(now, HostInput::Written(write.number), out);
        }
        if running.host.deadline().is_some_and(|at| at <= now) {
            running.host.handle(now, HostInput::Tick, out);
        }
        Ok(())
    }

    pub(crate) fn apply_next(&mut self, out: &mut Outputs) -> bool {
        let running = self.running.as_mut();
        running.is_some_and(|running| running.host.apply_next(out))
    }

    pub(crate) fn handle(&mut self, now: Time, input: HostInput, out: &mut Outputs) {
        if let Some(running) = &mut self.running {
            running.host.handle(now, input, out);
        }
    }
}

impl Disk {
    /// A crash in the middle of a write.
    fn torn(&self, store: &mut LogStore, write: &Write, rng: &mut StdRng) -> Self {
        self.fail_after(rng.random_range(0..3));
        // Nobody hears whether it was written.
        let _ = store.write(write);
        self.crash(rng)
    }
}
