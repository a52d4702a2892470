//! The cluster's users, their tokens and the keys that its members share.
//!
//! A member knows them by the newest [`ClusterMap`] that it was given. It lies in a file, so that
//! tokens are good and secrets open also after a restart with nobody to ask.

mod file;
mod storages;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_control::cluster::{AdminScheduling, ClusterMap, ClusterUser, Rights, UserGroup};
use muster_gossip::key::ClusterId;
use muster_model::id::{GroupName, NodeId, UserName, VcName};
use muster_model::user_token::UserTokenId;
use muster_portal_gateway::LogLinkKey;
use tokio::sync::watch;

use crate::keyring::{self, Keyring};
use crate::token_uses::TokenUses;

/// Why users and keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccountsError {
    /// Keys. Nothing was changed.
    #[error(transparent)]
    Keys(#[from] keyring::KeyringError),
    /// The cluster map holds, but is not on disk.
    #[error("cannot keep the cluster's users and keys in {path}")]
    Keep {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The cluster has not told this member its users and keys yet.
#[derive(Debug, thiserror::Error)]
#[error("this node has not heard the cluster's users and keys yet; try again")]
pub(crate) struct NoClusterMap;

/// What of a user everybody may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Their address, may be empty.
    pub(crate) email: String,
    /// Their groups.
    pub(crate) groups: BTreeSet<GroupName>,
    /// What they may do.
    pub(crate) rights: Rights,
    /// Rises with every change.
    pub(crate) revision: u64,
    /// What clients keep with the user.
    pub(crate) extension: serde_json::Value,
}

/// Users and keys. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Accounts(Arc<AccountsInner>);

#[derive(Debug)]
struct AccountsInner {
    /// Where the cluster map of the cluster is kept that the node is in.
    file: Mutex<PathBuf>,
    now: watch::Sender<AccountSource>,
    link: watch::Sender<LogLinkKey>,
    /// When tokens were used here.
    uses: TokenUses,
    /// Held by whoever changes the file and what follows from it.
    changing: Mutex<()>,
}

/// Where users and keys come from.
#[derive(Clone, Debug)]
pub(crate) enum AccountSource {
    /// Nobody yet: the node is in this cluster, or is about to found its own.
    Waiting(Option<ClusterId>),
    /// The cluster's cluster map.
    ClusterMap(Arc<ClusterMap>, Arc<Keyring>),
}

impl AccountSource {
    fn cluster(&self) -> Option<ClusterId> {
        match self {
            Self::Waiting(cluster) => *cluster,
            Self::ClusterMap(cluster_map, _) => Some(cluster_map.cluster),
        }
    }

    /// The members that an admin keeps jobs off.
    pub(crate) fn closed(&self) -> BTreeMap<NodeId, AdminScheduling> {
        match self {
            Self::Waiting(_) => BTreeMap::new(),
            Self::ClusterMap(cluster_map, _) => cluster_map.closed.clone(),
        }
    }

    /// The version of the cluster map; 0 without one.
    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Waiting(_) => 0,
            Self::ClusterMap(cluster_map, _) => cluster_map.version,
        }
    }
}

/// Writes what a cluster tells its members, before this node enters it.
///
/// # Errors
/// [`AccountsError::Keep`].
pub(crate) fn keep(file: &Path, cluster_map: &ClusterMap) -> Result<(), AccountsError> {
    file::write(file, cluster_map).map_err(|source| AccountsError::Keep {
        path: file.to_owned(),
        source,
    })
}

