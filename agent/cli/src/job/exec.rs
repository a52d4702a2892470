//! `muster job exec`.

use clap::Args;
use muster_model::session::{ExecWish, SessionEnd, TERM_DEFAULT, TerminalWish};

use crate::console::Console;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::session::{CommandStreams, RawTerminal, TaskArgument, attend, size};
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job exec train -- nvidia-smi
  muster job exec -it train:worker:3
  tar c data | muster job exec -i ada~train:worker:0 -- tar x -C /tmp

The command runs beside the task's own, with its user, variables (PAI_...) and devices; without a command it is a
shell of the image. It exits with the command's exit code. Only the job's owner and admins may do this, and the
task's node logs who did. What the command has started ends when the connection does, but for what left it on its
own, as by nohup, and all of it ends with the task.";

#[derive(Debug, Args)]
pub struct ExecArguments {
    #[command(flatten)]
    task: TaskArgument,
    /// Pass stdin on to the command.
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give the command a terminal.
    #[arg(short = 't', long)]
    tty: bool,
    /// The command and its arguments [default: a shell].
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl ExecArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        if self.tty && self.stdin && !console.interactive {
            return Err(CliError::Usage(
                "-t: stdin is no terminal; leave -t out".to_owned(),
            ));
        }
        let wish = ExecWish {
            command: self.command,
            stdin: self.stdin,
            terminal: self.tty.then(terminal),
        };
        if let Some(problem) = wish.problem() {
            return Err(CliError::Usage(problem));
        }
        let target = self.task.resolve(connection).await?;
        let what = format!("a command runs in {} of {}", target.task, target.job);
        let socket = target.api.exec(&target.job, &target.task, &wish).await?;
        let raw = match wish.terminal.is_some() && wish.stdin {
            true => RawTerminal::take()?,
            false => None,
        };
        let streams = CommandStreams {
            stdin: wish.stdin.then(tokio::io::stdin),
            write: |bytes, is_error| match is_error {
                true => console.err(bytes),
                false => console.out(bytes),
            },
            has_terminal: wish.terminal.is_some(),
        };
        let end = attend(&what, socket, streams).await;
        // Before anything is written about it.
        drop(raw);
        ended(&what, end?)
    }
}

fn terminal() -> TerminalWish {
    let term = std::env::var("TERM").ok().filter(|term| !term.is_empty());
    TerminalWish {
        term: term.unwrap_or_else(|| TERM_DEFAULT.to_owned()),
        size: size().unwrap_or_default(),
    }
}

/// How this program exits for a command's end.
pub(super) fn ended(what: &str, end: SessionEnd) -> Result<CliStatus, CliError> {
    match end {
        SessionEnd::Exited(0) => Ok(CliStatus::Ok),
        SessionEnd::Exited(code) => Ok(CliStatus::Task(u8::try_from(code).unwrap_or(u8::MAX))),
        SessionEnd::Failed(message) => Err(CliError::Failed {
            what: what.to_owned(),
            message,
        }),
    }
}
