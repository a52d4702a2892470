//! Finds out how far the logs are committed that this node has copies of, so that a copy can say how old
//! its word is once its leader is gone.
//!
//! A leader's heartbeat would not do: it may have been on its way for long, or come from one that leads no
//! more. This is asked of the leader, which asks a majority.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use muster_consensus::GroupId;
use muster_gossip::member::MemberId;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::affairs::question::{Answer, Question};
use crate::clock;
use crate::mesh::authority::Authority;
use crate::vc::Mark;

/// Between two questions: by so much a copy may seem older than it is.
const PAUSE: Duration = Duration::from_secs(3);
/// So long an answer is waited for.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Runs until the mesh ends.
pub(crate) async fn run(authority: Authority) {
    let mut pause = interval(PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        let groups = authority.copies().groups();
        authority.copy_desk().marks().keep(&groups);
        let by_leader = by_leader(&authority, groups).await;
        let asked = by_leader
            .into_iter()
            .map(|(leader, groups)| ask(&authority, leader, groups));
        join_all(asked).await;
    }
}

/// Those that this node has copies of, by who leads them, as far as the copies know.
async fn by_leader(
    authority: &Authority,
    groups: BTreeSet<GroupId>,
) -> BTreeMap<MemberId, Vec<u64>> {
    let mut led: BTreeMap<MemberId, Vec<u64>> = BTreeMap::new();
    for group in groups {
        if let Some(leader) = authority.leader(group).await {
            led.entry(leader).or_default().push(group.0);
        }
    }
    led
}

/// One message for all that somebody leads.
async fn ask(authority: &Authority, leader: MemberId, groups: Vec<u64>) {
    let asked = clock::since_boot();
    let question = Question::Committed { groups };
    let answer = timeout(ANSWER_LIMIT, authority.ask_at(leader, question)).await;
    if let Ok(Answer::Committed(found)) = answer {
        for (group, index) in found {
            let mark = Mark { asked, index };
            authority.copy_desk().marks().set(GroupId(group), mark);
        }
    }
}
