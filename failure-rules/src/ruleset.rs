//! A checked rule file, ready to be applied.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use muster_model::exit::{
    Behavior, Cause, DEVICE_EVENTS_MAX, Evidence, ExitPhase, ExitSpec, JudgedBy, LinePlace, Verdict,
};
use muster_model::health::{DeviceEvent, EventClass};
use muster_model::rule_test::JudgedAs;

use crate::case::{Case, CaseVerdict};
use crate::diagnosis;
use crate::inside::{Inside, RuleMatch};
use crate::outside::{self, EndedContainer, Outside};
use crate::problem::RuleProblem;
use crate::progress;
use crate::reader::{self, Form, RuleFile};
use crate::report::{self, Excerpt, PLATFORM_LINES_MAX, USER_LINES_MAX};
use crate::scan::scanned;
use crate::treatment::{Treatment, UsedRules};

/// Stands for all negative codes that have no row.
const ANY_NEGATIVE: i32 = -8000;
/// Stands for all positive codes that have no row.
const ANY_POSITIVE: i32 = 256;

const SHIPPED_TEXT: &str = include_str!("../rules/default.yaml");

static SHIPPED: LazyLock<RuleSet> = LazyLock::new(|| match RuleSet::parse(SHIPPED_TEXT) {
    Ok(rules) => rules,
    Err(problems) => {
        unreachable!("the shipped rules are part of the program: {problems:?}")
    }
});

/// A checked rule file. Cheap to ask, costly to make: keep it.
#[derive(Debug)]
pub struct RuleSet {
    contents: RuleFile,
    rows: BTreeMap<i32, usize>,
}

impl RuleSet {
    /// Reads a rule file: OpenPAI's exit spec, or the bare list that its runtime reads.
    ///
    /// # Errors
    /// Everything that is wrong with it, in file order.
    pub fn parse(text: &str) -> Result<Self, Vec<RuleProblem>> {
        let contents = reader::read(text)?;
        let rows = contents
            .rules
            .iter()
            .enumerate()
            .map(|(at, rule)| (rule.spec.code, at))
            .collect();
        let rules = Self { contents, rows };
        let mut problems = rules.failed_samples();
        reader::add_lines(text, &mut problems);
        if problems.is_empty() {
            Ok(rules)
        } else {
            Err(problems)
        }
    }

    /// Samples for which the rules say something else than their authors want.
    fn failed_samples(&self) -> Vec<RuleProblem> {
        let failed = self.contents.samples.iter().filter_map(|sample| {
            let code = sample.code;
            let rules = match self.is_in_shadow(code) {
                true => UsedRules::all(&self.contents.rules),
                false => self.deciding(),
            };
            let found = self.case_by(&sample.end, rules).code;
            let message = match (sample.is_match, found == code) {
                (true, true) | (false, false) => return None,
                (true, false) => format!(
                    "is a sample of {code}, and the rules find {found} for it; correct a pattern of {code}, or put \
                     {code} above {found}"
                ),
                (false, true) => format!(
                    "is a sample that {code} must not be found for, and a pattern of {code} matches it; say in the \
                     pattern what it lacks"
                ),
            };
            Some(RuleProblem::new(sample.path.clone(), message))
        });
        failed.collect()
    }

