//! Log links: addresses of a task's logs that work without a login, for a while.
//!
//! OpenPAI's portal fetches logs without its token, so the right to read is in the link: an
//! HMAC-signed JWT that names one task attempt, its job, an end time, and the user that it was made for. A link
//! opens what that user sees when it is used: it ends with their right.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use muster_model::id::{AttemptUid, JobKey, UserName, VcName};
use serde::{Deserialize, Serialize};

use crate::config::LogLinkKey;
use crate::error::ApiError;
use crate::port::{JobReader, Jobs, PortError};
use crate::token::TOKEN_BYTES_MAX;

#[derive(Serialize, Deserialize)]
struct LinkClaims {
    #[serde(flatten)]
    place: LogLocation,
    exp: u64,
}

/// A task attempt's log, where it lies, and whose sight opens it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogLocation {
    /// The task attempt.
    pub(crate) uid: AttemptUid,
    /// The address of its node, if it is known. Signed with the rest: a link leads nowhere else.
    pub(crate) node: Option<String>,
    /// The job.
    pub(crate) job: JobKey,
    /// The virtual cluster of the job.
    pub(crate) vc: VcName,
    /// The user that the link is for; none: root on a node.
    pub(crate) reader: Option<UserName>,
}

impl LogLocation {
    /// Whose sight opens it.
    pub(crate) fn job_reader(&self) -> JobReader {
        let reader = self.reader.clone();
        reader.map_or(JobReader::Root, JobReader::User)
    }

    /// Checks that its reader sees the job now.
    pub(crate) fn check(&self, jobs: &dyn Jobs) -> Result<(), ApiError> {
        let sight = jobs.sight(&self.job_reader());
        // There is no such user any more.
        let sight = sight.map_err(|_| ApiError::LogLink)?;
        let seen = sight.check(&self.vc, &self.job);
        Ok(seen.map_err(PortError::from)?)
    }
}

/// The `token` of a link to a log that works until `expires_s`.
pub(crate) fn sign(
    key: &LogLinkKey,
    place: &LogLocation,
    expires_s: u64,
) -> Result<String, ApiError> {
    let claims = LinkClaims {
        place: place.clone(),
        exp: expires_s,
    };
    let key = EncodingKey::from_secret(&key.0);
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)
        .map_err(|e| ApiError::Answer(format!("the log link could not be signed: {e}")))
}

/// The log that a link's `token` opens at `now_s`.
pub(crate) fn open(key: &LogLinkKey, token: &str, now_s: u64) -> Result<LogLocation, ApiError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(ApiError::LogLink);
    }
    let mut rules = Validation::new(Algorithm::HS256);
    rules.validate_exp = false;
    let key = DecodingKey::from_secret(&key.0);
    let claims = jsonwebtoken::decode::<LinkClaims>(token, &key, &rules)
        .map_err(|_| ApiError::LogLink)?
        .claims;
    if claims.exp <= now_s {
        return Err(ApiError::LogLink);
    }
    Ok(claims.place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_its_own_attempt_until_it_expires() {
        let key = LogLinkKey([7; 32]);
        let place = |uid: &str| LogLocation {
            uid: uid.parse().unwrap(),
            node: Some("10.0.0.1".to_owned()),
            job: "ada~train".parse().unwrap(),
            vc: "lab".parse().unwrap(),
            reader: Some("bob".parse().unwrap()),
        };
        let token = sign(&key, &place("a-1"), 100).unwrap();
        assert_eq!(open(&key, &token, 99).unwrap(), place("a-1"));
        assert!(open(&key, &token, 100).is_err(), "expired");
        assert!(open(&LogLinkKey([8; 32]), &token, 99).is_err(), "other key");
        assert!(open(&key, "", 99).is_err());
        let other = sign(&key, &place("a-2"), 100).unwrap();
        let (head, _) = token.rsplit_once('.').unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        assert!(open(&key, &format!("{head}.{signature}"), 99).is_err());
    }
}
