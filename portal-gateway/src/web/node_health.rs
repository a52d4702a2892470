//! How a node is: what is wrong with it, each with what shows it.

use maud::{Markup, html};
use muster_model::alarm::{Alarm, AlarmSubject};
use muster_model::finding::{Finding, Grade};
use muster_model::known_node::KnownNode;
use muster_model::mesh::{Health, MemberView};

use super::{chip, frame, moment, node_list};

/// All that tells how a node is.
pub(super) struct NodeHealth<'a> {
    pub(super) member: &'a MemberView,
    /// As leaders know it.
    pub(super) known: Option<&'a KnownNode>,
    /// All alarms that stand.
    pub(super) alarms: &'a [Alarm],
    /// What its agent checks, if it is this node.
    pub(super) checks: Option<&'a Health>,
}

/// The card: all is well, or what is not.
pub(super) fn card(health: &NodeHealth<'_>) -> Markup {
    let now = frame::now_ms();
    let wrong = node_list::wrong(health.member, health.known);
    let own = health
        .alarms
        .iter()
        .filter(|alarm| is_of(alarm, &health.member.name));
    let alarms: Vec<&Alarm> = own.collect();
    let is_well = wrong.is_empty() && alarms.is_empty();
    let has = health.known.and_then(|node| node.has.as_ref());
    html! {
        section class=(if is_well { "card" } else { "card warn" }) {
            h2 { "Health" }
            @if is_well { p { (chip::word(true, "well")) " Nothing is known to be wrong with it." } }
            @else { ul { @for text in &wrong { li { (text) } } } }
            @for alarm in &alarms { p { strong { (alarm.text) } " " span.dim { "since " (moment::past(alarm.at_ms, now)) } } }
            @if let Some(has) = has { p.dim { "Its last report to a leader: " (moment::long(has.silent_ms)) " ago. A node that has nothing new to say is silent." } }
            @if let Some(checks) = health.checks { (checked(checks)) }
        }
    }
}

fn is_of(alarm: &Alarm, name: &str) -> bool {
    matches!(&alarm.subject, AlarmSubject::Member(member) if member == name)
}

/// What the agent of this node looks at all the time.
fn checked(health: &Health) -> Markup {
    let worst = health.checks.iter().map(|it| it.grade).max();
    html! {
        details open[worst.is_some_and(|grade| grade > Grade::Ok)] {
            summary { "What its agent checks all the time" }
            div.wide tabindex="0" role="region" aria-label="Checks" { table {
                thead { tr { th scope="col" { "Check" } th scope="col" { "How it is" } th scope="col" { "What was seen" } } }
                tbody { @for one in &health.checks { (row(one)) } }
            } }
        }
    }
}

fn row(finding: &Finding) -> Markup {
    html! {
        tr {
            td { (finding.check) " " span.dim { (finding.subject) } }
            td { @match finding.grade {
                Grade::Ok => { (chip::word(true, "ok")) }
                Grade::Warn => { span.chip.warn { "warn" } }
                Grade::Fail => { (chip::word(false, "fail")) }
            } }
            td { (finding.evidence) @if !finding.remedy.is_empty() { div { "What to do: " (finding.remedy) } } }
        }
    }
}
