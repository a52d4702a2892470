//! The storages of a task: mounted before its container is made, checked while it runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_exec::storage::{AttachedPlace, LostStorage, MountSource};
use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, UserName};
use muster_model::job::JobStorage;
use muster_model::launch::TaskSpec;
use muster_model::storage::{ClusterStorages, Storage, StorageKind};
use tokio::time::{MissedTickBehavior, interval};

use super::{ExecutorShared, StopRequest};
use crate::causes::causes;

/// Between two looks at the storages in use.
const PAUSE: Duration = Duration::from_secs(10);
/// Between the polite and the hard signal for a storage that does not answer: what waits for it hears no polite one.
const GRACE: Duration = Duration::from_secs(5);
/// The label with the storages that a container has, for the next life of the agent.
const LABEL: &str = "muster.io/storages";

/// The storages of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskStorages {
    /// Where they go in the container.
    pub(super) places: Vec<AttachedPlace>,
    /// Those that are mounted, by their keys, with how long they may be silent.
    held: Vec<(String, Option<Duration>)>,
}

impl TaskStorages {
    /// The label of a container that has them; none if it has none that are mounted.
    pub(super) fn label(&self) -> Option<(&'static str, String)> {
        let seconds = |limit: &Option<Duration>| limit.map_or(0, |limit| limit.as_secs());
        let entries = self.held.iter();
        let entries = entries.map(|(key, limit)| format!("{key}:{}", seconds(limit)));
        let text = entries.collect::<Vec<_>>().join(",");
        (!text.is_empty()).then_some((LABEL, text))
    }

    /// Those of a container that an earlier life of the agent made.
    fn of_labels(labels: &BTreeMap<String, String>) -> Vec<(String, Option<Duration>)> {
        let text = labels.get(LABEL).map_or("", String::as_str);
        text.split(',')
            .filter_map(|entry| {
                let (key, seconds) = entry.rsplit_once(':')?;
                let seconds: u64 = seconds.parse().ok()?;
                let limit = (seconds > 0).then(|| Duration::from_secs(seconds));
                Some((key.to_owned(), limit))
            })
            .collect()
    }
}

/// Has the storages of a task mounted.
///
/// # Errors
/// When one of them cannot be used: why, for the user.
pub(super) async fn acquire(
    shared: &ExecutorShared,
    spec: &TaskSpec,
) -> Result<TaskStorages, (Cause, String)> {
    let mut storages = TaskStorages::default();
    if spec.storages.is_empty() {
        return Ok(storages);
    }
    let declared = shared.storages_declared.now();
    for wanted in &spec.storages {
        let failed = |why: String| {
            let name = &wanted.name;
            (Cause::StorageFailed, format!("storage {name}: {why}"))
        };
        let declared = opened(shared, &declared, &wanted.name).await;
        let declared = declared.map_err(failed)?;
        let source = match MountSource::of(&declared) {
            None => return Err(failed("its type cannot be mounted".to_owned())),
            Some(MountSource::Host(path)) => path,
            Some(MountSource::Mounted(using)) => {
                let mounted = shared.storages.acquire(&spec.placement.uid, &using).await;
                let (source, key) = mounted.map_err(|error| failed(causes(&error)))?;
                storages.held.push((key, using.fail_after));
                source
            }
        };
        let place = place(source, &declared, wanted, &spec.job.user);
        storages.places.push(place);
    }
    Ok(storages)
}

/// A declared storage.
async fn opened(
    shared: &ExecutorShared,
    declared: &ClusterStorages,
    name: &str,
) -> Result<Storage, String> {
    let Some(storage) = declared.find(name) else {
        return Err("it is not declared any more, or this node does not know it yet".to_owned());
    };
    shared.accounts.open_storage(storage).await
}

fn place(
    source: PathBuf,
    declared: &Storage,
    wanted: &JobStorage,
    user: &UserName,
) -> AttachedPlace {
    let own = (!declared.share).then(|| user.to_string());
    let parts = wanted.sub_path.split('/').filter(|part| !part.is_empty());
    let names = own.into_iter().chain(parts.map(str::to_owned));
    AttachedPlace {
        source,
        is_storage: declared.kind != StorageKind::HostPath,
        below: names.collect(),
        creates: !declared.read_only,
        target: wanted.mount_path.clone().into(),
        read_only: declared.read_only || wanted.read_only,
    }
}

/// Notes what a container uses that an earlier life of the agent made.
pub(super) fn adopt(shared: &ExecutorShared, uid: &AttemptUid, labels: &BTreeMap<String, String>) {
    for (key, limit) in TaskStorages::of_labels(labels) {
        shared.storages.adopt(uid, &key, limit);
    }
}

/// Looks at the storages in use until the agent ends.
pub(super) async fn run(shared: Arc<ExecutorShared>) {
    let mut pause = interval(PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pause.tick().await;
        for LostStorage { user, message } in shared.storages.tend().await {
            // Requests for files end by themselves.
            let Some(uid) = user.task().cloned() else {
                continue;
            };
            tracing::warn!(%uid, message, "a task has lost a storage");
            let stop = StopRequest {
                cause: Cause::StorageFailed,
                message: message.into(),
                grace: GRACE,
            };
            shared.stop(&uid, stop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(share: bool, read_only: bool) -> Storage {
        let text = format!(
            "storages: [{{name: data, type: hostPath, data: {{path: /srv}}, share: {share}, readOnly: {read_only}}}]"
        );
        ClusterStorages::read(&text).unwrap().storages.remove(0)
    }

    #[test]
    fn users_have_directories_of_their_own_where_they_do_not_share() {
        let wanted = JobStorage {
            sub_path: "train/run1".to_owned(),
            ..JobStorage::usual("data".to_owned())
        };
        for (share, read_only, names) in [
            (true, false, &["train", "run1"][..]),
            (false, true, &["ada", "train", "run1"]),
        ] {
            let declared = declared(share, read_only);
            let place = place("/srv".into(), &declared, &wanted, &"ada".parse().unwrap());
            assert_eq!(place.below, names);
            assert_eq!(place.creates, !read_only);
            assert_eq!(
                (place.target, place.read_only),
                ("/mnt/data".into(), read_only)
            );
        }
    }

    #[test]
    fn a_label_brings_them_over_a_restart() {
        assert_eq!(TaskStorages::default().label(), None);
        let held = vec![
            ("data-0a1b2c".to_owned(), Some(Duration::from_secs(600))),
            ("home.v2-ffffff".to_owned(), None),
        ];
        let storages = TaskStorages {
            held: held.clone(),
            ..TaskStorages::default()
        };
        let (name, text) = storages.label().unwrap();
        let labels = BTreeMap::from([(name.to_owned(), text)]);
        assert_eq!(TaskStorages::of_labels(&labels), held);
        assert_eq!(TaskStorages::of_labels(&BTreeMap::new()), []);
    }
}
