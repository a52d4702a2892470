//! Where output goes: results to stdout, everything about them to stderr.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use muster_model::remark::Remark;
use muster_model::state::JobState;

use super::error::CliError;

type ConsoleSink = Arc<Mutex<Box<dyn Write + Send>>>;

/// The two output streams. A clone writes to the same ones.
#[derive(Clone)]
pub(super) struct Console {
    out: ConsoleSink,
    err: ConsoleSink,
    /// For what goes to stdout.
    pub(super) paint: Paint,
    /// Whether somebody can be asked on stdin.
    pub(super) interactive: bool,
}

impl Console {
    /// The process's own streams.
    pub(super) fn standard() -> Self {
        let colour = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Self {
            interactive: io::stdin().is_terminal(),
            ..Self::new(
                Box::new(io::stdout()),
                Box::new(io::stderr()),
                Paint { colour },
            )
        }
    }

    fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>, paint: Paint) -> Self {
        Self {
            out: Arc::new(Mutex::new(out)),
            err: Arc::new(Mutex::new(err)),
            paint,
            interactive: false,
        }
    }

    /// Streams that a test can read back: stdout, then stderr.
    #[cfg(test)]
    pub(super) fn captured() -> (Self, Captured, Captured) {
        let (out, err) = (Captured::default(), Captured::default());
        let console = Self::new(
            Box::new(out.clone()),
            Box::new(err.clone()),
            Paint { colour: false },
        );
        (console, out, err)
    }

    /// Writes bytes to stdout as they are, at once.
    pub(super) fn out(&self, bytes: impl AsRef<[u8]>) -> Result<(), CliError> {
        write_all(&self.out, bytes.as_ref()).map_err(CliError::Output)
    }

    /// Writes bytes to stderr as they are, at once.
    pub(super) fn err(&self, bytes: impl AsRef<[u8]>) -> Result<(), CliError> {
        write_all(&self.err, bytes.as_ref()).map_err(CliError::Output)
    }

    /// A line on stdout.
    pub(super) fn line(&self, text: impl AsRef<str>) -> Result<(), CliError> {
        self.out(format!("{}\n", text.as_ref()))
    }

    /// Whether the user says yes. Only where somebody can be asked.
    pub(super) fn agreed(&self, question: &str) -> Result<bool, CliError> {
        self.err(format!("{question} [y/N] "))?;
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|source| CliError::Read {
            path: "stdin".into(),
            source,
        })?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// A line that the user types. Only where somebody can be asked.
    pub(super) fn asked(&self, question: &str) -> Result<String, CliError> {
        self.err(format!("{question}: "))?;
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|source| CliError::Read {
            path: "stdin".into(),
            source,
        })?;
        Ok(answer.trim().to_owned())
    }

    /// A remark on stderr. That it cannot be written is no reason to fail.
    pub(super) fn note(&self, text: impl AsRef<str>) {
        let _ = self.err(format!("muster: {}\n", printable(text.as_ref())));
    }

    /// Says on stderr what of a document is not carried out.
    pub(super) fn warn(&self, warnings: &[Remark]) {
        for warning in warnings {
            self.note(format!("warning: {warning}"));
        }
    }

    /// Tells why a command failed and what to do next, on stderr.
    pub(super) fn report(&self, error: &CliError) {
        let mut text = format!("error: {error}");
        let mut cause = std::error::Error::source(error);
        while let Some(deeper) = cause {
            let _ = write!(text, ": {deeper}");
            cause = deeper.source();
        }
        if let Some(hint) = error.hint() {
            let _ = write!(text, "\n  hint: {hint}");
        }
        let quiet = matches!(error, CliError::Output(io) if io.kind() == io::ErrorKind::BrokenPipe);
        if !quiet {
            let _ = self.err(format!("{}\n", printable(&text)));
        }
    }
}

fn lock(sink: &ConsoleSink) -> MutexGuard<'_, Box<dyn Write + Send>> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_all(sink: &ConsoleSink, bytes: &[u8]) -> io::Result<()> {
    let mut stream = lock(sink);
    stream.write_all(bytes)?;
    stream.flush()
}

/// Text from elsewhere without what could command a terminal: escape sequences are dropped,
/// other control characters but line ends and tabs become `?`.
pub(super) fn printable(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string();
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                '?'
            } else {
                c
            }
        })
        .collect()
}

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    pub(super) colour: bool,
}

impl Paint {
    /// `text` in a style.
    pub(super) fn styled(self, style: Style, text: &str) -> String {
        if self.colour && style != Style::new() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// A heading.
    pub(super) fn bold(self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }
}

/// The style that a state is shown in.
pub(super) const fn state_style(state: JobState) -> Style {
    let colour = match state {
        JobState::Waiting | JobState::Stopping => AnsiColor::Yellow,
        JobState::Running => AnsiColor::Cyan,
        JobState::Succeeded => AnsiColor::Green,
        JobState::Stopped => AnsiColor::Magenta,
        JobState::Failed => AnsiColor::Red,
    };
    colour.on_default().bold()
}

/// What was written, for tests.
#[cfg(test)]
#[derive(Clone, Default)]
pub(super) struct Captured(Arc<Mutex<Vec<u8>>>);

#[cfg(test)]
impl Captured {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[cfg(test)]
impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_commanded_by_logs() {
        for (text, expect) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("10%\r20%", "10%?20%"),
            ("bell\u{7}", "bell"),
        ] {
            assert_eq!(printable(text), expect);
        }
    }
}
