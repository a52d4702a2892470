//! `muster event`: what happened to a job, or in the cluster.

mod list;

use clap::Subcommand;

use super::console::Console;
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::status::CliStatus;

/// What can be done with events.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// List the events of a job; without one, the alarms of the cluster.
    #[command(visible_alias = "ls", after_help = list::EXAMPLES)]
    List(list::EventListArguments),
}

impl EventCommand {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let Self::List(arguments) = self;
        arguments.run(connection, console).await
    }
}

#[cfg(test)]
mod tests;
