//! A node's ledger: the only place where devices, cores, memory and ports are granted.
//!
//! It admits or refuses orders, keeps what must outlive a crash, and tells the executor what to
//! do. It knows nothing of jobs beyond their names. What is not durable here is either said
//! again by the leader or seen again by the executor.

mod admit;
mod capacity;
mod cell_epochs;
mod claims;
mod durable;
mod grant;
mod keep;
mod observe;
mod orders;
mod orphans;
mod record;
mod reserve;
mod strays;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::{Cause, Verdict};
use muster_model::id::{AttemptUid, NodeId, VcName};
use muster_model::launch::TaskSpec;
use muster_model::node::{Capacity, NodeTask};
use muster_model::time::Time;
use muster_model::view::TaskHold;

use crate::fence::{Fence, LedgerEpoch, StartId, Term};
use crate::gang::GangRun;
use crate::lease::Leased;
use crate::order::{FreeList, Order, RunMember, Tell};
pub use durable::LAZY_WRITE_MS;
use grant::{GrantState, TaskGrant};
pub use orphans::Membership;
pub use record::{LedgerChange, LedgerReadError};

/// Grants of one node at most, ended ones included.
pub const GRANTS_MAX: usize = 4096;

/// A reservation or claim of an agent's earlier life ends after this at the latest, milliseconds.
const KEPT_MS: u64 = 30_000;

/// Who this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerIdentity {
    /// Its id.
    pub node: NodeId,
    /// Address that other nodes' tasks reach it at.
    pub address: String,
    /// Its ledger's name: random, made and kept with the ledger.
    pub epoch: LedgerEpoch,
    /// This agent life's name: random, made at every start.
    pub start: StartId,
}

/// What can happen to a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerInput {
    /// The first input of an agent life.
    Started,
    /// The containers that there are, by the first look of this agent life. Those that nothing here
    /// stands for are removed. Before they are gone nothing is granted or launched, and nothing is said of
    /// tasks that are not held here.
    Found(Vec<AttemptUid>),
    /// The present term of a virtual cluster, read from its group after this ledger was made.
    /// Until then the ledger admits no order of that virtual cluster.
    Learned {
        /// The virtual cluster.
        vc: VcName,
        /// Its generation.
        generation: u32,
        /// Its term.
        term: Term,
    },
    /// The node is in another cluster from now on, or in none: leaders are others, and terms are
    /// counted anew. What the leaders of before ordered is not admitted any more, for it names the
    /// life of before.
    Moved {
        /// The name of the life that begins.
        start: StartId,
    },
    /// As which member the node takes orders from now on; said at each start, and after [`LedgerInput::Moved`].
    /// What was granted to it as another member is settled by nobody any more.
    Serves(Membership),
    /// A leader orders something.
    Order(Box<Order>),
    /// The executor saw something of a task.
    Observed {
        /// The task attempt.
        uid: AttemptUid,
        /// What.
        what: Observation,
    },
    /// Hardware came, went or fell sick.
    Capacity(Capacity),
    /// The node takes no new tasks, for this reason; none: it does.
    Closed(Option<String>),
    /// The leader of this virtual cluster asks what there is; none: all that lead are to be told.
    Report(Option<VcName>),
    /// `deadline()` has passed.
    Tick,
}

/// What the executor sees of a task. Each fact may be told again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nothing of it is on this node: the answer to [`ExecutorStep::Adopt`] when no container is there.
    Absent,
    /// Everything is checked; it waits for Go.
    Ready,
    /// The user's commands were started.
    Running,
    /// They failed, and its container is kept. Its end follows.
    OnHold(Box<TaskHold>),
    /// It could not be brought to Ready.
    LaunchFailed(Box<Verdict>),
    /// Its process ended; the engine still keeps the exit.
    Ended(Box<Verdict>),
    /// The container and every process of it are gone: the answer to [`ExecutorStep::Remove`].
    Gone,
}

