//! The command line of `muster`: a client of the agent's REST side, over its socket or a URL.
//!
//! Every command but `muster agent`, which main dispatches itself, goes through [`run`]. A
//! command is one file: its arguments, what it asks of the `api`, and how the answer reads.
//! Nothing here knows how the agent works inside; `job validate`, `rules check`, `rules classify`
//! and `placement` need no agent at all.

mod accept;
mod age;
mod alias;
mod api;
mod audit;
mod byte_size;
mod certificate;
mod client;
mod cluster;
mod completion;
mod console;
mod context;
mod context_command;
mod device_login;
mod diagnose;
mod doctor;
mod document;
mod document_file;
mod endpoint;
mod error;
mod event;
mod follow;
mod group;
mod health;
mod history;
mod image;
mod incomplete;
mod inventory;
mod job;
mod job_ref;
mod job_text;
mod login;
mod moment;
mod name_list;
mod names;
mod node;
mod output;
mod page;
mod password;
mod patience;
mod placement;
mod policy;
mod progress;
mod pull;
mod rules;
mod run;
mod scheduling;
mod session;
mod signals;
mod slurm;
mod spinner;
mod ssh_config;
mod status;
mod storage;
#[cfg(test)]
mod stub;
mod table;
mod terminal;
mod token;
mod top;
mod topology;
mod usage;
mod user;
mod vc;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use self::api::Api;
pub use self::completion::{CompletionShell, script as completion_script};
use self::console::Console;
pub use self::diagnose::diagnose;
use self::endpoint::EndpointArguments;
use self::error::CliError;
pub use self::inventory::InventoryArgs;
pub use self::node::NodeCommand;
use self::status::CliStatus;
pub use self::topology::TopologyArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0    done; the answer is yes, or the job succeeded
  1    done, and the answer is no: the job failed or was stopped, the file is not valid
  2    the command line or a file it names cannot be used
  3    no agent answers
  4    the agent refused, and says why
  124  `job wait --timeout` passed first
  `muster run` exits as the task does, and with 130 or 143 after SIGINT or SIGTERM; so do srun,
  `sbatch --wait` and a login that waits.

Environment:
  MUSTER_HOME      the agent's socket is agent.sock in this directory (default /run/muster)
  MUSTER_CONTEXT   same as --context, but --url wins over it
  MUSTER_URL       same as --url
  MUSTER_TOKEN     same as --token
  MUSTER_USER      same as --user
  MUSTER_IMAGE     same as --image of `muster run`, sbatch and srun
  XDG_CONFIG_HOME  contexts are in muster/contexts.json in this directory (default ~/.config)
  NO_COLOR         no colours; there are none either where output is not a terminal

Which agent is asked, the first of these that is there:
  --socket; --context; --url or MUSTER_URL; MUSTER_CONTEXT; MUSTER_HOME; the socket
  /run/muster/agent.sock if you may use it, as root may on a node; the context in use.";

