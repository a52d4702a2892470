//! What arrives: each frame, and what is answered.

use std::sync::Arc;

use muster_model::time::Time;

use super::{Mesh, MeshOutput, send};
use crate::frame::{self, Carrier, MeshFrame};
use crate::limit::{Limit, Rate};
use crate::member::MemberId;
use crate::record::{Record, RecordKey};
use crate::repair::{self, EXCHANGE_BYTES_MAX};

/// Frames that one member may send.
const FRAMES: Rate = Rate {
    burst: 10_000,
    per_s: 10_000,
};
/// How long a link that is back is left alone where many are lost or come back, ms.
const MEETING_MS: u64 = 400;
/// How often one that is no member any more is told so.
const EXPELLED: Rate = Rate { burst: 2, per_s: 1 };
/// Bytes of records in one streamed frame.
const BATCH_BYTES: usize = 64 << 10;

impl Mesh {
    pub(super) fn frame(
        &mut self,
        now: Time,
        from: MemberId,
        frame: MeshFrame,
        out: &mut Vec<MeshOutput>,
    ) {
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
        if !matches!(frame, MeshFrame::Answer(_)) && self.watch.heard(now, from) {
            self.own.votes_changed(now);
        }
        match frame {
            MeshFrame::Probe(probe) => self.probe(now, from, probe, out),
            MeshFrame::Answer(answer) => self.answer(now, from, answer),
            MeshFrame::Alert(alert) => self.watch.look(now, alert.subject),
            MeshFrame::Push(push) => {
                if push.number != 0 {
                    self.acks.add(now, from, push.number);
                }
                for record in &push.records {
                    self.take(now, Some(from), record, out);
                }
                // After all are taken: with an admission comes what its member said before.
                self.push.has(from, &push.records, &self.store);
            }
            MeshFrame::Ack(ack) => self.push.ack(from, &ack.numbers),
            MeshFrame::Digest(digest) => {
                if let Some(summary) = repair::summary(&self.store, &digest) {
                    send(out, from, Carrier::Stream, MeshFrame::Summary(summary));
                }
            }
            MeshFrame::Summary(summary) => {
                let found = repair::compare(&self.store, &summary);
                self.give(from, &found.give, out);
                if !found.want.is_empty() {
                    let want = frame::Want { keys: found.want };
                    send(out, from, Carrier::Stream, MeshFrame::Want(want));
                }
            }
            MeshFrame::Want(want) => self.give(from, &want.keys, out),
            MeshFrame::Document(frame) => {
                self.with_documents(out, |documents, out| {
                    documents.frame(now, from, frame, out);
                });
            }
            // The owner's: the driver hands it over and does not bring it here.
            MeshFrame::Cargo(_) => {}
        }
    }

    /// Shows one that is no member any more the record that says so; it may not know.
    fn tell_expelled(&mut self, now: Time, member: MemberId, out: &mut Vec<MeshOutput>) {
        let record = self.store.get(RecordKey::Member(member)).cloned();
        let Some(record) = record.filter(|_| member != self.identity.member) else {
            return;
        };
        let limit = self.senders.entry(member).or_insert_with(Limit::full);
        if limit.take(now, EXPELLED).is_ok() {
            let records = vec![record];
            let push = frame::Push { number: 0, records };
            send(out, member, Carrier::Datagram, MeshFrame::Push(push));
        }
    }

    fn probe(&mut self, now: Time, from: MemberId, probe: frame::Probe, out: &mut Vec<MeshOutput>) {
        let mine = frame::ProbeAnswer {
            number: probe.number,
            incarnation: self.own.incarnation(),
            root: self.root(),
            health: self.health,
            next_ms: 0,
        };
        let answer = self.watch.asked(now, from, mine, &self.config);
        send(out, from, Carrier::Datagram, MeshFrame::Answer(answer));
        self.compare(now, from, probe.root);
    }

    fn answer(&mut self, now: Time, from: MemberId, answer: frame::ProbeAnswer) {
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

    /// Sends records as answer to a question, in batches, up to what one exchange may bring.
    fn give(&self, to: MemberId, keys: &[RecordKey], out: &mut Vec<MeshOutput>) {
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

fn push_stream(out: &mut Vec<MeshOutput>, to: MemberId, records: Vec<Arc<Record>>) {
    let push = frame::Push { number: 0, records };
    send(out, to, Carrier::Stream, MeshFrame::Push(push));
}
