//! The core of one node: what comes in, what goes out.

mod accept;
mod input;
mod known;
mod own;
mod read;
mod receive;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::time::Time;

pub use input::{MeshEvent, MeshIdentity, MeshInput, MeshOptions, MeshOutput, Reach};
pub use known::VerifiedRecords;
pub use read::KnownMember;

use crate::ack::Acks;
use crate::counters::Counters;
use crate::documents::{self, DocumentsCore};
use crate::frame::{self, Ack, Carrier, MeshFrame};
use crate::key::{Sign, Verify};
use crate::limit::{Limit, Rate};
use crate::member::MemberId;
use crate::push::PushQueues;
use crate::reach::Tallies;
use crate::record::{Record, RecordKey, SelfHealth};
use crate::repair::Repair;
use crate::roster::{Absent, Roster};
use crate::store::NewestRecords;
use crate::watch::{ProbeWatch, WatchStep};
use accept::Writers;
use own::OwnRecords;
use view::ReachView;

/// Digests that are sent. Where many links come back at once the first few bring what is missing,
/// and pushes carry it on; with all of them every node would be told everything many times over.
const LOOKS: Rate = Rate { burst: 3, per_s: 5 };

/// The core of one node's mesh.
#[derive(Debug)]
pub struct Mesh {
    config: MeshOptions,
    identity: MeshIdentity,
    signer: Box<dyn Sign>,
    verifier: Box<dyn Verify>,
    store: NewestRecords,
    roster: Arc<Roster>,
    writers: Writers,
    own: OwnRecords,
    watch: ProbeWatch,
    tallies: Tallies,
    view: ReachView,
    push: PushQueues,
    repair: Repair,
    looks: Limit,
    acks: Acks,
    documents: DocumentsCore,
    links: BTreeSet<MemberId>,
    senders: BTreeMap<MemberId, Limit>,
    health: SelfHealth,
    counters: Counters,
    deadline: Option<Time>,
    expelled: bool,
    /// When the last input came.
    now: Time,
    /// When each node's newest record came.
    said_at: BTreeMap<MemberId, Time>,
    /// Records with a wrong signature that each member sent.
    forged: BTreeMap<MemberId, u64>,
}

impl Mesh {
    /// The core of a node that knows `known`, which holds its own admission.
    pub fn new(
        config: MeshOptions,
        identity: MeshIdentity,
        signer: Box<dyn Sign>,
        verifier: Box<dyn Verify>,
        known: VerifiedRecords,
    ) -> Self {
        let me = identity.member;
        let own = OwnRecords::new(identity.incarnation, &known.store, me);
        Self {
            config,
            identity,
            signer,
            verifier,
            store: known.store,
            roster: known.roster,
            writers: Writers::new(known.cluster),
            own,
            watch: ProbeWatch::default(),
            tallies: Tallies::default(),
            view: ReachView::default(),
            push: PushQueues::default(),
            repair: Repair::default(),
            looks: Limit::full(),
            acks: Acks::default(),
            documents: DocumentsCore::new(me),
            links: BTreeSet::new(),
            senders: BTreeMap::new(),
            health: SelfHealth::default(),
            counters: Counters::default(),
            // The first input of any kind sets things going.
            deadline: Some(Time(0)),
            expelled: false,
            now: Time(0),
            said_at: BTreeMap::new(),
            forged: BTreeMap::new(),
        }
    }

    /// Takes in what happened at `now`, and puts out what has to be done, in order.
    pub fn handle(&mut self, now: Time, input: MeshInput, out: &mut Vec<MeshOutput>) {
        self.now = now;
        if self.expelled {
            self.deadline = None;
            return;
        }
        self.counters.stalls += u64::from(self.watch.wake(now));
        match input {
            MeshInput::Tick => {}
            MeshInput::Frame { from, frame } => self.frame(now, from, frame, out),
            MeshInput::Record(record) => self.take(now, None, &record, out),
            MeshInput::Health(health) => self.health = health,
            MeshInput::Node(body) => self.own.say(body),
            MeshInput::News(body) => self.own.say_news(body),
            MeshInput::Document(input) => {
                self.with_documents(out, |documents, out| documents.handle(now, input, out));
            }
        }
        self.settle(now, out);
    }