/// What the caller must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerOutput {
    /// Make these durable, in one transaction, before the next output.
    Persist(Vec<LedgerChange>),
    /// Tell the leader; may be lost.
    Tell(Tell),
    /// Tell the leader of this virtual cluster alone, who asked; may be lost.
    TellOne(VcName, Tell),
    /// Have the executor do this.
    Step(ExecutorStep),
}

/// What the executor is to do. Each is safe to repeat, and none waits for another task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorStep {
    /// Look for the container of a task that the ledger holds, watch it, and observe what it
    /// does: Ready, Running, Ended or Absent.
    Adopt(AttemptUid),
    /// Bring the task to Ready, or observe LaunchFailed.
    Create(Box<TaskSpec>),
    /// Start the user's commands.
    Go(AttemptUid),
    /// End the task; observe Ended, or Gone if nothing of it was there yet.
    Stop {
        /// Which.
        uid: AttemptUid,
        /// Why, for the verdict.
        cause: Cause,
        /// Time between the polite and the hard signal, milliseconds.
        grace_ms: u64,
    },
    /// Remove container and processes; observe Gone when nothing is left.
    Remove(AttemptUid),
}

/// The newest order of a run, so that changes can be answered to it.
#[derive(Clone, Debug)]
struct Latest {
    fence: Fence,
    members: Vec<RunMember>,
}

/// A node's ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    identity: LedgerIdentity,
    /// The time of the input that is being handled.
    now: Time,
    capacity: Capacity,
    /// Why nothing new is admitted, if so. Told at each start of the agent.
    closed: Option<String>,
    grants: BTreeMap<AttemptUid, TaskGrant>,
    fences: BTreeMap<VcName, Fence>,
    /// In which epoch each cell was asked for last.
    cell_epochs: BTreeMap<u32, u64>,
    latest: BTreeMap<(VcName, GangRun), Latest>,
    version: u64,
    next_port: u16,
    lazy: Vec<LedgerChange>,
    flush_at: Option<Time>,
    /// What is to be created when those that give way are gone. A later life of the agent is told
    /// again.
    pending: BTreeMap<AttemptUid, TaskSpec>,
    /// The version that leaders were told of.
    told_version: u64,
    /// When leaders are told of what has changed since.
    tell_at: Option<Time>,
    /// Containers that are being removed, for nothing here stands for them; none before the first look.
    strays: Option<BTreeSet<AttemptUid>>,
    /// Whose orders it takes, and what is left of those whom it served before.
    service: orphans::Service,
}

impl Ledger {
    /// The ledger as its records have it. `records` are all keys and values that were put and
    /// not deleted.
    ///
    /// # Errors
    /// When a record cannot be read; the agent must not run on a ledger it does not understand.
    pub fn recover(
        identity: LedgerIdentity,
        records: impl IntoIterator<Item = (String, Vec<u8>)>,
        capacity: Capacity,
    ) -> Result<Self, LedgerReadError> {
        let next_port = capacity.port_first;
        let mut ledger = Self {
            identity,
            now: Time::default(),
            capacity,
            closed: None,
            grants: BTreeMap::new(),
            fences: BTreeMap::new(),
            cell_epochs: BTreeMap::new(),
            latest: BTreeMap::new(),
            version: 0,
            next_port,
            lazy: Vec::new(),
            flush_at: None,
            pending: BTreeMap::new(),
            told_version: 0,
            tell_at: None,
            strays: None,
            service: orphans::Service::default(),
        };
        for (key, value) in records {
            record::restore(&mut ledger, &key, &value)?;
        }
        Ok(ledger)
    }

