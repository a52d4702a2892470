//! The page with what the tasks of a job do at this moment.

use maud::{Markup, html};
use muster_model::id::JobKey;
use muster_model::stacks::{JobStacks, ProcessStack, StackGroup, StacksFilter, TaskStacks};

use super::frame::{self, PortalPage, Section};
use super::{form as forms, job_list, moment};
use crate::call::Call;
use crate::port::{Jobs, Membership};
use crate::reply::HandlerResult;

/// Tasks of a page.
const TASKS_MAX: usize = 256;
/// Members of a group that a page names.
const MEMBERS_MAX: usize = 64;

/// `POST /jobs/:job/stacks`
pub(crate) async fn page(
    mut call: Call,
    jobs: &dyn Jobs,
    membership: &dyn Membership,
) -> HandlerResult {
    forms::read(&mut call).await?;
    let key = call.job_key()?;
    call.check_owner(&key, jobs).await?;
    let sight = call.sight(jobs)?;
    let stacks = jobs.stacks(&sight, &key, &StacksFilter::default()).await?;
    let body = html! {
        p { a href=(job_list::job_path(&key)) { (key.name.as_str()) } }
        h1 { "What the tasks of " (key.name.as_str()) " do" }
        section.card role="status" {
            @for (nth, sentence) in stacks.summary.iter().enumerate() {
                p { @if nth == 0 { strong { (sentence) } } @else { (sentence) } }
            }
            (button(&call, &key, "Look again"))
        }
        @for group in &stacks.groups { (group_card(group)) }
        (tasks(&stacks))
        p.dim { "All threads: " code { "muster job stacks " (key.to_string()) " --all-threads" } }
    };
    let page = PortalPage {
        section: Section::Jobs,
        title: format!("Stacks of {} of {}", key.name, key.user),
        refresh_s: None,
        body,
    };
    Ok(page.reply(&call, &membership.node_name()))
}

/// A form that takes the stacks of a job.
pub(super) fn button(call: &Call, key: &JobKey, text: &str) -> Markup {
    html! {
        form method="post" action={ (job_list::job_path(key)) "/stacks" } {
            (frame::key_field(call))
            button { (text) }
        }
    }
}

fn group_card(group: &StackGroup) -> Markup {
    let count = group.members.len();
    html! {
        section.card.warn[group.is_odd] {
            h2 { (count) " " (if count == 1 { "process" } else { "processes" }) " " (group.place)
                @if group.is_odd { ", and most others do not" } }
            p { @for (nth, member) in group.members.iter().take(MEMBERS_MAX).enumerate() {
                @if nth > 0 { ", " }
                (member.task.to_string())
                @match (member.is_one_of_many, member.rank) {
                    (false, _) => {}
                    (true, Some(rank)) => { " (rank " (rank) ")" }
                    (true, None) => { " (process " (member.pid) ")" }
                }
            }
            @if count > MEMBERS_MAX { " and " (count - MEMBERS_MAX) " more" } }
            @if !group.stack.is_empty() { pre.log tabindex="0" { (group.stack.join("\n")) } }
        }
    }
}

fn tasks(stacks: &JobStacks) -> Markup {
    html! {
        section.card {
            h2 { "Tasks" }
            div.wide tabindex="0" role="region" aria-label="Tasks" { table {
                thead { tr { th { "Task" } th { "Node" } th { "Silent for" } th { "Devices busy" } th { "Processes" } } }
                tbody { @for task in stacks.tasks.iter().take(TASKS_MAX) { (task_row(task)) } }
            } }
            @if stacks.tasks.len() > TASKS_MAX { p.dim { "The first " (TASKS_MAX) " of " (stacks.tasks.len()) " tasks." } }
        }
    }
}

fn task_row(task: &TaskStacks) -> Markup {
    let taken = &task.taken;
    html! {
        tr {
            td { (task.task.to_string()) }
            td { (task.node.as_str()) }
            td { @if let Some(silent_s) = taken.silent_s { (moment::long(silent_s.saturating_mul(1000))) } }
            td.n { @if let Some(busy) = taken.devices_busy { (busy) " %" } }
            td { @for process in &taken.processes { (process_line(process)) } }
        }
    }
}

fn process_line(process: &ProcessStack) -> Markup {
    html! {
        div { (process.pid) " " (process.name)
            @if let Some(main) = process.threads.first() { span.dim { " " (main.state)
                @if let Some(call) = &main.syscall { " " (call) } } }
            @if let Some(problem) = &process.problem { span.warn { " " (problem) } } }
    }
}
