//! `muster job cp`.

use std::io::{self, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use clap::Args;
use muster_model::session::ExecWish;
use muster_tree::{TreeError, pack, unpack};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_util::io::{InspectReader, SyncIoBridge};

use crate::console::Console;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::job::exec::ended;
use crate::job_ref::Acting;
use crate::session::{CommandStreams, TaskRef, TaskTarget, attend};
use crate::spinner::Spinner;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job cp data.csv train:/tmp
  muster job cp train:worker:0:/checkpoints ./from-worker
  muster job cp ada~train:/tmp/trace.json .

One of the two is JOB[:ROLE[:INDEX]]:/PATH, the other a path here. Directories are copied with all that is in them; into
a directory that is there, else to that name. Links stay links. The image needs no program for it.";

/// muster-init in every container, which needs nothing of the image.
const INIT: &str = "/usr/local/muster/init";
/// Bytes on their way.
const WAY_BYTES: usize = 1 << 20;

#[derive(Debug, Args)]
pub struct CopyArguments {
    /// What to copy.
    #[arg(value_name = "FROM")]
    from: CopyPlace,
    /// Where to.
    #[arg(value_name = "TO")]
    to: CopyPlace,
    #[command(flatten)]
    acting: Acting,
}

/// A place here, or in a task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CopyPlace {
    Here(PathBuf),
    Task(TaskRef, String),
}

impl FromStr for CopyPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(":/") {
            // A path here with a colon in it is written with its directory: ./a:/b
            Some((task, _)) if task.contains('/') => Ok(Self::Here(text.into())),
            Some((task, path)) => Ok(Self::Task(task.parse()?, format!("/{path}"))),
            None => Ok(Self::Here(text.into())),
        }
    }
}

impl CopyArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let api = self.acting.api(connection)?;
        match (self.from, self.to) {
            (CopyPlace::Here(from), CopyPlace::Task(task, to)) => {
                upload(task.resolve(api).await?, &from, to, console).await
            }
            (CopyPlace::Task(task, from), CopyPlace::Here(to)) => {
                download(task.resolve(api).await?, from, &to, console).await
            }
            _ => Err(CliError::Usage(
                "one of FROM and TO is a task's, as train:/tmp, and the other a path here"
                    .to_owned(),
            )),
        }
    }
}

fn wish(mode: &str, path: String, stdin: bool) -> ExecWish {
    ExecWish {
        command: vec![INIT.to_owned(), mode.to_owned(), path],
        stdin,
        terminal: None,
    }
}

async fn upload(
    target: TaskTarget,
    from: &Path,
    to: String,
    console: &Console,
) -> Result<CliStatus, CliError> {
    // Before anything is asked: most errors are of here.
    if let Err(source) = from.symlink_metadata() {
        let path = from.to_owned();
        return Err(CliError::Read { path, source });
    }
    let what = format!("copying {} to {to}", from.display());
    let socket = target
        .api
        .exec(&target.job, &target.task, &wish("unpack", to, true))
        .await?;
    let (near, far) = tokio::io::duplex(WAY_BYTES);
    let path = from.to_owned();
    let packing = tokio::task::spawn_blocking(move || pack(&path, SyncIoBridge::new(far)));
    let progress = CopyProgress::new(&what);
    let streams = CommandStreams {
        stdin: Some(InspectReader::new(near, |bytes| progress.add(bytes.len()))),
        write: |bytes, _| console.err(bytes),
        has_terminal: false,
    };
    let end = attend(&what, socket, streams).await;
    progress.clear();
    let status = ended(&what, end?)?;
    // The other side tells more where it ended badly.
    match status {
        CliStatus::Ok => packed(&what, packing).await.map(|()| status),
        status => Ok(status),
    }
}

async fn packed(what: &str, packing: JoinHandle<Result<(), TreeError>>) -> Result<(), CliError> {
    let failed = |message: String| CliError::Failed {
        what: what.to_owned(),
        message,
    };
    let packed = packing.await.map_err(|error| failed(error.to_string()))?;
    packed.map_err(|error| failed(error.to_string()))
}

async fn download(
    target: TaskTarget,
    from: String,
    to: &Path,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let what = format!("copying {from} to {}", to.display());
    let socket = target
        .api
        .exec(&target.job, &target.task, &wish("pack", from, false))
        .await?;
    let (reader, writer) = io::pipe().map_err(CliError::Output)?;
    let mut writer: Option<PipeWriter> = Some(writer);
    let path = to.to_owned();
    let unpacking = tokio::task::spawn_blocking(move || unpack(reader, &path));
    let progress = CopyProgress::new(&what);
    let streams = CommandStreams {
        stdin: None::<DuplexStream>,
        write: |bytes: Bytes, is_error: bool| match is_error {
            true => console.err(bytes),
            false => {
                progress.add(bytes.len());
                // A side that takes no more says why when it ends.
                if writer
                    .as_mut()
                    .is_some_and(|pipe| pipe.write_all(&bytes).is_err())
                {
                    writer = None;
                }
                Ok(())
            }
        },
        has_terminal: false,
    };
    let end = attend(&what, socket, streams).await;
    drop(writer);
    progress.clear();
    let unpacked = packed(&what, unpacking).await;
    match ended(&what, end?)? {
        CliStatus::Ok => unpacked.map(|()| CliStatus::Ok),
        status => Ok(status),
    }
}

/// How much was copied, in one line on a terminal.
struct CopyProgress {
    spinner: Spinner,
    bytes: AtomicU64,
}

impl CopyProgress {
    fn new(what: &str) -> Self {
        Self {
            spinner: Spinner::new(what),
            bytes: AtomicU64::new(0),
        }
    }

    fn add(&self, count: usize) {
        let count = count as u64;
        let all = self.bytes.fetch_add(count, Ordering::Relaxed) + count;
        self.spinner.bytes(all, None);
    }

    fn clear(&self) {
        self.spinner.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        let task = |text: &str| text.parse::<TaskRef>().unwrap();
        let place = |text: &str| text.parse::<CopyPlace>();
        let here = |text: &str| Ok(CopyPlace::Here(text.into()));
        assert_eq!(
            place("train:worker:0:/a:/b"),
            Ok(CopyPlace::Task(task("train:worker:0"), "/a:/b".to_owned()))
        );
        assert_eq!(
            place("ada~train:/"),
            Ok(CopyPlace::Task(task("ada~train"), "/".to_owned()))
        );
        for text in [".", "data.csv", "./a:/b", "/a:/b", "train:relative"] {
            assert_eq!(place(text), here(text), "{text}");
        }
        assert!(place("a b:/tmp").is_err());
    }
}
