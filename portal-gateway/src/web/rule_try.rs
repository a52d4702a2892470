//! Failure rules tried on a log that a user pastes: what a node would say of such an end.

use http::StatusCode;
use maud::{Markup, html};
use muster_model::exit::{TriedEnd, Verdict};

use super::frame::{self, PortalPage, Section};
use super::{explained, form as forms};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Documents, Membership, PortError};
use crate::query::Query;
use crate::reply::HandlerResult;

/// The document that can be tried.
pub(super) const RULES: &str = "failure-rules";

/// `POST /documents/failure-rules/try`: what the rules in force say of an end
pub(crate) async fn page(
    mut call: Call,
    documents: &dyn Documents,
    membership: &dyn Membership,
) -> HandlerResult {
    let limit = call.config.limits.document_bytes;
    let fields = forms::read_up_to(&mut call, limit).await?;
    let name = call.params.text("document");
    if name != RULES {
        return Err(PortError::NoDocument(format!("{name}/try")).into());
    }
    let end = end(&fields)?;
    let verdict = documents.try_rules(None, &end).await?;
    let body = html! {
        h1 { "Try the failure rules" }
        p { a href={ "/documents/" (RULES) } { "The rules in force" } }
        (answer(&verdict))
        (form(&call, &end))
    };
    let page = PortalPage {
        section: Section::Settings,
        title: "Try the failure rules".to_owned(),
        refresh_s: None,
        body,
    };
    let reply = page.reply(&call, &membership.node_name());
    Ok(reply.with_status(StatusCode::OK))
}

/// The end that a form tells of.
///
/// # Errors
/// When it names no exit code.
pub(super) fn end(fields: &Query) -> Result<TriedEnd, ApiError> {
    let code = fields.text("exit_code").unwrap_or_default().trim();
    let rule =
        || ApiError::Parameters("exit_code must be a whole number, such as 1 or 137".to_owned());
    let text = |name: &str| fields.text(name).unwrap_or_default().replace("\r\n", "\n");
    Ok(TriedEnd {
        exit_code: code.parse().map_err(|_| rule())?,
        oom_killed: fields.has("oom_killed"),
        user_log: text("user_log"),
        platform_log: text("platform_log"),
    })
}

/// A form that asks what the rules in force say.
pub(super) fn form(call: &Call, end: &TriedEnd) -> Markup {
    html! {
        form.card method="post" action={ "/documents/" (RULES) "/try" } {
            (frame::key_field(call))
            h2 { "Try them on a log" }
            (inputs(end))
            div.row { button.main { "What do the rules say?" } }
        }
    }
}

/// The fields that tell of an end.
pub(super) fn inputs(end: &TriedEnd) -> Markup {
    html! {
        div.row.fields {
            div { label for="exit_code" { "Exit code of the command" }
                input #exit_code name="exit_code" type="number" value=(if *end == TriedEnd::default() { 1 } else { end.exit_code }); }
            label { input type="checkbox" name="oom_killed" checked[end.oom_killed]; " it was killed at its memory limit" }
        }
        label for="user_log" { "The end of the task's log" }
        textarea.short #user_log name="user_log" spellcheck="false" autocapitalize="none" autocomplete="off" { "\n" (end.user_log) }
        label for="platform_log" { "The end of the platform's log, if you have one" }
        textarea.short #platform_log name="platform_log" spellcheck="false" autocapitalize="none" autocomplete="off" { "\n" (end.platform_log) }
    }
}

/// What the rules say.
pub(super) fn answer(verdict: &Verdict) -> Markup {
    let found = verdict.matched_user_log.is_some() || verdict.matched_platform_log.is_some();
    html! {
        div role="status" {
            @if !found { p.warn { "No line of the logs led to this: it is said of the exit code alone." } }
            (explained::verdict(verdict, None, None))
        }
    }
}
