//! A whole cluster in virtual time: mesh, consensus, coordinators, ledgers and leases, the very cores
//! that run in the agent, on machines with disks, containers and clocks that outlive processes.
//!
//! What is simulated is what is around the cores: [`store`] and [`executor`] in place of disk and
//! containerd, [`asking`] for the way of a request to the leader, [`here`] and [`tasks`] for what
//! answers run on, [`duties`] for what an agent's tasks do now and then. [`admin`] changes the cluster. [`account`]
//! keeps its own books and holds the rules; [`users`] submit jobs and know what they were promised.

mod account;
mod admin;
mod alarms;
mod asking;
mod checks;
mod clock;
mod duties;
mod echo;
pub(crate) mod executor;
mod faults;
mod figures;
mod founding;
mod frame;
mod here;
pub(crate) mod jobs;
mod machine;
pub(crate) mod play;
mod ranks;
mod ready;
mod replacement;
mod scenario;
mod store;
mod tasks;
mod users;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use muster_consensus::{GroupId, NodeId};
use muster_control::groups::{self, name};
use muster_control::lease;
use muster_control::ledger::{self, ExecutorStep};
use muster_control::order::Tell;
use muster_control::request::cluster::{GetSilence, RenewLeases};
use muster_control::request::vc::RenewLease;
use muster_control::{member, node};
use muster_gossip::mesh::Reach;
use muster_gossip::record::BodyId;
use muster_model::cluster_spec::ClusterSpec;
use muster_model::exit::Cause;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::engine::Sending;
use super::mesh::{MeshNodes, member};
use super::protocol::{Arrival, Edit, Effects, Protocol};
use super::random::Random;
use account::{ClusterAccount, EntryKind};
use asking::{Purpose, Question};
use echo::Echo;
use executor::Habits;
use figures::ClusterFigures;
pub(crate) use frame::ClusterFrame;
use machine::{Machine, MachineDue};
use ranks::Ranks;
use users::SimUsers;

/// When something happens, and at which machine.
type At = (Time, usize);
/// What a machine sends, and what it came to know.
type Out = Effects<ClusterFrame>;

/// A sync of a disk takes so long, µs.
const SYNC_US: u64 = 500;
/// A request for renewal, or about silence, is given up after this, ms.
const PATIENCE_MS: u64 = 9_000;
/// A disk that refused is offered the same again after this, ms.
const RETRY_MS: u64 = 1_000;

/// A cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    mesh: MeshNodes,
    machines: Vec<Machine>,
    account: ClusterAccount,
    users: SimUsers,
    figures: ClusterFigures,
    ranks: Ranks,
    random: Random,
    /// The cluster's own group, by its newest replacement.
    group: GroupId,
    /// Whether that was born.
    founded: bool,
    /// Every description that an admin has written, with its hash.
    texts: Vec<(BodyId, Arc<ClusterSpec>)>,
    /// Those that were committed, by version.
    descriptions: BTreeMap<u64, Arc<ClusterSpec>>,
    /// What is said of admins' changes.
    admin: founding::Admin,
    /// Who was expelled, and when.
    outcasts: BTreeMap<usize, Time>,
    habits: Habits,
    /// Machines whose process died on its own, and for how many milliseconds it stays away.
    fallen: Vec<(usize, u64)>,
    /// Who commits the next of these dies before it does anything about it.
    trap: Option<EntryKind>,
    /// Some of a virtual cluster's log is lost with its machines: of which, once it goes on.
    loses: bool,
    forgets: Option<GroupId>,
    /// The disks of whoever is placed next are full from then on.
    fills: bool,
    /// What was sent comes once more after so many milliseconds; never if 0.
    echo_ms: u64,
    echoes: VecDeque<Echo>,
    /// Whether processes die in the midst of what they do: one word in so many; never if 0.
    dies_in: u64,
    inner: Effects<muster_gossip::frame::MeshFrame>,
}

impl Protocol for Cluster {
    type Frame = ClusterFrame;

