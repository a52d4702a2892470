//! The pages of the cluster's documents: failure rules, virtual clusters, policy, storages.

use http::StatusCode;
use maud::{Markup, html};
use muster_model::exit::TriedEnd;
use muster_model::mesh::{
    ActivationStage, DocumentText, DocumentVersion, DocumentView, VersionView,
};
use muster_model::storage::STORAGES_DOCUMENT;
use muster_model::vc::WhatIf;

use super::frame::{self, PortalPage, Section};
use super::{difference, form, job_list, moment, rollout, rule_try};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{Documents, EditedText, Membership, Nodes, PortError};
use crate::query::Query;
use crate::reply::{HandlerResult, HttpReply};

/// The document of which the cluster can say what an edit would do.
const DESCRIPTION: &str = "virtual-clusters";
/// How soon the page of a version on its way is renewed.
const REFRESH_S: u32 = 2;
/// Names of jobs that an answer lists at most.
const NAMED_MAX: usize = 20;

/// `GET /documents`
pub(crate) async fn list(
    call: Call,
    documents: &dyn Documents,
    membership: &dyn Membership,
) -> HandlerResult {
    let all = documents.list().await?;
    let now = frame::now_ms();
    let body = html! {
        h1 { "Settings" }
        p { "Texts that all nodes agree on. An edit is checked by every node, tried on a few, and then in force on all." }
        section.card { div.wide tabindex="0" role="region" aria-label="Documents" { table {
            thead { tr { th { "Document" } th { "Version" } th { "How far it is" } th { "By" } th { "Edited" } } }
            tbody { @for one in &all { tr {
                td.name { a href={ "/documents/" (one.name) } { (one.name) } }
                td { (one.newest.version) }
                td { (stage(one)) }
                td { (one.newest.author) }
                td { @if one.newest.version > 0 { (moment::at(one.newest.at_ms, now)) } }
            } } }
        } } }
    };
    let page = PortalPage::live(Section::Settings, "Settings", body);
    Ok(page.reply(&call, &membership.node_name()))
}

/// `GET /documents/:document?version=`, or `?compare=A..B` for what differs between two versions
pub(crate) async fn page(
    call: Call,
    documents: &dyn Documents,
    membership: &dyn Membership,
) -> HandlerResult {
    let version = call.number("version")?;
    let name = call.params.text("document");
    check_secret(&call, name)?;
    if let Some(compared) = call.query.text("compare") {
        let versions = difference::versions(compared)?;
        return difference::page(&call, documents, membership, versions).await;
    }
    let text = match version {
        None => newest_text(documents, name).await?,
        _ => documents.text(name, version).await?,
    };
    let edit = DocumentEdit {
        base: newest(documents, name).await?.newest.version,
        text: text.text.clone(),
        tried: TriedEnd::default(),
        told: html! {},
        status: StatusCode::OK,
    };
    shown(&call, documents, (&text, &edit), membership).await
}

/// `POST /documents/:document`: `action` is `check`, `compare`, `try`, `save` or `rollback`
pub(crate) async fn change(
    mut call: Call,
    documents: &dyn Documents,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let limit = call.config.limits.document_bytes;
    let fields = form::read_up_to(&mut call, limit).await?;
    let name = call.params.text("document").to_owned();
    let number =
        |field: &str| {
            fields.number(field).ok().flatten().ok_or_else(|| {
                ApiError::Parameters(format!("{field} must be the number of a version"))
            })
        };
    let text = fields
        .text("text")
        .unwrap_or_default()
        .replace("\r\n", "\n");
    let (told, status) = match fields.text("action") {
        Some("rollback") => {
            let version = number("version")?;
            documents.rollback(call.caller()?, &name, version).await?;
            return Ok(frame::see(&format!("/documents/{name}")));
        }
        Some("save") => {
            let base = number("base")?;
            let edit = EditedText {
                base,
                text: text.clone(),
                now: fields.has("now"),
            };
            match documents.edit(call.caller()?, &name, edit).await {
                Ok(_) => return Ok(frame::see(&format!("/documents/{name}"))),
                Err(error) => refused(error)?,
            }
        }
        _ => told_of(documents, nodes, (&name, &text), &fields).await?,
    };
    let tried = match fields.text("action") {
        Some("try") => rule_try::end(&fields)?,
        _ => TriedEnd::default(),
    };
    let newest = newest_text(documents, &name).await?;
    let edit = DocumentEdit {
        base: number("base")?,
        text,
        tried,
        told,
        status,
    };
    shown(&call, documents, (&newest, &edit), membership).await
}