    /// The rules that are part of the program.
    pub fn shipped() -> &'static Self {
        &SHIPPED
    }

    /// The file they are read from.
    pub const fn shipped_text() -> &'static str {
        SHIPPED_TEXT
    }

    /// The row for `code`, if the file has one.
    pub fn spec(&self, code: i32) -> Option<&ExitSpec> {
        self.rows
            .get(&code)
            .map(|at| &self.contents.rules[*at].spec)
    }

    /// All rows, in file order.
    pub fn specs(&self) -> impl Iterator<Item = &ExitSpec> {
        self.contents.rules.iter().map(|rule| &rule.spec)
    }

    /// Whether the rule with this code decides nothing, and verdicts tell what it would have said.
    pub fn is_in_shadow(&self, code: i32) -> bool {
        self.treatment(code).is_in_shadow
    }

    /// The same rules with those in shadow deciding too.
    #[must_use]
    pub fn without_shadow(mut self) -> Self {
        for rule in &mut self.contents.rules {
            rule.treatment.is_in_shadow = false;
        }
        self
    }

    fn has_shadow(&self) -> bool {
        let mut rules = self.contents.rules.iter();
        rules.any(|rule| rule.treatment.is_in_shadow)
    }

    const fn deciding(&self) -> UsedRules<'_> {
        UsedRules::deciding(self.contents.rules.as_slice())
    }

    pub(crate) const fn contents(&self) -> &RuleFile {
        &self.contents
    }

    /// What ended a task of ours. The rules do not know their version: in the verdict it is 0.
    pub fn classify(&self, evidence: &Evidence) -> Verdict {
        let exit = &evidence.exit;
        let inside = Inside {
            exit_code: exit.code,
            user_log: self.contents.user_log.scan(&evidence.user_log),
            platform_log: self.contents.platform_log.scan(&evidence.platform_log),
            end: self.contents.log_end(),
            double_ecc_error: evidence.device_events.iter().any(is_double_ecc),
            device_events: &evidence.device_events,
        };
        let (found, spec) = self.judge(&inside, evidence, self.deciding());
        let code = spec.code;
        let in_user_log = found.user_log.as_ref().map(|found| &found.range);
        let mut user = Excerpt::new(inside.user_log.text(), in_user_log, USER_LINES_MAX);
        let mut platform = Excerpt::new(
            inside.platform_log.text(),
            found.platform_log.as_ref(),
            PLATFORM_LINES_MAX,
        );
        // The quotation is the line if that is short, and what was found in it otherwise.
        let found_text = found
            .user_log
            .as_ref()
            .and_then(|found| found.found.clone());
        let found_user = found_text.or_else(|| user.matched.clone());
        let found_platform = platform.matched.clone();
        if let Some(range) = in_user_log {
            user.widen(inside.user_log.text(), range);
        }
        if let Some(range) = &found.platform_log {
            platform.widen(inside.platform_log.text(), range);
        }
        report::fit(&mut user, &mut platform);
        // A match explains the code only if it led to it.
        let led_here = found.code == code;
        let of_user = user.matched.as_deref().zip(found_user.as_deref());
        let of_platform = platform.matched.as_deref().zip(found_platform.as_deref());
        let event = found.device_event.map(|at| &evidence.device_events[at]);
        let matched = of_user
            .or(of_platform)
            .map(|(line, found)| diagnosis::Match { line, found })
            .or_else(|| event.map(diagnosis::Match::of_event))
            .filter(|_| led_here);
        let treatment = self.treatment(code);
        let judged = JudgedBy {
            rules_version: 0,
            shadow: self.in_shadow(&inside, evidence, &spec),
            goes_elsewhere: treatment.goes_elsewhere,
            in_a_row_max: treatment.in_a_row_max,
            pattern: found
                .pattern
                .filter(|_| led_here)
                .and_then(|at| u32::try_from(at + 1).ok()),
            place: in_user_log
                .filter(|_| led_here)
                .map(|range| place_in_log(evidence, inside.user_log.text(), range.start)),
        };
        Verdict {
            diagnostics: diagnosis::sentences(&spec, exit, matched),
            spec,
            container_exit_code: ran_container(evidence).then_some(found.code),
            origin_exit_code: ran_user_commands(evidence).then_some(exit.code),
            signal: exit.signal,
            matched_user_log: user.matched,
            matched_platform_log: platform.matched,
            user_log: user.lines,
            platform_log: platform.lines,
            device_events: explaining(&evidence.device_events, found.device_event),
            used: None,
            judged: Some(judged),
            progress: progress::at_end(&evidence.user_log),
        }
    }

    /// The match that led to the row, and the row.
    fn judge(
        &self,
        inside: &Inside<'_>,
        evidence: &Evidence,
        rules: UsedRules<'_>,
    ) -> (RuleMatch, ExitSpec) {
        let exit = &evidence.exit;
        let found = self.found_inside(inside, rules, ran_commands(evidence));
        let outside = || self.code_outside(evidence, rules, found.code);
        let code = exit.cause.map_or_else(outside, code_of);
        let mut spec = self.meaning(code, exit.cause);
        if exit.own_doing && of_outside_signal(code) {
            charge_the_task(&mut spec);
        }
        (found, spec)
    }

    /// What the row would be if the rules in shadow decided too, where it is another one.
    fn in_shadow(
        &self,
        inside: &Inside<'_>,
        evidence: &Evidence,
        spec: &ExitSpec,
    ) -> Option<JudgedAs> {
        if !self.has_shadow() {
            return None;
        }
        let all = UsedRules::all(&self.contents.rules);
        let (_, other) = self.judge(inside, evidence, all);
        (other.code != spec.code).then(|| JudgedAs::from(&other))
    }

    fn treatment(&self, code: i32) -> Treatment {
        let rule = self.rows.get(&code).map(|at| &self.contents.rules[*at]);
        rule.map(|rule| rule.treatment).unwrap_or_default()
    }

    /// What OpenPAI would say of a recorded end.
    pub fn classify_case(&self, case: &Case) -> CaseVerdict {
        self.case_by(case, self.deciding())
    }

    fn case_by(&self, case: &Case, rules: UsedRules<'_>) -> CaseVerdict {
        let inside = Inside {
            exit_code: case.exit_code.unwrap_or_default(),
            user_log: self.contents.user_log.scan(case.user_log_tail.as_bytes()),
            platform_log: self
                .contents
                .platform_log
                .scan(case.runtime_log_tail.as_bytes()),
            end: self.contents.log_end(),
            double_ecc_error: case.gpu_double_bit_ecc > 0,
            device_events: &case.device_events,
        };
        let found = self.found_inside(&inside, rules, case.ran_user_command);
        let container_exit_code = case.exit_code.map(|_| found.code);
        let code = match self.contents.form {
            Form::RuntimeOnly => container_exit_code.unwrap_or(outside::NO_FAILED_CONTAINER),
            Form::ExitSpec => case.outside(container_exit_code).code(rules),
        };
        let spec = self.row_or_shadow(code);
        CaseVerdict {
            name: case.name.clone(),
            code,
            container_exit_code,
            phrase: spec
                .map(|spec| spec.phrase.clone())
                .filter(|phrase| !phrase.is_empty()),
            kind: spec.and_then(|spec| spec.kind.clone()),
            matched_user_log: found.user_log.and_then(|found| {
                let text = inside.user_log.text();
                found
                    .found
                    .or_else(|| Excerpt::new(text, Some(&found.range), 0).matched)
            }),
            matched_platform_log: Excerpt::new(
                inside.platform_log.text(),
                found.platform_log.as_ref(),
                0,
            )
            .matched,
        }
    }

    /// The exit code as it is if no command ran or none failed, else what the logs say of it.
    fn found_inside(
        &self,
        inside: &Inside<'_>,
        rules: UsedRules<'_>,
        ran_commands: bool,
    ) -> RuleMatch {
        if !ran_commands || inside.exit_code == outside::SUCCEEDED {
            return RuleMatch::plain(inside.exit_code);
        }
        inside.first_match(rules)
    }

    fn code_outside(&self, evidence: &Evidence, rules: UsedRules<'_>, exit_code: i32) -> i32 {
        if self.contents.form == Form::RuntimeOnly {
            return exit_code;
        }
        let container = EndedContainer {
            name: "app",
            exit_code,
            reason: if evidence.exit.oom_killed {
                "OOMKilled"
            } else {
                "Error"
            },
            message: &evidence.exit.message,
        };
        Outside {
            container: Some(container),
            ..Outside::default()
        }
        .code(rules)
    }

    /// The row for `code`. What the platform itself says keeps its meaning even under a file
    /// that leaves it out.
    fn meaning(&self, code: i32, cause: Option<Cause>) -> ExitSpec {
        let shipped = || {
            SHIPPED
                .spec(code)
                .filter(|_| cause.is_some() || code <= outside::SUCCEEDED)
        };
        let row = self
            .spec(code)
            .or_else(shipped)
            .or_else(|| self.row_or_shadow(code));
        let mut spec = row.cloned().unwrap_or_default();
        spec.code = code;
        if let Some(behavior) = own_behavior(code, cause) {
            spec.behavior = behavior;
        }
        if let Some(words) = cause.and_then(own_words) {
            words.put_into(&mut spec);
        }
        spec
    }

    fn row_or_shadow(&self, code: i32) -> Option<&ExitSpec> {
        let shadow = if code < 0 { ANY_NEGATIVE } else { ANY_POSITIVE };
        self.spec(code).or_else(|| self.spec(shadow))
    }
}

