//! What is wrong with a description of a cluster, and where.

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct SpecProblem {
    /// The field: `physicalCluster.physicalCells[2].cellAddress`.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl SpecProblem {
    /// A problem at a path.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}
