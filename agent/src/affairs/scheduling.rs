//! Which members jobs are kept off.

use muster_control::cluster::{self, Entry, Mode};
use muster_control::request::cluster::Schedule;
use muster_control::request::{Answers, Failure, Json};
use muster_gossip::member::MemberId;
use muster_model::mesh::Scheduling;

use super::Affairs;
use super::admission::author;
use crate::clock;

impl Answers<Schedule> for Affairs {
    async fn answer(&self, _: MemberId, request: Schedule) -> Result<(), Failure> {
        let Schedule {
            member: name,
            scheduling: Json(wanted),
            reason,
            by,
        } = request;
        let member = self.named(&name).await?;
        let invalid = |error| Failure::invalid(format!("reason: {error}"));
        let scheduling = cluster::Scheduling {
            mode: match wanted {
                Scheduling::Open => Mode::Open,
                Scheduling::Cordoned => Mode::Cordoned,
                Scheduling::Draining { from_ms } => Mode::Draining { from_ms },
            },
            reason: reason.parse().map_err(invalid)?,
            by: author(&by)?,
            at_ms: clock::now().as_millis(),
        };
        self.commit(&Entry::Scheduled { member, scheduling })
            .await?;
        let mode = wanted.as_str();
        tracing::info!(
            name,
            by,
            mode,
            reason,
            "an admin said whether jobs may come to a member"
        );
        Ok(())
    }
}
