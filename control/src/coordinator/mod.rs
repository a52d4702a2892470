//! The leader's side of a virtual cluster: from what is committed and what nodes tell to the
//! next entries and orders.
//!
//! It works from levels, not edges: for each gang it looks at the committed phase, sends the
//! order that the phase calls for until it is answered, and proposes what the answers allow. So
//! a new leader, or the same after a restart, needs nothing but the state and fresh reports.

mod ageing;
mod answering;
mod auditing;
mod binding;
mod cordoning;
mod describing;
mod explaining;
mod inventory;
mod launching;
mod losing;
mod mass;
mod mending;
mod node;
mod nodes;
mod planning;
mod quotas;
mod reserving;
mod steering;
mod telling;
#[cfg(test)]
mod tests;
mod work;

pub use binding::Bindings;
pub use describing::Outlook;
pub use inventory::Refused;

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{JobKey, NodeId, UserName, VcName};
use muster_model::job::JobSpec;
use muster_model::time::Time;

use crate::cluster::Binding;
use crate::fence::{Fence, Term};
use crate::gang::{GangId, Run};
use crate::now::Now;
use crate::order::{Command, Member, Order, Tell};
use crate::vc::attempt::Phase;
use crate::vc::{Applied, Entry, Rejected, VcState};
use binding::Binder;
pub use cordoning::Cordon;
use inventory::Inventory;
use mass::Losses;
use nodes::Nodes;
use planning::Due;
use work::Work;

/// Times and limits of a leader. All times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A reservation that is not launched ends by itself after this.
    pub reserve_ttl_ms: u64,
    /// A round that is not placed within this is given up and planned again.
    pub round_timeout_ms: u64,
    /// An order without an answer is sent again after this, then after twice as long.
    pub resend_ms: u64,
    /// The longest time between two sendings.
    pub resend_max_ms: u64,
    /// How long a ready task waits for the rest of its gang (OpenPAI's barrier).
    pub barrier_ms: u64,
    /// How long a placed gang may take to have its first ready task, image pulls included.
    pub launch_ms: u64,
    /// Between the polite and the hard signal of a stop.
    pub stop_grace_ms: u64,
    /// Each node is asked for a report this often while it matters.
    pub report_ms: u64,
    /// Writable layer of a task, MiB; 0 for no limit.
    pub disk_mb: u64,
}

/// How long a new leader waits for the reports of nodes that tasks run on, milliseconds: what they
/// hold counts for their virtual cluster once it is known where.
const HOLD_MS: u64 = 10_000;
/// The same, after a recovery: what nodes run that nobody knows any more is stopped first.
const STRAYS_MS: u64 = 120_000;

/// What is said of a node that others hear, for people.
const MUTE: &str = "the leader of the virtual cluster hears nothing of it, though others do";

impl Default for Policy {
    fn default() -> Self {
        Self {
            reserve_ttl_ms: 30_000,
            round_timeout_ms: 10_000,
            resend_ms: 1_000,
            resend_max_ms: 30_000,
            barrier_ms: 600_000,
            launch_ms: 7_200_000,
            stop_grace_ms: 20_000,
            report_ms: 30_000,
            disk_mb: 0,
        }
    }
}

/// What a coordinator is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The virtual cluster it leads.
    pub vc: VcName,
    /// The virtual cluster's generation.
    pub generation: u32,
    /// Seeds the jitter of pauses.
    pub seed: u64,
    /// Times and limits.
    pub policy: Policy,
    /// Who comes first and who may pass whom.
    pub placement: muster_placement::decide::Policy,
    /// How long a gang may run before one of its own virtual cluster may evict it, milliseconds.
    pub min_run_ms: u64,
}