/// Runs containers on a cluster of GPU machines, one identical agent on each.
#[derive(Debug, Parser)]
#[command(name = "muster", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    connection: EndpointArguments,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the agent of this machine, in the foreground.
    #[command(after_help = "Examples:
  muster agent
  muster agent --config /etc/muster/agent.toml")]
    Agent(AgentArgs),
    /// Submit, watch and stop jobs.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Run one command in a container: submit it as a job, show its output, exit as it does.
    Run(run::RunArguments),
    /// Images of the agent's machine.
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// The agent's machine.
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Virtual clusters: who is promised what, and how much of it is in use.
    #[command(subcommand)]
    Vc(vc::VcCommand),
    /// The cluster: make one, let machines in, see how they are.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Log in to a cluster, and use it from now on.
    #[command(after_help = login::LOGIN_EXAMPLES)]
    Login(login::LoginArguments),
    /// Revoke the token of the context in use, and remove the context.
    #[command(after_help = login::LOGOUT_EXAMPLES)]
    Logout,
    /// Show who you are to the cluster, and which cluster that is.
    #[command(after_help = login::WHOAMI_EXAMPLES)]
    Whoami {
        /// The form of the answer.
        #[command(flatten)]
        output: output::OutputOption,
    },
    /// Clusters that you have logged in to.
    #[command(subcommand)]
    Context(context_command::ContextCommand),
    /// Print settings of ssh for the tasks that have an SSH server.
    #[command(after_help = ssh_config::EXAMPLES)]
    SshConfig(ssh_config::SshConfigArguments),
    /// Your tokens, and those of your programs. For tokens that admit machines see `cluster token`.
    #[command(subcommand)]
    Token(token::UserTokenCommand),
    /// Users: who may log in, and what they may do.
    #[command(subcommand)]
    User(user::UserCommand),
    /// Groups of users: what their members may do.
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Show who changed which user or group, when and from where.
    #[command(after_help = audit::EXAMPLES)]
    Audit(audit::AuditArguments),
    /// Show what users and groups use of what the policy limits.
    #[command(after_help = usage::EXAMPLES)]
    Usage(usage::UsageArguments),
    /// Keep new tasks off a machine; what runs there goes on.
    #[command(after_help = scheduling::CORDON)]
    Cordon(scheduling::CordonArguments),
    /// Let tasks come to a cordoned machine again.
    #[command(after_help = scheduling::UNCORDON)]
    Uncordon(scheduling::UncordonArguments),
    /// Empty a machine: no new tasks, and what runs there moves to others.
    #[command(after_help = scheduling::DRAIN)]
    Drain(scheduling::Drain),
    /// Let tasks come to a drained machine again.
    #[command(after_help = scheduling::UNDRAIN)]
    Undrain(scheduling::UncordonArguments),
    /// Look for what is wrong with the agent's machine and its way to the others: exits with 1 if
    /// there is something, and says what to do.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArguments),
    /// Failure rules: those of the cluster, and files to check or to try on recorded ends.
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    /// The cluster's policy: whose turn it is, limits of tasks, how long logs are kept.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Storages that the cluster declares, and which of them you may use.
    #[command(subcommand)]
    Storage(storage::StorageCommand),
    /// Placement put to the test: scheduling suites, a benchmark, traces of real clusters.
    #[command(subcommand)]
    Placement(placement::PlacementCommand),
    /// Show what is in use on each machine, and which jobs run, every two seconds.
    #[command(after_help = top::EXAMPLES)]
    Top(top::TopArguments),
    /// Events of a job, and alarms of the cluster.
    #[command(subcommand)]
    Event(event::EventCommand),
    /// List jobs that have ended: when, how long they ran, and their GPU hours.
    #[command(after_help = history::EXAMPLES)]
    History(history::HistoryArguments),
    /// Print what a shell reads to complete command lines of muster.
    Completion(completion::CompletionArguments),
    /// What shells call to complete a command line.
    #[command(name = "__complete", hide = true)]
    Complete(completion::CompleteArguments),
    /// What the agent calls to read the stacks of processes; for no user.
    #[command(name = "__read-stacks", hide = true, after_help = READ_STACKS_EXAMPLES)]
    ReadStacks(ReadStacksArgs),
    /// Commands under other names: those of Slurm.
    #[command(subcommand)]
    Alias(alias::AliasCommand),
    /// Slurm's commands, carried out here; `muster alias slurm` installs them under their own names.
    #[command(subcommand)]
    Slurm(slurm::SlurmCommand),
}

/// Arguments of `muster agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// The configuration file [default: /etc/muster/agent.toml, which may be missing].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

const READ_STACKS_EXAMPLES: &str = "\
Examples:
  muster __read-stacks --limit-ms 5000 4711";

/// Arguments of `muster __read-stacks`.
#[derive(Debug, Args)]
pub struct ReadStacksArgs {
    /// All threads of a process, and not only the main one and those of Python.
    #[arg(long)]
    pub all_threads: bool,
    /// How long it may take.
    #[arg(long, value_name = "MS")]
    pub limit_ms: u64,
    /// The processes.
    #[arg(value_name = "PID", required = true)]
    pub pids: Vec<u32>,
}

