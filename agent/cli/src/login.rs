//! `muster login`, `muster logout` and `muster whoami`.

use std::path::PathBuf;

use clap::Args;
use muster_model::id::UserName;
use muster_model::secret::Hidden;
use muster_model::user_token::token_name_problem;
use serde::Serialize;

use super::api::Api;
use super::console::{Console, Paint};
use super::context::{ClusterContext, ContextFile, Contexts, check_name};
use super::device_login::{self, DeviceLoginEnd};
use super::endpoint::{AgentEndpoint, EndpointArguments, claims, remote};
use super::error::CliError;
use super::moment::date;
use super::output::OutputOption;
use super::page::Page;
use super::password::{read, read_stdin};
use super::status::CliStatus;
use super::terminal;

pub(super) const LOGIN_EXAMPLES: &str = "\
Asks for your password, or, where the cluster has an identity provider, shows an address and a code:
open the address in a browser on any device, and enter the code. This machine needs no browser.

Keeps a token that works for seven days in a context: in $XDG_CONFIG_HOME/muster/contexts.json, else
~/.config/muster/contexts.json, which nobody else may read. The context is in use from then on, and is
called as the host of URL unless --context names it.

Nodes make their own certificates. Tell its fingerprint, which `sudo muster node show` prints on that
machine, as --fingerprint; it is kept in the context.

Examples:
  muster login https://n1:7741 --user ada --fingerprint sha256:...
  muster login https://n1:7741 --device
  muster login https://n1:7741 --user ada --cacert rest.crt --context lab
  muster login https://n1:7741 --user ada --password-file secret.txt --name 'nightly tests'";

pub(super) const LOGOUT_EXAMPLES: &str = "\
Revokes the token at the cluster, and removes the context here. Where the cluster cannot be reached,
the context is removed all the same, and the command fails: the token works until it expires, or until
`muster token revoke`.

Examples:
  muster logout
  muster logout --context lab";

pub(super) const WHOAMI_EXAMPLES: &str = "\
Examples:
  muster whoami
  muster whoami -o json | jq -r .user";

/// Arguments of `login`.
#[derive(Debug, Args)]
pub struct LoginArguments {
    /// The address of any node of the cluster: https://host:7741.
    #[arg(value_name = "URL")]
    address: String,
    /// Your name in the cluster. Without it you are asked, or the identity provider says it.
    #[arg(long, value_name = "USER", env = "MUSTER_USER")]
    user: Option<UserName>,
    /// What the token is called in lists.
    #[arg(long, value_name = "NAME", default_value = "muster login")]
    name: String,
    /// Log in by the identity provider, with a code that you type into a browser on any device. The
    /// usual way where the cluster has one.
    #[arg(long, conflicts_with_all = ["password", "password_stdin", "password_file"])]
    device: bool,
    /// Log in by your password, also where the cluster has an identity provider.
    #[arg(long)]
    password: bool,
    /// Read your password from stdin, which has nothing else.
    #[arg(long, conflicts_with = "password_file")]
    password_stdin: bool,
    /// Read your password from this file, which has nothing else.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Send the password, or be sent the token, over plain HTTP to or from another machine: they can be
    /// read on the way.
    #[arg(long)]
    plain_http: bool,
}

