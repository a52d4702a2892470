//! Nodes, network, clients, trouble, and an administrator who repairs memberships.

use std::collections::BTreeMap;

use muster_consensus::{
    GroupId, GroupView, HostInput, HostOutput, HostRefusal, NodeId, ReplicaChange, ReplicaHome,
    ReplicaId, Ticket,
};
use muster_model::time::Time;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64;

use crate::checks::Checks;
use crate::network::{Frame, Network};
use crate::node::{Node, Outputs};

const NODES: u64 = 5;
const GROUPS: u64 = 3;
const COPIES: usize = 3;
const START: Time = Time::from_millis(1_000_000);
/// Trouble lasts so long, and then everything has to come right within as long again.
const TROUBLE_MS: u64 = 20_000;
const CALM_MS: u64 = 10_000;
const CLIENT_MS: u64 = 20;
const ADMIN_MS: u64 = 500;
const TROUBLE_EVERY_MS: u64 = 700;

/// Which trouble there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimFaults {
    pub(crate) loss: bool,
    pub(crate) cuts: bool,
    pub(crate) crashes: bool,
    pub(crate) disks: bool,
    pub(crate) pauses: bool,
}

/// All of it.
pub(crate) struct World {
    now: Time,
    seed: u64,
    rng: StdRng,
    faults: SimFaults,
    nodes: BTreeMap<NodeId, Node>,
    creations: BTreeMap<GroupId, BTreeMap<ReplicaId, ReplicaHome>>,
    network: Network,
    checks: Checks,
    tickets: u64,
    /// When nodes that are down come back.
    back: BTreeMap<NodeId, Time>,
    client: Time,
    admin: Time,
    trouble: Time,
    /// Whether trouble is over.
    calm: bool,
    digest: u64,
}

type Checked = Result<(), String>;

impl World {
    pub(crate) fn new(seed: u64, faults: SimFaults) -> Self {
        let ids = (1..=NODES).map(NodeId);
        Self {
            now: START,
            seed,
            rng: StdRng::seed_from_u64(seed),
            faults,
            nodes: ids.map(|id| (id, Node::new(id))).collect(),
            creations: BTreeMap::new(),
            network: Network::default(),
            checks: Checks::default(),
            tickets: 0,
            back: BTreeMap::new(),
            client: START,
            admin: START,
            trouble: START.plus_millis(2_000),
            calm: false,
            digest: 0,
        }
    }

    /// Of all that was said.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    /// Trouble, then calm, then all must be well.
    pub(crate) fn run(&mut self) -> Checked {
        for id in self.ids() {
            self.start(id)?;
        }
        self.bear()?;
        self.until(START.plus_millis(TROUBLE_MS))?;
        self.end_trouble()?;
        self.until(START.plus_millis(TROUBLE_MS + CALM_MS))?;
        self.all_is_well()
    }

    fn ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    fn start(&mut self, id: NodeId) -> Checked {
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        let (out, _) = node.start(self.now, self.seed, &mut self.rng)?;
        self.perform(id, out)?;
        self.apply_all(id)?;
        // Told at every start: who was there at the creation does not know whether it was heard.
        for (group, homes) in self.creations.clone() {
            self.handle(id, HostInput::Creation { group, homes })?;
        }
        Ok(())
    }

    fn bear(&mut self) -> Checked {
        for group in 0..GROUPS {
            let first = (0..COPIES as u64).map(|place| NodeId((group + place) % NODES + 1));
            let homes = first.enumerate().filter_map(|(place, node)| {
                let store = self.nodes.get(&node)?.store()?;
                Some((ReplicaId(place as u64 + 1), ReplicaHome { node, store }))
            });
            let homes: BTreeMap<_, _> = homes.collect();
            self.creations.insert(GroupId(group), homes.clone());
            for home in homes.values() {
                let input = HostInput::Creation {
                    group: GroupId(group),
                    homes: homes.clone(),
                };
                self.handle(home.node, input)?;
            }
        }
        Ok(())
    }

