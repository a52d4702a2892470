//! Our mesh as a protocol of the simulator: the real cores, on machines whose disks outlive them.

mod authority;
mod guard;
mod host;
mod keys;
mod slander;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_gossip::frame::{Carrier, DocumentRef, MeshFrame};
use muster_gossip::mesh::{
    Mesh, MeshEvent, MeshIdentity, MeshInput, MeshOutput, Reach, VerifiedRecords,
};
use muster_gossip::record::{
    AdmissionState, Record, RecordKey, RecordVersion, SuspicionLevel, WatchBody,
};
use muster_gossip::{Incarnation, documents};
use muster_model::time::Time;

use super::engine::Sending;
use super::protocol::{Arrival, Edit, Effects, Protocol, ProtocolEvent};
use super::random::Random;
pub(crate) use authority::{RULES, SimAuthority, VersionDraft, member, signed};
pub(crate) use guard::InvariantGuard;
pub(crate) use host::{HostDisk, SimHost};
pub(crate) use keys::{Signer, Verifier};
pub(crate) use slander::broken_clock;
pub(crate) use wire::Wire;

/// What a body starts with that no node finds valid.
pub(crate) const INVALID: &[u8] = b"invalid";
/// What a body starts with that every process falls over which puts it in force.
pub(crate) const POISON: &[u8] = b"poison";

/// Members that a joining node is told of.
const SEEDS: usize = 32;
/// In clusters of more than this not every push is looked at.
const GUARDED: u64 = 200;
/// Nodes whose tables are looked over at the end; of more than that, every so manieth.
const LOOKED_OVER: usize = 500;

/// All nodes of a cluster.
#[derive(Debug)]
pub(crate) struct MeshNodes {
    pub(crate) hosts: Vec<SimHost>,
    pub(crate) authority: SimAuthority,
    pub(crate) guard: InvariantGuard,
    pub(crate) wire: Wire,
    /// Records that all first members have, verified once for all.
    shared: VerifiedRecords,
    shared_records: Vec<Arc<Record>>,
    /// Pushes that arrived, ...
    pushes: u64,
    /// ... every so manieth of which is looked at before and after.
    guard_every: u64,
    /// Bodies that are on disks, each kept in memory once.
    bodies: BTreeMap<DocumentRef, Arc<[u8]>>,
    /// Which change a record is, by its hash.
    changes: HashMap<u64, u64>,
    random: Random,
    outputs: Vec<MeshOutput>,
}

impl MeshNodes {
    /// A cluster of `members`, with room for `nodes`.
    pub(crate) fn new(nodes: usize, members: usize, seed: u64) -> Self {
        let mut authority = SimAuthority::new(nodes, seed);
        let records = founding(&mut authority, members);
        let cluster = authority.cluster;
        let root = authority.root();
        let (shared, refused) = VerifiedRecords::load(cluster, &root, &Verifier, records.clone());
        assert!(refused.is_empty(), "bug in the simulator: {refused:?}");
        let mut hosts: Vec<SimHost> = (0..nodes).map(SimHost::new).collect();
        hosts
            .iter_mut()
            .take(members)
            .for_each(|host| host.disk.shared = true);
        Self {
            hosts,
            wire: Wire::new(cluster, seed),
            authority,
            guard: InvariantGuard::default(),
            shared,
            shared_records: records,
            pushes: 0,
            guard_every: (nodes as u64).div_ceil(GUARDED),
            bodies: BTreeMap::new(),
            changes: HashMap::new(),
            random: Random::new(seed, 5),
            outputs: Vec::new(),
        }
    }

    /// Whether `node` thinks that `subject` can be reached.
    pub(crate) fn reach_of(&self, node: usize, subject: usize) -> Reach {
        self.core(node)
            .map_or(Reach::Alive, |core| core.reach(member(subject)))
    }

    /// The core that runs on a node.
    pub(crate) fn core(&self, node: usize) -> Option<&Mesh> {
        self.hosts[node].core.as_ref()
    }

