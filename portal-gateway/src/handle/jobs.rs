//! One job: submit, look, change.

use http::StatusCode;
use muster_model::id::JobKey;
use muster_model::protocol;
use muster_model::remark::Remark;
use muster_model::state::ExecutionType;
use muster_model::view::Dated;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::clock;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::port::{self, AcceptedSubmission, Caller, Jobs};
use crate::reply::{HandlerResult, HttpReply};
use crate::wire::event;
use crate::wire::job::Detail;

const ACCEPTED: StatusCode = StatusCode::ACCEPTED;

/// `POST /jobs`: YAML, whatever the content type calls it
pub(crate) async fn submit(mut call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let body = call.read(call.config.limits.job_bytes).await?;
    let yaml = protocol::text_of(&body);
    let yaml = yaml.map_err(|problem| port::PortError::InvalidJob(vec![problem]))?;
    let caller = own_path(&call)?;
    let AcceptedSubmission { key, warnings } = jobs.submit(caller, yaml).await?;
    let JobKey { user, name } = key;
    let body = JobMessage {
        status: ACCEPTED.as_u16(),
        message: format!("Update job {name} for user {user} successfully."),
        warnings,
    };
    Ok(HttpReply::json(&body)?.with_status(ACCEPTED))
}

/// What was done of a job.
#[derive(Serialize, JsonSchema)]
struct JobMessage {
    /// The status of the answer, once more.
    status: u16,
    message: String,
    /// Beyond OpenPAI: what of the job is not carried out, or not as it reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Remark>,
}

impl JobMessage {
    const fn new(status: StatusCode, message: String) -> Self {
        Self {
            status: status.as_u16(),
            message,
            warnings: Vec::new(),
        }
    }
}

/// The caller. Where the path names a user, as version 1 did, it must be them: a job belongs to
/// whom the token names, and never silently to another than the path says.
fn own_path(call: &Call) -> Result<&Caller, ApiError> {
    let caller = call.caller()?;
    let user = call.params.text("user");
    if user.is_empty() || user == caller.user.as_str() {
        return Ok(caller);
    }
    Err(ApiError::NotOwner {
        user: caller.user.to_string(),
        what: format!("jobs of {user}"),
    })
}

fn accepted(message: String) -> HandlerResult {
    let body = JobMessage::new(ACCEPTED, message);
    Ok(HttpReply::json(&body)?.with_status(ACCEPTED))
}

fn done(message: String) -> HandlerResult {
    HttpReply::json(&JobMessage::new(StatusCode::OK, message))
}

/// `GET /jobs/:job`, `GET /jobs/:job/attempts/:attempt`
pub(crate) async fn detail(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    // Like upstream, what is no number means the latest attempt.
    let attempt = call.params.text("attempt").parse().ok();
    let Dated { value, age } = jobs.job(&call.sight(jobs)?, &key, attempt).await?;
    Ok(HttpReply::json(&Detail::of(&value))?.aged(&age).tagged())
}

/// `GET /jobs/:job/config`
pub(crate) async fn config(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let Dated { value, age } = jobs.config(&call.sight(jobs)?, &key).await?;
    Ok(HttpReply::json_as_yaml(&value).aged(&age).tagged())
}

/// `PUT /jobs/:job/executionType`
pub(crate) async fn execution_type(mut call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let mut fields = call.fields().await?;
    let text = fields.text("value");
    let value = match text.as_str() {
        "START" => ExecutionType::Start,
        "STOP" | "" => ExecutionType::Stop,
        _ => {
            fields.wrong("value", "must be one of [START, STOP]");
            ExecutionType::Stop
        }
    };
    fields.finish()?;
    call.check_owner(&key, jobs).await?;
    jobs.set_execution_type(&key, value).await?;
    accepted(format!("Execute job {key} successfully."))
}

/// `PUT /jobs/:job/tag`
pub(crate) async fn add_tag(mut call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let tag = new_tag(call.fields().await?)?;
    call.check_owner(&key, jobs).await?;
    jobs.add_tag(&key, &tag).await?;
    done(format!("Add tag {tag} for job {key} successfully."))
}

/// `DELETE /jobs/:job/tag`, with a body
pub(crate) async fn remove_tag(mut call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let tag = tag(call.fields().await?)?;
    call.check_owner(&key, jobs).await?;
    jobs.remove_tag(&key, &tag).await?;
    done(format!("Delete tag {tag} from job {key} successfully."))
}

/// Longest tag, in bytes.
const TAG_BYTES_MAX: usize = 255;

/// A tag that a form of a page names, by the rules of the REST API.
pub(crate) fn checked_tag(tag: &str) -> Result<String, ApiError> {
    let field = [("value".to_owned(), serde_json::Value::from(tag))];
    new_tag(Fields::of(field.into_iter().collect()))
}

/// Tags are shown in lines.
fn new_tag(fields: Fields) -> Result<String, ApiError> {
    let tag = tag(fields)?;
    if tag.chars().any(char::is_control) {
        let rule = "child \"value\" fails because [\"value\" must not contain control characters, \
                    such as line breaks]";
        return Err(ApiError::Parameters(rule.to_owned()));
    }
    Ok(tag)
}