    fn until(&mut self, end: Time) -> Checked {
        while self.now < end {
            let nodes = self.nodes.values().filter_map(Node::due);
            let others = [self.client, self.admin, self.trouble, end];
            let back = self.back.values().copied();
            let next = nodes
                .chain(others)
                .chain(self.network.next())
                .chain(back)
                .min();
            self.now = next.unwrap_or(end).max(self.now);
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Checked {
        while let Some(frame) = self.network.take(self.now) {
            self.arrive(frame)?;
        }
        for id in self.ids() {
            self.wake(id)?;
        }
        let back: Vec<NodeId> = self
            .back
            .extract_if(.., |_, at| *at <= self.now)
            .map(|(id, _)| id)
            .collect();
        for id in back {
            self.start(id)?;
        }
        if self.client <= self.now {
            self.client = self.now.plus_millis(CLIENT_MS);
            self.ask()?;
        }
        if self.admin <= self.now {
            self.admin = self.now.plus_millis(ADMIN_MS);
            self.repair()?;
        }
        if self.trouble <= self.now {
            self.trouble = self.now.plus_millis(TROUBLE_EVERY_MS);
            if !self.calm {
                self.make_trouble();
            }
        }
        Ok(())
    }

    fn arrive(&mut self, frame: Frame) -> Checked {
        let Some(node) = self.nodes.get(&frame.to) else {
            return Ok(());
        };
        if node.paused > self.now {
            // It waits in the socket.
            let paused = node.paused;
            self.network.put_off(paused, frame);
            return Ok(());
        }
        let input = HostInput::Frame {
            from: frame.from,
            bytes: frame.bytes,
        };
        self.handle(frame.to, input)
    }

    fn wake(&mut self, id: NodeId) -> Checked {
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ok(());
        };
        if node.paused > self.now || node.due().is_none_or(|due| due > self.now) {
            return Ok(());
        }
        let mut out = Outputs::new();
        node.wake(self.now, &mut out)?;
        self.perform(id, out)?;
        self.apply_all(id)
    }

    fn handle(&mut self, id: NodeId, input: HostInput) -> Checked {
        let mut out = Outputs::new();
        if let Some(node) = self.nodes.get_mut(&id) {
            node.handle(self.now, input, &mut out);
        }
        self.perform(id, out)?;
        self.apply_all(id)
    }

    /// One entry at a time, so that each is seen with the state as it left it.
    fn apply_all(&mut self, id: NodeId) -> Checked {
        loop {
            let mut out = Outputs::new();
            let node = self.nodes.get_mut(&id);
            if !node.is_some_and(|node| node.apply_next(&mut out)) {
                return Ok(());
            }
            self.perform(id, out)?;
        }
    }

    fn perform(&mut self, id: NodeId, out: Outputs) -> Checked {
        for output in out {
            self.note(id, &output);
            self.output(id, output)?;
        }
        Ok(())
    }

    fn note(&mut self, id: NodeId, output: &HostOutput<(u64, u64)>) {
        let text = format!("{} {id:?} {} {output:?}", self.now.0, self.digest);
        self.digest = xxh3_64(text.as_bytes());
        if std::env::var_os("MUSTER_TRACE").is_some() {
            let shown: String = format!("{output:?}").chars().take(200).collect();
            eprintln!("{} {id:?} {shown}", self.now.0 / 1000);
        }
    }

    fn output(&mut self, id: NodeId, output: HostOutput<(u64, u64)>) -> Checked {
        match output {
            HostOutput::Write(write) => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.begin_write(self.now, write, &mut self.rng);
                }
                Ok(())
            }
            HostOutput::Send { to, frame } => {
                let frame = Frame {
                    from: id,
                    to,
                    bytes: frame,
                };
                self.network.send(self.now, frame, &mut self.rng);
                Ok(())
            }
            HostOutput::Applied {
                group,
                ticket,
                output,
                ..
            } => {
                self.checks.applied(group, output)?;
                ticket.map_or(Ok(()), |ticket| self.checks.accept(ticket))
            }
            HostOutput::Restored { group, .. } => self.check_state(id, group),
            HostOutput::Leads { group, term } => self.checks.leads(group, term, id),
            HostOutput::Read { group, ticket } => {
                let machine = self.nodes.get(&id).and_then(Node::host);
                let machine = machine.and_then(|host| host.machine(group));
                let applied = machine.map_or(0, |chain| chain.index);
                self.checks.read(ticket, applied)
            }
            HostOutput::Refused { ticket, why, .. } => {
                // The administrator's own questions are not counted.
                if ticket.0 == 0 {
                    return Ok(());
                }
                self.checks.refuse(ticket, why != HostRefusal::Unknown)
            }
            HostOutput::Lost { group, replica } => {
                self.change(id, group, vec![ReplicaChange::Remove(replica)])
            }
            HostOutput::Changed { .. }
            | HostOutput::Follows { .. }
            | HostOutput::Removed { .. } => Ok(()),
        }
    }

    fn check_state(&mut self, id: NodeId, group: GroupId) -> Checked {
        let host = self.nodes.get(&id).and_then(Node::host);
        match host.and_then(|host| host.machine(group)) {
            Some(chain) => self.checks.state(group, chain),
            None => Ok(()),
        }
    }

    /// Clients ask at a node that they take for the leader's, mostly.
    fn ask(&mut self) -> Checked {
        for group in (0..GROUPS).map(GroupId) {
            let ids = self.ids();
            let leads = |id: &&NodeId| {
                let host = self.nodes.get(id).and_then(Node::host);
                let view = host.and_then(|host| host.view(group));
                view.is_some_and(|view| view.leads)
            };
            let leaders: Vec<NodeId> = ids.iter().filter(leads).copied().collect();
            let pool = if leaders.is_empty() { ids } else { leaders };
            let id = pool[self.rng.random_range(0..pool.len())];
            if self
                .nodes
                .get(&id)
                .is_none_or(|node| node.running.is_none() || node.paused > self.now)
            {
                continue;
            }
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.checks.asked(ticket, id, self.now);
            if self.rng.random_range(0..4) == 0 {
                self.checks.ask(ticket, group);
                self.handle(id, HostInput::Read { group, ticket })?;
                continue;
            }
            self.checks.propose(ticket, group, self.tickets);
            let mut entry = self.tickets.to_le_bytes().to_vec();
            entry.resize(8 + self.rng.random_range(0..400), 7);
            self.handle(
                id,
                HostInput::Propose {
                    group,
                    ticket,
                    entry,
                },
            )?;
        }
        Ok(())
    }

    /// Keeps every group at its number of voters, asking whoever leads.
    fn repair(&mut self) -> Checked {
        for group in (0..GROUPS).map(GroupId) {
            for id in self.ids() {
                let host = self.nodes.get(&id).and_then(Node::host);
                let view = host.and_then(|host| host.view(group));
                let Some(view) = view.filter(|view| view.leads) else {
                    continue;
                };
                let learner = view.membership.homes.iter().find(|(replica, home)| {
                    let host = self.nodes.get(&home.node).and_then(Node::host);
                    let applied = host
                        .and_then(|host| host.view(group))
                        .map_or(0, |v| v.applied);
                    !view.voters.contains(replica) && applied + 5 >= view.applied && applied > 0
                });
                let homes = view.membership.homes.len();
                if let Some((replica, _)) = learner {
                    let changes = self.promote(*replica, &view);
                    self.change(id, group, changes)?;
                } else if homes < COPIES || (homes == COPIES && self.moves()) {
                    self.add(id, group, &view)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a group is to move to another node.
    fn moves(&mut self) -> bool {
        !self.calm && self.rng.random_range(0..6) == 0
    }

    /// Gives a copy that has learnt a vote: one more, or that of another one, be it the leader's,
    /// so that there are never fewer.
    fn promote(&mut self, replica: ReplicaId, view: &GroupView) -> Vec<ReplicaChange> {
        let mut changes = vec![ReplicaChange::Promote(replica)];
        if view.voters.len() >= COPIES {
            let goes = view.voters.iter().nth(self.rng.random_range(0..COPIES));
            changes.extend(goes.map(|goes| ReplicaChange::Remove(*goes)));
        }
        changes
    }

    fn add(&mut self, leader: NodeId, group: GroupId, view: &GroupView) -> Checked {
        let housed: Vec<NodeId> = view
            .membership
            .homes
            .values()
            .map(|home| home.node)
            .collect();
        let free = self
            .nodes
            .values()
            .filter(|node| !housed.contains(&node.id));
        let homes = free.filter_map(|node| {
            let store = node.store()?;
            Some(ReplicaHome {
                node: node.id,
                store,
            })
        });
        let homes: Vec<ReplicaHome> = homes.collect();
        if homes.is_empty() {
            return Ok(());
        }
        let home = homes[self.rng.random_range(0..homes.len())];
        self.change(
            leader,
            group,
            vec![ReplicaChange::Add(view.membership.next, home)],
        )
    }

    fn change(&mut self, id: NodeId, group: GroupId, changes: Vec<ReplicaChange>) -> Checked {
        let input = HostInput::Change {
            group,
            ticket: Ticket(0),
            changes,
        };
        self.handle(id, input)
    }

    fn make_trouble(&mut self) {
        let ids = self.ids();
        self.network.loss = if self.faults.loss { 5 } else { 0 };
        let id = ids[self.rng.random_range(0..ids.len())];
        match self.rng.random_range(0..8) {
            0 if self.faults.cuts => self.network.cut(id, &ids, &mut self.rng),
            1 if self.faults.cuts => self.network.split(&ids, &mut self.rng),
            2 | 3 => self.network.heal(),
            4 if self.faults.crashes => self.crash(id, false),
            5 if self.faults.disks => self.crash(id, true),
            6 if self.faults.pauses => {
                let until = self.now.plus_millis(self.rng.random_range(100..3_000));
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.paused = until;
                    node.slow_us = self.rng.random_range(0..50_000);
                }
            }
            7 if self.faults.crashes => {
                for id in ids {
                    self.crash(id, false);
                }
            }
            _ => {}
        }
    }

    /// One disk at a time, and only while all others are up: a group survives the loss of a
    /// minority of its promises, and no more.
    fn crash(&mut self, id: NodeId, disk: bool) {
        let all_up = self.nodes.values().all(|node| node.running.is_some());
        if disk && !(all_up && self.is_whole()) {
            return;
        }
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        if node.running.is_none() {
            return;
        }
        node.crash(&mut self.rng);
        self.checks.crashed(id);
        if disk {
            node.lose_disk();
        }
        let down = self.rng.random_range(50..3_000);
        self.back.insert(id, self.now.plus_millis(down));
    }

    /// Whether every group has all its voters, with their promises.
    fn is_whole(&self) -> bool {
        (0..GROUPS).map(GroupId).all(|group| {
            let hosts = self.nodes.values().filter_map(Node::host);
            let mut leaders = hosts
                .filter_map(|host| host.view(group))
                .filter(|view| view.leads);
            leaders.any(|view| {
                let there = view.voters.iter().filter(|replica| {
                    let home = view.membership.homes.get(replica);
                    let node = home.and_then(|home| self.nodes.get(&home.node));
                    let host = node.and_then(Node::host);
                    let here = host.and_then(|host| host.view(group));
                    here.is_some_and(|here| here.replica == **replica)
                });
                view.voters.len() == COPIES && there.count() == COPIES
            })
        })
    }

    fn end_trouble(&mut self) -> Checked {
        self.calm = true;
        self.network.heal();
        self.network.loss = 0;
        for node in self.nodes.values_mut() {
            node.paused = self.now;
            node.slow_us = 0;
        }
        for id in std::mem::take(&mut self.back).into_keys() {
            self.start(id)?;
        }
        Ok(())
    }

    fn all_is_well(&mut self) -> Checked {
        if !self.is_whole() {
            return Err(format!("a group has not its {COPIES} voters again"));
        }
        for group in (0..GROUPS).map(GroupId) {
            let hosts = self.nodes.values().filter_map(Node::host);
            let views: Vec<_> = hosts
                .filter_map(|host| Some((host.view(group)?, host.machine(group)?)))
                .collect();
            let leaders = views.iter().filter(|(view, _)| view.leads).count();
            if leaders != 1 || views.len() != COPIES {
                return Err(format!(
                    "{group:?} has {leaders} leaders and {} copies",
                    views.len()
                ));
            }
            for (view, chain) in views {
                if view.leads {
                    self.checks.complete(group, chain)?;
                }
            }
        }
        let a_while_ago = Time(self.now.0 - 3_000_000);
        self.checks.all_answered(a_while_ago)?;
        let (accepted, answered) = (self.checks.accepted(), self.checks.answered);
        if accepted < 500 || answered < 100 {
            return Err(format!(
                "only {accepted} entries and {answered} reads came through"
            ));
        }
        Ok(())
    }
}
