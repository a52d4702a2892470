//! The loop of this node's groups: it makes their entries durable, applies them, and leads the
//! gangs of the virtual clusters that are led here.
//!
//! It owns the host of all groups, their log store and the coordinators. What waits in its queue
//! while the disk syncs is made durable with one more sync, so many submissions at once cost
//! little more than two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_consensus::{GroupId, Host, Input, NodeId, Output, Refused, ReplicaId, Ticket};
use muster_control::coordinator::{self, Coordinator, Cordon};
use muster_control::fence::Term;
use muster_control::lease::Hearing;
use muster_control::order::Tell;
use muster_model::id::{self, VcName};
use muster_model::time::Time;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::node::{GENERATION, NodeHandle};
use super::sleep_until;
use crate::clock;
use crate::description::Description;
use crate::groups::Error;
use crate::groups::disk::{Disk, Done};
use crate::groups::handle::{Ends, Telling};
use crate::groups::lead::Lead;
use crate::groups::machine::{Machine, Outcome};
use crate::groups::message::{
    Asker, Carrier, Local, Looking, Message, Reading, Reply, Seen, Standing,
};
use crate::groups::parcel::{self, Parcel, Unpacker, Word};
use crate::groups::{name, own};

/// Messages taken at once.
const BATCH_MAX: usize = 512;
/// Pause before a coordinator's entry is proposed again that its group had no room for.
const AGAIN: Duration = Duration::from_millis(50);

/// What waits for an answer of the host.
enum Asked {
    Entry(Reply<Outcome>),
    Reading(Reading),
    Changes(Reply<()>),
    /// A coordinator's own entry.
    Own(Vec<u8>),
}

/// Makes the coordinator of a virtual cluster.
pub(crate) type MakeCoordinator = Box<dyn Fn(&VcName) -> Coordinator + Send>;

/// The loop itself.
pub(crate) struct GroupsLoop {
    /// Ticks are counted by a clock that nobody sets.
    started: Instant,
    host: Host<Machine>,
    disk: Disk,
    vcs: BTreeMap<GroupId, Lead>,
    lost: BTreeMap<GroupId, BTreeSet<ReplicaId>>,
    coordinator: MakeCoordinator,
    /// The virtual clusters of a node that is in no cluster.
    own: BTreeSet<VcName>,
    node: NodeHandle,
    /// This node's number.
    me: NodeId,
    /// All members, this one among them, and which of them can be reached.
    members: BTreeMap<NodeId, bool>,
    /// The numbers of members, and of nodes that told something, by their names.
    numbers: BTreeMap<id::NodeId, NodeId>,
    /// Nodes that admins keep jobs off.
    cordons: BTreeMap<id::NodeId, Cordon>,
    /// How the cluster is described, once that is known.
    description: Option<Arc<Description>>,
    unpacker: Unpacker,
    /// Words sent.
    words: u32,
    queue: mpsc::Receiver<Message>,
    frames: mpsc::Receiver<(NodeId, Vec<u8>)>,
    telling: Telling,
    carrier: Option<Carrier>,
    /// The cluster's own group, while this node is a member.
    cluster: Option<GroupId>,
    /// How many voters that group has, as far as was heard.
    cluster_voters: usize,
    /// The way to its leader.
    asker: Option<Asker>,
    /// Who has asked for renewal of leases by it, while it is led here.
    hearing: Option<(GroupId, Hearing)>,
    asked: BTreeMap<Ticket, Asked>,
    next: u64,
    outputs: Vec<Output<Outcome>>,
    /// Entries of coordinators to be proposed again, and when.
    again: Vec<(GroupId, Vec<u8>)>,
    again_at: Option<Instant>,
    /// Why the disk refuses, while it does.
    refusing: Option<String>,
}

impl std::fmt::Debug for GroupsLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupsLoop")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// What the loop is made of.
pub(crate) struct Parts {
    /// When the host's clock was at 0.
    pub(crate) started: Instant,
    /// All groups.
    pub(crate) host: Host<Machine>,
    /// What the host said when it was opened.
    pub(crate) outputs: Vec<Output<Outcome>>,
    /// The log store.
    pub(crate) disk: Disk,
    /// The groups of the node's own virtual clusters, if it is in no cluster.
    pub(crate) own: BTreeMap<VcName, GroupId>,
    /// The virtual clusters of a node that is in no cluster.
    pub(crate) vcs: BTreeSet<VcName>,
    /// Makes the coordinator of a virtual cluster.
    pub(crate) coordinator: MakeCoordinator,
    /// This node's ledger.
    pub(crate) node: NodeHandle,
}

