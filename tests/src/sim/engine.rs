//! Time, the network and the lives of nodes: everything below the protocol. Says what happens
//! next, and carries what the protocol sends.

use std::collections::{BTreeMap, VecDeque};

use muster_gossip::frame::Carrier;
use muster_model::time::Time;

use super::network::{SimNetwork, Weather};
use super::queue::EventQueue;
use super::random::Random;
use super::streams::{self, Attempt, Cards};

/// What QUIC adds to the payload of a packet, in bytes: short header with connection id and
/// packet number 12, tag 16, frame header 2, and 15 as this packet's share of the
/// acknowledgement packets (30 bytes each, one for two packets).
pub(crate) const PACKET_OVERHEAD: usize = 12 + 16 + 2 + 15;
/// Datagrams that wait for a node that stands still; the kernel drops what comes on top.
const INBOX_DATAGRAMS: usize = 1_000;
/// A connection over which nobody has said anything for so long is given up, µs.
const CONNECTED_US: u64 = 10_000_000;
/// Old frames kept for being delivered again.
const RECORDED: usize = 256;

/// A frame to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Sending<F> {
    pub(crate) to: usize,
    pub(crate) carrier: Carrier,
    pub(crate) frame: F,
    /// Its bytes on the wire, without what QUIC adds.
    pub(crate) bytes: usize,
}

/// What the protocol has to do next.
#[derive(Debug)]
pub(crate) enum ProtocolStep<F> {
    /// A frame arrives.
    Frame {
        to: usize,
        from: usize,
        frame: F,
        /// Its bits were flipped on the way.
        corrupt: bool,
    },
    /// A node's deadline may have come.
    Wake(usize),
    /// A chore of the script is due.
    Chore(u32),
}

#[derive(Debug)]
struct Packet<F> {
    to: usize,
    from: usize,
    /// The sender's life: a stream that did not get through yet ends with it.
    sender: u32,
    /// The receiver's life that it was sent to.
    life: u32,
    frame: F,
    stream: bool,
    corrupt: bool,
}

#[derive(Debug)]
enum Event<F> {
    Packet(Packet<F>),
    /// A stream tries to get through.
    Stream {
        packet: Packet<F>,
        bytes: usize,
        attempt: Attempt,
    },
    Timer {
        node: usize,
        armed: Time,
    },
    Resume {
        node: usize,
        life: u32,
    },
    Chore(u32),
}

#[derive(Debug)]
struct EngineNode<F> {
    up: bool,
    /// Counts starts and stops, so that what was meant for an earlier life is lost.
    life: u32,
    /// Stands still until then.
    paused: Option<Time>,
    inbox: VecDeque<Packet<F>>,
    /// The timer that counts; others are stale.
    armed: Time,
}

const NEVER: Time = Time(u64::MAX);

/// Time, the network and the lives of nodes.
#[derive(Debug)]
pub(crate) struct SimEngine<F> {
    pub(crate) now: Time,
    pub(crate) network: SimNetwork,
    /// UDP payload bytes that all nodes sent, and packets.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// Whether what goes over streams from one node to another comes in order.
    pub(crate) in_order: bool,
    /// When the last of it has come, or will have.
    last: BTreeMap<(usize, usize), Time>,
    /// Datagrams dropped because a node that stood still had too many.
    pub(crate) overflows: u64,
    queue: EventQueue<Event<F>>,
    nodes: Vec<EngineNode<F>>,
    cards: Cards,
    recorded: Vec<(usize, usize, F)>,
    random: Random,
}

impl<F: Clone> SimEngine<F> {
    /// Nodes that are all down.
    pub(crate) fn new(nodes: usize, seed: u64, weather: Weather) -> Self {
        let down = || EngineNode {
            up: false,
            life: 0,
            paused: None,
            inbox: VecDeque::new(),
            armed: NEVER,
        };
        Self {
            now: Time(0),
            network: SimNetwork::new(nodes, seed, weather),
            bytes: 0,
            packets: 0,
            in_order: false,
            last: BTreeMap::new(),
            overflows: 0,
            queue: EventQueue::default(),
            nodes: (0..nodes).map(|_| down()).collect(),
            cards: Cards::new(nodes),
            recorded: Vec::new(),
            random: Random::new(seed, 2),
        }
    }

