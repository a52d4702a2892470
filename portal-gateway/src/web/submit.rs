//! The page to submit a job: a form and its text in step, what is wrong with it as it is written, and what it
//! would take.
//!
//! Whatever a button does, what was changed in the form goes into the text before. The page comes back with the
//! form as the text has it then. A script presses the button `check` while the user writes.

use std::collections::BTreeSet;

use http::StatusCode;
use maud::{Markup, html};
use muster_model::protocol::{self, EditedJob, JobForm, JobProblem, JobValidation, remarks};
use muster_model::remark::Remark;
use serde_json::Value;

use super::frame::{self, PortalPage, Section};
use super::{forecast, form, image_names, job_form, job_list, template};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Jobs, Membership, Nodes, PortError, Users};
use crate::query::Query;
use crate::reply::{HandlerResult, HttpReply};

/// The field that a script adds.
const SCRIPTED: &str = "scripted";
/// Before the name of a role in the value of the button that removes it.
const REMOVE_ROLE: &str = "remove-role:";

/// The ports that say what the page is about.
#[derive(Clone, Copy)]
struct PageSources<'a> {
    jobs: &'a dyn Jobs,
    nodes: &'a dyn Nodes,
    users: &'a dyn Users,
    membership: &'a dyn Membership,
}

/// `GET /submit?template=NAME` or `?clone=USER~JOB`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    users: &dyn Users,
    membership: &dyn Membership,
) -> HandlerResult {
    let text = match call.query.text("clone") {
        Some(name) => clone(&call, jobs, name).await?,
        None => {
            let name = call.query.text("template").unwrap_or_default();
            template::of(name).text.to_owned()
        }
    };
    let sources = PageSources {
        jobs,
        nodes,
        users,
        membership,
    };
    let judged = judged(&protocol::verdict(&text));
    shown(&call, SubmitDraft::of(text), judged, sources).await
}

/// `POST /submit`: `action` is `check`, `forecast`, `submit`, `add-role`, or `remove-role:` with a role
pub(crate) async fn send(
    mut call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    users: &dyn Users,
    membership: &dyn Membership,
) -> HandlerResult {
    let sources = PageSources {
        jobs,
        nodes,
        users,
        membership,
    };
    // The form says again what the text says, and once more what it was shown with.
    let limit = call.config.limits.job_bytes.saturating_mul(3);
    let fields = form::read_up_to(&mut call, limit).await?;
    // Browsers send each line of a text with a carriage return.
    let text = fields.text("job").unwrap_or_default().replace("\r\n", "\n");
    let mut draft = SubmitDraft::with_form(text, &fields);
    let action = fields.text("action").unwrap_or_default();
    match action {
        "check" => {}
        "forecast" => {
            let sight = call.sight(jobs)?;
            let told = jobs.forecast(call.caller()?, &sight, &draft.text).await;
            return match told {
                Ok(told) => {
                    let card = forecast::card(&told, frame::now_ms());
                    let card = html! { (judged(&protocol::verdict(&draft.text))) (card) };
                    shown(&call, draft, card, sources).await
                }
                Err(error) => not_accepted(&call, draft, error.into(), sources).await,
            };
        }
        "submit" => {
            return match jobs.submit(call.caller()?, &draft.text).await {
                Ok(accepted) => Ok(frame::see(&job_list::job_path(&accepted.key))),
                Err(error) => not_accepted(&call, draft, error.into(), sources).await,
            };
        }
        "add-role" => draft.add_role(fields.text("new_role").unwrap_or_default().trim()),
        _ => match action.strip_prefix(REMOVE_ROLE) {
            Some(role) => draft.take(JobForm::without_role(role, &draft.text)),
            None => {
                let rule = "action must be check, forecast, submit, add-role or remove-role";
                return Err(ApiError::Parameters(rule.to_owned()));
            }
        },
    }
    let judged = judged(&protocol::verdict(&draft.text));
    shown(&call, draft, judged, sources).await
}

/// The page with why the job is not taken as it is.
async fn not_accepted(
    call: &Call,
    draft: SubmitDraft,
    error: ApiError,
    sources: PageSources<'_>,
) -> HandlerResult {
    let status = error.code().0;
    if !status.is_client_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(error);
    }
    let page = shown(call, draft, refused(&error), sources).await?;
    Ok(page.with_status(status))
}

/// A job that is being written.
struct SubmitDraft {
    text: String,
    /// What came back of the form, where it could not be written into the text.
    left: Option<job_form::ReturnedForm>,
    /// What is to be told of that.
    notes: Vec<String>,
    /// Whether a script asks while the user writes: it takes no suggestions from the answer.
    is_scripted: bool,
}

impl SubmitDraft {
    const fn of(text: String) -> Self {
        Self {
            text,
            left: None,
            notes: Vec::new(),
            is_scripted: false,
        }
    }

    /// The text with what was changed in the form.
    fn with_form(text: String, fields: &Query) -> Self {
        let mut draft = Self::of(text);
        draft.is_scripted = fields.has(SCRIPTED);
        let Some(form) = job_form::returned(fields) else {
            return draft;
        };
        if form.filled == form.shown {
            return draft;
        }
        match form.filled.applied(&form.shown, &draft.text) {
            Ok(edited) => draft.put(edited),
            Err(_) => {
                let note = "The form waits: the YAML cannot be read. Mend it first; the form is written into it then.";
                draft.notes.push(note.to_owned());
                draft.left = Some(form);
            }
        }
        draft
    }

    fn put(&mut self, edited: EditedJob) {
        self.text = edited.text;
        match edited.comments_lost {
            0 => {}
            1 => self.notes.push(
                "A comment of the YAML could not be kept: a part was written anew.".to_owned(),
            ),
            lost => self.notes.push(format!(
                "{lost} comments of the YAML could not be kept: a part was written anew."
            )),
        }
    }

