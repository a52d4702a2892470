//! `muster cordon`, `uncordon`, `drain` and `undrain`: which machines jobs are kept off.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use muster_model::mesh::{Leadership, MemberReach, MemberTask, MeshView, Scheduling};
use muster_model::sight::HIDDEN_JOB;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::api::Api;
use super::console::Console;
use super::error::CliError;
use super::moment::duration;
use super::names::at_most;
use super::patience::Patience;
use super::spinner::Spinner;
use super::status::CliStatus;

pub(super) const CORDON: &str = "\
What runs there goes on. `muster uncordon` opens the machine again.

Examples:
  muster cordon n7 --reason 'fans to be checked'
  muster cluster members";

pub(super) const DRAIN: &str = "\
Gangs with a task there are stopped as a whole, and wait for their turn to run on other machines;
nobody is charged a retry for it. The command waits until nothing of them is left on the machine,
and may be interrupted: the machine is drained all the same. `muster undrain` opens it again.
Its votes on lists of jobs and on the cluster state go to other machines that can have them,
which is waited for as well, and said where nobody can.

Examples:
  muster drain n7 --reason 'new disks'
  muster drain n7 --reason 'new disks' --after 2h --no-wait
  muster drain n7 --reason reboot && ssh n7 reboot";

pub(super) const UNCORDON: &str = "\
Examples:
  muster uncordon n7
  muster uncordon n7 --reason 'the fans are fine'";

pub(super) const UNDRAIN: &str = "\
Examples:
  muster undrain n7
  muster undrain n7 --reason 'new disks are in'";

/// Between two looks at what is left on a machine.
const PAUSE: Duration = Duration::from_millis(500);
/// Between two looks whether the machine can be reached.
const SILENCE_PAUSE: Duration = Duration::from_secs(10);
/// How long its votes may take to go elsewhere once a machine is empty.
const VOTES_LIMIT: Duration = Duration::from_secs(15);
/// Jobs named in one sentence.
const NAMED_MAX: usize = 5;

/// Arguments of `muster cordon`.
#[derive(Debug, Args)]
pub struct CordonArguments {
    /// The machine, as `muster cluster members` names it.
    node: String,
    /// Why, for whoever finds it so.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Arguments of `muster uncordon` and `muster undrain`.
#[derive(Debug, Args)]
pub struct UncordonArguments {
    /// The machine, as `muster cluster members` names it.
    node: String,
    /// Why, for the agent's log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// Arguments of `muster drain`.
#[derive(Debug, Args)]
pub struct Drain {
    /// The machine, as `muster cluster members` names it.
    node: String,
    /// Why, for whoever finds it so.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// What runs there may end by itself for so long before it is stopped.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    after: Duration,
    /// Do not wait until the machine is empty.
    #[arg(long)]
    no_wait: bool,
}

impl CordonArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let Self { node, reason } = self;
        let wanted = json!({ "mode": "cordoned", "reason": reason });
        api.schedule(&node, &wanted).await?;
        console.note(format!(
            "{node} gets no new tasks; muster uncordon {node} opens it again"
        ));
        Ok(CliStatus::Ok)
    }
}

impl UncordonArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let Self { node, reason } = self;
        let wanted = json!({ "mode": "open", "reason": reason });
        api.schedule(&node, &wanted).await?;
        console.note(format!("{node} takes tasks again"));
        Ok(CliStatus::Ok)
    }
}

impl Drain {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let node = &self.node;
        let after_s = self.after.as_secs();
        let wanted = json!({ "mode": "draining", "reason": self.reason, "after_s": after_s });
        api.schedule(node, &wanted).await?;
        if self.no_wait {
            console.note(format!(
                "{node} is being drained; muster undrain {node} opens it again"
            ));
            return Ok(CliStatus::Ok);
        }
        wait_until_empty(api, node, console).await?;
        let votes = wait_for_votes(api, node).await?;
        console.note(format!(
            "{node} is empty; muster undrain {node} opens it again"
        ));
        if !votes.is_empty() {
            console.note(format!(
                "{node} still votes on {}, where nobody else can yet: while it is off, the others bear \
                 one failure less",
                votes.join(", ")
            ));
        }
        Ok(CliStatus::Ok)
    }
}

