//! Has muster-init carry out a step of a storage: in a process of its own, within a time.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use muster_init::storage::{AttachedPlace, StorageAnswer, StorageRequest, StorageStep};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::error::StorageError;

/// How long a container may take to get its storages.
const ATTACH_LIMIT: Duration = Duration::from_secs(15);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Carries out steps of storages, each in a process of its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StorageStepRunner {
    program: Arc<PathBuf>,
    namespace: Arc<PathBuf>,
}

impl StorageStepRunner {
    /// One that runs this muster-init, with the namespace of storages pinned below `directory`.
    pub fn new(program: PathBuf, directory: PathBuf) -> Self {
        Self {
            program: Arc::new(program),
            namespace: Arc::new(directory.join("namespace/mnt")),
        }
    }

    /// Puts storages into a container that has not begun to run its commands.
    ///
    /// # Errors
    /// When one cannot be put there. The others may be there.
    pub async fn attach(&self, pid: u32, places: Vec<AttachedPlace>) -> Result<(), StorageError> {
        self.ask(StorageStep::Attach { pid, places }, ATTACH_LIMIT)
            .await
    }

    /// Has a step carried out, and waits for `limit` at most.
    pub(super) async fn ask(&self, step: StorageStep, limit: Duration) -> Result<(), StorageError> {
        let request = StorageRequest {
            namespace: self.namespace.as_ref().clone(),
            step,
        };
        let mut child = self.start("storage")?;
        let mut group = HelperGroup::of(&child);
        let answer = timeout(limit, talk(&mut child, &request)).await;
        if answer.is_ok() {
            group.0 = None;
        }
        match answer {
            Err(_) => Err(StorageError::Late(limit)),
            Ok(None) => Err(StorageError::NoAnswer),
            Ok(Some(answer)) => answer.map_err(StorageError::Refused),
        }
    }

    /// The file that the namespace of storages is mounted on.
    pub(super) fn namespace(&self) -> &Path {
        &self.namespace
    }

    /// Starts the helper in one of its modes.
    pub(super) fn start(&self, mode: &str) -> Result<Child, StorageError> {
        Command::new(&*self.program)
            .arg(mode)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| StorageError::Start {
                program: self.program.as_ref().clone(),
                source: Arc::new(error),
            })
    }
}

/// A helper and what it has started, as mount(8). Ends them when the answer is not waited for any more: what the kernel
/// does not end then is left to the kernel.
pub(super) struct HelperGroup(Option<Pid>);

impl HelperGroup {
    pub(super) fn of(child: &Child) -> Self {
        let number = child.id().and_then(|id| i32::try_from(id).ok());
        Self(number.map(Pid::from_raw))
    }
}

impl Drop for HelperGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

async fn talk(child: &mut Child, request: &StorageRequest) -> Option<StorageAnswer> {
    let text = serde_json::to_vec(request).ok()?;
    let mut stdin = child.stdin.take()?;
    // One that ends early says why on its other pipe, or nothing.
    let _ = stdin.write_all(&text).await;
    drop(stdin);
    let mut said = Vec::new();
    let stdout = child.stdout.take()?;
    let mut stdout = stdout.take(ANSWER_BYTES_MAX);
    stdout.read_to_end(&mut said).await.ok()?;
    let _ = child.wait().await;
    serde_json::from_slice(&said).ok()
}