    /// When to call [`Mesh::handle`] with [`MeshInput::Tick`] if nothing else comes before.
    pub const fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Everything that follows from what came in.
    fn settle(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        self.take_deferred(now, out);
        let mut steps = Vec::new();
        if self.watch.tick(now, &self.config, &mut steps) {
            self.own.votes_changed(now);
        }
        self.perform(&steps, out);
        self.publish(now, out);
        if self.refresh(now, out) {
            self.relink(now, out);
        }
        self.look(now, out);
        self.flush(now, out);
        if self.documents.deadline().is_some_and(|due| due <= now) {
            self.with_documents(out, |documents, out| documents.tick(now, out));
        }
        let deadlines = [
            self.watch.deadline(&self.config),
            self.push.deadline(),
            self.acks.deadline(),
            self.repair.deadline(),
            self.own.deadline(now),
            self.refresh_due(),
            self.writers.deadline(),
            self.documents.deadline(),
        ];
        self.deadline = deadlines.into_iter().flatten().min();
    }

    /// Has documents do something, and passes on what they put out.
    fn with_documents(
        &mut self,
        out: &mut Vec<MeshOutput>,
        call: impl FnOnce(&mut DocumentsCore, &mut Vec<documents::DocumentsOutput>),
    ) {
        let mut outputs = Vec::new();
        call(&mut self.documents, &mut outputs);
        out.extend(outputs.into_iter().map(|output| match output {
            documents::DocumentsOutput::Send { to, carrier, frame } => MeshOutput::Send {
                to,
                carrier,
                frame: MeshFrame::Document(frame),
            },
            other => MeshOutput::Document(other),
        }));
    }

    fn perform(&self, steps: &[WatchStep], out: &mut Vec<MeshOutput>) {
        for step in steps {
            match step {
                WatchStep::Probe(to, number) => {
                    let probe = frame::Probe {
                        number: *number,
                        incarnation: self.own.incarnation(),
                        root: self.root(),
                    };
                    send(out, *to, Carrier::Datagram, MeshFrame::Probe(probe));
                }
                WatchStep::Alert(alert) => {
                    let watchers = self.roster.watchers(alert.subject, &Absent::NOBODY);
                    for watcher in watchers.iter() {
                        if *watcher != self.identity.member {
                            send(out, *watcher, Carrier::Datagram, MeshFrame::Alert(*alert));
                        }
                    }
                }
            }
        }
    }

    /// Sends the digest by bucket where a difference has to be looked into.
    fn look(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        if self.repair.deadline().is_none_or(|at| at > now) {
            return;
        }
        let root = self.root();
        for member in self.repair.looks(now, root) {
            if let Err(at) = self.looks.take(now, LOOKS) {
                self.repair.postpone(member, at);
                continue;
            }
            self.repair.looked(now, member);
            self.counters.repairs += 1;
            self.documents.differs(now, member);
            let buckets = self.store.buckets().to_vec();
            let digest = frame::BucketDigest { buckets };
            send(out, member, Carrier::Stream, MeshFrame::Digest(digest));
        }
    }

    fn flush(&mut self, now: Time, out: &mut Vec<MeshOutput>) {
        for envelope in self.push.flush(now, self.config.resend_ms, &self.store) {
            let carrier = if envelope.number == 0 {
                Carrier::Stream
            } else {
                Carrier::Datagram
            };
            let push = frame::Push {
                number: envelope.number,
                records: self.records(&envelope.keys),
            };
            send(out, envelope.to, carrier, MeshFrame::Push(push));
        }
        for (to, numbers) in self.acks.flush(now) {
            send(out, to, Carrier::Datagram, MeshFrame::Ack(Ack { numbers }));
        }
    }

    fn records(&self, keys: &[RecordKey]) -> Vec<Arc<Record>> {
        keys.iter()
            .filter_map(|key| self.store.get(*key).cloned())
            .collect()
    }
}

fn send(out: &mut Vec<MeshOutput>, to: MemberId, carrier: Carrier, frame: MeshFrame) {
    out.push(MeshOutput::Send { to, carrier, frame });
}
