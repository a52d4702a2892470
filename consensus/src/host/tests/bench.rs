//! Hosts in one process, whose frames, disks and clock the tests have in their hands.

use std::collections::VecDeque;

use super::super::*;
use crate::machine::journal::Journal;
use crate::membership::ReplicaChange;

pub(super) const GROUP: GroupId = GroupId(1);

pub(super) fn home(node: u64) -> ReplicaHome {
    ReplicaHome {
        node: NodeId(node),
        store: StoreId(100 + node),
    }
}

pub(super) fn homes(nodes: std::ops::RangeInclusive<u64>) -> BTreeMap<ReplicaId, ReplicaHome> {
    nodes.map(|node| (ReplicaId(node), home(node))).collect()
}

/// Hosts whose frames arrive at once, and whose writes are durable when the test says so.
pub(super) struct Bench {
    pub(super) now: Time,
    pub(super) hosts: BTreeMap<NodeId, Host<Journal>>,
    /// Writes that are not durable yet.
    pub(super) writes: Vec<(NodeId, Write)>,
    /// Whether writes are durable at once.
    pub(super) fast: bool,
    pub(super) down: Vec<NodeId>,
    pub(super) said: Vec<(NodeId, HostOutput<usize>)>,
    /// Frames sent: from whom, to whom.
    pub(super) frames: Vec<(NodeId, NodeId)>,
    /// Bytes of the longest frame.
    pub(super) longest: usize,
    /// Bytes that a link takes at once. It drops the oldest of more.
    pub(super) room: usize,
    /// Frames that are lost, percent.
    pub(super) loss: u64,
    /// Large frames that arrive still.
    pub(super) budget: usize,
}

/// Frames from here on are large.
const LARGE_BYTES: usize = 100_000;

impl Bench {
    pub(super) fn new(nodes: u64) -> Self {
        let now = Time::from_millis(5_000);
        let hosts = (1..=nodes).map(|node| (NodeId(node), host(now, node)));
        Self {
            now,
            hosts: hosts.collect(),
            writes: Vec::new(),
            fast: true,
            down: Vec::new(),
            said: Vec::new(),
            frames: Vec::new(),
            longest: 0,
            room: usize::MAX,
            loss: 0,
            budget: usize::MAX,
        }
    }

    /// With a group that all nodes have, and its leader.
    pub(super) fn led(nodes: u64) -> (Self, NodeId) {
        let mut bench = Self::new(nodes);
        bench.bear(GROUP, nodes);
        let leader = bench.elect(GROUP);
        (bench, leader)
    }

    pub(super) fn bear(&mut self, group: GroupId, nodes: u64) {
        for node in 1..=nodes {
            let homes = homes(1..=nodes);
            self.give(node, HostInput::Creation { group, homes });
        }
    }

    pub(super) fn give(&mut self, node: u64, input: HostInput) {
        self.run(VecDeque::from([(NodeId(node), input)]));
    }

    pub(super) fn run(&mut self, mut inputs: VecDeque<(NodeId, HostInput)>) {
        while let Some((node, input)) = inputs.pop_front() {
            if self.down.contains(&node) {
                continue;
            }
            let Some(host) = self.hosts.get_mut(&node) else {
                continue;
            };
            let mut out = Vec::new();
            host.handle(self.now, input, &mut out);
            while host.apply_next(&mut out) {}
            for output in carried(out, self.room) {
                self.output(node, output, &mut inputs);
            }
        }
    }

    pub(super) fn output(
        &mut self,
        node: NodeId,
        output: HostOutput<usize>,
        inputs: &mut VecDeque<(NodeId, HostInput)>,
    ) {
        match output {
            HostOutput::Write(write) if self.fast => {
                inputs.push_back((node, HostInput::Written(write.number)));
            }
            HostOutput::Write(write) => self.writes.push((node, write)),
            HostOutput::Send { to, frame } => {
                self.frames.push((node, to));
                self.longest = self.longest.max(frame.len());
                if self.is_lost(&frame) {
                    return;
                }
                let from = node;
                let bytes = frame;
                inputs.push_back((to, HostInput::Frame { from, bytes }));
            }
            output => self.said.push((node, output)),
        }
    }

