//! The page of jobs: filters in the address, what waits with its reason, and what can be done with several.

use std::fmt::Display;

use form_urlencoded::Serializer;
use maud::{Markup, html};
use muster_model::id::JobKey;
use muster_model::job_order::JobOrder;
use muster_model::job_query::{First, JobFilter, JobQuery};
use muster_model::sight::HiddenJobs;
use muster_model::state::JobState;
use muster_model::vc::VcView;
use muster_model::view::{Age, JobSummary};

use super::frame::{self, PortalPage, Section};
use super::{chip, job_change, moment};
use crate::call::Call;
use crate::error::ApiError;
use crate::listing::Listing;
use crate::port::{FoundJobs, Jobs, Membership, Nodes};
use crate::query::Query;
use crate::reply::HandlerResult;

/// After how many seconds an open page is written anew.
const REFRESH_S: u32 = 5;
/// Rows of a page.
const ROWS: u64 = 50;

/// States to choose from: the value of the address, and the word.
const STATES: [(&str, &str); 7] = [
    ("", "any state"),
    ("WAITING", "Waiting"),
    ("RUNNING", "Running"),
    ("STOPPING", "Stopping"),
    ("SUCCEEDED", "Succeeded"),
    ("STOPPED", "Stopped"),
    ("FAILED", "Failed"),
];

/// What the page is about.
const FILTERS: [&str; 5] = ["state", "user", "vc", "tag", "text"];

/// The ports that the page asks.
pub(super) type ListSources<'a> = (&'a dyn Jobs, &'a dyn Nodes, &'a dyn Membership);

/// `GET /jobs?state=&user=&vc=&tag=&text=&page=`, with what was changed before: `stopping=`, `tagged=` or `unmarked=`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let notice = job_change::notice(&call)?;
    shown(&call, (jobs, nodes, membership), (notice, Some(REFRESH_S))).await
}

/// The page, with a notice, written anew after so many seconds. A notice that no address asks for would be gone then.
pub(super) async fn shown(
    call: &Call,
    (jobs, nodes, membership): ListSources<'_>,
    (notice, refresh_s): (Markup, Option<u32>),
) -> HandlerResult {
    let number = call.number("page")?.unwrap_or(1).max(1);
    let listing = asked(&call.query, (number - 1).saturating_mul(ROWS), ROWS)?;
    let found = listing.ask(&call.sight(jobs)?, jobs).await?;
    let rows = listing.page(&found.jobs);
    let vcs = nodes.virtual_clusters().await.unwrap_or_default();
    let body = html! {
        h1 { "Jobs" }
        (notice)
        (filters(call, &vcs))
        (warnings(&found))
        (table(call, &rows))
        (pages(&call.query, number, found.total))
    };
    let page = PortalPage {
        refresh_s,
        ..PortalPage::live(Section::Jobs, "Jobs", body)
    };
    Ok(page.reply(call, &membership.node_name()))
}

/// The job with this name. A name that no job can have is just a job that is not there.
pub(super) fn named(name: &str) -> Result<JobKey, ApiError> {
    let missing = |_| crate::port::PortError::NoJob(name.to_owned()).into();
    name.parse().map_err(missing)
}

/// The listing that an address asks for, in the words of the REST API.
pub(super) fn asked(query: &Query, offset: u64, limit: u64) -> Result<Listing, ApiError> {
    let mut text = Serializer::new(String::new());
    for (own, theirs) in [
        ("state", "state"),
        ("user", "username"),
        ("vc", "vc"),
        ("tag", "tagsContain"),
        ("text", "keyword"),
    ] {
        if let Some(value) = query.text(own) {
            text.append_pair(theirs, value.trim());
        }
    }
    text.append_pair("offset", &offset.to_string());
    text.append_pair("limit", &limit.to_string());
    text.append_pair("order", "submissionTime,DESC");
    Listing::parse(&Query::parse(&text.finish()))
}

/// A path with the filters of the page, and more.
fn filtered(path: &str, query: &Query, more: &[(&str, &str)]) -> String {
    let own = FILTERS
        .into_iter()
        .filter_map(|name| Some((name, query.text(name)?)));
    let mut text = Serializer::for_suffix(format!("{path}?"), path.len() + 1);
    text.extend_pairs(own.chain(more.iter().copied()));
    text.finish().trim_end_matches('?').to_owned()
}

