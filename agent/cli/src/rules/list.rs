//! `muster rules list`.

use muster_failure_rules::RuleSet;
use muster_model::exit::{Behavior, ExitSpec};
use serde::Serialize;

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
    let listed = rules.specs().map(|spec| ListedRule {
        spec,
        shadow: rules.is_in_shadow(spec.code),
    });
    let listed: Vec<ListedRule<'_>> = listed.collect();
    output.write(console, &listed, |listed, paint| table(listed, paint))?;
    Ok(CliStatus::Ok)
}

/// A rule as it is listed.
#[derive(Serialize)]
struct ListedRule<'a> {
    #[serde(flatten)]
    spec: &'a ExitSpec,
    /// Whether it decides nothing.
    shadow: bool,
}

fn table(listed: &[ListedRule<'_>], paint: Paint) -> String {
    let mut table = TextTable::new(["CODE", "PHRASE", "RETRIED", "REASON"]);
    for ListedRule { spec, shadow } in listed {
        let reason = spec.reason.clone().unwrap_or_default();
        let retried = match shadow {
            true => "in shadow",
            false => retried(spec.behavior),
        };
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
