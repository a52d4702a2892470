//! Eager push: what is new here goes downstream at once, and again until it is acknowledged.

mod outbox;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_model::time::Time;

use crate::frame::DATAGRAM_BYTES_MAX;
use crate::limit::{Limit, Rate};
use crate::member::MemberId;
use crate::record::{Record, RecordKey, RecordVersion};
use crate::store::NewestRecords;
use outbox::LinkOutbox;

/// Pushes to one link that are not acknowledged.
const FLIGHTS_MAX: usize = 8;
/// How often one is sent before the link is left to repair.
const TRIES_MAX: u32 = 5;
/// What is younger than this is told to new links, ms.
const RECENT_MS: u64 = 2_000;
/// How much of that is remembered.
const RECENT_MAX: usize = 256;
/// Between two sends to one link, ms: where much is new, several records share a datagram.
const PACE_MS: u64 = 2;
/// How often something is sent to one link at that pace. Where so much is new that it goes on and
/// on, as when two halves of a cluster meet, fewer and fuller datagrams cost every node far less.
const SENDS: Rate = Rate {
    burst: 16,
    per_s: 160,
};
/// Room for records in a datagram.
const ROOM: usize = DATAGRAM_BYTES_MAX - 64;
/// What a record costs in a frame beside its bytes.
const RECORD_OVERHEAD: usize = 3;

/// What waits for each link.
#[derive(Clone, Debug, Default)]
pub(crate) struct PushQueues {
    links: BTreeMap<MemberId, PushLink>,
    /// What was new lately: a link that comes back just now has missed it.
    recent: VecDeque<(Time, RecordKey)>,
    number: u32,
    /// Whether there is a link that something may be sent to now.
    ready: bool,
    /// When to look at all links: something is to be sent again, or was held back.
    due: Option<Time>,
}

#[derive(Clone, Debug, Default)]
struct PushLink {
    outbox: LinkOutbox,
    /// By number, ascending.
    flights: Vec<Flight>,
    /// Whether something may be sent now.
    ready: bool,
    sends: Limit,
    /// A datagram did not arrive however often it was sent, and nothing has since: one at a time
    /// has to find out whether anything does.
    dull: bool,
    /// Nothing more is sent before: what comes meanwhile shares a datagram.
    paced_until: Time,
}

#[derive(Clone, Debug)]
struct Flight {
    number: u32,
    keys: Vec<(RecordKey, RecordVersion)>,
    tries: u32,
    again: Time,
}

/// Something to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushBatch {
    /// To whom.
    pub(crate) to: MemberId,
    /// Comes back in the ack; 0 for what is too large for a datagram.
    pub(crate) number: u32,
    /// Records of the store.
    pub(crate) keys: Vec<RecordKey>,
}

impl PushQueues {
    /// Node `me` pushes to exactly these from now on. Who has come `back` gets what was new lately;
    /// repair sees to what is older.
    pub(crate) fn links(
        &mut self,
        now: Time,
        me: MemberId,
        links: &BTreeSet<MemberId>,
        back: &BTreeSet<MemberId>,
    ) {
        self.links.retain(|member, _| links.contains(member));
        self.forget_old(now);
        for member in links {
            let recent = self.recent.iter().map(|(_, key)| *key);
            let fresh = || {
                let mut outbox = LinkOutbox::new(me);
                if back.contains(member) {
                    outbox.extend(recent);
                }
                PushLink {
                    outbox,
                    ..PushLink::default()
                }
            };
            self.links.entry(*member).or_insert_with(fresh).ready = true;
        }
        self.ready = true;
    }

    fn forget_old(&mut self, now: Time) {
        let is_old = |(at, _): &(Time, RecordKey)| now.micros_since(*at) > RECENT_MS * 1000;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
    }

    /// Something is new: it goes to all links but the one it came from.
    pub(crate) fn add(&mut self, now: Time, key: RecordKey, from: Option<MemberId>) {
        self.forget_old(now);
        if self.recent.len() < RECENT_MAX {
            self.recent.push_back((now, key));
        }
        for (member, link) in &mut self.links {
            if Some(*member) != from {
                link.outbox.insert(key);
                link.ready = true;
            }
        }
        self.ready = true;
    }

    /// `from` has these already.
    pub(crate) fn has(&mut self, from: MemberId, records: &[Arc<Record>], store: &NewestRecords) {
        let Some(link) = self.links.get_mut(&from) else {
            return;
        };
        let is_newest = |record: &&Arc<Record>| record.version >= store.version(record.key);
        let newest = records.iter().filter(is_newest);
        let newest: Vec<_> = newest.map(|record| (record.key, record.version)).collect();
        for (key, _) in &newest {
            link.outbox.remove(*key);
        }
        if newest.is_empty() {
            return;
        }
        let is_there = |(key, version): &(RecordKey, RecordVersion)| {
            newest.iter().any(|(k, v)| k == key && v >= version)
        };
        for flight in &mut link.flights {
            flight.keys.retain(|flying| !is_there(flying));
        }
        link.flights.retain(|flight| !flight.keys.is_empty());
    }

