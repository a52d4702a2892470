//! The helper that mounts storages on the host: one process for each step, because a dead server may hold a process
//! for ever. The agent waits for it no longer than it wants to.
//!
//! Storages are mounted in a mount namespace of their own. The host's own programs never see them, so `df` does not
//! hang with a dead server. A container gets a copy of a mount, made by `open_tree` and put into the container's own
//! namespace by `move_mount`: the container engine never resolves a path on a storage.
//!
//! A request comes as JSON on stdin, for it may hold a password. The answer goes as JSON to stdout.

mod attach;
pub mod files;
mod mount;
mod mount_table;
mod namespace;
mod problem;
mod request;

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use nix::sys::stat::{Mode, umask};

pub use self::problem::{StorageProblem, StorageProblemKind};
pub use self::request::{
    ABORTS_MAX, AttachedPlace, MountCall, StorageAnswer, StorageRequest, StorageStep, UnmountMode,
};

/// Most bytes of a request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Carries out the request on stdin.
pub fn run() -> ExitCode {
    let answer: StorageAnswer = read().and_then(|request| carry_out(&request));
    let Ok(text) = serde_json::to_vec(&answer) else {
        return ExitCode::FAILURE;
    };
    match io::stdout().write_all(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn read() -> Result<StorageRequest, StorageProblem> {
    let mut text = Vec::new();
    let read = io::stdin().take(REQUEST_BYTES_MAX).read_to_end(&mut text);
    read.map_err(|error| StorageProblem::of("read the request", &error))?;
    serde_json::from_slice(&text).map_err(|error| StorageProblem::failed(error.to_string()))
}

fn carry_out(request: &StorageRequest) -> Result<(), StorageProblem> {
    // The agent's own mask would hide what is made in containers from users that are not root.
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    match &request.step {
        StorageStep::Make => namespace::make(&request.namespace)
            .map_err(|error| StorageProblem::of("make the namespace of storages", &error)),
        StorageStep::Mount(call) => {
            enter(request)?;
            mount::mount(call)
        }
        StorageStep::Check { target } => {
            enter(request)?;
            mount::check(target)
        }
        StorageStep::Unmount { target, mode } => {
            // As after the machine was started anew: directories are left.
            if namespace::is_there(&request.namespace) {
                enter(request)?;
            }
            mount::unmount(target, *mode)
        }
        StorageStep::Attach { pid, places } => attach::attach(&request.namespace, *pid, places),
        StorageStep::Leave => namespace::drop_pin(&request.namespace)
            .map_err(|error| StorageProblem::of("unpin the namespace of storages", &error)),
    }
}

fn enter(request: &StorageRequest) -> Result<(), StorageProblem> {
    namespace::enter(&request.namespace).map_err(|error| {
        let kind = StorageProblemKind::NotMounted;
        let message = format!("the namespace of storages cannot be entered: {error}");
        StorageProblem { kind, message }
    })
}

#[cfg(test)]
mod tests;
