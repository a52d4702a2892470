//! The cluster's users, their tokens and the keys that its members share.
//!
//! A member knows them by the newest [`Briefing`] that it was given. It lies in a file, so that
//! tokens are good and secrets open also after a restart with nobody to ask.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_control::cluster::{Briefing, Scheduling, User};
use muster_gossip::key::ClusterId;
use muster_model::id::{NodeId, UserName, VcName};
use muster_portal_gateway::LogLinkKey;
use tokio::sync::watch;

use crate::keyring::{self, Keyring};

/// Why users and keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Keys. Nothing was changed.
    #[error(transparent)]
    Keys(#[from] keyring::Error),
    /// The briefing holds, but is not on disk.
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
pub(crate) struct Unbriefed;

/// What of a user everybody may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Their address, may be empty.
    pub(crate) email: String,
    /// Whether they may do everything.
    pub(crate) admin: bool,
    /// What clients keep with the user.
    pub(crate) extension: serde_json::Value,
}

/// Users and keys. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Accounts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Where the briefing of the cluster is kept that the node is in.
    file: Mutex<PathBuf>,
    now: watch::Sender<Source>,
    link: watch::Sender<LogLinkKey>,
    /// Held by whoever changes the file and what follows from it.
    changing: Mutex<()>,
}

/// Where users and keys come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Nobody yet: the node is in this cluster, or is about to found its own.
    Waiting(Option<ClusterId>),
    /// The cluster's briefing.
    Briefed(Arc<Briefing>, Arc<Keyring>),
}

impl Source {
    fn cluster(&self) -> Option<ClusterId> {
        match self {
            Self::Waiting(cluster) => *cluster,
            Self::Briefed(briefing, _) => Some(briefing.cluster),
        }
    }

    /// The members that an admin keeps jobs off.
    pub(crate) fn closed(&self) -> BTreeMap<NodeId, Scheduling> {
        match self {
            Self::Waiting(_) => BTreeMap::new(),
            Self::Briefed(briefing, _) => briefing.closed.clone(),
        }
    }

    /// The version of the briefing; 0 without one.
    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Waiting(_) => 0,
            Self::Briefed(briefing, _) => briefing.version,
        }
    }
}

/// Writes what a cluster tells its members, before this node enters it.
///
/// # Errors
/// [`Error::Keep`].
pub(crate) fn keep(file: &Path, briefing: &Briefing) -> Result<(), Error> {
    file::write(file, briefing).map_err(|source| Error::Keep {
        path: file.to_owned(),
        source,
    })
}

