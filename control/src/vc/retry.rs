//! Whether and when something that ended is started again: OpenPAI's policy, with a guard.
//!
//! OpenPAI repeats a transient failure forever and without pause, so a task that keeps failing
//! that way burns its node. Here the pause grows, and past a limit a task that itself ended so
//! counts as failed by the user. What the platform did (the container vanished, the image could
//! not be fetched now, the gang was not ready in time) only slows the job down: however often
//! agents and machines restart, no job ends by it. An attempt that came further than the one before
//! begins the count anew: what fails now and then, and gets on between, is not stuck.

use muster_model::exit::{Behavior, Verdict};
use muster_model::state::{EXIT_ATTEMPT_COMPLETED, EXIT_STOPPED};
use serde::{Deserialize, Serialize};

use crate::gang::hash;
use crate::verdict::{EXIT_IMAGE, EXIT_LOST, EXIT_PREEMPTED, EXIT_STORAGE};

/// Transient failures that are repeated at once.
pub const TRANSIENT_AT_ONCE: u32 = 3;
/// Transient ends of its own containers that are not charged to the user.
pub const TRANSIENT_FREE: u32 = 30;
/// The longest pause after a transient failure, milliseconds.
pub const TRANSIENT_PAUSE_MAX_MS: u64 = 600_000;
/// After a run of this length the pauses begin anew, milliseconds.
pub const LONG_RUN_MS: u64 = TRANSIENT_PAUSE_MAX_MS;
/// So many attempts in a row that fail because the host name of an image's registry cannot be resolved end the
/// job. Mostly the name is wrong, which only the user can mend; but the name service may be away as well, so
/// the pauses between them let it be away for some minutes.
pub const UNRESOLVED_TRIES: u32 = 5;
/// The pause after the first of them, milliseconds. It doubles with each: they take four minutes or more.
pub const UNRESOLVED_PAUSE_MS: u64 = 15_000;
/// Bounds of the pause after a conflict, milliseconds (FrameworkController's defaults).
pub const CONFLICT_PAUSE_MS: std::ops::RangeInclusive<u64> = 60_000..=900_000;

/// Exit code of a task removed by a smaller instance count; never retried.
const EXIT_SCALED_DOWN: i32 = -230;
const ALWAYS: i32 = -2;
const ON_FAILURE: i32 = -1;

/// A retry policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// Look at what the failure means, not only at the count.
    pub(crate) fancy: bool,
    /// Charged retries at most; -1 any number after a failure, -2 always.
    pub(crate) max: i32,
    /// Pause after a conflict. Only whole jobs pause.
    pub(crate) pauses: bool,
}

/// Whose account a retry goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// The user's: as often as the job allows.
    User,
    /// Nobody's, but only [`TRANSIENT_FREE`] times.
    Nobody,
    /// The platform's, any number of times.
    Platform,
    /// Nobody's: it was preempted, which says nothing about it. Any number of times, at once.
    Preempted,
}

/// How often something was retried. Every voter has one of each job and of each task, so small counts are kept
/// small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Count {
    /// In all.
    pub(crate) total: u32,
    /// Charged to the user.
    pub(crate) charged: u32,
    /// Charged to the platform.
    pub(crate) platform: u32,
    /// Not charged to the user, since the last long run; no more than counts for the pause.
    pub(crate) row: u8,
    /// Ends in a row, the last included, that had the same reason.
    pub(crate) same: u16,
    /// Whether the last retry was charged to the user.
    pub(crate) is_charged: bool,
}

impl Count {
    const fn free(self) -> u32 {
        self.total
            .saturating_sub(self.charged)
            .saturating_sub(self.platform)
    }

    /// The count as it stands after a run of so many milliseconds.
    pub(crate) const fn after_run(self, ran_ms: u64) -> Self {
        let row = if ran_ms < LONG_RUN_MS { self.row } else { 0 };
        Self { row, ..self }
    }