/// The path of the same page of the list, with a notice or without.
pub(super) fn place(query: &Query, notice: &[(&str, &str)]) -> String {
    let page = query.text("page").map(|page| ("page", page));
    let more: Vec<_> = page.into_iter().chain(notice.iter().copied()).collect();
    filtered("/jobs", query, &more)
}

/// The path of the list with these filters.
pub(super) fn list_path(filters: &[(&str, &str)]) -> String {
    let mut text = Serializer::new(String::new());
    for (name, value) in filters {
        text.append_pair(name, value);
    }
    format!("/jobs?{}", text.finish())
}

fn filters(call: &Call, vcs: &[VcView]) -> Markup {
    let query = &call.query;
    let caller = call.caller.as_ref().map(|caller| caller.user.as_str());
    let others = caller.filter(|user| query.text("user") != Some(*user));
    let value = |name| query.text(name).unwrap_or_default();
    html! {
        form.card.row method="get" action="/jobs" role="search" {
            div { label for="state" { "State" }
                select #state name="state" {
                    @for (one, word) in STATES {
                        option value=(one) selected[value("state") == one] { (word) }
                    }
                } }
            (field("user", "User", value("user")))
            (vc_field(value("vc"), vcs))
            (field("tag", "Tag", value("tag")))
            (field("text", "Part of a name", value("text")))
            button { "Show" }
            @if let Some(user) = others { a href=(list_path(&[("user", user)])) { "Show mine" } }
            @if FILTERS.iter().any(|name| query.text(name).is_some()) {
                a href="/jobs" { "Show all" }
            }
        }
    }
}

/// A choice of names; a field for any text while it is not known which there are.
fn vc_field(value: &str, vcs: &[VcView]) -> Markup {
    if vcs.is_empty() {
        return field("vc", "Virtual cluster", value);
    }
    let is_known = value.is_empty() || vcs.iter().any(|vc| vc.name.as_str() == value);
    html! {
        div { label for="vc" { "Virtual cluster" }
            select #vc name="vc" {
                option value="" selected[value.is_empty()] { "any" }
                @for vc in vcs { option value=(vc.name.as_str()) selected[vc.name.as_str() == value] { (vc.name.as_str()) } }
                @if !is_known { option value=(value) selected { (value) } }
            } }
    }
}

fn field(name: &str, label: &str, value: &str) -> Markup {
    html! {
        div { label for=(name) { (label) }
            input id=(name) name=(name) value=(value) size="14" autocapitalize="none"; }
    }
}