/// What a machine votes on.
struct VoterRoles {
    /// In words.
    on: Vec<String>,
    /// Whether somebody could take the place of the machine.
    may_move: bool,
}

impl VoterRoles {
    fn of(node: &str, mesh: &MeshView) -> Self {
        let lists = mesh.vcs.iter();
        let lists = lists.map(|(vc, list)| (format!("the jobs of {vc}"), list));
        let cluster = ("the cluster state".to_owned(), &mesh.leadership);
        let all = std::iter::once(cluster).chain(lists);
        let votes = all.filter(|(_, log)| log.voters.iter().any(|voter| voter == node));
        let (on, logs): (Vec<String>, Vec<&Leadership>) = votes.unzip();
        let may_move = logs.iter().any(|log| has_successor(log, mesh));
        Self { on, may_move }
    }
}

/// Whether a member that has no vote could get one.
fn has_successor(log: &Leadership, mesh: &MeshView) -> bool {
    mesh.members.iter().any(|member| {
        let word = member.scheduling.as_ref();
        let is_drained =
            word.is_some_and(|word| matches!(word.scheduling, Scheduling::Draining { .. }));
        let may_vote = member.votes && member.reach == MemberReach::Alive && !is_drained;
        may_vote && !log.voters.contains(&member.name)
    })
}

/// Waits until the machine has no vote any more that somebody else could have; what it votes on then.
async fn wait_for_votes(api: &Api, node: &str) -> Result<Vec<String>, CliError> {
    let spinner = Spinner::new(format!("{node} is empty, its votes move"));
    let until = Instant::now() + VOTES_LIMIT;
    let mut patience = Patience::default();
    loop {
        let Some(mesh) = patience.bear(api.mesh().await).await? else {
            continue;
        };
        let votes = VoterRoles::of(node, &mesh);
        if !votes.may_move || Instant::now() >= until {
            return Ok(votes.on);
        }
        spinner.message(format!("{node} still votes on {}", votes.on.join(", ")));
        sleep(PAUSE).await;
    }
}

/// Waits for the last task, while agents come and go.
async fn wait_until_empty(api: &Api, node: &str, console: &Console) -> Result<(), CliError> {
    let spinner = Spinner::new(format!("draining {node}"));
    let mut patience = Patience::default();
    let mut look_at = Some(Instant::now());
    loop {
        let Some(tasks) = patience.bear(api.tasks_on(node).await).await? else {
            continue;
        };
        if tasks.is_empty() {
            return Ok(());
        }
        spinner.message(format!("{node} has tasks of {}", jobs(&tasks)));
        if look_at.is_some_and(|at| at <= Instant::now()) {
            let mesh = patience.bear(api.mesh().await).await?;
            let is_silent = mesh.is_some_and(|mesh| is_silent(node, &mesh));
            if is_silent {
                console.note(format!(
                    "{node} cannot be reached: what it runs cannot be stopped, and is waited for. Once you \
                     have seen that the machine is off: muster cluster off {node}"
                ));
            }
            look_at = (!is_silent).then(|| Instant::now() + SILENCE_PAUSE);
        }
        sleep(PAUSE).await;
    }
}

fn is_silent(node: &str, mesh: &MeshView) -> bool {
    let mut members = mesh.members.iter();
    members.any(|member| member.name == node && member.reach == MemberReach::Unreachable)
}

/// `ada~train, bob~eval and 3 more`: the jobs that tasks belong to.
pub(super) fn jobs(tasks: &[MemberTask]) -> String {
    let name = |task: &MemberTask| task.job.clone().unwrap_or_else(|| HIDDEN_JOB.to_owned());
    let jobs: BTreeSet<String> = tasks.iter().map(name).collect();
    at_most(NAMED_MAX, jobs.iter())
}
