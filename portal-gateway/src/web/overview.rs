//! The first page: what of the cluster is in use, one's own jobs, what waits and why, and what is wrong.

use std::collections::BTreeMap;

use maud::{Markup, html};
use muster_model::alarm::{Alarm, AlarmsAfter};
use muster_model::job_query::JobFilter;
use muster_model::known_node::KnownNode;
use muster_model::mesh::MemberState;
use muster_model::state::JobState;
use muster_model::vc::{DeviceUse, VcView};
use muster_model::view::JobSummary;

use super::frame::{self, PortalPage, Section};
use super::{chip, job_list, moment, node_list};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{FoundJobs, Jobs, Membership, Nodes};
use crate::reply::HandlerResult;

/// Jobs of a card.
const ROWS: usize = 10;

/// `GET /`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let user = call.caller()?.user.to_string();
    let no_jobs = html! { "You have no jobs yet. " a href="/submit" { "Submit one" } "." };
    let own = JobFilter {
        users: vec![user.clone()],
        ..JobFilter::default()
    };
    let waiting = JobFilter {
        states: vec![JobState::Waiting],
        ..JobFilter::default()
    };
    let own = job_list::newest(&call, jobs, (own, ROWS)).await?;
    let waiting = job_list::newest(&call, jobs, (waiting, ROWS)).await?;
    let now = frame::now_ms();
    let vcs = nodes.virtual_clusters().await;
    let body = html! {
        h1 { "Overview" }
        (alarms(&membership.alarms(&AlarmsAfter::default()).await?.standing, now))
        (job_list::warnings(&own))
        div.grid {
            (virtual_clusters(&vcs))
            (sick(nodes, membership).await?)
        }
        (devices(&vcs))
        div.grid {
            (card(("My jobs", &[("user", user.as_str())]), &own, &no_jobs, now))
            (card(("What waits", &[("state", "WAITING")]), &waiting, &html! { "Nothing waits." }, now))
        }
    };
    let page = PortalPage::live(Section::Overview, "Overview", body);
    Ok(page.reply(&call, &membership.node_name()))
}

fn alarms(standing: &[Alarm], now: u64) -> Markup {
    html! {
        @for alarm in standing {
            div.card.bad role="alert" {
                p { strong { (alarm.subject.to_string()) } ": " (alarm.text) " "
                    span.dim { (moment::past(alarm.at_ms, now)) } }
            }
        }
    }
}

fn virtual_clusters(found: &Result<Vec<VcView>, crate::port::PortError>) -> Markup {
    html! {
        section.card {
            h2 { "Virtual clusters" }
            @match found {
                Err(error) => { p.warn { "They are not known now: " (error.to_string()) } }
                Ok(vcs) => {
                    div.wide tabindex="0" role="region" aria-label="Virtual clusters" { table {
                        thead { tr { th { "Name" } th { "GPUs in use" } th.n { "Cores" } th.n.narrow-off { "Memory" } } }
                        tbody { @for vc in vcs { (vc_row(vc)) } }
                    } }
                }
            }
        }
    }
}

fn vc_row(vc: &VcView) -> Markup {
    let (used, all) = (vc.used, vc.guaranteed);
    html! {
        tr {
            td.name { a href={ "/virtual-clusters/" (vc.name.as_str()) } { (vc.name.as_str()) }
                @for problem in &vc.problems { div.warn { (problem) } } }
            td { progress max=(all.gpu.max(1)) value=(used.gpu) aria-label={ "GPUs in use in " (vc.name.as_str()) } { }
                div { (used.gpu) " of " (all.gpu)
                    @if vc.total.gpu > all.gpu { span.bad { ", " (vc.total.gpu - all.gpu) " faulty" } } } }
            td.n { @if all.cpu > 0 { (used.cpu) " of " (all.cpu) } @else { (unpromised("cores")) } }
            td.n.narrow-off { @if all.memory_mb > 0 { (used.memory_mb / 1024) " of " (all.memory_mb / 1024) " GiB" }
                @else { (unpromised("memory")) } }
        }
    }
}