/// What is to be said of a text that is not saved.
async fn told_of(
    documents: &dyn Documents,
    nodes: &dyn Nodes,
    (name, text): (&str, &str),
    fields: &Query,
) -> Result<(Markup, StatusCode), ApiError> {
    let told = match fields.text("action") {
        Some("check") if name == DESCRIPTION => match nodes.what_if(text).await {
            Ok(found) => effects(&found),
            Err(error) => return refused(error),
        },
        Some("compare") => {
            let newest = newest_text(documents, name).await?;
            let title = format!("What would change from version {}", newest.version);
            difference::card(&title, &newest.text, text)
        }
        Some("try") if name == rule_try::RULES => {
            let end = rule_try::end(fields)?;
            match documents.try_rules(Some(text), &end).await {
                Ok(verdict) => rule_try::answer(&verdict),
                Err(error) => return refused(error),
            }
        }
        _ => {
            return Err(ApiError::Parameters(
                "action must be save, compare, rollback, for virtual-clusters check, or for failure-rules try"
                    .to_owned(),
            ));
        }
    };
    Ok((told, StatusCode::OK))
}

/// An edit as it stands in the form.
struct DocumentEdit {
    /// The version that it was begun from.
    base: u64,
    text: String,
    /// The end that the rules are tried on.
    tried: TriedEnd,
    /// What is to be said of it.
    told: Markup,
    status: StatusCode,
}

fn check_secret(call: &Call, name: &str) -> Result<(), ApiError> {
    match name == STORAGES_DOCUMENT && !call.caller()?.admin {
        true => Err(ApiError::SecretDocument(name.to_owned())),
        false => Ok(()),
    }
}

/// The newest version's text: what an edit would replace.
async fn newest_text(documents: &dyn Documents, name: &str) -> Result<DocumentText, ApiError> {
    let version = newest(documents, name).await?.newest.version;
    // Nobody has edited it yet: the shipped text is no version that can be asked for.
    let version = (version > 0).then_some(version);
    Ok(documents.text(name, version).await?)
}

async fn newest(documents: &dyn Documents, name: &str) -> Result<DocumentView, ApiError> {
    let all = documents.list().await?;
    let found = all.into_iter().find(|one| one.name == name);
    Ok(found.ok_or_else(|| PortError::NoDocument(name.to_owned()))?)
}

/// Why an edit was not taken, if that is the fault of the edit.
fn refused(error: PortError) -> Result<(Markup, StatusCode), ApiError> {
    let problems = match &error {
        PortError::InvalidDocument(problems) => problems.clone(),
        PortError::DocumentConflict { .. } | PortError::NotNow(_) => vec![error.to_string()],
        _ => return Err(error.into()),
    };
    let status = ApiError::from(error).code().0;
    let told = html! {
        div.card.bad role="alert" {
            p { strong { "Nothing was changed." } }
            ul { @for problem in &problems { li { (problem) } } }
        }
    };
    Ok((told, status))
}

