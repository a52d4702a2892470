//! The parts that foca wants from its user.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use foca::{BroadcastHandler, Identity, Invalidates, Notification, OwnedNotification, Timer};
use muster_gossip::frame::Carrier;
use muster_model::time::Time;
use serde::{Deserialize, Serialize};

use crate::sim::engine::Sending;

/// A node in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Id {
    node: u32,
    pub(super) life: u32,
}

impl Id {
    pub(super) fn new(node: usize, life: u32) -> Self {
        let node = u32::try_from(node).unwrap_or(u32::MAX);
        Self { node, life }
    }

    pub(super) fn index(self) -> usize {
        self.node as usize
    }
}

impl Identity for Id {
    type Addr = u32;

    fn renew(&self) -> Option<Self> {
        Some(Self {
            life: self.life + 1,
            ..*self
        })
    }

    fn addr(&self) -> u32 {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.life > adversary.life
    }
}

/// What a call into foca led to.
#[derive(Debug, Default)]
pub(super) struct FocaRuntime {
    pub(super) sends: Vec<Sending<Bytes>>,
    pub(super) timers: Vec<(Duration, Timer<Id>)>,
    pub(super) notifications: Vec<OwnedNotification<Id>>,
}

impl foca::Runtime<Id> for FocaRuntime {
    fn notify(&mut self, notification: Notification<'_, Id>) {
        self.notifications.push(notification.to_owned());
    }

    fn send_to(&mut self, to: Id, data: &[u8]) {
        self.sends.push(Sending {
            to: to.index(),
            carrier: Carrier::Datagram,
            bytes: data.len(),
            frame: Bytes::copy_from_slice(data),
        });
    }

    fn submit_after(&mut self, event: Timer<Id>, after: Duration) {
        self.timers.push((after, event));
    }
}

#[derive(Debug, PartialEq, Eq)]
struct TimerDue {
    at: Time,
    order: u64,
    timer: Timer<Id>,
}

impl PartialOrd for TimerDue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimerDue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A node's timers.
#[derive(Debug, Default)]
pub(super) struct Timers {
    order: u64,
    heap: BinaryHeap<Reverse<TimerDue>>,
}

impl Timers {
    pub(super) fn push(&mut self, now: Time, after: Duration, timer: Timer<Id>) {
        self.order += 1;
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX >> 1);
        let at = Time(now.0 + micros);
        let order = self.order;
        self.heap.push(Reverse(TimerDue { at, order, timer }));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|due| due.0.at)
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<Timer<Id>> {
        let due = self.next().is_some_and(|at| at <= now);
        due.then(|| self.heap.pop())
            .flatten()
            .map(|due| due.0.timer)
    }
}

/// The changes that a node came to know.
pub(super) type FocaNews = Rc<RefCell<Vec<(usize, u64)>>>;

/// Keeps the newest change of each node.
#[derive(Debug)]
pub(super) struct Changes {
    newest: Vec<u64>,
    news: FocaNews,
}

impl Changes {
    pub(super) fn new(nodes: usize, news: FocaNews) -> Self {
        Self {
            newest: vec![0; nodes],
            news,
        }
    }
}

/// Which change a broadcast is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    subject: usize,
    number: u64,
}

impl Invalidates for Change {
    fn invalidates(&self, other: &Self) -> bool {
        self.subject == other.subject && self.number > other.number
    }
}

impl BroadcastHandler<Id> for Changes {
    type Key = Change;
    type Error = Infallible;

    fn receive_item(&mut self, data: &[u8], _: Option<&Id>) -> Result<Option<Change>, Infallible> {
        let Some((subject, number)) = read(data) else {
            return Ok(None);
        };
        match self.newest.get_mut(subject) {
            Some(newest) if *newest < number => *newest = number,
            _ => return Ok(None),
        }
        self.news.borrow_mut().push((subject, number));
        Ok(Some(Change { subject, number }))
    }
}

/// A record of `length` bytes that says that a node changed.
pub(super) fn record(node: usize, number: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    bytes.put_u64_le(node as u64);
    bytes.put_u64_le(number);
    bytes.resize(length, 0);
    bytes
}

fn read(mut data: &[u8]) -> Option<(usize, u64)> {
    let subject = data.try_get_u64_le().ok()?;
    let number = data.try_get_u64_le().ok()?;
    Some((usize::try_from(subject).ok()?, number))
}

/// A packet with one bit flipped.
pub(super) fn flipped(data: &Bytes) -> Bytes {
    let mut bytes = data.to_vec();
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 1;
    }
    bytes.into()
}
