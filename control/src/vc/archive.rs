//! Jobs that have ended: a summary at hand, the rest packed.

use lz4_flex::block;
use muster_model::id::AttemptUid;
use muster_model::view::JobSummary;
use serde::{Deserialize, Serialize};

use super::VcState;
use super::entry::VcApplied;
use super::job::JobRecord;
use crate::gang::JobId;

/// Ended jobs that are kept; the one that ended first goes first.
pub const FINISHED_JOBS_MAX: usize = 50_000;
/// Bytes of ended jobs that are kept, packed.
pub const FINISHED_BYTES_MAX: usize = 256 << 20;
/// How long an ended job is kept: 90 days, in hours that leaders have counted; so it may be longer. By times of
/// day a clock that is months ahead would have all of it forgotten.
pub const FINISHED_HOURS_MAX: u64 = 90 * 24;
/// The longest an ended job may unpack to; longer ones are not read.
const UNPACKED_BYTES_MAX: usize = 256 << 20;

/// An ended job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub(crate) summary: JobSummary,
    /// Of its submission.
    pub(super) uid: AttemptUid,
    /// Hours that leaders had counted when it ended.
    hour: u64,
    #[serde(with = "serde_bytes")]
    packed: Vec<u8>,
}

impl Finished {
    fn new(job: &JobRecord, hour: u64) -> Self {
        Self {
            hour,
            summary: super::query::summary(job),
            uid: job.accepted.uid.clone(),
            packed: pack(job).unwrap_or_default(),
        }
    }

    pub(crate) fn unpack(&self) -> Option<JobRecord> {
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
fn pack(job: &JobRecord) -> Option<Vec<u8>> {
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
        let finished = Finished::new(&job, self.hours);
        self.finished_bytes += finished.bytes();
        self.finished.insert(id, finished);
        self.finished_order.push_back(id);
        while self.finished.len() > FINISHED_JOBS_MAX || self.finished_bytes > FINISHED_BYTES_MAX {
            if !self.drop_oldest() {
                return;
            }
        }
    }

    /// Another hour has passed: jobs that ended too long ago are dropped.
    pub(super) fn grow_older(&mut self) -> VcApplied {
        self.hours += 1;
        while self.has_old() {
            self.drop_oldest();
        }
        VcApplied::Hour
    }

    /// Whether the job that ended first has been kept for long enough.
    fn has_old(&self) -> bool {
        let oldest = self.finished_order.front();
        let oldest = oldest.and_then(|id| self.finished.get(id));
        oldest.is_some_and(|job| self.hours.saturating_sub(job.hour) > FINISHED_HOURS_MAX)
    }

    /// Whether ended jobs grow older.
    pub(crate) fn has_history(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Drops the job that ended first. Whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.finished_order.pop_front() else {
            return false;
        };
        if let Some(job) = self.finished.remove(&oldest) {
            self.finished_bytes -= job.bytes();
            self.index.names.remove(&job.summary.key, oldest);
            self.index.newest.remove(job.summary.submitted, oldest);
        }
        true
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
