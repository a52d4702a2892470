//! Where the agent is.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use http::Uri;
use muster_model::id::UserName;
use muster_tls::Fingerprint;

use super::error::CliError;

const RUN_DIRECTORY: &str = "/run/muster";
const SOCKET_NAME: &str = "agent.sock";
/// The agent's own port, for a URL that names none.
const PORT_DEFAULT: u16 = 7741;

/// How to reach the agent. Without any of these: its socket on this machine.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Finding the agent")]
pub(super) struct EndpointArguments {
    /// The agent's socket, which wins over a URL [default: $MUSTER_HOME/agent.sock, else
    /// /run/muster/agent.sock].
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// The address of an agent elsewhere: https://host:7741.
    #[arg(long, value_name = "URL", global = true, env = "MUSTER_URL")]
    url: Option<String>,
    /// Fingerprint of the agent's certificate, as `muster node show` tells it there: sha256:... Not
    /// needed where an authority that this machine trusts has signed it.
    #[arg(long, value_name = "SHA256", global = true, env = "MUSTER_FINGERPRINT")]
    fingerprint: Option<String>,
    /// Take the certificates in this file, and those that they sign: the agent's rest.crt, or those
    /// of an authority.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        conflicts_with = "fingerprint"
    )]
    cacert: Option<PathBuf>,
    /// Token of the user to act as, with --url.
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        env = "MUSTER_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

impl EndpointArguments {
    /// The agent's place. `home` is `$MUSTER_HOME`.
    pub(super) fn endpoint(&self, home: Option<OsString>) -> Result<AgentEndpoint, CliError> {
        if let Some(path) = &self.socket {
            return Ok(AgentEndpoint::Socket(path.clone()));
        }
        // An empty variable means the same as none.
        if let Some(url) = self.url.as_deref().filter(|url| !url.is_empty()) {
            let token = self.token.clone().filter(|token| !token.is_empty());
            return remote(url, token, self.known()?);
        }
        let directory = home
            .filter(|home| !home.is_empty())
            .map_or_else(|| PathBuf::from(RUN_DIRECTORY), PathBuf::from);
        Ok(AgentEndpoint::Socket(directory.join(SOCKET_NAME)))
    }

    /// How the agent's certificate is known.
    fn known(&self) -> Result<KnownCertificate, CliError> {
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

fn remote(
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
        let Self::Remote { token, .. } = self else {
            return None;
        };
        let payload = token.as_deref()?.split('.').nth(1)?;
        let json = URL_SAFE_NO_PAD.decode(payload).ok()?;
        let claims: serde_json::Value = serde_json::from_slice(&json).ok()?;
        claims.get("username")?.as_str()?.parse().ok()
    }
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
    use super::*;

    #[test]
    fn the_first_named_place_wins() {
        let place = |socket: Option<&str>, url: Option<&str>, home: Option<&str>| {
            let connection = EndpointArguments {
                socket: socket.map(PathBuf::from),
                url: url.map(str::to_owned),
                ..EndpointArguments::default()
            };
            match connection.endpoint(home.map(OsString::from)) {
                Ok(endpoint) => endpoint.to_string(),
                Err(error) => error.to_string(),
            }
        };
        for (socket, url, home, expect) in [
            (None, None, None, "/run/muster/agent.sock"),
            (None, None, Some(""), "/run/muster/agent.sock"),
            (None, None, Some("/tmp/m"), "/tmp/m/agent.sock"),
            (None, Some(""), None, "/run/muster/agent.sock"),
            (Some("/s"), None, Some("/tmp/m"), "/s"),
            (None, Some("http://n1"), Some("/tmp/m"), "http://n1:7741"),
            (
                None,
                Some("http://[::1]:80/api/"),
                None,
                "http://::1:80/api",
            ),
            (
                None,
                Some("n1:7741"),
                None,
                "--url n1:7741: write it as https://host:7741",
            ),
            (None, Some("https://n1"), None, "https://n1:7741"),
        ] {
            assert_eq!(place(socket, url, home), expect);
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
