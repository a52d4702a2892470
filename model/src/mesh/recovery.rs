use serde::{Deserialize, Serialize};

/// How a virtual cluster goes on, or would, that has lost most of its voters for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryView {
    /// Which.
    pub vc: String,
    /// The generation that begins: orders of earlier ones are refused everywhere.
    pub generation: u32,
    /// The member whose copy it goes on from.
    pub from: String,
    /// Whose copies voted.
    pub voters: Vec<String>,
    /// Those of them of whose copies nothing is to be heard. They must not run on anywhere.
    pub missing: Vec<String>,
}
