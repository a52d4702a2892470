//! What the agent tells the gateway.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use muster_model::id::UserName;
use muster_tls::ShownCertificate;
use tokio::sync::watch;

use crate::host_names::HostNames;
use crate::oidc::OidcLogins;

/// Secret that signs log links. The same on every node, so that each honours the others' links.
#[derive(Clone, PartialEq, Eq)]
pub struct LogLinkKey(pub [u8; 32]);

impl fmt::Debug for LogLinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLinkKey(..)")
    }
}

/// Bounds on what one client can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// TCP connections at a time. Where there are as many, the one goes that has been idle
    /// longest; some more are kept for `/healthz`.
    pub connections: NonZeroU32,
    /// TCP connections at a time from one address. All of loopback is one address.
    pub connections_per_address: NonZeroU32,
    /// Connections at a time on the socket, counted apart, so that root always gets in.
    pub socket_connections: NonZeroU32,
    /// Bytes of a request's head, and of the buffer a connection reads into.
    pub head_bytes: usize,
    /// Bytes of a submitted job.
    pub job_bytes: usize,
    /// Bytes of a document that all nodes agree on.
    pub document_bytes: usize,
    /// Bytes of any other request body that is read as a whole.
    pub body_bytes: usize,
    /// The first byte must arrive within this time.
    pub first_byte_timeout: Duration,
    /// The first request's head must arrive within this time.
    pub head_timeout: Duration,
    /// A later request's head and a whole body must arrive within this time, a streamed body's
    /// next part too.
    pub read_timeout: Duration,
    /// A connection is closed that has had no request for so long.
    pub idle_timeout: Duration,
    /// How long requests may go on after a shutdown was asked for.
    pub shutdown_grace: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            connections: NonZeroU32::MIN.saturating_add(4095),
            connections_per_address: NonZeroU32::MIN.saturating_add(63),
            socket_connections: NonZeroU32::MIN.saturating_add(63),
            head_bytes: 64 * 1024,
            job_bytes: 1024 * 1024,
            document_bytes: 16 * 1024 * 1024,
            body_bytes: 100 * 1024,
            first_byte_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(20),
            read_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// How many requests are answered. Loopback and the socket are exempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Requests a minute from one address.
    pub api_per_minute: NonZeroU32,
    /// Job listings a minute by one user.
    pub list_per_minute: NonZeroU32,
    /// Submissions an hour by one user.
    pub submit_per_hour: NonZeroU32,
    /// Requests of the device flow a minute from one address: ten people who log in from there at a time.
    pub device_per_minute: NonZeroU32,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            api_per_minute: NonZeroU32::MIN.saturating_add(599),
            list_per_minute: NonZeroU32::MIN.saturating_add(119),
            submit_per_hour: NonZeroU32::MIN.saturating_add(3599),
            device_per_minute: NonZeroU32::MIN.saturating_add(119),
        }
    }
}

/// Everything the gateway needs to know besides the cluster.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Signs log links. Another one takes its place when the node joins or leaves a cluster.
    pub log_link_key: watch::Receiver<LogLinkKey>,
    /// How long a log link works.
    pub log_link_ttl: Duration,
    /// Port of the HTTP listener, named in log links.
    pub port: u16,
    /// Speaks TLS at the same port. Machines but this one have to then; without it everybody is
    /// answered in clear.
    pub tls: Option<ShownCertificate>,
    /// Whether programs on this machine are answered in clear too, where TLS is spoken.
    pub plain_loopback: bool,
    /// Logins by an identity provider, where there is one.
    pub oidc: Option<Arc<OidcLogins>>,
    /// Names that this machine is reached by.
    pub host_names: HostNames,
    /// Whom root is taken for when it names no user in `x-muster-user`.
    pub socket_user: UserName,
    /// Bounds.
    pub limits: ClientLimits,
    /// Rates.
    pub rates: Rates,
}

/// How long a log link works unless configured.
const LOG_LINK_TTL: Duration = Duration::from_secs(600);

impl GatewayConfig {
    /// A config with every default, for a listener on `port`.
    pub fn new(
        log_link_key: watch::Receiver<LogLinkKey>,
        port: u16,
        socket_user: UserName,
    ) -> Self {
        Self {
            log_link_key,
            log_link_ttl: LOG_LINK_TTL,
            port,
            tls: None,
            plain_loopback: true,
            oidc: None,
            host_names: HostNames::default(),
            socket_user,
            limits: ClientLimits::default(),
            rates: Rates::default(),
        }
    }
}
