//! A node's copies of Raft groups, those of virtual clusters and the cluster's own, and what the node
//! leads of them: [`GroupHost`] makes their entries durable, applies them, and leads the gangs of the
//! virtual clusters that are led here.
//!
//! All groups are in one core, for they share one disk and one link to every other node.
//! - [`machine`]: what the entries of a group do.
//! - [`lead`]: a virtual cluster that is led here, with its coordinator.
//! - [`copies`]: who is to have copies of a group.
//! - [`envelope`]: what agents send each other about groups.
//! - [`name`]: which number a group has.
//!
//! # Driving it
//! Perform the outputs in order. `Write`: to the log store, then [`GroupHostInput::Written`]; one at a time, and
//! what is refused is offered again until it is taken. All others may be lost, but for those to this
//! node itself.

mod admins;
pub mod copies;
pub mod envelope;
mod error;
mod input;
pub mod lead;
mod leading;
mod leases;
pub mod machine;
mod members;
pub mod name;
mod output;
mod reports;
mod words;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_consensus::{
    GroupId, Host, HostInput, HostRefusal, NodeId, ReplicaHome, ReplicaId, StoreId,
};
use muster_consensus::{HostOutput, Ticket};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{self, VcName};
use muster_model::time::Time;

pub use error::GroupError;
pub use input::{
    GroupHostInput, GroupReply, GroupStanding, Local, LocalGroup, Looking, Reading, VcGroup,
};
pub use lead::Lead;
pub use machine::{ApplyOutcome, GroupState};
pub use output::{GroupEvent, GroupHostOutput};
pub use reports::Reports;

use crate::cluster::Lineage;
use crate::coordinator::{self, Coordinator, Cordon, LeaderPolicy};
use crate::fence::Term;
use crate::lease::Hearing;
use crate::now::Now;
use envelope::EnvelopeUnpacker;

/// The generation that a virtual cluster begins with. Raised only by disaster recovery.
pub const GENERATION: u32 = 1;
/// Milliseconds before a coordinator's entry is proposed again that its group had no room for.
const AGAIN_MS: u64 = 50;

/// What waits for an answer of the host.
enum PendingCall {
    Entry(GroupReply<ApplyOutcome>),
    Reading(Reading),
    Changes(GroupReply<()>),
    /// A coordinator's own entry.
    Own(Vec<u8>),
}

/// Makes the coordinator of a virtual cluster in a generation.
pub type MakeCoordinator = Box<dyn Fn(&VcName, u32) -> Coordinator + Send>;

/// What a group host is made of.
pub struct GroupHostParts {
    /// All groups.
    pub host: Host<GroupState>,
    /// What the host said when it was opened.
    pub outputs: Vec<HostOutput<ApplyOutcome>>,
    /// Makes the coordinator of a virtual cluster.
    pub coordinator: MakeCoordinator,
}

