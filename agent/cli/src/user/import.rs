//! `muster user import`.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::UserChange;
use super::csv_file::{CsvProblem, CsvUser, parse};
use crate::api::{Api, GroupsStep};
use crate::console::Console;
use crate::document_file;
use crate::error::{CliError, explained};
use crate::output::OutputOption;
use crate::spinner::Spinner;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
The first line names the columns, in any order: username is needed; email, password or passwordHash,
admin (true or false), virtualCluster and group may be there. Several virtual clusters or groups in one
value are separated by ';'. passwordHash is what OpenPAI keeps of a password.

  username,email,password,virtualCluster,group
  ada,ada@example.org,correct horse,vision;speech,research
  bob,,battery staple,,

The whole file is checked before anything is changed. Users that exist are skipped. With --update they
get the email, password, admin right and virtual clusters of the file where it names them, and become
members of its groups as well; nothing is taken away from them for an empty value, and their password
is never replaced by a passwordHash. Exits with 1 if a user could not be added or updated.

Examples:
  muster user import people.csv --dry-run
  muster user import people.csv
  muster user import people.csv --update -o json | jq -r '.failed[].why'";

/// A file of some 100,000 users.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// How often a user is tried while the agent is overloaded.
const TRIES_MAX: u32 = 5;
const TRY_PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportUsersArguments {
    /// The CSV file; - for stdin.
    file: PathBuf,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Change users that exist already, too.
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    output: OutputOption,
}

/// What is done with a user of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportStep {
    Add,
    Update,
    Skip,
}

/// What was done, or in a dry run would be, to whom.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ImportSummary {
    dry_run: bool,
    added: Vec<String>,
    updated: Vec<String>,
    skipped: Vec<String>,
    failed: Vec<FailedImport>,
    /// Those after an error that would have met all of them.
    not_tried: Vec<String>,
}

/// A user that could not be added or updated, or not with everything.
#[derive(Debug, Serialize)]
struct FailedImport {
    line: u64,
    username: String,
    why: String,
}

impl ImportUsersArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let users = parse(&self.text()?);
        let users = users.map_err(|problems| CliError::unusable(&self.file, &problems))?;
        let known = api.users().await?.into_iter().map(|user| user.username);
        let known: BTreeSet<String> = known.collect();
        let plan: Vec<(ImportStep, CsvUser)> = users
            .into_iter()
            .map(|user| (self.step(&user, known.contains(&user.name)), user))
            .collect();
        let problems = problems(&plan, api).await?;
        if !problems.is_empty() {
            return Err(CliError::unusable(&self.file, &problems));
        }
        let (summary, error) = match self.dry_run {
            true => (dry(&plan), None),
            false => carry_out(&plan, api, console).await,
        };
        self.output
            .write(console, &summary, |summary, _| words(summary))?;
        match error {
            Some(error) => Err(error),
            None => Ok(CliStatus::of(summary.failed.is_empty())),
        }
    }

    fn text(&self) -> Result<String, CliError> {
        document_file::read(&self.file, FILE_BYTES_MAX).map_err(|error| match error {
            CliError::Read { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                let why = "it is not in UTF-8; export it as \"CSV UTF-8\"";
                CliError::unusable(&self.file, &[why])
            }
            error => error,
        })
    }

    fn step(&self, user: &CsvUser, exists: bool) -> ImportStep {
        match (exists, self.update) {
            (false, _) => ImportStep::Add,
            (true, true) if has_changes(user) => ImportStep::Update,
            (true, _) => ImportStep::Skip,
        }
    }
}

/// What the file needs and the cluster has not.
async fn problems(plan: &[(ImportStep, CsvUser)], api: &Api) -> Result<Vec<CsvProblem>, CliError> {
    let users = || plan.iter().filter(|(step, _)| *step != ImportStep::Skip);
    let mut groups = BTreeSet::new();
    if users().any(|(_, user)| !user.groups.is_empty()) {
        groups.extend(api.groups().await?.into_iter().map(|it| it.groupname));
    }
    let mut vcs = BTreeSet::new();
    if users().any(|(_, user)| !user.vcs.is_empty()) {
        let all = api.virtual_clusters().await?;
        vcs.extend(all.into_iter().map(|it| it.name.to_string()));
    }
    let mut problems = Vec::new();
    for (step, user) in users() {
        if *step == ImportStep::Add && user.password.is_none() && user.hash.is_none() {
            problems.push(CsvProblem::no_password(user));
        }
        let missing = user.vcs.0.iter().filter(|vc| !vcs.contains(*vc));
        problems.extend(missing.map(|vc| CsvProblem::no_vc(user, vc)));
        let missing = user.groups.0.iter().filter(|it| !groups.contains(*it));
        problems.extend(missing.map(|group| CsvProblem::no_group(user, group)));
    }
    Ok(problems)
}

fn dry(plan: &[(ImportStep, CsvUser)]) -> ImportSummary {
    let mut summary = ImportSummary {
        dry_run: true,
        ..ImportSummary::default()
    };
    for (step, user) in plan {
        summary.note(*step, user);
    }
    summary
}