    /// Gives a node's core an input.
    pub(crate) fn input(
        &mut self,
        now: Time,
        node: usize,
        input: MeshInput,
        out: &mut Effects<MeshFrame>,
    ) {
        let host = &mut self.hosts[node];
        let local = host.local(now);
        let Some(core) = host.core.as_mut() else {
            return;
        };
        let mut outputs = std::mem::take(&mut self.outputs);
        core.handle(local, input, &mut outputs);
        let replies = self.perform(now, node, &mut outputs, out);
        self.outputs = outputs;
        for reply in replies {
            self.input(now, node, MeshInput::Document(reply), out);
        }
    }

    fn perform(
        &mut self,
        now: Time,
        node: usize,
        outputs: &mut Vec<MeshOutput>,
        out: &mut Effects<MeshFrame>,
    ) -> Vec<documents::DocumentsInput> {
        let mut replies = Vec::new();
        for output in outputs.drain(..) {
            match output {
                MeshOutput::Send { to, carrier, frame } => {
                    let bytes = self.wire.length(carrier, &frame);
                    out.sends.push(Sending {
                        to: to.index(),
                        carrier,
                        frame,
                        bytes,
                    });
                }
                MeshOutput::Keep(record) => self.keep(node, record),
                MeshOutput::Event(event) => self.event(now, node, event, out),
                MeshOutput::Document(output) => replies.extend(self.document(node, output, out)),
            }
        }
        replies
    }

    fn keep(&mut self, node: usize, record: Arc<Record>) {
        let host = &mut self.hosts[node];
        self.guard.kept(node, host, &record);
        if record.key == RecordKey::Node(member(node)) {
            let number = host.body.payload.first_chunk();
            let number = number.map_or(0, |bytes| u64::from_le_bytes(*bytes));
            self.changes.insert(record.hash, number);
        }
        host.disk.records.insert(record.key, record);
    }

    fn event(&mut self, now: Time, node: usize, event: MeshEvent, out: &mut Effects<MeshFrame>) {
        match event {
            MeshEvent::Reach { member, reach } => {
                let subject = member.index();
                out.seen.push(ProtocolEvent::Reach { subject, reach });
            }
            MeshEvent::Node(member) => {
                let record = self
                    .core(node)
                    .and_then(|core| core.record(RecordKey::Node(member)));
                if let Some(&number) = record.and_then(|record| self.changes.get(&record.hash)) {
                    let subject = member.index();
                    out.seen.push(ProtocolEvent::Change { subject, number });
                }
            }
            MeshEvent::Members | MeshEvent::Replacement => {}
            MeshEvent::Cloned | MeshEvent::Expelled | MeshEvent::MassFailure => {
                self.hosts[node].events.push((now, event));
            }
        }
    }

    fn document(
        &mut self,
        node: usize,
        output: documents::DocumentsOutput,
        out: &mut Effects<MeshFrame>,
    ) -> Option<documents::DocumentsInput> {
        match output {
            documents::DocumentsOutput::Send { to, carrier, frame } => {
                let frame = MeshFrame::Document(frame);
                let bytes = self.wire.length(carrier, &frame);
                out.sends.push(Sending {
                    to: to.index(),
                    carrier,
                    frame,
                    bytes,
                });
                None
            }
            documents::DocumentsOutput::Check { document, body } => {
                out.seen.push(ProtocolEvent::Document {
                    version: document.version,
                });
                Some(self.check(node, document, body))
            }
            documents::DocumentsOutput::Activate(document) => self.activate(node, document),
            documents::DocumentsOutput::Retain(documents) => {
                let host = &mut self.hosts[node];
                host.disk
                    .bodies
                    .retain(|document, _| documents.contains(document));
                None
            }
        }
    }