    /// The count after one more end, which another one came before.
    pub(crate) fn ended_after(self, before: Option<&Verdict>, verdict: &Verdict) -> Self {
        let Some(before) = before else {
            return self.ended(false);
        };
        match has_progressed(before, verdict) {
            true => self.forgiven().ended(false),
            false => self.ended(is_same_reason(before, verdict)),
        }
    }

    /// The count of what made progress: the retries that nobody was charged for are the platform's from now on, of
    /// which there may be any number.
    const fn forgiven(self) -> Self {
        Self {
            platform: self.total.saturating_sub(self.charged),
            row: 0,
            ..self
        }
    }

    /// The count after one more end, that had the same reason as the one before it, or another.
    pub(crate) const fn ended(self, is_same: bool) -> Self {
        let same = if is_same {
            self.same.saturating_add(1)
        } else {
            1
        };
        Self { same, ..self }
    }

    /// The count with one more retry.
    pub(crate) const fn and(self, charge: Charge) -> Self {
        let (charged, platform, row) = match charge {
            Charge::User => (1, 0, 0),
            Charge::Nobody => (0, 0, 1),
            Charge::Platform => (0, 1, 1),
            Charge::Preempted => (0, 1, 0),
        };
        Self {
            total: self.total.saturating_add(1),
            charged: self.charged.saturating_add(charged),
            platform: self.platform.saturating_add(platform),
            row: self.row.saturating_add(row),
            same: self.same,
            is_charged: matches!(charge, Charge::User),
        }
    }
}

/// Whether an attempt came further than the one before it, by what their logs say.
pub(crate) fn has_progressed(before: &Verdict, verdict: &Verdict) -> bool {
    let both = verdict.progress.zip(before.progress);
    both.is_some_and(|(now, before)| now.is_beyond(&before))
}

/// Whether two attempts ended for the same reason.
pub(crate) fn is_same_reason(one: &Verdict, other: &Verdict) -> bool {
    one.code() == other.code() && one.spec.reason == other.spec.reason
}

/// So many ends like this one in a row are the last, by the rule that led to it; none: there is no such limit.
pub(crate) fn tries_max(verdict: &Verdict) -> Option<u32> {
    let of_rule = verdict
        .judged
        .as_ref()
        .and_then(|judged| judged.in_a_row_max);
    of_rule.or_else(|| is_unresolved(verdict).then_some(UNRESOLVED_TRIES))
}

/// Whether the host name of the image's registry could not be resolved.
fn is_unresolved(verdict: &Verdict) -> bool {
    verdict.code() == EXIT_IMAGE && verdict.spec.behavior == Behavior::Transient
}

/// The verdict of an attempt that is the last because so many in a row ended alike.
pub(crate) fn given_up(mut verdict: Verdict, times: u16) -> Verdict {
    verdict.spec.behavior = Behavior::Permanent;
    verdict.spec.reaction = Some("NEVER_RETRY".to_owned());
    let more = format!(" {times} attempts in a row ended so; no more are made.");
    verdict.diagnostics.push_str(&more);
    verdict
}

/// What comes after an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it is over.
    Stop,
    /// Nothing: it ended in the same way too often in a row.
    GiveUp,
    /// Another attempt.
    Retry { charge: Charge, pause_ms: u64 },
}

impl Next {
    /// Whether it is over.
    pub(crate) const fn is_end(self) -> bool {
        matches!(self, Self::Stop | Self::GiveUp)
    }
}

