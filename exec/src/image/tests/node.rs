//! A machine of one test's own, and what can be seen on it from outside.

use std::time::Duration;

use crate::image::{ImageError, ImageRecord, ImageStore, RegistrySettings, Settings};
use crate::testing::PrivateContainerd;

pub(super) struct Node {
    pub(super) containerd: PrivateContainerd,
    pub(super) store: ImageStore,
}

/// What must be gone after a failure or a removal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    images: usize,
    content: usize,
    snapshots: usize,
    ingests: usize,
    leases: usize,
}

impl Node {
    /// `None` where no containerd can run, which is told.
    pub(super) fn start(test: &str) -> Option<Self> {
        let containerd = PrivateContainerd::start_or_skip(test, "runc")?;
        let store = Self::open(&containerd, RegistrySettings::default());
        Some(Self { containerd, store })
    }

    pub(super) fn open(containerd: &PrivateContainerd, registries: RegistrySettings) -> ImageStore {
        let settings = Settings {
            socket: containerd.socket(),
            namespace: containerd.config().namespace,
            call_timeout: Duration::from_secs(5),
            ..Settings::default()
        };
        ImageStore::new(settings, registries).unwrap()
    }

    pub(super) async fn import(
        &self,
        archive: Vec<u8>,
        name: Option<&str>,
    ) -> Result<Vec<ImageRecord>, ImageError> {
        self.store
            .import(std::io::Cursor::new(archive), name)
            .finish()
            .await
    }

    /// Output of containerd's own tool, which must succeed.
    pub(super) fn ctr(&self, args: &[&str]) -> String {
        let output = self.containerd.ctr(args).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ctr {args:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs the garbage collector and waits for it.
    pub(super) fn collect(&self) {
        let lease = self.ctr(&["leases", "create"]);
        self.ctr(&["leases", "delete", "--sync", lease.trim()]);
    }

    pub(super) fn left(&self) -> Left {
        let lines = |args: &[&str], header: usize| {
            self.ctr(args)
                .lines()
                .filter(|l| !l.is_empty())
                .count()
                .saturating_sub(header)
        };
        Left {
            images: lines(&["images", "list", "-q"], 0),
            content: lines(&["content", "list", "-q"], 0),
            snapshots: lines(&["snapshots", "list"], 1),
            ingests: lines(&["content", "active"], 1),
            leases: lines(&["leases", "list", "-q"], 0),
        }
    }

    /// What the command prints in a container of the image.
    pub(super) fn run(&self, image: &str, command: &[&str]) -> String {
        // On a busy machine ctr may leave before it has copied what was written last.
        let lasting = format!("{}; e=$?; sleep 0.3; exit $e", command.join(" "));
        let probe = ["run", "--rm", image, "probe", "/bin/busybox", "sh", "-c"];
        self.ctr(&[&probe[..], &[&lasting]].concat())
    }
}
