//! `muster job port-forward`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use clap::Args;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::console::Console;
use crate::endpoint::EndpointArguments;
use crate::error::CliError;
use crate::session::{TaskArgument, TaskTarget, pass_on};
use crate::signals::{Signals, interrupted_by};
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Examples:
  muster job port-forward train 6006
  muster job port-forward train:worker:0 8080:8888 9000
  muster job port-forward train 8080:http
  ssh -o ProxyCommand='muster job port-forward --stdio train:worker:0 2222' root@train

A port is LOCAL:REMOTE, or one number for both; LOCAL 0 takes a free one. REMOTE may be the label of a port that the
task was given, as in `muster job show`; alone it takes a free port here. It reaches what a process of the task listens
on, on whichever machine it runs, until Ctrl-C.";

#[derive(Debug, Args)]
pub struct PortForwardArguments {
    #[command(flatten)]
    task: TaskArgument,
    /// The ports.
    #[arg(value_name = "[LOCAL:]REMOTE", required = true)]
    ports: Vec<ForwardedPort>,
    /// The address to listen on here.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Connect once, with stdin and stdout in place of a port here.
    #[arg(long, conflicts_with = "address")]
    stdio: bool,
}

/// A port here, and the task's: its number or its label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForwardedPort {
    local: u16,
    remote: String,
}

impl FromStr for ForwardedPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no port: write 8888, 8080:8888, or 8080:LABEL");
        let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
        let (local, remote) = match text.split_once(':') {
            Some((local, remote)) => (number(local)?, remote),
            None if is_label(text) => (0, text),
            None => (number(text)?, text),
        };
        match is_label(remote) || number(remote)? > 0 {
            true => Ok(Self {
                local,
                remote: remote.to_owned(),
            }),
            false => Err(wrong()),
        }
    }
}

/// Labels of ports are identifiers of C.
fn is_label(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    text.starts_with(is_letter)
        && text
            .chars()
            .all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

impl PortForwardArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let (address, ports) = (self.address, self.ports);
        if self.stdio && ports.len() != 1 {
            return Err(CliError::Usage(
                "--stdio: name one port of the task".to_owned(),
            ));
        }
        let target = self.task.resolve(connection).await?;
        if self.stdio {
            let streams = (tokio::io::stdin(), tokio::io::stdout());
            let remote = &ports[0].remote;
            let socket = target.api.port(&target.job, &target.task, remote).await?;
            pass_on(&what(&target, remote), socket, streams).await?;
            return Ok(CliStatus::Ok);
        }
        let mut signals = Signals::new()?;
        let mut listening = JoinSet::new();
        for port in ports {
            let listener = listen(SocketAddr::from((address, port.local))).await?;
            let local = listener.local_addr().map_err(CliError::Output)?;
            console.line(format!("{local} -> {} port {}", target.task, port.remote))?;
            let (target, console) = (target.clone(), console.clone());
            listening.spawn(async move { serve(listener, port.remote, target, console).await });
        }
        Ok(interrupted_by(signals.next().await))
    }
}

fn what(target: &TaskTarget, port: &str) -> String {
    format!("port {port} of {} of {} is used", target.task, target.job)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, CliError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| {
        CliError::Usage(format!(
            "cannot listen on {address}: {error}; name another port as LOCAL:REMOTE, 0 for a free one"
        ))
    })
}

/// Takes connections, each with a session of its own. One that fails is told, and others go on.
async fn serve(listener: TcpListener, port: String, target: TaskTarget, console: Console) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((connection, _)) = accepted else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let (target, console, port) = (target.clone(), console.clone(), port.clone());
        connections.spawn(async move {
            if let Err(error) = forward(connection, &port, &target).await {
                console.report(&error);
            }
        });
    }
}

async fn forward(connection: TcpStream, port: &str, target: &TaskTarget) -> Result<(), CliError> {
    // A connection that cannot be hurried still works.
    let _ = connection.set_nodelay(true);
    let socket = target.api.port(&target.job, &target.task, port).await?;
    let streams = connection.into_split();
    pass_on(&what(target, port), socket, streams).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_they_are_written() {
        let read = |text: &str| text.parse::<ForwardedPort>();
        let port = |local, remote: &str| {
            let remote = remote.to_owned();
            Ok(ForwardedPort { local, remote })
        };
        assert_eq!(read("8888"), port(8888, "8888"));
        assert_eq!(read("0:8888"), port(0, "8888"));
        assert_eq!(read("8080:http"), port(8080, "http"));
        assert_eq!(read("my_port2"), port(0, "my_port2"));
        for wrong in [
            "", "0", "80:0", "80:", "my-port", "1:2:3", "70000", ":80", "x:80",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
