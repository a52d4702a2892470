//! Keeps the failures of this node's tasks, without secrets, and drops old ones.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use muster_model::protocol::Secrets;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::accounts::Accounts;
use crate::causes::causes;
use crate::executor::SealedSecrets;
use crate::failures::retention::{FailureName, KeptFailures, LIMITS};
use crate::failures::{FailureRecord, FailureStore, PendingFailure, SecretMask};
use crate::{clock, low_priority};

/// Between two looks whether failures have become too old.
const PAUSE: Duration = Duration::from_secs(3600);

/// What the loop is made of.
#[derive(Debug)]
pub(crate) struct FailuresLoop {
    pub(crate) store: FailureStore,
    pub(crate) pending: mpsc::UnboundedReceiver<PendingFailure>,
    /// Has the keys that secrets are opened with.
    pub(crate) accounts: Accounts,
    /// Holds a directory for each task, with its sealed secrets.
    pub(crate) tasks: PathBuf,
}

/// Why a failure was not kept.
#[derive(Debug, thiserror::Error)]
enum NotKept {
    #[error("the secrets of its job cannot be read, which must not be kept")]
    Secrets(#[source] anyhow::Error),
    #[error("it cannot be written")]
    Write(#[source] io::Error),
    #[error("its secrets cannot be searched for")]
    Mask(#[source] aho_corasick::BuildError),
    #[error("the work on it broke off")]
    Broken,
}

impl FailuresLoop {
    /// Runs until the agent ends.
    pub(crate) async fn run(mut self) {
        let mut kept = self.found().await;
        let mut looks = interval(PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                pending = self.pending.recv() => {
                    let Some(pending) = pending else { return };
                    let uid = pending.note.uid.clone();
                    match self.keep(pending).await {
                        Ok((name, bytes)) => kept.add(name, bytes),
                        Err(error) => {
                            tracing::warn!(%uid, error = causes(&error), "a failure is not kept");
                        }
                    }
                }
                _ = looks.tick() => {}
            }
            self.drop_surplus(&mut kept).await;
        }
    }

    /// The failures that an earlier life of the agent has left.
    async fn found(&self) -> KeptFailures {
        let store = self.store.clone();
        let listed = low_priority::run(move || store.tidy().and_then(|()| store.list())).await;
        let mut kept = KeptFailures::default();
        match listed {
            Some(Ok(found)) => found
                .into_iter()
                .for_each(|(name, bytes)| kept.add(name, bytes)),
            Some(Err(error)) => {
                let directory = self.store.directory().display();
                tracing::warn!(%directory, %error, "kept failures cannot be listed");
            }
            None => {}
        }
        kept
    }

    async fn keep(&self, pending: PendingFailure) -> Result<(FailureName, u64), NotKept> {
        let secrets = self.secrets(&pending).await.map_err(NotKept::Secrets)?;
        let store = self.store.clone();
        let work = move || {
            let mask = SecretMask::new(secrets.values()).map_err(NotKept::Mask)?;
            let now_ms = clock::now().as_millis();
            let PendingFailure { note, .. } = pending;
            let record = FailureRecord::of(note, &mask);
            let name = FailureName::new(record.exit.ended_ms, record.uid.clone(), now_ms);
            let bytes = store.write(&name, &record).map_err(NotKept::Write)?;
            Ok((name, bytes))
        };
        // Its room in the memory is free when this is done.
        low_priority::run(work).await.ok_or(NotKept::Broken)?
    }

    /// The secrets of the task's job.
    async fn secrets(&self, pending: &PendingFailure) -> anyhow::Result<Secrets> {
        let directory = self.tasks.join(pending.note.uid.as_str());
        let sealed = tokio::task::spawn_blocking(move || SealedSecrets::read(&directory));
        match sealed.await?? {
            Some(sealed) => Ok(sealed.open(&self.accounts).await?),
            None => Ok(Secrets::default()),
        }
    }

    async fn drop_surplus(&self, kept: &mut KeptFailures) {
        let dropped = kept.drop_surplus(LIMITS, clock::now().as_millis());
        if dropped.is_empty() {
            return;
        }
        let store = self.store.clone();
        let remove = move || dropped.iter().try_for_each(|name| store.remove(name));
        if let Some(Err(error)) = low_priority::run(remove).await {
            let directory = self.store.directory().display();
            tracing::warn!(%directory, %error, "old failures cannot be removed");
        }
    }
}
