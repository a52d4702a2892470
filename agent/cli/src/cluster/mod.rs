//! `muster cluster`: a file for each thing that can be done with the cluster.

mod alarms;
mod join;
mod members;
mod recover;
mod status;
mod token;

use clap::Subcommand;
use muster_model::mesh::MemberReach;

use super::api::Api;
use super::console::Console;
use super::error::CliError;
use super::output::OutputOption;
use super::scheduling::jobs;
use super::status::CliStatus;

pub(super) use self::alarms::table as alarm_table;

/// What can be done with the cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Give the cluster of this machine a name and open its ports, so that others can join. All that
    /// it has stays: jobs, users, rules, virtual clusters.
    #[command(after_help = "Examples:
  muster cluster init --name vision-lab
  muster cluster init && muster cluster token create")]
    Init {
        /// A name for people [default: the machine's]; the cluster's id is made of its root key.
        #[arg(
            long,
            value_name = "NAME",
            default_value = "",
            hide_default_value = true
        )]
        name: String,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Tokens: whoever has one may add a machine to the cluster.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Make this machine a member of another machine's cluster.
    #[command(after_help = join::EXAMPLES)]
    Join(join::JoinArguments),
    /// Take this machine out of its cluster; it is alone afterwards.
    #[command(after_help = "Examples:
  muster cluster leave
  muster cluster leave --url https://n7:7741")]
    Leave,
    /// List the members, how they are, and who does not hear whom.
    #[command(visible_alias = "ls", after_help = members::EXAMPLES)]
    Members(members::MembersArguments),
    /// List what is wrong with the cluster as the agent's machine sees it, and what happened lately.
    #[command(after_help = alarms::EXAMPLES)]
    Alarms(alarms::Arguments),
    /// Take a member out of the cluster, for good: its key is refused from then on.
    #[command(after_help = "Examples:
  muster cluster expel n7
  muster cluster expel n7 --yes

A machine that can be reached is asked for first: it can leave by itself, after `muster drain`, with
`muster cluster leave`. An expelled machine comes
back only with a new token. What runs there goes on until its run leases are over; what has
none counts as running until you say that the machine is off: muster cluster off n7 --yes")]
    Expel {
        /// The member, as `muster cluster members` names it.
        name: String,
        /// Without a question, also if it can be reached.
        #[arg(long, short)]
        yes: bool,
    },
    /// Say that a member is off: what ran there has ended, and may run elsewhere at once.
    #[command(after_help = "Examples:
  muster cluster off n7 --yes

Only while the member is unreachable, or is no member any more. Without this, tasks there count as
running until their run leases are over, or, where they have none, until the member is back. If they
do run still, they run twice: look at the machine first.")]
    Off {
        /// The member, as `muster cluster members --all` names it.
        name: String,
        /// You have seen that the machine is off.
        #[arg(long, short)]
        yes: bool,
    },
    /// Have a virtual cluster go on that has lost most of the machines that keep its list of jobs.
    #[command(after_help = recover::EXAMPLES)]
    Recover(recover::RecoverArguments),
    /// Show the cluster: exits with 0 if all is well, 1 if not.
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArguments),
}

impl ClusterCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::Init { name, output } => init(&name, output, api, console).await,
            Self::Token(command) => command.run(api, console).await,
            Self::Join(arguments) => arguments.run(api, console).await,
            Self::Leave => leave(api, console).await,
            Self::Members(arguments) => arguments.run(api, console).await,
            Self::Alarms(arguments) => arguments.run(api, console).await,
            Self::Expel { name, yes } => expel(&name, yes, api, console).await,
            Self::Off { name, yes } => off(&name, yes, api, console).await,
            Self::Recover(arguments) => arguments.run(api, console).await,
            Self::Status(arguments) => arguments.run(api, console).await,
        }
    }
}

async fn init(
    name: &str,
    output: OutputOption,
    api: &Api,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let made = api.init_cluster(name).await?;
    output.write(console, &made, |made, _| made.id.clone())?;
    console.note("the cluster has a name, and its ports are open; let others in: muster cluster token create");
    Ok(CliStatus::Ok)
}

async fn leave(api: &Api, console: &Console) -> Result<CliStatus, CliError> {
    api.leave().await?;
    console.note("this machine is alone now");
    Ok(CliStatus::Ok)
}

async fn expel(name: &str, yes: bool, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
    if !yes && !may_be_expelled(name, api, console).await? {
        console.note("nothing was changed");
        return Ok(CliStatus::Negative);
    }
    api.expel(name).await?;
    console.note(format!("{name} is a member no more"));
    match api.tasks_on(name).await {
        Ok(tasks) if tasks.is_empty() => {}
        Ok(tasks) => console.note(format!(
            "tasks of {} count as running there: those with a run lease until that is over, the others until you \
             say that the machine is off: muster cluster off {name} --yes",
            jobs(&tasks)
        )),
        // It is expelled all the same.
        Err(error) => console.note(error.to_string()),
    }
    Ok(CliStatus::Ok)
}

/// Asks, where the member can be reached.
async fn may_be_expelled(name: &str, api: &Api, console: &Console) -> Result<bool, CliError> {
    let mesh = api.mesh().await?;
    let mut admitted = mesh.admitted();
    let Some(member) = admitted.find(|member| member.name == name) else {
        // The answer says what is wrong.
        return Ok(true);
    };
    if member.reach == MemberReach::Unreachable {
        return Ok(true);
    }
    let votes = if member.votes {
        ", and it is a voter"
    } else {
        ""
    };
    let what = format!(
        "{name} can be reached{votes}; on its own it leaves with `muster cluster leave`, without tasks after \
         `muster drain {name}`"
    );
    match console.interactive {
        true => console.agreed(&format!("{what}. Expel it for good?")),
        false => Err(CliError::Usage(format!(
            "{what}. Say --yes to expel it for good"
        ))),
    }
}

async fn off(name: &str, yes: bool, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
    if !yes {
        return Err(CliError::Usage(format!(
            "if tasks of {name} run still, they will run twice; say --yes once you have seen that \
             the machine is off"
        )));
    }
    let tasks = api.say_off(name).await?;
    console.note(match tasks.len() {
        0 => format!("no task counts as running on {name}"),
        1 => format!("1 task on {name} is given up, of {}", jobs(&tasks)),
        count => format!("{count} tasks on {name} are given up, of {}", jobs(&tasks)),
    });
    Ok(CliStatus::Ok)
}

/// What a cluster is called: its name, and enough of its id to tell it from others.
fn called(cluster: &muster_model::mesh::ClusterView) -> String {
    let short: String = cluster.id.chars().take(12).collect();
    match cluster.name.as_str() {
        "" => short,
        name => format!("{name} ({short})"),
    }
}
