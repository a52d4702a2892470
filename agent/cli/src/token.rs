//! `muster token`: tokens that users and their programs ask the cluster with.

use std::time::Duration;

use clap::{Args, Subcommand};
use muster_model::id::UserName;
use muster_model::user_token::{NewUserToken, UserTokenId, token_name_problem};

use super::api::{Api, CreatedUserToken, ListedUserToken};
use super::console::{Console, Paint};
use super::error::CliError;
use super::moment::{date, duration, now_ms, span};
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;
use super::user::may_remove;

/// What can be done with tokens of users.
#[derive(Debug, Subcommand)]
pub enum UserTokenCommand {
    /// List your tokens. Their texts are not shown.
    #[command(
        visible_alias = "ls",
        after_help = "LAST USED is known to the hour, and for a few minutes at the node alone where it was. A star marks the
token that this command came with.

Examples:
  muster token list
  sudo muster token list --user ada
  muster token list -o json | jq -r '.[] | select(.kind == \"application\").id'"
    )]
    List {
        #[command(flatten)]
        whose: TokenOwner,
        #[command(flatten)]
        output: OutputOption,
    },
    /// Make an application token, for a program. Prints it, this once.
    #[command(
        after_help = "A program sends it as `Authorization: Bearer TOKEN`. It may do what you may, but for managing tokens
and users.

Examples:
  muster token create 'nightly tests' --expires 30d
  muster token create ci -o json | jq -r .token"
    )]
    Create(CreateToken),
    /// Revoke tokens: every node that can be reached refuses them at once.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  muster token revoke 3f2a90b1c4d5e6f7
  muster token revoke --all                      # logs you out everywhere
  sudo muster token revoke --all --user ada --yes"
    )]
    Revoke(RevokeTokens),
    /// Have another key sign tokens from now on (admins). Nobody is logged out by it.
    #[command(
        after_help = "Tokens that older keys signed stay good until they expire or are revoked. Revoke those that may be in
wrong hands: another key alone ends none.

Examples:
  muster token rotate-key"
    )]
    RotateKey,
}

/// Whose tokens.
#[derive(Debug, Args)]
pub struct TokenOwner {
    /// Those of this user, for admins [default: your own].
    #[arg(long, value_name = "USER")]
    user: Option<UserName>,
}

/// Arguments of `create`.
#[derive(Debug, Args)]
pub struct CreateToken {
    /// What it is called in lists: the program that uses it.
    name: String,
    /// How long it works: 24h, 30d [default: until it is revoked].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<Duration>,
    #[command(flatten)]
    whose: TokenOwner,
    #[command(flatten)]
    output: OutputOption,
}

/// Arguments of `revoke`.
#[derive(Debug, Args)]
pub struct RevokeTokens {
    /// Ids, as `muster token list` shows them.
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    ids: Vec<UserTokenId>,
    /// All of them, this command's own too.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    whose: TokenOwner,
    /// Without a question.
    #[arg(long, short)]
    yes: bool,
}

impl UserTokenCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::List { whose, output } => {
                let tokens = api.user_tokens(whose.user.as_ref()).await?;
                let now = now_ms();
                output.write(console, &tokens, |tokens, paint| table(tokens, now, paint))?;
                Ok(CliStatus::Ok)
            }
            Self::Create(arguments) => arguments.run(api, console).await,
            Self::Revoke(arguments) => arguments.run(api, console).await,
            Self::RotateKey => {
                let number = api.rotate_token_key().await?;
                console.note(format!(
                    "key {number} signs tokens from now on; those that older keys signed stay good"
                ));
                Ok(CliStatus::Ok)
            }
        }
    }
}

impl CreateToken {
    async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        if let Some(problem) = token_name_problem(&self.name) {
            return Err(CliError::Usage(format!("NAME: it {problem}")));
        }
        let token = NewUserToken {
            name: self.name,
            life_s: self.expires.map(|life| life.as_secs()),
        };
        let created = api
            .create_user_token(self.whose.user.as_ref(), &token)
            .await?;
        self.output
            .write(console, &created, |created: &CreatedUserToken, _| {
                created.token.clone()
            })?;
        let until = match created.view.expires_ms {
            Some(expires_ms) => format!("until {}", date(expires_ms)),
            None => "until it is revoked".to_owned(),
        };
        console.note(format!(
            "this token is printed once: it cannot be shown again; it works {until}; its id is {}",
            created.view.id
        ));
        Ok(CliStatus::Ok)
    }
}

impl RevokeTokens {
    async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        if self.all {
            return self.revoke_all(api, console).await;
        }
        for id in &self.ids {
            api.revoke_user_token(self.whose.user.as_ref(), *id).await?;
            console.note(format!("token {id} is revoked"));
        }
        Ok(CliStatus::Ok)
    }

    async fn revoke_all(&self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let user = match &self.whose.user {
            Some(user) => user.clone(),
            None => api.token_check().await?.username,
        };
        let what = format!(
            "{user} would be logged out everywhere, and programs with tokens of theirs stop"
        );
        if !may_remove(&what, self.yes, console)? {
            return Ok(CliStatus::Negative);
        }
        let count = api.revoke_user_tokens(&user).await?;
        let tokens = if count == 1 {
            "token was"
        } else {
            "tokens were"
        };
        console.note(format!("{count} {tokens} revoked"));
        Ok(CliStatus::Ok)
    }
}

fn table(tokens: &[ListedUserToken], now: u64, paint: Paint) -> String {
    if tokens.is_empty() {
        return "no tokens".to_owned();
    }
    let mut table = TextTable::new([
        "",
        "TOKEN",
        "NAME",
        "KIND",
        "ISSUED",
        "EXPIRES",
        "LAST USED",
        "FROM",
    ]);
    for ListedUserToken { view, current } in tokens {
        let expires = match view.expires_ms.map(|end| end.checked_sub(now)) {
            None => "never".to_owned(),
            Some(Some(left)) => format!("in {}", span(left)),
            Some(None) => "expired".to_owned(),
        };
        table.row([
            if *current { "*" } else { "" }.into(),
            view.id.to_string().into(),
            view.name.as_str().into(),
            view.kind.word().into(),
            date(view.issued_ms).into(),
            expires.into(),
            view.last_used_ms
                .map_or_else(|| "-".to_owned(), hour)
                .into(),
            view.address.as_str().into(),
        ]);
    }
    table.render(paint, 0)
}

/// `2026-11-20 11:00`: no finer than it is known.
fn hour(ms: u64) -> String {
    let text = date(ms);
    text.get(..16).map_or_else(|| text.clone(), str::to_owned)
}