    fn is_lost(&mut self, frame: &[u8]) -> bool {
        if frame.len() >= LARGE_BYTES {
            let Some(left) = self.budget.checked_sub(1) else {
                return true;
            };
            self.budget = left;
        }
        let number = self.frames.len() as u64;
        xxhash_rust::xxh3::xxh3_64(&number.to_le_bytes()) % 100 < self.loss
    }

    /// Lets time pass, hosts waking when they want to.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now.plus_millis(ms);
        loop {
            let up = self
                .hosts
                .iter()
                .filter(|(node, _)| !self.down.contains(node));
            let due = up.filter_map(|(node, host)| Some((host.deadline()?, *node)));
            let Some((at, node)) = due.min().filter(|(at, _)| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            self.run(VecDeque::from([(node, HostInput::Tick)]));
        }
    }

    pub(super) fn leader(&self, group: GroupId) -> Option<NodeId> {
        let up = self
            .hosts
            .iter()
            .filter(|(node, _)| !self.down.contains(node));
        let mut leaders = up.filter(|(_, host)| host.view(group).is_some_and(|view| view.leads));
        leaders.next().map(|(node, _)| *node)
    }

    pub(super) fn elect(&mut self, group: GroupId) -> NodeId {
        self.pass(2_000);
        self.leader(group).unwrap()
    }

    pub(super) fn propose(&mut self, node: NodeId, ticket: u64, entry: &str) {
        self.give(
            node.0,
            HostInput::Propose {
                group: GROUP,
                ticket: Ticket(ticket),
                entry: entry.into(),
            },
        );
    }

    pub(super) fn change(&mut self, node: NodeId, ticket: u64, changes: Vec<ReplicaChange>) {
        let ticket = Ticket(ticket);
        let input = HostInput::Change {
            group: GROUP,
            ticket,
            changes,
        };
        self.give(node.0, input);
    }

    pub(super) fn accepted(&self, ticket: u64) -> bool {
        let wanted = Some(Ticket(ticket));
        let said = |(_, output): &(NodeId, HostOutput<usize>)| match output {
            HostOutput::Applied { ticket, .. } | HostOutput::Changed { ticket, .. } => {
                *ticket == wanted
            }
            _ => false,
        };
        self.said.iter().any(said)
    }

    pub(super) fn refused(&self, ticket: u64) -> Option<HostRefusal> {
        self.said.iter().find_map(|(_, output)| match output {
            HostOutput::Refused { ticket: t, why, .. } if t.0 == ticket => Some(*why),
            _ => None,
        })
    }

    pub(super) fn is_read(&self, ticket: u64) -> bool {
        let said = |(_, output): &(NodeId, HostOutput<usize>)| match output {
            HostOutput::Read { ticket: t, .. } => t.0 == ticket,
            _ => false,
        };
        self.said.iter().any(said)
    }

    pub(super) fn journal(&self, node: u64) -> Vec<String> {
        let journal = self
            .hosts
            .get(&NodeId(node))
            .and_then(|host| host.machine(GROUP));
        let entries = journal.map(|journal| journal.0.clone()).unwrap_or_default();
        entries
            .into_iter()
            .map(|(_, entry)| String::from_utf8(entry).unwrap())
            .collect()
    }
}

/// What is left of it by links with so much room each.
fn carried(out: Vec<HostOutput<usize>>, room: usize) -> Vec<HostOutput<usize>> {
    let mut left: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut kept: Vec<_> = out.into_iter().rev().collect();
    kept.retain(|output| {
        let HostOutput::Send { to, frame } = output else {
            return true;
        };
        let left = left.entry(*to).or_insert(room);
        let rest = left.checked_sub(frame.len());
        *left = rest.unwrap_or(0);
        rest.is_some()
    });
    kept.reverse();
    kept
}

pub(super) fn host(now: Time, node: u64) -> Host<Journal> {
    let options = HostOptions {
        log_entries_max: 8,
        questions_max: 30,
        ..HostOptions::new(NodeId(node), StoreId(100 + node), 1)
    };
    Host::open(
        now,
        options,
        Vec::new(),
        |_| Journal::default(),
        &mut Vec::new(),
    )
}
