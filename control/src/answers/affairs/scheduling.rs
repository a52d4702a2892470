//! Which members jobs are kept off.

use muster_gossip::member::MemberId;
use muster_model::mesh::Scheduling;

use super::Affairs;
use super::admission::author;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::cluster::{self, Entry, Mode};
use crate::request::cluster::Schedule;
use crate::request::{Answers, Failure, Json};

impl<P: MemberPort> Answers<Schedule> for Affairs<P> {
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
            at_ms: self.now_ms(),
        };
        self.commit(&Entry::Scheduled { member, scheduling })
            .await?;
        self.copies().tell(Event::Scheduled {
            name,
            scheduling: wanted,
            reason,
            by,
        });
        Ok(())
    }
}
