//! A part of a log file, as a stream of bytes.

use std::fmt;
use std::io::{self, SeekFrom};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use muster_init::task_dir::{OLD_SUFFIX, TaskDir};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, Take};
use tokio_util::io::ReaderStream;

use super::LogError;
use super::file::{open_plain, path_of};
use super::parts::LogFiles;

/// Bytes in memory for one reader.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Which bytes of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBytes {
    /// Everything in it.
    All,
    /// The last so many bytes.
    Tail(u64),
    /// From `start`; to `end` inclusive, if given. What lies beyond the file is left out.
    Bytes {
        /// First byte.
        start: u64,
        /// Last byte.
        end: Option<u64>,
    },
}

impl LogBytes {
    /// Start and end, exclusive, in a file of `size` bytes.
    pub(super) fn resolve(self, size: u64) -> (u64, u64) {
        match self {
            Self::All => (0, size),
            Self::Tail(count) => (size.saturating_sub(count), size),
            Self::Bytes { start, end } => {
                let end = end.map_or(size, |end| end.saturating_add(1).min(size));
                (start.min(end), end)
            }
        }
    }
}

/// A part of a log file.
pub struct LogPart {
    /// Where the part begins in the file.
    pub start: u64,
    /// The file's size when it was opened.
    pub size: u64,
    /// Bytes of the part; unknown when following.
    pub length: Option<u64>,
    /// Its bytes. An error means that the rest is missing.
    pub body: BoxStream<'static, io::Result<Bytes>>,
}

impl fmt::Debug for LogPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogPart")
            .field("start", &self.start)
            .field("size", &self.size)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// A part of a log as it is now.
pub async fn read(dir: &TaskDir, name: &str, range: LogBytes) -> Result<LogPart, LogError> {
    let (file, size) = open(dir, name).await?;
    let (start, end) = range.resolve(size);
    let file = seek(dir, name, file, start).await?;
    Ok(LogPart {
        start,
        size,
        length: Some(end - start),
        body: ReaderStream::with_capacity(file.take(end - start), CHUNK_BYTES).boxed(),
    })
}

/// A part of a whole log as it is now: bytes are counted from the first that was ever written, over its
/// files. What is not kept any more is left out, so that the part may begin later than was asked for.
pub async fn read_whole(dir: &TaskDir, name: &str, range: LogBytes) -> Result<LogPart, LogError> {
    if name.ends_with(OLD_SUFFIX) {
        return read(dir, name, range).await;
    }
    let parts = open_parts(dir, name).await?;
    let LogCut {
        start,
        end,
        size,
        old,
        new,
        ..
    } = LogCut::of(parts, range)
        .await
        .map_err(io_error(dir, name))?;
    let old = old.map(|file| ReaderStream::with_capacity(file, CHUNK_BYTES));
    let new = new.map(|file| {
        let length = end.saturating_sub(start.max(file.starts));
        ReaderStream::with_capacity(file.file.take(length), CHUNK_BYTES)
    });
    let body = stream::iter(old)
        .flatten()
        .chain(stream::iter(new).flatten());
    Ok(LogPart {
        start,
        size,
        length: Some(end - start),
        body: body.boxed(),
    })
}

/// The files of a log, each where reading begins in it.
struct LogCut {
    /// The first byte that is read.
    start: u64,
    /// The byte after the last one.
    end: u64,
    /// Bytes of the whole log.
    size: u64,
    /// What is read of the older file.
    old: Option<Take<File>>,
    new: Option<New>,
}

struct New {
    file: File,
    /// Its first byte within the log.
    starts: u64,
}

impl LogCut {
    async fn of(parts: LogFiles, range: LogBytes) -> io::Result<Self> {
        let size = parts.end();
        let (start, end) = range.resolve(size);
        let start = start.max(parts.dropped);
        let end = end.max(start);
        let between = size - parts.new.as_ref().map_or(0, |part| part.size);
        let mut old = None;
        if let Some(part) = parts.old.filter(|_| start < between) {
            let mut file = File::from_std(part.file);
            file.seek(SeekFrom::Start(start - parts.dropped)).await?;
            old = Some(file.take(end.min(between) - start));
        }
        let mut new = None;
        if let Some(part) = parts.new {
            let mut file = File::from_std(part.file);
            file.seek(SeekFrom::Start(start.saturating_sub(between)))
                .await?;
            let starts = between;
            new = Some(New { file, starts });
        }
        Ok(Self {
            start,
            end,
            size,
            old,
            new,
        })
    }
}

pub(super) async fn open_parts(dir: &TaskDir, name: &str) -> Result<LogFiles, LogError> {
    path_of(dir, name)?;
    let (of, called) = (dir.clone(), name.to_owned());
    let opened = tokio::task::spawn_blocking(move || LogFiles::open(&of, &called));
    match opened
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(LogError::NoLog(name.to_owned()))
        }
        opened => opened.map_err(io_error(dir, name)),
    }
}

async fn open(dir: &TaskDir, name: &str) -> Result<(File, u64), LogError> {
    let path = path_of(dir, name)?;
    let opened = tokio::task::spawn_blocking(move || {
        let file = open_plain(&path)?;
        let size = file.metadata()?.len();
        Ok((File::from_std(file), size))
    });
    match opened
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(LogError::NoLog(name.to_owned()))
        }
        opened => opened.map_err(io_error(dir, name)),
    }
}

async fn seek(dir: &TaskDir, name: &str, mut file: File, start: u64) -> Result<File, LogError> {
    file.seek(SeekFrom::Start(start))
        .await
        .map_err(io_error(dir, name))?;
    Ok(file)
}

