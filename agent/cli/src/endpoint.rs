//! Where the agent is.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use http::Uri;
use muster_model::id::UserName;
use muster_tls::Fingerprint;
use nix::unistd::{AccessFlags, access};

use super::context::{ContextFile, Contexts};
use super::error::CliError;

const RUN_DIRECTORY: &str = "/run/muster";
const SOCKET_NAME: &str = "agent.sock";
/// The agent's own port, for a URL that names none.
const PORT_DEFAULT: u16 = 7741;

/// How to reach the agent. The first of these that is there wins: --socket; --context; --url; MUSTER_CONTEXT;
/// MUSTER_HOME; the agent's socket on this machine, if you may use it; the context in use.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Finding the agent")]
pub(super) struct EndpointArguments {
    /// The agent's socket [default: $MUSTER_HOME/agent.sock, else /run/muster/agent.sock if you may
    /// use it, else the context in use].
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// A cluster that you have logged in to with `muster login`; wins over --url [env: MUSTER_CONTEXT,
    /// over which --url wins].
    #[arg(long, value_name = "NAME", global = true)]
    pub(super) context: Option<String>,
    /// The address of an agent elsewhere: https://host:7741.
    #[arg(long, value_name = "URL", global = true, env = "MUSTER_URL")]
    url: Option<String>,
    /// Fingerprint of the agent's certificate, with --url and `muster login`, as `muster node show`
    /// tells it there: sha256:... Not needed where an authority that this machine trusts has signed it.
    #[arg(long, value_name = "SHA256", global = true, env = "MUSTER_FINGERPRINT")]
    pub(super) fingerprint: Option<String>,
    /// Take the certificates in this file, and those that they sign: the agent's rest.crt, or those
    /// of an authority. With --url and `muster login`.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        conflicts_with = "fingerprint"
    )]
    pub(super) cacert: Option<PathBuf>,
    /// Token of the user to act as, with --url.
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        env = "MUSTER_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// What the process was started with, unless a test says something else.
    #[arg(skip)]
    environment: Option<EndpointEnvironment>,
}

/// What the environment says of where the agent is.
#[derive(Clone, Debug, Default)]
pub(super) struct EndpointEnvironment {
    /// `$MUSTER_HOME`.
    pub(super) home: Option<OsString>,
    /// `$MUSTER_CONTEXT`.
    pub(super) context: Option<String>,
    /// Where contexts are kept.
    pub(super) contexts: Option<ContextFile>,
}

impl EndpointEnvironment {
    fn of_process() -> Self {
        use std::env::{var, var_os};
        Self {
            home: var_os("MUSTER_HOME"),
            context: var("MUSTER_CONTEXT").ok(),
            contexts: ContextFile::of(var_os("XDG_CONFIG_HOME"), var_os("HOME")),
        }
    }
}

impl EndpointArguments {
    /// The agent's place.
    pub(super) fn endpoint(&self) -> Result<AgentEndpoint, CliError> {
        self.found().map(|(_, endpoint)| endpoint)
    }

    /// The agent's place, and the context that names it, if one does.
    pub(super) fn found(&self) -> Result<(Option<String>, AgentEndpoint), CliError> {
        if let Some(path) = &self.socket {
            return Ok((None, AgentEndpoint::Socket(path.clone())));
        }
        let environment = self.environment();
        if let Some(name) = &self.context {
            return self.by_context(name);
        }
        // An empty variable means the same as none.
        if let Some(url) = self.url.as_deref().filter(|url| !url.is_empty()) {
            let token = self.token.clone().filter(|token| !token.is_empty());
            return Ok((None, remote(url, token, self.known()?)?));
        }
        if let Some(name) = environment.context.filter(|name| !name.is_empty()) {
            return self.by_context(&name);
        }
        let home = environment.home.filter(|home| !home.is_empty());
        let is_named = home.is_some();
        let directory = home.map_or_else(|| PathBuf::from(RUN_DIRECTORY), PathBuf::from);
        let socket = directory.join(SOCKET_NAME);
        if !is_named && !may_use(&socket) {
            let contexts = self.contexts()?;
            if let Some((name, context)) = contexts.in_use() {
                return Ok((Some(name.clone()), context.endpoint()?));
            }
        }
        Ok((None, AgentEndpoint::Socket(socket)))
    }

    fn by_context(&self, name: &str) -> Result<(Option<String>, AgentEndpoint), CliError> {
        let contexts = self.contexts()?;
        let endpoint = contexts.named(name)?.endpoint()?;
        Ok((Some(name.to_owned()), endpoint))
    }

