//! Sessions in tasks that run: commands of people, and connections.

use async_trait::async_trait;
use muster_model::id::{JobKey, TaskId};
use muster_model::session::SessionWish;
use muster_model::sight::JobSight;
use tokio::io::{AsyncRead, AsyncWrite};

use super::PortError;

/// A stream to a session: frames of a command ([`muster_model::session`]), or the bytes of a connection.
pub trait SessionIo: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> SessionIo for T {}

/// Who opens a session, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOpener {
    /// The user.
    pub user: String,
    /// The address that the user came from.
    pub address: String,
}

/// Sessions. Whether the caller may open one was checked before.
#[async_trait]
pub trait Sessions: std::fmt::Debug + Send + Sync {
    /// Opens a session in a task of a job. [`PortError::NoJob`] and [`PortError::NoTask`] where there is none,
    /// [`PortError::NotNow`] where the task does not run or what is asked for is not there, and
    /// [`PortError::Unavailable`] where its node cannot be reached.
    async fn open(
        &self,
        opener: &SessionOpener,
        (sight, job, task): (&JobSight, &JobKey, &TaskId),
        wish: SessionWish,
    ) -> Result<Box<dyn SessionIo>, PortError>;
}
