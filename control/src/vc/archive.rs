//! Jobs that have ended: a summary at hand, the rest packed.

use lz4_flex::block;
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
const UNPACKED_BYTES_MAX: usize = 256 << 20;

/// An ended job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub(crate) summary: JobSummary,
    /// Of its submission.
    pub(super) uid: AttemptUid,
    #[serde(with = "serde_bytes")]
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
        postcard::from_bytes(&unpack(&self.packed)?).ok()
    }

    fn bytes(&self) -> usize {
        self.packed.len()
    }
}

/// What a job takes before it is packed, mostly.
const UNPACKED_BYTES: usize = 1_024;

/// With LZ4: Deflate takes three times as long, each time a job ends, and saves a tenth of the bytes. The
/// longest part of a job, its document, was packed before.
fn pack(job: &Job) -> Option<Vec<u8>> {
    let bytes = postcard::to_extend(job, Vec::with_capacity(UNPACKED_BYTES)).ok()?;
    let mut packed = block::compress_prepend_size(&bytes);
    packed.shrink_to_fit();
    Some(packed)
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let (length, packed) = block::uncompressed_size(packed).ok()?;
    if length > UNPACKED_BYTES_MAX {
        return None;
    }
    block::decompress(packed, length).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_to_be_endless_is_not_read() {
        let mut packed = block::compress_prepend_size(&[7; 10_000]);
        assert_eq!(unpack(&packed), Some(vec![7; 10_000]));
        packed[3] = 0xff;
        assert_eq!(unpack(&packed), None);
        // Nor what ends before its time.
        assert_eq!(unpack(&packed[..2]), None);
    }
}
