//! `muster cluster recover`.

use std::fmt::Write as _;

use clap::Args;
use muster_model::mesh::RecoveryView;

use crate::api::Api;
use crate::console::{Console, printable};
use crate::error::CliError;
use crate::output::OutputOption;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster cluster recover                              how the cluster itself would go on
  muster cluster recover --lost n1,n4,n5
  muster cluster recover --vc prod                    how a virtual cluster would
  muster cluster recover --vc prod --lost n1,n4,n5

The cluster needs most of the machines that keep its own state (members, tokens, users, documents), and
each virtual cluster most of those that keep its list of jobs; `muster cluster status` shows which. When so
many of them are lost for good that nobody can lead any more, it goes on from the copy that knows most.
Whatever only the lost ones knew of is lost; whatever else runs goes on. Where both are lost, as in a
cluster of five machines or fewer, the cluster comes first and then each virtual cluster.

Without --lost this only tells how it would go on, and changes nothing. The machines that are named must
be off, or have lost their disks: where most of them run on among themselves, their jobs run there and
elsewhere, and they admit members of their own. When one of them comes back, it takes part like any other,
and what it knew does not count any more.";

#[derive(Debug, Args)]
pub struct RecoverArguments {
    /// The virtual cluster, as `muster vc list` names it; without it, the cluster itself.
    #[arg(long, value_name = "NAME")]
    vc: Option<String>,
    /// The machines that are lost for good: all that kept a copy and do not say what they know.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    lost: Vec<String>,
    #[command(flatten)]
    output: OutputOption,
}

impl RecoverArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let vc = self.vc.as_deref();
        if self.lost.is_empty() {
            let plan = api.recovery(vc).await?;
            self.output.write(console, &plan, |plan, _| told(plan))?;
            return Ok(CliStatus::Ok);
        }
        let done = api.recover(vc, &self.lost).await?;
        let named = |done: &RecoveryView| done.vc.clone().unwrap_or_else(|| done.from.clone());
        self.output.write(console, &done, |done, _| named(done))?;
        console.note(printable(&format!(
            "{} goes on from what {} knows, in generation {}; others get copies by themselves: muster \
             cluster status",
            what(&done),
            done.from,
            done.generation
        )));
        if vc.is_none() {
            console.note(
                "a virtual cluster that has lost most of its voters too: muster cluster recover --vc NAME",
            );
        }
        Ok(CliStatus::Ok)
    }
}

/// What is recovered, as it is called.
fn what(plan: &RecoveryView) -> String {
    match &plan.vc {
        Some(vc) => format!("virtual cluster {vc}"),
        None => "the cluster".to_owned(),
    }
}

/// How it would go on, and what to do.
fn told(plan: &RecoveryView) -> String {
    let RecoveryView {
        vc,
        generation,
        from,
        from_generation,
        voters,
        missing,
    } = plan;
    let count = voters.len();
    let lost = missing.join(",");
    let missing = missing.join(", ");
    let (title, kept, lose, option) = match vc {
        Some(vc) => (
            format!("Virtual cluster {vc}"),
            "its list of jobs",
            "Jobs",
            format!(" --vc {vc}"),
        ),
        None => (
            "The cluster".to_owned(),
            "its state",
            "Members, tokens and edits",
            String::new(),
        ),
    };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{title} has no leader. {count} machines keep {kept}, and nothing is to be heard of what these \
         know: {missing}.\n\
         It would go on from what {from} knows, as generation {generation}. {lose} that only the others \
         knew of would be lost.\n"
    );
    if from_generation + 1 < *generation {
        let last = generation - 1;
        let _ = writeln!(
            text,
            "What {from} knows is of generation {from_generation}: all that came after it, until \
             generation {last}, would be lost."
        );
    }
    let _ = write!(
        text,
        "Once you have seen that these machines are off, or their disks lost:\n  \
         muster cluster recover{option} --lost {lost}"
    );
    printable(&text)
}