impl Accounts {
    /// None yet: the node is in no cluster.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AccountsInner {
            file: Mutex::default(),
            now: watch::Sender::new(AccountSource::Waiting(None)),
            // Nobody knows it: links are good once the cluster's key is known.
            link: watch::Sender::new(LogLinkKey(rand::random())),
            uses: TokenUses::default(),
            changing: Mutex::default(),
        }))
    }

    /// This node is a member of that cluster from now on. What the cluster told it before, which lies
    /// in this file, holds until there is something newer.
    pub(crate) fn enter(&self, cluster: ClusterId, file: PathBuf) {
        let _changing = self.changing();
        let stored = file::read(&file).filter(|kept| kept.cluster == cluster);
        *self.file() = file;
        let stored = stored.and_then(|cluster_map| self.source(cluster_map).ok());
        self.hold(stored.unwrap_or(AccountSource::Waiting(Some(cluster))));
    }

    /// Takes what the cluster told, if it is newer. Waits for the disk.
    ///
    /// # Errors
    /// When the keys are none, or the disk refuses.
    pub(crate) fn brief(&self, cluster_map: ClusterMap) -> Result<(), AccountsError> {
        let _changing = self.changing();
        let (cluster, version) = {
            let now = self.0.now.borrow();
            (now.cluster(), now.version())
        };
        if cluster != Some(cluster_map.cluster) || cluster_map.version <= version {
            return Ok(());
        }
        let source = self.source(cluster_map.clone())?;
        let file = self.file().clone();
        let kept = keep(&file, &cluster_map);
        // Without a disk it holds until the agent ends.
        self.hold(source);
        kept
    }

    fn file(&self) -> MutexGuard<'_, PathBuf> {
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys stay the same object while they are the same, with what was checked with them.
    fn source(&self, cluster_map: ClusterMap) -> Result<AccountSource, keyring::KeyringError> {
        let known = match &*self.0.now.borrow() {
            AccountSource::ClusterMap(_, keyring) => Some(Arc::clone(keyring)),
            AccountSource::Waiting(_) => None,
        };
        let keyring = match known.filter(|known| known.keys == cluster_map.keys) {
            Some(known) => known,
            None => Arc::new(Keyring::new(cluster_map.keys.clone())?),
        };
        Ok(AccountSource::ClusterMap(Arc::new(cluster_map), keyring))
    }

    fn hold(&self, source: AccountSource) {
        if let AccountSource::ClusterMap(_, keyring) = &source {
            self.0.link.send_replace(keyring.link());
        }
        self.0.now.send_replace(source);
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.0
            .changing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The members that an admin keeps jobs off.
    pub(crate) fn closed(&self) -> BTreeMap<NodeId, AdminScheduling> {
        self.0.now.borrow().closed()
    }

    /// Where they come from, and every change of that.
    pub(crate) fn watch(&self) -> watch::Receiver<AccountSource> {
        self.0.now.subscribe()
    }

    fn now(&self) -> AccountSource {
        self.0.now.borrow().clone()
    }

    /// The virtual clusters that the cluster map names; none without one.
    pub(crate) fn vcs(&self) -> Vec<VcName> {
        match self.now() {
            AccountSource::ClusterMap(cluster_map, _) => {
                cluster_map.vcs.iter().map(|it| it.vc.clone()).collect()
            }
            AccountSource::Waiting(_) => Vec::new(),
        }
    }

    /// The version of the cluster map; 0 without one.
    pub(crate) fn version(&self) -> u64 {
        self.0.now.borrow().version()
    }

    /// What this node was told last as a member.
    pub(crate) fn cluster_map(&self) -> Option<Arc<ClusterMap>> {
        match &*self.0.now.borrow() {
            AccountSource::ClusterMap(cluster_map, _) => Some(Arc::clone(cluster_map)),
            AccountSource::Waiting(_) => None,
        }
    }

    /// The key that signs links to logs, and every change of it.
    pub(crate) fn link_key(&self) -> watch::Receiver<LogLinkKey> {
        self.0.link.subscribe()
    }

    /// The keys.
    ///
    /// # Errors
    /// [`NoClusterMap`].
    pub(crate) fn keyring(&self) -> Result<Arc<Keyring>, NoClusterMap> {
        match &*self.0.now.borrow() {
            AccountSource::Waiting(_) => Err(NoClusterMap),
            AccountSource::ClusterMap(_, keyring) => Ok(Arc::clone(keyring)),
        }
    }

    /// The keys, once they are known.
    pub(crate) async fn keyring_soon(&self) -> Arc<Keyring> {
        let mut changes = self.watch();
        loop {
            if let Ok(keyring) = self.keyring() {
                return keyring;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// One user.
    pub(crate) fn account(&self, name: &str) -> Option<Account> {
        self.look(name, |user, cluster_map| Account {
            email: user.email.clone(),
            groups: user.groups.clone(),
            rights: Rights::of(&user.groups, &cluster_map.groups),
            revision: user.revision,
            extension: serde_json::from_str(&user.extension).unwrap_or_default(),
        })
    }

    /// All groups, by name.
    pub(crate) fn groups(&self) -> BTreeMap<GroupName, UserGroup> {
        self.cluster_map()
            .map(|cluster_map| cluster_map.groups.clone())
            .unwrap_or_default()
    }

    /// The users of a group, as far as is known here.
    pub(crate) fn members_of(&self, group: &GroupName) -> BTreeSet<UserName> {
        let Some(cluster_map) = self.cluster_map() else {
            return BTreeSet::new();
        };
        let users = cluster_map.users.iter();
        let members = users.filter(|(_, user)| user.groups.contains(group));
        members.map(|(name, _)| name.clone()).collect()
    }

    /// What a user may do; none if there is no such user, as far as is known here.
    pub(crate) fn rights(&self, name: &UserName) -> Option<Rights> {
        self.cluster_map()?.rights(name)
    }

    /// Every user's name, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        match self.now() {
            AccountSource::Waiting(_) => Vec::new(),
            AccountSource::ClusterMap(cluster_map, _) => {
                cluster_map.users.keys().map(ToString::to_string).collect()
            }
        }
    }

    /// Whether the holder of that token may do everything; `None` when the user does not hold
    /// it, as far as is known here.
    pub(crate) fn admin_by_token(&self, name: &str, text: &str) -> Option<bool> {
        let admin = |user: &ClusterUser, cluster_map: &ClusterMap| {
            let rights = || Rights::of(&user.groups, &cluster_map.groups);
            user.holds(text).then(|| rights().admin)
        };
        self.look(name, admin)?
    }

    /// When tokens were used at this node.
    pub(crate) fn uses(&self) -> &TokenUses {
        &self.0.uses
    }

    /// Whether a user holds a token of this id, as far as is known here.
    pub(crate) fn has_token(&self, name: &str, id: UserTokenId) -> bool {
        let has = |user: &ClusterUser, _: &ClusterMap| user.token(id).is_some();
        self.look(name, has).unwrap_or_default()
    }

    /// A user's tokens that are valid at `now_s` (seconds), oldest first.
    pub(crate) fn tokens(&self, name: &str, now_s: u64) -> Vec<String> {
        let texts = |user: &ClusterUser, _: &ClusterMap| {
            let valid = user.valid(now_s);
            valid.map(|token| token.text.0.clone()).collect()
        };
        self.look(name, texts).unwrap_or_default()
    }

    fn look<T>(&self, name: &str, look: impl FnOnce(&ClusterUser, &ClusterMap) -> T) -> Option<T> {
        match self.now() {
            AccountSource::Waiting(_) => None,
            AccountSource::ClusterMap(cluster_map, _) => {
                let name: UserName = name.parse().ok()?;
                let user = cluster_map.users.get(&name)?;
                Some(look(user, &cluster_map))
            }
        }
    }
}