/// Where the line with byte `at` of `searched`, the end of the log as it was searched, stands in the log. Bytes that are
/// no text take more room there, so the line is found again by its number.
fn place_in_log(evidence: &Evidence, searched: &[u8], at: usize) -> LinePlace {
    let end = scanned(&evidence.user_log);
    let lines_before = memchr::memchr_iter(b'\n', &searched[..at]).count();
    let begin = match lines_before.checked_sub(1) {
        None => 0,
        Some(nth) => memchr::memchr_iter(b'\n', end)
            .nth(nth)
            .map_or(end.len(), |end| end + 1),
    };
    let unsearched = evidence.user_log.len() - end.len();
    let from = evidence.user_log_from + unsearched as u64;
    LinePlace {
        offset: from + begin as u64,
        line: (from == 0).then_some(lines_before as u64 + 1),
        to_end: (end.len() - begin) as u64,
    }
}

/// The row of a device that failed.
const DEVICE_LOST: i32 = 211;

/// NVIDIA's event of a memory error that could not be corrected.
const DOUBLE_ECC: &str = "xid 48";

fn is_double_ecc(event: &DeviceEvent) -> bool {
    event.code == DOUBLE_ECC
}

/// The event that a rule matched, then the others that are more than information, the newest
/// first.
fn explaining(events: &[DeviceEvent], matched: Option<usize>) -> Vec<DeviceEvent> {
    let others = (0..events.len()).rev().filter(|at| Some(*at) != matched);
    let others = others.filter(|at| events[*at].class != EventClass::Information);
    let in_order = matched.into_iter().chain(others);
    in_order
        .take(DEVICE_EVENTS_MAX)
        .map(|at| events[at].clone())
        .collect()
}

