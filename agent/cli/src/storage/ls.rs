//! `muster storage ls`.

use clap::Args;
use muster_model::storage_file::{FILE_PAGE_MAX, StorageFile, StorageFileKind, StorageFiles};
use serde::Serialize;

use super::path::StoragePath;
use crate::api::Api;
use crate::byte_size::ByteSize;
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::moment::date;
use crate::output::OutputOption;
use crate::status::CliStatus;
use crate::table::TextTable;

pub(super) const EXAMPLES: &str = "\
The agent that is asked mounts the storage. You see what your jobs would see: where users do not share a storage, your
own directory is its root. Files come in the order of their names' bytes.

Examples:
  muster storage ls data
  muster storage ls data:runs/one
  muster storage ls data:runs -o json | jq -r '.entries[] | select(.kind == \"directory\") | .name'
  muster storage ls data:images --limit 1000 --after 000999.png";

#[derive(Debug, Args)]
pub struct StorageListArguments {
    /// The storage, and the directory or file in it.
    #[arg(value_name = "STORAGE[:PATH]")]
    place: StoragePath,
    /// At most so many files [default: all].
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Begin behind this name.
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    #[command(flatten)]
    output: OutputOption,
}

/// What is printed as data.
#[derive(Serialize)]
struct ListedFiles<'a> {
    entries: &'a [StorageFile],
    /// `--after` of the next part; null at the end.
    next: Option<&'a str>,
}

impl StorageListArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let mut left = self.limit.unwrap_or(u64::MAX);
        let (mut entries, mut next) = (Vec::new(), self.after);
        loop {
            let limit = u32::try_from(left.min(FILE_PAGE_MAX.into())).unwrap_or(FILE_PAGE_MAX);
            let page: StorageFiles = api
                .storage_files(&self.place, next.as_deref(), limit.max(1))
                .await?;
            left = left.saturating_sub(page.entries.len() as u64);
            entries.extend(page.entries);
            next = page.next;
            if next.is_none() || left == 0 {
                break;
            }
        }
        let listed = ListedFiles {
            entries: &entries,
            next: next.as_deref(),
        };
        self.output.write(console, &listed, |listed, paint| {
            table(listed.entries, paint)
        })?;
        if let Some(next) = &next {
            console.note(format!("there are more: --after {next}"));
        }
        Ok(CliStatus::Ok)
    }
}

fn table(entries: &[StorageFile], paint: Paint) -> String {
    let mut table = TextTable::new(["KIND", "MODE", "OWNER", "SIZE", "CHANGED", "NAME"]);
    for entry in entries {
        let (kind, size) = match entry.kind {
            StorageFileKind::File => ("file", ByteSize(entry.size).to_string()),
            StorageFileKind::Directory => ("dir", String::new()),
            StorageFileKind::Link => ("link", String::new()),
            StorageFileKind::Other => ("other", String::new()),
        };
        let name = match &entry.target {
            Some(target) => format!("{} -> {target}", entry.name),
            None => entry.name.clone(),
        };
        table.row([
            kind.into(),
            format!("{:03o}", entry.mode).into(),
            format!("{}:{}", entry.uid, entry.gid).into(),
            size.into(),
            date(u64::try_from(entry.changed_ms).unwrap_or(0)).into(),
            name.into(),
        ]);
    }
    table.render(paint, 0)
}