fn io_error(dir: &TaskDir, name: &str) -> impl FnOnce(io::Error) -> LogError + use<> {
    let path = dir.log().join(name);
    move |source| LogError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::super::LogTails;
    use super::*;

    #[tokio::test]
    async fn a_whole_log_is_its_parts_in_order() {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.log().join(name), text).unwrap();
        let bytes = |start, end| LogBytes::Bytes { start, end };
        write("all", "89ab");
        write("all.1", "4567");
        write("all.dropped", "4");
        for (range, start, expected) in [
            (LogBytes::All, 4, "456789ab"),
            (LogBytes::Tail(2), 10, "ab"),
            (LogBytes::Tail(6), 6, "6789ab"),
            (LogBytes::Tail(99), 4, "456789ab"),
            (bytes(0, Some(5)), 4, "45"),
            (bytes(5, Some(9)), 5, "56789"),
            (bytes(6, Some(6)), 6, "6"),
            (bytes(9, None), 9, "9ab"),
            (bytes(50, None), 12, ""),
            (bytes(0, Some(2)), 4, ""),
        ] {
            let part = read_whole(&dir, "all", range).await.unwrap();
            assert_eq!((part.start, part.size), (start, 12), "{range:?}");
            assert_eq!(part.length, Some(expected.len() as u64), "{range:?}");
            let body: Vec<Bytes> = part.body.try_collect().await.unwrap();
            assert_eq!(body.concat(), expected.as_bytes(), "{range:?}");
        }
        std::fs::write(dir.exit_report(), "").unwrap();
        for (start, expected) in [(0, "456789ab"), (7, "789ab"), (10, "ab"), (12, "")] {
            let followed = LogTails::default();
            let part = followed.follow_whole(&dir, "all", bytes(start, None), news());
            let part = part.await.unwrap();
            let body: Vec<Bytes> = part.body.try_collect().await.unwrap();
            assert_eq!(body.concat(), expected.as_bytes(), "{start}");
        }
        std::fs::remove_file(dir.log().join("all")).unwrap();
        let part = read_whole(&dir, "all", LogBytes::All).await.unwrap();
        assert_eq!((part.start, part.size, part.length), (4, 8, Some(4)));
        let none = read_whole(&dir, "stderr", LogBytes::All).await;
        assert!(matches!(none, Err(LogError::NoLog(_))));
    }

    /// None ever comes.
    fn news() -> super::super::EndHint {
        tokio::sync::watch::channel(0).1
    }

    /// Reads while a log is written and rotated, again and again.
    #[tokio::test]
    async fn a_whole_log_is_read_once_and_in_order_while_it_is_rotated() {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        std::fs::write(dir.log().join("all"), "").unwrap();
        let writer = {
            let dir = dir.clone();
            std::thread::spawn(move || write_rotating(&dir))
        };
        let mut seen = 0;
        while !writer.is_finished() || seen < 20 {
            let part = read_whole(&dir, "all", LogBytes::All).await.unwrap();
            let (start, length) = (part.start, part.length.unwrap());
            let body: Vec<Bytes> = part.body.try_collect().await.unwrap();
            let body = body.concat();
            assert_eq!(body.len() as u64, length);
            assert_eq!(start % 8, 0);
            for (line, number) in body.chunks(8).zip(start / 8..) {
                assert_eq!(line, format!("{number:07}\n").as_bytes());
            }
            seen += 1;
        }
        writer.join().unwrap();
    }

    /// Numbered lines of 8 bytes, 100 in each file, as the logger does it.
    fn write_rotating(dir: &TaskDir) {
        use std::io::Write as _;
        let path = |suffix: &str| dir.log().join(format!("all{suffix}"));
        for file in 0..200_u32 {
            let all = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path(""))
                .unwrap();
            for line in 0..100 {
                let mut all = &all;
                all.write_all(format!("{:07}\n", file * 100 + line).as_bytes())
                    .unwrap();
            }
            std::fs::rename(path(""), path(OLD_SUFFIX)).unwrap();
            std::fs::write(path(".new"), (file * 800).to_string()).unwrap();
            std::fs::rename(path(".new"), path(".dropped")).unwrap();
            std::fs::File::create(path("")).unwrap();
        }
    }

    #[tokio::test]
    async fn ranges_are_cut_to_the_file_and_nothing_else_is_opened() {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        std::fs::write(dir.log().join("all"), "0123456789").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.log().join("stderr")).unwrap();
        let bytes = |start, end| LogBytes::Bytes { start, end };
        for (range, start, expected) in [
            (LogBytes::All, 0, "0123456789"),
            (LogBytes::Tail(3), 7, "789"),
            (LogBytes::Tail(99), 0, "0123456789"),
            (bytes(2, Some(4)), 2, "234"),
            (bytes(8, None), 8, "89"),
            (bytes(8, Some(u64::MAX)), 8, "89"),
            (bytes(50, Some(60)), 10, ""),
            (bytes(5, Some(2)), 3, ""),
        ] {
            let part = read(&dir, "all", range).await.unwrap();
            assert_eq!((part.start, part.size), (start, 10), "{range:?}");
            assert_eq!(part.length, Some(expected.len() as u64), "{range:?}");
            let body: Vec<Bytes> = part.body.try_collect().await.unwrap();
            assert_eq!(body.concat(), expected.as_bytes(), "{range:?}");
        }
        for name in ["stdout", "../exit.json", "all.2", ""] {
            let missing = read(&dir, name, LogBytes::All).await;
            assert!(matches!(missing, Err(LogError::NoLog(_))), "{name}");
        }
        assert!(read(&dir, "stderr", LogBytes::All).await.is_err());
    }
}
