//! Finds out how far the logs are committed that this node has copies of, so that a copy can say how old
//! its word is once its leader is gone.
//!
//! A leader's heartbeat would not do: it may have been on its way for long, or come from one that leads no
//! more. This is asked of the leader, which asks a majority.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use muster_consensus::GroupId;
use muster_control::request::member::ListCommitted;
use muster_gossip::member::MemberId;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::clock;
use crate::requests::RequestRouter;
use crate::vc::CommitMark;

/// A copy is asked for anew when its mark is so old.
const PAUSE: Duration = Duration::from_secs(10);
/// So often it is looked whether there is something to ask: a copy without a mark does not wait for one.
/// By this and the pause a copy may seem older than it is.
const LOOK: Duration = Duration::from_secs(2);
/// How long an answer is waited for.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A group to be asked about, and the last entry that the copy of it here has taken.
type Due = (GroupId, u64);

/// Runs until the mesh ends.
pub(crate) async fn run(requests: RequestRouter) {
    let mut pause = interval(LOOK);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        let groups = requests.led().served();
        requests.local_copies().marks().keep(&groups);
        let by_leader = by_leader(&requests, groups).await;
        let asked = by_leader
            .into_iter()
            .map(|(leader, due)| ask(&requests, leader, due));
        join_all(asked).await;
    }
}

/// Those that this node has copies of and that are due, by who leads them, as far as the copies know.
async fn by_leader(
    requests: &RequestRouter,
    groups: BTreeSet<GroupId>,
) -> BTreeMap<MemberId, Vec<Due>> {
    let mut led: BTreeMap<MemberId, Vec<Due>> = BTreeMap::new();
    for group in groups {
        let Ok(applied) = requests.local_copies().applied(group).await else {
            continue;
        };
        if !is_due(requests, group, applied) {
            continue;
        }
        if let Some(leader) = requests.leader_here(group).await {
            led.entry(leader).or_default().push((group, applied));
        }
    }
    led
}

fn is_due(requests: &RequestRouter, group: GroupId, applied: u64) -> bool {
    let known = requests.local_copies().marks().known_at(group, applied);
    let passed = known.map(|known| clock::since_boot().micros_since(known));
    passed.is_none_or(|us| u128::from(us) >= PAUSE.as_micros())
}

/// One message for all that somebody leads.
async fn ask(requests: &RequestRouter, leader: MemberId, due: Vec<Due>) {
    let asked = clock::since_boot();
    let groups = due.iter().map(|(group, _)| group.0).collect();
    let asked_for = requests.member(leader, ListCommitted { groups });
    let Ok(Ok(found)) = timeout(ANSWER_LIMIT, asked_for).await else {
        return;
    };
    let found: BTreeMap<u64, u64> = found.into_iter().collect();
    for (group, applied) in due {
        if let Some(index) = found.get(&group.0).copied() {
            let mark = CommitMark { asked, index };
            requests.local_copies().marks().set(group, applied, mark);
        }
    }
}
