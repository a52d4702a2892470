//! What our mesh is compared with: foca, a SWIM in Rust, under the same load and network, with
//! the settings its author gives for local networks. It has no documents.

mod runtime;

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;

use foca::{Config, Foca, Member, OwnedNotification, PostcardCodec, Timer};
use muster_gossip::mesh::Reach;
use muster_model::time::Time;

use super::protocol::{Arrival, Edit, Effects, Protocol, ProtocolEvent};
use super::random::Random;
use runtime::{Changes, FocaNews, FocaRuntime, Id, Timers, record};

/// Bytes of a record, as ours have on average.
const RECORD_BYTES: usize = 250;

struct FocaNode {
    foca: Foca<Id, PostcardCodec, Random, Changes>,
    timers: Timers,
    news: FocaNews,
    /// The newest life heard of each node, and what is thought of it.
    known: Vec<(u32, Reach)>,
}

/// All nodes.
pub(crate) struct Swim {
    seed: u64,
    nodes: Vec<Option<FocaNode>>,
    /// Of each node: the life that comes next.
    lives: Vec<u32>,
}

impl Swim {
    pub(crate) fn new(nodes: usize, seed: u64) -> Self {
        Self {
            seed,
            nodes: (0..nodes).map(|_| None).collect(),
            lives: vec![0; nodes],
        }
    }

    fn make(&self, node: usize) -> FocaNode {
        let id = Id::new(node, self.lives[node]);
        let size = u32::try_from(self.nodes.len())
            .ok()
            .and_then(NonZeroU32::new);
        let config = Config::new_lan(size.unwrap_or(NonZeroU32::MIN));
        let random = Random::new(self.seed, (u64::from(id.life) << 32) + 1_000 + node as u64);
        let news: FocaNews = Rc::new(RefCell::new(Vec::new()));
        let changes = Changes::new(self.nodes.len(), news.clone());
        FocaNode {
            foca: Foca::with_custom_broadcast(id, config, random, PostcardCodec, changes),
            timers: Timers::default(),
            news,
            known: self
                .lives
                .iter()
                .map(|&life| (life, Reach::Alive))
                .collect(),
        }
    }

    fn act(
        &mut self,
        now: Time,
        node: usize,
        out: &mut Effects<bytes::Bytes>,
        does: impl FnOnce(&mut FocaNode, &mut FocaRuntime),
    ) {
        let Some(known) = self.nodes[node].as_mut() else {
            return;
        };
        let mut runtime = FocaRuntime::default();
        does(known, &mut runtime);
        known.finish(now, runtime, out);
    }
}

impl FocaNode {
    fn finish(&mut self, now: Time, runtime: FocaRuntime, out: &mut Effects<bytes::Bytes>) {
        for (after, timer) in runtime.timers {
            if let Timer::ChangeSuspectToDown { member_id, .. } = &timer {
                self.learn(*member_id, Reach::Suspect, out);
            }
            self.timers.push(now, after, timer);
        }
        for notification in runtime.notifications {
            self.notified(&notification, out);
        }
        out.sends.extend(runtime.sends);
        let fresh = std::mem::take(&mut *self.news.borrow_mut());
        out.seen.extend(
            fresh
                .into_iter()
                .map(|(subject, number)| ProtocolEvent::Change { subject, number }),
        );
    }

    fn notified(&mut self, what: &OwnedNotification<Id>, out: &mut Effects<bytes::Bytes>) {
        match what {
            OwnedNotification::MemberUp(id) | OwnedNotification::Rename(_, id) => {
                self.learn(*id, Reach::Alive, out);
            }
            OwnedNotification::MemberDown(id) => self.learn(*id, Reach::Unreachable, out),
            _ => {}
        }
    }

    fn learn(&mut self, id: Id, reach: Reach, out: &mut Effects<bytes::Bytes>) {
        let known = &mut self.known[id.index()];
        if id.life >= known.0 && *known != (id.life, reach) {
            *known = (id.life, reach);
            let subject = id.index();
            out.seen.push(ProtocolEvent::Reach { subject, reach });
        }
    }

    fn ring(&mut self, timer: Timer<Id>, runtime: &mut FocaRuntime) -> Option<Id> {
        let suspect = match &timer {
            Timer::ChangeSuspectToDown { member_id, .. } => Some(*member_id),
            _ => None,
        };
        // Errors are about packets of others or its own state, and change nothing here.
        let _ = self.foca.handle_timer(timer, runtime);
        suspect
    }
}

impl Protocol for Swim {
    type Frame = bytes::Bytes;

    fn start(&mut self, now: Time, node: usize, out: &mut Effects<bytes::Bytes>) {
        let mut made = self.make(node);
        let id = *made.foca.identity();
        let others = self
            .lives
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != node);
        let members: Vec<_> = others
            .map(|(other, &life)| Member::alive(Id::new(other, life)))
            .collect();
        let mut runtime = FocaRuntime::default();
        let _ = made
            .foca
            .apply_many(members.iter().cloned(), false, &mut runtime);
        if id.life > 0 {
            announce(&mut made, &members, &mut runtime);
        }
        made.finish(now, runtime, out);
        self.nodes[node] = Some(made);
    }

    fn stop(&mut self, node: usize) {
        if let Some(gone) = self.nodes[node].take() {
            self.lives[node] = gone.foca.identity().life + 1;
        }
    }

    fn receive(
        &mut self,
        now: Time,
        arrival: Arrival<bytes::Bytes>,
        out: &mut Effects<bytes::Bytes>,
    ) {
        let mut data = arrival.frame;
        if arrival.corrupt {
            data = runtime::flipped(&data);
        }
        self.act(now, arrival.to, out, |node, runtime| {
            let _ = node.foca.handle_data(&data, runtime);
        });
    }

    fn wake(&mut self, now: Time, node: usize, out: &mut Effects<bytes::Bytes>) {
        while let Some(timer) = self.nodes[node]
            .as_mut()
            .and_then(|known| known.timers.pop(now))
        {
            let mut suspect = None;
            self.act(now, node, out, |known, runtime| {
                suspect = known.ring(timer, runtime)
            });
            let Some((known, id)) = self.nodes[node].as_mut().zip(suspect) else {
                continue;
            };
            // It was refuted: foca tells nobody.
            if known.known[id.index()] == (id.life, Reach::Suspect) {
                known.learn(id, Reach::Alive, out);
            }
        }
    }

    fn deadline(&self, node: usize) -> Option<Time> {
        self.nodes[node].as_ref()?.timers.next()
    }

    fn change(&mut self, now: Time, node: usize, number: u64, out: &mut Effects<bytes::Bytes>) {
        self.act(now, node, out, |known, _| {
            let _ = known
                .foca
                .add_broadcast(&record(node, number, RECORD_BYTES));
        });
    }

    fn edit(&mut self, _: Time, _: Edit, _: &mut Effects<bytes::Bytes>) -> Option<usize> {
        None
    }

    fn reach(&self, node: usize, subject: usize) -> Reach {
        self.nodes[node]
            .as_ref()
            .map_or(Reach::Alive, |known| known.known[subject].1)
    }

    fn root(&self, _: usize) -> u64 {
        0
    }
}

/// A node that comes back tells three members: one packet can be lost.
fn announce(node: &mut FocaNode, members: &[Member<Id>], runtime: &mut FocaRuntime) {
    for member in members.iter().take(3) {
        let _ = node.foca.announce(*member.id(), &mut *runtime);
    }
}