impl GroupsLoop {
    pub(crate) fn new(parts: Parts, ends: Ends) -> Self {
        let lead = |(vc, group)| {
            let coordinator = (parts.coordinator)(&vc);
            (group, Lead::new(vc, coordinator))
        };
        Self {
            started: parts.started,
            host: parts.host,
            disk: parts.disk,
            vcs: parts.own.into_iter().map(lead).collect(),
            lost: BTreeMap::new(),
            coordinator: parts.coordinator,
            own: parts.vcs,
            node: parts.node,
            me: name::ALONE,
            members: [(name::ALONE, true)].into(),
            numbers: BTreeMap::new(),
            cordons: BTreeMap::new(),
            description: None,
            unpacker: Unpacker::default(),
            words: 0,
            queue: ends.queue,
            frames: ends.frames,
            telling: ends.telling,
            carrier: None,
            cluster: None,
            cluster_voters: 0,
            asker: None,
            hearing: None,
            asked: BTreeMap::new(),
            next: 0,
            outputs: parts.outputs,
            again: Vec::new(),
            again_at: None,
            refusing: None,
        }
    }

    /// Runs until every handle is gone.
    pub(crate) async fn run(mut self) {
        self.settle();
        loop {
            let deadline = self.deadline();
            tokio::select! {
                message = self.queue.recv() => match message {
                    Some(message) => self.take_all(message),
                    None => return,
                },
                Some((from, parcel)) = self.frames.recv() => self.unpack(from, parcel),
                done = self.disk.done() => self.wrote(done),
                () = sleep_until(deadline) => self.tick(),
            }
            self.settle();
        }
    }

    /// Takes a message and whatever else waits by now.
    fn take_all(&mut self, first: Message) {
        let mut next = Some(first);
        for _ in 0..BATCH_MAX {
            let Some(message) = next else { return };
            self.take(message);
            next = self.queue.try_recv().ok();
        }
        if let Some(last) = next {
            self.take(last);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Propose {
                group,
                entry,
                reply,
            } => self.propose(group, entry, reply),
            Message::Read {
                group,
                heard,
                reading,
            } => {
                // Before the majority is asked: what it confirms is later than this.
                if let Some(node) = heard {
                    self.heard(group, &node);
                }
                let ticket = self.ticket(Asked::Reading(reading));
                self.give(Input::Read { group, ticket });
            }
            Message::Look { group, looking } => self.look(group, looking),
            Message::Change {
                group,
                changes,
                reply,
            } => {
                let ticket = self.ticket(Asked::Changes(reply));
                self.give(Input::Change {
                    group,
                    ticket,
                    changes,
                });
            }
            Message::Transfer { group, to } => self.give(Input::Transfer { group, to }),
            Message::HandOver(reply) => {
                // Who went away needs no answer.
                let _ = reply.send(self.hand_over());
            }
            Message::Birth { group, homes } => self.give(Input::Birth { group, homes }),
            Message::Leave { group } => self.give(Input::Leave { group }),
            Message::Tell { to, vc, node, tell } => self.pass_on(to, &vc, node, tell),
            Message::Joined {
                node,
                cluster,
                carrier,
            } => {
                self.carrier = Some(carrier);
                self.named(node);
                self.give(Input::Welcome([cluster].into()));
                self.cluster = Some(cluster);
            }
            Message::Left(reply) => {
                self.carrier = None;
                self.asker = None;
                self.cluster = None;
                self.cluster_voters = 0;
                self.cordons.clear();
                self.named(name::ALONE);
                self.give(Input::Welcome(BTreeSet::new()));
                let vcs = self.bear_own();
                self.end_others(&vcs);
                self.serve(&vcs);
                // Who went away needs no answer.
                let _ = reply.send(vcs);
            }
            // Said of a cluster that was left meanwhile.
            Message::Serve { .. } if self.cluster.is_none() => {}
            Message::Serve { vcs, asker } => {
                self.asker = Some(asker);
                let welcome = self.cluster.into_iter().chain(vcs.values().copied());
                let welcome = welcome.collect();
                self.give(Input::Welcome(welcome));
                self.serve(&vcs);
            }
            Message::Silence {
                group,
                question,
                silent,
            } => self.silence(group, question, silent),
            Message::Others {
                members,
                names,
                cluster_voters,
            } => {
                self.members = members;
                self.numbers.extend(names);
                self.members.insert(self.me, true);
                self.cluster_voters = cluster_voters;
                self.avoid_unreachable();
                self.forget_left();
                self.allow_leases();
            }
            Message::Cordoned(nodes) => {
                self.cordons = nodes;
                self.keep_free();
            }
            Message::Described(description) => {
                self.description = description;
                self.describe();
            }
            Message::Off { group, node, reply } => {
                // Who went away needs no answer.
                let _ = reply.send(self.say_off(group, node));
            }
            Message::Store(reply) => {
                // Who went away needs no answer.
                let _ = reply.send(self.disk.id());
            }
        }
    }