/// What is missing in the list, and why.
pub(super) fn warnings(found: &FoundJobs) -> Markup {
    let names = |of: &mut dyn Iterator<Item = &dyn Display>| {
        of.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let away = names(&mut found.away.iter().map(|vc| vc as &dyn Display));
    html! {
        @if !away.is_empty() {
            div.card.warn role="status" { p { "The jobs of these virtual clusters are missing, because too few of their voters can be reached: "
                (away) ". They run on, and are listed again when the voters are back." } }
        }
        @for age in &found.aged { (old(age)) }
        @if !found.hidden.is_empty() { (hidden(&found.hidden)) }
    }
}

fn hidden(hidden: &[HiddenJobs]) -> Markup {
    html! {
        p.dim { "Not shown: jobs of others that you may not see. "
            @for one in hidden { (one.to_string()) " " } }
    }
}

/// That what is shown is not what the leader says now.
pub(super) fn old(age: &Age) -> Markup {
    html! {
        div.card.warn role="status" { p {
            "The leader of virtual cluster " (age.vc.as_str()) " does not answer. What you see of its jobs is "
            @match age.seconds {
                Some(seconds) => { "at most " (moment::long(seconds * 1000)) " old." }
                None => { "of unknown age." }
            }
        } }
    }
}

fn table(call: &Call, rows: &[&JobSummary]) -> Markup {
    let now = frame::now_ms();
    html! {
        @if rows.is_empty() {
            div.card { p { "No job is like this." }
                p.dim { a href="/submit" { "Submit one" } ", or take a filter away above." } }
        } @else {
            form.card method="post" action=(place(&call.query, &[])) {
                (frame::key_field(call))
                div.wide tabindex="0" role="region" aria-label="Jobs" { table {
                    thead { tr {
                        th { input type="checkbox" data-all aria-label="Mark all jobs"; }
                        th { "Job" } th { "State" } th.narrow-off { "User" }
                        th.narrow-off { "Virtual cluster" } th.n { "GPUs" }
                        th.n.narrow-off { "Tasks" } th.n.narrow-off { "Retries" }
                        th { "Submitted" } th.narrow-off { "Ran for" }
                    } }
                    tbody { @for job in rows { (row(call, job, now)) } }
                } }
                div.row {
                    button.danger name="action" value="stop" { "Stop the marked jobs" }
                    div { label for="newtag" { "Tag" } input #newtag name="tag" size="12"; }
                    button name="action" value="tag" { "Tag the marked jobs" }
                }
            }
        }
    }
}

fn row(call: &Call, job: &JobSummary, now: u64) -> Markup {
    let name = job.key.to_string();
    html! {
        tr {
            td { @if call.is_own(&job.key) {
                input type="checkbox" name="job" value=(name) aria-label={ "Mark " (name) };
            } }
            td.name { (link(&job.key)) " " @for tag in &job.tags { span.tag { (tag) } }
                @if let Some(why) = why(job) { div.dim { (why) } } }
            td { (chip::detailed(job.state(), job.sub_state)) }
            td.narrow-off { (job.key.user.as_str()) }
            td.narrow-off { (job.vc.as_str()) }
            td.n { (job.gpus) }
            td.n.narrow-off { (job.tasks) }
            td.n.narrow-off { (job.retries.total) }
            td { (moment::past(job.submitted, now)) }
            td.narrow-off { (ran_for(job, now)) }
        }
    }
}

/// Why a job waits, or with what it failed.
fn why(job: &JobSummary) -> Option<String> {
    if job.state() != JobState::Failed {
        return job.waiting_for.clone();
    }
    let code = job.exit_code.map(|code| format!("exit code {code}"));
    let tasks = match (job.tasks_failed, job.tasks) {
        (0, _) | (_, 1) => None,
        (failed, all) => Some(format!("{failed} of {all} tasks failed")),
    };
    let parts: Vec<String> = code.into_iter().chain(tasks).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The job's name, which leads to its page.
pub(super) fn link(key: &JobKey) -> Markup {
    html! { a href=(job_path(key)) { (key.name.as_str()) } }
}

/// The path of a job's page.
pub(super) fn job_path(key: &JobKey) -> String {
    let name = key.to_string();
    let name = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
    format!("/jobs/{name}")
}

/// For how long the user's commands of its latest attempt ran; nothing while that waits.
pub(super) fn ran_for(job: &JobSummary, now: u64) -> String {
    let Some(began) = job.attempt_launched else {
        return String::new();
    };
    moment::long(job.completed.unwrap_or(now).saturating_sub(began))
}

fn pages(query: &Query, number: u64, total: usize) -> Markup {
    let total = u64::try_from(total).unwrap_or(u64::MAX);
    let last = total.div_ceil(ROWS).max(1);
    let to = |number: u64| filtered("/jobs", query, &[("page", &number.to_string())]);
    let export = |format: &str| filtered("/jobs/export", query, &[("format", format)]);
    html! {
        div.pages {
            @if number > 1 { a href=(to(number - 1)) rel="prev" { "Newer" } }
            span.dim { (total) @if total == 1 { " job" } @else { " jobs" } ", page " (number) " of " (last) }
            @if number < last { a href=(to(number + 1)) rel="next" { "Older" } }
            @if total > 0 { span { "All of these as a file: "
                a href=(export("csv")) download { "CSV" } ", "
                a href=(export("jsonl")) download { "JSON lines" } } }
        }
    }
}

/// The newest jobs that a filter takes, at most `count`, and how many it takes in all.
pub(super) async fn newest(
    call: &Call,
    jobs: &dyn Jobs,
    (filter, count): (JobFilter, usize),
) -> Result<FoundJobs, ApiError> {
    let order = JobOrder::default();
    let query = JobQuery {
        filter,
        first: Some(First { order, count }),
        reasons: true,
    };
    let mut found = jobs.list(&call.sight(jobs)?, &query).await?;
    found.jobs.sort_unstable_by(|a, b| order.compare(a, b));
    Ok(found)
}