impl LoginArguments {
    pub(super) async fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        if let Some(problem) = token_name_problem(&self.name) {
            return Err(CliError::Usage(format!("--name: it {problem}")));
        }
        let endpoint = remote(&self.address, None, connection.known()?)?;
        if endpoint.is_readable_on_the_way() && !self.plain_http {
            return Err(CliError::Usage(format!(
                "{}: the password and the token could be read on the way; write https://, or give \
                 --plain-http",
                self.address
            )));
        }
        let file = connection.context_file()?;
        let mut contexts = file.read()?;
        let name = self.context_name(connection, &contexts, &endpoint)?;
        let api = Api::at(endpoint, None);
        let (user, token) = match self.is_by_device(&api).await? {
            false => self.log_in_by_password(&api, console).await?,
            true => match device_login::log_in(&api, &self.name, console).await? {
                DeviceLoginEnd::Interrupted(status) => return Ok(status),
                DeviceLoginEnd::LoggedIn(user, token) => {
                    self.check_user(&user, (&token, connection)).await?;
                    (user.to_string(), token)
                }
            },
        };
        let until = expiry(&token);
        let context = ClusterContext {
            url: self.address.clone(),
            user: user.clone(),
            token: Hidden(token),
            fingerprint: connection.fingerprint.clone().filter(|it| !it.is_empty()),
            cacert: connection.cacert.as_deref().map(absolute).transpose()?,
        };
        contexts.put(&name, context)?;
        file.write(&contexts)?;
        console.note(format!(
            "logged in as {user} at {}{until}; the context {name} is in use",
            self.address
        ));
        Ok(CliStatus::Ok)
    }

    /// Whether the person logs in on another device: as they say, else as the cluster's people do.
    async fn is_by_device(&self, api: &Api) -> Result<bool, CliError> {
        if self.device {
            return Ok(true);
        }
        if self.password || self.password_stdin || self.password_file.is_some() {
            return Ok(false);
        }
        api.has_identity_provider().await
    }

    async fn log_in_by_password(
        &self,
        api: &Api,
        console: &Console,
    ) -> Result<(String, String), CliError> {
        let user = self.user(console)?;
        let password = self.read_password(&user, console)?;
        let token = api.log_in(&user, &password.0, &self.name).await?;
        Ok((user, token))
    }

    /// Refuses a login as another user than was asked for, and revokes the token.
    async fn check_user(
        &self,
        user: &UserName,
        (token, connection): (&str, &EndpointArguments),
    ) -> Result<(), CliError> {
        let Some(wanted) = self.user.as_ref().filter(|wanted| *wanted != user) else {
            return Ok(());
        };
        let endpoint = remote(&self.address, Some(token.to_owned()), connection.known()?)?;
        Api::at(endpoint, None).log_out().await?;
        Err(CliError::Usage(format!(
            "the identity provider knows you as {user}, not as {wanted}: log in there as {wanted}, or \
             leave --user and MUSTER_USER out"
        )))
    }

    /// What the context is called. One of another cluster is not replaced unasked.
    fn context_name(
        &self,
        connection: &EndpointArguments,
        contexts: &Contexts,
        endpoint: &AgentEndpoint,
    ) -> Result<String, CliError> {
        if let Some(name) = &connection.context {
            check_name(name)?;
            return Ok(name.clone());
        }
        let name = match endpoint {
            AgentEndpoint::Remote { host, .. } => host.clone(),
            AgentEndpoint::Socket(_) => String::new(),
        };
        check_name(&name)?;
        match contexts.contexts.get(&name) {
            Some(known) if known.url != self.address => Err(CliError::Usage(format!(
                "the context {name} is of {}; choose a name for this one with --context NAME",
                known.url
            ))),
            _ => Ok(name),
        }
    }

    fn user(&self, console: &Console) -> Result<String, CliError> {
        match &self.user {
            Some(user) => Ok(user.to_string()),
            None if console.interactive => console.asked("User"),
            None => Err(CliError::Usage(
                "stdin is not a terminal, so you cannot be asked who you are: give --user NAME"
                    .to_owned(),
            )),
        }
    }

    fn read_password(&self, user: &str, console: &Console) -> Result<Hidden<String>, CliError> {
        let given = match &self.password_file {
            Some(file) => read(file)?,
            None if self.password_stdin => read_stdin()?,
            None if console.interactive => terminal::ask(&format!("Password of {user}"))?,
            None => {
                return Err(CliError::Usage(
                    "stdin is not a terminal, so your password cannot be asked for: give --password-stdin \
                     or --password-file FILE"
                        .to_owned(),
                ));
            }
        };
        match given.0.is_empty() {
            true => Err(CliError::Usage("no password was given".to_owned())),
            false => Ok(given),
        }
    }
}

/// Contexts are used from any directory.
fn absolute(path: &std::path::Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|source| CliError::Read {
        path: path.to_owned(),
        source,
    })
}

