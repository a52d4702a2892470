//! Asking for the cluster's users and keys, and for newer ones.

use std::sync::Arc;
use std::time::Duration;

use muster_control::member::routing;
use muster_control::request::RequestFailure;
use muster_control::request::cluster::GetClusterMap;
use muster_gossip::Mesh;
use muster_gossip::member::MemberId;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep_until, timeout};

use crate::accounts::Accounts;
use crate::requests::RequestRouter;

/// Pause after a question that a client's token caused in vain: whoever shows a revoked one again and again
/// costs the leader no more than that.
const PAUSE: Duration = Duration::from_secs(1);
/// How long one question may take: an election takes less.
const LIMIT: Duration = Duration::from_secs(3);

/// The last question.
#[derive(Clone, Copy, Debug)]
struct LastRequest {
    at: Instant,
    answered: bool,
    /// A token caused it, and is not known after it either, as far as anybody has waited to see.
    in_vain: bool,
}

impl LastRequest {
    /// Whether it tells all that was known at `since`.
    fn is_after(&self, since: Instant) -> bool {
        self.at > since
    }

    /// Until when the next question for a token waits.
    fn rests_until(&self, now: Instant) -> Option<Instant> {
        let again = self.at + PAUSE;
        (self.in_vain && now < again).then_some(again)
    }
}

/// Keeps what this member was told up to date.
#[derive(Debug)]
pub(crate) struct ClusterMapClient {
    accounts: Accounts,
    requests: RequestRouter,
    asked: Mutex<Option<LastRequest>>,
    /// Rung when there is something newer.
    bell: Arc<Notify>,
}

impl ClusterMapClient {
    pub(super) fn new(accounts: Accounts, requests: RequestRouter, bell: Arc<Notify>) -> Self {
        Self {
            accounts,
            requests,
            asked: Mutex::default(),
            bell,
        }
    }

    /// The version that this member has; 0 for none.
    pub(crate) fn version(&self) -> u64 {
        self.accounts.version()
    }

    /// Has the loop ask.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Rings when there is something newer.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Has what the leader knew at `since`, or later. Others who want the same share a question.
    ///
    /// # Errors
    /// When no leader answered in time, or the disk refuses.
    pub(crate) async fn refresh(&self, since: Instant) -> Result<(), RequestFailure> {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|last| last.answered && last.is_after(since)) {
            return Ok(());
        }
        self.ask(&mut asked, false).await
    }

    /// The same for a token of which `is_known` says whether it is known here. After a question in vain
    /// there is none for a second; who waits for the next one shares it.
    pub(crate) async fn catch_up(&self, since: Instant, is_known: impl Fn() -> bool) {
        loop {
            let mut asked = self.asked.lock().await;
            if is_known() || asked.is_some_and(|last| last.is_after(since)) {
                return;
            }
            if let Some(again) = asked.and_then(|last| last.rests_until(Instant::now())) {
                // The loop must be able to ask meanwhile.
                drop(asked);
                sleep_until(again).await;
                continue;
            }
            // In vain unless it helps: whoever hangs up meanwhile does not get around the pause.
            if let Err(error) = self.ask(&mut asked, true).await {
                tracing::debug!(%error, "a token is not known here, and nobody could be asked");
            }
            if let Some(last) = asked.as_mut() {
                last.in_vain = !is_known();
            }
            return;
        }
    }

    /// Has the newest one, if the leader answers in time. Otherwise this node goes by the one that it has.
    pub(crate) async fn refresh_now(&self) {
        if let Err(error) = self.refresh(Instant::now()).await {
            tracing::debug!(%error, "the newest cluster map is not known here yet");
        }
    }

    async fn ask(
        &self,
        asked: &mut Option<LastRequest>,
        in_vain: bool,
    ) -> Result<(), RequestFailure> {
        let at = Instant::now();
        // Before: whoever waits may go away meanwhile.
        let asked = asked.insert(LastRequest {
            at,
            answered: false,
            in_vain,
        });
        let told = self.told().await;
        asked.answered = told.is_ok();
        told
    }

    async fn told(&self) -> Result<(), RequestFailure> {
        let asked = timeout(LIMIT, self.requests.cluster(GetClusterMap)).await;
        let late = |_| RequestFailure::unavailable("no leader has answered in time");
        let cluster_map = asked.map_err(late)??;
        let accounts = self.accounts.clone();
        let taking = tokio::task::spawn_blocking(move || accounts.brief(cluster_map));
        let failed = |error: &dyn std::error::Error| {
            RequestFailure::unavailable(crate::causes::causes(error))
        };
        let taken = taking.await.map_err(|error| failed(&error))?;
        taken.map_err(|error| failed(&error))
    }
}

/// The highest version that this member tells of, or any.
pub(crate) fn newest(mesh: &Mesh, who: Option<MemberId>) -> u64 {
    let told = |id| routing::record(mesh, id).map_or(0, |record| record.cluster_map);
    match who {
        Some(id) => told(id),
        None => mesh.members().map(told).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_after_a_question_in_vain_does_a_token_wait_for_the_next_one() {
        let at = Instant::now();
        let asked = |in_vain| LastRequest {
            at,
            answered: true,
            in_vain,
        };
        let soon = at + PAUSE / 2;
        assert_eq!(asked(false).rests_until(soon), None);
        assert_eq!(asked(true).rests_until(soon), Some(at + PAUSE));
        assert_eq!(asked(true).rests_until(at + PAUSE), None);
        assert!(asked(true).is_after(at - PAUSE) && !asked(true).is_after(soon));
    }
}
