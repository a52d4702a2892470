//! An explanation as the end of a sentence.

use muster_model::time::Time;

use super::{Constraint, WaitExplanation};
use crate::decide::{WaitReason, demands_rack};
use crate::gang::{Gang, GangMember, GangNumber};

/// Gangs named in one sentence at most.
const NAMED_MAX: usize = 3;

impl WaitExplanation {
    /// Why the gang waits, so that `It ...` before it is a sentence. `name` is what users call a
    /// gang; none for one that is not theirs to know.
    pub fn sentence(&self, now: Time, name: &dyn Fn(GangNumber) -> Option<String>) -> String {
        let wants = wants(&self.gang);
        let held = in_use_by(self, name);
        match &self.constraint {
            Constraint::Refused(why) => why.to_string(),
            Constraint::TooLarge => {
                format!("asks for {wants}, which is not there even when everything has ended")
            }
            Constraint::Unbound => match &self.waiting {
                Some(why @ WaitReason::Unbound { .. }) => format!("needs {wants}; {why}"),
                _ => format!("needs {wants}; its virtual cluster is not bound to all cells yet"),
            },
            Constraint::GivingWay(gangs) => format!("waits for {} to give way", names(gangs, name)),
            Constraint::Turn(Some(gang)) => {
                format!("waits for its turn behind {}", names(&[*gang], name))
            }
            Constraint::Kept(gang) => format!(
                "would fit, but room is kept for {}, which was passed for too long",
                names(&[*gang], name)
            ),
            Constraint::Turn(None) => "waits for its turn".to_owned(),
            Constraint::Topology => {
                let is_near = |member: &GangMember| member.near.is_some() && !is_spread(member);
                let near = match self.gang.members.iter().any(is_near) {
                    true => " as near together as it asks",
                    false => "",
                };
                format!(
                    "needs {wants}{near}{}; it would fit without that{held}",
                    missing(self)
                )
            }
            Constraint::Hardware { troubles, alone } => {
                let cells = troubles.in_words("such ");
                let rest = match alone {
                    true => format!("; it can start {}", troubles.until()),
                    false => ", and others hold the rest".to_owned(),
                };
                format!("needs {wants}; {cells}{rest}{held}")
            }
            Constraint::Machines => match &self.waiting {
                Some(why) => format!("{why}{held}"),
                None => format!("needs more than is free on one node{held}"),
            },
            Constraint::Fixed(until) => {
                let seconds = until.micros_since(now).div_ceil(1_000_000);
                format!(
                    "needs {wants}; less important jobs in its way may run undisturbed for \
                     another {seconds} s{held}"
                )
            }
            Constraint::Fragmented => {
                format!(
                    "needs {wants} together; enough are free, but not together{}{held}",
                    missing(self)
                )
            }
            Constraint::Quota | Constraint::Idle => {
                format!("needs {wants}{}{held}", missing(self))
            }
        }
    }
}

/// `4 V100 on one node`, or `2 times 4 V100`.
fn wants(gang: &Gang) -> String {
    let each = gang.members.iter().map(|member| {
        let cells = match (&*member.leaf_type, member.leaves) {
            ("", 1) => "1 device".to_owned(),
            ("", leaves) => format!("{leaves} devices"),
            (leaf_type, leaves) => format!("{leaves} {leaf_type}"),
        };
        match (member.pods, gang.members.len()) {
            (1, 1) => format!("{cells} on one node"),
            (1, _) => cells,
            (pods, _) if is_spread(member) => format!("{pods} times {cells} in one rack"),
            (pods, _) => format!("{pods} times {cells}"),
        }
    });
    each.collect::<Vec<_>>().join(" and ")
}

/// Whether several pods must lie in one rack.
fn is_spread(member: &GangMember) -> bool {
    member.pods > 1 && demands_rack(member)
}

/// `; 2 of 4 are missing on n1 in rack r2`.
fn missing(told: &WaitExplanation) -> String {
    let lacks = told.lacking.lacks.iter().take(NAMED_MAX);
    let each = lacks.map(|lack| {
        let rack = lack.rack.as_ref();
        let rack = rack.map_or_else(String::new, |rack| format!(" in rack {rack}"));
        format!(
            "{} of {} are missing on {}{rack}",
            lack.missing, lack.wanted, lack.node
        )
    });
    let all: Vec<String> = each.collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("; {}", all.join(", ")),
    }
}

/// ` (in use by ada~train)`.
fn in_use_by(told: &WaitExplanation, name: &dyn Fn(GangNumber) -> Option<String>) -> String {
    let gangs: Vec<GangNumber> = told
        .lacking
        .holders
        .iter()
        .map(|holder| holder.gang)
        .collect();
    match gangs.is_empty() {
        true => String::new(),
        false => format!(" (in use by {})", names(&gangs, name)),
    }
}

fn names(gangs: &[GangNumber], name: &dyn Fn(GangNumber) -> Option<String>) -> String {
    let mut known: Vec<String> = Vec::new();
    for gang in gangs {
        let name = name(*gang).unwrap_or_else(|| "another job".to_owned());
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let more = known.len().saturating_sub(NAMED_MAX);
    known.truncate(NAMED_MAX);
    match more {
        0 => known.join(", "),
        more => format!("{} and {more} more", known.join(", ")),
    }
}
