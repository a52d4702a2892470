//! `muster rules test`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use muster_failure_rules::{RULES_BYTES_MAX, RuleSet};
use muster_model::exit::Behavior;
use muster_model::rule_test::{
    ExampleFailure, FailureSignature, JudgedAs, RuleTest, UnheardNode, VerdictChange,
};

use super::RULES;
use crate::api::Api;
use crate::console::{Console, Paint};
use crate::document_file;
use crate::error::CliError;
use crate::moment::{now_ms, span};
use crate::output::OutputOption;
use crate::spinner::Spinner;
use crate::status::CliStatus;
use crate::table::TextTable;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster rules test new.yaml
  muster rules show > new.yaml && vi new.yaml && muster rules test new.yaml && muster rules apply new.yaml
  muster rules test                    # what the rules in shadow would have said
  muster rules test new.yaml -o json | jq -r '.changes[] | [.count, .before.code, .after.code] | @tsv'

Every node keeps its failures of the last 30 days: how they ended, what devices reported, the ends of their logs
without secrets. All nodes judge theirs by the rules in force and by the new ones, and change nothing. Failures that
the new rules do not know are listed by what their logs end with, each with an expression to begin a rule with.
Rules in shadow are tried as if they decided.

Exits with 0 if no verdict would change, with 1 if one would, with 2 if the rules cannot be used.";

/// Arguments of `test`.
#[derive(Debug, Args)]
pub struct RulesTestArguments {
    /// The rule file; - for stdin [default: the rules in force on the agent's machine].
    file: Option<PathBuf>,
    #[command(flatten)]
    output: OutputOption,
}

impl RulesTestArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let text = match &self.file {
            Some(file) => from_file(file)?,
            None => api.text(RULES.name, None).await?.text,
        };
        let spinner = Spinner::new("all nodes try the rules on their failures");
        let test = api.test_rules(text).await?;
        spinner.clear();
        let now_ms = now_ms();
        self.output
            .write(console, &test, |test, paint| page(test, paint, now_ms))?;
        for sentence in limits(&test) {
            console.note(sentence);
        }
        Ok(CliStatus::of(test.changed == 0))
    }
}

/// The text of a rule file that can be used, without the marks of `muster rules show`.
fn from_file(file: &Path) -> Result<String, CliError> {
    let text = document_file::read(file, RULES_BYTES_MAX as u64)?;
    RuleSet::parse(&text).map_err(|problems| CliError::unusable(file, &problems))?;
    let (_, text) = RULES.unmarked(&text);
    Ok(text.to_owned())
}

/// What was found, for people.
fn page(test: &RuleTest, paint: Paint, now_ms: u64) -> String {
    let mut page = headline(test);
    page.push('\n');
    if !test.changes.is_empty() {
        let _ = write!(page, "\n{}", changes(&test.changes, paint, now_ms));
    }
    if !test.signatures.is_empty() {
        let unknown = counted(test.unknown, "failure");
        let head =
            format!("{unknown} would be unknown to the new rules. What their logs end with:");
        let table = signatures(&test.signatures, paint, now_ms);
        let _ = write!(page, "\n{head}\n{table}");
    }
    page
}

/// `3 of 2000 failures on 5 nodes would get another verdict`
fn headline(test: &RuleTest) -> String {
    let nodes = counted(test.nodes.len() as u64, "node");
    match (test.tried, test.changed) {
        (0, _) => format!("no failures are kept on {nodes}; nothing was tried"),
        (tried, 0) => format!(
            "none of {} on {nodes} would get another verdict",
            counted(tried, "failure")
        ),
        (tried, changed) => format!(
            "{changed} of {} on {nodes} would get another verdict",
            counted(tried, "failure")
        ),
    }
}

fn changes(changes: &[VerdictChange], paint: Paint, now_ms: u64) -> String {
    let mut table = TextTable::new(["COUNT", "BEFORE", "AFTER", "RETRIES", "FOR EXAMPLE"]);
    for change in changes {
        let example = change.examples.first();
        table.row([
            change.count.into(),
            verdict(&change.before).into(),
            verdict(&change.after).into(),
            retries(&change.before, &change.after).into(),
            example
                .map(|example| shown(example, now_ms))
                .unwrap_or_default()
                .into(),
        ]);
    }
    table.render(paint, 0)
}

fn signatures(signatures: &[FailureSignature], paint: Paint, now_ms: u64) -> String {
    let mut table = TextTable::new(["COUNT", "EXPRESSION", "FOR EXAMPLE"]);
    for signature in signatures {
        table.row([
            signature.count.into(),
            signature.pattern.as_str().into(),
            shown(&signature.example, now_ms).into(),
        ]);
    }
    table.render(paint, 0)
}

/// `255 UnknownFailure`
fn verdict(judged: &JudgedAs) -> String {
    format!("{} {}", judged.code, judged.phrase)
}

