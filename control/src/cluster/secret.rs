//! What only voters may know.

use std::fmt;

pub use muster_model::secret::Hidden;
use serde::{Deserialize, Serialize};

/// The seed of the key that signs for the cluster. Whoever has it can admit anybody, so it is
/// for the voters alone. The founder's disk has it besides, in `mesh/signing.key`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
