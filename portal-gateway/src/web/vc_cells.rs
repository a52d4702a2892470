//! Two cards of a virtual cluster: its cells as a tree, and which user has which devices.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use muster_model::cluster_spec::ABSENT;
use muster_model::id::{UserName, VcName};
use muster_model::usage::{HOUR_MS, UsageSubject, UsageView};
use muster_model::vc_cells::{CellPool, CellUser, LeafState, PromisedCell, VcCells};

use super::job_list;
use crate::call::Call;
use crate::port::Nodes;

/// Pools of at most so many cells are shown opened.
const OPENED_MAX: usize = 4;

/// What the limits leave to those who have something here: to everybody who is listed for an admin, else to the
/// one who asks.
pub(super) async fn usage(
    call: &Call,
    nodes: &dyn Nodes,
    (vc, cells): (&VcName, &VcCells),
) -> Vec<UsageView> {
    let Ok(caller) = call.caller() else {
        return Vec::new();
    };
    let jobs = cells.users.iter().filter_map(|user| user.job.as_ref());
    let mut users: BTreeSet<UserName> = jobs.map(|job| job.user.clone()).collect();
    users.retain(|user| caller.admin || *user == caller.user);
    // Without it the rest of the page still says what it should.
    let found = nodes.usage(users).await.unwrap_or_default();
    let here = found.usage.into_iter().filter(|view| view.vc == *vc);
    here.collect()
}

/// The cells that are promised, each level with its numbers, and the tree.
pub(super) fn tree(cells: &VcCells) -> Markup {
    html! {
        section.card {
            h2 { "Its cells" }
            @if cells.pools.is_empty() {
                p.dim { "It is promised no devices, or its leader has not heard of any yet. Cores and memory are counted above." }
            } @else {
                p.dim { "Used: by its own jobs within the promise. Lent: a job is there that gives way when one of its own needs the place. \
                    Bad: faulty, away or kept free. A cell of several devices can be more than one of these." }
                @for pool in &cells.pools { (pool_tree(pool)) }
            }
        }
    }
}

fn pool_tree(pool: &CellPool) -> Markup {
    let name = match &pool.pinned {
        Some(pinned) => format!("Pinned cell {pinned}"),
        None => format!("Cells of {}", pool.chain),
    };
    let is_open = pool.cells.len() <= OPENED_MAX;
    html! {
        h3 { (name) }
        div.wide tabindex="0" role="region" aria-label={ (name) ", by level" } { table {
            thead { tr { th scope="col" { "Level" } th.n scope="col" { "Cells" } th.n scope="col" { "Used" }
                th.n scope="col" { "Free" } th.n scope="col" { "Bad" } th.n scope="col" { "Lent" } } }
            tbody { @for level in &pool.levels { tr {
                th scope="row" { (level.cell_type) } td.n { (level.total) } td.n { (level.used) }
                td.n { (level.free) } td.n { @if level.bad > 0 { span.bad { (level.bad) } } @else { "0" } } td.n { (level.lent) }
            } } }
        } }
        ul.tree { @for cell in &pool.cells { li { (branch(cell, is_open)) } } }
        @if pool.unlisted > 0 { p.dim { "And " (pool.unlisted) " more, which only the numbers above count." } }
    }
}

/// `is_open`: whether it is unfolded at first; what is inside an unfolded cell is so too.
fn branch(cell: &PromisedCell, is_open: bool) -> Markup {
    let node = cell
        .node
        .as_deref()
        .filter(|node| !node.starts_with(ABSENT));
    html! {
        details open[is_open] {
            summary { (cell_name(cell)) " " (share(cell)) " " span.dim { (counts(cell)) } }
            @if let (Some(node), false) = (node, cell.leaves.is_empty()) {
                // A link in the summary could not be reached by all readers.
                p.inside { a href={ "/nodes/" (node) } { "Node " (node) } }
            }
            @if !cell.parts.is_empty() { ul.tree { @for part in &cell.parts { li { (branch(part, true)) } } } }
            @if !cell.leaves.is_empty() { ul.leaves { @for leaf in &cell.leaves {
                li class=(leaf.state.as_str()) { (leaf.index) " " (leaf.state.as_str()) }
            } } }
        }
    }
}

fn cell_name(cell: &PromisedCell) -> Markup {
    html! {
        strong { (cell.cell_type) }
        @match cell.node.as_deref() {
            Some(node) if node.starts_with(ABSENT) => { " on a machine that is not there" }
            Some(node) => { " on " (node) }
            None => {}
        }
    }
}

/// `3 used, 4 free, 1 bad`
fn counts(cell: &PromisedCell) -> String {
    let all = LeafState::ALL.map(|state| (cell.count(state), state));
    let some = all.iter().filter(|(count, _)| *count > 0);
    let some = some.map(|(count, state)| format!("{count} {}", state.as_str()));
    some.collect::<Vec<_>>().join(", ")
}

