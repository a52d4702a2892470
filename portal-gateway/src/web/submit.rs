//! The page to submit a job: its text, and what is wrong with it as it is written.

use maud::{Markup, html};
use muster_model::protocol::{self, JobValidation, remarks};
use muster_model::remark::Remark;
use serde_json::Value;

use super::frame::{self, PortalPage, Section};
use super::{form, job_list, template};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Jobs, Membership, PortError};
use crate::reply::{HandlerResult, HttpReply};

/// `GET /submit?template=NAME` or `?clone=USER~JOB`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    membership: &dyn Membership,
) -> HandlerResult {
    let text = match call.query.text("clone") {
        Some(name) => clone(&call, jobs, name).await?,
        None => {
            let name = call.query.text("template").unwrap_or_default();
            template::of(name).text.to_owned()
        }
    };
    let judged = judged(&protocol::verdict(&text));
    Ok(shown(&call, &text, &judged, membership))
}

/// `POST /submit`: `action` is `check` or `submit`
pub(crate) async fn send(
    mut call: Call,
    jobs: &dyn Jobs,
    membership: &dyn Membership,
) -> HandlerResult {
    let limit = call.config.limits.job_bytes;
    let fields = form::read_up_to(&mut call, limit).await?;
    // Browsers send each line of a text with a carriage return.
    let text = fields.text("job").unwrap_or_default().replace("\r\n", "\n");
    match fields.text("action") {
        Some("check") => {
            let judged = judged(&protocol::verdict(&text));
            Ok(shown(&call, &text, &judged, membership))
        }
        Some("submit") => match jobs.submit(call.caller()?, &text).await {
            Ok(accepted) => Ok(frame::see(&job_list::job_path(&accepted.key))),
            Err(error) => {
                let error = ApiError::from(error);
                let status = error.code().0;
                if !status.is_client_error() {
                    return Err(error);
                }
                let refused = refused(&error);
                Ok(shown(&call, &text, &refused, membership).with_status(status))
            }
        },
        _ => Err(ApiError::Parameters(
            "action must be check or submit".to_owned(),
        )),
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
        @if verdict.valid { p.good { "The job is valid." } }
        (list(&verdict.errors, "bad"))
        (list(&verdict.warnings, "warn"))
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
    html! { p.bad role="alert" { strong { "The job was not accepted." } } (list(&found, "bad")) }
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

fn shown(call: &Call, text: &str, judged: &Markup, membership: &dyn Membership) -> HttpReply {
    let body = html! {
        h1 { "Submit a job" }
        form.two method="post" action="/submit" data-check="#judged" {
            (frame::key_field(call))
            div.card {
                label for="job" { "The job in YAML" }
                textarea #job name="job" spellcheck="false" autocapitalize="none" autocomplete="off" {
                    // A browser drops the first line break of a text.
                    "\n" (text)
                }
                div.row {
                    button.main name="action" value="submit" { "Submit" }
                    button name="action" value="check" { "Check" }
                }
            }
            div {
                section #judged.card aria-live="polite" { (judged) }
                section.card {
                    h2 { "Start from" }
                    ul { @for one in template::TEMPLATES {
                        li { a href={ "/submit?template=" (one.name) } { (one.title) } }
                    } }
                    p.dim { "A job of yours is a start too: its page has a link to submit it again." }
                }
            }
        }
    };
    let page = PortalPage {
        section: Section::Submit,
        title: "Submit a job".to_owned(),
        refresh_s: None,
        body,
    };
    page.reply(call, &membership.node_name())
}
