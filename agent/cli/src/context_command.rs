//! `muster context`.

use clap::Subcommand;
use serde::Serialize;

use super::console::{Console, Paint};
use super::context::{ClusterContext, Contexts};
use super::endpoint::{EndpointArguments, claims};
use super::error::CliError;
use super::moment::date;
use super::output::OutputOption;
use super::status::CliStatus;
use super::table::TextTable;

/// What can be done with contexts.
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List contexts. Their tokens are not shown.
    #[command(
        visible_alias = "ls",
        after_help = "The one in use has a star.

Examples:
  muster context list
  muster context list -o json | jq -r '.[].name'"
    )]
    List {
        #[command(flatten)]
        output: OutputOption,
    },
    /// Use a context from now on, wherever no other agent is named and there is none on this machine.
    #[command(after_help = "Examples:
  muster context use lab
  muster --context lab job list         # for one command
  MUSTER_CONTEXT=lab muster job list    # likewise")]
    Use {
        /// Its name.
        name: String,
    },
    /// Remove a context. Its token stays valid: `muster logout` revokes it as well.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  muster context remove lab"
    )]
    Remove {
        /// Its name.
        name: String,
    },
}

/// A context without its token.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedContext {
    name: String,
    current: bool,
    url: String,
    user: String,
    /// When the token expires, ms since the epoch, as far as it says.
    expires_ms: Option<u64>,
}

impl ContextCommand {
    pub(super) fn run(
        self,
        connection: &EndpointArguments,
        console: &Console,
    ) -> Result<CliStatus, CliError> {
        let file = connection.context_file()?;
        let mut contexts = file.read()?;
        match self {
            Self::List { output } => {
                output.write(console, &listed(&contexts), |listed, paint| {
                    table(listed, paint)
                })?;
            }
            Self::Use { name } => {
                contexts.named(&name)?;
                contexts.current = Some(name.clone());
                file.write(&contexts)?;
                console.note(format!("the context {name} is in use"));
            }
            Self::Remove { name } => {
                contexts.remove(&name)?;
                file.write(&contexts)?;
                console.note(format!("the context {name} is removed"));
            }
        }
        Ok(CliStatus::Ok)
    }
}

fn listed(contexts: &Contexts) -> Vec<ListedContext> {
    let listed = |(name, context): (&String, &ClusterContext)| ListedContext {
        name: name.clone(),
        current: contexts.current.as_ref() == Some(name),
        url: context.url.clone(),
        user: context.user.clone(),
        expires_ms: claims(&context.token.0)
            .and_then(|claims| claims.get("exp")?.as_u64())
            .map(|exp| exp.saturating_mul(1_000)),
    };
    contexts.contexts.iter().map(listed).collect()
}

fn table(contexts: &[ListedContext], paint: Paint) -> String {
    if contexts.is_empty() {
        return "no contexts; `muster login URL` makes one".to_owned();
    }
    let mut table = TextTable::new(["", "CONTEXT", "URL", "USER", "TOKEN EXPIRES"]);
    for context in contexts {
        table.row([
            if context.current { "*" } else { "" }.into(),
            context.name.as_str().into(),
            context.url.as_str().into(),
            context.user.as_str().into(),
            context
                .expires_ms
                .map_or_else(|| "-".to_owned(), date)
                .into(),
        ]);
    }
    table.render(paint, 0)
}
