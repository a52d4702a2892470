//! Documents: bodies fetched by hash from whoever has them, checked, then put in force step by
//! step.
//!
//! [`DocumentsCore`] is a core like the others: told the time, it answers with what is to be done.
//! What a header says is believed, since the cluster signed it; what members send is not, before
//! it fits the header's hashes. A node keeps at most two versions of a document: the newest, and
//! the one that its header names as active.

mod budget;
mod chunk_set;
mod core;
mod cover;
mod edition;
mod fetch;
mod holding;
mod input;
mod link;
mod receive;
mod view;

pub use core::{BODIES_BYTES_MAX, DOCUMENTS_MAX, DocumentsCore};
pub use holding::BODY_BYTES_MAX;
pub use input::{BodyVerdict, DocumentsInput, DocumentsOutput};
pub use view::{Counters, KnownDocument};
