//! Which members jobs are kept off.

use muster_gossip::member::MemberId;
use muster_model::mesh::Scheduling;

use super::ClusterService;
use super::admission::author;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::cluster::{self, ClusterEntry, SchedulingMode};
use crate::request::cluster::Schedule;
use crate::request::{Answers, Json, RequestFailure};

impl<P: MemberPort> Answers<Schedule> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: Schedule) -> Result<(), RequestFailure> {
        let Schedule {
            member: name,
            scheduling: Json(wanted),
            reason,
            by,
        } = request;
        let member = self.named(&name).await?;
        let invalid = |error| RequestFailure::invalid(format!("reason: {error}"));
        let scheduling = cluster::AdminScheduling {
            mode: match wanted {
                Scheduling::Open => SchedulingMode::Open,
                Scheduling::Cordoned => SchedulingMode::Cordoned,
                Scheduling::Draining { from_ms } => SchedulingMode::Draining { from_ms },
            },
            reason: reason.parse().map_err(invalid)?,
            by: author(&by)?,
            at_ms: self.now_ms(),
        };
        self.commit(&ClusterEntry::Scheduled { member, scheduling })
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
