//! `muster rules list`.

use muster_failure_rules::RuleSet;
use muster_model::exit::{Behavior, ExitSpec};

use super::RULES;
use crate::api::Api;
use crate::console::{Console, Paint};
use crate::error::{CliError, in_lines};
use crate::output::OutputOption;
use crate::status::CliStatus;
use crate::table::TextTable;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster rules list
  muster rules list 41
  muster rules list -o json | jq -r '.[] | select(.behavior == \"PERMANENT\").phrase'";

/// Lists the rules of a version, in the order in which they are tried.
pub(super) async fn list(
    api: &Api,
    version: Option<u64>,
    output: OutputOption,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let shown = api.text(RULES.name, version).await?;
    let rules = RuleSet::parse(&shown.text).map_err(|problems| {
        let (version, problems) = (shown.version, in_lines(&problems));
        CliError::Usage(format!(
            "version {version} of the rules cannot be read by this program; update it:\n{problems}"
        ))
    })?;
    let specs: Vec<&ExitSpec> = rules.specs().collect();
    output.write(console, &specs, |specs, paint| table(specs, paint))?;
    Ok(CliStatus::Ok)
}

fn table(specs: &[&ExitSpec], paint: Paint) -> String {
    let mut table = TextTable::new(["CODE", "PHRASE", "RETRIED", "REASON"]);
    for spec in specs {
        let reason = spec.reason.clone().unwrap_or_default();
        let retried = retried(spec.behavior);
        table.row([
            spec.code.into(),
            spec.phrase.clone().into(),
            retried.into(),
            reason.into(),
        ]);
    }
    table.render(paint, 0)
}

/// What becomes of a job that ends so.
const fn retried(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Transient => "uncharged",
        Behavior::TransientConflict => "uncharged, later",
        Behavior::Permanent => "never",
        Behavior::Unknown => "charged",
    }
}
