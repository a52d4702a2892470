//! One or two sentences for the user: what ended the task, why, and what to do.

use std::borrow::Cow;

use muster_model::exit::{ExitPhase, ExitSpec, RawExit};
use muster_model::health::DeviceEvent;

/// The longest diagnosis, in bytes.
const DIAGNOSIS_BYTES_MAX: usize = 1024;
/// The longest quotation in one, in bytes.
const QUOTE_BYTES_MAX: usize = 240;

/// A shell shows signal N as this and N.
const SIGNALLED: i32 = 128;

/// What of a log led to the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match<'a> {
    /// The whole lines.
    pub(crate) line: &'a str,
    /// What the rule found in them.
    pub(crate) found: &'a str,
}

impl<'a> Match<'a> {
    /// What the kernel reported of a device.
    pub(crate) fn of_event(event: &'a DeviceEvent) -> Self {
        Self {
            line: &event.text,
            found: &event.text,
        }
    }

    /// The line, or what was found in it if the line is long; of several the last one.
    fn quote(&self) -> Option<&'a str> {
        let line = last_line(self.line).filter(|line| line.len() <= QUOTE_BYTES_MAX);
        let text = line.or_else(|| last_line(self.found))?;
        Some(&text[..text.floor_char_boundary(QUOTE_BYTES_MAX)])
    }
}

/// Puts the row, the raw exit and the matched text into sentences.
pub(crate) fn sentences(spec: &ExitSpec, exit: &RawExit, matched: Option<Match<'_>>) -> String {
    let mut text = spec.reason.clone().unwrap_or_else(|| spec.phrase.clone());
    text.push_str(&how_it_ended(spec, exit));
    if let Some(quote) = matched.and_then(|matched| matched.quote()) {
        text.push_str(&format!(": \"{quote}\""));
    } else if let Some(message) = last_line(&exit.message) {
        text.push_str(": ");
        text.push_str(&ends_of(message));
    }
    close(&mut text);
    if let Some(advice) = spec.solution.first() {
        text.push(' ');
        text.push_str(advice);
        close(&mut text);
    }
    text.truncate(text.floor_char_boundary(DIAGNOSIS_BYTES_MAX));
    text
}

fn how_it_ended(spec: &ExitSpec, exit: &RawExit) -> String {
    let commands = match exit.phase {
        ExitPhase::Launch => return String::new(),
        ExitPhase::PreCommands => "the commands before the user's",
        ExitPhase::UserCommands => "the command",
        ExitPhase::PostCommands => "the commands after the user's",
    };
    match exit.signal {
        _ if exit.code == 0 || spec.code < -99 && exit.cause.is_some() => String::new(),
        // The row is about this signal and names it.
        Some(signal) if spec.code.checked_sub(SIGNALLED) == Some(signal) => String::new(),
        Some(signal) => format!(" ({commands} ended by signal {signal})"),
        None => format!(" ({commands} exited with {})", exit.code),
    }
}

/// The last line that says something: of a traceback that is the error itself.
fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// A message of a container engine says what it was about first, and at its end why that failed: of a long one
/// both ends.
fn ends_of(message: &str) -> Cow<'_, str> {
    const GAP: &str = " ... ";
    if message.len() <= QUOTE_BYTES_MAX {
        return message.into();
    }
    let head = message.floor_char_boundary(QUOTE_BYTES_MAX / 3);
    let tail = QUOTE_BYTES_MAX - head - GAP.len();
    let tail = message.ceil_char_boundary(message.len() - tail);
    format!("{}{GAP}{}", &message[..head], &message[tail..]).into()
}

fn close(text: &mut String) {
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_message_both_ends_are_told() {
        assert_eq!(ends_of("no space left"), "no space left");
        let chain = format!(
            "the engine refused: {}: read-only file system",
            "\u{e9}".repeat(200)
        );
        let told = ends_of(&chain);
        assert!(told.len() <= QUOTE_BYTES_MAX, "{}", told.len());
        assert!(told.starts_with("the engine refused: "), "{told}");
        assert!(told.ends_with(": read-only file system"), "{told}");
    }
}
