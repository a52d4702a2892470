//! Jobs that have ended: a summary at hand, the rest packed.

use std::cell::RefCell;
use std::io::Read;

use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, FlushCompress, Status};
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

/// What a job takes before it is packed, mostly.
const UNPACKED_BYTES: usize = 1_024;

thread_local! {
    /// Its tables are large, and take longer to be made than a job takes to be packed.
    static PACKER: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), false));
}

fn pack(job: &Job) -> Option<Vec<u8>> {
    let bytes = postcard::to_extend(job, Vec::with_capacity(UNPACKED_BYTES)).ok()?;
    PACKER.with_borrow_mut(|packer| deflate(packer, &bytes))
}

/// What a packer makes of bytes, whatever it was given before.
fn deflate(packer: &mut Compress, bytes: &[u8]) -> Option<Vec<u8>> {
    packer.reset();
    let mut packed = Vec::with_capacity(bytes.len() / 2 + 64);
    loop {
        let taken = usize::try_from(packer.total_in()).ok()?;
        let rest = bytes.get(taken..)?;
        let status = packer.compress_vec(rest, &mut packed, FlushCompress::Finish);
        if status.ok()? == Status::StreamEnd {
            packed.shrink_to_fit();
            return Some(packed);
        }
        packed.reserve(bytes.len() / 2 + 64);
    }
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

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        DeflateDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_was_packed_before_is_of_no_matter() {
        // Nothing, what packs well, and what does not and so takes several turns.
        let noise = (0..300_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[3]);
        let texts = [Vec::new(), vec![7; 100_000], noise.collect()];
        let mut used = Compress::new(Compression::fast(), false);
        for text in texts.iter().chain(texts.iter().rev()) {
            let packed = deflate(&mut used, text).unwrap();
            let mut fresh = Compress::new(Compression::fast(), false);
            assert_eq!(deflate(&mut fresh, text).unwrap(), packed);
            assert_eq!(unpacked(&packed), *text);
        }
    }
}