    /// This node has another number: it is among others now.
    fn named(&mut self, node: NodeId) {
        self.give(Input::Named(node));
        if self.me != node {
            self.me = node;
            self.numbers.clear();
            // What it serves from now on is said next. Whoever founds a cluster keeps its number,
            // and goes on serving what it served, in the same term.
            self.vcs.clear();
        }
        self.members = [(node, true)].into();
        self.unpacker.clear();
    }

    /// The virtual clusters that the node has for itself. One that was given to a cluster is none.
    fn bear_own(&mut self) -> BTreeMap<VcName, GroupId> {
        let at = (self.ticks(), self.disk.id());
        own::bear(&mut self.host, at, &self.own, &mut self.outputs)
    }

    /// A node on its own has copies of nothing but what is its own.
    fn end_others(&mut self, own: &BTreeMap<VcName, GroupId>) {
        let is_own = |group: &GroupId| own.values().any(|own| own == group);
        let groups: Vec<_> = self.host.groups().filter(|group| !is_own(group)).collect();
        for group in groups {
            self.give(Input::Leave { group });
        }
    }

    /// Leads these virtual clusters, and no other, whenever their groups are led here.
    fn serve(&mut self, vcs: &BTreeMap<VcName, GroupId>) {
        self.vcs
            .retain(|group, lead| vcs.get(lead.vc()) == Some(group));
        for (vc, group) in vcs {
            let coordinator = &self.coordinator;
            let lead = || Lead::new(vc.clone(), coordinator(vc));
            self.vcs.entry(*group).or_insert_with(lead);
        }
        for group in vcs.values() {
            let term = self.telling.led.borrow().get(group).copied();
            let led = self.vcs.get(group).and_then(Lead::term);
            if let Some(term) = term.filter(|term| led != Some(Term(*term))) {
                self.lead(*group, term);
            }
        }
    }

    /// Takes apart what another node sent.
    fn unpack(&mut self, from: NodeId, parcel: Vec<u8>) {
        match self.unpacker.take(from, parcel) {
            Some(Parcel::Frame(bytes)) => self.give(Input::Frame { from, bytes }),
            Some(Parcel::Word(word)) => self.hear(from, word),
            None => {}
        }
    }

    /// This node tells the leader of a virtual cluster something.
    fn pass_on(&mut self, to: NodeId, vc: &VcName, node: id::NodeId, tell: Box<Tell>) {
        let mut vcs = self.vcs.iter();
        let Some((group, _)) = vcs.find(|(_, lead)| lead.vc() == vc) else {
            return;
        };
        let group = *group;
        if to == self.me {
            return self.told(group, to, node, *tell);
        }
        let group = group.0;
        self.say(to, &Word::Tell { group, node, tell });
    }

    /// Hears what another node says of virtual clusters that this one serves, and of no other.
    fn hear(&mut self, from: NodeId, word: Word) {
        let group = word.group();
        let Some(lead) = self.vcs.get(&group) else {
            return;
        };
        match word {
            Word::Order { order, .. } => self.node.order(from, *order),
            Word::Ask {
                generation, term, ..
            } => self.node.asked(from, lead.vc().clone(), generation, term),
            Word::Tell { node, tell, .. } => self.told(group, from, node, *tell),
        }
    }

