//! `muster rules edit`.

use std::io;
use std::path::Path;
use std::process::Command;

use muster_failure_rules::{RULES_BYTES_MAX, RuleSet};
use tempfile::NamedTempFile;

use super::RULES;
use crate::api::Api;
use crate::console::Console;
use crate::document_file;
use crate::error::{CliError, in_lines};
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
What the editor leaves is checked before it is sent. A text that cannot be used, or that came too late, stays in its
file.

Examples:
  muster rules edit
  muster rules edit --editor 'code --wait'
  muster rules edit --now";

/// Has the newest rules edited, and gives them to the cluster.
pub(super) async fn edit(
    api: &Api,
    editor: &str,
    now: bool,
    console: &Console,
) -> Result<CliStatus, CliError> {
    let newest = api.document(RULES.name).await?.newest.version;
    let before = api
        .text(RULES.name, Some(newest).filter(|version| *version > 0))
        .await?;
    let file = written(&before.text)?;
    let text = edited(editor, &file, console);
    let sent = match text {
        Ok(text) if text == before.text => {
            console.note("nothing was changed");
            return Ok(CliStatus::Ok);
        }
        Ok(text) => RULES.edit(api, newest, (text, now)).await,
        Err(error) => Err(error),
    };
    match sent {
        Ok(version) => {
            console.line(format!("version {version}"))?;
            if !now {
                console.note(format!("it is checked everywhere first; {}", RULES.after));
            }
            Ok(CliStatus::Ok)
        }
        Err(error) => {
            keep(file, console);
            Err(error)
        }
    }
}

/// The text that the editor leaves, once it can be used.
fn edited(editor: &str, file: &NamedTempFile, console: &Console) -> Result<String, CliError> {
    loop {
        run(editor, file.path())?;
        let text = document_file::read(file.path(), RULES_BYTES_MAX as u64)?;
        let Err(problems) = RuleSet::parse(&text) else {
            return Ok(text);
        };
        console.err(format!("{}\n", in_lines(&problems)))?;
        if !console.interactive || !console.agreed("edit it again?")? {
            return Err(CliError::unusable(file.path(), &problems));
        }
    }
}

fn written(text: &str) -> Result<NamedTempFile, CliError> {
    let failed = |source| CliError::Write {
        path: std::env::temp_dir(),
        source,
    };
    let mut named = tempfile::Builder::new();
    let named = named.prefix("muster-rules-").suffix(".yaml");
    let file = named.tempfile().map_err(failed)?;
    std::fs::write(file.path(), text).map_err(failed)?;
    Ok(file)
}

/// Runs the editor on a file until it ends.
fn run(editor: &str, file: &Path) -> Result<(), CliError> {
    let wrong = |why: String| {
        CliError::Usage(format!(
            "the editor {editor:?} {why}; name one with --editor, or in EDITOR"
        ))
    };
    let words = shlex::split(editor).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| wrong("is no command".to_owned()))?;
    let status: io::Result<_> = Command::new(&words[0]).args(&words[1..]).arg(file).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(wrong(format!("ended with {status}"))),
        Err(error) => Err(wrong(format!("cannot be run: {error}"))),
    }
}

fn keep(file: NamedTempFile, console: &Console) {
    match file.keep() {
        Ok((_, path)) => console.note(format!("your text is in {}", path.display())),
        Err(error) => console.note(format!("your text could not be kept: {error}")),
    }
}
