//! The first step: the user's exit code and the logs give what the container exits with.

use std::cell::OnceCell;
use std::ops::Range;

use muster_model::health::DeviceEvent;
use regex::bytes::Regex;

use crate::ending::{EndError, EndReport, Ending};
use crate::rule::{DeviceEventPattern, EndPlace, LineRole, ReportedPattern, RuntimePattern};
use crate::scan::{EndPatterns, EndScan, PatternId, Scan};
use crate::treatment::UsedRules;

/// What a failed container exits with if no rule knows the failure.
pub const UNRECOGNIZED: i32 = 255;

/// A shell shows signal N as this and N.
const SIGNALLED: i32 = 128;
/// What Python and Java exit with after an error that nothing handled.
pub(crate) const UNCAUGHT: i32 = 1;

/// What this step looks at.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    /// The user command's exit status, not 0.
    pub(crate) exit_code: i32,
    pub(crate) user_log: Scan<'a>,
    pub(crate) platform_log: Scan<'a>,
    /// The end of the user log, told apart at the first question about it.
    pub(crate) end: LogEnd<'a>,
    pub(crate) double_ecc_error: bool,
    pub(crate) device_events: &'a [DeviceEvent],
}

/// The end of the user log with the expressions that look at it.
#[derive(Debug)]
pub(crate) struct LogEnd<'a> {
    patterns: &'a EndPatterns,
    harmless: &'a [Regex],
    read: OnceCell<(Ending, EndScan)>,
}

impl<'a> LogEnd<'a> {
    pub(crate) const fn new(patterns: &'a EndPatterns, harmless: &'a [Regex]) -> Self {
        Self {
            patterns,
            harmless,
            read: OnceCell::new(),
        }
    }
}

/// Where a rule matched in the user log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogMatch {
    /// What is shown of the log.
    pub(crate) range: Range<usize>,
    /// What the expression found, where that is not the text of the range.
    pub(crate) found: Option<String>,
}

/// The rule that was found and where it matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleMatch {
    pub(crate) code: i32,
    /// Place of the pattern in its rule; none if no pattern led to the code.
    pub(crate) pattern: Option<usize>,
    pub(crate) user_log: Option<LogMatch>,
    pub(crate) platform_log: Option<Range<usize>>,
    /// Place of the event that matched.
    pub(crate) device_event: Option<usize>,
}

impl RuleMatch {
    /// A code that no pattern led to.
    pub(crate) const fn plain(code: i32) -> Self {
        Self {
            code,
            pattern: None,
            user_log: None,
            platform_log: None,
            device_event: None,
        }
    }
}

/// The error that is asked about, and the lines after it.
#[derive(Clone, Copy, Debug)]
struct AskedError<'a> {
    error: Option<&'a EndError>,
    closing: &'a [Range<usize>],
}

