//! All storages that are mounted on this node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_init::storage::{StorageProblemKind, StorageStep, UnmountMode};
use muster_model::id::AttemptUid;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::error::StorageError;
use super::slot::{MountSlot, SlotState, StorageUser};
use super::source::StorageUse;
use super::step_runner::StorageStepRunner;

/// What is waited for how long.
#[derive(Clone, Copy, Debug)]
pub struct StorageTimes {
    /// For a mount.
    pub mount: Duration,
    /// For the answer of a server.
    pub answer: Duration,
    /// An answer is good for this time; so is a failure.
    pub fresh: Duration,
    /// One that nobody uses is kept mounted for this time.
    pub idle: Duration,
}

impl Default for StorageTimes {
    fn default() -> Self {
        Self {
            mount: Duration::from_secs(20),
            answer: Duration::from_secs(5),
            fresh: Duration::from_secs(10),
            idle: Duration::from_secs(300),
        }
    }
}

/// What uses a storage that has not answered for as long as it may be silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostStorage {
    /// What uses it.
    pub user: StorageUser,
    /// Which storage, since when, and why.
    pub message: String,
}

/// The storages of this node.
#[derive(Debug)]
pub struct StorageMounts {
    steps: StorageStepRunner,
    /// Storages are mounted below it.
    directory: PathBuf,
    times: StorageTimes,
    slots: Mutex<BTreeMap<String, Arc<MountSlot>>>,
    /// Whether the namespace is there. Held for writing while it is made or given up.
    namespace: RwLock<bool>,
    /// The number of the next request for files.
    next: AtomicU64,
}

/// A storage that a request for files uses, as a task does. It is not unmounted before this is dropped.
#[derive(Debug)]
pub(super) struct MountHold {
    mounts: Arc<StorageMounts>,
    user: StorageUser,
}

impl Drop for MountHold {
    fn drop(&mut self) {
        self.mounts.leave(&self.user);
    }
}

