//! The page of a virtual cluster: what it has, what runs there, and what waits for what.

use maud::{Markup, html};
use muster_model::job_query::JobFilter;
use muster_model::mesh::Leadership;
use muster_model::state::JobState;
use muster_model::vc::{Amount, VcView};
use muster_model::view::JobSummary;

use super::frame::{self, PortalPage, Section};
use super::{chip, job_list, moment, vc_cells};
use crate::call::Call;
use crate::error::ApiError;
use crate::port::{FoundJobs, Jobs, Membership, Nodes};
use crate::reply::HandlerResult;

/// Jobs of each list.
const ROWS: usize = 50;

/// `GET /virtual-clusters/:vc`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let name = call.params.text("vc");
    let vcs = nodes.virtual_clusters().await?;
    let vc = vcs.iter().find(|vc| vc.name.as_str() == name);
    let vc = vc.ok_or_else(|| ApiError::NoVc(name.to_owned()))?;
    let view = membership.view().await?;
    let running = of(&call, jobs, (name, JobState::Running)).await?;
    let waiting = of(&call, jobs, (name, JobState::Waiting)).await?;
    let cells = nodes.cells(&call.sight(jobs)?, name).await;
    let usage = match &cells {
        Ok(cells) => vc_cells::usage(&call, nodes, (&vc.name, cells)).await,
        Err(_) => Vec::new(),
    };
    let body = html! {
        h1 { "Virtual cluster " (name) }
        @if let Some(age) = &vc.age { (job_list::old(age)) }
        (job_list::warnings(&waiting))
        div.grid {
            (amounts(vc))
            @if let Some(led) = view.vcs.get(&vc.name) { (leadership(led)) }
        }
        @match &cells {
            Ok(cells) => { (vc_cells::tree(cells)) (vc_cells::users(cells, &usage)) }
            Err(error) => { div.card.warn role="status" { p { "Its cells are not known now: " (error.to_string()) } } }
        }
        (list("What waits", &waiting, "Nothing waits here."))
        (list("What runs", &running, "Nothing runs here."))
    };
    let page = PortalPage::live(Section::Overview, format!("Virtual cluster {name}"), body);
    Ok(page.reply(&call, &membership.node_name()))
}

/// The newest jobs of a virtual cluster in a state.
async fn of(
    call: &Call,
    jobs: &dyn Jobs,
    (vc, state): (&str, JobState),
) -> Result<FoundJobs, ApiError> {
    let filter = JobFilter {
        vcs: vec![vc.to_owned()],
        states: vec![state],
        ..JobFilter::default()
    };
    job_list::newest(call, jobs, (filter, ROWS)).await
}

fn amounts(vc: &VcView) -> Markup {
    let row = |title: &str, amount: Amount| {
        html! { tr { th scope="row" { (title) } td.n { (amount.gpu) } td.n { (amount.cpu) }
        td.n { (amount.memory_mb / 1024) " GiB" } } }
    };
    html! {
        section.card {
            h2 { "What it has" }
            table {
                thead { tr { td {} th.n scope="col" { "GPUs" } th.n scope="col" { "Cores" } th.n scope="col" { "Memory" } } }
                tbody {
                    (row("In use", vc.used))
                    (row("Free", vc.guaranteed.minus(vc.used)))
                    (row("Not healthy", vc.total.minus(vc.guaranteed)))
                    (row("In all", vc.total))
                }
            }
            @if vc.total.cpu == 0 { p.dim { "No cores are promised to it: its tasks use the shared ones." } }
            @for problem in &vc.problems { p.warn { (problem) } }
        }
    }
}

fn leadership(led: &Leadership) -> Markup {
    html! {
        section.card {
            h2 { "Who decides" }
            dl.facts {
                dt { "Leader" } dd { @match &led.leader { Some(leader) => { (leader) } None => { span.bad { "none now" } } } }
                dt { "Voters" } dd { (led.voters.join(", ")) }
                @if !led.away.is_empty() { dt { "Away" } dd.bad { (led.away.join(", ")) } }
                @if !led.learners.is_empty() { dt { "Learning" } dd { (led.learners.join(", ")) } }
            }
        }
    }
}

fn list(title: &str, found: &FoundJobs, empty: &str) -> Markup {
    let now = frame::now_ms();
    html! {
        section.card {
            h2 { (title) @if found.total > 0 { span.dim { " (" (found.total) ")" } } }
            @if found.jobs.is_empty() { p.dim { (empty) } }
            @else { div.wide tabindex="0" role="region" aria-label=(title) { table {
                thead { tr { th { "Job" } th { "State" } th { "User" } th.n { "GPUs" } th.narrow-off { "Priority" } th { "Submitted" } } }
                tbody { @for job in &found.jobs { (row(job, now)) } }
            } } }
        }
    }
}

fn row(job: &JobSummary, now: u64) -> Markup {
    html! {
        tr {
            td.name { (job_list::link(&job.key)) @if let Some(why) = &job.waiting_for { div.dim { (why) } } }
            td { (chip::detailed(job.state(), job.sub_state)) }
            td { (job.key.user.as_str()) }
            td.n { (job.gpus) }
            td.narrow-off { @if let Some(priority) = job.priority { (format!("{priority:?}").to_lowercase()) } }
            td { (moment::past(job.submitted, now)) }
        }
    }
}
