//! The end of a log, read once for all who follow it.
//!
//! One reader a log keeps the newest bytes in memory, and tells its followers of them. A follower that is behind,
//! because it began earlier or is slow, reads the files itself until it has caught up: it loses nothing, and takes
//! no more memory than a chunk.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{BoxStream, StreamExt as _, try_unfold};
use muster_init::task_dir::{OLD_SUFFIX, TaskDir};
use tokio::sync::{Mutex, watch};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::LogError;
use super::follow::{EndHint, LogFollower};
use super::part::{self, CHUNK_BYTES, LogBytes, LogPart};

/// What is kept of a log's end for its followers.
const TAIL_BYTES_MAX: usize = 512 << 10;
/// In how many pieces at most.
const TAIL_CHUNKS_MAX: usize = 4096;
/// After a small chunk the next one is collected for so long: a program that writes many short lines does not wake
/// every follower for each of them.
const COLLECT: Duration = Duration::from_millis(20);

/// The logs of this node that are followed.
#[derive(Clone, Debug, Default)]
pub struct LogTails {
    shared: Arc<Mutex<HashMap<PathBuf, Weak<SharedTail>>>>,
}

/// One log that is followed, as long as anybody does.
#[derive(Debug)]
struct SharedTail {
    news: watch::Receiver<TailView>,
    _reader: AbortOnDropHandle<()>,
}

/// The newest bytes of a log. Places are counted from the first byte that was ever written.
#[derive(Debug, Default)]
struct TailView {
    chunks: VecDeque<(u64, Bytes)>,
    bytes: usize,
    end: u64,
    outcome: Option<TailOutcome>,
}

#[derive(Clone, Debug)]
enum TailOutcome {
    Ended,
    Failed(String),
}

/// What a follower does next.
#[derive(Debug)]
enum TailStep {
    Take(Bytes),
    /// The bytes up to this place are in the files alone.
    Read(u64),
    Wait,
    End,
    Fail(String),
}

impl TailView {
    fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        let start = self.end;
        self.end += chunk.len() as u64;
        self.chunks.push_back((start, chunk));
        while self.bytes > TAIL_BYTES_MAX || self.chunks.len() > TAIL_CHUNKS_MAX {
            let Some((_, oldest)) = self.chunks.pop_front() else {
                return;
            };
            self.bytes -= oldest.len();
        }
    }

    fn step(&self, place: u64) -> TailStep {
        let start = self.chunks.front().map_or(self.end, |(start, _)| *start);
        if place < start {
            return TailStep::Read(start);
        }
        if place < self.end {
            return TailStep::Take(self.from(place));
        }
        match &self.outcome {
            None => TailStep::Wait,
            Some(TailOutcome::Ended) => TailStep::End,
            Some(TailOutcome::Failed(why)) => TailStep::Fail(why.clone()),
        }
    }

    /// The bytes from a place that is kept on, a chunk's worth at most.
    fn from(&self, place: u64) -> Bytes {
        let after = self.chunks.partition_point(|(start, _)| *start <= place);
        let mut chunks = self.chunks.iter().skip(after.saturating_sub(1));
        let Some((start, first)) = chunks.next() else {
            return Bytes::new();
        };
        let skip = usize::try_from(place - start).unwrap_or(usize::MAX);
        let first = first.slice(skip.min(first.len())..);
        let Some((_, second)) = chunks
            .next()
            .filter(|(_, it)| first.len() + it.len() <= CHUNK_BYTES)
        else {
            return first;
        };
        let mut all = BytesMut::from(&first[..]);
        all.extend_from_slice(second);
        for (_, next) in chunks {
            if all.len() + next.len() > CHUNK_BYTES {
                break;
            }
            all.extend_from_slice(next);
        }
        all.freeze()
    }
}

impl LogTails {
    /// A log from the range's start on, until the task has ended and all of it was read. Fails if the reader is so
    /// slow that a part it has not seen was rotated away. That the task has ended is seen sooner where `news` tell
    /// of something.
    pub async fn follow(
        &self,
        dir: &TaskDir,
        name: &str,
        range: LogBytes,
        news: EndHint,
    ) -> Result<LogPart, LogError> {
        self.begin(dir, name, (range, false), news).await
    }

    /// The same of a whole log: bytes are counted over its files, and reading begins in the older one if need be.
    pub async fn follow_whole(
        &self,
        dir: &TaskDir,
        name: &str,
        range: LogBytes,
        news: EndHint,
    ) -> Result<LogPart, LogError> {
        self.begin(dir, name, (range, true), news).await
    }

