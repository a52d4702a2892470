//! Kept failures judged by the rules in force and by new ones, on several threads.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use muster_failure_rules::{LogSignature, RuleSet, UNRECOGNIZED};
use muster_model::exit::Verdict;
use muster_model::rule_test::{
    ExampleFailure, FailureSignature, JudgedAs, NODE_SIGNATURES_MAX, RuleTest, RuleTestTally,
};

use super::record::FailureRecord;
use super::retention::FailureName;
use crate::documents::failure_rules::RulesDigest;

/// The longest line of an example, in bytes.
const LINE_BYTES_MAX: usize = 240;

/// Who judges, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleReplay<'a> {
    /// The rules in force.
    pub(super) before: &'a RuleSet,
    /// Which those are.
    pub(super) digest: &'a RulesDigest,
    /// The new ones.
    pub(super) after: &'a RuleSet,
    /// The name of this node.
    pub(super) node: &'a str,
    /// When to end, whatever is left.
    pub(super) until: Instant,
}

impl RuleReplay<'_> {
    /// Judges failures, in their order, on so many threads. `read` reads one; none if it was dropped meanwhile.
    pub(super) fn run(
        &self,
        names: &[FailureName],
        threads: usize,
        read: impl Fn(&FailureName) -> io::Result<Option<FailureRecord>> + Sync,
    ) -> RuleTest {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut tally = RuleTestTally::default();
            while Instant::now() < self.until {
                let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    break;
                };
                self.judge(read(name), name, &mut tally);
            }
            tally.finish(usize::MAX)
        };
        let mut all = RuleTestTally::default();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            all.add(work());
            for other in others {
                match other.join() {
                    Ok(found) => all.add(found),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        let begun = next.load(Ordering::Relaxed).min(names.len());
        all.untried((names.len() - begun) as u64);
        all.heard(self.node.to_owned());
        all.finish(NODE_SIGNATURES_MAX)
    }

    fn judge(
        &self,
        read: io::Result<Option<FailureRecord>>,
        name: &FailureName,
        tally: &mut RuleTestTally,
    ) {
        let record = match read {
            Ok(Some(record)) => record,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(file = name.file(), %error, "a kept failure cannot be read");
                tally.damaged();
                return;
            }
        };
        let evidence = record.evidence();
        // What they said when the task ended, if that is what they say of what is kept.
        let is_known = record.is_whole && record.rules == *self.digest;
        let before = match is_known {
            true => record.judged.clone(),
            false => JudgedAs::from(&self.before.classify(&evidence)),
        };
        let verdict = self.after.classify(&evidence);
        let after = JudgedAs::from(&verdict);
        let example = |line: String| ExampleFailure {
            job: record.job.clone(),
            task: record.task.clone(),
            node: self.node.to_owned(),
            ended_ms: record.exit.ended_ms,
            line,
        };
        if !record.is_whole {
            tally.cut();
        }
        if after.code == UNRECOGNIZED {
            let found = self.after.signature(&record.user_log);
            tally.unknown(found.map(|found| signature(found, example)));
        }
        tally.tried((before, after), example(matched_line(&verdict)));
    }
}

fn signature(
    found: LogSignature,
    example: impl FnOnce(String) -> ExampleFailure,
) -> FailureSignature {
    let LogSignature {
        line,
        text,
        pattern,
    } = found;
    FailureSignature {
        text,
        pattern,
        count: 1,
        example: example(line),
    }
}

/// The last line of what a rule matched: of a traceback that is the error itself.
fn matched_line(verdict: &Verdict) -> String {
    let matched = verdict.matched_user_log.as_deref();
    let matched = matched.or(verdict.matched_platform_log.as_deref());
    let mut lines = matched.unwrap_or_default().lines().map(str::trim);
    let line = lines.rfind(|line| !line.is_empty()).unwrap_or_default();
    line[..line.floor_char_boundary(LINE_BYTES_MAX)].to_owned()
}