/// Reads the command line. Prints help or a usage error and exits where there is one to print.
pub fn parse() -> Cli {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    Cli::parse_from(slurm::alias(&arguments).unwrap_or(arguments))
}

/// Carries out any command but those that the program starts itself on a runtime of its own, and says how to exit.
pub fn main(cli: Cli) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            Console::standard().report(&CliError::Output(error));
            return CliStatus::Negative.into();
        }
    };
    let code = runtime.block_on(run(cli));
    // A read of stdin that nobody waits for any more must not hold up the end.
    runtime.shutdown_background();
    code
}

/// Carries out any command but `agent`, and says how to exit.
pub async fn run(cli: Cli) -> ExitCode {
    let console = Console::standard();
    execute(cli, &console).await.into()
}

async fn execute(cli: Cli, console: &Console) -> CliStatus {
    match dispatch(cli, console).await {
        Ok(status) => status,
        Err(error) => {
            console.report(&error);
            error.status()
        }
    }
}

async fn dispatch(cli: Cli, console: &Console) -> Result<CliStatus, CliError> {
    let connection = cli.connection;
    let api = || Api::new(&connection, None);
    // Commands of many steps are boxed: all futures here share one stack frame, the largest decides.
    match cli.command {
        Command::Agent(_) | Command::ReadStacks(_) => {
            Err(CliError::Usage("this command is started by main".into()))
        }
        Command::Job(command) => Box::pin(command.run(&connection, console)).await,
        Command::Run(arguments) => Box::pin(arguments.run(&connection, console)).await,
        Command::Image(command) => command.run(&api()?, console).await,
        Command::Node(command) => command.run(&api()?, console).await,
        Command::Vc(command) => command.run(&api()?, console).await,
        Command::Cluster(command) => command.run(&api()?, console).await,
        Command::Login(arguments) => arguments.run(&connection, console).await,
        Command::Logout => login::log_out(&connection, console).await,
        Command::Whoami { output } => login::who_am_i(output, &connection, console).await,
        Command::Context(command) => command.run(&connection, console),
        Command::SshConfig(arguments) => arguments.run(&connection, console).await,
        Command::Token(command) => command.run(&api()?, console).await,
        Command::User(command) => command.run(&api()?, console).await,
        Command::Group(command) => command.run(&api()?, console).await,
        Command::Audit(arguments) => arguments.run(&api()?, console).await,
        Command::Usage(arguments) => arguments.run(&api()?, console).await,
        Command::Cordon(arguments) => arguments.run(&api()?, console).await,
        Command::Uncordon(arguments) | Command::Undrain(arguments) => {
            arguments.run(&api()?, console).await
        }
        Command::Drain(arguments) => arguments.run(&api()?, console).await,
        Command::Doctor(arguments) => arguments.run(&api()?, console).await,
        Command::Rules(command) => command.run(&connection, console).await,
        Command::Policy(command) => command.run(&connection, console).await,
        Command::Storage(command) => command.run(&connection, console).await,
        Command::Placement(command) => command.run(console),
        Command::Top(arguments) => Box::pin(arguments.run(&api()?, console)).await,
        Command::Event(command) => Box::pin(command.run(&connection, console)).await,
        Command::History(arguments) => Box::pin(arguments.run(&connection, console)).await,
        Command::Completion(arguments) => arguments.run(console),
        Command::Complete(arguments) => Box::pin(arguments.run(&connection, console)).await,
        Command::Alias(command) => command.run(console),
        Command::Slurm(command) => Box::pin(command.run(&connection, console)).await,
    }
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod gateway_tests;
#[cfg(test)]
mod import_tests;
#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod people_tests;
#[cfg(test)]
mod placement_tests;
#[cfg(test)]
mod storage_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod token_tests;