    fn check(
        &mut self,
        node: usize,
        document: DocumentRef,
        body: Arc<[u8]>,
    ) -> documents::DocumentsInput {
        let host = &mut self.hosts[node];
        let verdict = if body.starts_with(INVALID) {
            documents::BodyVerdict::Rejected("it does not parse".into())
        } else if host.disk.quarantined.contains(&document) {
            documents::BodyVerdict::Rejected("the agent crashed on it".into())
        } else {
            documents::BodyVerdict::Valid
        };
        let first = self.bodies.entry(document).or_insert_with(|| body.clone());
        let body = if *first == body { first.clone() } else { body };
        host.disk.bodies.insert(document, body);
        documents::DocumentsInput::Checked { document, verdict }
    }

    fn activate(
        &mut self,
        node: usize,
        document: DocumentRef,
    ) -> Option<documents::DocumentsInput> {
        let host = &mut self.hosts[node];
        let body = host.disk.bodies.get(&document);
        let poison = body.is_some_and(|body| body.starts_with(POISON));
        if body.is_none() || host.disk.quarantined.contains(&document) {
            let what = format!("n{node} puts {document:?} in force, which it does not have");
            self.guard.say(what);
            return None;
        }
        if poison {
            host.poisoned = true;
            host.disk.quarantined.insert(document);
            return None;
        }
        host.disk.active.insert(document.id, document);
        host.activated.push(document);
        Some(documents::DocumentsInput::Active(document))
    }

    /// What a process finds on its disk.
    fn known(&self, node: usize) -> VerifiedRecords {
        let disk = &self.hosts[node].disk;
        let cluster = self.authority.cluster;
        let founds = |key: &RecordKey| matches!(key, RecordKey::Cluster | RecordKey::Member(_));
        if disk.shared && !disk.records.keys().any(founds) {
            // A roster of its own for everybody that restarts would be the most of all memory.
            let mut known = self.shared.clone();
            known.add(cluster, &Verifier, disk.records.values().cloned());
            return known;
        }
        let base = if disk.shared {
            &*self.shared_records
        } else {
            &[]
        };
        let mut records: Vec<_> = base
            .iter()
            .filter(|record| !disk.records.contains_key(&record.key))
            .cloned()
            .collect();
        records.extend(disk.records.values().cloned());
        VerifiedRecords::load(cluster, &self.authority.root(), &Verifier, records).0
    }

    fn make(&mut self, node: usize) -> Mesh {
        let known = self.known(node);
        let host = &mut self.hosts[node];
        host.disk.incarnation += 1;
        host.offset = self.random.below(1_000_000_000);
        host.body.run = self.random.next();
        let identity = MeshIdentity {
            cluster: self.authority.cluster,
            root: self.authority.root(),
            member: member(node),
            incarnation: Incarnation(host.disk.incarnation),
        };
        let signer = Box::new(self.authority.signer(node));
        Mesh::new(
            host.config.clone(),
            identity,
            signer,
            Box::new(Verifier),
            known,
        )
    }

    /// Tells a process that just started what its disk holds of documents.
    fn resume(&mut self, now: Time, node: usize, out: &mut Effects<MeshFrame>) {
        let disk = self.hosts[node].disk.clone();
        for (document, body) in disk.bodies {
            let input = documents::DocumentsInput::Body { document, body };
            self.input(now, node, MeshInput::Document(input), out);
        }
        for document in disk.active.into_values() {
            let input = documents::DocumentsInput::Active(document);
            self.input(now, node, MeshInput::Document(input), out);
        }
    }
}

impl Protocol for MeshNodes {
    type Frame = MeshFrame;

    fn start(&mut self, now: Time, node: usize, out: &mut Effects<MeshFrame>) {
        let first = self.hosts[node].disk.shared && self.hosts[node].disk.incarnation == 0;
        let core = self.make(node);
        let host = &mut self.hosts[node];
        host.core = Some(core);
        host.poisoned = false;
        let body = host.body.clone();
        if first {
            // What it says of itself is among the shared records.
            self.input(now, node, MeshInput::Tick, out);
        } else {
            self.input(now, node, MeshInput::Node(body), out);
            self.resume(now, node, out);
        }
    }

