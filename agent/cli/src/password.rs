//! Where a new password comes from: typed twice, from stdin, from a file, or made at random. Never
//! from the command line, which every process of the machine can read.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use muster_model::people::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN};
use muster_model::secret::Hidden;
use rand::Rng as _;

use super::console::Console;
use super::document_file;
use super::error::CliError;
use super::terminal;

/// Letters and digits that are not taken for one another.
const ALPHABET: &[u8] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// Characters of a random password: some 115 bits.
const GENERATED_CHARS: usize = 20;

/// Where the new password comes from. Without one of these it is asked for on the terminal.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct PasswordSource {
    /// Read the password from stdin, which has nothing else.
    #[arg(long)]
    password_stdin: bool,
    /// Read the password from this file, which has nothing else.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Make a password at random, and print it, this once.
    #[arg(long)]
    generate: bool,
}

/// A new password.
#[derive(Debug)]
pub(super) struct ChosenPassword {
    pub(super) text: Hidden<String>,
    is_generated: bool,
}

impl ChosenPassword {
    /// Prints it, if nobody but this command knows it.
    pub(super) fn print(&self, console: &Console) -> Result<(), CliError> {
        if self.is_generated {
            console.line(&self.text.0)?;
            console.note("this password is printed once: it cannot be shown again");
        }
        Ok(())
    }
}

impl PasswordSource {
    /// The new password of `user`.
    pub(super) fn obtain(&self, user: &str, console: &Console) -> Result<ChosenPassword, CliError> {
        if self.generate {
            return Ok(ChosenPassword {
                text: Hidden(generated()),
                is_generated: true,
            });
        }
        let (option, text) = match &self.password_file {
            Some(file) => ("--password-file", read(file)?),
            None if self.password_stdin => ("--password-stdin", read_stdin()?),
            None => ("password", typed(user, console)?),
        };
        if let Some(problem) = problem(&text.0) {
            return Err(CliError::Usage(format!("{option}: {problem}")));
        }
        Ok(ChosenPassword {
            text,
            is_generated: false,
        })
    }
}

/// What is wrong with a password, and what to write.
pub(super) fn problem(password: &str) -> Option<String> {
    let chars = password.chars().count();
    if chars < PASSWORD_CHARS_MIN {
        return Some(format!(
            "a password has at least {PASSWORD_CHARS_MIN} characters, and this one {chars}; choose a longer one"
        ));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Some(format!(
            "a password has at most {PASSWORD_BYTES_MAX} bytes; choose a shorter one"
        ));
    }
    let is_bad = password.chars().any(char::is_control);
    is_bad.then(|| {
        "it has a control character, such as a tab or the end of a line; give one line of text"
            .to_owned()
    })
}

/// The password that is in a file, without the end of its line.
pub(super) fn read(file: &Path) -> Result<Hidden<String>, CliError> {
    // Room for the end of the line.
    let text = document_file::read(file, PASSWORD_BYTES_MAX as u64 + 2)?;
    Ok(line_of(text))
}

pub(super) fn read_stdin() -> Result<Hidden<String>, CliError> {
    let text = document_file::bounded(io::stdin().lock(), PASSWORD_BYTES_MAX as u64 + 2);
    text.map(line_of).map_err(|source| CliError::Read {
        path: "stdin".into(),
        source,
    })
}

fn line_of(text: String) -> Hidden<String> {
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Hidden(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn typed(user: &str, console: &Console) -> Result<Hidden<String>, CliError> {
    if !console.interactive {
        return Err(CliError::Usage(
            "stdin is not a terminal, so the password cannot be asked for: give --password-stdin, \
             --password-file FILE or --generate"
                .to_owned(),
        ));
    }
    let first = terminal::ask(&format!("New password of {user}"))?;
    if let Some(problem) = problem(&first.0) {
        return Err(CliError::Usage(format!("password: {problem}")));
    }
    let second = terminal::ask("The same once more")?;
    match first == second {
        true => Ok(first),
        false => Err(CliError::Usage(
            "the two passwords differ, so nothing was changed; try again".to_owned(),
        )),
    }
}

fn generated() -> String {
    let mut random = rand::rng();
    let letters = (0..GENERATED_CHARS).map(|_| {
        let at = random.random_range(0..ALPHABET.len());
        char::from(ALPHABET[at])
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_cannot_be_is_told_without_it() {
        let long = "x".repeat(PASSWORD_BYTES_MAX + 1);
        for (password, told) in [
            ("short", "at least 6"),
            ("", "at least 6"),
            (long.as_str(), "at most 1024 bytes"),
            ("two\nlines", "control character"),
        ] {
            let problem = problem(password).unwrap();
            assert!(problem.contains(told), "{problem}");
            assert!(password.is_empty() || !problem.contains(password));
        }
        assert_eq!(problem("secret"), None);
        assert_eq!(problem("ключик"), None);
        assert_eq!(line_of("secret\r\n".to_owned()).0, "secret");
        assert_eq!(line_of(" secret \n\n".to_owned()).0, " secret \n");
    }

    #[test]
    fn a_random_password_is_never_the_same() {
        let (one, other) = (generated(), generated());
        assert_ne!(one, other);
        assert_eq!((one.len(), problem(&one)), (GENERATED_CHARS, None));
    }
}
