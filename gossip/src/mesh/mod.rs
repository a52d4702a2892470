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

pub use input::{Config, Event, Identity, Input, Output, Reach};
pub use known::Known;
pub use read::MemberView;

use crate::ack::Acks;
use crate::counters::Counters;
use crate::documents::{self, Documents};
use crate::frame::{self, Ack, Carrier, Frame};
use crate::key::{Sign, Verify};
use crate::limit::{Limit, Rate};
use crate::member::MemberId;
use crate::push::Push;
use crate::reach::Tallies;
use crate::record::{Record, RecordKey, SelfHealth};
use crate::repair::Repair;
use crate::roster::{Absent, Roster};
use crate::store::Store;
use crate::watch::{Step, Watch};
use accept::Writers;
use own::Own;
use view::View;

/// Digests that are sent. Where many links come back at once the first few bring what is missing,
/// and pushes carry it on; with all of them every node would be told everything many times over.
const LOOKS: Rate = Rate { burst: 3, per_s: 5 };

/// The core of one node's mesh.
#[derive(Debug)]
pub struct Mesh {
    config: Config,
    identity: Identity,
    signer: Box<dyn Sign>,
    verifier: Box<dyn Verify>,
    store: Store,
    roster: Arc<Roster>,
    writers: Writers,
    own: Own,
    watch: Watch,
    tallies: Tallies,
    view: View,
    push: Push,
    repair: Repair,
    looks: Limit,
    acks: Acks,
    documents: Documents,
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
        config: Config,
        identity: Identity,
        signer: Box<dyn Sign>,
        verifier: Box<dyn Verify>,
        known: Known,
    ) -> Self {
        let me = identity.member;
        let own = Own::new(identity.incarnation, &known.store, me);
        Self {
            config,
            identity,
            signer,
            verifier,
            store: known.store,
            roster: known.roster,
            writers: Writers::new(known.cluster),
            own,
            watch: Watch::default(),
            tallies: Tallies::default(),
            view: View::default(),
            push: Push::default(),
            repair: Repair::default(),
            looks: Limit::full(),
            acks: Acks::default(),
            documents: Documents::new(me),
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
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        self.now = now;
        if self.expelled {
            self.deadline = None;
            return;
        }
        self.counters.stalls += u64::from(self.watch.wake(now));
        match input {
            Input::Tick => {}
            Input::Frame { from, frame } => self.frame(now, from, frame, out),
            Input::Record(record) => self.take(now, None, &record, out),
            Input::Health(health) => self.health = health,
            Input::Node(body) => self.own.say(body),
            Input::Document(input) => {
                self.with_documents(out, |documents, out| documents.handle(now, input, out));
            }
        }
        self.settle(now, out);
    }

    /// When to call [`Mesh::handle`] with [`Input::Tick`] if nothing else comes before.
    pub const fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Everything that follows from what came in.
    fn settle(&mut self, now: Time, out: &mut Vec<Output>) {
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
        out: &mut Vec<Output>,
        call: impl FnOnce(&mut Documents, &mut Vec<documents::Output>),
    ) {
        let mut outputs = Vec::new();
        call(&mut self.documents, &mut outputs);
        out.extend(outputs.into_iter().map(|output| match output {
            documents::Output::Send { to, carrier, frame } => Output::Send {
                to,
                carrier,
                frame: Frame::Document(frame),
            },
            other => Output::Document(other),
        }));
    }

    fn perform(&self, steps: &[Step], out: &mut Vec<Output>) {
        for step in steps {
            match step {
                Step::Probe(to, number) => {
                    let probe = frame::Probe {
                        number: *number,
                        incarnation: self.own.incarnation(),
                        root: self.root(),
                    };
                    send(out, *to, Carrier::Datagram, Frame::Probe(probe));
                }
                Step::Alert(alert) => {
                    let watchers = self.roster.watchers(alert.subject, &Absent::NOBODY);
                    for watcher in watchers.iter() {
                        if *watcher != self.identity.member {
                            send(out, *watcher, Carrier::Datagram, Frame::Alert(*alert));
                        }
                    }
                }
            }
        }
    }

    /// Sends the digest by bucket where a difference has to be looked into.
    fn look(&mut self, now: Time, out: &mut Vec<Output>) {
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
            let digest = frame::Digest { buckets };
            send(out, member, Carrier::Stream, Frame::Digest(digest));
        }
    }

    fn flush(&mut self, now: Time, out: &mut Vec<Output>) {
        for parcel in self.push.flush(now, self.config.resend_ms, &self.store) {
            let carrier = if parcel.number == 0 {
                Carrier::Stream
            } else {
                Carrier::Datagram
            };
            let push = frame::Push {
                number: parcel.number,
                records: self.records(&parcel.keys),
            };
            send(out, parcel.to, carrier, Frame::Push(push));
        }
        for (to, numbers) in self.acks.flush(now) {
            send(out, to, Carrier::Datagram, Frame::Ack(Ack { numbers }));
        }
    }

    fn records(&self, keys: &[RecordKey]) -> Vec<Arc<Record>> {
        keys.iter()
            .filter_map(|key| self.store.get(*key).cloned())
            .collect()
    }
}

fn send(out: &mut Vec<Output>, to: MemberId, carrier: Carrier, frame: Frame) {
    out.push(Output::Send { to, carrier, frame });
}
