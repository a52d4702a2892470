//! The helper that reads and writes files of storages for people: one process for each request, so that the agent never
//! waits for a server.
//!
//! The storage's directory becomes the root of the process, and paths are walked one name at a time without following
//! links: nothing leads out. A request, and the bytes that are to be written, come as frames on stdin; the answer goes
//! as frames to stdout. A process whose stdin ends before the frame [`END`] keeps what it has of an upload and ends.

mod channel;
mod list;
mod probe;
mod problem;
mod read;
mod request;
mod write;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use muster_tree::beneath::Beneath;
use muster_tree::{TreeReceiver, send};
use nix::sys::stat::{Mode, umask};

pub use self::channel::{BEAT, DATA, DATA_BYTES_MAX, DONE, END, ENTRIES, FAILED, HEAD, REQUEST};
use self::channel::{DataReader, DataWriter, FileChannel};
pub use self::problem::{FileProblem, FileProblemKind};
pub use self::request::{
    FileDone, FileEntry, FileEntryKind, FileHead, FileRequest, FileStep, ProbeDone, ReadStep,
    UPLOAD_CHARS_MAX, WriteStep,
};
use super::attach;
use super::namespace;

/// Carries out the request on stdin.
pub fn run() -> ExitCode {
    // The agent's own mask would hide what is made from users that are not root.
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let mut channel = FileChannel::new(io::stdin(), io::stdout());
    let done = channel.request().and_then(|request| {
        let root = enter(&request)?;
        carry_out(&root, &request, &mut channel)
    });
    let told = match done {
        Ok(()) => Ok(()),
        Err(problem) => channel.send_json(FAILED, &problem),
    };
    match told.and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Makes the directory that the request may see the root of this process.
fn enter(request: &FileRequest) -> Result<Beneath, FileProblem> {
    if request.root.is_storage {
        namespace::enter(&request.namespace)
            .map_err(|error| FileProblem::of("enter the namespace of storages", &error))?;
    }
    let directory = attach::directory(&request.root).map_err(|problem| FileProblem {
        kind: FileProblemKind::Failed,
        message: problem.message,
    })?;
    let changed = rustix::process::fchdir(&directory)
        .and_then(|()| rustix::process::chroot("."))
        .and_then(|()| rustix::process::chdir("/"));
    changed.map_err(|error| FileProblem::of("enter it", &error.into()))?;
    Ok(Beneath::of(directory))
}

fn carry_out(
    root: &Beneath,
    request: &FileRequest,
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let path = request.path.as_str();
    let is_change = matches!(
        request.step,
        FileStep::Write(_) | FileStep::ReceiveTree { .. }
    );
    if is_change && request.root.read_only {
        return Err(FileProblem::read_only());
    }
    match &request.step {
        FileStep::List { after, limit } => {
            list::list(root, path, (after.as_deref(), *limit), channel)
        }
        FileStep::Read(step) => read::read(root, path, step, channel),
        FileStep::Write(step) => write::write(root, path, step, channel),
        FileStep::Kept { upload } => write::kept(root, path, upload, channel),
        FileStep::SendTree { after, large } => {
            let directory = list::directory(root, path)?;
            channel.send_json(HEAD, &FileHead::default())?;
            let mut writer = io::BufWriter::with_capacity(DATA_BYTES_MAX, DataWriter(channel));
            send(&directory, after.as_deref(), *large, &mut writer)?;
            drop(writer);
            Ok(channel.send_json(DONE, &FileDone::default())?)
        }
        FileStep::ReceiveTree { token } => receive_tree(root, (path, token), channel),
        FileStep::Probe => probe::probe(root, request.root.read_only, channel),
    }
}

fn receive_tree(
    root: &Beneath,
    (path, token): (&str, &str),
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let directory = list::directory(root, path)?;
    channel.send_json(HEAD, &FileHead::default())?;
    let mut done = FileDone::default();
    let receiver = TreeReceiver::new(&directory, true, token.to_owned());
    let mut reader = io::BufReader::with_capacity(DATA_BYTES_MAX, DataReader::new(channel));
    receiver.receive(&mut reader, |record| {
        done.bytes += record.bytes;
        done.files += 1;
    })?;
    drop(reader);
    let synced = directory.sync();
    synced.map_err(|error| FileProblem::of_path(Path::new(path), &error))?;
    Ok(channel.send_json(DONE, &done)?)
}

#[cfg(test)]
mod tests;
