//! A part of a log file, as a stream of bytes.

use std::fmt;
use std::io::{self, SeekFrom};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use muster_init::task_dir::{OLD_SUFFIX, TaskDir};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::Error;
use super::file::{open_plain, path_of};
use super::follow::Follower;

/// Bytes in memory for one reader.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Which bytes of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
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

impl Range {
    /// Start and end, exclusive, in a file of `size` bytes.
    fn resolve(self, size: u64) -> (u64, u64) {
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
pub async fn read(dir: &TaskDir, name: &str, range: Range) -> Result<LogPart, Error> {
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

/// A log from the range's start on, until the task has ended and all of it was read. Fails if
/// the reader is so slow that a part it has not seen was rotated away.
pub async fn follow(dir: &TaskDir, name: &str, range: Range) -> Result<LogPart, Error> {
    if name.ends_with(OLD_SUFFIX) {
        // It does not grow.
        return read(dir, name, range).await;
    }
    let (file, size) = open(dir, name).await?;
    let (start, _) = range.resolve(size);
    let file = seek(dir, name, file, start).await?;
    let follower = Follower::new(dir, name, file)
        .await
        .map_err(io_error(dir, name))?;
    Ok(LogPart {
        start,
        size,
        length: None,
        body: follower.into_stream().boxed(),
    })
}

async fn open(dir: &TaskDir, name: &str) -> Result<(File, u64), Error> {
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
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NoLog(name.to_owned())),
        opened => opened.map_err(io_error(dir, name)),
    }
}

async fn seek(dir: &TaskDir, name: &str, mut file: File, start: u64) -> Result<File, Error> {
    file.seek(SeekFrom::Start(start))
        .await
        .map_err(io_error(dir, name))?;
    Ok(file)
}

fn io_error(dir: &TaskDir, name: &str) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = dir.log().join(name);
    move |source| Error::Io { path, source }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn ranges_are_cut_to_the_file_and_nothing_else_is_opened() {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        std::fs::write(dir.log().join("all"), "0123456789").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.log().join("stderr")).unwrap();
        let bytes = |start, end| Range::Bytes { start, end };
        for (range, start, expected) in [
            (Range::All, 0, "0123456789"),
            (Range::Tail(3), 7, "789"),
            (Range::Tail(99), 0, "0123456789"),
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
            let missing = read(&dir, name, Range::All).await;
            assert!(matches!(missing, Err(Error::NoLog(_))), "{name}");
        }
        assert!(read(&dir, "stderr", Range::All).await.is_err());
    }
}