const fn code_of(cause: Cause) -> i32 {
    match cause {
        Cause::UserStop => -210,
        Cause::AttemptCompleted => -220,
        Cause::ImageNotFound | Cause::RegistryUnknown => 254,
        Cause::CommandNotFound => -1203,
        Cause::EngineRefused => -1204,
        Cause::PortConflict => 253,
        Cause::BarrierTimeout => 251,
        Cause::RuntimeFailed | Cause::ImageNotFetched => 250,
        Cause::DiskLimit => -1000,
        Cause::DeviceLost => DEVICE_LOST,
        Cause::StorageFailed => 219,
        Cause::RunTimeOver => 209,
        Cause::Lost
        | Cause::NodeRestarted
        | Cause::LeaseEnded
        | Cause::NodeSilent
        | Cause::NodeOff => -101,
        Cause::Preempted | Cause::Drained => -1003,
    }
}

/// Where the row's behavior is not the one to follow.
fn own_behavior(code: i32, cause: Option<Cause>) -> Option<Behavior> {
    match code {
        // The container asked for it; the rows of OpenPAI do not say so.
        outside::TRANSIENT => Some(Behavior::Transient),
        outside::TRANSIENT_CONFLICT => Some(Behavior::TransientConflict),
        outside::PERMANENT => Some(Behavior::Permanent),
        // Eviction is nobody's fault in OpenPAI, but here the task itself wrote too much and
        // would do so for ever.
        _ => match cause? {
            Cause::DiskLimit => Some(Behavior::Unknown),
            // The name service may be away: a few tries are made.
            Cause::RegistryUnknown => Some(Behavior::Transient),
            _ => None,
        },
    }
}