/// The same as a bar.
fn share(cell: &PromisedCell) -> Markup {
    let size = cell.size().max(1);
    let (mut left, mut parts) = (0, Vec::new());
    for state in [LeafState::Used, LeafState::Lent, LeafState::Bad] {
        let width = cell.count(state) * 100 / size;
        parts.push((state.as_str(), left, width));
        left += width;
    }
    html! {
        svg.share viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.free width="100" height="10" {}
            @for (class, x, width) in parts { rect class=(class) x=(x) width=(width) height="10" {} }
        }
    }
}

/// What one user has here, with the jobs.
#[derive(Default)]
struct UserHoldings<'a> {
    jobs: Vec<&'a CellUser>,
    devices: usize,
    borrowed: u32,
}

/// Who holds what: users, their jobs, the devices of these, and what the limits leave.
pub(super) fn users(cells: &VcCells, usage: &[UsageView]) -> Markup {
    let mut users: BTreeMap<Option<&UserName>, UserHoldings<'_>> = BTreeMap::new();
    for one in &cells.users {
        let user = one.job.as_ref().map(|job| &job.user);
        let holdings = users.entry(user).or_default();
        holdings.jobs.push(one);
        holdings.devices += one.devices();
        holdings.borrowed += one.borrowed;
    }
    let mut users: Vec<_> = users.into_iter().collect();
    users.sort_by_key(|(_, holdings)| std::cmp::Reverse(holdings.devices));
    html! {
        section.card {
            h2 { "Who holds what" }
            @if users.is_empty() { p.dim { "No job has anything here." } }
            @else { ul.plain { @for (user, holdings) in &users { li { (held_by(*user, holdings, usage)) } } } }
            (group_limits(usage))
        }
    }
}

fn held_by(user: Option<&UserName>, holdings: &UserHoldings<'_>, usage: &[UsageView]) -> Markup {
    let own = |view: &&UsageView| match (&view.subject, user) {
        (UsageSubject::User(of), Some(user)) => of == user,
        _ => false,
    };
    html! {
        details {
            summary {
                @match user { Some(user) => { strong { (user.as_str()) } } None => { "Users whose jobs you do not see" } }
                " " (holdings.devices) " devices"
                @if user.is_some() { " in " (holdings.jobs.len()) @if holdings.jobs.len() == 1 { " job" } @else { " jobs" } }
                @if holdings.borrowed > 0 { ", " (holdings.borrowed) " of them borrowed" }
                @for view in usage.iter().filter(own) { ". " (left(view)) }
            }
            ul { @for one in &holdings.jobs { li { (devices_of(one)) } } }
        }
    }
}

fn devices_of(one: &CellUser) -> Markup {
    html! {
        @if let Some(job) = &one.job { (job_list::link(job)) ": " }
        @if one.places.is_empty() { "no devices" }
        @for (at, place) in one.places.iter().enumerate() {
            @if at > 0 { "; " }
            a href={ "/nodes/" (place.node) } { (place.node) } " " (place.leaf_type) " " (indices(&place.indices))
        }
        @if one.borrowed > 0 { span.warn { " (" (one.borrowed) " borrowed)" } }
    }
}

/// `0-3, 6`
fn indices(all: &BTreeSet<u32>) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for index in all {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => spans.push((*index, *index)),
        }
    }
    let spans = spans.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    spans.collect::<Vec<_>>().join(", ")
}

/// What the limits leave, as a sentence.
fn left(view: &UsageView) -> String {
    let mut parts = Vec::new();
    if let Some(gpus) = view.gpus {
        let left = gpus.most.saturating_sub(gpus.used);
        parts.push(format!("{left} of {} GPUs", gpus.most));
    }
    if let Some(jobs) = view.jobs {
        let left = jobs.most.saturating_sub(jobs.used);
        parts.push(format!("{left} of {} jobs", jobs.most));
    }
    if let Some(hours) = view.gpu_hours {
        let left = hours.left_ms() / HOUR_MS;
        parts.push(format!("{left} of {} GPU hours", hours.most));
    }
    format!("Quota left: {}", parts.join(", "))
}

fn group_limits(usage: &[UsageView]) -> Markup {
    let groups = usage
        .iter()
        .filter(|view| matches!(view.subject, UsageSubject::Group(_)));
    let groups: Vec<_> = groups.collect();
    html! {
        @if !groups.is_empty() {
            h3 { "Limits of groups" }
            ul.plain { @for view in groups { li { (view.subject.to_string()) ". " (left(view)) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_told_as_spans() {
        for (all, text) in [
            (&[0, 1, 2, 3, 6][..], "0-3, 6"),
            (&[5], "5"),
            (&[1, 3, 4], "1, 3-4"),
            (&[], ""),
        ] {
            assert_eq!(indices(&all.iter().copied().collect()), text);
        }
    }
}
