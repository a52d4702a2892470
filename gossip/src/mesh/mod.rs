//! The core of one node: what comes in, what goes out.

mod accept;
mod input;
mod known;
mod own;
mod read;
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
use crate::reach::Cast;
use crate::record::{Record, RecordKey, SelfHealth};
use crate::repair::{self, EXCHANGE_BYTES_MAX, Repair};
use crate::roster::{Absent, Roster};
use crate::store::Store;
use crate::watch::{Step, Watch};
use accept::Writers;
use own::Own;
use view::View;

/// Frames that one member may send.
const FRAMES: Rate = Rate {
    burst: 10_000,
    per_s: 10_000,
};
/// Digests that are sent. Where many links come back at once the first few bring what is missing,
/// and pushes carry it on; with all of them every node would be told everything many times over.
const LOOKS: Rate = Rate { burst: 3, per_s: 5 };
/// How long a link that is back is left alone where many are lost or come back, ms.
const MEETING_MS: u64 = 400;
/// How often one that is no member any more is told so.
const EXPELLED: Rate = Rate { burst: 2, per_s: 1 };
/// Bytes of records in one streamed frame.
const BATCH_BYTES: usize = 64 << 10;

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
    cast: Cast,
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
            cast: known.cast,
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

    fn frame(&mut self, now: Time, from: MemberId, frame: Frame, out: &mut Vec<Output>) {
        if !self.roster.is_admitted(from) || from == self.identity.member {
            self.counters.strangers += 1;
            self.tell_expelled(now, from, out);
            return;
        }
        let sender = self.senders.entry(from).or_insert_with(Limit::full);
        if sender.take(now, FRAMES).is_err() {
            self.counters.frames_limited += 1;
            return;
        }
        if !matches!(frame, Frame::Answer(_)) && self.watch.heard(now, from) {
            self.own.votes_changed(now);
        }
        match frame {
            Frame::Probe(probe) => self.probe(now, from, probe, out),
            Frame::Answer(answer) => self.answer(now, from, answer),
            Frame::Alert(alert) => self.watch.look(now, alert.subject),
            Frame::Push(push) => {
                if push.number != 0 {
                    self.acks.add(now, from, push.number);
                }
                for record in &push.records {
                    self.take(now, Some(from), record, out);
                }
            }
            Frame::Ack(ack) => self.push.ack(from, &ack.numbers),
            Frame::Digest(digest) => {
                if let Some(summary) = repair::summary(&self.store, &digest) {
                    send(out, from, Carrier::Stream, Frame::Summary(summary));
                }
            }
            Frame::Summary(summary) => {
                let found = repair::compare(&self.store, &summary);
                self.give(from, &found.give, out);
                if !found.want.is_empty() {
                    let want = frame::Want { keys: found.want };
                    send(out, from, Carrier::Stream, Frame::Want(want));
                }
            }
            Frame::Want(want) => self.give(from, &want.keys, out),
            Frame::Document(frame) => {
                self.with_documents(out, |documents, out| {
                    documents.frame(now, from, frame, out);
                });
            }
        }
    }

    /// Shows one that is no member any more the record that says so; it may not know.
    fn tell_expelled(&mut self, now: Time, member: MemberId, out: &mut Vec<Output>) {
        let record = self.store.get(RecordKey::Member(member)).cloned();
        let Some(record) = record.filter(|_| member != self.identity.member) else {
            return;
        };
        let limit = self.senders.entry(member).or_insert_with(Limit::full);
        if limit.take(now, EXPELLED).is_ok() {
            let records = vec![record];
            let push = frame::Push { number: 0, records };
            send(out, member, Carrier::Datagram, Frame::Push(push));
        }
    }

    fn probe(&mut self, now: Time, from: MemberId, probe: frame::Probe, out: &mut Vec<Output>) {
        let mine = frame::Answer {
            number: probe.number,
            incarnation: self.own.incarnation(),
            root: self.root(),
            health: self.health,
            next_ms: 0,
        };
        let answer = self.watch.asked(now, from, mine, &self.config);
        send(out, from, Carrier::Datagram, Frame::Answer(answer));
        self.compare(now, from, probe.root);
    }

    fn answer(&mut self, now: Time, from: MemberId, answer: frame::Answer) {
        let heard = self.watch.answer(now, from, &answer, &self.config);
        if heard.changed {
            self.own.votes_changed(now);
        }
        if heard.back {
            self.watch.look_for_gone(now);
            let roots = (self.root(), answer.root);
            self.repair.back(now, from, roots, self.meeting_pause());
        } else {
            self.compare(now, from, answer.root);
        }
    }

    /// Another's digest came: what is under way to it anyway is no difference.
    fn compare(&mut self, now: Time, from: MemberId, theirs: u64) {
        let mine = self.root();
        if mine == theirs || self.push.is_quiet(from) {
            let pause = self.meeting_pause();
            self.repair.compare(now, from, (mine, theirs), pause);
        }
    }

    /// Where two halves meet, all take back what they held against the other half; what they said
    /// before is then not worth exchanging.
    fn meeting_pause(&self) -> u64 {
        if self.is_stormy() { MEETING_MS } else { 0 }
    }

    /// Sends the digest by bucket where a difference has to be looked into.
    fn look(&mut self, now: Time, out: &mut Vec<Output>) {
        let root = self.root();
        for member in self.repair.looks(now, root) {
            if let Err(at) = self.looks.take(now, LOOKS) {
                self.repair.postpone(member, at);
                continue;
            }
            self.counters.repairs += 1;
            self.documents.differs(now, member);
            let buckets = self.store.buckets().to_vec();
            let digest = frame::Digest { buckets };
            send(out, member, Carrier::Stream, Frame::Digest(digest));
        }
    }

    /// Sends records as answer to a question, in batches, up to what one exchange may bring.
    fn give(&self, to: MemberId, keys: &[RecordKey], out: &mut Vec<Output>) {
        let mut left = EXCHANGE_BYTES_MAX;
        let mut batch = Vec::new();
        let mut bytes = 0;
        for record in self.records(keys) {
            let size = record.bytes().len();
            if size > left {
                break;
            }
            left -= size;
            if bytes + size > BATCH_BYTES {
                push_stream(out, to, std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += size;
            batch.push(record);
        }
        if !batch.is_empty() {
            push_stream(out, to, batch);
        }
    }
}

fn push_stream(out: &mut Vec<Output>, to: MemberId, records: Vec<Arc<Record>>) {
    let push = frame::Push { number: 0, records };
    send(out, to, Carrier::Stream, Frame::Push(push));
}

fn send(out: &mut Vec<Output>, to: MemberId, carrier: Carrier, frame: Frame) {
    out.push(Output::Send { to, carrier, frame });
}
