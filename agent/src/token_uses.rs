//! When users' tokens were used last at this node: noted in memory with each request, and told the leader of the
//! cluster now and then, many in one request. What was not told yet is lost where the agent ends.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_control::cluster::TOKEN_USES_MAX;
use muster_control::request::cluster::NoteTokenUses;
use muster_model::id::UserName;
use muster_model::user_token::{LAST_USE_STEP_S, TokenUse, UserTokenId};
use tokio::time::sleep;

use crate::accounts::Accounts;
use crate::requests::RequestRouter;

/// How often the leader is told.
const TELL: Duration = Duration::from_secs(300);
/// Tokens of which a use is remembered, at most; then all are forgotten that were told.
const REMEMBERED_MAX: usize = 20_000;

/// The last use of a token here.
#[derive(Clone, Debug)]
struct LastTokenUse {
    user: UserName,
    /// Rounded down.
    at_s: u64,
    /// Whether the leader knows.
    is_told: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TokenUses(Mutex<HashMap<UserTokenId, LastTokenUse>>);

impl TokenUses {
    /// A token is used at `now_s`, in seconds since the epoch.
    pub(crate) fn note(&self, user: &UserName, id: UserTokenId, now_s: u64) {
        let at_s = now_s - now_s % LAST_USE_STEP_S;
        let mut uses = self.lock();
        if uses.get(&id).is_some_and(|last| last.at_s >= at_s) {
            return;
        }
        if uses.len() >= REMEMBERED_MAX {
            uses.retain(|_, last| !last.is_told);
        }
        if uses.len() < REMEMBERED_MAX {
            let last = LastTokenUse {
                user: user.clone(),
                at_s,
                is_told: false,
            };
            uses.insert(id, last);
        }
    }

    /// The last use of a token here, in seconds since the epoch.
    pub(crate) fn last_s(&self, id: UserTokenId) -> Option<u64> {
        self.lock().get(&id).map(|last| last.at_s)
    }

    /// What the leader does not know yet, as much as one request holds.
    fn untold(&self) -> Vec<TokenUse> {
        let uses = self.lock();
        let untold = uses.iter().filter(|(_, last)| !last.is_told);
        let untold = untold.map(|(id, last)| TokenUse {
            user: last.user.clone(),
            id: *id,
            at_s: last.at_s,
        });
        untold.take(TOKEN_USES_MAX).collect()
    }

    /// The leader knows these.
    fn told(&self, told: &[TokenUse]) {
        let mut uses = self.lock();
        for it in told {
            if let Some(last) = uses.get_mut(&it.id)
                && last.at_s == it.at_s
            {
                last.is_told = true;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserTokenId, LastTokenUse>> {
        // Each change stands alone, so a panic elsewhere left no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the leader now and then. Runs until the mesh ends.
pub(crate) async fn run(accounts: Accounts, requests: RequestRouter) {
    loop {
        sleep(TELL).await;
        loop {
            let uses = accounts.uses().untold();
            let request = NoteTokenUses { uses: uses.clone() };
            if uses.is_empty() {
                break;
            }
            if let Err(error) = requests.cluster(request).await {
                tracing::debug!(%error, "the last uses of tokens are told later");
                break;
            }
            accounts.uses().told(&uses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_told_once_an_hour() {
        let uses = TokenUses::default();
        let (ada, id) = ("ada".parse().unwrap(), UserTokenId(1));
        assert_eq!((uses.last_s(id), uses.untold()), (None, Vec::new()));
        uses.note(&ada, id, 3_601);
        uses.note(&ada, id, 7_199);
        let first = TokenUse {
            user: ada.clone(),
            id,
            at_s: 3_600,
        };
        let untold = uses.untold();
        assert_eq!((uses.last_s(id), &untold), (Some(3_600), &vec![first]));
        uses.told(&untold);
        assert_eq!(uses.untold(), Vec::new());
        uses.note(&ada, id, 7_199);
        uses.note(&ada, id, 60);
        assert_eq!(uses.untold(), Vec::new(), "nothing new");
        uses.note(&ada, id, 7_200);
        assert_eq!(uses.untold()[0].at_s, 7_200);
        // What was told meanwhile is older.
        uses.told(&untold);
        assert_eq!(uses.untold().len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_told_in_parts() {
        let uses = TokenUses::default();
        let ada = "ada".parse().unwrap();
        let count = REMEMBERED_MAX as u64;
        for number in 0..count {
            uses.note(&ada, UserTokenId(number), 3_600);
        }
        uses.note(&ada, UserTokenId(count), 3_600);
        assert_eq!(uses.last_s(UserTokenId(count)), None, "there is no room");
        let part = uses.untold();
        assert_eq!(part.len(), TOKEN_USES_MAX);
        uses.told(&part);
        uses.note(&ada, UserTokenId(count), 3_600);
        assert_eq!(uses.last_s(UserTokenId(count)), Some(3_600));
        assert_eq!(uses.last_s(part[0].id), None);
    }
}
