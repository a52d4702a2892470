//! `muster cluster recover`.

use std::fmt::Write as _;

use clap::Args;
use muster_model::mesh::RecoveryView;

use crate::cli::api::Api;
use crate::cli::console::{Console, printable};
use crate::cli::error::Error;
use crate::cli::output::Output;
use crate::cli::status::Status;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster cluster recover --vc prod
  muster cluster recover --vc prod --lost n1,n4,n5

A virtual cluster needs most of the machines that keep its list of jobs. When so many of them are lost
for good that nobody can lead it any more, it goes on from the copy of the list that knows most. Jobs
that only the lost ones knew of are lost; whatever else runs goes on.

Without --lost this only tells how it would go on, and changes nothing. The machines that are named must
be off, or have lost their disks: where most of them run on among themselves, their jobs run there and
elsewhere. When one of them comes back, it takes part like any other, and what it knew does not count any
more.";

#[derive(Debug, Args)]
pub struct Arguments {
    /// The virtual cluster, as `muster vc list` names it.
    #[arg(long, value_name = "NAME")]
    vc: String,
    /// The machines that are lost for good: all that kept its list of jobs and do not say what they know.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    lost: Vec<String>,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<Status, Error> {
        if self.lost.is_empty() {
            let plan = api.recovery(&self.vc).await?;
            self.output.write(console, &plan, |plan, _| told(plan))?;
            return Ok(Status::Ok);
        }
        let done = api.recover(&self.vc, &self.lost).await?;
        self.output
            .write(console, &done, |done, _| done.vc.clone())?;
        console.note(format!(
            "virtual cluster {} goes on from what {} knows, in generation {}; others get copies by \
             themselves: muster cluster status",
            printable(&done.vc),
            printable(&done.from),
            done.generation
        ));
        Ok(Status::Ok)
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
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "Virtual cluster {vc} has no leader. {count} machines keep its list of jobs, and nothing is to be \
         heard of what these know: {missing}.\n\
         It would go on from what {from} knows, as generation {generation}. Jobs that only the others \
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
         muster cluster recover --vc {vc} --lost {lost}"
    );
    printable(&text)
}