/// What becomes of retries, where that changes.
fn retries(before: &JudgedAs, after: &JudgedAs) -> String {
    match before.behavior == after.behavior {
        true => String::new(),
        false => format!("{} -> {}", word(before.behavior), word(after.behavior)),
    }
}

const fn word(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Transient => "TRANSIENT",
        Behavior::TransientConflict => "TRANSIENT_CONFLICT",
        Behavior::Permanent => "PERMANENT",
        Behavior::Unknown => "UNKNOWN",
    }
}

/// `ada~train worker:0 on n1, 2h ago: the line`
fn shown(example: &ExampleFailure, now_ms: u64) -> String {
    let ago = span(now_ms.saturating_sub(example.ended_ms));
    let ExampleFailure {
        job, task, node, ..
    } = example;
    let place = format!("{job} {task} on {node}, {ago} ago");
    match example.line.as_str() {
        "" => place,
        line => format!("{place}: {line}"),
    }
}

/// What the answer does not cover.
fn limits(test: &RuleTest) -> Vec<String> {
    let unheard = test
        .unheard
        .iter()
        .map(|UnheardNode { node, why }| format!("failures of {node} were not tried: {why}"));
    let counts = [
        (
            test.untried,
            "not tried, for the time was up; the newest were tried first",
        ),
        (
            test.cut,
            "tried on a part of the log: what the verdict was made from was longer than what is kept",
        ),
        (test.damaged, "unreadable; the agents' logs name the files"),
        (
            test.changes_left_out,
            "with another verdict in ways that are rarer than those shown",
        ),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| format!("{}: {what}", counted(count, "failure")));
    unheard.chain(counts).collect()
}

/// `1 node`, `3 nodes`.
fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Paint = Paint { colour: false };

    fn judged(code: i32, phrase: &str, behavior: Behavior) -> JudgedAs {
        JudgedAs {
            code,
            phrase: phrase.to_owned(),
            behavior,
        }
    }

    fn example(line: &str) -> ExampleFailure {
        ExampleFailure {
            job: "ada~train".to_owned(),
            task: "worker:0".to_owned(),
            node: "n1".to_owned(),
            ended_ms: 0,
            line: line.to_owned(),
        }
    }

    fn changed() -> RuleTest {
        RuleTest {
            tried: 9,
            changed: 3,
            changes: vec![VerdictChange {
                before: judged(255, "Unknown", Behavior::Unknown),
                after: judged(215, "NoLicense", Behavior::Transient),
                count: 3,
                examples: vec![example("no license server"), example("other")],
            }],
            unknown: 2,
            signatures: vec![FailureSignature {
                text: "flux N is low".to_owned(),
                pattern: r"flux \d+ is low".to_owned(),
                count: 2,
                example: example("flux 7 is low"),
            }],
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            ..RuleTest::default()
        }
    }

    #[test]
    fn a_change_is_shown_with_an_example_and_what_becomes_of_retries() {
        let expect = "\
3 of 9 failures on 2 nodes would get another verdict

COUNT  BEFORE       AFTER          RETRIES               FOR EXAMPLE
3      255 Unknown  215 NoLicense  UNKNOWN -> TRANSIENT  ada~train worker:0 on n1, 2h ago: no license server

2 failures would be unknown to the new rules. What their logs end with:
COUNT  EXPRESSION       FOR EXAMPLE
2      flux \\d+ is low  ada~train worker:0 on n1, 2h ago: flux 7 is low
";
        assert_eq!(page(&changed(), PLAIN, 7_200_000), expect);
    }

    #[test]
    fn without_a_change_one_line_says_so() {
        let nodes = vec!["n1".to_owned()];
        let same = RuleTest {
            tried: 1,
            nodes: nodes.clone(),
            ..RuleTest::default()
        };
        let expect = "none of 1 failure on 1 node would get another verdict\n";
        assert_eq!(page(&same, PLAIN, 0), expect);
        let none = RuleTest {
            nodes,
            ..RuleTest::default()
        };
        let expect = "no failures are kept on 1 node; nothing was tried\n";
        assert_eq!(page(&none, PLAIN, 0), expect);
    }

    #[test]
    fn what_the_answer_does_not_cover_is_told() {
        assert_eq!(limits(&changed()), Vec::<String>::new());
        let test = RuleTest {
            untried: 1,
            cut: 2,
            damaged: 3,
            changes_left_out: 4,
            unheard: vec![UnheardNode {
                node: "n7".to_owned(),
                why: "it cannot be reached".to_owned(),
            }],
            ..changed()
        };
        let told = limits(&test);
        assert_eq!(told.len(), 5, "{told:?}");
        let all = told.join("\n");
        for part in [
            "failures of n7 were not tried: it cannot be reached",
            "1 failure: not tried",
            "2 failures: tried on a part",
            "3 failures: unreadable",
            "4 failures: with another verdict",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}