    async fn begin(
        &self,
        dir: &TaskDir,
        name: &str,
        (range, is_whole): (LogBytes, bool),
        news: EndHint,
    ) -> Result<LogPart, LogError> {
        if name.ends_with(OLD_SUFFIX) {
            // It does not grow.
            return part::read(dir, name, range).await;
        }
        // Before the files are looked at: what is written from now on, it sees.
        let tail = self.tail(dir, name, news).await?;
        let files = part::open_parts(dir, name).await?;
        let size = files.end();
        let new = files.new.as_ref().map_or(0, |part| part.size);
        let before = if is_whole { 0 } else { size - new };
        let (start, _) = range.resolve(size - before);
        let place = (before + start).max(files.dropped);
        let follower = TailFollower {
            news: tail.news.clone(),
            _tail: tail,
            dir: dir.clone(),
            name: name.to_owned(),
            place,
            missed: None,
        };
        Ok(LogPart {
            start: place - before,
            size: size - before,
            length: None,
            body: follower.into_stream(),
        })
    }

    /// The shared tail of a log, begun at its end if nobody follows it yet.
    async fn tail(
        &self,
        dir: &TaskDir,
        name: &str,
        news: EndHint,
    ) -> Result<Arc<SharedTail>, LogError> {
        let mut shared = self.shared.lock().await;
        let path = dir.log().join(name);
        let known = shared.get(&path).and_then(Weak::upgrade);
        if let Some(tail) = known.filter(|tail| tail.news.borrow().outcome.is_none()) {
            return Ok(tail);
        }
        let files = part::open_parts(dir, name).await?;
        let end = files.end();
        let view = TailView {
            end,
            outcome: files.new.is_none().then_some(TailOutcome::Ended),
            ..TailView::default()
        };
        let (told, receiver) = watch::channel(view);
        let follower = match files.new {
            Some(new) => Some(LogFollower::at_end(dir, name, new, news).await),
            None => None,
        };
        let follower = follower.transpose().map_err(|source| LogError::Io {
            path: path.clone(),
            source,
        })?;
        let reader = tokio::spawn(read_on(follower, told));
        let tail = Arc::new(SharedTail {
            news: receiver,
            _reader: AbortOnDropHandle::new(reader),
        });
        shared.retain(|_, tail| tail.strong_count() > 0);
        shared.insert(path, Arc::downgrade(&tail));
        Ok(tail)
    }
}

/// Reads a log on for its followers, until it ends. It is aborted when the last of them goes.
async fn read_on(follower: Option<LogFollower>, told: watch::Sender<TailView>) {
    let Some(mut follower) = follower else {
        return told.closed().await;
    };
    loop {
        let outcome = match follower.chunk().await {
            Ok(Some(chunk)) => {
                let is_small = chunk.len() < CHUNK_BYTES / 4;
                // A chunk's memory is that of the largest read.
                let kept = if is_small {
                    Bytes::copy_from_slice(&chunk)
                } else {
                    chunk
                };
                told.send_modify(|view| view.push(kept));
                if is_small {
                    sleep(COLLECT).await;
                }
                continue;
            }
            Ok(None) => TailOutcome::Ended,
            Err(error) => TailOutcome::Failed(error.to_string()),
        };
        told.send_modify(|view| view.outcome = Some(outcome));
        return told.closed().await;
    }
}

/// One who follows.
struct TailFollower {
    news: watch::Receiver<TailView>,
    _tail: Arc<SharedTail>,
    dir: TaskDir,
    name: String,
    /// The next byte.
    place: u64,
    /// What it reads of the files itself.
    missed: Option<BoxStream<'static, io::Result<Bytes>>>,
}

