//! Bodies and headers to play with.

use std::sync::Arc;

use muster_gossip::frame::DocumentRef;
use muster_gossip::record::{BodyId, DocumentId, Header, HeaderStage};

use super::network::scramble;

pub(crate) const ID: DocumentId = DocumentId(1);

pub(crate) fn version(version: u64) -> DocumentRef {
    DocumentRef { id: ID, version }
}

/// So many bytes that look random.
pub(crate) fn body(bytes: usize, seed: u64) -> Arc<[u8]> {
    let words = (0..bytes.div_ceil(8) as u64).map(|word| scramble((seed << 32) + word));
    let mut body: Vec<_> = words.flat_map(u64::to_le_bytes).collect();
    body.truncate(bytes);
    body.into()
}

/// A header of this body, just ordered.
pub(crate) fn header(version: u64, body: &[u8]) -> Header {
    let BodyId {
        hash,
        bytes,
        chunks,
    } = BodyId::of(body);
    Header {
        version,
        hash,
        bytes,
        chunks,
        stage: HeaderStage::Distribute,
        active: 0,
        active_body: None,
        author: "admin".to_owned(),
        at_ms: 0,
        forced: false,
    }
}

/// The same header one step on.
pub(crate) fn staged(header: &Header, stage: HeaderStage) -> Header {
    Header {
        stage,
        ..header.clone()
    }
}
