//! `muster vc`: virtual clusters, and the description that says what each is promised.

mod apply;
mod import;

use std::path::PathBuf;

use anstyle::AnsiColor;
use clap::Subcommand;
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::VcName;
use muster_model::vc::{Amount, VcView, unknown};

use self::apply::VcApplyArguments;
use super::age;
use super::api::Api;
use super::byte_size::ByteSize;
use super::console::{Console, Paint};
use super::document::{self, DocumentTexts};
use super::error::CliError;
use super::output::OutputOption;
use super::page::Page;
use super::status::CliStatus;
use super::table::{TableCell, TextTable};

/// The largest description that is read.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// The description as a document of the cluster.
const DESCRIPTION: DocumentTexts = DocumentTexts {
    name: "virtual-clusters",
    show: "muster vc export",
    after: "it holds; see what each has now: muster vc list",
    first: "the machines as they are found, all for one",
    has_steps: false,
};

/// That tasks without a GPU will take cells with one, where a description promises no others.
fn plain_hint(spec: &ClusterSpec) -> Option<String> {
    let names: Vec<&str> = spec.without_plain_cells().map(VcName::as_str).collect();
    let (names, is_one) = (names.join(", "), names.len() == 1);
    let has = if is_one { "has" } else { "have" };
    (!names.is_empty()).then(|| {
        format!(
            "{names} {has} no cells without a GPU: tasks that ask for none take GPU cells there, and keep those \
             GPUs idle. Promise some, of CPU-NODE where the machines are found, or of a type with gpu: 0 in \
             skuTypes"
        )
    })
}

/// What can be done with virtual clusters.
#[derive(Debug, Subcommand)]
pub enum VcCommand {
    /// List the virtual clusters: what each is promised, how much of it can be used now, and how
    /// much is in use.
    #[command(
        visible_alias = "ls",
        after_help = "GPUS, CPU and MEMORY: in use, of what can be used now; in brackets what is promised, where
that is more.

Examples:
  muster vc list
  muster vc list -o json | jq -r '.[] | select(.problems != []).name'"
    )]
    List {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Show one virtual cluster: its share, its types of cells, and what it is short of.
    #[command(after_help = "Examples:
  muster vc show vision
  muster vc show vision -o yaml")]
    Show {
        /// Its name, as `muster vc list` shows it.
        name: String,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Print the description of the cluster, ready to be edited and applied: who is promised what.
    #[command(
        after_help = "Where nobody described the cluster, it is one that promises all machines
that were found to `default`.

Examples:
  muster vc export > vcs.yaml && $EDITOR vcs.yaml && muster vc apply vcs.yaml
  diff <(muster vc export 3) <(muster vc export)"
    )]
    Export {
        /// The version [default: the one in force].
        version: Option<u64>,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Describe the cluster anew: which virtual clusters there are, and what each is promised.
    #[command(after_help = apply::EXAMPLES)]
    Apply(VcApplyArguments),
    /// Turn the configuration of HiveD, or of an OpenPAI cluster, into a description for
    /// `muster vc apply`.
    #[command(after_help = import::EXAMPLES)]
    ImportHived {
        /// The configuration; - for stdin.
        file: PathBuf,
    },
    /// List the versions of the description, the newest first.
    #[command(after_help = "Examples:
  muster vc history
  muster vc history -o json | jq -r '.[0].author'")]
    History {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Describe the cluster as an earlier version did, as a new version.
    #[command(after_help = "Examples:
  muster vc rollback 3")]
    Rollback {
        /// The version to go back to.
        version: u64,
        /// Without a question, whatever jobs may lose by it.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        output: OutputOption,
    },
}

impl VcCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::List { output } => {
                let vcs = api.virtual_clusters().await?;
                age::tell(vcs.iter().filter_map(|vc| vc.age.as_ref()), console);
                output.write(console, &vcs, |vcs, paint| table(vcs, paint))?;
            }
            Self::Export { version, output } => {
                return document::show(DESCRIPTION, api, version, output, console).await;
            }
            Self::Apply(apply) => return apply.run(api, console).await,
            Self::ImportHived { file } => return import::run(&file, api, console).await,
            Self::History { output } => {
                return document::history(DESCRIPTION, api, output, console).await;
            }
            Self::Rollback {
                version,
                yes,
                output,
            } => return apply::rollback(version, yes, output, api, console).await,
            Self::Show { name, output } => {
                let mut vcs = api.virtual_clusters().await?;
                let found = vcs.iter().position(|vc| vc.name.as_str() == name);
                let missing = || {
                    let names: Vec<&str> = vcs.iter().map(|vc| vc.name.as_str()).collect();
                    let names = names.join(", ");
                    CliError::Usage(format!("{}; there are: {names}", unknown(&name)))
                };
                let vc = vcs.swap_remove(found.ok_or_else(missing)?);
                age::tell(&vc.age, console);
                output.write(console, &vc, page)?;
            }
        }
        Ok(CliStatus::Ok)
    }
}

fn table(vcs: &[VcView], paint: Paint) -> String {
    let mut table = TextTable::new(["VC", "GPUS", "CPU", "MEMORY", ""]);
    for vc in vcs {
        let red = AnsiColor::Red.on_default();
        table.row([
            vc.name.as_str().into(),
            share(vc, |amount| amount.gpu.to_string()).into(),
            share(vc, |amount| amount.cpu.to_string()).into(),
            share(vc, memory).into(),
            TableCell::styled(vc.problems.join("; "), red),
        ]);
    }
    table.render(paint, 0)
}

/// `3 of 8 (10)`: in use, can be used, promised if that is more.
fn share(vc: &VcView, show: impl Fn(Amount) -> String) -> String {
    let (used, usable, total) = (show(vc.used), show(vc.guaranteed), show(vc.total));
    // A copy knows what jobs use, and nothing of what there is.
    if vc.age.is_some() && vc.total == Amount::default() {
        return used;
    }
    match total == usable {
        true => format!("{used} of {usable}"),
        false => format!("{used} of {usable} ({total})"),
    }
}

fn memory(amount: Amount) -> String {
    ByteSize::mebibytes(amount.memory_mb).to_string()
}

fn page(vc: &VcView, paint: Paint) -> String {
    let mut page = Page::titled(paint, vc.name.as_str());
    let gpus = share(vc, |amount| amount.gpu.to_string());
    let cpu = share(vc, |amount| amount.cpu.to_string());
    let facts = [("GPUs", gpus), ("CPU", cpu), ("memory", share(vc, memory))];
    page.facts(8, facts);
    let mut skus = TextTable::new(["TYPE", "GPUS", "CPU", "MEMORY"]);
    for (name, each) in &vc.skus {
        skus.row([
            name.as_str().into(),
            each.gpu.into(),
            each.cpu.into(),
            memory(*each).into(),
        ]);
    }
    page.table("What a cell brings along", &skus);
    page.list("Problems", &vc.problems);
    page.into_text()
}