impl TailFollower {
    fn into_stream(self) -> BoxStream<'static, io::Result<Bytes>> {
        let chunks = try_unfold(self, |mut follower| async move {
            Ok(follower.chunk().await?.map(|chunk| (chunk, follower)))
        });
        chunks.boxed()
    }

    async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(missed) = &mut self.missed {
                if let Some(chunk) = missed.next().await {
                    return chunk.map(|chunk| Some(self.taken(chunk)));
                }
                self.missed = None;
            }
            let step = self.news.borrow_and_update().step(self.place);
            match step {
                TailStep::Take(chunk) => return Ok(Some(self.taken(chunk))),
                TailStep::Read(end) => {
                    let missed = missed(self.dir.clone(), self.name.clone(), (self.place, end));
                    self.missed = Some(missed.await?);
                }
                TailStep::Wait => self.news.changed().await.map_err(io::Error::other)?,
                TailStep::End => return Ok(None),
                TailStep::Fail(why) => return Err(io::Error::other(why)),
            }
        }
    }

    fn taken(&mut self, chunk: Bytes) -> Bytes {
        self.place += chunk.len() as u64;
        chunk
    }
}

/// The bytes of a log from a place up to another, from its files.
async fn missed(
    dir: TaskDir,
    name: String,
    (place, end): (u64, u64),
) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
    let range = LogBytes::Bytes {
        start: place,
        end: Some(end - 1),
    };
    let part = part::read_whole(&dir, &name, range).await;
    let part = part.map_err(io::Error::other)?;
    match part.start == place && part.length != Some(0) {
        true => Ok(part.body),
        false => Err(io::Error::other(
            "the log was rotated faster than it was read; a part is missing here",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use futures::TryStreamExt as _;

    use super::*;

    fn home() -> (tempfile::TempDir, TaskDir) {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        std::fs::write(dir.log().join("all"), "").unwrap();
        (home, dir)
    }

    fn append(dir: &TaskDir, text: &str) {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).open(dir.log().join("all")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn silence() -> EndHint {
        watch::channel(0).1
    }

    #[tokio::test]
    async fn all_followers_share_one_reader_which_ends_with_the_last() {
        let (_home, dir) = home();
        let tails = LogTails::default();
        let follow = async || {
            let followed = tails.follow_whole(&dir, "all", LogBytes::All, silence());
            followed.await.unwrap().body
        };
        let mut bodies = vec![follow().await, follow().await, follow().await];
        let shared = async || {
            let shared = tails.shared.lock().await;
            shared.values().next().map_or(0, Weak::strong_count)
        };
        assert_eq!(tails.shared.lock().await.len(), 1);
        assert_eq!(shared().await, 3);
        append(&dir, "one\n");
        for body in &mut bodies {
            assert_eq!(body.next().await.unwrap().unwrap(), "one\n");
        }
        bodies.truncate(1);
        assert_eq!(shared().await, 1);
        drop(bodies);
        assert_eq!(shared().await, 0);
    }

    #[tokio::test]
    async fn a_slow_follower_gets_every_byte_once() {
        let (_home, dir) = home();
        let tails = LogTails::default();
        let follow = async |start| {
            let range = LogBytes::Bytes { start, end: None };
            let followed = tails.follow_whole(&dir, "all", range, silence());
            followed.await.unwrap().body
        };
        let (mut quick, slow) = (follow(0).await, follow(0).await);
        let line = |n: usize| format!("{n:09}\n");
        let mut seen = 0;
        // Three times what is kept, so that the slow one has to read the files.
        for round in 0..3 {
            let lines: String = (0..TAIL_BYTES_MAX / 10)
                .map(|n| line(round * 100_000 + n))
                .collect();
            append(&dir, &lines);
            while seen < (round + 1) * lines.len() {
                seen += quick.next().await.unwrap().unwrap().len();
            }
        }
        let late = follow(20).await;
        std::fs::write(dir.exit_report(), "").unwrap();
        let whole = std::fs::read(dir.log().join("all")).unwrap();
        let all = async |body: BoxStream<'static, io::Result<Bytes>>| {
            let chunks: Vec<Bytes> = body.try_collect().await.unwrap();
            assert!(chunks.iter().all(|chunk| chunk.len() <= 2 * CHUNK_BYTES));
            chunks.concat()
        };
        assert!(all(slow).await == whole, "a byte was lost or doubled");
        assert!(all(late).await == whole[20..]);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut view = TailView::default();
        for _ in 0..100_000 {
            view.push(Bytes::from_static(b"a line\n"));
        }
        assert!(view.bytes <= TAIL_BYTES_MAX && view.chunks.len() <= TAIL_CHUNKS_MAX);
        assert!(matches!(view.step(0), TailStep::Read(_)));
        assert!(matches!(view.step(view.end), TailStep::Wait));
        let place = view.end - 10;
        assert!(matches!(view.step(place), TailStep::Take(it) if it == "ne\na line\n"));
    }
}
