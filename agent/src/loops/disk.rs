//! Looks at the room on the disk that holds the state, so that new jobs are refused while there
//! is still enough left to record how those that run go on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statvfs::{FsFlags, statvfs};
use tokio::sync::watch;

use super::node::{NodeHandle, UnschedulableReason};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// Kept for what runs: its exits, and the logs that explain them.
const RESERVE_BYTES: u64 = 32 << 20;
const MIB: u64 = 1 << 20;

/// What is wrong with the disk, and what to do about it.
pub(crate) type DiskState = watch::Receiver<Option<String>>;

/// Starts the loop.
pub(crate) fn watch(directory: PathBuf) -> DiskState {
    let (sender, state) = watch::channel(problem(&directory));
    tokio::spawn(async move {
        while !sender.is_closed() {
            tokio::time::sleep(PAUSE).await;
            let directory = directory.clone();
            // A dead disk hangs the call.
            let problem = tokio::task::spawn_blocking(move || problem(&directory));
            let Ok(problem) = problem.await else { return };
            sender.send_if_modified(|known| {
                let changed = *known != problem;
                match &problem {
                    Some(text) if known.is_none() => tracing::error!("{text}"),
                    None if changed => tracing::info!("the state's disk has room again"),
                    _ => {}
                }
                *known = problem;
                changed
            });
        }
    });
    state
}

/// Has the node take no tasks while the disk has no room for what is kept of them.
pub(crate) async fn close(mut disk: DiskState, node: NodeHandle) {
    loop {
        let problem = disk.borrow_and_update().clone();
        node.closed(UnschedulableReason::Disk, problem).await;
        if disk.changed().await.is_err() {
            return;
        }
    }
}

fn problem(directory: &Path) -> Option<String> {
    let shown = directory.display();
    let disk = match statvfs(directory) {
        Ok(disk) => disk,
        Err(error) => return Some(format!("the disk of {shown} cannot be read: {error}")),
    };
    if disk.flags().contains(FsFlags::ST_RDONLY) {
        return Some(format!(
            "the disk of {shown} is read-only; see what the kernel says of it and mount it again"
        ));
    }
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    (free < RESERVE_BYTES).then(|| {
        format!(
            "the disk of {shown} is full: less than {} MiB are left; make room there",
            RESERVE_BYTES / MIB
        )
    })
}
