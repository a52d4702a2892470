//! `muster node health`, `hold`, `release` and `repaired`: what is wrong with parts of a machine,
//! and what a person says of them.

use clap::Args;
use muster_model::health::{HealthCheck, HealthState, Quarantine};
use serde_json::{Value, json};

use super::api::Api;
use super::console::Console;
use super::error::CliError;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;

pub(super) const HEALTH: &str = "\
Checks that are good are left out; `--all` lists them too. -o json lists all of them.
DOES: what a check keeps from being granted: a device, its links, or all of the machine's devices.
A rule in shadow keeps nothing.

Examples:
  muster node health
  muster node health n7 --all
  muster node health n7 -o json | jq -r '.[] | select(.state == \"bad\").evidence'";

pub(super) const HOLD: &str = "\
No check and no repair ends a hold, only `muster node release` does. What runs on the part goes on.

Examples:
  muster node hold n7 3 --reason 'odd results'
  muster node hold n7 mlx5_0/1 --reason 'cable to be changed'
  muster node hold n7 machine --reason 'power supply'";

pub(super) const RELEASE: &str = "\
Examples:
  muster node release n7 3";

pub(super) const REPAIRED: &str = "\
What was seen before counts no more. Of a fault that is still there a check tells again.

Examples:
  muster node repaired n7 GPU-5d1d4f1e-1a5c-4c1c-9a57-3f3f2f8f2a0d
  muster node repaired n7 0000:1a:00.0";

/// Arguments of `muster node health`.
#[derive(Debug, Args)]
pub struct HealthArguments {
    /// The machine, as `muster cluster members` names it; the one that answers if none is named.
    node: Option<String>,
    /// List checks that are good, too.
    #[arg(long)]
    all: bool,
    /// The form of the answer.
    #[command(flatten)]
    output: OutputOption,
}

/// A part of a machine.
#[derive(Debug, Args)]
pub struct PartArguments {
    /// The machine, as `muster cluster members` names it.
    node: String,
    /// The part: a device by its index, id or PCI address, a port as `mlx5_0/1`, or `machine`.
    part: String,
}

/// Arguments of `muster node hold`.
#[derive(Debug, Args)]
pub struct HoldArguments {
    /// Which part.
    #[command(flatten)]
    part: PartArguments,
    /// Why, for other administrators.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl HealthArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let node = match self.node {
            Some(node) => node,
            None => api.node().await?.id.to_string(),
        };
        let checks = api.health_on(&node).await?;
        let is_shown = |check: &&HealthCheck| self.all || check.state != HealthState::Good;
        self.output.write(console, &checks, |checks, paint| {
            let shown: Vec<&HealthCheck> = checks.iter().filter(is_shown).collect();
            match shown.is_empty() {
                true => format!("{node}: {} checks, all good\n", checks.len()),
                false => table(&shown).render(paint, 0),
            }
        })?;
        Ok(CliStatus::Ok)
    }
}

impl HoldArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let PartArguments { node, part } = self.part;
        let wanted = json!({ "part": part, "mark": "held", "reason": self.reason });
        api.mark(&node, &wanted).await?;
        console.note(format!(
            "{part} of {node} gets no new tasks; muster node release {node} {part} ends that"
        ));
        Ok(CliStatus::Ok)
    }
}

impl PartArguments {
    pub(super) async fn release(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        self.say(api, console, "released").await
    }

    pub(super) async fn repaired(
        self,
        api: &Api,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        self.say(api, console, "repaired").await
    }

    async fn say(self, api: &Api, console: &Console, mark: &str) -> Result<CliStatus, CliError> {
        let Self { node, part } = self;
        let wanted: Value = json!({ "part": part, "mark": mark });
        let checks = api.mark(&node, &wanted).await?;
        let left = checks.iter().find(|it| it.effect() != Quarantine::None);
        console.note(match left {
            None => format!("{part} of {node} is {mark}"),
            Some(check) => format!(
                "{part} of {node} is {mark}, but gets no tasks: {}",
                check.evidence
            ),
        });
        Ok(CliStatus::Ok)
    }
}

fn table(checks: &[&HealthCheck]) -> TextTable<5> {
    let mut table = TextTable::new(["PART", "CHECK", "STATE", "DOES", "WHAT WAS SEEN"]);
    for check in checks {
        let does = match check.effect() {
            _ if check.shadow => "shadow",
            _ if check.held_back.is_some() => "held back",
            Quarantine::None => "",
            Quarantine::Links => "no links",
            Quarantine::Device => "not granted",
            Quarantine::Node => "no devices",
        };
        let held_back = check.held_back.iter();
        let held_back = held_back.map(|why| format!(" Held back by the breaker: {why}"));
        let held_back: String = held_back.collect();
        let seen = format!("{} {}{held_back}", check.evidence, check.advice);
        table.row([
            check.subject.to_string().into(),
            check.name.as_str().into(),
            check.state.as_str().into(),
            does.into(),
            seen.trim_end().into(),
        ]);
    }
    table
}
