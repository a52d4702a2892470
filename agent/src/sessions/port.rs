//! A connection to a port on which a task listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use muster_model::session::SessionAnswer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::listening::{ListeningSocket, listening};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Ports that an error names.
const PORTS_NAMED_MAX: usize = 8;

/// Connects to a port that a process of these listens on. Tasks share the machine's network: what listens on a port
/// need not be the task.
pub(super) async fn connect(port: u16, pids: Vec<u32>) -> Result<TcpStream, SessionAnswer> {
    let failed = |why: String| SessionAnswer::Unavailable(why);
    let found = tokio::task::spawn_blocking(move || listening(&pids)).await;
    let found = found.map_err(|error| failed(error.to_string()))?;
    let found = found.map_err(|error| failed(format!("its sockets cannot be read: {error}")))?;
    let own: Vec<_> = found.iter().filter(|socket| socket.port == port).collect();
    if own.is_empty() {
        return Err(SessionAnswer::NotNow(nothing_there(port, &found)));
    }
    let mut problem = String::new();
    for address in own.iter().flat_map(|socket| addresses(socket.address)) {
        let connecting = TcpStream::connect(SocketAddr::from((address, port)));
        match timeout(CONNECT_LIMIT, connecting).await {
            Ok(Ok(connection)) => {
                // A connection that cannot be hurried still works.
                let _ = connection.set_nodelay(true);
                return Ok(connection);
            }
            Ok(Err(error)) => problem = error.to_string(),
            Err(_) => problem = "it does not answer".to_owned(),
        }
    }
    Err(failed(format!("port {port} of the task: {problem}")))
}

/// Where what listens on an address is reached from its own machine.
fn addresses(address: IpAddr) -> Vec<IpAddr> {
    match address {
        IpAddr::V4(v4) if v4.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into()],
        IpAddr::V6(v6) if v6.is_unspecified() => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        other => vec![other],
    }
}

fn nothing_there(port: u16, found: &[ListeningSocket]) -> String {
    let mut ports: Vec<u16> = found.iter().map(|socket| socket.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let named: Vec<_> = ports.iter().take(PORTS_NAMED_MAX).collect();
    let named: Vec<_> = named.iter().map(ToString::to_string).collect();
    let rest = match (named.len(), ports.len()) {
        (0, _) => "it listens on no port".to_owned(),
        (some, all) if some < all => format!("it listens on {} and others", named.join(", ")),
        _ => format!("it listens on {}", named.join(", ")),
    };
    format!("no process of the task listens on port {port}; {rest}")
}

/// Passes bytes on until both sides have ended, or one has failed.
pub(super) async fn serve<S>(mut connection: TcpStream, mut stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    // Either side may go at any time; the other one sees that its stream breaks off.
    if copy_bidirectional(&mut connection, &mut stream)
        .await
        .is_ok()
    {
        let _ = stream.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_the_task_itself_listens_on_is_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = std::process::id();
        connect(port, vec![own]).await.unwrap();
        // Another process, as that of another task.
        let other = std::process::Command::new("sleep").arg("60").spawn();
        let mut other = other.unwrap();
        let refused = connect(port, vec![other.id()]).await.unwrap_err();
        other.kill().unwrap();
        other.wait().unwrap();
        let text = format!("no process of the task listens on port {port}; it listens on no port");
        assert_eq!(refused, SessionAnswer::NotNow(text));
    }

    #[test]
    fn an_error_names_the_ports_that_there_are() {
        let socket = |port| ListeningSocket {
            address: Ipv4Addr::LOCALHOST.into(),
            port,
        };
        let found: Vec<_> = [8888, 22, 22].map(socket).into();
        let text = nothing_there(80, &found);
        assert!(text.ends_with("it listens on 22, 8888"), "{text}");
        let many: Vec<_> = (1..20).map(socket).collect();
        let text = nothing_there(80, &many);
        assert!(text.ends_with("7, 8 and others"), "{text}");
    }
}
