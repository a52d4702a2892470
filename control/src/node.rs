//! What a node does for those who lead: its ledger, its run leases, whom it tells, and why it takes no
//! new tasks.

use std::collections::BTreeMap;

use muster_consensus as consensus;
use muster_model::id::{AttemptUid, VcName};
use muster_model::node::Capacity;
use muster_model::time::Time;

use crate::fence::{StartId, Term};
use crate::lease::{self, LeaseHolder, RenewalRequest};
use crate::ledger::{self, Ledger, Membership, Observation};
use crate::order::{Order, Tell};

/// Who has a node take no new tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnschedulableReason {
    /// An admin of the cluster.
    Admin,
    /// The state's disk, which has no room.
    Disk,
    /// The node itself, which is about to leave its cluster.
    Leaving,
}

/// Who leads a virtual cluster, as far as was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VcLeader {
    /// Generation and term.
    pub reign: (u32, Term),
    /// Its number.
    pub node: consensus::NodeId,
}

/// What happens to a node.
#[derive(Clone, Debug)]
pub enum NodeInput {
    /// The first input of an agent life.
    Started,
    /// The containers that there are, by the first look of this agent life.
    Found(Vec<AttemptUid>),
    /// The present term of a virtual cluster, by the word of its group given after this agent started.
    /// Its leader is told what there is.
    Learned {
        /// The virtual cluster.
        vc: VcName,
        /// Who said so.
        leader: VcLeader,
    },
    /// The node is in another cluster from now on, or in none.
    Moved {
        /// The name of the life that begins.
        start: StartId,
    },
    /// As which member the node takes orders from now on.
    Serves(Membership),
    /// A leader orders something.
    Order {
        /// Its number.
        from: consensus::NodeId,
        /// What.
        order: Box<Order>,
    },
    /// A leader asks for a report. Nobody else is told.
    Asked {
        /// Its virtual cluster.
        vc: VcName,
        /// Who it is.
        leader: VcLeader,
    },
    /// The executor saw something of a task.
    Observed {
        /// The task attempt.
        uid: AttemptUid,
        /// What.
        what: Observation,
    },
    /// Hardware came, went or fell sick.
    Capacity(Capacity),
    /// Why no new tasks are taken, by the word of this one; none: it has no reason.
    Closed(UnschedulableReason, Option<String>),
    /// The answer to [`lease::LeaseOutput::Ask`].
    Renewed {
        /// What was asked.
        request: RenewalRequest,
        /// Whether it is granted.
        granted: bool,
    },
    /// [`NodeCore::deadline`] has passed.
    Tick,
}

/// What comes out of a node. Leases do not wait for the disk: what they say is on no disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOutputs {
    /// In this order. Whom something is to be told, [`NodeCore::addressees`] and [`NodeCore::leader`] say when
    /// it is. A step is done if it [is due](Ledger::is_due) still; what is created runs until
    /// [`NodeCore::ends`] as it is then.
    pub ledger: Vec<ledger::LedgerOutput>,
    /// At once.
    pub leases: Vec<lease::LeaseOutput>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeCore {
    ledger: Ledger,
    leases: LeaseHolder,
    leaders: BTreeMap<VcName, VcLeader>,
    /// Why no new tasks are taken, by whose word.
    closed: BTreeMap<UnschedulableReason, String>,
}

impl NodeCore {
    /// A node with a ledger that was recovered. All times are of the clock since boot, sleep included.
    pub fn new(now: Time, ledger: Ledger) -> Self {
        let mut leases = LeaseHolder::default();
        leases.adopt(now, ledger.leased());
        Self {
            ledger,
            leases,
            leaders: BTreeMap::new(),
            closed: BTreeMap::new(),
        }
    }