    /// A node tells the leader of a virtual cluster something; nothing, if that is not here.
    fn told(&mut self, group: GroupId, from: NodeId, node: id::NodeId, tell: Tell) {
        // What came before it is seen first.
        self.settle();
        let Some(lead) = self.vcs.get_mut(&group) else {
            return;
        };
        if matches!(tell, Tell::Report(_)) {
            lead.heard_of(from);
        }
        self.heard(group, &node);
        if self.numbers.get(&node) != Some(&from) {
            self.numbers.insert(node.clone(), from);
            self.avoid_unreachable();
        }
        self.feed(group, coordinator::Input::Tell { node, tell });
    }

    /// Says a word to another node. May be lost.
    fn say(&mut self, to: NodeId, word: &Word) {
        let Some(carrier) = &self.carrier else { return };
        self.words = self.words.wrapping_add(1);
        let parcels = parcel::pack(word, self.words);
        if parcels.is_empty() {
            tracing::error!(node = to.0, "a word is longer than any node takes");
        }
        for parcel in parcels {
            carrier(to, parcel);
        }
    }

    /// Asks a node for a report to the leader of a virtual cluster, if that is here.
    fn ask(&mut self, group: GroupId, node: NodeId) {
        let Some(lead) = self.vcs.get(&group) else {
            return;
        };
        let Some(term) = lead.term() else { return };
        let generation = GENERATION;
        if node == self.me {
            return self.node.asked(node, lead.vc().clone(), generation, term);
        }
        let word = Word::Ask {
            group: group.0,
            generation,
            term,
        };
        self.say(node, &word);
    }

    fn give(&mut self, input: Input) {
        let now = self.ticks();
        self.host.handle(now, input, &mut self.outputs);
    }

