//! What was sent comes once more, seconds later and in the same order, whatever has happened since: whoever
//! sent it may not lead any more, whoever gets it may have started anew.

use muster_model::time::Time;

use super::frame::ClusterFrame;
use super::{At, Cluster, Out};
use crate::sim::protocol::{Arrival, Protocol};
use crate::sim::world::World;

/// Something that comes once more.
#[derive(Clone, Debug)]
pub(super) struct Echo {
    at: Time,
    from: usize,
    to: usize,
    frame: ClusterFrame,
}

impl Cluster {
    /// Notes what is sent, if it is to come once more.
    pub(super) fn echo(&mut self, (now, from): At, to: usize, frame: &ClusterFrame) {
        if self.echo_ms > 0 {
            self.echoes.push_back(Echo {
                at: now.plus_millis(self.echo_ms),
                from,
                to,
                frame: frame.clone(),
            });
        }
    }

    /// The first of what is due.
    fn next_echo(&mut self, now: Time) -> Option<Echo> {
        let is_due = self.echoes.front().is_some_and(|echo| echo.at <= now);
        is_due.then(|| self.echoes.pop_front()).flatten()
    }

    fn hear_echo(&mut self, now: Time, echo: Echo, out: &mut Out) {
        let arrival = Arrival {
            to: echo.to,
            from: echo.from,
            frame: echo.frame,
            corrupt: false,
        };
        self.receive(now, arrival, out);
    }
}

/// Delivers everything that is due, to those that are awake.
pub(super) fn deliver(world: &mut World<Cluster>) {
    // What is sent because of it is an answer of now, and comes once more itself.
    while let Some(echo) = world.protocol.next_echo(world.now()) {
        let to = echo.to;
        if world.engine.up(to) && !world.engine.paused(to) {
            world.act(to, |cluster, now, out| cluster.hear_echo(now, echo, out));
        }
    }
}