/// Decides what comes after `verdict`, whose end `count` includes. `name` seeds the pause.
pub(crate) fn next(policy: RetryPolicy, verdict: &Verdict, count: Count, name: &str) -> Next {
    let code = verdict.code();
    if [EXIT_STOPPED, EXIT_ATTEMPT_COMPLETED, EXIT_SCALED_DOWN].contains(&code) {
        return Next::Stop;
    }
    if code == EXIT_PREEMPTED {
        return Next::Retry {
            charge: Charge::Preempted,
            pause_ms: 0,
        };
    }
    if !policy.fancy || code == 0 {
        return normal(policy.max, code, count.charged);
    }
    let tries_max = tries_max(verdict);
    if tries_max.is_some_and(|max| u32::from(count.same) >= max) {
        return Next::GiveUp;
    }
    let pause_ms = match verdict.spec.behavior {
        _ if is_unresolved(verdict) => unresolved_pause(count.same.into(), name),
        Behavior::Permanent => return Next::Stop,
        Behavior::Unknown => return normal(policy.max, code, count.charged),
        Behavior::TransientConflict if policy.pauses => conflict_pause(name),
        Behavior::Transient | Behavior::TransientConflict => {
            transient_pause(count.row.into(), name)
        }
    };
    // No container of the task had an exit, or one that its machine brought about: it was not the task
    // that failed.
    let is_of_platform = [EXIT_LOST, EXIT_STORAGE].contains(&code);
    let charge = match verdict.container_exit_code.filter(|_| !is_of_platform) {
        None => Charge::Platform,
        // The device is not granted again, so the next try has another one.
        Some(_) if verdict.is_device_fault() => Charge::Platform,
        Some(_) if count.free() < TRANSIENT_FREE => Charge::Nobody,
        Some(_) => return normal(policy.max, code, count.charged),
    };
    Next::Retry { charge, pause_ms }
}

fn normal(max: i32, code: i32, charged: u32) -> Next {
    let failed = code != 0;
    let again = match max {
        ALWAYS => true,
        ON_FAILURE => failed,
        max => failed && i64::from(charged) < i64::from(max),
    };
    if !again {
        return Next::Stop;
    }
    Next::Retry {
        charge: Charge::User,
        pause_ms: 0,
    }
}

/// Nothing at first, then doubling from a second, half of it by chance.
fn transient_pause(before: u32, name: &str) -> u64 {
    if before < TRANSIENT_AT_ONCE {
        return 0;
    }
    let doublings = (before - TRANSIENT_AT_ONCE).min(20);
    let pause = (1000 << doublings).min(TRANSIENT_PAUSE_MAX_MS);
    pause / 2 + hash(name) % (pause / 2)
}

/// Doubled with each end in a row, and up to half more by chance.
fn unresolved_pause(same: u32, name: &str) -> u64 {
    let doublings = same.saturating_sub(1).min(UNRESOLVED_TRIES);
    let pause = UNRESOLVED_PAUSE_MS << doublings;
    pause + hash(name) % (pause / 2)
}

fn conflict_pause(name: &str) -> u64 {
    let (first, last) = (CONFLICT_PAUSE_MS.start(), CONFLICT_PAUSE_MS.end());
    first + hash(name) % (last - first + 1)
}

#[cfg(test)]
mod tests {
    use muster_model::exit::Progress;

    use super::*;
    use crate::verdict;

    /// The end of a container with this exit.
    fn verdict_of(code: i32, behavior: Behavior) -> Verdict {
        let mut verdict = verdict::succeeded();
        verdict.spec.code = code;
        verdict.spec.behavior = behavior;
        verdict.container_exit_code = Some(code);
        verdict
    }

    const FANCY: RetryPolicy = RetryPolicy {
        fancy: true,
        max: 0,
        pauses: true,
    };

    /// Ends the same way until it is over, `limit` times at most; gives the pauses.
    fn repeat(verdict: &Verdict, count: &mut Count, limit: usize) -> Vec<u64> {
        let mut pauses = Vec::new();
        loop {
            let ended = count.ended(true);
            let Next::Retry { charge, pause_ms } = next(FANCY, verdict, ended, "a~b") else {
                break;
            };
            if pauses.len() == limit {
                break;
            }
            pauses.push(pause_ms);
            *count = ended.and(charge);
        }
        pauses
    }