impl StorageMounts {
    /// Storages mounted below `directory` by these steps. What an earlier life of the agent has left there is unmounted
    /// when it turns out to be idle.
    pub fn new(steps: StorageStepRunner, directory: &Path, times: StorageTimes) -> Self {
        let directory = directory.join("mounts");
        // These are the places on the machine's own disk: what is mounted on them is not seen outside of the namespace.
        let left = std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten();
        let keys = left.filter_map(|entry| entry.file_name().into_string().ok());
        let slots = keys.map(|key| {
            let slot = MountSlot::new(name_of(&key).to_owned(), directory.join(&key));
            (key, Arc::new(slot))
        });
        Self {
            steps,
            slots: Mutex::new(slots.collect()),
            directory,
            times,
            namespace: RwLock::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Has a storage mounted for a task, and gives where it is in the namespace of storages, and what
    /// [`StorageMounts::adopt`] takes.
    ///
    /// # Errors
    /// When it cannot be mounted, or its server does not answer. The task does not count as a user then.
    pub async fn acquire(
        &self,
        uid: &AttemptUid,
        wanted: &StorageUse,
    ) -> Result<(PathBuf, String), StorageError> {
        let user = StorageUser::Task(uid.clone());
        let source = self.use_by(&user, wanted).await?;
        Ok((source, wanted.key.clone()))
    }

    /// Has a storage mounted for a request for files, and gives where it is in the namespace of storages.
    pub(super) async fn hold(
        mounts: &Arc<Self>,
        wanted: &StorageUse,
    ) -> Result<(PathBuf, MountHold), StorageError> {
        let hold = MountHold {
            mounts: Arc::clone(mounts),
            user: StorageUser::Files(mounts.next.fetch_add(1, Ordering::Relaxed)),
        };
        let source = mounts.use_by(&hold.user, wanted).await?;
        Ok((source, hold))
    }

    async fn use_by(
        &self,
        user: &StorageUser,
        wanted: &StorageUse,
    ) -> Result<PathBuf, StorageError> {
        let slot = self.slot(&wanted.key, |state| {
            state.waiting.insert(user.clone());
        });
        let ready = self.ready(&slot, wanted).await;
        let mut state = slot.state();
        match ready {
            // It may have been told meanwhile that the task is gone.
            Ok(()) if state.waiting.remove(user) => {
                state.users.insert(user.clone(), wanted.fail_after);
            }
            Ok(()) => {}
            Err(error) => {
                state.leave(user);
                return Err(error);
            }
        }
        Ok(slot.target.clone())
    }

    /// Notes that a task that an earlier life of the agent began uses a storage.
    pub fn adopt(&self, uid: &AttemptUid, key: &str, fail_after: Option<Duration>) {
        self.slot(key, |state| {
            let user = StorageUser::Task(uid.clone());
            state.users.insert(user, fail_after);
        });
    }

    /// Notes that a task is gone.
    pub fn release(&self, uid: &AttemptUid) {
        self.leave(&StorageUser::Task(uid.clone()));
    }

    fn leave(&self, user: &StorageUser) {
        let slots: Vec<_> = self.lock().values().cloned().collect();
        for slot in slots {
            slot.state().leave(user);
        }
    }

    /// Asks all servers of storages in use, unmounts what has been idle for long enough, and tells what has lost a
    /// storage. For every few seconds.
    pub async fn tend(self: &Arc<Self>) -> Vec<LostStorage> {
        let slots = self.lock().clone();
        let mut checks = JoinSet::new();
        for (key, slot) in slots {
            let mounts = Arc::clone(self);
            checks.spawn(async move { mounts.tend_one(&key, &slot).await });
        }
        checks.join_all().await.into_iter().flatten().collect()
    }

    async fn tend_one(&self, key: &str, slot: &MountSlot) -> Vec<LostStorage> {
        // A step of a task is its own check.
        let Ok(_step) = slot.step.try_lock() else {
            return Vec::new();
        };
        let (is_over, is_used) = {
            let state = slot.state();
            let is_over = state.is_idle() && state.idle_since.elapsed() >= self.times.idle;
            (is_over, !state.users.is_empty())
        };
        if is_over {
            self.unmount(key, slot).await;
        }
        // What no task uses need not be mounted: a failure to find it would keep those away that come for it.
        if !is_used {
            return Vec::new();
        }
        let begun = Instant::now();
        let said = self.check(slot).await;
        slot.note(begun, &said);
        let lost = lost(slot);
        let was_lost = std::mem::replace(&mut slot.state().is_lost, !lost.is_empty());
        if was_lost && !lost.is_empty() {
            // Tasks that wait for the server cannot end before their requests fail. Not at first: a task that meets such
            // a failure before it is told to end would seem to have failed by itself.
            let _ = self.unmount_step(slot, UnmountMode::Abort).await;
        }
        lost
    }

    /// Has it mounted, with a server that has answered lately.
    async fn ready(&self, slot: &MountSlot, wanted: &StorageUse) -> Result<(), StorageError> {
        let _step = slot.step.lock().await;
        if let Some(known) = self.known(slot) {
            return known;
        }
        let begun = Instant::now();
        let said = self.mounted(slot, wanted).await;
        slot.note(begun, &said);
        said
    }

    /// What a step has said that is not long ago.
    fn known(&self, slot: &MountSlot) -> Option<Result<(), StorageError>> {
        let state = slot.state();
        match &state.failure {
            Some(failure) => {
                let is_fresh = failure.at.elapsed() < self.times.fresh / 2;
                is_fresh.then(|| Err(failure.error.clone()))
            }
            None => {
                let answered = state.answered?;
                (answered.elapsed() < self.times.fresh).then_some(Ok(()))
            }
        }
    }

    async fn mounted(&self, slot: &MountSlot, wanted: &StorageUse) -> Result<(), StorageError> {
        self.mount(slot, wanted).await?;
        match self.check(slot).await {
            // As with a server that was made anew: what is mounted is of no use any more. Tasks that use it are told
            // by its checks, so with them it stays.
            Err(StorageError::Refused(_)) if slot.state().users.is_empty() => {
                let _ = self.unmount_step(slot, UnmountMode::Detach).await;
                self.mount(slot, wanted).await?;
                self.check(slot).await
            }
            said => said,
        }
    }

    async fn mount(&self, slot: &MountSlot, wanted: &StorageUse) -> Result<(), StorageError> {
        let step = StorageStep::Mount(wanted.call(slot.target.clone()));
        if !*self.namespace.read().await {
            let mut is_there = self.namespace.write().await;
            self.steps.ask(StorageStep::Make, self.times.answer).await?;
            *is_there = true;
        }
        // Mounts do not wait for each other: one of them may be that of a server that is gone.
        let said = {
            let _is_there = self.namespace.read().await;
            self.steps.ask(step, self.times.mount).await
        };
        if is_not_mounted(&said) {
            // Something else has taken the namespace away.
            *self.namespace.write().await = false;
        }
        said
    }

    async fn check(&self, slot: &MountSlot) -> Result<(), StorageError> {
        let target = slot.target.clone();
        let step = StorageStep::Check { target };
        self.steps.ask(step, self.times.answer).await
    }

    async fn unmount_step(&self, slot: &MountSlot, mode: UnmountMode) -> Result<(), StorageError> {
        let target = slot.target.clone();
        let step = StorageStep::Unmount { target, mode };
        self.steps.ask(step, self.times.answer).await
    }

    async fn unmount(&self, key: &str, slot: &MountSlot) {
        let mut said = self.unmount_step(slot, UnmountMode::Idle).await;
        if said.is_err() {
            said = self.unmount_step(slot, UnmountMode::Detach).await;
        }
        if let Err(error) = said {
            // It is still there, and so is its slot: the next look tries again.
            tracing::warn!(storage = slot.name, %error, "cannot unmount an idle storage");
            return;
        }
        {
            let mut slots = self.lock();
            let mut state = slot.state();
            state.answered = None;
            // A task may have come for it: it has the slot, and mounts it anew.
            if state.is_idle() {
                slots.remove(key);
            }
        }
        self.leave_namespace().await;
    }

    /// Gives the namespace up if nothing is mounted in it.
    async fn leave_namespace(&self) {
        // A mount of another storage may take long, and it holds the namespace: it is waited for only if there is none.
        if !self.lock().is_empty() {
            return;
        }
        let mut is_there = self.namespace.write().await;
        if !self.lock().is_empty() {
            return;
        }
        match self.steps.ask(StorageStep::Leave, self.times.answer).await {
            Ok(()) => *is_there = false,
            Err(error) => tracing::warn!(%error, "cannot give up the namespace of storages"),
        }
    }

    /// The slot of a key, changed before anything else can remove it.
    fn slot(&self, key: &str, change: impl FnOnce(&mut SlotState)) -> Arc<MountSlot> {
        let mut slots = self.lock();
        let slot = slots.entry(key.to_owned()).or_insert_with(|| {
            let target = self.directory.join(key);
            Arc::new(MountSlot::new(name_of(key).to_owned(), target))
        });
        change(&mut slot.state());
        Arc::clone(slot)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<MountSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_not_mounted(said: &Result<(), StorageError>) -> bool {
    matches!(said, Err(StorageError::Refused(problem)) if problem.kind == StorageProblemKind::NotMounted)
}

/// The name of the storage that a key is of.
fn name_of(key: &str) -> &str {
    key.rsplit_once('-').map_or(key, |(name, _)| name)
}

/// What has lost it.
fn lost(slot: &MountSlot) -> Vec<LostStorage> {
    let state = slot.state();
    let Some(failure) = &state.failure else {
        return Vec::new();
    };
    let silent = failure.since.elapsed();
    let message = format!(
        "storage {} has not answered for {} s: {}",
        slot.name,
        silent.as_secs(),
        failure.error
    );
    let users = state.users.iter();
    users
        .filter(|(_, limit)| limit.is_some_and(|limit| silent >= limit))
        .map(|(user, _)| LostStorage {
            user: user.clone(),
            message: message.clone(),
        })
        .collect()
}
