//! Why a membership was not changed.

use muster_control::request::RequestFailure;

/// Why something was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeshError {
    /// The node is in no state for that.
    #[error("{0}")]
    NotNow(String),
    /// What was given makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The other cluster does not let this node in.
    #[error("{0}")]
    Refused(String),
    /// The machine that answers is not, or no more, a member of that cluster; another address may be.
    #[error("{0}")]
    Elsewhere(String),
    /// The other cluster has no time for this node; the same may work a little later.
    #[error("{0}")]
    Busy(String),
    /// The cluster does not do it.
    #[error(transparent)]
    Undone(#[from] RequestFailure),
    /// It failed.
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for MeshError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}