    fn start(&mut self, now: Time, node: usize, out: &mut Out) {
        self.in_mesh(out, |mesh, inner| mesh.start(now, node, inner));
        let identity = self.identity(node);
        self.machines[node].start(now, identity, &mut self.random);
        let joined = member::MemberInput::Joined {
            cluster: self.mesh.authority.cluster,
            member: member(node),
            lineage: self.heard(node),
        };
        self.take(now, node, joined, out);
        self.take(now, node, member::MemberInput::Tick, out);
        self.see(now, node, out);
        if node == 0 {
            self.found(now, out);
        }
        if let Some(cluster_map) = self.machines[node].kept.clone() {
            self.go_by(now, node, cluster_map, out);
        }
        self.serve(now, node, node::NodeInput::Started, out);
        let left = self.machines[node].executor.containers.keys();
        let found = node::NodeInput::Found(left.cloned().collect());
        self.serve(now, node, found, out);
        let soon = self.random.below(100_000);
        self.machines[node].later(Time(now.0 + soon), MachineDue::Duties);
    }

    fn stop(&mut self, node: usize) {
        self.mesh.stop(node);
        self.machines[node].stop(&mut self.random);
        self.users.gone(node);
    }

    fn receive(&mut self, now: Time, arrival: Arrival<ClusterFrame>, out: &mut Out) {
        let Arrival {
            to,
            from,
            frame,
            corrupt,
        } = arrival;
        match frame {
            ClusterFrame::Mesh(frame) => {
                let arrival = Arrival {
                    to,
                    from,
                    frame,
                    corrupt,
                };
                self.in_mesh(out, |mesh, inner| mesh.receive(now, arrival, inner));
            }
            // Connections are between members only, and end when one is none any more.
            _ if !self.are_members(from, to) => {}
            // A stream finds out about flipped bits and sends again.
            ClusterFrame::Envelope(bytes) => {
                let envelope = groups::GroupHostInput::Envelope {
                    from: number(from),
                    bytes: bytes.to_vec(),
                };
                self.keep(now, to, envelope, out);
            }
            ClusterFrame::Ask(id, request) => self.asked((now, to), (from, id), request, out),
            ClusterFrame::Answer(id, answer) => {
                self.hear_answer((now, to), from, (id, answer), out);
            }
        }
        self.see_others(now, to, out);
    }

    fn wake(&mut self, now: Time, node: usize, out: &mut Out) {
        if self.mesh.deadline(node).is_some_and(|at| at <= now) {
            self.in_mesh(out, |mesh, inner| mesh.wake(now, node, inner));
        }
        self.wake_machine(now, node, out);
        self.see_others(now, node, out);
    }

    fn deadline(&self, node: usize) -> Option<Time> {
        let machine = self.machines[node].deadline();
        machine.into_iter().chain(self.mesh.deadline(node)).min()
    }

    fn change(&mut self, now: Time, node: usize, number: u64, out: &mut Out) {
        self.in_mesh(out, |mesh, inner| mesh.change(now, node, number, inner));
    }

    fn edit(&mut self, now: Time, edit: Edit, out: &mut Out) -> Option<usize> {
        let mut node = None;
        self.in_mesh(out, |mesh, inner| node = mesh.edit(now, edit, inner));
        node
    }

    fn reach(&self, node: usize, subject: usize) -> Reach {
        self.mesh.reach(node, subject)
    }

    fn root(&self, node: usize) -> u64 {
        self.mesh.root(node)
    }

    fn violations(&mut self) -> Vec<String> {
        let mut all = self.mesh.violations();
        all.append(&mut self.account.wrong);
        all
    }
}

impl Cluster {
    /// Something happens in the mesh; what it sends goes with the rest.
    fn in_mesh(
        &mut self,
        out: &mut Out,
        happens: impl FnOnce(&mut MeshNodes, &mut Effects<muster_gossip::frame::MeshFrame>),
    ) {
        let mut inner = std::mem::take(&mut self.inner);
        happens(&mut self.mesh, &mut inner);
        out.sends
            .extend(inner.sends.drain(..).map(|sending| Sending {
                to: sending.to,
                carrier: sending.carrier,
                frame: ClusterFrame::Mesh(sending.frame),
                bytes: sending.bytes,
            }));
        out.seen.append(&mut inner.seen);
        self.inner = inner;
    }

    /// Whether two machines are members, each by the other's word.
    fn are_members(&self, one: usize, other: usize) -> bool {
        self.holds_for_member(one, other) && self.holds_for_member(other, one)
    }

    fn holds_for_member(&self, node: usize, other: usize) -> bool {
        let core = self.mesh.core(node);
        core.is_none_or(|core| core.is_member(member(other)))
    }