    /// Pushes arrived there.
    pub(crate) fn ack(&mut self, from: MemberId, numbers: &[u32]) {
        if let Some(link) = self.links.get_mut(&from) {
            link.flights
                .retain(|flight| !numbers.contains(&flight.number));
            link.dull = false;
            link.ready |= !link.outbox.is_empty();
            self.ready |= link.ready;
        }
    }

    /// Whether nothing is under way to `member`.
    pub(crate) fn is_quiet(&self, member: MemberId) -> bool {
        let link = self.links.get(&member);
        link.is_none_or(|link| link.outbox.is_empty() && link.flights.is_empty())
    }

    /// Sends what can be sent.
    pub(crate) fn flush(
        &mut self,
        now: Time,
        resend_ms: u64,
        store: &NewestRecords,
    ) -> Vec<PushBatch> {
        let mut envelopes = Vec::new();
        if self.due.is_some_and(|at| at <= now) {
            self.due = None;
            for (member, link) in &mut self.links {
                envelopes.extend(link.resend(now, resend_ms, *member, store));
                let again = link.flights.iter().map(|flight| flight.again).min();
                self.due = earlier(self.due, again);
                link.ready |= !link.outbox.is_empty();
                self.ready |= link.ready;
            }
        }
        if !std::mem::take(&mut self.ready) {
            return envelopes;
        }
        for (member, link) in &mut self.links {
            if !std::mem::take(&mut link.ready) {
                continue;
            }
            if !link.outbox.is_empty() && link.paced_until > now {
                self.due = earlier(self.due, Some(link.paced_until));
                continue;
            }
            let mut sent = false;
            let window = if link.dull { 1 } else { FLIGHTS_MAX };
            while !link.outbox.is_empty() && link.flights.len() < window {
                self.number = self.number.wrapping_add(1).max(1);
                let envelope = link.pack(*member, self.number, store);
                if envelope.number != 0 {
                    link.fly(now, resend_ms, &envelope, store);
                    self.due = earlier(self.due, Some(now.plus_millis(resend_ms)));
                }
                sent |= !envelope.keys.is_empty();
                envelopes.extend((!envelope.keys.is_empty()).then_some(envelope));
            }
            if sent {
                // Always granted: the link was not ready before.
                let _ = link.sends.take(now, SENDS);
                let next = link.sends.next(now, SENDS);
                link.paced_until = next.max(now.plus_millis(PACE_MS));
            }
        }
        envelopes
    }

    /// When [`PushQueues::flush`] is due though nothing new came.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.due
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().min()
}

impl PushLink {
    /// Takes from the outbox what fits into one datagram, or one record that fits in none.
    fn pack(&mut self, to: MemberId, number: u32, store: &NewestRecords) -> PushBatch {
        let mut keys = Vec::new();
        let mut room = ROOM;
        while let Some(key) = self.outbox.first() {
            let bytes = store.get(key).map_or(0, |record| record.bytes().len());
            if bytes + RECORD_OVERHEAD > room {
                break;
            }
            self.outbox.pop_first();
            if bytes > 0 {
                keys.push(key);
                room -= bytes + RECORD_OVERHEAD;
            }
        }
        if !keys.is_empty() {
            return PushBatch { to, number, keys };
        }
        let large = self.outbox.pop_first();
        PushBatch {
            to,
            number: 0,
            keys: large.into_iter().collect(),
        }
    }

    fn fly(&mut self, now: Time, resend_ms: u64, envelope: &PushBatch, store: &NewestRecords) {
        let keys = envelope.keys.iter().map(|key| (*key, store.version(*key)));
        self.flights.push(Flight {
            number: envelope.number,
            keys: keys.collect(),
            tries: 1,
            again: now.plus_millis(resend_ms),
        });
    }

    /// Sends again what was not acknowledged. What has been replaced waits in the outbox by now,
    /// and might not fit into this datagram.
    fn resend(
        &mut self,
        now: Time,
        resend_ms: u64,
        to: MemberId,
        store: &NewestRecords,
    ) -> Vec<PushBatch> {
        let mut envelopes = Vec::new();
        let mut dull = self.dull;
        self.flights.retain_mut(|flight| {
            let due = flight.again <= now;
            if due {
                let newest =
                    |(key, version): &(RecordKey, RecordVersion)| store.version(*key) == *version;
                flight.keys.retain(newest);
            }
            let failed = flight.tries == TRIES_MAX && !flight.keys.is_empty();
            dull |= due && failed;
            !due || (!failed && !flight.keys.is_empty())
        });
        self.dull = dull;
        for flight in &mut self.flights {
            if flight.again <= now {
                flight.again = now.plus_millis(resend_ms << flight.tries);
                flight.tries += 1;
                envelopes.push(PushBatch {
                    to,
                    number: flight.number,
                    keys: flight.keys.iter().map(|(key, _)| *key).collect(),
                });
            }
        }
        envelopes
    }
}

#[cfg(test)]
mod tests;
