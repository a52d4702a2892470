//! The page of one node: its health, its devices and how they are linked, what runs there, and whether jobs may come.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use muster_model::alarm::AlarmsAfter;
use muster_model::id::JobKey;
use muster_model::image::ImageView;
use muster_model::known_node::KnownNode;
use muster_model::mesh::{MemberTask, MemberView, Scheduling};
use serde_json::{Map, Value};

use super::frame::{self, PortalPage, Section};
use super::node_health::{self, NodeHealth};
use super::{form, job_list, links, node_list};
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::handle::nodes::new_scheduling;
use crate::port::{Jobs, Membership, Nodes, PortError};
use crate::reply::HandlerResult;

/// Units of sizes, each 1024 times the one before.
const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Jobs that are asked which devices of a node they have.
const HOLDERS_MAX: usize = 64;

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
    let holders = holders(&call, jobs, (name, tasks.as_deref().unwrap_or_default())).await?;
    let is_admin = call.caller()?.admin;
    let images = match is_admin {
        true => Some(nodes.images_on(name).await),
        false => None,
    };
    let checks = match view.me == name {
        true => nodes.health().await.ok(),
        false => None,
    };
    let alarms = membership.alarms(&AlarmsAfter::default()).await?.standing;
    let body = html! {
        h1 { "Node " (name) " " (node_list::reach(member)) }
        (node_health::card(&NodeHealth { member, known, alarms: &alarms, checks: checks.as_ref() }))
        div.grid {
            (facts(member, known))
            @if is_admin { (scheduling(&call, member)) }
        }
        @if let Some(has) = known.and_then(|node| node.has.as_ref()) { (links::card(name, has, &holders)) }
        (running(&tasks))
        @if let Some(images) = &images { (images_there(images)) }
    };
    let page = PortalPage::live(Section::Nodes, format!("Node {name}"), body);
    Ok(page.reply(&call, &membership.node_name()))
}

/// `POST /nodes/:node`: whether jobs may come. What that would stop is shown before it is `confirmed`.
pub(crate) async fn change(
    mut call: Call,
    jobs: &dyn Jobs,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
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
    if wanted.scheduling != Scheduling::Open && !form.has("confirmed") {
        // Refused where there is no such member, or it is not known what runs there.
        let tasks = nodes.tasks_on(&call.sight(jobs)?, name).await?;
        let asked = AskedChange {
            mode: form.text("mode").unwrap_or_default(),
            after_min: form.text("after_min").unwrap_or_default(),
            reason: &wanted.reason,
        };
        let body = confirmation(&call, &asked, &tasks);
        let page = PortalPage {
            section: Section::Nodes,
            title: format!("Node {name}"),
            refresh_s: None,
            body,
        };
        return Ok(page.reply(&call, &membership.node_name()));
    }
    nodes.schedule(call.caller()?, name, &wanted).await?;
    Ok(frame::see(&format!("/nodes/{name}")))
}

/// A change that is to be confirmed, as the form has it.
struct AskedChange<'a> {
    mode: &'a str,
    after_min: &'a str,
    reason: &'a str,
}

/// What a change would stop, with the button that does it.
fn confirmation(call: &Call, asked: &AskedChange<'_>, tasks: &[MemberTask]) -> Markup {
    let name = call.params.text("node");
    let drains = asked.mode == "draining";
    let jobs = by_job(tasks);
    html! {
        h1 { @if drains { "Drain " (name) "?" } @else { "Cordon " (name) "?" } }
        section.card.warn {
            @if drains {
                p { "Every job with a task here is stopped as a whole" @if !asked.after_min.is_empty() { ", " (asked.after_min) " minutes from now" }
                    ": its tasks get SIGTERM and then some time to end. It waits in the queue again and goes on elsewhere when there is room; \
                    the retry is not charged. Votes of this node move to others that can take them." }
            } @else {
                p { "No new task comes here. What runs here goes on until it ends." }
            }
            p { "Why: " (asked.reason) }
        }
        section.card {
            h2 { @if drains { "What would be moved" } @else { "What goes on here" } }
            @if jobs.is_empty() { p.good { "Nothing runs here." } }
            @else { ul.plain { @for (job, tasks) in &jobs { li {
                @match job.parse::<JobKey>().ok() {
                    Some(key) => { (job_list::link(&key)) " of " (key.user.as_str()) ": " (tasks.join(", ")) }
                    None => { (tasks.len()) " tasks of jobs that you do not see" }
                }
            } } } }
        }
        form.row method="post" action={ "/nodes/" (name) } {
            (frame::key_field(call))
            input type="hidden" name="mode" value=(asked.mode);
            input type="hidden" name="reason" value=(asked.reason);
            @if !asked.after_min.is_empty() { input type="hidden" name="after_min" value=(asked.after_min); }
            input type="hidden" name="confirmed" value="yes";
            button class=(if drains { "danger" } else { "main" }) { @if drains { "Drain it" } @else { "Cordon it" } }
            a.button href={ "/nodes/" (name) } { "Leave it as it is" }
        }
    }
}