    fn wake_machine(&mut self, now: Time, node: usize, out: &mut Out) {
        let machine = &self.machines[node];
        let Some(process) = &machine.process else {
            return;
        };
        let due = process.core.deadline();
        let clock = machine.group_host_now(now);
        let is_due = due.is_some_and(|at| at <= clock.steady);
        let boot = machine.clock.boot(now);
        let ticks = process.node.deadline().is_some_and(|at| at <= boot);
        self.advance(now, node, out);
        if is_due {
            self.take(now, node, member::MemberInput::Tick, out);
        }
        if ticks {
            self.serve(now, node, node::NodeInput::Tick, out);
        }
        while let Some(due) = self.next_due(now, node) {
            self.does(now, node, due, out);
        }
    }

    fn next_due(&mut self, now: Time, node: usize) -> Option<MachineDue> {
        let process = self.machines[node].process.as_mut()?;
        let first = process.agenda.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn does(&mut self, now: Time, node: usize, due: MachineDue, out: &mut Out) {
        match due {
            MachineDue::Written => self.written(now, node, out),
            MachineDue::Persisted => self.persisted(now, node, out),
            MachineDue::Again(number, tries) => self.again(now, node, (number, tries), out),
            MachineDue::Elsewhere(number, tries) => {
                self.again_elsewhere(now, node, (number, tries), out);
            }
            MachineDue::Learn(group) => self.learn(now, node, group, out),
            MachineDue::Duties => self.duties(now, node, out),
            MachineDue::Passed(slot) => {
                slot.fill(());
                self.poll((now, node), out);
            }
            MachineDue::Late(id) => self.is_late((now, node), id, out),
        }
    }

    /// Gives a machine's groups an input, and performs what comes out.
    fn keep(&mut self, now: Time, node: usize, input: groups::GroupHostInput, out: &mut Out) {
        self.take(now, node, member::MemberInput::Groups(input), out);
    }

    /// Gives the core of a member an input, and performs what comes out.
    fn take(&mut self, now: Time, node: usize, input: member::MemberInput, out: &mut Out) {
        let clock = self.machines[node].group_host_now(now);
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let mut outputs = Vec::new();
        let leads = process
            .core
            .groups()
            .leads()
            .any(|(_, lead)| lead.term().is_some());
        self.figures.timed(leads, || {
            process.core.handle(clock, input, &mut outputs);
        });
        for output in outputs {
            match output {
                member::MemberOutput::Groups(output) => self.perform(now, node, output, out),
                member::MemberOutput::Routing(record) => {
                    let payload = record.encode();
                    self.in_mesh(out, |mesh, inner| mesh.carry(now, node, payload, inner));
                }
                member::MemberOutput::Event(event) => self.alarmed(node, &event),
            }
        }
        self.poll((now, node), out);
    }

    fn perform(&mut self, now: Time, node: usize, output: groups::GroupHostOutput, out: &mut Out) {
        if self.machines[node].doomed {
            return;
        }
        match output {
            groups::GroupHostOutput::Write(write) => {
                let at = self.sync_at(now, node);
                let machine = &mut self.machines[node];
                self.account.keeps(node, machine.store.id, &write);
                machine.later(at, MachineDue::Written);
                if let Some(process) = &mut machine.process {
                    let before = process.writing.replace(write);
                    self.account.expect(before.is_none(), || {
                        format!("n{node} writes twice at a time")
                    });
                }
            }
            groups::GroupHostOutput::Send { to, bytes } => {
                if let Ok(to) = usize::try_from(to.0) {
                    self.send((now, node), to, ClusterFrame::Envelope(bytes.into()), out);
                }
            }
            groups::GroupHostOutput::Order { from, order } => {
                self.account.ordered(&self.machines[node].name, &order);
                self.serve(now, node, node::NodeInput::Order { from, order }, out);
            }
            groups::GroupHostOutput::Asked {
                from,
                vc,
                generation,
                term,
            } => {
                let leader = node::VcLeader {
                    reign: (generation, term),
                    node: from,
                };
                self.serve(now, node, node::NodeInput::Asked { vc, leader }, out);
            }
            groups::GroupHostOutput::Question { group, question } => {
                let silent = question.node.clone();
                let asked = self.to_cluster(node, GetSilence { node: silent });
                let purpose = Purpose::Silence(group, question);
                self.ask((now, node), (asked, purpose), PATIENCE_MS, out);
            }
            groups::GroupHostOutput::Bind {
                group,
                vc,
                known,
                binding,
            } => self.bind((now, node), (group, vc), (known, binding), out),
            groups::GroupHostOutput::Leads { group, term } => self.elected(node, group, term),
            groups::GroupHostOutput::Applied {
                group,
                index,
                entry,
                took,
            } => self.applied(now, node, (group, index), (&entry, took)),
            groups::GroupHostOutput::Led { .. }
            | groups::GroupHostOutput::Problem(_)
            | groups::GroupHostOutput::Event(_) => {}
        }
    }

    /// When what is written now is durable.
    fn sync_at(&mut self, now: Time, node: usize) -> Time {
        let often = self.random.below(SYNC_US);
        Time(now.0 + SYNC_US / 2 + often + self.machines[node].slow_us)
    }

    fn written(&mut self, now: Time, node: usize, out: &mut Out) {
        let machine = &mut self.machines[node];
        if machine.full {
            machine.later(now.plus_millis(RETRY_MS), MachineDue::Written);
            let refused = groups::GroupHostInput::Refused("no space is left".into());
            return self.keep(now, node, refused, out);
        }
        let write = machine.process.as_mut().and_then(|it| it.writing.take());
        let Some(write) = write else { return };
        machine.store.write(&write);
        self.keep(
            now,
            node,
            groups::GroupHostInput::Written(write.number),
            out,
        );
    }

    /// Gives a machine's node an input, and performs what comes out.
    fn serve(&mut self, now: Time, node: usize, input: node::NodeInput, out: &mut Out) {
        let before = self.before_stale(node, &input);
        let machine = &mut self.machines[node];
        let clock = machine.clock.boot(now);
        let Some(process) = &mut machine.process else {
            return;
        };
        let repeated = matches!(
            input,
            node::NodeInput::Order { .. } | node::NodeInput::Asked { .. }
        );
        if machine.full && repeated && process.persisting.is_some() {
            process.node.heard_of(&input);
            return;
        }
        let mut outputs = node::NodeOutputs::default();
        process
            .node
            .handle(clock, input, &|port| port % 7 != 0, &mut outputs);
        process.wanted.extend(outputs.ledger);
        if let Some(before) = before {
            self.check_stale(node, &before);
        }
        self.check_ledger(node);
        self.go_on(now, node, out);
        for output in outputs.leases {
            self.hold(now, node, output, out);
        }
    }

    /// Performs what the ledger wants, up to a write.
    fn go_on(&mut self, now: Time, node: usize, out: &mut Out) {
        loop {
            let Some(process) = &mut self.machines[node].process else {
                return;
            };
            if process.persisting.is_some() {
                return;
            }
            let Some(output) = process.wanted.pop_front() else {
                return;
            };
            if self.dies(node) {
                return;
            }
            self.wanted(now, node, output, out);
        }
    }

    fn wanted(&mut self, now: Time, node: usize, output: ledger::LedgerOutput, out: &mut Out) {
        match output {
            ledger::LedgerOutput::Persist(changes) => {
                let at = self.sync_at(now, node);
                let machine = &mut self.machines[node];
                machine.later(at, MachineDue::Persisted);
                if let Some(process) = &mut machine.process {
                    process.persisting = Some(changes);
                }
            }
            ledger::LedgerOutput::Tell(tell) => {
                let process = self.machines[node].process.as_ref();
                let to = process.map(|it| it.node.addressees(&tell));
                self.tell(now, node, (to.unwrap_or_default(), &tell), out);
            }
            ledger::LedgerOutput::TellOne(vc, tell) => {
                let process = self.machines[node].process.as_ref();
                let to = process.and_then(|it| it.node.leader(&vc));
                let to = to.into_iter().map(|to| (to, vc.clone()));
                self.tell(now, node, (to.collect(), &tell), out);
            }
            ledger::LedgerOutput::Step(step) => {
                let process = self.machines[node].process.as_ref();
                if process.is_some_and(|it| it.node.ledger().is_due(&step)) {
                    self.step(now, node, step, out);
                }
            }
        }
    }

    fn tell(
        &mut self,
        now: Time,
        node: usize,
        (to, tell): (Vec<(NodeId, VcName)>, &Tell),
        out: &mut Out,
    ) {
        let name = self.machines[node].name.clone();
        for (to, vc) in to {
            let tell = groups::GroupHostInput::Tell {
                to,
                vc,
                node: name.clone(),
                tell: Box::new(tell.clone()),
            };
            self.keep(now, node, tell, out);
        }
    }

    /// Whether the process dies before what it would do next.
    fn dies(&mut self, node: usize) -> bool {
        let dies = self.dies_in > 0 && self.random.below(self.dies_in) == 0;
        if dies || self.machines[node].doomed {
            self.machines[node].doomed = true;
            if !self.fallen.iter().any(|(fallen, _)| *fallen == node) {
                self.fallen.push((node, 0));
            }
        }
        self.machines[node].doomed
    }

    fn persisted(&mut self, now: Time, node: usize, out: &mut Out) {
        let machine = &mut self.machines[node];
        if machine.full {
            return machine.later(now.plus_millis(RETRY_MS), MachineDue::Persisted);
        }
        let changes = machine.process.as_mut().and_then(|it| it.persisting.take());
        machine.persist(changes.unwrap_or_default());
        self.go_on(now, node, out);
    }

    fn step(&mut self, now: Time, node: usize, step: ExecutorStep, out: &mut Out) {
        self.check_step(now, node, &step);
        let ends = match &step {
            ExecutorStep::Create(spec) => {
                if ranks::are_coupled(&spec.entrypoint) {
                    self.add_rank(node, &spec.placement.uid);
                }
                let machine = &self.machines[node];
                let process = machine.process.as_ref();
                process.and_then(|it| it.node.ends(&spec.placement.uid))
            }
            _ => None,
        };
        let machine = &mut self.machines[node];
        let by = (self.habits, &mut self.random);
        let seen = machine.executor.step(now, step, ends, by);
        self.observe(now, node, seen, out);
    }

    /// What has happened to containers by now.
    fn advance(&mut self, now: Time, node: usize, out: &mut Out) {
        self.notice_lost_peers(now, node);
        let machine = &mut self.machines[node];
        let at = (now, machine.clock, machine.process.is_some());
        let seen = machine.executor.advance(at, self.habits, &mut self.random);
        self.observe(now, node, seen, out);
    }

    /// A machine whose agent is gone loses its power, and boots anew.
    fn power_off(&mut self, now: Time, node: usize) {
        let machine = &mut self.machines[node];
        let at = (now, machine.clock, false);
        machine.executor.advance(at, self.habits, &mut self.random);
        machine.executor.power_off();
        machine.clock.reboot(now);
    }

    /// A machine's devices are seen no more, or again.
    fn look_at_devices(&mut self, now: Time, node: usize, is_blind: bool, out: &mut Out) {
        let machine = &mut self.machines[node];
        machine.blind = is_blind.then_some(now);
        let capacity = machine.capacity();
        self.serve(now, node, node::NodeInput::Capacity(capacity), out);
    }

    fn observe(&mut self, now: Time, node: usize, seen: executor::Seen, out: &mut Out) {
        for (uid, what) in seen {
            self.serve(now, node, node::NodeInput::Observed { uid, what }, out);
        }
    }

    fn hold(&mut self, now: Time, node: usize, output: lease::LeaseOutput, out: &mut Out) {
        match output {
            lease::LeaseOutput::Ask(request) => {
                let name = self.machines[node].name.clone();
                let asked = match request.of {
                    lease::LeaseAuthority::Cluster => {
                        Some(self.to_cluster(node, RenewLeases { node: name }))
                    }
                    lease::LeaseAuthority::Vc => {
                        let group = self.group_of(node, &request.vc);
                        group.map(|group| Question::vc(group, RenewLease { node: name }))
                    }
                };
                let Some(asked) = asked else {
                    let granted = false;
                    return self.serve(
                        now,
                        node,
                        node::NodeInput::Renewed { request, granted },
                        out,
                    );
                };
                self.ask(
                    (now, node),
                    (asked, Purpose::Renew(request)),
                    PATIENCE_MS,
                    out,
                );
            }
            lease::LeaseOutput::Extend { uid, ends } => {
                let boot = self.machines[node].clock.boot(now);
                self.machines[node].executor.renew(&uid, boot, ends);
            }
            lease::LeaseOutput::End { uid } => {
                let stop = ExecutorStep::Stop {
                    uid,
                    cause: Cause::LeaseEnded,
                    grace_ms: 0,
                };
                self.step(now, node, stop, out);
            }
        }
    }
}

/// Names of all scenarios and faults, and what each is.
pub(crate) fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    let faults = faults::ALL.iter();
    let faults = faults.map(|(name, about, _)| (*name, *about));
    let scenarios = scenario::ALL.iter();
    let any = (play::ANY, "some of the faults below, as the seed chooses");
    let scenarios = scenarios.map(|one| (one.name, one.about));
    scenarios.chain([any]).chain(faults)
}

/// A machine's number, as groups know it.
fn number(node: usize) -> NodeId {
    name::node(member(node))
}
