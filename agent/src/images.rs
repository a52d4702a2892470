//! The images of this node, for tasks, which need one by name. For people: `cluster/images.rs`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use muster_exec::image::{ImageError, ImageRecord, ImageStore, RegistrySettings, Settings};
use muster_model::launch::RegistryAuth;
use muster_model::time::Time;

use crate::admitted::CheckedLogins;
use crate::clock;
use crate::config::AgentConfig;
use crate::pulls::Pulls;

/// A use of an image is noted at most so often: ten minutes.
const NOTE_PAUSE_US: u64 = 10 * 60 * 1_000_000;
/// So many images are remembered as noted; then all are forgotten.
const NOTED_MAX: usize = 1024;

/// Images that are named at most beside one that could not be had.
const ALIKE_MAX: usize = 3;

/// `busybox` of `docker.io/muster/busybox:latest`.
fn last_part(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

/// The image store, and what tasks use of it.
#[derive(Debug)]
pub(crate) struct NodeImages {
    store: ImageStore,
    /// What is on its way here for tasks.
    pulls: Pulls,
    /// When each image's use was noted last.
    noted: Mutex<BTreeMap<String, Time>>,
    /// Whether a job needs a login for an image that was pulled with one.
    checks_logins: bool,
    /// Who may use what, as the registries said lately.
    admitted: CheckedLogins,
}

impl NodeImages {
    /// Opens the store; containerd need not run yet.
    ///
    /// # Errors
    /// When a setting cannot be used.
    pub(crate) fn new(config: &AgentConfig) -> Result<Self, ImageError> {
        let containerd = Settings {
            socket: config.containerd.socket.clone(),
            namespace: config.containerd.namespace.clone(),
            snapshotter: config.containerd.snapshotter.clone(),
            ..Settings::default()
        };
        let registries = RegistrySettings {
            mirrors: config.images.mirrors.clone(),
            insecure: config.images.insecure.iter().cloned().collect(),
            ..RegistrySettings::default()
        };
        Ok(Self {
            store: ImageStore::new(containerd, registries)?,
            pulls: Pulls::default(),
            noted: Mutex::default(),
            checks_logins: config.images.check_logins,
            admitted: CheckedLogins::default(),
        })
    }

    /// What is on its way here for tasks.
    pub(crate) const fn pulls(&self) -> &Pulls {
        &self.pulls
    }

    /// The store, for people and for clearing up.
    pub(crate) const fn store(&self) -> &ImageStore {
        &self.store
    }

    /// The full name of an image that a job names, pulled if it is not here.
    ///
    /// # Errors
    /// When it is not here and cannot be had.
    pub(crate) async fn ensure(
        &self,
        name: &str,
        auth: Option<RegistryAuth>,
    ) -> Result<String, ImageError> {
        let image = match self.store.resolve(name).await {
            Ok(image) => {
                self.admit(&image, name, auth).await?;
                image
            }
            Err(ImageError::NotHere(_)) => self.fetch(name, auth).await?,
            Err(error) => return Err(error),
        };
        self.note_use(&image.name);
        Ok(image.name)
    }

    /// Images that are here under a name that ends as this one does: what a user may have meant.
    pub(crate) async fn alike(&self, wanted: &str) -> Vec<String> {
        let here = self.store.list().await.unwrap_or_default();
        let names = here.into_iter().map(|image| image.name);
        let same = names.filter(|name| last_part(name) == last_part(wanted));
        same.take(ALIKE_MAX).collect()
    }

    /// Whether a task with this login, or none, may use an image that is here.
    async fn admit(
        &self,
        image: &ImageRecord,
        name: &str,
        auth: Option<RegistryAuth>,
    ) -> Result<(), ImageError> {
        if !self.checks_logins {
            return Ok(());
        }
        let key = self.admitted.key(image, name, auth.as_ref());
        if self.admitted.holds(key, clock::now()) {
            return Ok(());
        }
        self.store.may_use(image, name, auth).await?;
        self.admitted.add(key, clock::now());
        Ok(())
    }

    async fn fetch(
        &self,
        name: &str,
        auth: Option<RegistryAuth>,
    ) -> Result<ImageRecord, ImageError> {
        tracing::info!(image = name, "pulling an image for a task");
        let pulling = self.pulls.begin(name);
        let pull = self.store.pull(name, auth);
        let images = pull.watched(|step| pulling.step(step)).await?;
        images
            .into_iter()
            .next()
            .ok_or_else(|| ImageError::NotHere(name.to_owned()))
    }

    /// Keeps the image from being cleared away soon. Off the task's path, and seldom: it only
    /// orders what is removed first, and costs containerd a sync of its database.
    fn note_use(&self, name: &str) {
        if !self.notable(name, clock::now()) {
            return;
        }
        let (store, name) = (self.store.clone(), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = store.mark_used(&name, clock::now()).await {
                tracing::debug!(%error, image = name, "the image's use was not noted");
            }
        });
    }

    /// Whether the image's last noted use is long ago at `now`; it counts as noted then.
    fn notable(&self, name: &str, now: Time) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |at: &Time| now.micros_since(*at) < NOTE_PAUSE_US;
        if noted.get(name).is_some_and(recent) {
            return false;
        }
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.insert(name.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_called_by_the_last_part_of_its_name() {
        for name in [
            "busybox",
            "muster/busybox",
            "docker.io/muster/busybox:latest",
            "r.example:5000/x/busybox@sha256:00",
        ] {
            assert_eq!(last_part(name), "busybox", "{name}");
        }
    }
}
