//! A small network of documents cores: links in five rings, lossy streams, cards of 1 Gbit/s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_gossip::MemberId;
use muster_gossip::documents::{BodyVerdict, DocumentsCore, DocumentsInput, DocumentsOutput};
use muster_gossip::frame::{DocumentFrame, DocumentRef, MeshFrame, codec};
use muster_gossip::record::{DocumentId, Header};
use muster_model::time::Time;

use super::bodies;

const RINGS: u64 = 5;
const PACKET_BYTES: usize = 1_160;
const RECOVERY_US: u64 = 30_000;
const CARD_BYTES_US: u64 = 125;

/// What happens next, at a node.
enum NetworkEvent {
    /// The last packet is at the card, which has so many bytes to take in.
    Packets(MemberId, DocumentFrame, usize),
    Frame(MemberId, DocumentFrame),
    Timer,
    Header(DocumentId, Header),
    Checked(DocumentRef, BodyVerdict),
    Active(DocumentRef),
}

/// A node and what it has done.
pub(crate) struct Node {
    pub(crate) documents: DocumentsCore,
    pub(crate) up: bool,
    pub(crate) links: Vec<MemberId>,
    /// Bodies that it was told to check, with when.
    pub(crate) checked: BTreeMap<DocumentRef, (Time, Arc<[u8]>)>,
    /// What it was told to put in force, in order.
    pub(crate) activated: Vec<(Time, DocumentRef)>,
    pub(crate) retained: BTreeMap<DocumentId, Vec<DocumentRef>>,
    pub(crate) sent_bytes: u64,
    timer: Option<Time>,
    /// How often in a row it wanted to be called again at once.
    idle_ticks: u32,
    out_free: u64,
    in_free: u64,
}

/// Nodes and what is under way between them.
pub(crate) struct Network {
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) loss_percent: u64,
    /// Frames sent, and those of them that ask for a chunk.
    pub(crate) frames: u64,
    pub(crate) requests: u64,
    /// What a node thinks of a body.
    pub(crate) judge: fn(MemberId, &[u8]) -> BodyVerdict,
    /// What becomes of a frame that leaves a node; `None`: it never leaves.
    pub(crate) tamper: fn(MemberId, DocumentFrame) -> Option<DocumentFrame>,
    events: BTreeMap<(Time, u64), (usize, NetworkEvent)>,
    number: u64,
    random: u64,
}

