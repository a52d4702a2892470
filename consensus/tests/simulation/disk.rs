//! A disk that loses what was not synced, in parts.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::Rng;
use rand::rngs::StdRng;
use redb::StorageBackend;

/// Bytes that a disk writes whole.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
struct FileState {
    /// What survives a crash.
    durable: Vec<u8>,
    /// What is read.
    current: Vec<u8>,
    /// What was done since the last sync.
    since: Vec<WriteStep>,
    /// Syncs until the power fails, in the middle of the next one.
    left: Option<u32>,
    /// The power has failed.
    dead: bool,
}

#[derive(Clone, Debug)]
enum WriteStep {
    Len(usize),
    Write(usize, Vec<u8>),
}

impl WriteStep {
    fn perform(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Len(len) => bytes.resize(*len, 0),
            Self::Write(offset, data) => {
                let end = offset + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(data);
            }
        }
    }
}

/// A file on it. Clones are the same file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<FileState>>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, FileState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power will fail in the sync after so many.
    pub(crate) fn fail_after(&self, syncs: u32) {
        self.state().left = Some(syncs);
    }

    /// The power fails: of what was not synced some sectors are there, some not. Gives the file
    /// as it is found afterwards; who still holds the old one writes to nothing.
    pub(crate) fn crash(&self, rng: &mut StdRng) -> Self {
        let state = self.state();
        let mut bytes = state.durable.clone();
        let keeps = rng.random_range(0..=100);
        for step in &state.since {
            match step {
                WriteStep::Len(_) => step.perform(&mut bytes),
                WriteStep::Write(offset, data) => {
                    for (place, sector) in data.chunks(SECTOR).enumerate() {
                        if rng.random_range(0..100) < keeps {
                            let at = offset + place * SECTOR;
                            WriteStep::Write(at, sector.to_vec()).perform(&mut bytes);
                        }
                    }
                }
            }
        }
        Self(Arc::new(Mutex::new(FileState {
            current: bytes.clone(),
            durable: bytes,
            since: Vec::new(),
            left: None,
            dead: false,
        })))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let state = self.state();
        let bytes = state.current.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.step(WriteStep::Len(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        match &mut state.left {
            None => {}
            Some(0) => state.dead = true,
            Some(left) => *left -= 1,
        }
        if state.dead {
            return Ok(());
        }
        for step in std::mem::take(&mut state.since) {
            step.perform(&mut state.durable);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        self.step(WriteStep::Write(offset, data.to_vec()));
        Ok(())
    }
}

impl Disk {
    fn step(&self, step: WriteStep) {
        let mut state = self.state();
        step.perform(&mut state.current);
        if !state.dead {
            state.since.push(step);
        }
    }
}