impl Accounts {
    /// None yet: the node is in no cluster.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            file: Mutex::default(),
            now: watch::Sender::new(Source::Waiting(None)),
            // Nobody knows it: links are good once the cluster's key is known.
            link: watch::Sender::new(LogLinkKey(rand::random())),
            changing: Mutex::default(),
        }))
    }

    /// This node is a member of that cluster from now on. What the cluster told it before, which lies
    /// in this file, holds until there is something newer.
    pub(crate) fn enter(&self, cluster: ClusterId, file: PathBuf) {
        let _changing = self.changing();
        let briefed = file::read(&file).filter(|kept| kept.cluster == cluster);
        *self.file() = file;
        let briefed = briefed.and_then(|briefing| self.source(briefing).ok());
        self.hold(briefed.unwrap_or(Source::Waiting(Some(cluster))));
    }

    /// Takes what the cluster told, if it is newer. Waits for the disk.
    ///
    /// # Errors
    /// When the keys are none, or the disk refuses.
    pub(crate) fn brief(&self, briefing: Briefing) -> Result<(), Error> {
        let _changing = self.changing();
        let (cluster, version) = {
            let now = self.0.now.borrow();
            (now.cluster(), now.version())
        };
        if cluster != Some(briefing.cluster) || briefing.version <= version {
            return Ok(());
        }
        let source = self.source(briefing.clone())?;
        let file = self.file().clone();
        let kept = keep(&file, &briefing);
        // Without a disk it holds until the agent ends.
        self.hold(source);
        kept
    }

    fn file(&self) -> MutexGuard<'_, PathBuf> {
        self.0.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys stay the same object while they are the same, with what was checked with them.
    fn source(&self, briefing: Briefing) -> Result<Source, keyring::Error> {
        let known = match &*self.0.now.borrow() {
            Source::Briefed(_, keyring) => Some(Arc::clone(keyring)),
            Source::Waiting(_) => None,
        };
        let keyring = match known.filter(|known| known.keys == briefing.keys) {
            Some(known) => known,
            None => Arc::new(Keyring::new(briefing.keys.clone())?),
        };
        Ok(Source::Briefed(Arc::new(briefing), keyring))
    }

    fn hold(&self, source: Source) {
        if let Source::Briefed(_, keyring) = &source {
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
    pub(crate) fn closed(&self) -> BTreeMap<NodeId, Scheduling> {
        self.0.now.borrow().closed()
    }

    /// Where they come from, and every change of that.
    pub(crate) fn watch(&self) -> watch::Receiver<Source> {
        self.0.now.subscribe()
    }

    fn now(&self) -> Source {
        self.0.now.borrow().clone()
    }

    /// The virtual clusters that the briefing names; none without one.
    pub(crate) fn vcs(&self) -> Vec<VcName> {
        match self.now() {
            Source::Briefed(briefing, _) => briefing.vcs.iter().map(|it| it.vc.clone()).collect(),
            Source::Waiting(_) => Vec::new(),
        }
    }

    /// The version of the briefing; 0 without one.
    pub(crate) fn version(&self) -> u64 {
        self.0.now.borrow().version()
    }

    /// What this node was told last as a member.
    pub(crate) fn briefing(&self) -> Option<Arc<Briefing>> {
        match &*self.0.now.borrow() {
            Source::Briefed(briefing, _) => Some(Arc::clone(briefing)),
            Source::Waiting(_) => None,
        }
    }

    /// The key that signs links to logs, and every change of it.
    pub(crate) fn link_key(&self) -> watch::Receiver<LogLinkKey> {
        self.0.link.subscribe()
    }

    /// The keys.
    ///
    /// # Errors
    /// [`Unbriefed`].
    pub(crate) fn keyring(&self) -> Result<Arc<Keyring>, Unbriefed> {
        match &*self.0.now.borrow() {
            Source::Waiting(_) => Err(Unbriefed),
            Source::Briefed(_, keyring) => Ok(Arc::clone(keyring)),
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
        self.look(name, |user| Account {
            email: user.email.clone(),
            admin: user.admin,
            extension: serde_json::from_str(&user.extension).unwrap_or_default(),
        })
    }

    /// Every user's name, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        match self.now() {
            Source::Waiting(_) => Vec::new(),
            Source::Briefed(briefing, _) => {
                briefing.users.keys().map(ToString::to_string).collect()
            }
        }
    }

    /// Whether the holder of that token may do everything; `None` when the user does not hold
    /// it, as far as is known here.
    pub(crate) fn admin_by_token(&self, name: &str, text: &str) -> Option<bool> {
        self.look(name, |user| user.holds(text).then_some(user.admin))?
    }

    /// A user's tokens that are valid at `now_s` (seconds), oldest first.
    pub(crate) fn tokens(&self, name: &str, now_s: u64) -> Vec<String> {
        let texts = |user: &User| {
            let valid = user.valid(now_s);
            valid.map(|token| token.text.0.clone()).collect()
        };
        self.look(name, texts).unwrap_or_default()
    }

    fn look<T>(&self, name: &str, look: impl FnOnce(&User) -> T) -> Option<T> {
        match self.now() {
            Source::Waiting(_) => None,
            Source::Briefed(briefing, _) => {
                let name: UserName = name.parse().ok()?;
                briefing.users.get(&name).map(look)
            }
        }
    }
}
