//! Completion of command lines, with names that the agent knows at the moment.
//!
//! The shell calls the hidden `muster __complete` at each Tab with the words so far. Commands and options come from
//! the command line's own definition; where a job, node, virtual cluster, user, group or image is to be named, the
//! agent is asked, for a short time only. A failure is no answer, and is not reported.

mod names;
mod script;
mod walk;

use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, ValueEnum};
use tokio::time::timeout;

use self::walk::{CompletionSpot, candidates};
use super::Cli;
use super::api::Api;
use super::console::Console;
use super::endpoint::EndpointArguments;
use super::error::CliError;
use super::status::CliStatus;

pub use self::script::script;

pub(super) const EXAMPLES: &str = "\
The package installs them for all three shells. Without it:

Examples:
  muster completion bash > ~/.local/share/bash-completion/completions/muster
  muster completion zsh > ~/.zfunc/_muster
  muster completion fish > ~/.config/fish/completions/muster.fish";

/// Longest wait for the agent's answer: the user must not notice it at a Tab.
const LIMIT: Duration = Duration::from_millis(300);

/// The shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    /// GNU bash.
    Bash,
    /// Z shell.
    Zsh,
    /// The friendly interactive shell.
    Fish,
}

/// Arguments of `muster completion`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionArguments {
    /// The shell.
    shell: CompletionShell,
}

impl CompletionArguments {
    pub(super) fn run(&self, console: &Console) -> Result<CliStatus, CliError> {
        console.out(script(self.shell))?;
        Ok(CliStatus::Ok)
    }
}

/// Arguments of the hidden command that shells call.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster __complete bash -- 'muster job show '")]
pub struct CompleteArguments {
    /// The shell.
    shell: CompletionShell,
    /// The words behind the program's name, the last one unfinished; of bash the line as it is.
    #[arg(last = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// How to reach the agent, by options among the words.
#[derive(Debug, Parser)]
struct CompletionEndpoint {
    #[command(flatten)]
    connection: EndpointArguments,
}

impl CompleteArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let words = match self.shell {
            CompletionShell::Bash => split(&self.words.join(" ")),
            CompletionShell::Zsh | CompletionShell::Fish => self.words,
        };
        let found = complete(words.clone(), connection).await;
        let current = words.last().map_or("", String::as_str);
        let hidden = match self.shell {
            // bash takes these for the ends of words, and wants what is behind the last of them.
            CompletionShell::Bash => current.rfind([':', '=']).map_or(0, |place| place + 1),
            CompletionShell::Zsh | CompletionShell::Fish => 0,
        };
        let lines = found.iter().filter_map(|word| word.get(hidden..));
        let lines: String = lines.map(|word| format!("{word}\n")).collect();
        console.out(lines)?;
        Ok(CliStatus::Ok)
    }
}

/// The words of a line behind the program's name; the last one is what is being written.
fn split(line: &str) -> Vec<String> {
    let is_between = line.ends_with(char::is_whitespace);
    let words = shlex::split(line);
    let words = words.unwrap_or_else(|| line.split_whitespace().map(str::to_owned).collect());
    let mut words: Vec<String> = words.into_iter().skip(1).collect();
    if is_between || words.is_empty() {
        words.push(String::new());
    }
    words
}

/// Whole words that the last one may become.
async fn complete(words: Vec<String>, connection: &EndpointArguments) -> Vec<String> {
    let mut command = Cli::command();
    command.build();
    let spot = CompletionSpot::of(&command, &words);
    let mut found = candidates(&spot);
    if let Some(kind) = spot.kind {
        let connection = match spot.endpoint.len() {
            0 | 1 => connection.clone(),
            _ => match CompletionEndpoint::try_parse_from(&spot.endpoint) {
                Ok(named) => named.connection,
                Err(_) => return found,
            },
        };
        let live = async {
            let api = Api::new(&connection, None).ok()?;
            names::of(kind, &api).await.ok()
        };
        let live = timeout(LIMIT, live)
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        found.extend(
            live.into_iter()
                .map(|name| format!("{}{name}", spot.before)),
        );
    }
    found.retain(|word| word.starts_with(&spot.current));
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests;