    fn environment(&self) -> EndpointEnvironment {
        let given = self.environment.clone();
        given.unwrap_or_else(EndpointEnvironment::of_process)
    }

    /// The contexts of this user.
    fn contexts(&self) -> Result<Contexts, CliError> {
        let file = self.environment().contexts;
        file.map_or_else(|| Ok(Contexts::default()), |file| file.read())
    }

    /// Where contexts are kept.
    pub(super) fn context_file(&self) -> Result<ContextFile, CliError> {
        self.environment().contexts.ok_or_else(|| {
            CliError::Usage(
                "there is no place for contexts: set HOME, or XDG_CONFIG_HOME to a directory"
                    .to_owned(),
            )
        })
    }

    /// How the agent's certificate is known.
    pub(super) fn known(&self) -> Result<KnownCertificate, CliError> {
        let fingerprint = self.fingerprint.as_deref().filter(|text| !text.is_empty());
        match (&self.cacert, fingerprint) {
            // The option is more than the variable.
            (Some(file), _) => Ok(KnownCertificate::File(file.clone())),
            (None, Some(text)) => match text.parse() {
                Ok(fingerprint) => Ok(KnownCertificate::Fingerprint(fingerprint)),
                Err(error) => Err(CliError::Usage(format!("--fingerprint: {error}"))),
            },
            (None, None) => Ok(KnownCertificate::ByAuthorities),
        }
    }

    /// Takes this for the environment of the process; for tests.
    #[cfg(test)]
    pub(super) fn within(mut self, environment: EndpointEnvironment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Reaches the agent at `socket` only; for tests.
    #[cfg(test)]
    pub(super) fn at_socket(socket: PathBuf) -> Self {
        Self {
            socket: Some(socket),
            ..Self::default()
        }
    }
}

/// A place where an agent answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AgentEndpoint {
    /// Root's socket on this machine: full rights.
    Socket(PathBuf),
    /// HTTP.
    Remote {
        /// How its certificate is known; none for plain HTTP.
        tls: Option<KnownCertificate>,
        host: String,
        port: u16,
        /// Path that every route is under, without a slash at its end.
        base: String,
        token: Option<String>,
    },
}

/// How a certificate is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KnownCertificate {
    /// By its fingerprint.
    Fingerprint(Fingerprint),
    /// By a file of certificates.
    File(PathBuf),
    /// By the authorities that this machine trusts. If none of them has signed it, its fingerprint is told.
    ByAuthorities,
}

