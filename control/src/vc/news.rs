//! What happened to a job, in words, as its events tell it.

use muster_model::id::{NodeId, TaskId};
use muster_model::view::Event;

use super::job::Job;
use crate::gang::named_uid;

/// Events kept of one job; the oldest but the first goes.
pub const EVENTS_KEPT: usize = 64;

/// News about a job, before it is made an event.
#[derive(Debug)]
pub(super) struct News<'a> {
    pub(super) reason: &'a str,
    pub(super) message: String,
    pub(super) at_ms: u64,
    pub(super) warning: bool,
    pub(super) task: Option<(&'a TaskId, Option<NodeId>)>,
}

impl Job {
    pub(super) fn news(&mut self, reason: &str, message: String, at_ms: u64) {
        self.tell(News {
            reason,
            message,
            at_ms,
            warning: false,
            task: None,
        });
    }

    pub(super) fn warn(&mut self, reason: &str, message: String, at_ms: u64) {
        self.tell(News {
            reason,
            message,
            at_ms,
            warning: true,
            task: None,
        });
    }

    /// Adds an event; the same again only counts.
    pub(super) fn tell(&mut self, news: News<'_>) {
        let task = news.task.as_ref().map(|(task, _)| (*task).clone());
        let same = |event: &&mut Event| {
            event.reason == news.reason && event.message == news.message && event.task == task
        };
        if let Some(event) = self.events.iter_mut().rev().find(same) {
            event.last = news.at_ms;
            event.count += 1;
            return;
        }
        if self.events.len() >= EVENTS_KEPT {
            self.events.remove(1);
        }
        self.event_count += 1;
        let name = format!("event/{}", self.event_count);
        self.events.push(Event {
            uid: named_uid(self.accepted.uid.as_str(), &name).to_string(),
            attempt_uid: None,
            task,
            warning: news.warning,
            reason: news.reason.to_owned(),
            message: news.message,
            first: news.at_ms,
            last: news.at_ms,
            count: 1,
            node: news.task.and_then(|(_, node)| node),
        });
    }
}
