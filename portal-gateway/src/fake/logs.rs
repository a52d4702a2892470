//! Logs in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use muster_model::id::AttemptUid;

use super::FakeCluster;
use crate::port::{
    LogFileInfo, LogPlace, LogPlaces, LogQuestion, LogRange, LogSlice, LogWish, Logs, PortError,
};

#[derive(Debug, Default)]
pub(super) struct FakeLogs {
    /// By attempt and name.
    files: BTreeMap<AttemptUid, BTreeMap<String, Bytes>>,
    is_lost: bool,
}

impl FakeCluster {
    /// From now on no log lies on this node.
    pub fn lose_logs(&self) {
        self.state().logs.is_lost = true;
    }

    /// Writes a log file.
    pub fn write_log(&self, uid: &AttemptUid, name: &str, text: &'static str) {
        let mut state = self.state();
        let files = state.logs.files.entry(uid.clone()).or_default();
        files.insert(name.to_owned(), Bytes::from_static(text.as_bytes()));
    }
}

fn part_of(log: &Bytes, range: LogRange) -> LogSlice {
    let size = log.len() as u64;
    let (start, end) = match range {
        LogRange::All => (0, size),
        LogRange::Tail(bytes) => (size.saturating_sub(bytes), size),
        LogRange::Bytes { start, end } => {
            let end = end.map_or(size, |end| end.saturating_add(1).min(size));
            (start.min(size), end.max(start.min(size)))
        }
    };
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let bytes = log.slice(index(start)..index(end));
    LogSlice {
        start,
        size,
        length: Some(end - start),
        body: Box::pin(stream::iter([Ok(bytes)])),
    }
}

#[async_trait]
impl Logs for FakeCluster {
    async fn files(&self, uid: &AttemptUid) -> Result<Vec<LogFileInfo>, PortError> {
        let logs = &self.state().logs;
        let files = logs.files.get(uid).filter(|_| !logs.is_lost);
        let files = files.ok_or(PortError::NoLog)?.iter();
        let file = |(name, text): (&String, &Bytes)| LogFileInfo {
            name: name.clone(),
            size: text.len() as u64,
        };
        Ok(files.map(file).collect())
    }

    async fn read(
        &self,
        uid: &AttemptUid,
        name: &str,
        wish: LogWish,
    ) -> Result<LogSlice, PortError> {
        let LogWish { range, follow, .. } = wish;
        let files = self.state().logs.files.get(uid).cloned();
        let part = part_of(
            files
                .unwrap_or_default()
                .get(name)
                .ok_or(PortError::NoLog)?,
            range,
        );
        if !follow {
            return Ok(part);
        }
        // Followed, a fake log ends with a second part.
        let more = stream::iter([Ok(Bytes::from_static(b"more\n"))]);
        Ok(LogSlice {
            length: None,
            body: Box::pin(part.body.chain(more)),
            ..part
        })
    }

    async fn places(
        &self,
        uid: &AttemptUid,
        name: &str,
        question: LogQuestion,
    ) -> Result<LogPlaces, PortError> {
        let files = self.state().logs.files.get(uid).cloned();
        let log = files.unwrap_or_default().remove(name);
        let log = log.ok_or(PortError::NoLog)?;
        Ok(LogPlaces {
            start: 0,
            size: log.len() as u64,
            places: match question {
                LogQuestion::Time(at_ms) => vec![LogPlace {
                    offset: 0,
                    line: None,
                    at_ms: Some(at_ms),
                    text: String::new(),
                }],
                LogQuestion::Text { text, from, line } => found(&log, &text, (from, line)),
            },
            next: None,
        })
    }
}

fn found(log: &Bytes, text: &str, (from, line): (u64, Option<u64>)) -> Vec<LogPlace> {
    let wanted = text.to_ascii_lowercase();
    let mut places = Vec::new();
    let mut offset = 0;
    for (number, bytes) in (1..).zip(log.split_inclusive(|byte| *byte == b'\n')) {
        let text = String::from_utf8_lossy(bytes);
        if offset >= from && text.to_ascii_lowercase().contains(&wanted) {
            places.push(LogPlace {
                offset,
                line: line.or_else(|| (from == 0).then_some(number)),
                at_ms: None,
                text: text.trim_end().to_owned(),
            });
        }
        offset += bytes.len() as u64;
    }
    places
}
