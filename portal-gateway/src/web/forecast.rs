//! What a job would take, and where and when it would start.

use maud::{Markup, html};
use muster_model::forecast::{ForecastOutcome, JobForecast, NodeShare};
use muster_model::id::TaskId;

use super::{explained, job_list};

/// Tasks of a node that are named at most.
const NAMED_MAX: usize = 8;

/// The card of a forecast.
pub(super) fn card(forecast: &JobForecast, now: u64) -> Markup {
    let class = match forecast.outcome {
        ForecastOutcome::Starts => "good",
        ForecastOutcome::StartsInPart
        | ForecastOutcome::Preempts
        | ForecastOutcome::Waits
        | ForecastOutcome::Unknown => "warn",
    };
    let takes = forecast.takes;
    html! {
        section.card role="status" {
            h2 { "What it would take" }
            p class=(class) { strong { (forecast.sentence()) } }
            @if let Some(turn) = forecast.turn() { p { (turn) } }
            dl.facts {
                dt { "Virtual cluster" } dd { a href={ "/virtual-clusters/" (forecast.vc.as_str()) } { (forecast.vc.as_str()) } }
                dt { "Tasks" } dd { (forecast.tasks) }
                dt { "GPUs" } dd { (takes.gpu) }
                dt { "Cores" } dd { (takes.cpu) }
                dt { "Memory" } dd { (takes.memory_mb) " MiB" }
            }
            @if !forecast.victims.is_empty() {
                p.warn { "These would give way: "
                    @for victim in &forecast.victims {
                        @match victim {
                            Some(job) => { (job_list::link(job)) }
                            None => { "a job that you do not see" }
                        }
                        " "
                    } }
            }
            @if !forecast.places.is_empty() { (places(forecast)) }
            @for gang in &forecast.gangs { (explained::gang_reason(gang, now)) }
            p.dim { "As things stand now: nothing is kept for it until it is submitted." }
        }
    }
}

fn places(forecast: &JobForecast) -> Markup {
    let told = u32::try_from(forecast.places.len()).unwrap_or(u32::MAX);
    let more = forecast.nodes.saturating_sub(told);
    html! {
        div.wide tabindex="0" role="region" aria-label="Where its tasks would start" { table {
            thead { tr { th { "Node" } th { "Tasks" } th { "Devices" } } }
            tbody { @for share in &forecast.places { tr {
                td { (share.node.as_str()) }
                td { (tasks(share)) }
                td { (devices(share)) }
            } } }
        } }
        @if more > 0 { p.dim { "and " (more) @if more == 1 { " more node" } @else { " more nodes" } } }
    }
}

fn tasks(share: &NodeShare) -> String {
    let named = share.tasks.iter().take(NAMED_MAX).map(TaskId::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    match share.tasks.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn devices(share: &NodeShare) -> String {
    let devices: Vec<String> = share.devices.iter().map(u32::to_string).collect();
    devices.join(", ")
}