/// ` until DATE`, as far as the token itself says.
fn expiry(token: &str) -> String {
    let expires = claims(token).and_then(|claims| claims.get("exp")?.as_u64());
    let until =
        expires.map(|expires_s| format!(" until {}", date(expires_s.saturating_mul(1_000))));
    until.unwrap_or_default()
}

pub(super) async fn log_out(
    connection: &EndpointArguments,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let (context, endpoint) = connection.found()?;
    let Some(name) = context else {
        return Err(CliError::Usage(
            "no context is in use, so there is nothing to log out of; name one with --context NAME, \
             `muster context list` shows them"
                .to_owned(),
        ));
    };
    let token = endpoint.token().unwrap_or_default().to_owned();
    let revoked = Api::at(endpoint, None).log_out().await;
    forget(&connection.context_file()?, &name)?;
    match revoked {
        Ok(()) => {
            console.note(format!("logged out; the context {name} is removed"));
            Ok(CliStatus::Ok)
        }
        Err(error) if error.is_no_login() => {
            console.note(format!(
                "the token was not valid any more; the context {name} is removed"
            ));
            Ok(CliStatus::Ok)
        }
        Err(error) => {
            let id = claims(&token).and_then(|it| Some(it.get("jti")?.as_str()?.to_owned()));
            console.note(format!(
                "the context {name} is removed, but the token was not revoked: it works{}; revoke it later \
                 with `muster token revoke {}`",
                expiry(&token),
                id.unwrap_or_default(),
            ));
            Err(error)
        }
    }
}

fn forget(file: &ContextFile, name: &str) -> Result<(), CliError> {
    let mut contexts = file.read()?;
    contexts.remove(name)?;
    file.write(&contexts)
}

/// Who the caller is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    user: UserName,
    admin: bool,
    /// Whether the token is a program's.
    application: bool,
    groups: Vec<String>,
    virtual_clusters: Vec<String>,
    /// Where the agent is.
    endpoint: String,
    /// The context that names it.
    context: Option<String>,
    /// When the token expires, ms since the epoch; none on root's socket, and if never.
    token_expires_ms: Option<u64>,
    /// Whether there is a token: root's socket needs none.
    has_token: bool,
}

pub(super) async fn who_am_i(
    output: OutputOption,
    connection: &EndpointArguments,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let (context, endpoint) = connection.found()?;
    let place = endpoint.to_string();
    let has_token = endpoint.token().is_some();
    let api = Api::at(endpoint, None);
    let check = api.token_check().await?;
    let user = api.user_named(check.username.as_str()).await?;
    let identity = Identity {
        user: check.username,
        admin: check.admin,
        application: check.application,
        groups: user.grouplist,
        virtual_clusters: user.virtual_cluster,
        endpoint: place,
        context,
        token_expires_ms: check.exp.map(|exp| exp.saturating_mul(1_000)),
        has_token,
    };
    output.write(console, &identity, page)?;
    Ok(CliStatus::Ok)
}

fn page(identity: &Identity, paint: Paint) -> String {
    let token = match (identity.has_token, identity.token_expires_ms) {
        (false, _) => "none: root's socket".to_owned(),
        (true, None) => "never expires".to_owned(),
        (true, Some(expires_ms)) => format!("expires {}", date(expires_ms)),
    };
    let kind = if identity.application {
        " (of a program)"
    } else {
        ""
    };
    let mut page = Page::titled(paint, identity.user.as_str());
    page.facts(
        18,
        [
            (
                "admin",
                if identity.admin { "yes" } else { "no" }.to_owned(),
            ),
            ("groups", or_none(&identity.groups)),
            ("virtual clusters", or_none(&identity.virtual_clusters)),
            ("agent", identity.endpoint.clone()),
            (
                "context",
                identity.context.clone().unwrap_or_else(|| "-".to_owned()),
            ),
            ("token", format!("{token}{kind}")),
        ],
    );
    page.into_text()
}

fn or_none(names: &[String]) -> String {
    match names {
        [] => "-".to_owned(),
        names => names.join(", "),
    }
}
