//! How the last attempt of a job ended that goes on with another one, in words.

use std::fmt::Write;

use muster_model::view::LastEnd;

use crate::moment::span;

/// In few words, for a line in a listing: `attempt 3 ended with 250 (FrameworkBarrierTransientFailed), 4 in a
/// row; next in 8s`. `now` is in milliseconds since the epoch.
pub(super) fn in_short(last: &LastEnd, now: u64) -> String {
    let mut text = how(last);
    match (last.in_a_row, last.tries_max) {
        (times, Some(max)) => {
            let _ = write!(text, ", {times} of {max} in a row");
        }
        (times @ 2.., None) => {
            let _ = write!(text, ", {times} in a row");
        }
        (0 | 1, None) => {}
    }
    if let Some(left) = left(last, now) {
        let _ = write!(text, "; next in {left}");
    }
    text
}

/// All there is to say, in lines.
pub(super) fn in_full(last: &LastEnd, now: u64) -> String {
    let ago = span(now.saturating_sub(last.ended));
    let mut text = format!("{}, {ago} ago.\n{}\n", capital(&how(last)), last.reason);
    let _ = writeln!(text, "{}", counted(last));
    let charged = match last.is_charged {
        true => "The retry after it counts against the job's limit.",
        false => "The retry after it does not count against the job's limit.",
    };
    text.push_str(charged);
    if let Some(left) = left(last, now) {
        let _ = write!(text, "\nThe next attempt may start in {left}.");
    }
    for step in &last.solution {
        let _ = write!(text, "\n- {}", step.trim());
    }
    text
}

fn how(last: &LastEnd) -> String {
    let task = last.task.as_ref().map(|task| format!(" of {task}"));
    let task = task.unwrap_or_default();
    let LastEnd {
        attempt,
        code,
        phrase,
        ..
    } = last;
    format!("attempt {attempt}{task} ended with {code} ({phrase})")
}

/// How many attempts there were, and how many of the newest ended alike.
fn counted(last: &LastEnd) -> String {
    let mut text = match last.attempt.saturating_add(1) {
        1 => "1 attempt has ended so far".to_owned(),
        many => format!("{many} attempts have ended so far"),
    };
    if last.in_a_row > 1 {
        let _ = write!(
            text,
            ", the last {} in a row for this reason",
            last.in_a_row
        );
    }
    if let Some(max) = last.tries_max {
        let _ = write!(text, "; {max} in a row are the last");
    }
    text.push('.');
    text
}

fn left(last: &LastEnd, now: u64) -> Option<String> {
    let at = last.next_at.filter(|&at| at > now)?;
    Some(span(at - now))
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The fourth attempt of a job, whose registry nobody knows.
    pub(in crate::job) fn unresolved() -> LastEnd {
        LastEnd {
            task: None,
            attempt: 3,
            ended: 60_000,
            code: 254,
            phrase: "ContainerImageNotExists".to_owned(),
            reason: "The registry is not known: nosuch.example".to_owned(),
            solution: vec!["Correct its name.".to_owned()],
            in_a_row: 4,
            is_charged: false,
            tries_max: Some(5),
            next_at: Some(100_000),
        }
    }

    #[test]
    fn the_last_end_is_told_in_short_and_in_full() {
        let last = unresolved();
        assert_eq!(
            in_short(&last, 90_000),
            "attempt 3 ended with 254 (ContainerImageNotExists), 4 of 5 in a row; next in 10s"
        );
        assert_eq!(
            in_full(&last, 90_000),
            "\
Attempt 3 ended with 254 (ContainerImageNotExists), 30s ago.
The registry is not known: nosuch.example
4 attempts have ended so far, the last 4 in a row for this reason; 5 in a row are the last.
The retry after it does not count against the job's limit.
The next attempt may start in 10s.
- Correct its name."
        );
        let first = LastEnd {
            task: Some("w:2".split_once(':').map(task).unwrap()),
            attempt: 0,
            code: 1,
            phrase: "X".to_owned(),
            in_a_row: 1,
            is_charged: true,
            tries_max: None,
            next_at: None,
            ..last
        };
        assert_eq!(
            in_short(&first, 90_000),
            "attempt 0 of w:2 ended with 1 (X)"
        );
        let full = in_full(&first, 90_000);
        for told in ["\n1 attempt has ended so far.\n", " counts against"] {
            assert!(full.contains(told), "{full}");
        }
        assert!(!full.contains("next"), "{full}");
        // Its time has come, and it waits for room.
        assert!(!in_short(&unresolved(), 100_000).contains("next"));
    }

    fn task((role, index): (&str, &str)) -> muster_model::id::TaskId {
        muster_model::id::TaskId {
            role: role.parse().unwrap(),
            index: index.parse().unwrap(),
        }
    }
}
