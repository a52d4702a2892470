//! A node that says of everybody else that they are gone.

use std::sync::Arc;

use muster_gossip::frame::{Frame, Push};
use muster_gossip::mesh::Config;
use muster_gossip::record::{Level, RecordKey, Version, Vote, WatchBody};
use muster_gossip::{Incarnation, MemberId};

use super::{Nodes, member, signed};
use crate::sim::protocol::Effects;

/// Votes of one record.
const VOTES: usize = 200;
/// Numbers of its records begin here: no core comes to so many.
const FIRST_NUMBER: u64 = 1_000;

/// How a core goes about it whose clock has no patience with those that it watches.
pub(crate) fn broken_clock() -> Config {
    Config {
        doubt_ms: 0,
        gone_ms: 0,
        answer_ms: 0,
        ..Config::default()
    }
}

impl Nodes {
    /// A node signs a vote against every other one, watched by it or not, and tells those that it is
    /// linked to. `round`: higher each time.
    pub(crate) fn slander(&mut self, liar: usize, round: u64, out: &mut Effects<Frame>) {
        let Some(core) = self.core(liar) else { return };
        let others = core.ever().filter(|member| member.index() != liar);
        let votes = others.take(VOTES).map(|subject| Vote {
            subject,
            incarnation: Incarnation(core.member(subject).map_or(0, |view| view.incarnation.0)),
            level: Level::Gone,
            heard: false,
        });
        let body = WatchBody {
            votes: votes.collect(),
        };
        let version = Version {
            incarnation: core.incarnation().0,
            number: FIRST_NUMBER + round,
        };
        let links: Vec<_> = core.links().map(MemberId::index).collect();
        let key = RecordKey::Watch(member(liar));
        let signer = self.authority.signer(liar);
        let record = Arc::new(signed(self.authority.cluster, key, version, &body, &signer));
        for to in links {
            let push = Push {
                number: 9,
                records: vec![record.clone()],
            };
            self.inject(to, Frame::Push(push), out);
        }
    }
}