    fn take(&mut self, edited: Result<EditedJob, JobProblem>) {
        match edited {
            Ok(edited) => self.put(edited),
            Err(problem) => self.notes.push(problem.message),
        }
    }

    fn add_role(&mut self, name: &str) {
        match name {
            "" => self
                .notes
                .push("Name the task role that is to be added.".to_owned()),
            name => self.take(JobForm::with_role(name, &self.text)),
        }
    }
}

/// The text of a job under a new name. Values of secrets are not part of it.
async fn clone(call: &Call, jobs: &dyn Jobs, name: &str) -> Result<String, ApiError> {
    let key = job_list::named(name)?;
    let mut config = jobs.config(&call.sight(jobs)?, &key).await?.value;
    let has_secrets = config.get("secrets").is_some_and(|it| !it.is_null());
    if let Some(name) = config.get_mut("name") {
        *name = Value::from(format!("{}-again", key.name));
    }
    let text = protocol::document_yaml(&config).map_err(ApiError::Answer)?;
    Ok(match has_secrets {
        true => format!("# Write the values of the secrets again: they are never shown.\n{text}"),
        false => text,
    })
}

/// What is wrong with a text, or that nothing is.
fn judged(verdict: &JobValidation) -> Markup {
    html! {
        section.card {
            @if verdict.valid { p.good { "The job is valid." } }
            (list(&verdict.errors, "bad"))
            (list(&verdict.warnings, "warn"))
        }
    }
}

/// Why a job was not accepted.
fn refused(error: &ApiError) -> Markup {
    let found = match error {
        ApiError::Cluster(PortError::InvalidJob(found) | PortError::NoStorage(found)) => {
            remarks(found)
        }
        _ => vec![Remark::at("", error.to_string())],
    };
    html! {
        section.card.bad role="alert" {
            p.bad { strong { "The job is not accepted." } }
            (list(&found, "bad"))
        }
    }
}

fn list(remarks: &[Remark], class: &str) -> Markup {
    html! {
        @if !remarks.is_empty() {
            ul.plain { @for remark in remarks {
                li class=(class) { @if !remark.path.is_empty() { code { (remark.path) } " " } (remark.message) }
            } }
        }
    }
}

/// The virtual clusters that the user may use. Where no leader says which there are, their groups do.
async fn own_vcs(call: &Call, sources: PageSources<'_>) -> Result<Vec<String>, ApiError> {
    let caller = call.caller()?;
    let own = sources.users.user(caller.user.as_str()).await;
    let own = own.map(|user| user.vcs).unwrap_or_default();
    let own: BTreeSet<String> = own.iter().map(ToString::to_string).collect();
    let Ok(all) = sources.nodes.virtual_clusters().await else {
        return Ok(own.into_iter().collect());
    };
    let all = all.iter().map(|vc| vc.name.to_string());
    Ok(all.filter(|vc| caller.admin || own.contains(vc)).collect())
}

async fn shown(
    call: &Call,
    draft: SubmitDraft,
    judged: Markup,
    sources: PageSources<'_>,
) -> HandlerResult {
    let vcs = own_vcs(call, sources).await?;
    let fields = match (&draft.left, JobForm::read(&draft.text)) {
        (Some(form), _) => job_form::fields(&form.shown, &form.filled, &vcs),
        (None, Ok(form)) => job_form::fields(&form, &form, &vcs),
        (None, Err(_)) => html! {
            p.warn { "The form is here again when the YAML can be read." }
        },
    };
    let images = match draft.is_scripted {
        true => html! {},
        false => image_names::list(call, (sources.jobs, sources.nodes), &vcs).await,
    };
    let notes = html! {
        @if !draft.notes.is_empty() {
            section.card.warn role="status" { @for note in &draft.notes { p { (note) } } }
        }
    };
    Ok(written(
        call,
        (&draft.text, &fields, &images),
        &html! { (notes) (judged) },
        sources,
    ))
}

fn written(
    call: &Call,
    (text, fields, images): (&str, &Markup, &Markup),
    judged: &Markup,
    sources: PageSources<'_>,
) -> HttpReply {
    let body = html! {
        h1 { "Submit a job" }
        nav.card aria-label="Templates" {
            h2 { "Start from" }
            div.row { @for one in template::TEMPLATES {
                a.button href={ "/submit?template=" (one.name) } { (one.title) }
            } }
            p.dim { "A job of yours is a start too: its page has a link to submit it again." }
        }
        form.half method="post" action="/submit" data-check="#judged" {
            (frame::key_field(call))
            // The first button of a form is pressed by the key Enter: it is to submit nothing.
            button.unseen name="action" value="check" tabindex="-1" aria-hidden="true" { "Check" }
            section.card aria-label="Form" {
                h2 { "Form" }
                div #fields { (fields) }
                (images)
                div.row {
                    button name="action" value="check" { "Apply to the YAML" }
                    button.main name="action" value="submit" { "Submit" }
                }
            }
            div {
                section.card aria-label="YAML" {
                    label for="job" { "The job in YAML" }
                    textarea #job name="job" spellcheck="false" autocapitalize="none" autocomplete="off" {
                        // A browser drops the first line break of a text.
                        "\n" (text)
                    }
                    div.row {
                        button.main name="action" value="submit" { "Submit" }
                        button name="action" value="forecast" { "What would it take?" }
                        button name="action" value="check" { "Check" }
                    }
                }
                div #judged aria-live="polite" { (judged) }
            }
        }
    };
    let page = PortalPage {
        section: Section::Submit,
        title: "Submit a job".to_owned(),
        refresh_s: None,
        body,
    };
    page.reply(call, &sources.membership.node_name())
}