/// What can happen to a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// This node leads from now on.
    Elected {
        /// In this term.
        term: Term,
    },
    /// An entry was applied, or refused when applied; whoever proposed it.
    Applied(Result<Applied, Rejected>),
    /// A node tells something.
    Tell {
        /// The node.
        node: NodeId,
        /// What.
        tell: Tell,
    },
    /// These nodes cannot be reached, or are no members any more: nothing is placed there. All
    /// others may be placed on.
    Unreachable(BTreeSet<NodeId>),
    /// These nodes can be reached. After a recovery nothing is placed before they have reported: what they
    /// run may be known to nobody who is left.
    Reachable(BTreeSet<NodeId>),
    /// These nodes are no members any more.
    Left(BTreeSet<NodeId>),
    /// These nodes are kept free by an admin: nothing is placed there, and what runs there may have
    /// to go. No other is.
    Cordoned(BTreeMap<NodeId, Cordon>),
    /// Whether what is placed from now on may hold by run leases: enough voters can renew them. While it
    /// may not, nothing starts anew for the silence of a node.
    Leases(bool),
    /// To nobody who renews leases has the node made itself heard for so many milliseconds: tasks
    /// there whose leases are over by then have ended.
    Silent {
        /// The node.
        node: NodeId,
        /// For how long.
        for_ms: u64,
    },
    /// An admin says that this node is off: what was there has ended.
    Off(NodeId),
    /// The cluster is described so from now on: without physical cells as nodes report it, without
    /// virtual clusters all of it for one. None: that is not known; nothing is placed meanwhile.
    Described(Option<Box<ClusterSpec>>),
    /// Whether there is a `cluster` group that binds virtual clusters to cells; else each leader does.
    BoundByCluster(bool),
    /// The answer to [`Output::Bind`]; with what each is bound to, if there is news.
    Bound(Option<Bindings>),
    /// `deadline()` has passed.
    Tick,
}

/// What the caller must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Commit and apply this entry. May be lost only together with the leadership.
    Propose(Box<Entry>),
    /// Send this order; may be lost.
    Send {
        /// To this node.
        node: NodeId,
        /// The order.
        order: Box<Order>,
    },
    /// Ask a node for a report; may be lost.
    AskReport {
        /// The node.
        node: NodeId,
    },
    /// Have the `cluster` group bind the virtual cluster to cells; the answer is [`Input::Bound`]. May be
    /// lost.
    Bind {
        /// The version of the bindings that are known; 0 for none.
        known: u64,
        /// What is asked for and given back.
        binding: Box<Binding>,
    },
}

/// The leader of one virtual cluster.
#[derive(Clone, Debug)]
pub struct Coordinator {
    options: Options,
    /// The time of the input that is being handled.
    now: Time,
    /// The time of day then.
    wall: Time,
    term: Option<Term>,
    /// An entry of the own term was applied.
    leads: bool,
    nodes: Nodes,
    unreachable: BTreeSet<NodeId>,
    losses: Losses,
    cordons: BTreeMap<NodeId, Cordon>,
    /// When gangs have to leave a node that they may still be on.
    drain_at: Option<Time>,
    /// When the hour is over that is being counted.
    hour_over_at: Option<Time>,
    /// When another gang that does not wait for silent nodes may be started anew.
    overlap_at: Option<Time>,
    /// Whether runs may hold by leases.
    leases: bool,
    /// Nothing is placed before, while nodes that tasks run on have not reported.
    held_until: Option<Time>,
    /// Nodes that can be reached, as far as was said.
    reachable: BTreeSet<NodeId>,
    work: BTreeMap<GangId, Work>,
    /// The next rounds of gangs some of whose members need other places.
    mends: BTreeMap<GangId, Work>,
    /// Gangs that places are to be looked for again.
    to_mend: BTreeSet<GangId>,
    /// The gangs that a node was sent orders for; some of them may be over.
    linked: BTreeMap<NodeId, BTreeSet<GangId>>,
    /// Gangs that gave a plan up since something last came free.
    refused: BTreeSet<GangId>,
    wakes: BTreeSet<(Time, GangId)>,
    plan: planning::Notes,
    inventory: Inventory,
    binder: Binder,
}

