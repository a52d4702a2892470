//! `muster cluster token`.

use std::time::Duration;

use anstyle::AnsiColor;
use clap::{Args, Subcommand};
use muster_model::mesh::{NewToken, TokenView};

use crate::api::Api;
use crate::console::{Console, Paint};
use crate::error::CliError;
use crate::moment::{date, duration, now_ms, span};
use crate::output::OutputOption;
use crate::status::CliStatus;
use crate::table::{TableCell, TextTable};

/// What can be done with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token. Prints it, this once: it cannot be had again.
    #[command(after_help = "Examples:
  muster cluster token create
  muster cluster token create --uses 40 --expires 2h
  muster cluster token create --no-vote -o json | jq -r .text")]
    Create(Create),
    /// List tokens, spent ones too. Their secrets are not known any more.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  muster cluster token list
  muster cluster token list -o json | jq -r '.[].id'"
    )]
    List {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Revoke a token: it admits nobody any more. Whom it admitted stays a member.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  muster cluster token revoke 3f2a"
    )]
    Revoke {
        /// The token's id, the part before its first dot.
        id: String,
    },
}

/// Arguments of `create`.
#[derive(Debug, Args)]
pub struct Create {
    /// How long it works: 30m, 24h, 7d.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    expires: Duration,
    /// How many machines it admits.
    #[arg(long, value_name = "COUNT", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    uses: u32,
    /// Those machines never vote: for machines that come and go.
    #[arg(long)]
    no_vote: bool,
    #[command(flatten)]
    output: OutputOption,
}

impl TokenCommand {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        match self {
            Self::Create(arguments) => arguments.run(api, console).await,
            Self::List { output } => {
                let tokens = api.join_tokens().await?;
                let now = now_ms();
                output.write(console, &tokens, |tokens, paint| table(tokens, now, paint))?;
                Ok(CliStatus::Ok)
            }
            Self::Revoke { id } => {
                api.revoke_token(id_of(&id)).await?;
                console.note(format!("token {} admits nobody any more", id_of(&id)));
                Ok(CliStatus::Ok)
            }
        }
    }
}

/// The id of a token, also where all of its text is given.
fn id_of(text: &str) -> &str {
    text.split('.').next().unwrap_or(text)
}

impl Create {
    async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let created = api
            .create_token(NewToken {
                expires_s: self.expires.as_secs(),
                uses: self.uses,
                votes: !self.no_vote,
            })
            .await?;
        self.output
            .write(console, &created, |created, _| created.text.clone())?;
        let address = match created.address.as_str() {
            "" => "ADDRESS",
            address => address,
        };
        let machines = match created.token.uses_left {
            1 => "one machine".to_owned(),
            count => format!("{count} machines"),
        };
        console.note(format!(
            "admits {machines} until {}; there: muster cluster join {address} TOKEN",
            date(created.token.expires_ms)
        ));
        Ok(CliStatus::Ok)
    }
}

fn table(tokens: &[TokenView], now: u64, paint: Paint) -> String {
    if tokens.is_empty() {
        return "no tokens".to_owned();
    }
    let mut table = TextTable::new(["TOKEN", "STATE", "USES LEFT", "EXPIRES", "VOTES", "BY"]);
    for token in tokens {
        let state = match token.spent(now) {
            None => TableCell::styled("valid", AnsiColor::Green.on_default()),
            Some(why) => TableCell::styled(why, AnsiColor::BrightBlack.on_default()),
        };
        let expires = match token.expires_ms.checked_sub(now) {
            Some(left) => format!("in {}", span(left)),
            None => date(token.expires_ms),
        };
        table.row([
            token.id.as_str().into(),
            state,
            token.uses_left.into(),
            expires.into(),
            if token.votes { "yes" } else { "no" }.into(),
            token.created_by.as_str().into(),
        ]);
    }
    table.render(paint, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_which_tokens_still_work() {
        let token = |id: &str, expires_ms, uses_left, revoked| TokenView {
            id: id.to_owned(),
            expires_ms,
            uses_left,
            votes: uses_left > 1,
            created_by: "ada".to_owned(),
            revoked,
        };
        let tokens = [
            token("a", 7_200_000, 2, false),
            token("b", 7_200_000, 1, true),
            token("c", 7_200_000, 0, false),
            token("d", 1_000, 1, false),
        ];
        assert_eq!(
            table(&tokens, 3_600_000, Paint { colour: false }),
            "\
TOKEN  STATE    USES LEFT  EXPIRES                  VOTES  BY
a      valid    2          in 1h                    yes    ada
b      revoked  1          in 1h                    no     ada
c      used up  0          in 1h                    no     ada
d      expired  1          1970-01-01 00:00:01 UTC  no     ada
"
        );
    }
}