    #[test]
    fn the_table() {
        use Behavior::{Permanent, Transient, TransientConflict, Unknown};
        const fn retry(charge: Charge) -> Next {
            Next::Retry {
                charge,
                pause_ms: 0,
            }
        }
        const FREE: Next = retry(Charge::Nobody);
        const CHARGED: Next = retry(Charge::User);
        let table = [
            (true, 3, 0, 137, Transient, FREE),
            (false, 3, 3, 137, Transient, Next::Stop),
            (true, 3, 0, 254, Permanent, Next::Stop),
            (false, 3, 0, 254, Permanent, CHARGED),
            (true, 3, 2, 255, Unknown, CHARGED),
            (true, 3, 3, 255, Unknown, Next::Stop),
            (true, 0, 0, 251, TransientConflict, FREE),
            (true, -1, 9, 255, Unknown, CHARGED),
            (true, -1, 9, 0, Unknown, Next::Stop),
            (true, -2, 9, 0, Unknown, CHARGED),
            (true, -2, 0, EXIT_STOPPED, Unknown, Next::Stop),
            (true, -2, 0, EXIT_ATTEMPT_COMPLETED, Unknown, Next::Stop),
        ];
        for (fancy, max, charged, code, behavior, expected) in table {
            let policy = RetryPolicy {
                fancy,
                max,
                pauses: false,
            };
            let count = Count {
                total: charged,
                charged,
                ..Count::default()
            };
            let got = next(policy, &verdict_of(code, behavior), count, "x");
            assert_eq!(
                got, expected,
                "{code} {behavior:?} max {max} charged {charged}"
            );
        }
    }

    #[test]
    fn transient_failures_slow_down_and_end() {
        let mut count = Count::default();
        let pauses = repeat(&verdict_of(137, Behavior::Transient), &mut count, 1000);
        assert_eq!(pauses.len(), 30);
        assert_eq!(pauses[..3], [0, 0, 0]);
        assert!(pauses[3..].is_sorted() && pauses[3] >= 500);
        assert!(pauses[29] <= TRANSIENT_PAUSE_MAX_MS);
        let conflict = verdict_of(251, Behavior::TransientConflict);
        let pauses = repeat(&conflict, &mut Count::default(), 1);
        assert!(CONFLICT_PAUSE_MS.contains(&pauses[0]));
    }

    #[test]
    fn what_the_platform_did_slows_down_and_never_ends() {
        let mut count = Count::default();
        let pauses = repeat(&verdict::lost(), &mut count, 1000);
        assert_eq!(pauses.len(), 1000);
        assert_eq!(pauses[..3], [0, 0, 0]);
        assert!(pauses[999] > TRANSIENT_PAUSE_MAX_MS / 3);
        let mut storage = verdict_of(EXIT_STORAGE, Behavior::Transient);
        storage.container_exit_code = Some(137);
        assert_eq!(repeat(&storage, &mut count.clone(), 1000).len(), 1000);
        let mut lease_ended = verdict::stopped(muster_model::exit::Cause::LeaseEnded);
        lease_ended.container_exit_code = Some(137);
        assert_eq!(repeat(&lease_ended, &mut count.clone(), 1000).len(), 1000);
        let barrier = verdict::stopped(muster_model::exit::Cause::BarrierTimeout);
        assert_eq!(repeat(&barrier, &mut count, 100).len(), 100);
        assert_eq!(count.charged, 0);
        // The task's own share is still whole, and a long run makes the pauses short again.
        let own = verdict_of(137, Behavior::Transient);
        assert_eq!(repeat(&own, &mut count.clone(), 1000).len(), 30);
        assert!(repeat(&own, &mut count.after_run(LONG_RUN_MS - 1), 1)[0] > 0);
        assert_eq!(repeat(&own, &mut count.after_run(LONG_RUN_MS), 1), [0]);
    }

