//! Which members jobs are kept off.

use muster_control::cluster::{self, Entry, Mode};
use muster_model::mesh::Scheduling;

use super::Affairs;
use super::admission::author;
use super::question::{Answer, Rejection};

/// An admin's word on a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    pub(super) scheduling: Scheduling,
    pub(super) reason: &'a str,
    pub(super) by: &'a str,
    pub(super) at_ms: u64,
}

impl Affairs {
    pub(super) async fn schedule(&self, name: &str, word: &Word<'_>) -> Result<Answer, Rejection> {
        let member = self.named(name).await?;
        let invalid = |error| Rejection::Invalid(format!("reason: {error}"));
        let scheduling = cluster::Scheduling {
            mode: match word.scheduling {
                Scheduling::Open => Mode::Open,
                Scheduling::Cordoned => Mode::Cordoned,
                Scheduling::Draining { from_ms } => Mode::Draining { from_ms },
            },
            reason: word.reason.parse().map_err(invalid)?,
            by: author(word.by)?,
            at_ms: word.at_ms,
        };
        self.commit(&Entry::Scheduled { member, scheduling })
            .await?;
        let Word { by, reason, .. } = *word;
        let mode = word.scheduling.as_str();
        tracing::info!(
            name,
            by,
            mode,
            reason,
            "an admin said whether jobs may come to a member"
        );
        Ok(Answer::Done)
    }
}
