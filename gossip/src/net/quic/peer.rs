//! One member, as this node's network sees it: addresses, the link if there is one, what waits.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::config::{ADDRESSES_MAX, LASTING, SILENCE, SILENCE_CHECK, SIMULTANEOUS, WANTED};
use super::event::Admitted;
use super::queue::SendQueue;
use super::request::Underway;
use crate::key::NodeKey;
use crate::member::MemberId;

/// One member.
#[derive(Debug)]
pub(super) struct QuicPeer {
    pub(super) id: MemberId,
    pub(super) key: NodeKey,
    state: Mutex<PeerState>,
    /// Rung when there is a datagram to send.
    pub(super) datagrams: Notify,
    /// Rung when there is a stream to send.
    pub(super) streams: Notify,
    /// Rung when there is something to send in order.
    pub(super) ordered: Notify,
    /// Rung when there is a link, so that a dial may stop.
    pub(super) linked: Notify,
}

#[derive(Debug)]
pub(super) struct PeerState {
    addresses: Vec<SocketAddr>,
    /// Where its last link came from or went to.
    seen: Option<SocketAddr>,
    pub(super) queue: SendQueue,
    pub(super) link: Option<PeerLink>,
    /// Whether a task dials it now.
    dialing: bool,
    /// When somebody had something to say to it last.
    wanted: Option<Instant>,
    removed: bool,
    backoff: Backoff,
    /// Not dialed again before this.
    not_before: Instant,
}

/// A connection in use.
#[derive(Clone, Debug)]
pub(super) struct PeerLink {
    pub(super) connection: quinn::Connection,
    pub(super) dialed: bool,
    /// Requests under way on it.
    pub(super) underway: Underway,
    since: Instant,
    silence: LinkSilence,
}

/// Since when nothing came back.
#[derive(Clone, Copy, Debug)]
struct LinkSilence {
    since: Instant,
    checked: Instant,
    packets: u64,
}

impl PeerLink {
    pub(super) fn new(connection: quinn::Connection, dialed: bool) -> Self {
        let now = Instant::now();
        let packets = connection.stats().udp_rx.datagrams;
        Self {
            connection,
            dialed,
            underway: Underway::default(),
            since: now,
            silence: LinkSilence {
                since: now,
                checked: now,
                packets,
            },
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        canonical(self.connection.remote_address())
    }

    fn is_open(&self) -> bool {
        self.connection.close_reason().is_none()
    }

    /// Called whenever something is sent: whether nothing at all came back for too long. Looks
    /// twice a second only.
    fn is_silent(&mut self, now: Instant) -> bool {
        let silence = &mut self.silence;
        if now.duration_since(silence.checked) < SILENCE_CHECK {
            return false;
        }
        let packets = self.connection.stats().udp_rx.datagrams;
        // Nothing was said for a while: silence begins with what is said now.
        let quiet = now.duration_since(silence.checked) >= SILENCE;
        silence.checked = now;
        if packets != silence.packets || quiet {
            silence.packets = packets;
            silence.since = now;
        }
        now.duration_since(silence.since) >= SILENCE
    }
}

impl QuicPeer {
    pub(super) fn new(admitted: Admitted) -> Self {
        let state = PeerState {
            addresses: admitted.addresses,
            seen: None,
            queue: SendQueue::default(),
            link: None,
            dialing: false,
            wanted: None,
            removed: false,
            backoff: Backoff::new(u64::from(admitted.id.0)),
            not_before: Instant::now(),
        };
        Self {
            id: admitted.id,
            key: admitted.key,
            state: Mutex::new(state),
            datagrams: Notify::new(),
            streams: Notify::new(),
            ordered: Notify::new(),
            linked: Notify::new(),
        }
    }

