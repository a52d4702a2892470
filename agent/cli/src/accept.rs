//! `muster node accept`: what a machine has is what it should have.

use clap::Args;

use super::api::Api;
use super::console::Console;
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;

pub(super) const ACCEPT: &str = "\
An agent remembers the devices, network ports, CPUs and memory that its machine has had, and tells in
`muster node show` what is missing. What is new is accepted by itself. Checks of the health of network ports that
are missing are cleared as well.

Examples:
  muster node accept
  muster node accept n7 -o json | jq -r '.[].subject'";

/// Arguments of `muster node accept`.
#[derive(Debug, Args)]
pub struct AcceptArguments {
    /// The machine, as `muster cluster members` names it; the one that answers if none is named.
    node: Option<String>,
    /// The form of the answer.
    #[command(flatten)]
    output: OutputOption,
}

impl AcceptArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let node = match self.node {
            Some(node) => node,
            None => api.node().await?.id.to_string(),
        };
        let gone = api.accept(&node).await?;
        self.output.write(console, &gone, |gone, paint| {
            if gone.is_empty() {
                return format!("{node}: nothing was missing\n");
            }
            let mut table = TextTable::new(["NO LONGER MISSED", "PART", "WHAT IT WAS"]);
            for problem in gone {
                table.row([
                    problem.name.as_str().into(),
                    problem.subject.as_deref().unwrap_or("machine").into(),
                    problem.evidence.as_str().into(),
                ]);
            }
            table.render(paint, 0)
        })?;
        Ok(CliStatus::Ok)
    }
}
