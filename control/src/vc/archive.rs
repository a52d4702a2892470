//! Jobs that have ended: a summary at hand, the rest packed.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use muster_model::id::AttemptUid;
use muster_model::view::JobSummary;
use serde::{Deserialize, Serialize};

use super::VcState;
use super::job::Job;
use crate::gang::JobId;

/// Ended jobs that are kept; the one that ended first goes first.
pub const FINISHED_JOBS_MAX: usize = 50_000;
/// Bytes of ended jobs that are kept, packed.
pub const FINISHED_BYTES_MAX: usize = 256 << 20;
/// The longest an ended job may unpack to; longer ones are not read.
const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// An ended job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub(crate) summary: JobSummary,
    /// Of its submission.
    pub(super) uid: AttemptUid,
    packed: Vec<u8>,
}

impl Finished {
    fn new(job: &Job) -> Self {
        Self {
            summary: super::query::summary(job),
            uid: job.accepted.uid.clone(),
            packed: pack(job).unwrap_or_default(),
        }
    }

    pub(crate) fn unpack(&self) -> Option<Job> {
        let mut bytes = Vec::new();
        let reader = DeflateDecoder::new(self.packed.as_slice());
        reader
            .take(UNPACKED_BYTES_MAX)
            .read_to_end(&mut bytes)
            .ok()?;
        postcard::from_bytes(&bytes).ok()
    }

    fn bytes(&self) -> usize {
        self.packed.len()
    }
}

fn pack(job: &Job) -> Option<Vec<u8>> {
    let bytes = postcard::to_stdvec(job).ok()?;
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&bytes).ok()?;
    let mut packed = encoder.finish().ok()?;
    packed.shrink_to_fit();
    Some(packed)
}

impl VcState {
    /// Moves an ended job to the archive and drops the oldest beyond the limits.
    pub(super) fn archive(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else {
            return;
        };
        let finished = Finished::new(&job);
        self.finished_bytes += finished.bytes();
        self.finished.insert(id, finished);
        self.finished_order.push_back(id);
        while self.finished.len() > FINISHED_JOBS_MAX || self.finished_bytes > FINISHED_BYTES_MAX {
            let Some(oldest) = self.finished_order.pop_front() else {
                return;
            };
            if let Some(job) = self.finished.remove(&oldest) {
                self.finished_bytes -= job.bytes();
                self.index.names.remove(&job.summary.key, oldest);
            }
        }
    }
}
