//! What users are told where something was not done.

use muster_control::request::{Failure, Refusal};
use muster_portal_gateway::port::Error;

use crate::causes::causes;
use crate::mesh;

/// What the gateway is told.
pub(super) fn told(error: mesh::Error) -> Error {
    match error {
        mesh::Error::NotNow(text) => Error::NotNow(text),
        mesh::Error::Invalid(text) => Error::Invalid(text),
        mesh::Error::Refused(text) | mesh::Error::Elsewhere(text) => Error::JoinRefused(text),
        mesh::Error::Busy(text) => Error::JoinBusy(text),
        mesh::Error::Failed(error) => Error::Unavailable(format!("{error:#}")),
        mesh::Error::Undone(failure) => match failure {
            Failure::Refused(Refusal::Invalid(text)) => Error::Invalid(text),
            Failure::Refused(Refusal::Missing(text)) => Error::NotNow(text),
            Failure::Refused(Refusal::Conflict { .. })
            | Failure::NotLed { .. }
            | Failure::Unknown(_) => Error::Unavailable(failure.to_string()),
        },
    }
}

/// Why something was not done, where it was asked for `missing`.
pub(super) fn told_of(error: mesh::Error, missing: impl FnOnce() -> Error) -> Error {
    match error {
        mesh::Error::Undone(Failure::Refused(Refusal::Missing(_))) => missing(),
        error => told(error),
    }
}

pub(super) fn unavailable(error: impl std::error::Error) -> Error {
    Error::Unavailable(causes(&error))
}

pub(super) fn invalid(error: muster_model::id::Error) -> Error {
    Error::Invalid(error.to_string())
}
