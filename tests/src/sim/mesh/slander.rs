//! A node that says of everybody else that they are gone.

use std::sync::Arc;

use muster_gossip::frame::{MeshFrame, Push};
use muster_gossip::mesh::MeshOptions;
use muster_gossip::record::{RecordKey, RecordVersion, SuspicionLevel, Vote, WatchBody};
use muster_gossip::{Incarnation, MemberId};

use super::{MeshNodes, member, signed};
use crate::sim::protocol::Effects;

/// Votes of one record.
const VOTES: usize = 200;
/// Numbers of its records begin here: no core comes to so many.
const FIRST_NUMBER: u64 = 1_000;

/// How a core goes about it whose clock has no patience with those that it watches.
pub(crate) fn broken_clock() -> MeshOptions {
    MeshOptions {
        doubt_ms: 0,
        gone_ms: 0,
        answer_ms: 0,
        ..MeshOptions::default()
    }
}

impl MeshNodes {
    /// A node signs a vote against every other one, watched by it or not, and tells those that it is
    /// linked to. `round`: higher each time.
    pub(crate) fn slander(&mut self, liar: usize, round: u64, out: &mut Effects<MeshFrame>) {
        let Some(core) = self.core(liar) else { return };
        let others = core.ever().filter(|member| member.index() != liar);
        let votes = others.take(VOTES).map(|subject| Vote {
            subject,
            incarnation: Incarnation(core.member(subject).map_or(0, |view| view.incarnation.0)),
            level: SuspicionLevel::Gone,
            heard: false,
        });
        let body = WatchBody {
            votes: votes.collect(),
        };
        let version = RecordVersion {
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
            self.inject(to, MeshFrame::Push(push), out);
        }
    }
}
