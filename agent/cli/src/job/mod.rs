//! `muster job`: a file for each thing that can be done with jobs.

mod cp;
mod exec;
mod explain;
mod forecast_page;
mod last_end;
mod list;
mod logs;
mod page;
mod port_forward;
mod show;
mod stacks;
mod stop;
mod submit;
mod top;
mod validate;
mod wait;
mod written;

use clap::Subcommand;

use super::console::Console;
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::status::CliStatus;

pub(super) use self::wait::{tell_why, until_final};

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Submit a job: an OpenPAI protocol v2 YAML file. Prints user~name.
    #[command(visible_alias = "create", after_help = submit::EXAMPLES)]
    Submit(submit::SubmitArguments),
    /// List jobs, newest first.
    #[command(visible_alias = "ls", after_help = list::EXAMPLES)]
    List(list::ListArguments),
    /// Show a job: why it waits or how it ended, and its tasks.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArguments),
    /// Explain why a job waits: what blocks it, what it lacks, who holds that, and how long.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArguments),
    /// Print what a job's tasks wrote.
    #[command(after_help = logs::EXAMPLES)]
    Logs(logs::LogsArguments),
    /// Show what a job's tasks use of CPU and memory, and used at most.
    #[command(after_help = top::EXAMPLES)]
    Top(top::TopArguments),
    /// Look what a running job's tasks do at this moment, and name the one that is elsewhere.
    #[command(after_help = stacks::EXAMPLES)]
    Stacks(stacks::StacksArguments),
    /// Run a command, or a shell, in a task that runs.
    #[command(after_help = exec::EXAMPLES)]
    Exec(exec::ExecArguments),
    /// Copy files to a task that runs, or from it.
    #[command(after_help = cp::EXAMPLES)]
    Cp(cp::CopyArguments),
    /// Reach ports that a task listens on, from this machine.
    #[command(after_help = port_forward::EXAMPLES)]
    PortForward(port_forward::PortForwardArguments),
    /// Stop a job. A stopped job is not started again.
    #[command(after_help = stop::EXAMPLES)]
    Stop(stop::StopArguments),
    /// Wait until a job has ended: exits with 0 if it succeeded, 1 if not, 124 on timeout.
    #[command(after_help = wait::EXAMPLES)]
    Wait(wait::WaitArguments),
    /// Check a job file without an agent: exits with 0 if it is valid, 1 if not.
    #[command(after_help = validate::EXAMPLES)]
    Validate(validate::ValidateArguments),
}

impl JobCommand {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        match self {
            Self::Submit(arguments) => arguments.run(connection, console).await,
            Self::List(arguments) => arguments.run(connection, console).await,
            Self::Show(arguments) => arguments.run(connection, console).await,
            Self::Explain(arguments) => arguments.run(connection, console).await,
            Self::Logs(arguments) => arguments.run(connection, console).await,
            Self::Top(arguments) => arguments.run(connection, console).await,
            Self::Stacks(arguments) => arguments.run(connection, console).await,
            Self::Exec(arguments) => arguments.run(connection, console).await,
            Self::Cp(arguments) => arguments.run(connection, console).await,
            Self::PortForward(arguments) => arguments.run(connection, console).await,
            Self::Stop(arguments) => arguments.run(connection, console).await,
            Self::Wait(arguments) => arguments.run(connection, console).await,
            Self::Validate(arguments) => arguments.run(console),
        }
    }
}