    fn stop(&mut self, node: usize) {
        self.hosts[node].core = None;
    }

    fn receive(&mut self, now: Time, arrival: Arrival<MeshFrame>, out: &mut Effects<MeshFrame>) {
        let Arrival {
            to,
            from,
            mut frame,
            corrupt,
        } = arrival;
        if corrupt {
            match self.wire.damage(&frame) {
                Some(read) => frame = read,
                None => return,
            }
        }
        self.hello(now, from, to, out);
        let from = member(from);
        let MeshFrame::Push(push) = &frame else {
            self.input(now, to, MeshInput::Frame { from, frame }, out);
            return;
        };
        self.pushes += 1;
        if !self.pushes.is_multiple_of(self.guard_every) {
            self.input(now, to, MeshInput::Frame { from, frame }, out);
            return;
        }
        let records = push.records.clone();
        if let Some(core) = &self.hosts[to].core {
            self.guard.before(core, &records);
        }
        self.input(now, to, MeshInput::Frame { from, frame }, out);
        if let Some(core) = &self.hosts[to].core {
            self.guard.after(&self.authority, to, core, &records);
        }
    }

    fn wake(&mut self, now: Time, node: usize, out: &mut Effects<MeshFrame>) {
        self.input(now, node, MeshInput::Tick, out);
    }

    fn deadline(&self, node: usize) -> Option<Time> {
        self.hosts[node].deadline()
    }

    fn change(&mut self, now: Time, node: usize, number: u64, out: &mut Effects<MeshFrame>) {
        self.hosts[node].say(number);
        self.say(now, node, out);
    }

    fn edit(&mut self, now: Time, edit: Edit, out: &mut Effects<MeshFrame>) -> Option<usize> {
        let draft = VersionDraft::new(edit.version, edit.body);
        self.publish(now, 0, &draft, out);
        Some(0)
    }

    fn reach(&self, node: usize, subject: usize) -> Reach {
        self.reach_of(node, subject)
    }

    fn root(&self, node: usize) -> u64 {
        self.core(node).map_or(0, Mesh::root)
    }

    fn traffic(&self) -> BTreeMap<&'static str, (u64, u64)> {
        self.wire.kinds.clone()
    }

    fn violations(&mut self) -> Vec<String> {
        let step = self.hosts.len().div_ceil(LOOKED_OVER);
        for (node, host) in self.hosts.iter().enumerate().step_by(step) {
            if let Some(core) = &host.core {
                self.guard.check_node(&self.authority, node, core);
            }
        }
        let mut all = std::mem::take(&mut self.guard.violations);
        all.append(&mut self.wire.violations);
        all
    }
}

impl MeshNodes {
    /// A document's version is ordered at `node`, which has the body.
    pub(crate) fn publish(
        &mut self,
        now: Time,
        node: usize,
        draft: &VersionDraft,
        out: &mut Effects<MeshFrame>,
    ) {
        let header = self.authority.header(draft);
        self.input(now, node, MeshInput::Record(header), out);
        let document = DocumentRef {
            id: RULES,
            version: draft.version,
        };
        let body = draft.body.clone();
        let input = documents::DocumentsInput::Body { document, body };
        self.input(now, node, MeshInput::Document(input), out);
    }

    /// A node tells all others what its body says.
    fn say(&mut self, now: Time, node: usize, out: &mut Effects<MeshFrame>) {
        let body = self.hosts[node].body.clone();
        self.input(now, node, MeshInput::Node(body), out);
    }

    /// A node tells all others this payload from now on.
    pub(crate) fn carry(
        &mut self,
        now: Time,
        node: usize,
        payload: Vec<u8>,
        out: &mut Effects<MeshFrame>,
    ) {
        self.hosts[node].body.payload = payload;
        self.say(now, node, out);
    }

