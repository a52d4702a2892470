//! `muster cordon`, `uncordon`, `drain` and `undrain`: which machines jobs are kept off.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use muster_model::mesh::MemberTask;
use serde_json::json;
use tokio::time::sleep;

use super::api::Api;
use super::console::Console;
use super::error::Error;
use super::patience::Patience;
use super::spinner::Spinner;
use super::status::Status;

pub(super) const CORDON: &str = "\
What runs there goes on. `muster uncordon` opens the machine again.

Examples:
  muster cordon n7 --reason 'fans to be checked'
  muster cluster members";

pub(super) const DRAIN: &str = "\
Gangs with a task there are stopped as a whole, and wait for their turn to run on other machines;
nobody is charged a retry for it. The command waits until nothing of them is left on the machine,
and may be interrupted: the machine is drained all the same. `muster undrain` opens it again.

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
/// Jobs named in one sentence.
const NAMED_MAX: usize = 5;

/// Arguments of `muster cordon`.
#[derive(Debug, Args)]
pub struct Cordon {
    /// The machine, as `muster cluster members` names it.
    node: String,
    /// Why, for whoever finds it so.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Arguments of `muster uncordon` and `muster undrain`.
#[derive(Debug, Args)]
pub struct Open {
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
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    after: Duration,
    /// Do not wait until the machine is empty.
    #[arg(long)]
    no_wait: bool,
}

impl Cordon {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<Status, Error> {
        let Self { node, reason } = self;
        let wanted = json!({ "mode": "cordoned", "reason": reason });
        api.schedule(&node, &wanted).await?;
        console.note(format!(
            "{node} gets no new tasks; muster uncordon {node} opens it again"
        ));
        Ok(Status::Ok)
    }
}

impl Open {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<Status, Error> {
        let Self { node, reason } = self;
        let wanted = json!({ "mode": "open", "reason": reason });
        api.schedule(&node, &wanted).await?;
        console.note(format!("{node} takes tasks again"));
        Ok(Status::Ok)
    }
}

impl Drain {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<Status, Error> {
        let node = &self.node;
        let after_s = self.after.as_secs();
        let wanted = json!({ "mode": "draining", "reason": self.reason, "after_s": after_s });
        api.schedule(node, &wanted).await?;
        if self.no_wait {
            console.note(format!(
                "{node} is being drained; muster undrain {node} opens it again"
            ));
            return Ok(Status::Ok);
        }
        wait_until_empty(api, node).await?;
        console.note(format!(
            "{node} is empty; muster undrain {node} opens it again"
        ));
        Ok(Status::Ok)
    }
}

/// Waits for the last task, while agents come and go.
async fn wait_until_empty(api: &Api, node: &str) -> Result<(), Error> {
    let spinner = Spinner::new(format!("draining {node}"));
    let mut patience = Patience::default();
    loop {
        let Some(tasks) = patience.bear(api.tasks_on(node).await).await? else {
            continue;
        };
        if tasks.is_empty() {
            return Ok(());
        }
        spinner.message(format!("{node} has tasks of {}", jobs(&tasks)));
        sleep(PAUSE).await;
    }
}

/// `ada~train, bob~eval and 3 more`: the jobs that tasks belong to.
pub(super) fn jobs(tasks: &[MemberTask]) -> String {
    let jobs: BTreeSet<&str> = tasks.iter().map(|task| task.job.as_str()).collect();
    let named: Vec<&str> = jobs.iter().copied().take(NAMED_MAX).collect();
    match jobs.len().checked_sub(NAMED_MAX) {
        Some(more @ 1..) => format!("{} and {more} more", named.join(", ")),
        Some(0) | None => named.join(", "),
    }
}