    #[test]
    fn an_attempt_that_came_further_begins_the_count_anew() {
        let at = |step| Verdict {
            progress: Some(Progress {
                epoch: None,
                step: Some(step),
            }),
            ..verdict_of(137, Behavior::Transient)
        };
        let mut count = Count::default();
        let mut before = None;
        for step in 1..=100 {
            let end = at(step);
            count = count.ended_after(before.as_ref(), &end);
            let next = next(FANCY, &end, count, "a~b");
            let Next::Retry {
                charge: Charge::Nobody,
                pause_ms: 0,
            } = next
            else {
                unreachable!("{next:?} at step {step}")
            };
            count = count.and(Charge::Nobody);
            before = Some(end);
        }
        assert_eq!((count.total, count.charged, count.same), (100, 0, 1));
        // Stuck at a step, it comes to its end.
        let stuck = at(100);
        let mut tries = 0;
        while let Next::Retry { charge, .. } = next(FANCY, &stuck, count, "a~b") {
            count = count.and(charge).ended_after(Some(&stuck), &stuck);
            tries += 1;
        }
        assert_eq!(
            tries, 29,
            "30 without charge, of which one was used at the last step"
        );
    }

    #[test]
    fn a_host_name_that_nobody_knows_is_tried_a_few_times_over_some_minutes() {
        let mut verdict = verdict_of(EXIT_IMAGE, Behavior::Transient);
        verdict.container_exit_code = None;
        let mut count = Count::default();
        let pauses = repeat(&verdict, &mut count, 1000);
        assert_eq!(pauses.len(), 4, "five tries");
        assert!(pauses.iter().sum::<u64>() >= 225_000, "{pauses:?}");
        assert!(pauses.iter().sum::<u64>() < 360_000, "{pauses:?}");
        assert_eq!((count.charged, count.same), (0, 4));
        let last = next(FANCY, &verdict, count.ended(true), "a~b");
        assert_eq!(last, Next::GiveUp);
        // Something else between them says that they are not in a row.
        let first = next(FANCY, &verdict, count.ended(false), "a~b");
        assert!(matches!(first, Next::Retry { .. }), "{first:?}");
        // What a registry itself says does not exist is not tried again.
        let gone = verdict_of(EXIT_IMAGE, Behavior::Permanent);
        assert!(repeat(&gone, &mut Count::default(), 1).is_empty());
    }

    #[test]
    fn preempted_again_and_again_it_just_takes_its_turn() {
        let mut verdict = verdict::stopped(muster_model::exit::Cause::Preempted);
        verdict.container_exit_code = Some(143);
        let mut count = Count::default();
        assert_eq!(repeat(&verdict, &mut count, 500), [0; 500]);
        assert_eq!((count.charged, count.row, count.free()), (0, 0, 0));
    }

    /// FrameworkController's own answers, where the file is at hand. It names the attributes
    /// `Transient`, `Conflict` and `Permanent`; the pause 77 stands for one by chance.
    #[test]
    fn agrees_with_framework_controller() {
        let file = "../../shared/data/retry-cases.json";
        let Ok(text) = std::fs::read_to_string(file) else {
            eprintln!("skipped: {file} is not here");
            return;
        };
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = |value: &serde_json::Value| i32::try_from(value.as_i64().unwrap()).unwrap();
        for case in file["cases"].as_array().unwrap() {
            let attributes = case["attributes"].to_string();
            let behavior = match attributes.as_str() {
                "null" => Behavior::Unknown,
                text if text.contains("Conflict") => Behavior::TransientConflict,
                text if text.contains("Transient") => Behavior::Transient,
                _ => Behavior::Permanent,
            };
            let policy = RetryPolicy {
                fancy: case["fancyRetryPolicy"].as_bool().unwrap(),
                max: number(&case["maxRetryCount"]),
                pauses: true,
            };
            let charged = u32::try_from(number(&case["accountableRetriedCount"])).unwrap();
            let count = Count {
                total: charged,
                charged,
                ..Count::default()
            };
            let verdict = verdict_of(number(&case["code"]), behavior);
            let got = match next(policy, &verdict, count, "x") {
                Next::Stop | Next::GiveUp => (false, true, false),
                Next::Retry { charge, pause_ms } => (true, charge == Charge::User, pause_ms > 0),
            };
            let expected = (
                case["shouldRetry"].as_bool().unwrap(),
                case["isAccountable"].as_bool().unwrap(),
                number(&case["delaySec"]) > 0,
            );
            assert_eq!(got, expected, "{case}");
        }
    }
}