impl std::fmt::Debug for GroupHostParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// A node's copies of all groups, and what it leads of them.
pub struct GroupHost {
    /// The time of the input that is being handled.
    now: Now,
    host: Host<GroupState>,
    vcs: BTreeMap<GroupId, Lead>,
    lost: BTreeMap<GroupId, BTreeSet<ReplicaId>>,
    coordinator: MakeCoordinator,
    /// This node's number.
    me: NodeId,
    /// All members, this one among them, and which of them can be reached.
    members: BTreeMap<NodeId, bool>,
    /// The numbers of members, and of nodes that told something, by their names.
    numbers: BTreeMap<id::NodeId, NodeId>,
    /// Nodes that admins keep jobs off.
    cordons: BTreeMap<id::NodeId, Cordon>,
    /// In which racks nodes stand.
    racks: BTreeMap<id::NodeId, String>,
    /// How the cluster is described and in which version, once that is known.
    description: Option<(u64, Arc<ClusterSpec>)>,
    /// What leaders go by; none: what they are made with.
    policy: Option<Box<LeaderPolicy>>,
    unpacker: EnvelopeUnpacker,
    /// Words sent.
    words: u32,
    /// The cluster's own group, while this node is a member.
    cluster: Option<GroupId>,
    /// How many voters that group has, as far as was heard.
    cluster_voters: usize,
    /// Groups that other ones take the place of, by those: once one of these is heard of, they end.
    former: BTreeMap<GroupId, Vec<GroupId>>,
    /// The groups that are led here, and in which term.
    led: BTreeMap<GroupId, u64>,
    /// The groups whose place it took.
    before: Vec<GroupId>,
    /// Who has asked for renewal of leases by a cluster's own group, while it is led here.
    hearing: BTreeMap<GroupId, Hearing>,
    asked: BTreeMap<Ticket, PendingCall>,
    next: u64,
    /// What the host said, and is not performed yet.
    said: Vec<HostOutput<ApplyOutcome>>,
    out: Vec<GroupHostOutput>,
    /// Entries of coordinators to be proposed again, and when.
    again: Vec<(GroupId, Vec<u8>)>,
    again_at: Option<Time>,
    /// Why the disk refuses, while it does.
    refusing: Option<String>,
}