/// What a row says of a cause that it is not about in the first place.
struct CauseTexts {
    reaction: &'static str,
    reason: &'static str,
    solution: &'static str,
}

impl CauseTexts {
    fn put_into(&self, spec: &mut ExitSpec) {
        spec.reaction = Some(self.reaction.to_owned());
        spec.reason = Some(self.reason.to_owned());
        spec.solution = vec![self.solution.to_owned()];
    }
}

/// These causes share their codes with others, for which OpenPAI's rows are.
const fn own_words(cause: Cause) -> Option<CauseTexts> {
    match cause {
        Cause::RegistryUnknown => Some(CauseTexts {
            reaction: "ALWAYS_BACKOFF_RETRY",
            reason: "The image's registry is not known by its name",
            solution: "Correct the registry's name in the image, or have the machines' name service know it.",
        }),
        Cause::ImageNotFetched => Some(CauseTexts {
            reaction: "ALWAYS_BACKOFF_RETRY",
            reason: "The image could not be fetched",
            solution: "Wait for the next retry; if it comes back, check that the machine reaches the registry.",
        }),
        // A retry is charged: see `own_behavior`.
        Cause::DiskLimit => Some(CauseTexts {
            reaction: "RETRY_TO_MAX",
            reason: "The task wrote more to its container's own disk than it may",
            solution: "Write less to the container's own disk, or write to a mounted storage.",
        }),
        _ => None,
    }
}

/// Whether a row says that a signal from outside ended the task: SIGINT, SIGQUIT, SIGKILL, SIGTERM.
const fn of_outside_signal(code: i32) -> bool {
    matches!(code, 130 | 131 | 137 | 143)
}

/// Says in a row about a signal from outside that it came from the task itself. OpenPAI cannot know
/// that, and runs such a task again for ever, at nobody's charge.
fn charge_the_task(spec: &mut ExitSpec) {
    const TASK: &str = "USER_CONTAINER";
    let code = spec.code;
    spec.issuer = Some(TASK.to_owned());
    spec.causer = Some(TASK.to_owned());
    spec.kind = Some("USER_FAILURE".to_owned());
    spec.behavior = Behavior::Unknown;
    spec.reaction = Some("RETRY_TO_MAX".to_owned());
    spec.reason = Some(format!(
        "The task ended by itself with {code}; nobody outside it sent a signal, and it met no memory limit"
    ));
    spec.repro = Vec::new();
    spec.solution = vec![
        "Look for what ends it: its own exit, kill, timeout or a watchdog of the program."
            .to_owned(),
    ];
}

fn ran_container(evidence: &Evidence) -> bool {
    let gone = matches!(
        evidence.exit.cause,
        Some(Cause::Lost | Cause::NodeRestarted | Cause::NodeSilent | Cause::NodeOff)
    );
    !gone && (evidence.exit.phase != ExitPhase::Launch || evidence.exit.cause.is_none())
}

fn ran_commands(evidence: &Evidence) -> bool {
    ran_container(evidence) && evidence.exit.phase != ExitPhase::Launch
}

fn ran_user_commands(evidence: &Evidence) -> bool {
    ran_commands(evidence) && evidence.exit.phase != ExitPhase::PreCommands
}
