//! Starts the server from the commands of a task, and leaves it in the background.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_model::ssh::{SSH_SETTINGS_VARIABLE, SshSettings};

use crate::barrier;
use crate::client_config::{self, DIRECTORY};
use crate::key::private_key;
use crate::login::{self, ContainerUser};
use crate::peers::{self, Variables};
use crate::server::READY;

/// What lists of processes show.
pub(crate) const NAME: &str = "muster-sshd";

/// Returns when the server listens, and those of the other tasks do if that is wanted.
///
/// # Errors
/// Why there is no server, or which tasks have none.
pub(crate) fn run() -> Result<(), String> {
    let text = std::env::var(SSH_SETTINGS_VARIABLE)
        .map_err(|_| format!("{SSH_SETTINGS_VARIABLE} is not set: Muster starts this program"))?;
    let settings: SshSettings = serde_json::from_str(&text)
        .map_err(|error| format!("cannot read {SSH_SETTINGS_VARIABLE}: {error}"))?;
    let variables = peers::own_variables();
    let user = ContainerUser::own();
    let port = peers::own_port(&variables).ok_or("the task has no port for SSH")?;
    serve(&text)?;
    let names = login::names(&settings.user, &user).join(" or ");
    println!("the SSH server listens on port {port}, for {names}");
    if settings.job_key.is_some() {
        reach_peers(&settings, &variables, &user)?;
    }
    Ok(())
}

/// Starts the server and waits until it listens.
fn serve(settings: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot start the SSH server: {error}");
    let mut server = Command::new("/proc/self/exe")
        .arg0(NAME)
        .arg("serve")
        .env_remove(SSH_SETTINGS_VARIABLE)
        // What shells set for what they start; the rest is the environment of the task's commands.
        .env_remove("_")
        .env_remove("OLDPWD")
        .env_remove("SHLVL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // The output of the commands here is a pipe that ends with them.
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = server.stdin.take() {
        input.write_all(settings.as_bytes()).map_err(failed)?;
    }
    let mut said = String::new();
    if let Some(output) = server.stdout.take() {
        BufReader::new(output)
            .read_line(&mut said)
            .map_err(failed)?;
    }
    match said.trim() {
        READY => Ok(()),
        "" => Err("the SSH server has ended at once".to_owned()),
        problem => Err(format!("the SSH server does not start: {problem}")),
    }
}

fn reach_peers(
    settings: &SshSettings,
    variables: &Variables,
    user: &ContainerUser,
) -> Result<(), String> {
    let peers = peers::peers(variables, &settings.peers);
    let key = private_key(settings.job_key.as_deref().unwrap_or_default())?;
    let login = (settings.user.as_str(), &key);
    match client_config::write(DIRECTORY.as_ref(), &user.home, login, &peers) {
        Ok(()) => println!("{} tasks can be logged in to, as ROLE-INDEX", peers.len()),
        Err(problem) => println!("warning: {problem}"),
    }
    let Some(seconds) = settings.barrier_s else {
        return Ok(());
    };
    barrier::wait(&peers, Duration::from_secs(seconds.into()))?;
    println!("the SSH servers of all {} tasks answer", peers.len());
    Ok(())
}