    /// Takes one input. `port_is_free` asks the kernel whether a port can be bound now.
    pub fn handle(
        &mut self,
        now: Time,
        input: NodeInput,
        port_is_free: &dyn Fn(u16) -> bool,
        out: &mut NodeOutputs,
    ) {
        self.heard_of(&input);
        let told = &mut out.ledger;
        let mut feed = |to: &mut Ledger, input| to.handle(now, input, port_is_free, told);
        match input {
            NodeInput::Started => feed(&mut self.ledger, ledger::LedgerInput::Started),
            NodeInput::Found(containers) => {
                feed(&mut self.ledger, ledger::LedgerInput::Found(containers))
            }
            NodeInput::Learned { vc, leader } => {
                let (generation, term) = leader.reign;
                let learned = ledger::LedgerInput::Learned {
                    vc: vc.clone(),
                    generation,
                    term,
                };
                feed(&mut self.ledger, learned);
                feed(&mut self.ledger, ledger::LedgerInput::Report(Some(vc)));
            }
            NodeInput::Moved { start } => {
                self.leaders.clear();
                self.closed.remove(&UnschedulableReason::Admin);
                let why = self.why_closed();
                feed(&mut self.ledger, ledger::LedgerInput::Closed(why));
                feed(&mut self.ledger, ledger::LedgerInput::Moved { start });
            }
            NodeInput::Serves(membership) => {
                feed(&mut self.ledger, ledger::LedgerInput::Serves(membership));
            }
            NodeInput::Order { order, .. } => {
                feed(&mut self.ledger, ledger::LedgerInput::Order(order))
            }
            NodeInput::Asked { vc, .. } => {
                feed(&mut self.ledger, ledger::LedgerInput::Report(Some(vc)))
            }
            NodeInput::Observed { uid, what } => {
                feed(
                    &mut self.ledger,
                    ledger::LedgerInput::Observed { uid, what },
                );
            }
            NodeInput::Capacity(capacity) => {
                feed(&mut self.ledger, ledger::LedgerInput::Capacity(capacity));
            }
            NodeInput::Closed(by, why) => {
                match why {
                    Some(why) => self.closed.insert(by, why),
                    None => self.closed.remove(&by),
                };
                let why = self.why_closed();
                feed(&mut self.ledger, ledger::LedgerInput::Closed(why));
            }
            NodeInput::Renewed { request, granted } => {
                self.leases.answered(&request, granted, &mut out.leases);
            }
            NodeInput::Tick => feed(&mut self.ledger, ledger::LedgerInput::Tick),
        }
        // Before anything of it is told.
        self.leases.follow(now, self.ledger.leased());
        self.leases.tick(now, &mut out.leases);
    }

    /// Notes who leads a virtual cluster, if the input tells. For what is not taken now.
    pub fn heard_of(&mut self, input: &NodeInput) {
        match input {
            NodeInput::Order { from, order } => {
                let leader = VcLeader {
                    reign: order.fence.reign(),
                    node: *from,
                };
                self.follow(&order.vc, leader);
            }
            NodeInput::Asked { vc, leader } | NodeInput::Learned { vc, leader } => {
                self.follow(vc, *leader);
            }
            _ => {}
        }
    }

    /// Whom something is to be told: an answer to whoever gave the order, if it leads still; a report to
    /// all who lead.
    pub fn addressees(&self, tell: &Tell) -> Vec<(consensus::NodeId, VcName)> {
        let known = self.leaders.iter();
        let meant = known.filter(|(vc, leader)| match tell {
            Tell::Answer(answer) => answer.vc == **vc && answer.fence.reign() == leader.reign,
            Tell::Report(_) => true,
        });
        meant
            .map(|(vc, leader)| (leader.node, vc.clone()))
            .collect()
    }

    /// Who leads a virtual cluster, as far as was heard.
    pub fn leader(&self, vc: &VcName) -> Option<consensus::NodeId> {
        self.leaders.get(vc).map(|leader| leader.node)
    }

    /// When [`NodeInput::Tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let times = [self.ledger.deadline(), self.leases.deadline()];
        times.into_iter().flatten().min()
    }

    /// Until when a task may run, if it holds by a lease.
    pub fn ends(&self, uid: &AttemptUid) -> Option<Time> {
        self.leases.ends(uid)
    }

    /// What is granted.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Remembers the newest leader.
    fn follow(&mut self, vc: &VcName, leader: VcLeader) {
        let known = self.leaders.entry(vc.clone()).or_insert(leader);
        if known.reign < leader.reign {
            *known = leader;
        }
    }

    fn why_closed(&self) -> Option<String> {
        self.closed.values().next().cloned()
    }
}