/// The jobs that have devices of the node, by the index of the device: those that are seen.
async fn holders(
    call: &Call,
    jobs: &dyn Jobs,
    (node, tasks): (&str, &[MemberTask]),
) -> Result<BTreeMap<u32, JobKey>, ApiError> {
    let sight = call.sight(jobs)?;
    let keys = tasks
        .iter()
        .filter_map(|task| task.job.as_ref()?.parse::<JobKey>().ok());
    let keys: BTreeSet<JobKey> = keys.collect();
    let mut holders = BTreeMap::new();
    for key in keys.into_iter().take(HOLDERS_MAX) {
        // A job may end between two looks.
        let Ok(job) = jobs.job(&sight, &key, None).await else {
            continue;
        };
        let tasks = job.value.roles.iter().flat_map(|role| &role.tasks);
        let last = tasks.filter_map(|task| task.attempts.last());
        let here = last.filter(|it| it.completed.is_none());
        let here = here.filter(|it| it.node.as_ref().is_some_and(|its| its.as_str() == node));
        for index in here.flat_map(|attempt| &attempt.devices) {
            holders.insert(*index, key.clone());
        }
    }
    Ok(holders)
}

/// Tasks by job; those of jobs that are not seen have no name.
fn by_job(tasks: &[MemberTask]) -> BTreeMap<&str, Vec<&str>> {
    let mut jobs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for task in tasks {
        let job = task.job.as_deref().unwrap_or_default();
        let name = task.task.as_deref().unwrap_or_default();
        jobs.entry(job).or_default().push(name);
    }
    jobs
}

/// The images of the node, the largest first.
fn images_there(images: &Result<Vec<ImageView>, PortError>) -> Markup {
    html! {
        section.card {
            h2 { "Images" }
            @match images {
                Err(error) => { p.warn { "Its images are not known now: " (error.to_string()) } }
                Ok(images) if images.is_empty() => { p.dim { "It has none: the first task of an image pulls it." } }
                Ok(images) => { (image_table(images)) }
            }
        }
    }
}

fn image_table(images: &[ImageView]) -> Markup {
    let mut sorted: Vec<_> = images.iter().collect();
    sorted.sort_by_key(|image| (std::cmp::Reverse(image.size_bytes), &image.name));
    let all: u64 = images.iter().map(|image| image.size_bytes).sum();
    html! {
        p.dim { (images.len()) @if images.len() == 1 { " image, " } @else { " images, " } (size(all)) " in all as their registries pack them." }
        div.wide tabindex="0" role="region" aria-label="Images" { table {
            thead { tr { th scope="col" { "Image" } th.n scope="col" { "Size" } } }
            tbody { @for image in sorted { tr { td.name { (image.name) } td.n { (size(image.size_bytes)) } } } }
        } }
    }
}

/// `3.2 GiB`
fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10);
    while tenths >= 10_240 && unit < UNITS.len() - 1 {
        tenths /= 1024;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
    }
}

fn facts(member: &MemberView, known: Option<&KnownNode>) -> Markup {
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
                button name="mode" value="cordoned" { "Cordon: no new jobs ..." }
                button.danger name="mode" value="draining" { "Drain: move the jobs away ..." }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (3_435_973_836, "3.1 GiB"),
            (u64::MAX, "1677721.5 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