impl Inside<'_> {
    /// The first pattern of the first rule, in file order, of which every field holds. Those that say why the task
    /// failed are asked before those that say that it did.
    ///
    /// Where the deciding error is another process' doing, that process may have printed its own error, which explains
    /// more.
    pub(crate) fn first_match(&self, rules: UsedRules<'_>) -> RuleMatch {
        let asked = self.asked();
        if let Some(root) = self.first_of(LineRole::Root, rules, &asked) {
            return root;
        }
        if let Some(cascade) = self.first_of(LineRole::Cascade, rules, &asked) {
            return self.other_error(rules).unwrap_or(cascade);
        }
        let confirmation = self.first_of(LineRole::Confirmation, rules, &asked);
        // A program that reports its error and then says more ends with 1; one that outlived it ends as it likes.
        let may_be_outlived = asked.error.is_none() && self.exit_code == UNCAUGHT;
        confirmation
            .or_else(|| self.other_error(rules).filter(|_| may_be_outlived))
            .unwrap_or(RuleMatch::plain(UNRECOGNIZED))
    }

    fn asked(&self) -> AskedError<'_> {
        let (ending, _) = self.ending();
        AskedError {
            error: ending.error.as_ref(),
            closing: &ending.closing,
        }
    }

    fn ending(&self) -> &(Ending, EndScan) {
        self.end.read.get_or_init(|| {
            if self.end.patterns.is_empty() {
                return Default::default();
            }
            let ending = Ending::read(self.user_log.text(), self.exit_code, self.end.harmless);
            let scan = self.end.patterns.scan(ending.text());
            (ending, scan)
        })
    }

    /// What an error beside the deciding one says that is no other process' doing.
    fn other_error(&self, rules: UsedRules<'_>) -> Option<RuleMatch> {
        let (ending, _) = self.ending();
        ending.others.iter().find_map(|error| {
            let asked = AskedError {
                error: Some(error),
                closing: &[],
            };
            let of_role = |role| self.first_about(role, rules, &asked);
            let root = of_role(LineRole::Root);
            let is_cascade = root.is_none() && of_role(LineRole::Cascade).is_some();
            root.or_else(|| of_role(LineRole::Confirmation).filter(|_| !is_cascade))
        })
    }

    fn first_of(
        &self,
        role: LineRole,
        rules: UsedRules<'_>,
        asked: &AskedError<'_>,
    ) -> Option<RuleMatch> {
        let mut patterns = in_order(rules).filter(|(_, pattern)| pattern.role == role);
        patterns.find_map(|(place, pattern)| self.matches_about(place, pattern, asked))
    }

    /// The same among patterns that look at the error alone.
    fn first_about(
        &self,
        role: LineRole,
        rules: UsedRules<'_>,
        asked: &AskedError<'_>,
    ) -> Option<RuleMatch> {
        let is_about = |pattern: &RuntimePattern| {
            pattern.exit_code.is_none()
                && pattern
                    .user_log_in
                    .is_some_and(|place| place != EndPlace::End)
        };
        let patterns =
            in_order(rules).filter(|(_, pattern)| pattern.role == role && is_about(pattern));
        patterns
            .into_iter()
            .find_map(|(place, pattern)| self.matches_about(place, pattern, asked))
    }

    #[cfg(test)]
    pub(crate) fn matches(&self, code: i32, pattern: &RuntimePattern) -> Option<RuleMatch> {
        self.matches_about((code, 0), pattern, &self.asked())
    }

    /// Numbers before texts: most rules are ruled out without a look at the log. `place`: the rule's code, and the
    /// pattern's place in it.
    fn matches_about(
        &self,
        (code, place): (i32, usize),
        pattern: &RuntimePattern,
        asked: &AskedError<'_>,
    ) -> Option<RuleMatch> {
        let numbers = pattern
            .exit_code
            .is_none_or(|wanted| wanted == self.exit_code)
            && pattern
                .double_ecc_error
                .is_none_or(|wanted| wanted == self.double_ecc_error);
        if !numbers {
            return None;
        }
        let device_event = match &pattern.device_event {
            Some(wanted) => Some(self.last_event(wanted)?),
            None => None,
        };
        let platform_log = match pattern.platform_log {
            Some(id) => Some(self.platform_log.find(id, None)?),
            None => None,
        };
        let report = match &pattern.reported {
            Some(wanted) => Some(self.report(wanted)?),
            None => None,
        };
        let is_of_signal =
            pattern.exit_code.is_some_and(|code| code > SIGNALLED) && pattern.user_log.is_none();
        if is_of_signal && self.is_own_number() {
            return None;
        }
        let user_log = match (pattern.user_log, pattern.user_log_in) {
            (Some(id), Some(place)) => Some(self.find_at_end((id, place), pattern, asked)?),
            (Some(id), None) => Some(LogMatch {
                range: self.user_log.find(id, pattern.user_log_last_lines)?,
                found: None,
            }),
            (None, _) => report.map(|report| self.shown(&report.place)),
        };
        Some(RuleMatch {
            code,
            pattern: Some(place),
            user_log,
            platform_log,
            device_event,
        })
    }

    /// Whether a launcher's code above 128 stands for no signal.
    fn is_own_number(&self) -> bool {
        let (ending, _) = self.ending();
        ending.report.as_ref().is_some_and(EndReport::is_own_number)
    }

    /// The report, if it is one that is wanted.
    fn report(&self, wanted: &ReportedPattern) -> Option<&EndReport> {
        let (ending, _) = self.ending();
        let report = ending.report.as_ref();
        report.filter(|report| wanted.matches(report) && report.may_lead_to(self.exit_code))
    }

    /// The first match in a place of the end.
    fn find_at_end(
        &self,
        (id, place): (PatternId, EndPlace),
        pattern: &RuntimePattern,
        asked: &AskedError<'_>,
    ) -> Option<LogMatch> {
        let (ending, scan) = self.ending();
        let find = |id: PatternId, within: &Range<usize>| {
            self.end.patterns.find(scan, id, (ending.text(), within))
        };
        let places = places(place, ending, asked);
        let found = places.iter().find_map(|within| find(id, within))?;
        let before = ending.end.start.min(found.start)..found.start;
        if pattern
            .user_log_before
            .is_some_and(|id| find(id, &before).is_none())
            || pattern
                .user_log_not
                .is_some_and(|id| find(id, &ending.end).is_some())
        {
            return None;
        }
        Some(self.shown(&found))
    }

    /// What is shown of a part of the end.
    fn shown(&self, found: &Range<usize>) -> LogMatch {
        let (ending, _) = self.ending();
        let text = String::from_utf8_lossy(&ending.text()[found.clone()]);
        LogMatch {
            range: ending.origin(found),
            found: Some(text.into_owned()),
        }
    }

    /// The place of the last event that matches: it is the nearest to the end.
    fn last_event(&self, wanted: &DeviceEventPattern) -> Option<usize> {
        self.device_events
            .iter()
            .rposition(|event| wanted.matches(event))
    }
}

/// All patterns, each with its rule's code and its place in the rule.
fn in_order(rules: UsedRules<'_>) -> impl Iterator<Item = ((i32, usize), &RuntimePattern)> {
    let in_order = rules.iter().filter(|rule| rule.spec.code > 0);
    in_order.flat_map(|rule| {
        let patterns = rule.runtime.iter().enumerate();
        patterns.map(|(at, pattern)| ((rule.spec.code, at), pattern))
    })
}

/// The parts of the end that a pattern looks at, in the order in which it does.
fn places(place: EndPlace, ending: &Ending, asked: &AskedError<'_>) -> Vec<Range<usize>> {
    let messages = |error: &EndError| [vec![error.message.clone()], error.causes.clone()].concat();
    let of_error = match (place, asked.error) {
        (EndPlace::End, _) => return vec![ending.end.clone()],
        (EndPlace::Last, _) => return asked.closing.last().cloned().into_iter().collect(),
        (_, None) => Vec::new(),
        (EndPlace::Message | EndPlace::Error, Some(error)) => vec![error.message.clone()],
        (EndPlace::Messages | EndPlace::Chain, Some(error)) => messages(error),
        (EndPlace::Traceback, Some(error)) => vec![error.whole.clone()],
    };
    match place {
        EndPlace::Message | EndPlace::Messages => of_error,
        _ => of_error
            .into_iter()
            .chain(asked.closing.iter().cloned())
            .collect(),
    }
}
