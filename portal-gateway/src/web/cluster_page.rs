//! The page of the cluster: its members, who leads what, and which of them hear each other.

use maud::{Markup, html};
use muster_model::mesh::{Leadership, MemberState, MemberView, MeshView};

use super::frame::{PortalPage, Section};
use super::{moment, node_list};
use crate::call::Call;
use crate::port::Membership;
use crate::reply::HandlerResult;

/// `GET /cluster`
pub(crate) async fn page(call: Call, membership: &dyn Membership) -> HandlerResult {
    let view = membership.view().await?;
    let body = html! {
        h1 { "Cluster" @if let Some(cluster) = &view.cluster { " " (cluster.name) } }
        @if let Some(seen) = &view.cloned {
            div.card.bad role="alert" { p { "Another machine uses the key of " (view.me) ": " (seen) } }
        }
        (islands(&view))
        div.grid { (about(&view)) (led(&view)) }
        (members(&view))
        (counters(&view))
    };
    let page = PortalPage::live(Section::Nodes, "Cluster", body);
    Ok(page.reply(&call, &membership.node_name()))
}

/// Which members do not hear each other.
fn islands(view: &MeshView) -> Markup {
    html! {
        @if view.islands.len() > 1 {
            div.card.bad role="alert" {
                p { strong { "The members are in groups that do not hear each other." } }
                ul { @for island in &view.islands { li { (island.join(", ")) } } }
            }
        }
        @for link in &view.one_way {
            div.card.warn role="status" { p { "What " (link.to) " sends does not arrive at " (link.from)
                ", though the other way works: look at the firewalls of both." } }
        }
    }
}

fn about(view: &MeshView) -> Markup {
    html! {
        section.card {
            h2 { "What it is" }
            @match &view.cluster {
                None => { p.dim { "Its name is not known now." } }
                Some(cluster) => {
                    dl.facts {
                        @if !cluster.name.is_empty() { dt { "Name" } dd { (cluster.name) } }
                        dt { "Id" } dd { code { (cluster.id) } }
                        dt { "Generation" } dd { (cluster.generation) }
                        dt { "Feature level" } dd { (cluster.feature_level) }
                        dt { "Seen by" } dd { (view.me) @if view.solo { ", which is alone" } }
                    }
                }
            }
        }
    }
}

fn led(view: &MeshView) -> Markup {
    html! {
        section.card {
            h2 { "Who leads what" }
            div.wide tabindex="0" role="region" aria-label="Groups" { table {
                thead { tr { th { "Group" } th { "Leader" } th { "Voters" } } }
                tbody {
                    (led_row("The cluster", &view.leadership, None))
                    @for (vc, led) in &view.vcs { (led_row(vc.as_str(), led, Some(vc.as_str()))) }
                }
            } }
        }
    }
}

fn led_row(name: &str, led: &Leadership, vc: Option<&str>) -> Markup {
    html! {
        tr {
            td { @match vc { Some(vc) => { a href={ "/virtual-clusters/" (vc) } { (name) } } None => { (name) } } }
            td { @match &led.leader { Some(leader) => { (leader) } None => { span.bad { "none now" } } } }
            td { (led.voters.join(", "))
                @if !led.away.is_empty() { div.bad { "away: " (led.away.join(", ")) } }
                @if !led.learners.is_empty() { div.dim { "learning: " (led.learners.join(", ")) } } }
        }
    }
}

fn members(view: &MeshView) -> Markup {
    html! {
        section.card {
            h2 { "Members" }
            div.wide tabindex="0" role="region" aria-label="Members" { table {
                thead { tr { th { "Member" } th { "Reached" } th.narrow-off { "Addresses" } th.narrow-off { "Release" }
                    th.narrow-off { "Heard" } th { "What is wrong" } } }
                tbody { @for member in &view.members { (member_row(member)) } }
            } }
        }
    }
}

fn member_row(member: &MemberView) -> Markup {
    html! {
        tr {
            td.name { a href={ "/nodes/" (member.name) } { (member.name) } }
            td { @match member.state {
                MemberState::Admitted => { (node_list::reach(member)) }
                MemberState::Left => { span.chip { "left" } }
                MemberState::Expelled => { span.chip.bad { "expelled" } }
            } }
            td.narrow-off { @for address in &member.addresses { div { (address.to_string()) } } }
            td.narrow-off { (member.agent_version) }
            td.narrow-off { @if let Some(age) = member.age_s { (moment::long(age.saturating_mul(1000))) " ago" } }
            td { @for text in member.why.iter().chain(&member.problems) { div { (text) } }
                @if let Some(said) = &member.scheduling { div.warn { (said.to_string()) } } }
        }
    }
}

fn counters(view: &MeshView) -> Markup {
    html! {
        section.card {
            details { summary { "What happened in the mesh since this node's agent started" }
                dl.facts { @for (name, count) in &view.counters { dt { (name) } dd { (count) } } } }
        }
    }
}