impl Network {
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        let mut network = Self {
            now: Time::from_millis(1_000),
            nodes: (0..count).map(node).collect(),
            loss_percent: 5,
            frames: 0,
            requests: 0,
            judge: |_, _| BodyVerdict::Valid,
            tamper: |_, frame| Some(frame),
            events: BTreeMap::new(),
            number: 0,
            random: seed,
        };
        network.relink();
        network
    }

    /// Links everybody who is up in five rings.
    pub(crate) fn relink(&mut self) {
        let count = self.nodes.len();
        let mut links = vec![BTreeSet::new(); count];
        for ring in 0..RINGS {
            let mut order: Vec<_> = (0..count).filter(|node| self.nodes[*node].up).collect();
            order.sort_by_key(|node| scramble((ring << 32) + *node as u64));
            for at in 0..order.len() {
                let (a, b) = (order[at], order[(at + 1) % order.len()]);
                if a != b {
                    links[a].insert(id(b));
                    links[b].insert(id(a));
                }
            }
        }
        for (node, links) in links.into_iter().enumerate() {
            self.set_links(node, links.into_iter().collect());
        }
    }

    pub(crate) fn set_links(&mut self, node: usize, links: Vec<MemberId>) {
        self.nodes[node].links.clone_from(&links);
        self.call(node, |documents, now, out| {
            documents.links(now, &links, out)
        });
    }

    /// Everybody learns of a header within a few ms.
    pub(crate) fn publish(&mut self, document: DocumentId, header: &Header) {
        for node in 0..self.nodes.len() {
            let after_us = 300 + self.below(8_000);
            self.push(
                after_us,
                node,
                NetworkEvent::Header(document, header.clone()),
            );
        }
    }

    /// Node 0 orders a version with this body, and everybody learns of it.
    pub(crate) fn edit(&mut self, version: u64, body: &Arc<[u8]>) {
        let header = bodies::header(version, body);
        self.header(0, bodies::ID, &header);
        self.body(0, bodies::version(version), body);
        self.publish(bodies::ID, &header);
    }

    /// One node learns of a header now.
    pub(crate) fn header(&mut self, node: usize, document: DocumentId, header: &Header) {
        self.call(node, |documents, now, out| {
            documents.header(now, document, header, out)
        });
    }

    /// A node gets a body from its disk or its admin.
    pub(crate) fn body(&mut self, node: usize, document: DocumentRef, body: &Arc<[u8]>) {
        let body = Arc::clone(body);
        let input = DocumentsInput::Body { document, body };
        self.call(node, |documents, now, out| {
            documents.handle(now, input, out)
        });
    }

    pub(crate) fn input(&mut self, node: usize, input: DocumentsInput) {
        self.call(node, |documents, now, out| {
            documents.handle(now, input, out)
        });
    }

    /// A frame arrives from nowhere in particular.
    pub(crate) fn frame(
        &mut self,
        to: usize,
        from: usize,
        frame: DocumentFrame,
    ) -> Vec<DocumentsOutput> {
        let mut out = Vec::new();
        self.nodes[to]
            .documents
            .frame(self.now, id(from), frame, &mut out);
        out
    }

    /// A node starts again, and its disk is empty.
    pub(crate) fn restart(&mut self, node: usize) {
        let links = self.nodes[node].links.clone();
        self.nodes[node].documents = DocumentsCore::new(id(node));
        self.nodes[node].timer = None;
        self.nodes[node].checked.clear();
        self.nodes[node].up = true;
        self.set_links(node, links);
    }

    /// Lets so much time pass.
    pub(crate) fn run_ms(&mut self, ms: u64) {
        let end = self.now.plus_millis(ms);
        while let Some(entry) = self
            .events
            .first_entry()
            .filter(|entry| entry.key().0 <= end)
        {
            let ((at, _), (node, event)) = entry.remove_entry();
            self.now = at;
            self.happen(node, event);
        }
        self.now = end;
    }

    /// Whether nothing at all is under way or due.
    pub(crate) fn is_quiet(&self) -> bool {
        self.events.is_empty()
    }

    fn happen(&mut self, node: usize, event: NetworkEvent) {
        if !self.nodes[node].up {
            return;
        }
        if matches!(event, NetworkEvent::Timer) {
            if self.nodes[node].timer != Some(self.now) {
                return;
            }
            self.nodes[node].timer = None;
        }
        if let NetworkEvent::Packets(from, frame, bytes) = event {
            return self.arrive(node, from, frame, bytes);
        }
        self.call(node, |documents, now, out| match event {
            NetworkEvent::Packets(..) => {}
            NetworkEvent::Frame(from, frame) => documents.frame(now, from, frame, out),
            NetworkEvent::Timer => documents.tick(now, out),
            NetworkEvent::Header(id, header) => documents.header(now, id, &header, out),
            NetworkEvent::Checked(document, verdict) => {
                documents.handle(now, DocumentsInput::Checked { document, verdict }, out);
            }
            NetworkEvent::Active(document) => {
                documents.handle(now, DocumentsInput::Active(document), out)
            }
        });
    }

    pub(crate) fn call(
        &mut self,
        node: usize,
        act: impl FnOnce(&mut DocumentsCore, Time, &mut Vec<DocumentsOutput>),
    ) {
        let mut out = Vec::new();
        act(&mut self.nodes[node].documents, self.now, &mut out);
        out.into_iter()
            .for_each(|output| self.perform(node, output));
        let due = self.nodes[node].documents.deadline();
        let due = due.map(|due| due.max(self.now));
        self.nodes[node].idle_ticks = match due == Some(self.now) {
            true => self.nodes[node].idle_ticks + 1,
            false => 0,
        };
        assert!(
            self.nodes[node].idle_ticks < 100,
            "node {node} is always due"
        );
        if due.is_some() && due != self.nodes[node].timer {
            let after_us = due.map_or(0, |due| due.micros_since(self.now));
            self.push(after_us, node, NetworkEvent::Timer);
        }
        self.nodes[node].timer = due;
    }

    fn perform(&mut self, node: usize, output: DocumentsOutput) {
        match output {
            DocumentsOutput::Send { to, frame, .. } => self.send(node, to, frame),
            DocumentsOutput::Check { document, body } => {
                let verdict = (self.judge)(id(node), &body);
                // A thousand bodies do not fit into memory.
                let few = self.nodes.len() <= 200;
                let found = (self.now, if few { body } else { Arc::default() });
                assert!(self.nodes[node].checked.insert(document, found).is_none());
                self.push(500, node, NetworkEvent::Checked(document, verdict));
            }
            DocumentsOutput::Activate(document) => {
                let at = (self.now, document);
                self.nodes[node].activated.push(at);
                self.push(500, node, NetworkEvent::Active(document));
            }
            DocumentsOutput::Retain(documents) => {
                if let Some(id) = documents.first().map(|document| document.id) {
                    self.nodes[node].retained.insert(id, documents);
                }
            }
        }
    }

    fn send(&mut self, node: usize, to: MemberId, frame: DocumentFrame) {
        let Some(frame) = (self.tamper)(id(node), frame) else {
            return;
        };
        let wrapped = MeshFrame::Document(frame.clone());
        let bytes = codec::wire_len(&wrapped);
        let rounds = self.rounds(bytes.div_ceil(PACKET_BYTES));
        let start = self.nodes[node].out_free.max(self.now.0);
        let took_us = bytes as u64 / CARD_BYTES_US;
        self.nodes[node].out_free = start + took_us;
        self.nodes[node].sent_bytes += bytes as u64;
        self.frames += 1;
        self.requests += u64::from(matches!(
            wrapped,
            MeshFrame::Document(DocumentFrame::GetChunk { .. })
        ));
        let way_us = 80 + self.below(70) + self.below(150) * self.below(150) / 100;
        let arrives = start + took_us + way_us + rounds * RECOVERY_US;
        let packets = NetworkEvent::Packets(id(node), frame, bytes);
        self.push(arrives - self.now.0, to.index(), packets);
    }

    fn arrive(&mut self, node: usize, from: MemberId, frame: DocumentFrame, bytes: usize) {
        let target = &mut self.nodes[node];
        let took_us = bytes as u64 / CARD_BYTES_US;
        let free = target.in_free.max(self.now.0 - took_us) + took_us;
        target.in_free = free;
        self.push(free - self.now.0, node, NetworkEvent::Frame(from, frame));
    }

    /// How many rounds of recovery it takes until so many packets have arrived.
    fn rounds(&mut self, packets: usize) -> u64 {
        let (mut missing, mut rounds) = (packets.max(1), 0);
        loop {
            missing = (0..missing)
                .filter(|_| self.below(100) < self.loss_percent)
                .count();
            if missing == 0 {
                return rounds;
            }
            rounds += 1;
        }
    }

    fn push(&mut self, after_us: u64, node: usize, event: NetworkEvent) {
        self.number += 1;
        self.events
            .insert((Time(self.now.0 + after_us), self.number), (node, event));
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        scramble(self.random) % bound
    }
}

fn node(number: usize) -> Node {
    Node {
        documents: DocumentsCore::new(id(number)),
        up: true,
        links: Vec::new(),
        checked: BTreeMap::new(),
        activated: Vec::new(),
        retained: BTreeMap::new(),
        sent_bytes: 0,
        timer: None,
        idle_ticks: 0,
        out_free: 0,
        in_free: 0,
    }
}

pub(crate) fn id(node: usize) -> MemberId {
    MemberId(u32::try_from(node).unwrap())
}

pub(crate) fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