    /// Takes one input. `port_is_free` asks the kernel whether a port can be bound now; it is
    /// called only for ports that the ledger itself has free.
    pub fn handle(
        &mut self,
        now: Time,
        input: LedgerInput,
        port_is_free: &dyn Fn(u16) -> bool,
        out: &mut Vec<LedgerOutput>,
    ) {
        self.now = now;
        self.expire();
        match input {
            LedgerInput::Started => self.adopt(out),
            LedgerInput::Found(containers) => self.found(containers, out),
            LedgerInput::Learned {
                vc,
                generation,
                term,
            } => self.learn(vc, generation, term, out),
            LedgerInput::Moved { start } => self.moved(start, out),
            LedgerInput::Serves(membership) => self.serves(membership, out),
            LedgerInput::Order(order) => self.order(*order, port_is_free, out),
            LedgerInput::Observed { uid, what } => self.observe(&uid, what, out),
            LedgerInput::Capacity(capacity) => {
                self.capacity = capacity;
                self.changed();
                self.report(out);
            }
            LedgerInput::Closed(why) => self.close(why, out),
            LedgerInput::Report(Some(vc)) => out.push(LedgerOutput::TellOne(vc, self.told())),
            LedgerInput::Report(None) => self.report(out),
            LedgerInput::Tick => {}
        }
        self.drop_orphans();
        self.take_over(out);
        self.tell_others(out);
        self.flush(out);
    }

    /// When [`LedgerInput::Tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let reservations = self.grants.values().filter_map(TaskGrant::expires);
        reservations.chain(self.flush_at).chain(self.tell_at).min()
    }

    /// What an order for this virtual cluster must be above to be admitted; none is admitted before the
    /// ledger has learned who leads.
    pub fn fence(&self, vc: &VcName) -> Option<Fence> {
        self.fences.get(vc).copied()
    }

    /// What the ledger has granted, for people.
    pub fn tasks(&self) -> Vec<NodeTask> {
        self.grants.values().map(TaskGrant::view).collect()
    }

    /// The tasks that hold by run leases, and those that may come to.
    pub fn leased(&self) -> impl Iterator<Item = Leased> {
        self.grants.values().filter_map(TaskGrant::leased)
    }

    /// Whether a step that waited for the disk is still to be done: what was given up meanwhile is not
    /// created any more.
    pub fn is_due(&self, step: &ExecutorStep) -> bool {
        let ExecutorStep::Create(task) = step else {
            return true;
        };
        let grant = self.grants.get(&task.placement.uid);
        grant.is_some_and(|grant| matches!(grant.state, GrantState::Held(_)))
    }

    /// What is free now.
    pub fn free(&self) -> FreeList {
        FreeList {
            version: self.version,
            free: self.count_free(),
        }
    }

    /// What the node has.
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    fn adopt(&mut self, out: &mut Vec<LedgerOutput>) {
        self.cap_waits();
        for grant in self.grants.values() {
            let uid = grant.member.uid.clone();
            match &grant.state {
                GrantState::Held(_) | GrantState::Draining => {
                    out.push(LedgerOutput::Step(ExecutorStep::Adopt(uid)))
                }
                GrantState::Ended { gone: false, .. } => {
                    out.push(LedgerOutput::Step(ExecutorStep::Remove(uid)))
                }
                GrantState::Ended { gone: true, .. }
                | GrantState::Reserved { .. }
                | GrantState::Claimed { .. }
                | GrantState::Evicting => {}
            }
        }
        self.evict_again(out);
    }

    /// What an earlier life has set aside ends soon: that life may have counted by the clock of an
    /// earlier boot.
    fn cap_waits(&mut self) {
        let latest = self.now.plus_millis(KEPT_MS);
        for grant in self.grants.values_mut() {
            if let GrantState::Reserved { expires } | GrantState::Claimed { expires } =
                &mut grant.state
            {
                *expires = latest.min(*expires);
            }
        }
    }

    fn expire(&mut self) {
        let now = self.now;
        let over: Vec<AttemptUid> = self
            .grants
            .iter()
            .filter(|(_, grant)| grant.expires().is_some_and(|expires| expires <= now))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in over {
            self.forget(&uid);
        }
    }
}