/// One user after the other. An error that all others would meet ends it.
async fn carry_out(
    plan: &[(ImportStep, CsvUser)],
    api: &Api,
    console: &Console,
) -> (ImportSummary, Option<CliError>) {
    let mut summary = ImportSummary::default();
    let spinner = Spinner::new("importing");
    for (done, (step, user)) in plan.iter().enumerate() {
        spinner.message(format!("{} of {}: {}", done + 1, plan.len(), user.name));
        match import_one(*step, user, api, console).await {
            Ok(step) => {
                if step == ImportStep::Skip {
                    spinner.suspend(|| console.note(skipped(user)));
                }
                summary.note(step, user);
            }
            Err(error) if is_of_all(*step, &error) => {
                let rest = plan.iter().skip(done).map(|(_, user)| user.name.clone());
                summary.not_tried = rest.collect();
                return (summary, Some(error));
            }
            Err(error) => {
                let why = explained(&error);
                spinner.suspend(|| console.note(format!("line {}: {why}", user.line)));
                summary.failed.push(FailedImport {
                    line: user.line,
                    username: user.name.clone(),
                    why,
                });
            }
        }
    }
    (summary, None)
}

fn skipped(user: &CsvUser) -> String {
    let (name, line) = (&user.name, user.line);
    match has_changes(user) {
        true => format!("line {line}: {name} exists, and was skipped; --update changes it"),
        false => format!("line {line}: {name} exists, and the file changes nothing of them"),
    }
}

/// Whether an update would change the user.
fn has_changes(user: &CsvUser) -> bool {
    !fields(user).is_empty() || !user.groups.is_empty()
}

/// Whether the next user would meet the same: nobody answers, or this user may not do it.
fn is_of_all(step: ImportStep, error: &CliError) -> bool {
    // A change may be forbidden for what it changes.
    let is_forbidden = step == ImportStep::Add && error.is_forbidden();
    is_forbidden || error.status() == CliStatus::Unreachable
}

/// Adds or updates a user. Says what was done: somebody else may have added them meanwhile.
async fn import_one(
    step: ImportStep,
    user: &CsvUser,
    api: &Api,
    console: &Console,
) -> Result<ImportStep, CliError> {
    let name = user.name.as_str();
    match step {
        ImportStep::Skip => return Ok(ImportStep::Skip),
        ImportStep::Add => {
            let body = body(user);
            match patiently(async || api.add_user(name, &body).await).await {
                Err(error) if error.is_conflict() => return Ok(ImportStep::Skip),
                added => added?,
            }
        }
        ImportStep::Update => {
            let fields = fields(user);
            if !fields.is_empty() {
                patiently(async || api.change_user(name, fields.clone()).await).await?;
            }
        }
    }
    let joins = user.groups.0.iter().cloned().map(GroupsStep::Join);
    let change = UserChange {
        steps: joins.collect(),
        ..UserChange::default()
    };
    let result = change.make(name, api, console).await;
    if result.is_err() && step == ImportStep::Add {
        console.note(format!(
            "{name} was added, but not to all groups of the file; --update tries that again"
        ));
    }
    result.map(|()| step)
}

/// Sends a request again while the agent is overloaded.
async fn patiently(send: impl AsyncFn() -> Result<(), CliError>) -> Result<(), CliError> {
    let mut tries = 1;
    loop {
        match send().await {
            Err(error) if error.is_overload() && tries < TRIES_MAX => tries += 1,
            result => return result,
        }
        sleep(TRY_PAUSE).await;
    }
}

/// A new user as the file describes one.
fn body(user: &CsvUser) -> Value {
    let mut body = json!({
        "username": user.name,
        "email": user.email.as_deref().unwrap_or_default(),
        "admin": user.admin.unwrap_or_default(),
        "virtualCluster": user.vcs.0,
        "extension": {},
    });
    match (&user.password, &user.hash) {
        (Some(password), _) => body["password"] = password.0.as_str().into(),
        (None, Some(hash)) => body["passwordHash"] = hash.0.as_str().into(),
        (None, None) => {}
    }
    body
}

/// What the file says of a user that exists.
fn fields(user: &CsvUser) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(email) = &user.email {
        fields.insert("email".to_owned(), email.as_str().into());
    }
    if let Some(password) = &user.password {
        fields.insert("password".to_owned(), password.0.as_str().into());
    }
    if let Some(admin) = user.admin {
        fields.insert("admin".to_owned(), admin.into());
    }
    if !user.vcs.is_empty() {
        fields.insert("virtualCluster".to_owned(), user.vcs.0.clone().into());
    }
    fields
}

impl ImportSummary {
    fn note(&mut self, step: ImportStep, user: &CsvUser) {
        let names = match step {
            ImportStep::Add => &mut self.added,
            ImportStep::Update => &mut self.updated,
            ImportStep::Skip => &mut self.skipped,
        };
        names.push(user.name.clone());
    }
}

/// `added 3, updated 0, skipped 1, failed 0`.
fn words(summary: &ImportSummary) -> String {
    let added = summary.added.len();
    let updated = summary.updated.len();
    let skipped = summary.skipped.len();
    if summary.dry_run {
        return format!(
            "nothing was changed; to add {added}, to update {updated}, to skip {skipped}"
        );
    }
    let failed = summary.failed.len();
    let mut text = format!("added {added}, updated {updated}, skipped {skipped}, failed {failed}");
    if !summary.not_tried.is_empty() {
        let count = summary.not_tried.len();
        text.push_str(&format!(", not tried {count}"));
    }
    text
}