    fn ticks(&self) -> Time {
        let passed = self.started.elapsed().as_millis();
        Time::from_millis(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn ticket(&mut self, asked: Asked) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.asked.insert(ticket, asked);
        ticket
    }

    /// While the disk refuses, nothing more is promised: it could not be kept.
    fn propose(&mut self, group: GroupId, entry: Vec<u8>, reply: Reply<Outcome>) {
        if let Some(problem) = &self.refusing {
            let _ = reply.send(Err(Error::Storage(problem.clone())));
            return;
        }
        let ticket = self.ticket(Asked::Entry(reply));
        self.give(Input::Propose {
            group,
            ticket,
            entry,
        });
    }

    fn look(&mut self, group: GroupId, looking: Looking) {
        let standing = self.host.view(group).map(|view| Standing {
            view,
            lost: self.lost.get(&group).cloned().unwrap_or_default(),
        });
        let local = standing.and_then(|standing| {
            let machine = self.host.machine(group)?;
            Some(Local { machine, standing })
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
            self.give(Input::Transfer { group, to });
        }
        heirs.into_iter().map(|(group, _)| group).collect()
    }

    fn tick(&mut self) {
        self.give(Input::Tick);
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            self.again_at = None;
            for (group, entry) in std::mem::take(&mut self.again) {
                self.propose_own(group, entry);
            }
        }
        self.watch_nodes();
        self.ask_around();
        let due: Vec<_> = self.vcs.keys().copied().collect();
        for group in due {
            let lead = self.vcs.get(&group);
            if lead
                .and_then(Lead::deadline)
                .is_some_and(|at| at <= clock::now())
            {
                self.feed(group, coordinator::Input::Tick);
            }
        }
    }

    fn wrote(&mut self, done: Done) {
        match done {
            Done::Written(number) => {
                self.refusing = None;
                let problem = &self.telling.problem;
                problem.send_if_modified(|problem| problem.take().is_some());
                self.give(Input::Written(number));
            }
            Done::Refused(problem) => self.refused_by_disk(problem),
        }
    }

    /// Entries are in the hands of their groups, which offer them to the disk until it takes them:
    /// who waits for one is told that, and who comes next that nothing is taken.
    fn refused_by_disk(&mut self, problem: String) {
        tracing::error!(error = problem, "the log store cannot be written");
        let waiting = |_: &Ticket, asked: &mut Asked| matches!(asked, Asked::Entry(_));
        for (_, asked) in self.asked.extract_if(.., waiting) {
            if let Asked::Entry(reply) = asked {
                let text = format!("the state cannot be written now: {problem}");
                let _ = reply.send(Err(Error::Unknown(text)));
            }
        }
        self.telling.problem.send_replace(Some(problem.clone()));
        self.refusing = Some(problem);
        // Others may have disks that take what this one does not.
        self.hand_over();
    }

    /// Performs what the host says, and applies entries one by one: a coordinator must see the
    /// state as each left it, or it would plan a job's next attempt before it has cleared away the
    /// last.
    fn settle(&mut self) {
        loop {
            for output in std::mem::take(&mut self.outputs) {
                self.perform(output);
            }
            if self.outputs.is_empty() && !self.host.apply_next(&mut self.outputs) {
                return;
            }
        }
    }

    fn perform(&mut self, output: Output<Outcome>) {
        match output {
            Output::Write(write) => self.disk.write(write),
            Output::Send { to, frame } => {
                if let Some(carrier) = &self.carrier {
                    carrier(to, parcel::frame(&frame));
                }
            }
            Output::Applied {
                group,
                ticket,
                output,
                ..
            } => self.applied(group, ticket, output),
            Output::Changed { group, ticket } => {
                self.forget_lost(group);
                if let Some(Asked::Changes(reply)) = self.answered(ticket) {
                    let _ = reply.send(Ok(()));
                }
            }
            Output::Read { group, ticket } => {
                if let Some(Asked::Reading(reading)) = self.asked.remove(&ticket) {
                    self.read(group, reading);
                }
            }
            Output::Refused { group, ticket, why } => self.refused(group, ticket, why),
            Output::Leads { group, term } => self.elected(group, term),
            Output::Follows { group, .. } => self.deposed(group),
            Output::Restored { group, .. } => self.forget_lost(group),
            Output::Lost { group, replica } => {
                self.lost.entry(group).or_default().insert(replica);
            }
            Output::Removed {
                group,
                replica,
                why,
            } => {
                tracing::info!(
                    group = group.0,
                    replica = replica.0,
                    ?why,
                    "a copy has ended"
                );
                self.lost.remove(&group);
                self.deposed(group);
            }
        }
    }

    fn answered(&mut self, ticket: Option<Ticket>) -> Option<Asked> {
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

    fn applied(&mut self, group: GroupId, ticket: Option<Ticket>, outcome: Outcome) {
        let told = match &outcome {
            Outcome::Vc(outcome) => Some(outcome.clone()),
            Outcome::Cluster(_) | Outcome::Unreadable => None,
        };
        if let Some(Err(rejected)) = &told {
            tracing::debug!(%rejected, "an entry changed nothing");
        }
        if let Some(Asked::Entry(reply)) = self.answered(ticket) {
            // A proposer that went away needs no answer; the entry counts all the same.
            let _ = reply.send(Ok(outcome));
        }
        if let Some(Ok(applied)) = &told {
            self.begin_watch(group, applied);
        }
        if let Some(told) = told {
            self.feed(group, coordinator::Input::Applied(told));
        }
        self.telling.applied.send_modify(|count| *count += 1);
    }

    fn read(&self, group: GroupId, reading: Reading) {
        let seen = self.host.machine(group).map(|machine| Seen {
            machine,
            coordinator: self.vcs.get(&group).and_then(Lead::coordinator),
            hearing: self.hearing_of(group),
            description: self.description.as_ref().map(|known| known.version),
        });
        reading(seen.ok_or(Error::NoLeader));
    }

    fn refused(&mut self, group: GroupId, ticket: Ticket, why: Refused) {
        match self.asked.remove(&ticket) {
            Some(Asked::Entry(reply)) => {
                let _ = reply.send(Err(why.into()));
            }
            Some(Asked::Changes(reply)) => {
                let _ = reply.send(Err(why.into()));
            }
            Some(Asked::Reading(reading)) => reading(Err(why.into())),
            // Lost together with the lead, but for want of room.
            Some(Asked::Own(entry)) if why == Refused::Busy => {
                self.again.push((group, entry));
                self.again_at.get_or_insert_with(|| Instant::now() + AGAIN);
            }
            Some(Asked::Own(_)) | None => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let host = self.host.deadline();
        let host = host.map(|at| self.started + Duration::from_micros(at.0));
        let wakes = self.vcs.values().filter_map(Lead::deadline).min();
        let wakes =
            wakes.map(|at| Instant::now() + Duration::from_micros(at.micros_since(clock::now())));
        let asks = self.vcs.values().filter_map(Lead::ask_at).min();
        let times = [host, wakes, self.again_at, asks];
        times.into_iter().flatten().min()
    }
}

mod admins;
mod leading;
mod leases;
mod members;
#[cfg(test)]
mod tests;