    /// A node is admitted at the first, and is told whom it can turn to.
    pub(crate) fn admit(&mut self, now: Time, node: usize, out: &mut Effects<MeshFrame>) {
        let admission = self.authority.member(node, AdmissionState::Admitted);
        let mut told = vec![self.shared_records[0].clone(), admission.clone()];
        if let Some(core) = self.core(0) {
            told.extend(seeds(core));
        }
        let records = told.into_iter().map(|record| (record.key, record));
        self.hosts[node].disk.records.extend(records);
        self.input(now, 0, MeshInput::Record(admission), out);
    }

    /// A node's disk is lost, all but its key and its admission.
    pub(crate) fn wipe(&mut self, node: usize) {
        let mut disk = HostDisk::default();
        let keeps = [RecordKey::Cluster, RecordKey::Member(member(node))];
        let base = self.shared_records.iter();
        for record in base.filter(|record| keeps.contains(&record.key) || is_first(record.key)) {
            disk.records.insert(record.key, record.clone());
        }
        self.hosts[node].disk = disk;
    }

    /// Whether a node itself votes that somebody is gone.
    pub(crate) fn holds_gone(&self, node: usize) -> bool {
        let core = self.core(node);
        let record = core.and_then(|core| core.record(RecordKey::Watch(member(node))));
        let body = record.and_then(|record| record.body::<WatchBody>().ok());
        body.is_some_and(|body| {
            body.votes
                .iter()
                .any(|vote| vote.level == SuspicionLevel::Gone)
        })
    }

    /// A node sends a frame that its core did not ask for.
    pub(crate) fn inject(&mut self, to: usize, frame: MeshFrame, out: &mut Effects<MeshFrame>) {
        let carrier = Carrier::Datagram;
        let bytes = self.wire.length(carrier, &frame);
        out.sends.push(Sending {
            to,
            carrier,
            frame,
            bytes,
        });
    }

    /// Who connects shows its own admission first, so that one that has not got here yet is no
    /// obstacle.
    fn hello(&mut self, now: Time, from: usize, to: usize, out: &mut Effects<MeshFrame>) {
        // Saves a look into the tables for nearly every frame: the first members know each other.
        if self.hosts[to].disk.shared && self.hosts[from].disk.shared {
            return;
        }
        let key = RecordKey::Member(member(from));
        let knows = self.core(to).is_none_or(|core| core.record(key).is_some());
        if knows {
            return;
        }
        let admission = self.core(from).and_then(|core| core.record(key));
        if let Some(admission) = admission.cloned() {
            self.input(now, to, MeshInput::Record(admission), out);
        }
    }
}

/// The admission of the first node, whom a node without a past can always turn to.
fn is_first(key: RecordKey) -> bool {
    key == RecordKey::Member(member(0))
}

/// Members, and what they say, that a joining node is told of.
fn seeds(core: &Mesh) -> Vec<Arc<Record>> {
    let some = core.members().take(SEEDS);
    let keys = some.flat_map(|member| [RecordKey::Member(member), RecordKey::Node(member)]);
    keys.filter_map(|key| core.record(key).cloned()).collect()
}

/// What the first members of a cluster know when it is simulated from its middle: each other,
/// and what each says of itself. Written with incarnation 0, so that a first start is not
/// mistaken for a second one.
fn founding(authority: &mut SimAuthority, members: usize) -> Vec<Arc<Record>> {
    let mut records = vec![authority.founding()];
    records.extend((0..members).map(|node| authority.member(node, AdmissionState::Admitted)));
    let version = RecordVersion {
        incarnation: 0,
        number: 1,
    };
    for node in 0..members {
        let key = RecordKey::Node(member(node));
        let body = SimHost::new(node).body;
        let signer = authority.signer(node);
        records.push(Arc::new(signed(
            authority.cluster,
            key,
            version,
            &body,
            &signer,
        )));
    }
    records
}
