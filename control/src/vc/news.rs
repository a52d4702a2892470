//! What happened to a job, in words, as its events tell it.

use std::borrow::Cow;

use muster_model::id::{AttemptUid, NodeId, TaskId};
use muster_model::view::JobEvent;
use serde::{Deserialize, Serialize};

use super::job::JobRecord;
use crate::gang::named_uid;

/// Events kept of one job; the oldest but the first goes.
pub const EVENTS_KEPT: usize = 64;

/// Bytes of an event, as a rule no more.
const NEWS_BYTES: usize = 160;

/// What happened to a job, oldest first. Packed: every voter has it of every job, and looks at it when
/// something more happens or somebody asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Happened(#[serde(with = "serde_bytes")] Box<[u8]>);

/// What is kept of an event: the rest follows from its number and its job.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptEvent<'a> {
    /// Counts from 1 within the job.
    no: u32,
    task: Option<TaskId>,
    attempt: Option<AttemptUid>,
    warning: bool,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    first: u64,
    last: u64,
    count: u32,
    node: Option<NodeId>,
}

/// Things named in one sentence at most.
const NAMED_MAX: usize = 3;

/// The first few of what is to be named, and how many more there are.
pub(crate) fn some_of(all: impl ExactSizeIterator<Item = String>, between: &str) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let named = all.take(NAMED_MAX).collect::<Vec<_>>().join(between);
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl Happened {
    fn unpack(&self) -> Vec<KeptEvent<'_>> {
        postcard::from_bytes(&self.0).unwrap_or_default()
    }

    fn pack(kept: &[KeptEvent<'_>], room: usize) -> Self {
        // Encoding plain data into a Vec cannot fail.
        let bytes = postcard::to_extend(kept, Vec::with_capacity(room)).unwrap_or_default();
        Self(bytes.into_boxed_slice())
    }
}

/// The task that news is about, and where it was placed, if it was.
#[derive(Debug)]
pub(super) struct NewsSubject<'a> {
    pub(super) task: &'a TaskId,
    pub(super) place: Option<(AttemptUid, NodeId)>,
}

/// News about a job, before it is made an event.
#[derive(Debug)]
pub(super) struct JobNews<'a> {
    pub(super) reason: &'a str,
    pub(super) message: String,
    pub(super) at_ms: u64,
    pub(super) warning: bool,
    pub(super) task: Option<NewsSubject<'a>>,
}

impl JobRecord {
    /// What happened to it, oldest first.
    pub(super) fn events(&self) -> Vec<JobEvent> {
        let event = |kept: KeptEvent<'_>| {
            let name = format!("event/{}", kept.no);
            JobEvent {
                uid: named_uid(self.accepted.uid.as_str(), &name).to_string(),
                attempt_uid: kept.attempt,
                task: kept.task,
                warning: kept.warning,
                reason: kept.reason.into_owned(),
                message: kept.message.into_owned(),
                first: kept.first,
                last: kept.last,
                count: kept.count,
                node: kept.node,
            }
        };
        self.happened.unpack().into_iter().map(event).collect()
    }

    pub(super) fn news(&mut self, reason: &str, message: String, at_ms: u64) {
        self.tell(JobNews {
            reason,
            message,
            at_ms,
            warning: false,
            task: None,
        });
    }

    pub(super) fn warn(&mut self, reason: &str, message: String, at_ms: u64) {
        self.tell(JobNews {
            reason,
            message,
            at_ms,
            warning: true,
            task: None,
        });
    }

    /// The same event again is counted, not told twice.
    pub(super) fn tell(&mut self, news: JobNews<'_>) {
        let mut events = self.happened.unpack();
        let task = news.task.as_ref().map(|of| of.task.clone());
        let same = |event: &&mut KeptEvent<'_>| {
            event.reason == news.reason && event.message == news.message && event.task == task
        };
        if let Some(event) = events.iter_mut().rev().find(same) {
            event.last = news.at_ms;
            event.count += 1;
            if let Some((uid, _)) = news.task.and_then(|of| of.place) {
                event.attempt = Some(uid);
            }
        } else {
            let place = news.task.and_then(|of| of.place);
            let (attempt, node) = place.unzip();
            let last = events.last().map_or(0, |event| event.no);
            if events.len() >= EVENTS_KEPT {
                events.remove(1);
            }
            events.push(KeptEvent {
                no: last + 1,
                task,
                attempt,
                warning: news.warning,
                reason: news.reason.into(),
                message: news.message.into(),
                first: news.at_ms,
                last: news.at_ms,
                count: 1,
                node,
            });
        }
        let room = self.happened.0.len() + NEWS_BYTES;
        self.happened = Happened::pack(&events, room);
    }
}
