//! Follows a log over its rotations, without losing or doubling a byte.
//!
//! The writer completes a file, renames it to `NAME.1` and only then makes the next one. So a
//! file that is no longer called `NAME` is complete, and as long as it is called `NAME.1`, the
//! one called `NAME` is the one right after it.

use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use muster_init::task_dir::{OLD_SUFFIX, TaskDir};
use tokio::fs::{self, File};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::file::open_plain;
use super::part::CHUNK_BYTES;
use super::parts::OpenLogFile;

/// How often a log that does not grow is looked at.
const POLL: Duration = Duration::from_millis(100);
/// How soon again, whatever there is to hear.
const POLL_LEAST: Duration = Duration::from_millis(5);

/// Changes when something has happened that may have ended a task.
pub type EndHint = watch::Receiver<u64>;

/// Reads one log.
#[derive(Debug)]
pub(super) struct LogFollower {
    path: PathBuf,
    old_path: PathBuf,
    exit_report: PathBuf,
    file: File,
    inode: u64,
    /// The file right after this one, opened as soon as it is seen, so that it can be read
    /// even when it was rotated away meanwhile.
    next: Option<(File, u64)>,
    news: Option<EndHint>,
    /// [`POLL`].
    poll: Duration,
}

impl LogFollower {
    /// Goes on from where the log called `name` ended when it was opened.
    pub(super) async fn at_end(
        dir: &TaskDir,
        name: &str,
        mut open: OpenLogFile,
        news: EndHint,
    ) -> io::Result<Self> {
        open.file.seek(SeekFrom::Start(open.size))?;
        Self::new(dir, name, File::from_std(open.file), news).await
    }

    /// Goes on from where `file`, the log called `name`, stands.
    async fn new(dir: &TaskDir, name: &str, file: File, news: EndHint) -> io::Result<Self> {
        let inode = file.metadata().await?.ino();
        Ok(Self {
            path: dir.log().join(name),
            old_path: dir.log().join(format!("{name}{OLD_SUFFIX}")),
            exit_report: dir.exit_report(),
            file,
            inode,
            next: None,
            news: Some(news),
            poll: POLL,
        })
    }

    /// The next bytes, or `None` when the task has ended and there are no more.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            // Asked before the read: everything was written before a task is said to have ended.
            let ended = fs::try_exists(&self.exit_report).await?;
            self.look_for_next().await?;
            let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
            if self.file.read_buf(&mut chunk).await? > 0 {
                return Ok(Some(chunk.freeze()));
            }
            match self.next.take() {
                Some((file, inode)) => (self.file, self.inode) = (file, inode),
                None if ended => return Ok(None),
                None => self.rest().await,
            }
        }
    }

    /// Waits until the log is to be looked at again.
    async fn rest(&mut self) {
        sleep(POLL_LEAST).await;
        let Some(news) = &mut self.news else {
            return sleep(self.poll).await;
        };
        // An error is that nobody tells anything any more.
        if let Ok(Err(_)) = timeout(self.poll, news.changed()).await {
            self.news = None;
        }
    }

    async fn look_for_next(&mut self) -> io::Result<()> {
        if self.next.is_some() || self.inode_at(&self.path).await? == Some(self.inode) {
            return Ok(());
        }
        let path = self.path.clone();
        let opened = tokio::task::spawn_blocking(move || open_plain(&path));
        let file = match opened.await.map_err(io::Error::other)? {
            Ok(file) => file,
            // Between the writer's two steps, or removed with the whole task.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let inode = file.metadata()?.ino();
        // Asked after the other was opened, so that no third can have come between them.
        if inode != self.inode && self.inode_at(&self.old_path).await? != Some(self.inode) {
            return Err(io::Error::other(
                "the log was rotated faster than it was read; a part is missing here",
            ));
        }
        if inode != self.inode {
            self.next = Some((File::from_std(file), inode));
        }
        Ok(())
    }

    async fn inode_at(&self, path: &PathBuf) -> io::Result<Option<u64>> {
        match fs::symlink_metadata(path).await {
            Ok(metadata) => Ok(Some(metadata.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures::{StreamExt, TryStreamExt};

    use super::super::{LogBytes, LogPart, LogTails};
    use super::*;

    async fn follow(dir: &TaskDir, range: LogBytes) -> LogPart {
        let tails = LogTails::default();
        tails.follow(dir, "all", range, silence()).await.unwrap()
    }

    fn append(dir: &TaskDir, text: &str) {
        let path = dir.log().join("all");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn rotate(dir: &TaskDir) {
        std::fs::rename(dir.log().join("all"), dir.log().join("all.1")).unwrap();
    }

    /// Nothing is heard, ever.
    fn silence() -> EndHint {
        watch::channel(0).1
    }

    #[tokio::test]
    async fn what_ends_a_task_is_heard() {
        let (_home, dir) = home();
        append(&dir, "one");
        let (tell, news) = watch::channel(0);
        let file = File::open(dir.log().join("all")).await.unwrap();
        let mut follower = LogFollower::new(&dir, "all", file, news).await.unwrap();
        // By the clock alone it would not be heard today.
        follower.poll = Duration::from_secs(86_400);
        assert_eq!(follower.chunk().await.unwrap().unwrap(), "one");
        let end = async {
            sleep(2 * POLL_LEAST).await;
            std::fs::write(dir.exit_report(), "").unwrap();
            tell.send_replace(1);
        };
        let (rest, ()) = tokio::join!(follower.chunk(), end);
        assert!(rest.unwrap().is_none());
    }

    fn home() -> (tempfile::TempDir, TaskDir) {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        (home, dir)
    }

    #[tokio::test]
    async fn every_byte_comes_once_over_rotations_until_the_end() {
        let (_home, dir) = home();
        append(&dir, "01");
        let part = follow(&dir, LogBytes::Tail(1)).await;
        assert_eq!((part.start, part.length), (1, None));
        let mut body = part.body;
        assert_eq!(body.next().await.unwrap().unwrap(), "1");
        append(&dir, "2");
        rotate(&dir);
        append(&dir, "34");
        assert_eq!(body.next().await.unwrap().unwrap(), "2");
        // The "2" may have been read before the rotation. Only this says that the reader is in the newer file, so that
        // the older one may go away.
        assert_eq!(body.next().await.unwrap().unwrap(), "34");
        rotate(&dir);
        append(&dir, "5");
        append(&dir, "6");
        std::fs::write(dir.exit_report(), "").unwrap();
        let rest: Vec<Bytes> = body.try_collect().await.unwrap();
        assert_eq!(rest.concat(), b"56");
    }

    #[tokio::test]
    async fn a_reader_that_missed_a_file_is_told_so() {
        let (_home, dir) = home();
        append(&dir, "0");
        let mut body = follow(&dir, LogBytes::All).await.body;
        assert_eq!(body.next().await.unwrap().unwrap(), "0");
        for text in ["1", "2"] {
            rotate(&dir);
            append(&dir, text);
        }
        assert!(body.next().await.unwrap().is_err());
        assert!(body.next().await.is_none());
    }
}
