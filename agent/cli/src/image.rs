//! `muster image`.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use futures::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::{Frame, Incoming};
use muster_model::image::{ImageProgress, ImageView};
use tokio::fs::File;
use tokio::io::AsyncRead;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::{ReaderStream, StreamReader};

use super::api::Api;
use super::byte_size;
use super::client::{RequestBody, broken, understood};
use super::console::{Console, Paint};
use super::error::CliError;
use super::output::OutputOption;
use super::spinner::Spinner;
use super::status::CliStatus;
use super::table::TextTable;

/// Archives are read in parts of this size.
const READ_BYTES: usize = 256 << 10;
/// No line of progress is longer.
const LINE_BYTES_MAX: usize = 64 << 10;
/// So much of a digest tells images apart: `sha256:` and 12 digits.
const DIGEST_CHARS: usize = 19;

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// List the images of the agent's machine.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  muster image list
  muster image list -o json | jq -r '.[].name'"
    )]
    List {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Import every image of an OCI or docker archive, plain or compressed. Prints their names.
    #[command(after_help = "Examples:
  muster image import train.tar
  muster image import train.tar.zst --name team/train:2
  docker save train:2 | muster image import -")]
    Import {
        /// The archive; - for stdin.
        archive: PathBuf,
        /// Name the image so, whatever the archive calls it.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Pull an image from its registry. Prints its name.
    #[command(after_help = "Examples:
  muster image pull ubuntu:24.04
  muster image pull registry.example/team/train:2")]
    Pull {
        /// The image.
        name: String,
    },
    /// Remove an image.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  muster image remove ubuntu:24.04"
    )]
    Remove {
        /// The image, as `muster image list` names it.
        name: String,
    },
}

impl ImageCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::List { output } => {
                let mut images = api.images().await?;
                images.sort_by(|a, b| a.name.cmp(&b.name));
                output.write(console, &images, |images, paint| table(images, paint))?;
            }
            Self::Import { archive, name } => import(api, console, &archive, name).await?,
            Self::Pull { name } => {
                let spinner = Spinner::new(format!("pulling {name}"));
                let progress = api.pull_image(&name).await?;
                let what = format!("cannot pull {name}");
                watch(&what, progress, &spinner, console).await?;
            }
            Self::Remove { name } => api.remove_image(&name).await?,
        }
        Ok(CliStatus::Ok)
    }
}

async fn import(
    api: &Api,
    console: &Console,
    archive: &Path,
    name: Option<String>,
) -> Result<(), CliError> {
    let spinner = Spinner::new(format!("importing {}", archive.display()));
    let (body, length) = if archive == Path::new("-") {
        (stream(tokio::io::stdin()), None)
    } else {
        let failed = |source| CliError::Read {
            path: archive.to_owned(),
            source,
        };
        let file = File::open(archive).await.map_err(failed)?;
        let about = file.metadata().await.map_err(failed)?;
        if about.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        (stream(file), about.is_file().then_some(about.len()))
    };
    let progress = api.import_image(name.as_deref(), length, body).await?;
    watch("cannot import the archive", progress, &spinner, console).await
}

fn stream(source: impl AsyncRead + Send + Sync + 'static) -> RequestBody {
    let parts = ReaderStream::with_capacity(source, READ_BYTES);
    BodyExt::boxed(StreamBody::new(parts.map_ok(Frame::data)))
}

/// Shows the progress of an operation until it is done, and prints the images it brought.
async fn watch(
    what: &str,
    progress: Incoming,
    spinner: &Spinner,
    console: &Console,
) -> Result<(), CliError> {
    let parts = BodyStream::new(progress)
        .try_filter_map(|frame| async { Ok(frame.into_data().ok()) })
        .map_err(std::io::Error::other);
    let reader = StreamReader::new(Box::pin(parts));
    let mut lines = FramedRead::new(reader, LinesCodec::new_with_max_length(LINE_BYTES_MAX));
    let mut ready = false;
    while let Some(line) = lines.next().await {
        let line = line.map_err(|source| broken(what, source))?;
        match understood(what, line.as_bytes())? {
            ImageProgress::Bytes { done, total } => spinner.bytes(done, total),
            ImageProgress::Layers { done, total } => {
                spinner.message(format!("unpacked {done} of {total} layers"));
            }
            ImageProgress::Ready(image) => {
                ready = true;
                console.line(&image.name)?;
            }
            ImageProgress::Failed { message } => {
                return Err(CliError::Failed {
                    what: what.to_owned(),
                    message,
                });
            }
        }
    }
    if ready {
        Ok(())
    } else {
        Err(broken(what, "the agent said neither done nor failed"))
    }
}

fn table(images: &[ImageView], paint: Paint) -> String {
    if images.is_empty() {
        return "no images".to_owned();
    }
    let mut table = TextTable::new(["NAME", "DIGEST", "SIZE"]);
    for ImageView {
        name,
        digest,
        size_bytes,
    } in images
    {
        let digest: String = digest.chars().take(DIGEST_CHARS).collect();
        table.row([
            name.into(),
            digest.into(),
            byte_size::ByteSize(*size_bytes).into(),
        ]);
    }
    table.render(paint, 0)
}