/// What an edit of the virtual clusters would do.
fn effects(found: &WhatIf) -> Markup {
    let jobs = |title: &str, keys: &std::collections::BTreeSet<muster_model::id::JobKey>| {
        html! { @if !keys.is_empty() { p { (title) ": "
        @for key in keys.iter().take(NAMED_MAX) { (job_list::link(key)) " " }
        @if keys.len() > NAMED_MAX { "and " (keys.len() - NAMED_MAX) " more" } } } }
    };
    let lines = |title: &str, texts: &[String]| {
        html! { @if !texts.is_empty() { p { (title) ": " (texts.join("; ")) } } }
    };
    let impossible = found.impossible.iter();
    let impossible: Vec<_> = impossible
        .map(|one| format!("{} ({})", one.job, one.why))
        .collect();
    let unnamed: Vec<_> = found.unnamed.iter().map(ToString::to_string).collect();
    let is_free = *found == WhatIf::default();
    html! {
        div class=(if is_free { "card" } else { "card warn" }) role="status" {
            h2 { "What this edit would do" }
            @if is_free { p.good { "No job would lose anything, and nothing is promised that is not there." } }
            (jobs("These jobs would no longer run on what their virtual cluster is promised", &found.lose_quota))
            (jobs("These jobs run on devices that would be there no more", &found.lose_devices))
            (lines("These jobs wait and could never run", &impossible))
            (lines("Machines that are not there", &found.absent))
            (lines("More is promised than there is", &found.too_many))
            (lines("Nodes that nothing would be placed on", &unnamed))
            @for (vc, why) in &found.unheard { p { "Of " (vc.as_str()) " it is not known what its jobs would lose: " (why) } }
        }
    }
}

/// How far the newest version is.
fn stage(view: &DocumentView) -> Markup {
    let (version, coverage) = (view.newest.version, &view.coverage);
    let nodes = if coverage.members == 1 {
        "node"
    } else {
        "nodes"
    };
    let of = |count: u32| format!("{count} of {} {nodes}", coverage.members);
    html! {
        @match &view.newest.stage {
            _ if version == 0 => { "As shipped with the nodes" }
            ActivationStage::Distribute => { "Version " (version) " is being checked: " (of(coverage.valid)) " found it valid" }
            ActivationStage::Canary { .. } => { "Version " (version) " is being tried: in force on " (of(coverage.active)) }
            ActivationStage::Active => { "Version " (version) " is in force on " (of(coverage.active)) }
            ActivationStage::Withdrawn { reason } => { span.bad { "Version " (version) " was withdrawn" }
                @if !reason.is_empty() { ": " (reason) } }
        }
        @if !coverage.unreachable.is_empty() { div.warn { "Not reachable: " (coverage.unreachable.join(", ")) } }
        @if !coverage.rejected.is_empty() { div.bad { "Rejected by: " (rejected_by(view)) } }
        @if !view.here.problem.is_empty() { div.bad { (view.here.problem) } }
    }
}