impl std::fmt::Debug for GroupHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupHost")
            .field("me", &self.me)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl GroupHost {
    /// A group host of what was opened. It wants [`GroupHostInput::Tick`] at once.
    pub fn new(parts: GroupHostParts) -> Self {
        Self {
            now: Now::default(),
            host: parts.host,
            vcs: BTreeMap::new(),
            lost: BTreeMap::new(),
            coordinator: parts.coordinator,
            me: name::FOUNDER,
            members: [(name::FOUNDER, true)].into(),
            numbers: BTreeMap::new(),
            cordons: BTreeMap::new(),
            racks: BTreeMap::new(),
            description: None,
            policy: None,
            unpacker: EnvelopeUnpacker::default(),
            words: 0,
            cluster: None,
            cluster_voters: 0,
            former: BTreeMap::new(),
            led: BTreeMap::new(),
            hearing: BTreeMap::new(),
            before: Vec::new(),
            asked: BTreeMap::new(),
            next: 0,
            said: parts.outputs,
            out: Vec::new(),
            again: Vec::new(),
            again_at: None,
            refusing: None,
        }
    }

    /// Takes one input. The clock that nobody sets counts from when the host was opened.
    pub fn handle(&mut self, now: Now, input: GroupHostInput, out: &mut Vec<GroupHostOutput>) {
        self.now = now;
        self.take(input);
        self.settle();
        out.append(&mut self.out);
    }

    /// When [`GroupHostInput::Tick`] is due, by the clock that nobody sets.
    pub fn deadline(&self) -> Option<Time> {
        let asks = self.vcs.values().filter_map(Lead::ask_at).min();
        let wakes = self.vcs.values().filter_map(Lead::deadline).min();
        let times = [self.host.deadline(), self.again_at, asks, wakes];
        times.into_iter().flatten().min()
    }

    /// The copies of all groups.
    pub const fn host(&self) -> &Host<GroupState> {
        &self.host
    }

    /// The groups that are led here, and in which term.
    pub const fn led(&self) -> &BTreeMap<GroupId, u64> {
        &self.led
    }

    /// Which copies a group has, as far as is known here; none if there is no copy.
    pub fn standing(&self, group: GroupId) -> Option<GroupStanding> {
        Some(GroupStanding {
            view: self.host.view(group)?,
            lost: self.lost.get(&group).cloned().unwrap_or_default(),
        })
    }

    /// The virtual clusters that this node leads, or would.
    pub fn leads(&self) -> impl Iterator<Item = (GroupId, &Lead)> {
        self.vcs.iter().map(|(group, lead)| (*group, lead))
    }

    fn take(&mut self, input: GroupHostInput) {
        match input {
            GroupHostInput::Tick => self.tick(),
            GroupHostInput::Envelope { from, bytes } => self.unpack(from, &bytes),
            GroupHostInput::Written(number) => self.written(number),
            GroupHostInput::Refused(problem) => self.refused_by_disk(&problem),
            GroupHostInput::Propose {
                group,
                entry,
                reply,
            } => self.propose(group, entry, reply),
            GroupHostInput::Read {
                group,
                heard,
                reading,
            } => self.ask_majority(group, heard.as_ref(), reading),
            GroupHostInput::Look { group, looking } => self.look(group, looking),
            GroupHostInput::Change {
                group,
                changes,
                reply,
            } => {
                let ticket = self.ticket(PendingCall::Changes(reply));
                self.give(HostInput::Change {
                    group,
                    ticket,
                    changes,
                });
            }
            GroupHostInput::Transfer { group, to } => self.give(HostInput::Transfer { group, to }),
            GroupHostInput::HandOver(reply) => reply(self.hand_over()),
            GroupHostInput::Creation { group, homes } => {
                self.give(HostInput::Creation { group, homes })
            }
            GroupHostInput::Inherit(lineage) => self.inherit(&lineage),
            GroupHostInput::Tell { to, vc, node, tell } => self.pass_on(to, &vc, node, tell),
            GroupHostInput::Joined { node, cluster } => {
                self.named(node);
                self.give(HostInput::Welcome([cluster].into()));
                self.cluster = Some(cluster);
                self.say_who_binds();
            }
            GroupHostInput::Replacement(lineage) => {
                let cluster = GroupId(lineage.group);
                self.cluster = Some(cluster);
                self.before = lineage.before.iter().copied().map(GroupId).collect();
                let welcome = self.vcs.keys().copied().chain([cluster]);
                self.give(HostInput::Welcome(welcome.collect()));
                self.inherit(&lineage);
            }
            GroupHostInput::Left => self.left(),
            // Said of a cluster that was left meanwhile.
            GroupHostInput::Serve { .. } if self.cluster.is_none() => {}
            GroupHostInput::Serve { vcs } => {
                let welcome = self.cluster.into_iter().chain(vcs.values().map(|it| it.id));
                self.give(HostInput::Welcome(welcome.collect()));
                self.serve(&vcs);
            }
            GroupHostInput::Silence {
                group,
                question,
                silent,
            } => self.silence(group, question, silent),
            GroupHostInput::Bound { group, news } => {
                self.feed(group, coordinator::CoordinatorInput::Bound(news));
            }
            GroupHostInput::Others {
                members,
                names,
                cluster,
            } => self.see_others(members, names, cluster),
            GroupHostInput::Cordoned(nodes) => {
                self.cordons = nodes;
                self.keep_free();
            }
            GroupHostInput::Racks(racks) => {
                self.racks = racks;
                self.stand();
            }
            GroupHostInput::Described(description) => {
                self.description = description;
                self.describe();
            }
            GroupHostInput::Policy(policy) => {
                self.policy = Some(policy);
                self.set_policy();
            }
            GroupHostInput::Off { group, node, reply } => reply(self.say_off(group, node)),
        }
    }

    /// It is in that cluster no more, and has no copies of its groups. Groups of another cluster,
    /// in which it has another number, stay.
    fn left(&mut self) {
        self.cluster = None;
        self.cluster_voters = 0;
        self.before.clear();
        self.cordons.clear();
        self.racks.clear();
        self.give(HostInput::Welcome(BTreeSet::new()));
        self.serve(&BTreeMap::new());
        let groups = self.host.groups();
        let ours: Vec<_> = groups.filter(|group| self.is_ours(*group)).collect();
        for group in ours {
            self.give(HostInput::Leave { group });
        }
    }

    /// Whether the copy here is one of this node under the number that it has now.
    fn is_ours(&self, group: GroupId) -> bool {
        self.host.view(group).is_none_or(|view| {
            let home = view.membership.homes.get(&view.replica);
            home.is_none_or(|home| home.node == self.me)
        })
    }

    /// This node has another number: it is among others now.
    fn named(&mut self, node: NodeId) {
        self.give(HostInput::Named(node));
        if self.me != node {
            self.me = node;
            self.numbers.clear();
            // What it serves from now on is said next.
            self.vcs.clear();
        }
        self.members = [(node, true)].into();
        self.unpacker.clear();
    }

    /// Leads these virtual clusters, and no other, whenever their groups are led here.
    fn serve(&mut self, vcs: &BTreeMap<VcName, VcGroup>) {
        let is_served =
            |group: &GroupId, vc: &VcName| vcs.get(vc).is_some_and(|it| it.id == *group);
        self.vcs.retain(|group, lead| is_served(group, lead.vc()));
        for (vc, group) in vcs {
            let coordinator = &self.coordinator;
            let lead = || Lead::new(vc.clone(), coordinator(vc, group.generation));
            self.vcs.entry(group.id).or_insert_with(lead);
        }
        let succeeded = vcs.values().filter(|it| !it.before.is_empty());
        let former = succeeded.map(|it| (it.id, it.before.clone()));
        self.former = former.collect();
        for VcGroup { id: group, .. } in vcs.values() {
            let term = self.led.get(group).copied();
            let led = self.vcs.get(group).and_then(Lead::term);
            if let Some(term) = term.filter(|term| led != Some(Term(*term))) {
                self.lead(*group, term);
            }
        }
    }

    /// The newest group begins here, if this is its home, from the newest copy of those before it: there is
    /// nothing left to begin after that.
    fn inherit(&mut self, lineage: &Lineage) {
        let Some(home) = lineage.homes.first() else {
            return;
        };
        for from in lineage.before.iter().rev() {
            self.give(HostInput::Inherit {
                group: GroupId(lineage.group),
                after: lineage.begins_after(),
                from: GroupId(*from),
                home: ReplicaHome {
                    node: name::node(home.member),
                    store: StoreId(home.store),
                },
            });
        }
    }

    /// Whoever leads a group is heard of: those whose place it took go on nowhere.
    fn succeed(&mut self, group: GroupId) {
        for group in self.former.remove(&group).unwrap_or_default() {
            self.give(HostInput::Succeeded { group });
        }
    }

    fn give(&mut self, input: HostInput) {
        self.host.handle(self.now.steady, input, &mut self.said);
    }

    fn ticket(&mut self, asked: PendingCall) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.asked.insert(ticket, asked);
        ticket
    }

    /// While the disk refuses, nothing more is promised: it could not be kept.
    fn propose(&mut self, group: GroupId, entry: Vec<u8>, reply: GroupReply<ApplyOutcome>) {
        // One that another has taken the place of forgets what it takes.
        if name::kind(group) == name::GroupKind::Vc && !self.vcs.contains_key(&group) {
            return reply(Err(GroupError::NoLeader));
        }
        if let Some(problem) = &self.refusing {
            return reply(Err(GroupError::Storage(problem.clone())));
        }
        let ticket = self.ticket(PendingCall::Entry(reply));
        self.give(HostInput::Propose {
            group,
            ticket,
            entry,
        });
    }

    fn ask_majority(&mut self, group: GroupId, heard: Option<&id::NodeId>, reading: Reading) {
        // Before the majority is asked: what it confirms is later than this.
        if let Some(node) = heard {
            self.heard(group, node);
        }
        let ticket = self.ticket(PendingCall::Reading(reading));
        self.give(HostInput::Read { group, ticket });
    }

    fn look(&self, group: GroupId, looking: Looking) {
        let local = self.standing(group).and_then(|standing| {
            let seen = self.seen(group)?;
            Some(Local { seen, standing })
        });
        looking(local);
    }

    /// Asks another voter that keeps up to lead, group by group.
    fn hand_over(&mut self) -> Vec<GroupId> {
        let groups: Vec<_> = self.host.groups().collect();
        let heir = |group: &GroupId| {
            let view = self.host.view(*group)?;
            let mut others = view.current.iter().filter(|id| **id != view.replica);
            let to = *others.find(|id| view.voters.contains(id))?;
            Some((*group, to))
        };
        let heirs: Vec<_> = groups.iter().filter_map(heir).collect();
        for (group, to) in &heirs {
            let (group, to) = (*group, *to);
            self.give(HostInput::Transfer { group, to });
        }
        heirs.into_iter().map(|(group, _)| group).collect()
    }

    fn tick(&mut self) {
        self.give(HostInput::Tick);
        if self.again_at.is_some_and(|at| at <= self.now.steady) {
            self.again_at = None;
            for (group, entry) in std::mem::take(&mut self.again) {
                self.propose_own(group, entry);
            }
        }
        self.watch_nodes();
        self.ask_around();
        let due = |lead: &Lead| lead.deadline().is_some_and(|at| at <= self.now.steady);
        let due = self.vcs.iter().filter(|(_, lead)| due(lead));
        let due: Vec<_> = due.map(|(group, _)| *group).collect();
        for group in due {
            self.feed(group, coordinator::CoordinatorInput::Tick);
        }
    }

    fn written(&mut self, number: u64) {
        if self.refusing.take().is_some() {
            self.out.push(GroupHostOutput::Problem(None));
        }
        self.give(HostInput::Written(number));
    }

    /// Entries are in the hands of their groups, which offer them to the disk until it takes them:
    /// who waits for one is told that, and who comes next that nothing is taken.
    fn refused_by_disk(&mut self, problem: &str) {
        let waiting = |_: &Ticket, asked: &mut PendingCall| matches!(asked, PendingCall::Entry(_));
        for (_, asked) in self.asked.extract_if(.., waiting) {
            if let PendingCall::Entry(reply) = asked {
                let text = format!("the state cannot be written now: {problem}");
                reply(Err(GroupError::Unknown(text)));
            }
        }
        self.out
            .push(GroupHostOutput::Problem(Some(problem.to_owned())));
        self.refusing = Some(problem.to_owned());
        // Others may have disks that take what this one does not.
        self.hand_over();
    }

    /// Performs what the host says, and applies entries one by one: a coordinator must see the
    /// state as each left it, or it would plan a job's next attempt before it has cleared away the
    /// last.
    fn settle(&mut self) {
        loop {
            for said in std::mem::take(&mut self.said) {
                self.perform(said);
            }
            if self.said.is_empty() && !self.host.apply_next(&mut self.said) {
                return;
            }
        }
    }

    fn perform(&mut self, said: HostOutput<ApplyOutcome>) {
        match said {
            HostOutput::Write(write) => self.out.push(GroupHostOutput::Write(write)),
            HostOutput::Send { to, frame } => {
                let bytes = envelope::frame(&frame);
                self.out.push(GroupHostOutput::Send { to, bytes });
            }
            HostOutput::Applied {
                group,
                index,
                entry,
                ticket,
                output,
            } => self.applied((group, index, entry), ticket, output),
            HostOutput::Changed { group, ticket } => {
                self.forget_lost(group);
                // They are given from so many voters on.
                self.allow_leases();
                if let Some(PendingCall::Changes(reply)) = self.answered(ticket) {
                    reply(Ok(()));
                }
            }
            HostOutput::Read { group, ticket } => {
                if let Some(PendingCall::Reading(reading)) = self.asked.remove(&ticket) {
                    self.read(group, reading);
                }
            }
            HostOutput::Refused { group, ticket, why } => self.refused(group, ticket, why),
            HostOutput::Leads { group, term } => self.elected(group, term),
            HostOutput::Follows { group, .. } => self.deposed(group),
            HostOutput::Restored { group, .. } => self.forget_lost(group),
            HostOutput::Lost { group, replica } => {
                self.lost.entry(group).or_default().insert(replica);
            }
            HostOutput::Removed {
                group,
                replica,
                why,
            } => {
                let ended = GroupEvent::CopyEnded {
                    group,
                    replica,
                    why,
                };
                self.out.push(GroupHostOutput::Event(ended));
                self.lost.remove(&group);
                self.deposed(group);
            }
        }
    }

    fn answered(&mut self, ticket: Option<Ticket>) -> Option<PendingCall> {
        self.asked.remove(&ticket?)
    }

    /// Copies that the group counts no more are nobody's trouble.
    fn forget_lost(&mut self, group: GroupId) {
        let view = self.host.view(group);
        let (Some(lost), Some(view)) = (self.lost.get_mut(&group), view) else {
            return;
        };
        lost.retain(|replica| view.membership.homes.contains_key(replica));
    }

    fn applied(
        &mut self,
        (group, index, entry): (GroupId, u64, Vec<u8>),
        ticket: Option<Ticket>,
        outcome: ApplyOutcome,
    ) {
        let took = outcome.is_ok();
        let told = match &outcome {
            ApplyOutcome::Vc(outcome) => Some(outcome.clone()),
            ApplyOutcome::Cluster(_) => None,
            ApplyOutcome::Unreadable(problem) => {
                let problem = problem.clone();
                let event = GroupEvent::Unreadable {
                    group,
                    index,
                    problem,
                };
                self.out.push(GroupHostOutput::Event(event));
                None
            }
        };
        // Before what follows from it.
        self.out.push(GroupHostOutput::Applied {
            group,
            index,
            entry,
            took,
        });
        if let Some(PendingCall::Entry(reply)) = self.answered(ticket) {
            // A proposer that went away needs no answer; the entry counts all the same.
            reply(Ok(outcome));
        }
        if let Some(Ok(applied)) = &told {
            self.begin_watch(group, applied);
        }
        if let Some(told) = told {
            self.feed(group, coordinator::CoordinatorInput::Applied(told));
        }
    }

    fn read(&self, group: GroupId, reading: Reading) {
        reading(self.seen(group).ok_or(GroupError::NoLeader));
    }

    fn seen(&self, group: GroupId) -> Option<LocalGroup<'_>> {
        Some(LocalGroup {
            machine: self.host.machine(group)?,
            coordinator: self.vcs.get(&group).and_then(Lead::coordinator),
            hearing: self.hearing_of(group),
            reports: self.reports_to(group),
            description: self.description.as_ref().map(|(version, _)| *version),
            applied: self.host.applied(group).unwrap_or_default(),
            term: self.led.get(&group).copied(),
            wall: self.now.wall,
        })
    }

    /// Who has reported to the leader of a virtual cluster, if that is here.
    fn reports_to(&self, group: GroupId) -> Option<Reports<'_>> {
        Some(Reports {
            members: &self.members,
            numbers: &self.numbers,
            heard: self.vcs.get(&group)?.reporters(),
        })
    }

    fn refused(&mut self, group: GroupId, ticket: Ticket, why: HostRefusal) {
        match self.asked.remove(&ticket) {
            Some(PendingCall::Entry(reply)) => reply(Err(why.into())),
            Some(PendingCall::Changes(reply)) => reply(Err(why.into())),
            Some(PendingCall::Reading(reading)) => reading(Err(why.into())),
            // Lost together with the lead, but for want of room.
            Some(PendingCall::Own(entry)) if why == HostRefusal::Busy => {
                self.again.push((group, entry));
                let at = self.now.steady.plus_millis(AGAIN_MS);
                self.again_at.get_or_insert(at);
            }
            Some(PendingCall::Own(_)) | None => {}
        }
    }
}
