//! The failure rules as a document of the cluster: new versions, and how far they are.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use muster_failure_rules::{RULES_BYTES_MAX, RuleSet};
use muster_model::mesh::{DocumentText, DocumentView, Stage, VersionView};

use super::listed;
use crate::cli::api::Api;
use crate::cli::console::{Console, Paint, printable};
use crate::cli::document_file;
use crate::cli::error::Error;
use crate::cli::moment::{date, now_ms, span};
use crate::cli::output::Output;
use crate::cli::status::Status;
use crate::cli::table::Table;

/// How the first line of what `rules show` prints begins; the version follows. With it
/// `rules apply` knows what was edited.
const MARK: &str = "# muster failure-rules version ";
/// So much of a hash tells versions apart.
const HASH_CHARS: usize = 12;

pub(super) const APPLY_EXAMPLES: &str = "\
Every node checks the new rules before one uses them; then a few use them, then all. --now skips
that and is recorded. An edit of rules that somebody else has replaced since is refused: which
version was edited stands in the first line of what `muster rules show` prints, or in --base.

Examples:
  muster rules apply rules.yaml
  muster rules apply rules.yaml --base 42
  muster rules apply fix.yaml --now --base 42";

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub struct Apply {
    /// The rule file; - for stdin.
    file: PathBuf,
    /// In force on all nodes at once, without steps.
    #[arg(long)]
    now: bool,
    /// The version that was edited [default: what the file's first line says].
    #[arg(long, value_name = "VERSION")]
    base: Option<u64>,
}

impl Apply {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<Status, Error> {
        let text = document_file::read(&self.file, RULES_BYTES_MAX as u64)?;
        RuleSet::parse(&text).map_err(|problems| {
            let file = self.file.display();
            Error::Usage(format!("{file} cannot be used:\n{}", listed(&problems)))
        })?;
        let (marked, text) = unmarked(&text);
        let base = match self.base.or(marked) {
            Some(base) => base,
            None => first(api).await?,
        };
        let version = api.edit_rules(base, text.to_owned(), self.now).await?;
        console.line(format!("version {version}"))?;
        if !self.now {
            console.note("it is checked everywhere first; see how far it is: muster rules status");
        }
        Ok(Status::Ok)
    }
}

/// The base of an edit that names none: only the first edit of all needs none.
async fn first(api: &Api) -> Result<u64, Error> {
    match api.rules().await?.newest.version {
        0 => Ok(0),
        newest => Err(Error::Usage(format!(
            "the file does not say which version it was made from. Version {newest} is the newest: \
             compare with `muster rules show {newest}`, then give --base {newest}"
        ))),
    }
}

/// The version that a text was shown as, and the text without that line.
fn unmarked(text: &str) -> (Option<u64>, &str) {
    let line = text
        .strip_prefix(MARK)
        .and_then(|rest| rest.split_once('\n'));
    match line.map(|(version, rest)| (version.trim().parse().ok(), rest)) {
        Some((version @ Some(_), rest)) => (version, rest),
        _ => (None, text),
    }
}

/// `rules status`: how far the newest version is.
pub(super) async fn status(api: &Api, output: Output, console: &Console) -> Result<Status, Error> {
    let rules = api.rules().await?;
    let now = now_ms();
    output.write(console, &rules, |rules, paint| page(rules, now, paint))?;
    let refused = matches!(rules.newest.stage, Stage::Withdrawn { .. });
    Ok(Status::of(!refused && rules.coverage.rejected.is_empty()))
}

fn page(rules: &DocumentView, now: u64, paint: Paint) -> String {
    if rules.newest.version == 0 {
        return "nobody edited them: every node uses those it was started with".to_owned();
    }
    let mut page = format!("{}\n", paint.bold(&printable(&rules.to_string())));
    for (name, value) in facts(rules, now) {
        let _ = writeln!(page, "  {name:<10}{}", printable(&value));
    }
    page
}

