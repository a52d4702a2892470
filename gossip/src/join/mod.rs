//! Joining: how a stranger with a token becomes a member, and what it can trust when it has.
//!
//! ```text
//! joiner                    asked node                          authority
//!   | Hello (key, nonce, name)  |                                   |
//!   |-------------------------->|                                   |
//!   |   Challenge (who we are, nonce)                               |
//!   |<--------------------------|                                   |
//!   | root hash as in the token? signatures good?                   |
//!   | Prove (token id, HMAC)    | Petition (claim and proof)        |
//!   |-------------------------->|---------------------------------->|
//!   |                           |    proof right? admit, sign       |
//!   | Welcome (admission, seeds)|<----------------------------------|
//!   |<--------------------------|                                   |
//! ```
//!
//! The token's secret never travels: the proof is an HMAC over who asks whom, both nonces and
//! what is asked for ([`Claim`]), so it is worth nothing to anybody else and only once. A
//! stranger learns nothing before its proof but the cluster's key and the asked node's
//! admission. Any member may be asked: it hands the admission request on to the authority, which alone
//! knows the tokens' keys.
//!
//! [`Joiner`] and [`Admitter`] do no IO: the driver carries the bytes and says which key and
//! address they come from, which the connection proved.

mod admitter;
mod attempts;
mod bounded;
mod claim;
mod joiner;
mod message;
mod refusal;
#[cfg(test)]
mod tests;
mod text;
mod token;
mod trust;

pub use admitter::{
    AdmissionTicket, Admitter, AdmitterConfig, AdmitterInput, AdmitterOutput, ReceivedRequest,
    RequestId,
};
pub use attempts::{ProofSource, WINDOW_MS, WRONG_PROOFS_MAX, WrongProofs};
pub use claim::{AdmissionRequest, Claim, Nonce, Proof};
pub use joiner::{JoinedMember, Joiner, JoinerError, JoinerStep, Newcomer};
pub use message::{
    Challenge, Hello, JoinRefused, JoinReply, JoinerMessage, MessageError, Prove, REPLY_BYTES_MAX,
    REQUEST_BYTES_MAX, SEEDS_MAX, Welcome,
};
pub use refusal::JoinRefusal;
pub use text::{Text, TextError};
pub use token::{JoinToken, TokenError, TokenId, TokenKey, TokenPart, TokenSecret};
pub use trust::{ClusterTrust, TrustError};
