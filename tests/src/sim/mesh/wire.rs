//! Frames as bytes. In the simulator frames travel as values; some are written and read again on
//! their way, so that the codec is tried too, and damaged ones always are.

use std::collections::BTreeMap;

use muster_gossip::ClusterId;
use muster_gossip::frame::{Carrier, DATAGRAM_BYTES_MAX, MeshFrame, codec};

use super::authority::GENERATION;
use crate::sim::random::Random;

/// One frame in so many is written and read again.
const CHECKED: u64 = 64;

/// Writes and reads frames.
#[derive(Debug)]
pub(crate) struct Wire {
    cluster: ClusterId,
    random: Random,
    sent: u64,
    /// Frames sent and their bytes, by kind.
    pub(crate) kinds: BTreeMap<&'static str, (u64, u64)>,
    /// Damaged frames that were refused, and those that passed for others.
    pub(crate) refused: u64,
    pub(crate) passed: u64,
    /// What went wrong.
    pub(crate) violations: Vec<String>,
}

impl Wire {
    pub(crate) fn new(cluster: ClusterId, seed: u64) -> Self {
        Self {
            cluster,
            random: Random::new(seed, 4),
            sent: 0,
            kinds: BTreeMap::new(),
            refused: 0,
            passed: 0,
            violations: Vec::new(),
        }
    }

    /// The bytes of a frame that is sent.
    pub(crate) fn length(&mut self, carrier: Carrier, frame: &MeshFrame) -> usize {
        let length = codec::wire_len(frame);
        if carrier == Carrier::Datagram && length > DATAGRAM_BYTES_MAX {
            let what = kind(frame);
            self.violations
                .push(format!("a datagram of {length} bytes, a {what}: too long"));
        }
        self.sent += 1;
        let kind = self.kinds.entry(kind(frame)).or_default();
        *kind = (kind.0 + 1, kind.1 + length as u64);
        if self.sent % CHECKED == 1 {
            self.check(frame, length);
        }
        length
    }

    fn check(&mut self, frame: &MeshFrame, length: usize) {
        let bytes = codec::encode(frame, self.cluster, GENERATION);
        if bytes.len() != length {
            let said = format!("a frame has {} bytes, not {length}: {frame:?}", bytes.len());
            self.violations.push(said);
        }
        let read = codec::decode(&bytes, self.cluster, GENERATION);
        if read.as_ref() != Ok(frame) {
            self.violations
                .push(format!("a frame is read as {read:?}, not as {frame:?}"));
        }
    }

    /// What arrives of a frame whose bits were flipped: nothing, or another frame.
    pub(crate) fn damage(&mut self, frame: &MeshFrame) -> Option<MeshFrame> {
        let mut bytes = codec::encode(frame, self.cluster, GENERATION);
        let below = self.random.below(2) == 0;
        for _ in 0..=self.random.below(3) {
            let at = self.random.index(bytes.len());
            bytes[at] ^= 1 << self.random.below(8);
        }
        if !below {
            // As if it happened in the memory of the sender.
            codec::seal(&mut bytes);
        }
        let read = codec::decode(&bytes, self.cluster, GENERATION).ok();
        self.count(below, frame, read.as_ref());
        read
    }

    fn count(&mut self, below: bool, frame: &MeshFrame, read: Option<&MeshFrame>) {
        match read {
            None => self.refused += 1,
            // Two flips can undo each other.
            Some(read) if below && read != frame => {
                self.violations
                    .push(format!("a damaged frame passed: {read:?}"));
            }
            Some(_) => self.passed += 1,
        }
    }

    /// A frame of another cluster must not be read.
    pub(crate) fn check_foreign(&mut self, frame: &MeshFrame, other: ClusterId) {
        let bytes = codec::encode(frame, other, GENERATION);
        if codec::decode(&bytes, self.cluster, GENERATION).is_ok() {
            self.violations
                .push(format!("another cluster's frame was read: {frame:?}"));
        }
        let older = codec::encode(frame, self.cluster, GENERATION - 1);
        if codec::decode(&older, self.cluster, GENERATION).is_ok() {
            self.violations
                .push(format!("an older generation's frame was read: {frame:?}"));
        }
    }
}

const fn kind(frame: &MeshFrame) -> &'static str {
    match frame {
        MeshFrame::Probe(_) => "probe",
        MeshFrame::Answer(_) => "answer",
        MeshFrame::Alert(_) => "alert",
        MeshFrame::Push(_) => "push",
        MeshFrame::Ack(_) => "ack",
        MeshFrame::Digest(_) => "digest",
        MeshFrame::Summary(_) => "summary",
        MeshFrame::Want(_) => "want",
        MeshFrame::Document(_) => "document",
        MeshFrame::Cargo(_) => "cargo",
    }
}