fn facts(rules: &DocumentView, now: u64) -> Vec<(&'static str, String)> {
    let newest = &rules.newest;
    let mut facts = vec![
        ("stage", stage(&newest.stage)),
        (
            "edited",
            format!(
                "by {}, {} ago",
                newest.author,
                span(now.saturating_sub(newest.at_ms))
            ),
        ),
    ];
    if newest.forced {
        facts.push(("forced", "its steps were skipped".to_owned()));
    }
    if newest.stage != Stage::Active {
        facts.push(("in force", version(rules.active)));
    }
    if rules.here.active != newest.version {
        facts.push(("here", version(rules.here.active)));
    }
    if !rules.here.problem.is_empty() {
        facts.push(("problem", rules.here.problem.clone()));
    }
    for rejection in &rules.coverage.rejected {
        let why = match rejection.reason.as_str() {
            "" => "see `muster rules status` there",
            reason => reason,
        };
        facts.push(("rejected", format!("{}: {why}", rejection.member)));
    }
    facts
}

fn version(version: u64) -> String {
    match version {
        0 => "the rules that come with the agent".to_owned(),
        version => format!("version {version}"),
    }
}

fn stage(stage: &Stage) -> String {
    match stage {
        Stage::Distribute => "distribute: nodes fetch and check it, none uses it yet".to_owned(),
        Stage::Canary { nodes } => format!("canary: first used on {}", nodes.join(", ")),
        Stage::Active => "active".to_owned(),
        Stage::Withdrawn { reason } => format!("withdrawn, nobody uses it: {reason}"),
    }
}

/// `rules history`: what was in force when.
pub(super) async fn history(api: &Api, output: Output, console: &Console) -> Result<Status, Error> {
    let versions = api.rules_history().await?;
    output.write(console, &versions, |versions, paint| table(versions, paint))?;
    Ok(Status::Ok)
}

fn table(versions: &[VersionView], paint: Paint) -> String {
    if versions.is_empty() {
        return "nobody edited them yet".to_owned();
    }
    let mut table = Table::new(["VERSION", "STAGE", "EDITED", "BY", "BYTES", "HASH", ""]);
    for VersionView { version, note } in versions {
        let hash: String = version.hash.chars().take(HASH_CHARS).collect();
        table.row([
            version.version.into(),
            (&version.stage).into(),
            date(version.at_ms).into(),
            version.author.as_str().into(),
            version.bytes.into(),
            hash.into(),
            remark(version.forced, &version.stage, note).into(),
        ]);
    }
    table.render(paint, 0)
}

fn remark(forced: bool, stage: &Stage, note: &str) -> String {
    let mut remarks = Vec::new();
    if forced {
        remarks.push("steps skipped");
    }
    if let Stage::Withdrawn { reason } = stage {
        remarks.push(reason);
    }
    if !note.is_empty() {
        remarks.push(note);
    }
    remarks.join("; ")
}

/// `rules rollback`: an earlier text as a new version.
pub(super) async fn rollback(api: &Api, to: u64, console: &Console) -> Result<Status, Error> {
    let version = api.rollback_rules(to).await?;
    console.line(format!("version {version}"))?;
    console.note(format!(
        "it has the text of version {to}; see how far it is: muster rules status"
    ));
    Ok(Status::Ok)
}

/// `rules show`: a text, ready to be edited and applied again.
pub(super) async fn show(
    api: &Api,
    wanted: Option<u64>,
    output: Output,
    console: &Console,
) -> Result<Status, Error> {
    let shown = api.rules_text(wanted).await?;
    output.write(console, &shown, |DocumentText { version, text }, _| {
        format!("{MARK}{version}\n{text}")
    })?;
    Ok(Status::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_remembers_which_version_it_was() {
        for (text, base, rest) in [
            (
                "# muster failure-rules version 42\n- a\n",
                Some(42),
                "- a\n",
            ),
            (
                "# muster failure-rules version x\n- a\n",
                None,
                "# muster failure-rules version x\n- a\n",
            ),
            ("- a\n", None, "- a\n"),
            ("", None, ""),
        ] {
            assert_eq!(unmarked(text), (base, rest), "{text:?}");
        }
    }
}
