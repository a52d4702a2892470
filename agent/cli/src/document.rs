//! Documents of the cluster as commands see them: new versions, and how far they are.

use std::path::Path;

use muster_model::cluster_spec::SpecProblem;
use muster_model::mesh::{
    ActivationStage, DocumentText, DocumentView, MemberReach, MemberState, MemberView, VersionView,
};
use serde_json::json;

use super::api::Api;
use super::console::{Console, Paint};
use super::error::{CliError, in_lines};
use super::moment::{date, now_ms, span};
use super::names::at_most;
use super::output::OutputOption;
use super::page::Page;
use super::status::CliStatus;
use super::table::TextTable;

/// So much of a hash tells versions apart.
const HASH_CHARS: usize = 12;
/// Members named in one line at most.
const NAMED_MAX: usize = 5;

/// A text that can be used.
#[derive(Debug)]
pub(super) struct CheckedText {
    text: String,
    /// The version that was edited, if that is known.
    base: Option<u64>,
}

/// A document, and how it is spoken of.
#[derive(Clone, Copy, Debug)]
pub(super) struct DocumentTexts {
    /// Its name.
    pub(super) name: &'static str,
    /// The command that prints its text.
    pub(super) show: &'static str,
    /// Said after each edit: the command that shows what the new version does.
    pub(super) after: &'static str,
    /// What holds before anybody edited it.
    pub(super) first: &'static str,
    /// Whether versions come into force step by step, unless somebody skips that.
    pub(super) has_steps: bool,
}

impl DocumentTexts {
    /// How the first line of a text begins that was printed to be edited; the version follows. With
    /// it `apply` knows what was edited.
    fn mark(self) -> String {
        format!("# muster {} version ", self.name)
    }

    /// The version that a text was shown as, and the text without that line.
    pub(super) fn unmarked(self, text: &str) -> (Option<u64>, &str) {
        let line = text
            .strip_prefix(&self.mark())
            .and_then(|rest| rest.split_once('\n'));
        match line.map(|(version, rest)| (version.trim().parse().ok(), rest)) {
            Some((version @ Some(_), rest)) => (version, rest),
            _ => (None, text),
        }
    }

    /// A new text of the document, from a file, if it can be used. `base`: the version that was edited, where
    /// the file does not say so.
    pub(super) fn checked<T>(
        self,
        (file, text): (&Path, &str),
        base: Option<u64>,
        read: impl Fn(&str) -> Result<T, Vec<SpecProblem>>,
    ) -> Result<CheckedText, CliError> {
        let (marked, text) = self.unmarked(text);
        read(text).map_err(|problems| CliError::unusable(file, &problems))?;
        Ok(CheckedText {
            text: text.to_owned(),
            base: base.or(marked),
        })
    }

    /// Gives the document a text that all members use at once, and says which version that is.
    pub(super) async fn apply(
        self,
        api: &Api,
        CheckedText { text, base }: CheckedText,
        output: OutputOption,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let base = self.base(api, base).await?;
        let version = self.edit(api, base, (text, true)).await?;
        self.made(version, output, console)
    }

    /// Gives the document the text of an earlier version, and says which version that is.
    pub(super) async fn roll_back(
        self,
        api: &Api,
        version: u64,
        output: OutputOption,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let made_version = api.rollback(self.name, version).await?;
        self.made(made_version, output, console)
    }

    /// Says which version was made, and the command that shows what it does.
    pub(super) fn made(
        self,
        version: u64,
        output: OutputOption,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let answer = json!({ "version": version });
        output.write(console, &answer, |_, _| format!("version {version}"))?;
        console.note(self.after);
        Ok(CliStatus::Ok)
    }

    /// Gives the document a new text, made from version `base`; answers its version.
    pub(super) async fn edit(
        self,
        api: &Api,
        base: u64,
        (text, now): (String, bool),
    ) -> Result<u64, CliError> {
        let edited = api.edit(self.name, base, text, now).await;
        edited.map_err(|error| match error {
            CliError::Refused {
                what,
                message,
                newest: Some(newest),
                ..
            } => CliError::Outdated {
                what,
                message,
                show: format!("{} {newest}", self.show),
            },
            error => error,
        })
    }

    /// The version that an edit is made on: as it was given or marked; only the first edit of all
    /// needs none.
    pub(super) async fn base(self, api: &Api, given: Option<u64>) -> Result<u64, CliError> {
        if let Some(base) = given {
            return Ok(base);
        }
        match api.document(self.name).await?.newest.version {
            0 => Ok(0),
            newest => Err(CliError::Usage(format!(
                "the file does not say which version it was made from. Version {newest} is the \
                 newest: compare with `{} {newest}`, then give --base {newest}",
                self.show
            ))),
        }
    }
}

/// Says whether a file can be used.
pub(super) fn check(
    problems: &[SpecProblem],
    output: OutputOption,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let errors: Vec<_> = problems
        .iter()
        .map(|problem| json!({ "path": problem.path, "message": problem.message }))
        .collect();
    let answer = json!({ "valid": problems.is_empty(), "errors": errors });
    output.write(console, &answer, |_, _| match problems {
        [] => "valid".to_owned(),
        problems => in_lines(problems),
    })?;
    Ok(CliStatus::of(problems.is_empty()))
}