    /// What changes. Held for a few lines only, never across a wait.
    pub(super) fn state(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn readdress(&self, addresses: Vec<SocketAddr>) {
        self.state().addresses = addresses;
    }

    /// Wakes the link: something waits.
    pub(super) fn ring(&self) {
        self.datagrams.notify_one();
        self.streams.notify_one();
        self.ordered.notify_one();
    }

    /// Whether this is the lower key of the two: its dial wins when both dial at once.
    fn wins(&self, me: &NodeKey, dialed: bool) -> bool {
        (me < &self.key) == dialed
    }

    /// Takes a new connection as the link. Gives back the one that lost its place, or the new one
    /// itself if it came too late.
    pub(super) fn adopt(&self, me: &NodeKey, new: PeerLink) -> LinkAdoption {
        let mut state = self.state();
        if state.removed {
            return LinkAdoption::Removed(new);
        }
        if let Some(old) = &state.link
            && old.is_open()
            && old.dialed != new.dialed
            && old.since.elapsed() < SIMULTANEOUS
            && self.wins(me, old.dialed)
        {
            return LinkAdoption::Late(new);
        }
        state.seen = Some(new.address());
        let old = state.link.replace(new);
        drop(state);
        self.linked.notify_waiters();
        LinkAdoption::Taken(old)
    }
}

/// What became of a new connection.
#[derive(Debug)]
pub(super) enum LinkAdoption {
    /// It is the link now; the one before, if any.
    Taken(Option<PeerLink>),
    /// Both ends dialed at once, and the other connection is the one to keep.
    Late(PeerLink),
    /// The member was removed meanwhile.
    Removed(PeerLink),
}

impl PeerState {
    /// Notes that somebody has something to say. Whether a dial must be started.
    pub(super) fn want(&mut self, now: Instant) -> bool {
        self.wanted = Some(now);
        let lost = match &mut self.link {
            None => true,
            Some(link) => !link.is_open() || link.is_silent(now),
        };
        let start = lost && !self.dialing && !self.removed;
        self.dialing |= start;
        start
    }

    /// Whether this connection is the link.
    pub(super) fn is_link(&self, connection: &quinn::Connection) -> bool {
        let id = connection.stable_id();
        self.link
            .as_ref()
            .is_some_and(|link| link.connection.stable_id() == id)
    }

    /// The link, if it is open.
    pub(super) fn open_link(&self) -> Option<&PeerLink> {
        self.link.as_ref().filter(|link| link.is_open())
    }

    /// Whether a running dial should go on; if not it counts as ended.
    pub(super) fn keep_dialing(&mut self, now: Instant) -> bool {
        let wanted = self
            .wanted
            .is_some_and(|at| now.duration_since(at) < WANTED);
        let linked = self
            .link
            .as_ref()
            .is_some_and(|link| link.is_open() && now.duration_since(link.silence.since) < SILENCE);
        self.dialing = wanted && !linked && !self.removed;
        self.dialing
    }

    /// Forgets a link that is closed, if it is still the one. One that did not last is dialed
    /// again less and less often, whatever ended it.
    pub(super) fn unlink(&mut self, connection: &quinn::Connection, refused: bool) -> bool {
        let same = self.is_link(connection);
        let Some(link) = self.link.take_if(|_| same) else {
            return false;
        };
        let now = Instant::now();
        if refused {
            self.not_before = now + self.backoff.refused();
        } else if now.duration_since(link.since) < LASTING {
            self.dial_failed(now);
        } else {
            self.backoff.reset();
        }
        true
    }

    /// Notes that a dial came to nothing.
    pub(super) fn dial_failed(&mut self, now: Instant) {
        self.not_before = now + self.backoff.failed();
    }

    /// When to dial next.
    pub(super) fn dial_at(&self) -> Instant {
        self.not_before
    }

    /// Where to dial: the newest knowledge first, then where it was last seen.
    pub(super) fn dial_addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<SocketAddr> = Vec::with_capacity(ADDRESSES_MAX + 1);
        for address in self.addresses.iter().take(ADDRESSES_MAX).chain(&self.seen) {
            if !addresses.contains(address) && address.port() != 0 {
                addresses.push(*address);
            }
        }
        addresses
    }

    /// No member any more: no link, nothing to send.
    pub(super) fn remove(&mut self) -> Option<PeerLink> {
        self.removed = true;
        self.queue = SendQueue::default();
        self.link.take()
    }

    /// Whether it is a member no more.
    pub(super) const fn is_removed(&self) -> bool {
        self.removed
    }

    /// Notes where frames come from. Whether that is somewhere else than before.
    pub(super) fn moved(&mut self, address: SocketAddr) -> bool {
        let moved = self.seen.is_some_and(|seen| seen != address);
        self.seen = Some(address);
        moved
    }
}

/// The address without the clothes that an IPv6 socket puts on IPv4.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