/// A tag goes into comma lists.
fn tag(mut fields: Fields) -> Result<String, ApiError> {
    let tag = fields.text("value");
    if tag.contains(',') {
        fields.wrong("value", "must not contain a comma");
    }
    if tag.len() > TAG_BYTES_MAX {
        fields.wrong("value", "must be at most 255 bytes long");
    }
    fields.finish()?;
    Ok(tag)
}

/// What happened to a job, and why it waits, the latest first.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JobEvents {
    total_count: usize,
    data: Vec<event::WireEvent>,
}

/// `GET /jobs/:job/events`
pub(crate) async fn events(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let key = call.job_key()?;
    let warning = match call.query.text("type") {
        None => None,
        Some("Warning") => Some(true),
        Some("Normal") => Some(false),
        Some(_) => {
            let rule = "type must be Normal or Warning";
            return Err(ApiError::Parameters(rule.to_owned()));
        }
    };
    let Dated {
        value: mut events,
        age,
    } = jobs.events(&call.sight(jobs)?, &key).await?;
    let summary = jobs
        .job(&call.sight(jobs)?, &key, None)
        .await?
        .value
        .summary;
    events.extend(event::waiting(
        &summary,
        clock::now_s().saturating_mul(1000),
    ));
    events.retain(|event| warning.is_none_or(|warning| event.warning == warning));
    events.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.uid.cmp(&b.uid)));
    let data: Vec<event::WireEvent> = events
        .iter()
        .map(|event| event::WireEvent::of(&key, event))
        .collect();
    let events = JobEvents {
        total_count: data.len(),
        data,
    };
    Ok(HttpReply::json(&events)?.aged(&age))
}

/// `GET /jobs/:job/ssh`: upstream took it away and still names the route
pub(crate) async fn ssh(call: Call, jobs: &dyn Jobs) -> HandlerResult {
    let sight = call.sight(jobs)?;
    if let Ok(key) = call.job_key()
        && let Err(hidden @ port::PortError::Hidden(_)) = jobs.job(&sight, &key, None).await
    {
        return Err(hidden.into());
    }
    Err(ApiError::NoSsh(call.params.text("job").to_owned()))
}

/// What `/openapi.json` tells of these routes.
pub(crate) mod about {
    use schemars::JsonSchema;

    use super::{ACCEPTED, ApiError, Detail, ExecutionType, JobEvents, JobMessage, StatusCode};
    use crate::openapi::{FreeObject, JSON, RouteDoc, YAML, any, body_fields};
    use crate::port::PortError;

    body_fields! {
        ExecutionField {
            value: ExecutionType,
        }
        TagField {
            /// Of at most 255 bytes, without commas.
            value: String,
        }
    }

    pub(crate) fn submit() -> RouteDoc {
        RouteDoc::new("Submits a job.")
            .body::<FreeObject>(YAML)
            .of_owner()
            .checks_parameters()
            .fails([
                PortError::InvalidJob(Vec::new()),
                PortError::NoStorage(Vec::new()),
                PortError::JobExists {
                    job: any(),
                    same: None,
                },
                PortError::Forbidden(any()),
                PortError::NoVc(any()),
            ])
            .answer::<JobMessage>(ACCEPTED, JSON)
    }

    pub(crate) fn detail() -> RouteDoc {
        RouteDoc::new("Shows a job, with its tasks.")
            .of_job()
            .fails([PortError::NoAttempt {
                job: any(),
                attempt: 0,
            }])
            .json::<Detail>()
            .tagged()
    }

    pub(crate) fn config() -> RouteDoc {
        RouteDoc::new(
            "Shows a job as it was submitted, without its secrets: JSON, which is YAML too.",
        )
        .of_job()
        .answer::<FreeObject>(StatusCode::OK, YAML)
        .tagged()
    }

    pub(crate) fn execution_type() -> RouteDoc {
        RouteDoc::new("Stops a job, or asks for it to be started.")
            .of_job()
            .of_owner()
            .fields::<ExecutionField>()
            .changes_cluster()
            .answer::<JobMessage>(ACCEPTED, JSON)
    }

    pub(crate) fn add_tag() -> RouteDoc {
        RouteDoc::new("Tags a job.")
            .of_job()
            .of_owner()
            .fields::<TagField>()
            .changes_cluster()
            .json::<JobMessage>()
    }

    pub(crate) fn remove_tag() -> RouteDoc {
        RouteDoc::new("Takes a tag off a job.")
            .of_job()
            .of_owner()
            .fields::<TagField>()
            .changes_cluster()
            .fails([PortError::NoTag(any())])
            .json::<JobMessage>()
    }

    /// Kinds of events.
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "a word of the query")]
    enum EventType {
        Normal,
        Warning,
    }

    pub(crate) fn events() -> RouteDoc {
        RouteDoc::new("Lists what happened to a job, the latest first.")
            .of_job()
            .query::<EventType>("type", "Only such events.")
            .checks_parameters()
            .json::<JobEvents>()
    }

    pub(crate) fn ssh() -> RouteDoc {
        RouteDoc::new("Would tell how to reach a job by SSH: OpenPAI took this away, and there is never anything.")
            .of_job()
            .fails([ApiError::NoSsh(any())])
    }
}