/// How far the newest version is.
pub(super) async fn status(
    document: DocumentTexts,
    api: &Api,
    output: OutputOption,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let shown = api.document(document.name).await?;
    let members = api.mesh().await?.members;
    let now = now_ms();
    output.write(console, &shown, |shown, paint| {
        page(document, shown, (old_news(shown, &members), now), paint)
    })?;
    let refused = matches!(shown.newest.stage, ActivationStage::Withdrawn { .. });
    Ok(CliStatus::of(
        !refused && shown.coverage.rejected.is_empty(),
    ))
}

/// That what is shown of members is old: they count, and cannot be reached from the machine that was asked.
pub(super) fn old_news(shown: &DocumentView, members: &[MemberView]) -> Option<String> {
    let is_told = |name: &String| shown.coverage.unreachable.contains(name);
    let is_away = |member: &&MemberView| {
        member.state == MemberState::Admitted
            && member.reach == MemberReach::Unreachable
            && !is_told(&member.name)
    };
    let away: Vec<&MemberView> = members.iter().filter(is_away).collect();
    let seconds = away.iter().filter_map(|member| member.reach_s).max()?;
    let names = at_most(NAMED_MAX, away.iter().map(|member| &member.name));
    Some(format!(
        "this machine does not reach {names}: what it shows of them is {} old",
        span(seconds.saturating_mul(1000))
    ))
}

fn page(
    document: DocumentTexts,
    shown: &DocumentView,
    (old_news, now): (Option<String>, u64),
    paint: Paint,
) -> String {
    if shown.newest.version == 0 {
        return format!("never edited: every node uses {}", document.first);
    }
    let mut page = Page::titled(paint, &shown.to_string());
    page.facts(10, facts(document, shown, now));
    page.facts(10, old_news.map(|news| ("as of", news)));
    page.into_text()
}

fn facts(document: DocumentTexts, rules: &DocumentView, now: u64) -> Vec<(&'static str, String)> {
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
    if newest.stage != ActivationStage::Active {
        facts.push(("in force", version(document, rules.active)));
    }
    if rules.here.active != newest.version {
        facts.push(("here", version(document, rules.here.active)));
    }
    if !rules.here.problem.is_empty() {
        facts.push(("problem", rules.here.problem.clone()));
    }
    for rejection in &rules.coverage.rejected {
        let why = match rejection.reason.as_str() {
            "" => "see the status page there",
            reason => reason,
        };
        facts.push(("rejected", format!("{}: {why}", rejection.member)));
    }
    facts
}

fn version(document: DocumentTexts, version: u64) -> String {
    match version {
        0 => document.first.to_owned(),
        version => format!("version {version}"),
    }
}

fn stage(stage: &ActivationStage) -> String {
    match stage {
        ActivationStage::Distribute => {
            "distribute: nodes fetch and check it, none uses it yet".to_owned()
        }
        ActivationStage::Canary { nodes } => format!("canary: first used on {}", nodes.join(", ")),
        ActivationStage::Active => "active".to_owned(),
        ActivationStage::Withdrawn { reason } => format!("withdrawn, nobody uses it: {reason}"),
    }
}

/// What was in force when.
pub(super) async fn history(
    document: DocumentTexts,
    api: &Api,
    output: OutputOption,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let versions = api.history(document.name).await?;
    output.write(console, &versions, |versions, paint| {
        table(document, versions, paint)
    })?;
    Ok(CliStatus::Ok)
}

fn table(document: DocumentTexts, versions: &[VersionView], paint: Paint) -> String {
    if versions.is_empty() {
        return "never edited".to_owned();
    }
    let mut table = TextTable::new(["VERSION", "STAGE", "EDITED", "BY", "BYTES", "HASH", ""]);
    for (at, VersionView { version, note }) in versions.iter().enumerate() {
        let hash: String = version.hash.chars().take(HASH_CHARS).collect();
        table.row([
            version.version.into(),
            match (at, &version.stage) {
                // A newer one came before it was in force everywhere.
                (1.., ActivationStage::Distribute | ActivationStage::Canary { .. }) => {
                    "replaced".into()
                }
                (_, stage) => stage.into(),
            },
            date(version.at_ms).into(),
            version.author.as_str().into(),
            version.bytes.into(),
            hash.into(),
            remark(version.forced && document.has_steps, &version.stage, note).into(),
        ]);
    }
    table.render(paint, 0)
}

fn remark(forced: bool, stage: &ActivationStage, note: &str) -> String {
    let mut remarks = Vec::new();
    if forced {
        remarks.push("steps skipped");
    }
    if let ActivationStage::Withdrawn { reason } = stage {
        remarks.push(reason);
    }
    if !note.is_empty() {
        remarks.push(note);
    }
    remarks.join("; ")
}

/// A text, ready to be edited and applied again.
pub(super) async fn show(
    document: DocumentTexts,
    api: &Api,
    wanted: Option<u64>,
    output: OutputOption,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let shown = api.text(document.name, wanted).await?;
    output.write(console, &shown, |DocumentText { version, text }, _| {
        format!("{}{version}\n{text}", document.mark())
    })?;
    Ok(CliStatus::Ok)
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
            let document = DocumentTexts {
                name: "failure-rules",
                show: "",
                after: "",
                first: "",
                has_steps: true,
            };
            assert_eq!(document.unmarked(text), (base, rest), "{text:?}");
        }
    }
}