    /// The next step, if there is one by `until`; time moves on to it, or to `until`.
    pub(crate) fn next(&mut self, until: Time) -> Option<ProtocolStep<F>> {
        loop {
            let Some((at, event)) = self.queue.pop(until) else {
                self.now = self.now.max(until);
                return None;
            };
            self.now = self.now.max(at);
            let step = match event {
                Event::Packet(packet) => self.arrive(packet),
                Event::Stream {
                    packet,
                    bytes,
                    attempt,
                } => {
                    self.stream(packet, bytes, attempt);
                    None
                }
                Event::Timer { node, armed } => self.ring(node, armed),
                Event::Resume { node, life } => self.resume(node, life),
                Event::Chore(chore) => Some(ProtocolStep::Chore(chore)),
            };
            if step.is_some() {
                return step;
            }
        }
    }

    /// `from` sends a frame.
    pub(crate) fn send(&mut self, from: usize, sending: Sending<F>) {
        let Sending {
            to,
            carrier,
            frame,
            bytes,
        } = sending;
        self.record(from, to, &frame);
        let packet = Packet {
            to,
            from,
            sender: self.nodes[from].life,
            life: self.nodes[to].life,
            frame,
            stream: carrier == Carrier::Stream,
            corrupt: self.network.corrupts(),
        };
        if packet.stream {
            self.stream(packet, bytes, Attempt::first(self.now));
        } else {
            self.datagram(packet, bytes);
        }
    }

    /// A node must be woken at `deadline`, if nothing else changes that.
    pub(crate) fn arm(&mut self, node: usize, deadline: Option<Time>) {
        let Some(deadline) = deadline else { return };
        let known = &mut self.nodes[node];
        // A later deadline is found out about when the earlier timer rings.
        if deadline < known.armed {
            known.armed = deadline;
            self.queue.push(
                deadline,
                Event::Timer {
                    node,
                    armed: deadline,
                },
            );
        }
    }

    /// A chore is due then.
    pub(crate) fn schedule(&mut self, at: Time, chore: u32) {
        self.queue.push(at, Event::Chore(chore));
    }

    /// A node starts.
    pub(crate) fn start(&mut self, node: usize) {
        self.live(node, true);
    }

    /// A node is gone, with what it had not read and what is on its way to it.
    pub(crate) fn stop(&mut self, node: usize) {
        self.live(node, false);
    }

    fn live(&mut self, node: usize, up: bool) {
        let node = &mut self.nodes[node];
        node.up = up;
        node.life += 1;
        node.paused = None;
        node.inbox.clear();
        node.armed = NEVER;
    }

    /// A node stands still until then.
    pub(crate) fn pause(&mut self, node: usize, until: Time) {
        let known = &mut self.nodes[node];
        if known.up && known.paused.is_none_or(|end| end < until) {
            known.paused = Some(until);
            let life = known.life;
            self.queue.push(until, Event::Resume { node, life });
        }
    }

    /// A node goes on at once.
    pub(crate) fn wake_up(&mut self, node: usize) {
        let known = &mut self.nodes[node];
        if known.paused.is_some() {
            known.paused = Some(self.now);
            let life = known.life;
            self.queue.push(self.now, Event::Resume { node, life });
        }
    }

    /// Whether a node runs, standing still or not.
    pub(crate) fn up(&self, node: usize) -> bool {
        self.nodes[node].up
    }

    /// Whether a node stands still.
    pub(crate) fn paused(&self, node: usize) -> bool {
        self.nodes[node].paused.is_some()
    }

    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether something went over streams between two nodes lately, in order.
    pub(crate) fn talk(&self, one: usize, other: usize) -> bool {
        let lately = |way| {
            let last = self.last.get(&way);
            last.is_some_and(|last| self.now.micros_since(*last) < CONNECTED_US)
        };
        lately((one, other)) || lately((other, one))
    }

