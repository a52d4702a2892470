//! One or two sentences for the user: what ended the task, why, and what to do.

use muster_model::exit::{ExitSpec, Phase, RawExit};

/// The longest diagnosis, in bytes.
const DIAGNOSIS_BYTES_MAX: usize = 1024;
/// The longest quotation in one, in bytes.
const QUOTE_BYTES_MAX: usize = 240;

/// A shell shows signal N as this and N.
const SIGNALLED: i32 = 128;

/// Puts the row, the raw exit and the matched text into sentences.
pub(crate) fn sentences(spec: &ExitSpec, exit: &RawExit, matched: Option<&str>) -> String {
    let mut text = spec.reason.clone().unwrap_or_else(|| spec.phrase.clone());
    text.push_str(&how_it_ended(spec, exit));
    if let Some(quote) = matched.and_then(quotable) {
        text.push_str(&format!(": \"{quote}\""));
    } else if let Some(message) = quotable(&exit.message) {
        text.push_str(&format!(": {message}"));
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
        Phase::Launch => return String::new(),
        Phase::PreCommands => "the commands before the user's",
        Phase::UserCommands => "the command",
        Phase::PostCommands => "the commands after the user's",
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
fn quotable(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line[..line.floor_char_boundary(QUOTE_BYTES_MAX)].to_owned())
}

fn close(text: &mut String) {
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
}
