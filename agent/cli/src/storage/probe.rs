//! `muster storage probe`.

use clap::Args;
use muster_model::storage_file::StorageProbe;

use crate::api::Api;
use crate::byte_size::ByteSize;
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::output::OutputOption;
use crate::page::Page;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
The agent that is asked mounts the storage, reads its root directory, and makes and removes a file unless the storage is
readOnly. Admins may probe every storage, others those that a group grants them.

Examples:
  muster storage probe data
  muster storage probe data --url https://gpu7.example:7741
  muster storage probe data -o json | jq -e .canWrite";

#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// The storage.
    name: String,
    #[command(flatten)]
    output: OutputOption,
}

impl ProbeArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let probe = api.probe_storage(&self.name).await?;
        self.output.write(console, &probe, |probe, paint| {
            page(&self.name, probe, paint)
        })?;
        Ok(CliStatus::of(probe.problem.is_none()))
    }
}

fn page(name: &str, probe: &StorageProbe, paint: Paint) -> String {
    let mut page = Page::new(paint, name);
    let took = format!(
        "{:.1} s",
        std::time::Duration::from_millis(probe.took_ms).as_secs_f64()
    );
    let state = probe
        .problem
        .clone()
        .unwrap_or_else(|| "it can be used".to_owned());
    let mut facts = vec![
        ("node", probe.node.clone()),
        ("state", state),
        ("took", took),
    ];
    if probe.problem.is_none() {
        let writes = match &probe.unwritable {
            None => "yes".to_owned(),
            Some(why) => format!("no: {why}"),
        };
        facts.push((
            "free",
            format!("{} of {}", ByteSize(probe.free), ByteSize(probe.size)),
        ));
        facts.push(("writes", writes));
    }
    page.facts(8, facts);
    page.into_text()
}
