//! The page of nodes: what each has, what of that is free, and why one gets no new tasks.

use std::collections::BTreeMap;

use maud::{Markup, html};
use muster_model::known_node::{Has, KEPT_FREE, KnownNode};
use muster_model::mesh::{MemberReach, MemberState, MemberView, Scheduling};

use super::frame::{self, PortalPage, Section};
use super::{chip, moment};
use crate::call::Call;
use crate::port::{Membership, Nodes};
use crate::reply::HandlerResult;

/// `GET /nodes`
pub(crate) async fn page(
    call: Call,
    nodes: &dyn Nodes,
    membership: &dyn Membership,
) -> HandlerResult {
    let view = membership.view().await?;
    // The leader that knows what nodes have may be away. Who is a member is known without it.
    let known = nodes.list().await;
    let by_name: BTreeMap<&str, &KnownNode> = known
        .iter()
        .flatten()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let members: Vec<_> = view
        .members
        .iter()
        .filter(|member| member.state == MemberState::Admitted)
        .collect();
    let body = html! {
        h1 { "Nodes" }
        p { a href="/cluster" { "Members of the cluster, and who leads what" } }
        @if let Err(error) = &known {
            div.card.warn role="status" { p { "What the nodes have is not known now: " (error.to_string()) } }
        }
        div.card { div.wide tabindex="0" role="region" aria-label="Nodes" { table {
            thead { tr { th { "Node" } th { "Reached" } th.narrow-off { "Rack" } th { "GPUs" }
                th.n { "Free" } th.n.narrow-off { "Cores free" } th.n.narrow-off { "Memory free" }
                th { "What is wrong" } } }
            tbody { @for member in &members { (row(member, by_name.get(member.name.as_str()).copied())) } }
        } } }
    };
    let page = PortalPage::live(Section::Nodes, "Nodes", body);
    Ok(page.reply(&call, &membership.node_name()))
}

fn row(member: &MemberView, known: Option<&KnownNode>) -> Markup {
    let has = known.and_then(|node| node.has.as_ref());
    html! {
        tr {
            td.name { a href={ "/nodes/" (member.name) } { (member.name) } }
            td { (reach(member)) }
            td.narrow-off { (member.rack) }
            td { @match has { Some(has) => { (devices(has)) } None => { (member.devices) } } }
            td.n { @if let Some(has) = has { (has.share.free.gpu) } }
            td.n.narrow-off { @if let Some(has) = has { (has.share.free.cpu) } }
            td.n.narrow-off { @if let Some(has) = has { (has.share.free.memory_mb / 1024) " GiB" } }
            td { @for text in wrong(member, known) { div { (text) } } }
        }
    }
}

/// Whether a node can be reached; or of one that can, that it is kept free.
pub(super) fn reach(member: &MemberView) -> Markup {
    let kept = member.scheduling.as_ref().map(|word| word.scheduling);
    match member.reach {
        MemberReach::Suspect => html! { span.chip.warn { "suspect" } },
        MemberReach::Unreachable => chip::word(false, "unreachable"),
        MemberReach::Alive => match kept {
            None | Some(Scheduling::Open) => chip::word(true, "alive"),
            Some(Scheduling::Cordoned) => html! { span.chip.warn { "Cordoned" } },
            Some(Scheduling::Draining { .. }) => html! { span.chip.warn { "Draining" } },
        },
    }
}

/// `Cordoned by ada, 5 min ago: new fans`; none if jobs may come.
pub(super) fn kept_free(member: &MemberView, now: u64) -> Option<String> {
    let word = member.scheduling.as_ref()?;
    let what = match word.scheduling {
        Scheduling::Open => return None,
        Scheduling::Cordoned => "Cordoned".to_owned(),
        Scheduling::Draining { from_ms } if from_ms > now => {
            format!(
                "To be drained in {}, as ordered",
                moment::long(from_ms - now)
            )
        }
        Scheduling::Draining { .. } => "Drained, as ordered".to_owned(),
    };
    let by = match word.by.as_str() {
        "" => String::new(),
        by => format!(" by {by}"),
    };
    let ago = moment::ago(word.at_ms, now);
    let reason = match word.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    Some(format!("{what}{by}, {ago}{reason}"))
}

/// `8 Tesla V100, 1 of them faulty`
fn devices(has: &Has) -> String {
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for device in &has.devices {
        *models.entry(&device.model).or_default() += 1;
    }
    let models = models
        .iter()
        .map(|(model, count)| format!("{count} {model}"));
    let text = models.collect::<Vec<_>>().join(", ");
    let faulty = has.devices.iter().filter(|it| it.fault.is_some()).count();
    match faulty {
        0 => text,
        _ => format!("{text}, {faulty} of them faulty"),
    }
}

/// What keeps work off a node, and what is wrong with it.
pub(super) fn wrong(member: &MemberView, known: Option<&KnownNode>) -> Vec<String> {
    let kept = kept_free(member, frame::now_ms());
    let closed = known.map_or(&[][..], |node| &node.closed);
    // The line about it says more.
    let closed = closed
        .iter()
        .filter(|why| kept.is_none() || *why != KEPT_FREE);
    let faults = known.and_then(|node| node.has.as_ref());
    let faults = faults.into_iter().flat_map(|has| &has.devices);
    let faults = faults.filter_map(|device| {
        let fault = device.fault.as_ref()?;
        Some(format!("GPU {}: {fault}", device.index))
    });
    let said = member.why.iter().chain(&member.problems).chain(closed);
    let said: Vec<String> = said.cloned().chain(faults).collect();
    kept.into_iter().chain(said).collect()
}
