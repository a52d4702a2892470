//! The page of one node: its devices, what runs there, and whether jobs may come.

use maud::{Markup, html};
use muster_model::known_node::{Has, KnownNode};
use muster_model::mesh::{MemberTask, MemberView};
use serde_json::{Map, Value};

use super::frame::{self, PortalPage, Section};
use super::{chip, form, job_list, moment, node_list};
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::handle::nodes::new_scheduling;
use crate::port::{Jobs, Membership, Nodes, PortError};
use crate::reply::HandlerResult;

/// `GET /nodes/:node`
pub(crate) async fn page(
    call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let name = call.params.text("node");
    let view = membership.view().await?;
    let member = view.members.iter().rfind(|member| member.name == name);
    let member = member.ok_or_else(|| PortError::NoMember(name.to_owned()))?;
    let known = nodes.list().await.unwrap_or_default();
    let known = known.iter().find(|node| node.id.as_str() == name);
    let tasks = nodes.tasks_on(&call.sight(jobs)?, name).await;
    let is_admin = call.caller()?.admin;
    let body = html! {
        h1 { "Node " (name) " " (node_list::reach(member)) }
        @for text in node_list::wrong(member, known) { div.card.warn { p { (text) } } }
        div.grid {
            (facts(member, known))
            @if is_admin { (scheduling(&call, member)) }
        }
        @if let Some(has) = known.and_then(|node| node.has.as_ref()) { (devices(has)) }
        (running(&tasks))
    };
    let page = PortalPage::live(Section::Nodes, format!("Node {name}"), body);
    Ok(page.reply(&call, &membership.node_name()))
}

/// `POST /nodes/:node`: whether jobs may come
pub(crate) async fn change(mut call: Call, nodes: &dyn Nodes) -> HandlerResult {
    let form = form::read(&mut call).await?;
    let mut fields = Map::new();
    for name in ["mode", "reason"] {
        if let Some(value) = form.text(name) {
            fields.insert(name.to_owned(), Value::from(value));
        }
    }
    if let Some(minutes) = form.text("after_min") {
        let seconds = minutes.parse::<i64>().ok();
        let seconds = seconds.and_then(|minutes| minutes.checked_mul(60));
        let rule = || ApiError::Parameters("after_min must be a number of minutes".to_owned());
        fields.insert("after_s".to_owned(), Value::from(seconds.ok_or_else(rule)?));
    }
    let wanted = new_scheduling(Fields::of(fields))?;
    let name = call.params.text("node");
    nodes.schedule(call.caller()?, name, &wanted).await?;
    Ok(frame::see(&format!("/nodes/{name}")))
}

fn facts(member: &MemberView, known: Option<&KnownNode>) -> Markup {
    let now = frame::now_ms();
    let has = known.and_then(|node| node.has.as_ref());
    html! {
        section.card {
            h2 { "Facts" }
            dl.facts {
                @if !member.rack.is_empty() { dt { "Rack" } dd { (member.rack) } }
                dt { "Addresses" } dd { @for address in &member.addresses { (address.to_string()) " " } }
                dt { "Release" } dd { (member.agent_version) }
                dt { "May vote" } dd { @if member.votes { "yes" } @else { "no" } }
                @if let Some(has) = has {
                    dt { "Free" } dd { (has.share.free.gpu) " of " (has.share.healthy.gpu) " GPUs, "
                        (has.share.free.cpu) " of " (has.share.healthy.cpu) " cores, "
                        (has.share.free.memory_mb / 1024) " of " (has.share.healthy.memory_mb / 1024) " GiB" }
                }
                @if let Some(said) = &member.scheduling {
                    dt { "Jobs" } dd.warn { (said.to_string()) " " span.dim { (moment::at(said.at_ms, now)) } }
                }
            }
        }
    }
}

fn scheduling(call: &Call, member: &MemberView) -> Markup {
    html! {
        form.card method="post" action={ "/nodes/" (member.name) } {
            (frame::key_field(call))
            h2 { "Maintenance" }
            div.row.fields {
                div { label for="reason" { "Why, for other admins" } input #reason name="reason" maxlength="256"; }
                div { label for="after_min" { "Drain after so many minutes" } input #after_min name="after_min" type="number" min="0"; }
            }
            div.row {
                @if member.scheduling.is_some() { button.main name="mode" value="open" { "Let jobs come again" } }
                button name="mode" value="cordoned" { "Cordon: no new jobs" }
                button.danger name="mode" value="draining" { "Drain: move the jobs away" }
            }
        }
    }
}

fn devices(has: &Has) -> Markup {
    html! {
        section.card {
            h2 { "Devices" }
            @if has.devices.is_empty() { p.dim { "It has none." } }
            @else { div.wide tabindex="0" role="region" aria-label="Devices" { table {
                thead { tr { th.n { "Index" } th { "Model" } th { "State" } } }
                tbody { @for device in &has.devices { tr {
                    td.n { (device.index) } td { (device.model) }
                    td { @match &device.fault { None => { (chip::word(true, "well")) }
                        Some(fault) => { (chip::word(false, "faulty")) " " (fault) } } }
                } } }
            } } }
        }
    }
}

fn running(tasks: &Result<Vec<MemberTask>, PortError>) -> Markup {
    html! {
        section.card {
            h2 { "Tasks" }
            @match tasks {
                Err(error) => { p.warn { "What runs there is not known now: " (error.to_string()) } }
                Ok(tasks) if tasks.is_empty() => { p.dim { "Nothing runs there." } }
                Ok(tasks) => { ul.plain { @for task in tasks { li { (named(task)) } } } }
            }
        }
    }
}

fn named(task: &MemberTask) -> Markup {
    let key = task.job.as_ref().and_then(|job| job.parse().ok());
    html! {
        @match key {
            Some(key) => { (job_list::link(&key)) " " span.dim { (task.task.as_deref().unwrap_or_default()) } }
            None => { span.dim { "a task of a job that you do not see" } }
        }
    }
}
