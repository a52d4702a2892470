//! What the simulator asks of a protocol, so that ours and the one it is compared with run under
//! the same load.

use std::collections::BTreeMap;

use muster_gossip::mesh::Reach;
use muster_model::time::Time;

use super::engine::Sending;

/// What a node did: what it sends, and what it came to know.
#[derive(Debug)]
pub(crate) struct Effects<F> {
    pub(crate) sends: Vec<Sending<F>>,
    pub(crate) seen: Vec<ProtocolEvent>,
}

impl<F> Default for Effects<F> {
    fn default() -> Self {
        Self {
            sends: Vec::new(),
            seen: Vec::new(),
        }
    }
}

/// What a node came to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolEvent {
    /// Somebody can be reached as said now.
    Reach { subject: usize, reach: Reach },
    /// A node says something new of itself, which is this change of it.
    Change { subject: usize, number: u64 },
    /// A document's body is here, of this version.
    Document { version: u64 },
}

/// All nodes of one protocol.
pub(crate) trait Protocol {
    /// What they send each other. Cheap to clone.
    type Frame: Clone;

    /// A node's process starts, from its disk.
    fn start(&mut self, now: Time, node: usize, out: &mut Effects<Self::Frame>);
    /// It is gone.
    fn stop(&mut self, node: usize);
    /// A frame arrives; `corrupt`: with flipped bits.
    fn receive(&mut self, now: Time, arrival: Arrival<Self::Frame>, out: &mut Effects<Self::Frame>);
    /// Time passed.
    fn wake(&mut self, now: Time, node: usize, out: &mut Effects<Self::Frame>);
    /// When a node wants to be woken.
    fn deadline(&self, node: usize) -> Option<Time>;
    /// A node says something new of itself from now on.
    fn change(&mut self, now: Time, node: usize, number: u64, out: &mut Effects<Self::Frame>);
    /// A document of this body is edited; where that happens, if the protocol has documents.
    fn edit(&mut self, now: Time, edit: Edit, out: &mut Effects<Self::Frame>) -> Option<usize>;
    /// Whether `node` thinks that `subject` can be reached.
    fn reach(&self, node: usize, subject: usize) -> Reach;
    /// Digest of all else that a node knows.
    fn root(&self, node: usize) -> u64;
    /// Frames and bytes sent so far, by kind.
    fn traffic(&self) -> BTreeMap<&'static str, (u64, u64)> {
        BTreeMap::new()
    }
    /// What must not be and was: looks over everything once more.
    fn violations(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A frame that arrives.
#[derive(Debug)]
pub(crate) struct Arrival<F> {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) frame: F,
    pub(crate) corrupt: bool,
}

/// A document's new version.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) version: u64,
    pub(crate) body: std::sync::Arc<[u8]>,
}
