use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a virtual cluster goes on, or would, that has lost most of its voters for good; or the cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryView {
    /// Which; none: the cluster itself.
    pub vc: Option<String>,
    /// The generation that begins: orders of earlier ones are refused everywhere.
    pub generation: u32,
    /// The member whose copy it goes on from.
    pub from: String,
    /// The generation of that copy; if it is not the one before, all of the ones between is lost.
    pub from_generation: u32,
    /// Whose copies voted, as that member knows.
    pub voters: Vec<String>,
    /// Those that may know more, and of what they know nothing is to be heard. They must not run on
    /// anywhere.
    pub missing: Vec<String>,
}