fn rejected_by(view: &DocumentView) -> String {
    let names = view.coverage.rejected.iter().map(|one| one.member.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Whether its newest version is on its way to nodes.
fn is_on_its_way(view: &DocumentView) -> bool {
    let is_over = match view.newest.stage {
        ActivationStage::Active => view.coverage.missing.is_empty(),
        ActivationStage::Withdrawn { .. } => true,
        ActivationStage::Distribute | ActivationStage::Canary { .. } => false,
    };
    view.newest.version > 0 && !is_over
}

async fn shown(
    call: &Call,
    documents: &dyn Documents,
    (text, edit): (&DocumentText, &DocumentEdit),
    membership: &dyn Membership,
) -> Result<HttpReply, ApiError> {
    let name = call.params.text("document");
    let view = newest(documents, name).await?;
    let history = documents.history(name).await?;
    let members = membership.view().await?.members;
    let is_admin = call.caller()?.admin;
    let body = html! {
        h1 { (name) }
        section.card { p role="status" { (stage(&view)) }
            (rollout::table(&view, &members)) }
        (edit.told)
        @if is_admin { (editor(call, name, text, edit)) }
        @else { section.card { h2 { "Version " (text.version) } pre.log tabindex="0" { (text.text) } } }
        @if name == rule_try::RULES && !is_admin { (rule_try::form(call, &edit.tried)) }
        (versions(call, &view, &history, is_admin))
    };
    let page = PortalPage {
        section: Section::Settings,
        title: name.to_owned(),
        refresh_s: is_on_its_way(&view).then_some(REFRESH_S),
        body,
    };
    let reply = page.reply(call, &membership.node_name());
    Ok(reply.with_status(edit.status))
}

fn editor(call: &Call, name: &str, text: &DocumentText, edit: &DocumentEdit) -> Markup {
    html! {
        form.card method="post" action={ "/documents/" (name) } {
            (frame::key_field(call))
            input type="hidden" name="base" value=(edit.base);
            @if text.version != edit.base { p.warn { "This is the text of version " (text.version)
                "; version " (edit.base) " is the newest one. Saving makes this text the newest again." } }
            label for="text" { "The text" }
            textarea #text name="text" spellcheck="false" autocapitalize="none" autocomplete="off" { "\n" (edit.text) }
            div.row {
                button name="action" value="compare" { "What would change?" }
                @if name == DESCRIPTION { button name="action" value="check" { "What would it do?" } }
                button.main name="action" value="save" { "Save" }
                label { input type="checkbox" name="now"; " in force everywhere at once, without the steps" }
            }
            @if name == rule_try::RULES {
                details open[edit.tried != TriedEnd::default()] { summary { "Try this text on a log" }
                    (rule_try::inputs(&edit.tried))
                    button name="action" value="try" { "What would these rules say?" } }
            }
        }
    }
}

fn versions(call: &Call, view: &DocumentView, history: &[VersionView], is_admin: bool) -> Markup {
    let (name, now) = (&view.name, frame::now_ms());
    let in_force = in_force(view);
    html! {
        section.card {
            h2 { "Versions" }
            @if history.len() > 1 { (difference::form(name, history)) }
            @if history.is_empty() { p.dim { "Nobody edited it yet: it is as nodes were shipped with it." } }
            @else { div.wide tabindex="0" role="region" aria-label="Versions" { table {
                thead { tr { th { "Version" } th { "Stage" } th { "By" } th { "When" } th.narrow-off { "Note" } @if is_admin { th { "Go back" } } } }
                tbody {
                    @for one in history { @let version = one.version.version; tr {
                        td { a href={ "/documents/" (name) "?version=" (version) } { (version) } }
                        td { (standing(&one.version, in_force)) @if one.version.forced { span.warn { " without the steps" } } }
                        td { (one.version.author) }
                        td { (moment::at(one.version.at_ms, now)) }
                        td.narrow-off { (one.note) }
                        @if is_admin { td { @if version != view.newest.version { (go_back(call, name, version)) } } }
                    } }
                    tr {
                        td { a href={ "/documents/" (name) "?version=0" } { "0" } }
                        td { "as shipped" }
                        td {} td {} td.narrow-off {}
                        @if is_admin { td { (go_back(call, name, 0)) } }
                    }
                }
            } } }
        }
    }
}

/// The version that nodes go by now, as far as they take new ones.
fn in_force(view: &DocumentView) -> u64 {
    match view.newest.stage {
        ActivationStage::Active => view.newest.version,
        _ => view.active,
    }
}

/// What became of a version, in words.
fn standing(version: &DocumentVersion, in_force: u64) -> &'static str {
    match version.stage {
        ActivationStage::Distribute => "is being checked",
        ActivationStage::Canary { .. } => "is being tried",
        ActivationStage::Withdrawn { .. } => "withdrawn",
        ActivationStage::Active if version.version == in_force => "in force",
        ActivationStage::Active => "replaced",
    }
}

fn go_back(call: &Call, name: &str, version: u64) -> Markup {
    html! { form method="post" action={ "/documents/" (name) } {
        (frame::key_field(call))
        input type="hidden" name="version" value=(version);
        button name="action" value="rollback" { "Go back to version " (version) }
    } }
}
