//! The server: its port, whom it lets in, and how many at once.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpStream as StdStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_model::ssh::SshSettings;
use russh::keys::{Algorithm, PublicKey};
use russh::server::{Config, run_stream};
use russh::{MethodKind, MethodSet, Preferred, SshId};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::client::Client;
use crate::key::private_key;
use crate::login::{self, ContainerUser};
use crate::peers;

/// What the server says when it listens.
pub(crate) const READY: &str = "ready";
/// Connections of users who have logged in.
const CONNECTIONS_MAX: usize = 128;
/// Connections of those who have not yet.
const STRANGERS_MAX: usize = 32;
/// How long a login may take.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);
/// Keys that a client may try.
const TRIES_MAX: usize = 10;
/// How long the answer to a wrong key is held back.
const REFUSAL_TIME: Duration = Duration::from_millis(100);
/// How long a client may be silent before it is asked whether it is there.
const ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How many such questions in a row a client may leave without an answer before it counts as gone.
const ALIVE_TRIES_MAX: usize = 4;
/// A pause when the machine has no room for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    /// Who may log in.
    pub(crate) keys: Vec<PublicKey>,
    /// Under which names.
    pub(crate) names: Vec<String>,
    /// The user that sessions run as.
    pub(crate) user: ContainerUser,
    /// Their shell.
    pub(crate) shell: PathBuf,
    /// Room for users.
    pub(crate) places: Arc<Semaphore>,
}

/// Serves until the container ends. The settings come on stdin; stdout is told once whether it listens.
///
/// # Errors
/// When it cannot begin. It has said so on stdout, too.
pub(crate) fn run() -> Result<(), String> {
    let begun = begin();
    let said = match &begun {
        Ok(_) => READY,
        Err(problem) => problem.as_str(),
    };
    let _ = writeln!(io::stdout(), "{said}");
    detach();
    let (listener, config, server) = begun?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).map_err(|error| error.to_string())?;
        serve(listener, Arc::new(config), Arc::new(server)).await;
        Ok(())
    })
}

type Begun = (std::net::TcpListener, Config, Server);

fn begin() -> Result<Begun, String> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| format!("cannot read its settings: {error}"))?;
    let settings: SshSettings = serde_json::from_str(&text)
        .map_err(|error| format!("cannot read its settings: {error}"))?;
    let port = peers::own_port(&peers::own_variables()).ok_or("the task has no port for SSH")?;
    let listener = listen(port).map_err(|error| format!("cannot listen on {port}: {error}"))?;
    Ok((listener, config(&settings)?, Server::new(&settings)?))
}

/// Whether sockets for IPv6 hear nothing of IPv4 here.
const ONLY_IPV6: &str = "/proc/sys/net/ipv6/bindv6only";

/// All addresses of the machine.
fn listen(port: u16) -> io::Result<std::net::TcpListener> {
    let is_apart = std::fs::read_to_string(ONLY_IPV6).is_ok_and(|set| set.trim() == "1");
    let all = match is_apart {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => std::net::TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)),
    };
    // A machine may have no IPv6.
    let listener = all.or_else(|_| std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Lets go of the pipes that it was started with.
fn detach() {
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn config(settings: &SshSettings) -> Result<Config, String> {
    let mut key_kinds: Vec<Algorithm> = Preferred::DEFAULT.key.to_vec();
    // SHA-1.
    key_kinds.retain(|kind| *kind != Algorithm::Rsa { hash: None });
    Ok(Config {
        server_id: SshId::Standard(Cow::Borrowed("SSH-2.0-Muster")),
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        keys: vec![private_key(&settings.host_key)?],
        auth_rejection_time: REFUSAL_TIME,
        auth_rejection_time_initial: Some(Duration::ZERO),
        max_auth_attempts: TRIES_MAX,
        inactivity_timeout: None,
        keepalive_interval: Some(ALIVE_INTERVAL),
        keepalive_max: ALIVE_TRIES_MAX,
        nodelay: true,
        preferred: Preferred {
            key: Cow::Owned(key_kinds),
            ..Preferred::DEFAULT
        },
        ..Config::default()
    })
}

impl Server {
    fn new(settings: &SshSettings) -> Result<Self, String> {
        let mut keys = Vec::new();
        for line in &settings.keys {
            let key = PublicKey::from_openssh(line);
            keys.push(key.map_err(|error| format!("cannot read the key {line}: {error}"))?);
        }
        if let Some(seed) = &settings.job_key {
            keys.push(private_key(seed)?.public_key().clone());
        }
        let user = ContainerUser::own();
        Ok(Self {
            keys,
            names: login::names(&settings.user, &user),
            shell: user.shell()?,
            user,
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        })
    }

    /// Whether this key opens it for this user.
    pub(crate) fn lets_in(&self, user: &str, key: &PublicKey) -> bool {
        let is_known = |known: &PublicKey| known.key_data() == key.key_data();
        self.names.iter().any(|name| name == user) && self.keys.iter().any(is_known)
    }
}

async fn serve(listener: TcpListener, config: Arc<Config>, server: Arc<Server>) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // One too many is closed.
        if let Ok(place) = Arc::clone(&strangers).try_acquire_owned() {
            tokio::spawn(connection(
                stream,
                place,
                Arc::clone(&config),
                Arc::clone(&server),
            ));
        }
    }
}

async fn connection(
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    config: Arc<Config>,
    server: Arc<Server>,
) {
    let Ok((stream, twin)) = with_twin(stream) else {
        return;
    };
    let (logged_in, login) = oneshot::channel();
    let Ok(client) = Client::new(server, &stream, logged_in) else {
        return;
    };
    let running = async {
        if let Ok(session) = run_stream(config, stream, client).await {
            // An error ends this connection alone; its client sees that.
            let _ = session.await;
        }
    };
    tokio::pin!(running);
    let in_time = tokio::select! {
        () = &mut running => return,
        login = timeout(LOGIN_LIMIT, login) => matches!(login, Ok(Ok(()))),
    };
    drop(place);
    if !in_time {
        let _ = twin.shutdown(Shutdown::Both);
    }
    running.await;
}

/// The stream, and a handle by which it is ended whatever its other side does.
fn with_twin(stream: TcpStream) -> io::Result<(TcpStream, StdStream)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let twin = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, twin))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILl71p6NupexlB2OXwcMWSFU7MXaGQaPxRz5iWZm6ifa ada@desk";

    fn settings(job_key: Option<String>) -> SshSettings {
        SshSettings {
            user: "ada".to_owned(),
            keys: vec![KEY.to_owned()],
            host_key: "01".repeat(32),
            job_key,
            peers: Vec::new(),
            barrier_s: None,
        }
    }

    #[test]
    fn a_key_and_a_name_open_it_together() {
        let job = private_key(&"02".repeat(32)).unwrap();
        let users = PublicKey::from_openssh(KEY).unwrap();
        let closed = Server::new(&settings(None)).unwrap();
        assert!(closed.lets_in("ada", &users));
        assert!(!closed.lets_in("eve", &users));
        assert!(!closed.lets_in("ada", job.public_key()));
        let open = Server::new(&settings(Some("02".repeat(32)))).unwrap();
        assert!(open.lets_in("ada", job.public_key()));
        assert!(!open.lets_in("", job.public_key()));
    }

    #[test]
    fn signatures_by_sha1_are_not_offered() {
        let config = config(&settings(None)).unwrap();
        let kinds = config.preferred.key;
        assert!(!kinds.contains(&Algorithm::Rsa { hash: None }) && kinds.len() > 3);
        assert_eq!(config.methods.to_vec(), [MethodKind::PublicKey]);
    }
}
