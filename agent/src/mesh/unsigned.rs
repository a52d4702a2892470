//! Records for tests, which nobody has signed.

use std::sync::Arc;

use muster_gossip::key::{ClusterId, NodeKey, Sign, Signature};
use muster_gossip::record::{Record, RecordKey, RecordVersion};
use serde::Serialize;

#[derive(Debug)]
struct NoSigner;

impl Sign for NoSigner {
    fn key(&self) -> NodeKey {
        NodeKey([0; 32])
    }

    fn sign(&self, _: &[u8]) -> Signature {
        Signature([0; 64])
    }
}

/// A record with this number in its version.
pub(crate) fn record(key: RecordKey, number: u64, body: &impl Serialize) -> Arc<Record> {
    let version = RecordVersion {
        incarnation: 1,
        number,
    };
    Arc::new(Record::sign(ClusterId::default(), key, version, body, &NoSigner).unwrap())
}