/// Whether this user may use a socket.
fn may_use(socket: &Path) -> bool {
    access(socket, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
}

/// The place that a URL names.
pub(super) fn remote(
    url: &str,
    token: Option<String>,
    known: KnownCertificate,
) -> Result<AgentEndpoint, CliError> {
    let usage = |why: &str| CliError::Usage(format!("--url {url}: {why}"));
    let uri: Uri = url
        .parse()
        .map_err(|_| usage("write it as https://host:7741"))?;
    let tls = match uri.scheme_str() {
        Some("http") => None,
        Some("https") => Some(known),
        _ => return Err(usage("write it as https://host:7741")),
    };
    let host = uri.host().ok_or_else(|| usage("it names no host"))?;
    Ok(AgentEndpoint::Remote {
        tls,
        host: host.trim_matches(['[', ']']).to_owned(),
        port: uri.port_u16().unwrap_or(PORT_DEFAULT),
        base: uri.path().trim_end_matches('/').to_owned(),
        token,
    })
}

impl AgentEndpoint {
    /// The user that the token was issued to, unchecked: the agent is who checks it.
    pub(super) fn token_user(&self) -> Option<UserName> {
        let claims = claims(self.token()?)?;
        claims.get("username")?.as_str()?.parse().ok()
    }

    /// The token that requests carry.
    pub(super) fn token(&self) -> Option<&str> {
        match self {
            Self::Socket(_) => None,
            Self::Remote { token, .. } => token.as_deref(),
        }
    }

    /// Whether what is sent can be read on the way: plain HTTP to another machine.
    pub(super) fn is_readable_on_the_way(&self) -> bool {
        match self {
            Self::Socket(_) | Self::Remote { tls: Some(_), .. } => false,
            Self::Remote { host, .. } => {
                let address = host.parse::<IpAddr>();
                host != "localhost" && !address.is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

/// What a token says, unchecked.
pub(super) fn claims(token: &str) -> Option<serde_json::Value> {
    let json = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&json).ok()
}

impl fmt::Display for AgentEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Remote {
                tls,
                host,
                port,
                base,
                ..
            } => {
                let scheme = if tls.is_some() { "https" } else { "http" };
                write!(f, "{scheme}://{host}:{port}{base}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::secret::Hidden;
    use tempfile::TempDir;

    use super::*;
    use crate::context::ClusterContext;

    /// `lab` and `home` are there, and this one is in use.
    fn contexts(directory: &TempDir, current: Option<&str>) -> ContextFile {
        let context = |url: &str| ClusterContext {
            url: url.to_owned(),
            user: "ada".to_owned(),
            token: Hidden("t".to_owned()),
            fingerprint: None,
            cacert: None,
        };
        let contexts = Contexts {
            current: current.map(str::to_owned),
            contexts: [("lab", "http://lab:1"), ("home", "https://home")]
                .map(|(name, url)| (name.to_owned(), context(url)))
                .into(),
        };
        let file = ContextFile(directory.path().join("contexts.json"));
        file.write(&contexts).unwrap();
        file
    }

    #[test]
    fn the_first_named_place_wins() {
        let directory = tempfile::tempdir().unwrap();
        let file = contexts(&directory, Some("home"));
        // Socket, context, URL, the variables of context and home.
        let place = |given: [Option<&str>; 5]| {
            let [socket, context, url, context_variable, home] =
                given.map(|it| it.map(str::to_owned));
            let connection = EndpointArguments {
                socket: socket.map(PathBuf::from),
                context,
                url,
                ..EndpointArguments::default()
            };
            let connection = connection.within(EndpointEnvironment {
                home: home.map(OsString::from),
                context: context_variable,
                contexts: Some(file.clone()),
            });
            match connection.endpoint() {
                Ok(endpoint) => endpoint.to_string(),
                Err(error) => error.to_string(),
            }
        };
        let url = Some("http://n1");
        let (lab, home) = (Some("lab"), Some("/tmp/m"));
        for (given, expect) in [
            ([Some("/s"), lab, url, lab, home], "/s"),
            ([None, lab, url, None, home], "http://lab:1"),
            ([None, None, url, lab, home], "http://n1:7741"),
            ([None, None, None, lab, home], "http://lab:1"),
            ([None, None, None, None, home], "/tmp/m/agent.sock"),
            ([None, None, None, None, None], "https://home:7741"),
            (
                [None, None, Some(""), Some(""), Some("")],
                "https://home:7741",
            ),
            (
                [None, None, Some("http://[::1]:80/api/"), None, None],
                "http://::1:80/api",
            ),
            (
                [None, None, Some("n1:7741"), None, None],
                "--url n1:7741: write it as https://host:7741",
            ),
            (
                [None, None, Some("https://n1"), None, None],
                "https://n1:7741",
            ),
        ] {
            assert_eq!(place(given), expect, "{given:?}");
        }
        let error = place([None, Some("none"), None, None, None]);
        assert!(error.contains("there is no context none"), "{error}");
    }

    #[test]
    fn without_a_context_in_use_it_is_the_socket() {
        let directory = tempfile::tempdir().unwrap();
        for contexts in [None, Some(contexts(&directory, None))] {
            let connection = EndpointArguments::default().within(EndpointEnvironment {
                contexts,
                ..EndpointEnvironment::default()
            });
            let (context, endpoint) = connection.found().unwrap();
            assert_eq!(
                (context, endpoint.to_string()),
                (None, "/run/muster/agent.sock".to_owned())
            );
        }
        assert!(!may_use(&directory.path().join("none")));
        assert!(may_use(&directory.path().join("contexts.json")));
    }

    #[test]
    fn plain_http_is_private_on_one_machine_only() {
        for (url, expect) in [
            ("http://localhost:1", false),
            ("http://127.0.0.1", false),
            ("http://[::1]:80", false),
            ("https://n1", false),
            ("http://n1", true),
            ("http://10.0.0.1", true),
        ] {
            let endpoint = remote(url, None, KnownCertificate::ByAuthorities).unwrap();
            assert_eq!(endpoint.is_readable_on_the_way(), expect, "{url}");
        }
    }

    #[test]
    fn a_token_names_its_user() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"username":"ada","application":false}"#);
        for (token, expect) in [
            (Some(format!("head.{claims}.sign")), Some("ada")),
            (Some("no-token".into()), None),
            (None, None),
        ] {
            let endpoint = remote("http://n1", token, KnownCertificate::ByAuthorities).unwrap();
            assert_eq!(endpoint.token_user().as_ref().map(UserName::as_str), expect);
        }
    }
}
