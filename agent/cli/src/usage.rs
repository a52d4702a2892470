//! `muster usage`.

use clap::Args;
use muster_model::usage::{UsageView, UseOf, UseOfHours, hours};

use super::api::Api;
use super::console::Console;
use super::error::CliError;
use super::moment::date;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;

pub(super) const EXAMPLES: &str = "\
Each amount is shown as USED/ALLOWED. Only what the policy limits is listed: `muster policy show` has the
limits, `muster policy apply FILE` changes them.

Examples:
  muster usage
  muster usage --of ada
  muster usage --all -o json | jq '.[] | select(.gpu_hours != null)'";

/// Arguments of `usage`.
#[derive(Debug, Args)]
pub struct UsageArguments {
    /// Of this user and their groups. For admins.
    #[arg(long, value_name = "USER", conflicts_with = "all")]
    of: Option<String>,
    /// Of all users and groups. For admins.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputOption,
}

impl UsageArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let usage = api.usage(self.of.as_deref(), self.all).await?;
        self.output.write(console, &usage, |usage, paint| {
            table(usage).render(paint, 0)
        })?;
        if usage.is_empty() {
            console.note("no limit of the policy holds here: every job may have what is free");
        }
        Ok(CliStatus::Ok)
    }
}

fn table(usage: &[UsageView]) -> TextTable<6> {
    let mut table = TextTable::new(["VC", "WHO", "GPUS", "JOBS", "GPU HOURS", "COUNTED ANEW"]);
    for row in usage {
        table.row([
            row.vc.as_str().into(),
            row.subject.to_string().into(),
            row.gpus.map(pair).unwrap_or_default().into(),
            row.jobs.map(pair).unwrap_or_default().into(),
            row.gpu_hours.map(in_hours).unwrap_or_default().into(),
            row.gpu_hours
                .map(|hours| date(hours.resets_ms))
                .unwrap_or_default()
                .into(),
        ]);
    }
    table
}

fn pair(amount: UseOf) -> String {
    format!("{}/{}", amount.used, amount.most)
}

fn in_hours(amount: UseOfHours) -> String {
    let left = hours(amount.left_ms());
    format!("{}/{} ({left} left)", hours(amount.used_ms), amount.most)
}

#[cfg(test)]
mod tests {
    use muster_model::policy::LimitPeriod;
    use muster_model::usage::UsageSubject;

    use super::super::console::Paint;
    use super::*;

    #[test]
    fn what_is_left_is_shown() {
        let usage = UsageView {
            vc: "lab".parse().unwrap(),
            subject: UsageSubject::Group("students".parse().unwrap()),
            gpus: Some(UseOf { used: 3, most: 8 }),
            jobs: None,
            gpu_hours: Some(UseOfHours {
                used_ms: 5_400_000,
                most: 200,
                period: LimitPeriod::Week,
                resets_ms: 1_795_996_800_000,
            }),
        };
        let text = table(&[usage]).render(Paint { colour: false }, 0);
        for part in [
            "group students",
            "3/8",
            "1.5/200 (198.5 left)",
            "2026-11-30 00:00:00 UTC",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
