//! The first words of a session: what is asked for, and the answer.

use std::io;
use std::time::Duration;

use muster_gossip::net::quic::StreamError;
use muster_model::session::{SessionAnswer, SessionRequest};
use muster_portal_gateway::port::{PortError, SessionIo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u32 = 64 << 10;
/// How long a node may take to answer: commands wait for their turn, and a container engine under load takes seconds
/// to start one.
const ANSWER_LIMIT: Duration = Duration::from_secs(50);

/// What is asked for, as the header of a stream.
///
/// # Errors
/// [`PortError::Invalid`] where it cannot be written.
pub(crate) fn ask(request: &SessionRequest) -> Result<Vec<u8>, PortError> {
    postcard::to_stdvec(request).map_err(|error| PortError::Invalid(error.to_string()))
}

/// What a header asks for; else why it is not understood.
pub(super) fn request_of(header: &[u8]) -> Result<SessionRequest, String> {
    postcard::from_bytes(header).map_err(|error| {
        format!("the session is not understood; is this an older release? {error}")
    })
}

/// Writes the answer.
pub(super) async fn answer<W: AsyncWrite + Unpin>(
    stream: &mut W,
    answer: &SessionAnswer,
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(answer).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_u32(length).await?;
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    match answer {
        SessionAnswer::Open => Ok(()),
        _ => stream.shutdown().await,
    }
}

/// The session of a stream, once the node has answered that it has begun.
///
/// # Errors
/// What the node answers, and [`PortError::Unavailable`] where it does not.
pub(crate) async fn opened<S>(mut stream: S, node: &str) -> Result<Box<dyn SessionIo>, PortError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let read = timeout(ANSWER_LIMIT, read_answer(&mut stream)).await;
    let away = |why: &str| PortError::Unavailable(format!("node {node} opens no session: {why}"));
    let answer = read.map_err(|_| away("it does not answer in time"))?;
    match answer.map_err(|error| away(&error.to_string()))? {
        SessionAnswer::Open => Ok(Box::new(stream)),
        SessionAnswer::Invalid(why) => Err(PortError::Invalid(why)),
        SessionAnswer::NotNow(why) => Err(PortError::NotNow(why)),
        SessionAnswer::Unavailable(why) => Err(away(&why)),
    }
}

async fn read_answer<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<SessionAnswer> {
    let length = stream.read_u32().await?;
    if length > ANSWER_BYTES_MAX {
        return Err(io::Error::other("its answer is no answer"));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    stream.read_exact(&mut bytes).await?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

/// Why a node could not be asked.
pub(crate) fn not_asked(node: &str, error: &StreamError) -> PortError {
    PortError::Unavailable(format!("node {node} opens no session: {error}"))
}
