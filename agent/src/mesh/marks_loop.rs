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
use muster_model::time::Time;
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::requests::RequestRouter;
use crate::vc::CommitMark;

/// A copy is asked for anew when its mark is so old.
const PAUSE: Duration = Duration::from_secs(10);
/// How often the loop looks for copies to ask about. By this and the pause a copy may seem older than it is.
const LOOK: Duration = Duration::from_secs(2);
/// How often it looks while a copy here has no mark yet. If the leader is lost before the first mark, the
/// age of what the copy says stays unknown.
const LOOK_UNMARKED: Duration = Duration::from_millis(250);
/// How long an answer is waited for.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A group to be asked about, and the last entry that the copy of it here has taken.
type Copied = (GroupId, u64);

/// What is to be asked.
#[derive(Default)]
struct Due {
    /// By the member that leads them, as far as the copies know.
    by_leader: BTreeMap<MemberId, Vec<Copied>>,
    /// A copy here has no mark yet, whether or not its leader is known.
    unmarked: bool,
}

/// Runs until the mesh ends.
pub(crate) async fn run(requests: RequestRouter) {
    loop {
        let groups = requests.led().served();
        requests.local_copies().marks().keep(&groups);
        let Due {
            by_leader,
            unmarked,
        } = due(&requests, groups).await;
        let asked = by_leader
            .into_iter()
            .map(|(leader, due)| ask(&requests, leader, due));
        join_all(asked).await;
        sleep(if unmarked { LOOK_UNMARKED } else { LOOK }).await;
    }
}

/// The copies of this node that are due.
async fn due(requests: &RequestRouter, groups: BTreeSet<GroupId>) -> Due {
    let mut due = Due::default();
    for group in groups {
        let Ok(applied) = requests.local_copies().applied(group).await else {
            continue;
        };
        let known = requests.local_copies().marks().known_at(group, applied);
        due.unmarked |= known.is_none();
        if !is_old(known) {
            continue;
        }
        if let Some(leader) = requests.leader_here(group).await {
            let of_leader = due.by_leader.entry(leader).or_default();
            of_leader.push((group, applied));
        }
    }
    due
}

fn is_old(known: Option<Time>) -> bool {
    let passed = known.map(|known| clock::since_boot().micros_since(known));
    passed.is_none_or(|us| u128::from(us) >= PAUSE.as_micros())
}

/// One message for all that somebody leads.
async fn ask(requests: &RequestRouter, leader: MemberId, due: Vec<Copied>) {
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
