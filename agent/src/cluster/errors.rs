//! What users are told where something was not done.

use muster_control::request::{RequestFailure, RequestRefusal};
use muster_portal_gateway::port::PortError;

use crate::causes::causes;
use crate::mesh;

/// What the gateway is told.
pub(super) fn told(error: mesh::MeshError) -> PortError {
    match error {
        mesh::MeshError::NotNow(text) => PortError::NotNow(text),
        mesh::MeshError::Invalid(text) => PortError::Invalid(text),
        mesh::MeshError::Refused(text) | mesh::MeshError::Elsewhere(text) => {
            PortError::JoinRefused(text)
        }
        mesh::MeshError::Busy(text) => PortError::JoinBusy(text),
        mesh::MeshError::Failed(error) => PortError::Unavailable(format!("{error:#}")),
        mesh::MeshError::Undone(failure) => match failure {
            RequestFailure::Refused(RequestRefusal::Invalid(text)) => PortError::Invalid(text),
            RequestFailure::Refused(RequestRefusal::Missing(text)) => PortError::NotNow(text),
            RequestFailure::Refused(RequestRefusal::Conflict { .. })
            | RequestFailure::NotLed { .. }
            | RequestFailure::Unknown(_) => PortError::Unavailable(failure.to_string()),
        },
    }
}

/// Why something was not done, where it was asked for `missing`.
pub(super) fn told_of(error: mesh::MeshError, missing: impl FnOnce() -> PortError) -> PortError {
    match error {
        mesh::MeshError::Undone(RequestFailure::Refused(RequestRefusal::Missing(_))) => missing(),
        error => told(error),
    }
}

pub(super) fn unavailable(error: impl std::error::Error) -> PortError {
    PortError::Unavailable(causes(&error))
}

pub(super) fn invalid(error: muster_model::id::InvalidName) -> PortError {
    PortError::Invalid(error.to_string())
}