    fn datagram(&mut self, packet: Packet<F>, bytes: usize) {
        let length = bytes + PACKET_OVERHEAD;
        self.bytes += length as u64;
        self.packets += 1;
        let out = self.cards.leave(self.now, packet.from, length);
        let fate = self.network.packet(packet.from, packet.to);
        if let Some(delay) = fate.second {
            let copy = Packet {
                frame: packet.frame.clone(),
                ..packet
            };
            self.queue
                .push(Time(self.now.0 + out + delay), Event::Packet(copy));
        }
        if self.network.replays() {
            self.replay();
        }
        if let Some(delay) = fate.first {
            self.queue
                .push(Time(self.now.0 + out + delay), Event::Packet(packet));
        }
    }

    fn stream(&mut self, packet: Packet<F>, bytes: usize, attempt: Attempt) {
        if self.nodes[packet.from].life != packet.sender {
            // Nobody sends it again.
            return;
        }
        if self.network.cuts.both(packet.from, packet.to) {
            self.pass(packet, bytes);
        } else if let Some(attempt) = attempt.again(self.now) {
            let at = Time(self.now.0 + attempt.waited_us);
            self.queue.push(
                at,
                Event::Stream {
                    packet,
                    bytes,
                    attempt,
                },
            );
        }
    }

    fn pass(&mut self, packet: Packet<F>, bytes: usize) {
        let packets = streams::packets(bytes);
        let length = bytes + packets * PACKET_OVERHEAD;
        self.bytes += length as u64;
        self.packets += packets as u64;
        let out = self.cards.leave(self.now, packet.from, length);
        let rounds = streams::rounds(&mut self.network, packet.from, packet.to, packets);
        let first = Time(self.now.0 + out + self.network.delay());
        let at = self.cards.arrive(first, packet.to, length);
        let mut at = Time(at.0 + streams::recovery(rounds));
        if self.in_order {
            let last = self.last.entry((packet.from, packet.to)).or_insert(at);
            at = at.max(Time(last.0 + 1));
            *last = at;
        }
        self.queue.push(at, Event::Packet(packet));
    }

    fn arrive(&mut self, packet: Packet<F>) -> Option<ProtocolStep<F>> {
        let node = &mut self.nodes[packet.to];
        if !node.up || node.life != packet.life {
            return None;
        }
        if node.paused.is_some() {
            if packet.stream || node.inbox.len() < INBOX_DATAGRAMS {
                node.inbox.push_back(packet);
            } else {
                self.overflows += 1;
            }
            return None;
        }
        let Packet {
            to,
            from,
            frame,
            corrupt,
            ..
        } = packet;
        Some(ProtocolStep::Frame {
            to,
            from,
            frame,
            corrupt,
        })
    }

    fn ring(&mut self, node: usize, armed: Time) -> Option<ProtocolStep<F>> {
        let known = &mut self.nodes[node];
        if known.armed != armed || !known.up || known.paused.is_some() {
            return None;
        }
        known.armed = NEVER;
        Some(ProtocolStep::Wake(node))
    }

    /// All that waits is read before the clock is looked at, as the driver does.
    fn resume(&mut self, node: usize, life: u32) -> Option<ProtocolStep<F>> {
        let now = self.now;
        let known = &mut self.nodes[node];
        if known.life != life || known.paused.is_none_or(|end| end > now) {
            return None;
        }
        known.paused = None;
        known.armed = now;
        for packet in std::mem::take(&mut known.inbox) {
            self.queue.push(now, Event::Packet(packet));
        }
        self.queue.push(now, Event::Timer { node, armed: now });
        None
    }

    /// Keeps some of the frames of the first time, for later.
    fn record(&mut self, from: usize, to: usize, frame: &F) {
        if self.recorded.len() < RECORDED && self.random.below(16) == 0 {
            self.recorded.push((from, to, frame.clone()));
        }
    }

    fn replay(&mut self) {
        if self.recorded.is_empty() {
            return;
        }
        let (from, to, frame) = self.recorded[self.random.index(self.recorded.len())].clone();
        let packet = Packet {
            to,
            from,
            sender: self.nodes[from].life,
            life: self.nodes[to].life,
            frame,
            stream: false,
            corrupt: false,
        };
        let at = Time(self.now.0 + self.network.delay());
        self.queue.push(at, Event::Packet(packet));
    }
}
