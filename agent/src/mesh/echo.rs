//! Tries the way to another member and back: over a connection made for it, by TCP, by which machines join.
//! UDP is in use all the time.

use std::time::Duration;

use muster_gossip::member::MemberId;
use muster_gossip::net::join::{QuestionProtocol, Questions, To};
use serde::{Deserialize, Serialize};

use crate::clock;

/// A member that needs longer is as good as gone.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A member to ask.
#[derive(Clone, Debug)]
pub(super) struct EchoPeer {
    /// The member.
    pub(super) id: MemberId,
    /// Its name.
    pub(super) name: String,
    /// Its addresses.
    pub(super) to: Vec<To>,
}

/// The question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EchoRequest {
    /// Whether to try the way back too.
    back: bool,
}

/// What a member says of the way between it and the one that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EchoAnswer {
    /// Its wall clock, ms since the epoch.
    pub(super) clock_ms: u64,
    /// Whether it reached the one that asked, if it was to try.
    pub(super) back: Option<Result<(), String>>,
}

/// Whether to try the way back; none if that is no such question.
pub(super) fn asked(bytes: &[u8]) -> Option<bool> {
    let ask: EchoRequest = postcard::from_bytes(bytes).ok()?;
    Some(ask.back)
}

/// The answer as bytes.
pub(super) fn encode(echo: &EchoAnswer) -> Vec<u8> {
    // Plain data cannot fail; no bytes are no answer.
    postcard::to_stdvec(echo).unwrap_or_default()
}

/// Asks one address of the peer after the other, until one answers.
///
/// # Errors
/// Why the last one did not.
pub(super) async fn echo(
    questions: &Questions,
    peer: &EchoPeer,
    back: bool,
) -> Result<EchoAnswer, String> {
    let bytes = postcard::to_stdvec(&EchoRequest { back }).map_err(|error| error.to_string())?;
    let mut last = "it says no address".to_owned();
    for to in &peer.to {
        match questions
            .ask(*to, QuestionProtocol::Echo, bytes.clone())
            .await
        {
            Ok((_, answer)) => match postcard::from_bytes(&answer) {
                Ok(echo) => return Ok(echo),
                Err(_) => {
                    "its answer is not understood; is it of another release?".clone_into(&mut last)
                }
            },
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// What a member answers to an echo: its clock, and whether it reaches the member that asked.
pub(super) async fn answer(questions: &Questions, to: Vec<To>, back: bool) -> EchoAnswer {
    let back = if back {
        let peer = EchoPeer {
            id: MemberId(0),
            name: String::new(),
            to,
        };
        let called = tokio::time::timeout(ANSWER_LIMIT / 2, echo_once(questions, &peer)).await;
        Some(called.unwrap_or_else(|_| Err("no answer on the way back".to_owned())))
    } else {
        None
    };
    EchoAnswer {
        clock_ms: clock::now().as_millis(),
        back,
    }
}

async fn echo_once(questions: &Questions, peer: &EchoPeer) -> Result<(), String> {
    Box::pin(echo(questions, peer, false)).await.map(|_| ())
}