impl Coordinator {
    /// The generation that it leads its virtual cluster in.
    pub const fn generation(&self) -> u32 {
        self.options.generation
    }

    /// A coordinator that leads nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            inventory: Inventory::default(),
            options,
            now: Time::default(),
            wall: Time::default(),
            term: None,
            leads: false,
            nodes: Nodes::default(),
            unreachable: BTreeSet::new(),
            losses: Losses::default(),
            cordons: BTreeMap::new(),
            drain_at: None,
            hour_over_at: None,
            overlap_at: None,
            leases: false,
            held_until: None,
            reachable: BTreeSet::new(),
            work: BTreeMap::new(),
            mends: BTreeMap::new(),
            to_mend: BTreeSet::new(),
            linked: BTreeMap::new(),
            refused: BTreeSet::new(),
            wakes: BTreeSet::new(),
            plan: planning::Notes::default(),
            binder: Binder::default(),
        }
    }

    /// Takes one input. `state` is the state with every entry applied that `Input::Applied`
    /// was given for.
    pub fn handle(&mut self, now: Now, state: &VcState, input: Input, out: &mut Vec<Output>) {
        self.now = now.steady;
        self.wall = now.wall;
        match input {
            Input::Elected { term } => self.elected(term, out),
            Input::Applied(Ok(applied)) => self.applied(state, applied, out),
            Input::Applied(Err(Rejected::NotOwn(run))) => self.not_own(&run, out),
            // A refused proposal came late, and what overtook it was applied before.
            Input::Applied(Err(_)) => {}
            Input::Tell { node, tell } => self.told(state, node, tell, out),
            Input::Unreachable(nodes) => self.seen(state, nodes, out),
            Input::Reachable(nodes) => self.reachable = nodes,
            Input::Left(nodes) => self.left(state, &nodes),
            Input::Cordoned(nodes) => self.cordon(nodes),
            Input::Leases(leases) => self.allow_leases(state, leases, out),
            Input::Silent { node, for_ms } => self.silent(state, &node, for_ms, out),
            Input::Off(node) => self.off(state, &node, out),
            Input::Described(description) => self.describe(description.map(|it| *it)),
            Input::BoundByCluster(is_bound) => self.bound_by_cluster(is_bound),
            Input::Bound(news) => self.bound(state, news, out),
            Input::Tick => {}
        }
        if self.leads {
            self.drain(state, out);
            self.overlap_again(state, out);
            self.wake(state, out);
            self.mend_all(state, out);
            self.plan(state, out);
            self.ask_for_cells(state, out);
            self.poll(out);
            self.count_hours(state, out);
        }
    }

    /// When [`Input::Tick`] is due, by the clock that nobody sets.
    pub fn deadline(&self) -> Option<Time> {
        if !self.leads {
            return None;
        }
        let work = self.wakes.first().map(|(at, _)| *at);
        let poll = self.nodes.next_poll(self.matters());
        let times = [work, poll, self.plan.next()];
        let now = Now {
            steady: self.now,
            wall: self.wall,
        };
        let drain = self.drain_at.map(|at| now.when(at));
        let others = [
            drain,
            self.overlap_at,
            self.held_until,
            self.binding_due(),
            self.hour_over_at,
        ];
        let times = times.into_iter().chain(others);
        times.flatten().min()
    }

    /// Whether a job could ever be placed: in the cluster that the administrator describes, or, where the
    /// machines are found, on those that there are. `unheard` machines have not said yet what they have: while
    /// there are any, a job that asks for more than the others have is taken, with a remark.
    ///
    /// # Errors
    /// Why not, and for which field.
    pub fn judge(
        &self,
        job: &JobSpec,
        user: &UserName,
        unheard: usize,
    ) -> Result<Option<String>, Refused> {
        let is_found = self.described().is_none_or(|it| it.cells.is_empty());
        let mut vcs = self.described().into_iter();
        if vcs.any(|it| !it.virtual_clusters.contains_key(&job.vc)) {
            return Err(Refused::no_vc(job));
        }
        if is_found && !self.knows_its_machines() {
            return Ok(None);
        }
        let judged = self.inventory.judge(job, user, &self.options.placement);
        match judged {
            Ok(()) => Ok(None),
            Err(refused) if is_found && unheard > 0 => Ok(Some(format!(
                "On the machines that are known now it cannot start: {}. {unheard} more may be able to, which have \
                 not been heard yet; it waits for them.",
                refused.why
            ))),
            Err(refused) => Err(refused),
        }
    }

    /// Whether there are cells of all machines that have reported.
    fn knows_its_machines(&self) -> bool {
        let mut ids = self.nodes.ids();
        !self.nodes.is_empty()
            && self.inventory.cells().is_some()
            && !self.inventory.is_to_be_reshaped(&self.nodes)
            && ids.all(|id| self.inventory.has_node(id))
    }

    /// What is wrong with the cells that jobs are placed on, as sentences for people.
    pub fn problems(&self) -> Vec<String> {
        let nodes = self.nodes.ids().filter(|id| !self.inventory.has_node(id));
        let strangers = nodes.map(|id| {
            format!(
                "nothing is placed on {id}: the description of the cluster does not name it; add \
                 it under physicalCells"
            )
        });
        let mute = self.nodes.mute().difference(&self.unreachable);
        let mute = mute.map(|id| format!("nothing is placed on {id}: {MUTE}"));
        let problems = self.inventory.problems().chain(strangers).chain(mute);
        let problems = problems.chain(self.mass_failure());
        problems.chain(self.shortfalls()).collect()
    }

    /// Why a job waits, a sentence part, if it does and this node leads.
    pub fn waiting_for(&self, state: &VcState, job: &JobKey) -> Option<String> {
        if !self.leads {
            return None;
        }
        let mut gangs = state.gangs_of(state.job_id(job)?);
        gangs.find_map(|current| self.reason(state, &current))
    }

    /// The nodes that cannot be reached, by the word of the mesh, or by what this leader hears itself.
    fn cut_off(&self) -> BTreeSet<NodeId> {
        self.unreachable.union(self.nodes.mute()).cloned().collect()
    }

    fn seen(&mut self, state: &VcState, unreachable: BTreeSet<NodeId>, out: &mut Vec<Output>) {
        if self.unreachable != unreachable {
            self.losses.seen(self.now, &unreachable);
            let before = std::mem::replace(&mut self.unreachable, unreachable);
            self.plan.due(Due::All);
            if self.leads {
                self.look_elsewhere(state, &before, out);
                self.overlap(state, out);
            }
        }
    }

    fn elected(&mut self, term: Term, out: &mut Vec<Output>) {
        self.term = Some(term);
        self.leads = false;
        self.work.clear();
        self.mends.clear();
        self.to_mend.clear();
        self.linked.clear();
        self.refused.clear();
        self.wakes.clear();
        self.hour_over_at = None;
        self.plan = planning::Notes::default();
        self.inventory.clear();
        self.begin_binding();
        self.nodes.begin_term(self.now);
        out.push(Output::Propose(Box::new(Entry::Elected { term })));
    }

    fn applied(&mut self, state: &VcState, applied: Applied, out: &mut Vec<Output>) {
        match applied {
            Applied::Term(term) if Some(term) == self.term => {
                self.leads = true;
                let hold_ms = match self.options.generation {
                    0 | 1 => HOLD_MS,
                    _ => STRAYS_MS,
                };
                self.held_until = Some(self.now.plus_millis(hold_ms));
                self.plan.due(Due::All);
                let live: Vec<GangId> = state.live().map(|current| current.run.gang).collect();
                for gang in live {
                    self.steer(state, &gang, out);
                }
                self.overlap(state, out);
                let nodes: Vec<NodeId> = self.nodes.ids().cloned().collect();
                for node in nodes {
                    if self.options.generation > 1 {
                        // What it told before was not looked through: it may run what nobody knows.
                        self.nodes.set_unsettled(&node, true);
                    }
                    out.push(Output::AskReport { node });
                }
            }
            Applied::Job { id, .. } if self.leads => {
                for current in state.gangs_of(id) {
                    if current.gang.phase == Phase::Waiting {
                        self.plan.add(current.run.gang);
                    }
                }
                let first = GangId {
                    job: id,
                    task: None,
                };
                let known = self.work.range(first..).map(|(gang, _)| gang);
                let known = known.take_while(|gang| gang.job == id);
                // One that never was reserved may have a claim, or a number at least.
                let known = known.chain(self.inventory.gangs_of(id)).cloned();
                let gangs = state.gangs_of(id).filter(|current| current.gang.is_live());
                let gangs: BTreeSet<GangId> =
                    known.chain(gangs.map(|current| current.run.gang)).collect();
                for gang in gangs {
                    self.steer(state, &gang, out);
                }
            }
            Applied::Cells if self.leads => self.cells_changed(),
            Applied::Term(_) | Applied::Job { .. } | Applied::Cells | Applied::Hour => {}
        }
    }

    /// Steers every gang whose time has come.
    fn wake(&mut self, state: &VcState, out: &mut Vec<Output>) {
        while let Some((at, gang)) = self.wakes.first().cloned() {
            if at > self.now {
                return;
            }
            self.wakes.remove(&(at, gang.clone()));
            self.steer(state, &gang, out);
        }
    }

    /// What is being done about this very run.
    fn work_of(&self, run: &Run) -> Option<&Work> {
        let own = |work: &&Work| work.run == *run;
        let now = self.work.get(&run.gang).filter(own);
        now.or_else(|| self.mends.get(&run.gang).filter(own))
    }

    fn work_of_mut(&mut self, run: &Run) -> Option<&mut Work> {
        let own = |work: &&mut Work| work.run == *run;
        let now = self.work.get_mut(&run.gang).filter(own);
        now.or_else(|| self.mends.get_mut(&run.gang).filter(own))
    }

    /// Sets the gang's next wake-up, replacing the one before.
    fn wake_at(&mut self, gang: &GangId, at: Option<Time>) {
        let Some(work) = self.work.get_mut(gang) else {
            return;
        };
        if let Some(old) = std::mem::replace(&mut work.wake, at) {
            self.wakes.remove(&(old, gang.clone()));
        }
        if let Some(at) = at {
            self.wakes.insert((at, gang.clone()));
        }
    }

    fn poll(&mut self, out: &mut Vec<Output>) {
        let all = self.matters();
        let every_ms = self.options.policy.report_ms;
        while let Some(node) = self.nodes.poll(self.now, every_ms, all) {
            out.push(Output::AskReport { node });
        }
    }

    /// Whether anything waits for nodes.
    fn matters(&self) -> bool {
        !self.work.is_empty() || self.plan.is_blocked() || !self.plan.impossible.is_empty()
    }

    /// Sends an order and gives its number; nothing is sent, and the number is 0, to a node that
    /// never reported. Whether anybody waits for the answer is the caller's business.
    fn send(&mut self, node: &NodeId, run: &Run, command: Command, out: &mut Vec<Output>) -> u64 {
        let (Some(term), Some((seq, life))) = (self.term, self.nodes.next_order(node)) else {
            return 0;
        };
        let order = Order {
            vc: self.options.vc.clone(),
            fence: Fence {
                generation: self.options.generation,
                term,
                seq,
            },
            epoch: life.epoch,
            start: life.start,
            run: run.clone(),
            command,
        };
        out.push(Output::Send {
            node: node.clone(),
            order: Box::new(order),
        });
        seq
    }

    fn settle(&mut self, node: &NodeId, run: &Run, members: Vec<Member>, out: &mut Vec<Output>) {
        if members.is_empty() {
            return;
        }
        self.send(node, run, Command::Settle { members }, out);
        // It may be lost, or come after a newer order: the node is asked what it has still.
        self.nodes.set_settling(node, true);
    }
}