/// Of what a virtual cluster is promised nothing: its tasks share what the machines have.
fn unpromised(what: &str) -> Markup {
    html! { span.dim { "no " (what) " promised, uses the shared" @if what == "cores" { " ones" } } }
}

/// What is in use of each kind of device, by virtual cluster. Without devices there is no such card.
fn devices(found: &Result<Vec<VcView>, crate::port::PortError>) -> Markup {
    let vcs = found.iter().flatten();
    let vcs: Vec<&VcView> = vcs.filter(|vc| !vc.devices.is_empty()).collect();
    html! {
        @if !vcs.is_empty() {
            section.card {
                h2 { "Devices by kind" }
                div.wide tabindex="0" role="region" aria-label="Devices by kind" { table {
                    thead { tr { th { "Virtual cluster" } th { "Kind" } th.n { "In use" } th.n { "Free" } th.n { "Faulty" } th.narrow-off { "Use" } } }
                    tbody { @for vc in vcs { @for (kind, count) in &vc.devices { (device_row(vc, kind, *count)) } } }
                } }
            }
        }
    }
}

fn device_row(vc: &VcView, kind: &str, count: DeviceUse) -> Markup {
    html! {
        tr {
            td { a href={ "/virtual-clusters/" (vc.name.as_str()) } { (vc.name.as_str()) } }
            td.name { (kind) }
            td.n { (count.used) }
            td.n { (count.free()) }
            td.n { @if count.bad() > 0 { span.bad { (count.bad()) } } @else { "0" } }
            td.narrow-off { progress max=(count.healthy.max(1)) value=(count.used)
                aria-label={ (kind) " in use in " (vc.name.as_str()) } { } }
        }
    }
}

/// The nodes with something wrong.
async fn sick(nodes: &dyn Nodes, membership: &dyn Membership) -> Result<Markup, ApiError> {
    let view = membership.view().await?;
    let known = nodes.list().await.unwrap_or_default();
    let by_name: BTreeMap<&str, &KnownNode> =
        known.iter().map(|node| (node.id.as_str(), node)).collect();
    let members = view.members.iter();
    let members: Vec<_> = members
        .filter(|member| member.state == MemberState::Admitted)
        .map(|member| {
            let known = by_name.get(member.name.as_str()).copied();
            (member.name.as_str(), node_list::wrong(member, known))
        })
        .collect();
    let sick: Vec<_> = members
        .iter()
        .filter(|(_, wrong)| !wrong.is_empty())
        .collect();
    let all = members.len();
    Ok(html! {
        section.card {
            h2 { "Nodes" }
            p { a href="/nodes" { @if all == 1 { "1 node" } @else { (all) " nodes" } }
                @if sick.is_empty() { @if all == 1 { " is well." } @else { ", all of them well." } } @else { ", " (sick.len()) " of them not well:" } }
            ul.plain { @for (name, wrong) in sick {
                li { strong { (name) } " " @for text in wrong { div.warn { (text) } } }
            } }
        }
    })
}

/// The newest of some jobs. The title leads to all of them, by filters of the list.
fn card(
    (title, filters): (&str, &[(&str, &str)]),
    found: &FoundJobs,
    empty: &Markup,
    now: u64,
) -> Markup {
    html! {
        section.card {
            h2 { a href=(job_list::list_path(filters)) { (title) @if found.total > 0 { " (" (found.total) ")" } } }
            @if found.jobs.is_empty() { p.dim { (empty) } }
            @else { ul.plain { @for job in &found.jobs { (line(job, now)) } } }
        }
    }
}

fn line(job: &JobSummary, now: u64) -> Markup {
    html! {
        li { (job_list::link(&job.key)) " " (chip::detailed(job.state(), job.sub_state)) " "
            span.dim { (job.key.user.as_str()) ", " (moment::past(job.submitted, now)) }
            @if let Some(why) = &job.waiting_for { div.dim { (why) } } }
    }
}
