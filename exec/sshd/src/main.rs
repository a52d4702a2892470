//! muster-sshd: the SSH server of a task, for jobs with the runtime plugin `ssh`.
//!
//! It runs in the container, as the container's user, and is started by the task's commands: so the filter of system
//! calls that muster-init put on them holds for it and for all that its users start. It dies with the container, and
//! keeps nothing. What it is told comes from the node's agent, in a variable that it does not pass on.
//!
//! `start` prepares the home directory, starts the server in the background and waits for the other tasks' servers.
//! `serve` is the server. `sftp` is one session of its subsystem of that name, a process of its own.

mod barrier;
mod client;
mod client_config;
mod forward;
mod key;
mod login;
mod peers;
mod remote_forwards;
mod resolve;
mod server;
mod session;
mod sftp;
mod start;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["start"] => start::run(),
        ["serve"] => server::run(),
        ["sftp"] => sftp::run(),
        _ => Err("usage: muster-sshd start, in the commands of a task".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("muster-sshd: {problem}");
            ExitCode::FAILURE
        }
    }
}
