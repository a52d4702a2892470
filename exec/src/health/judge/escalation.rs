//! Signs that repeat: what alone is a program's fault, or ended by a reset, says more when it
//! comes again.

use std::collections::BTreeSet;

use muster_model::health::{HealthState, HealthSubject, Remedy};

use super::HealthJudge;
use super::check::RECOVERY;
use super::event::RESETTING;
use super::memory::{PartMemory, PastEvent};
use crate::health::rules::{Escalation, EscalationCount};

impl HealthJudge {
    /// Notes that a fault needs a reset, unless another one does already.
    pub(super) fn count_reset(&mut self, at_ms: u64, subject: &HealthSubject, name: &str) {
        let action = self.memory.part(subject).action;
        let is_other_action = name == RECOVERY && !RESETTING.contains(&action);
        if is_other_action || !self.needs_reset(name) {
            return;
        }
        let standing = &self.memory.part(subject).standing;
        let bad = standing.iter().filter(|(other, standing)| {
            other.as_str() != name && standing.state == HealthState::Bad
        });
        let others: Vec<String> = bad.map(|(other, _)| other.clone()).collect();
        if others.iter().any(|other| self.needs_reset(other)) {
            return;
        }
        self.memory.part(subject).resets.push(at_ms);
        self.escalate(at_ms, subject);
    }

    fn needs_reset(&self, name: &str) -> bool {
        let rule = self.rules.of_code(name).filter(|rule| !rule.shadow);
        rule.is_some_and(|rule| matches!(rule.remedy, Remedy::ResetDevice | Remedy::DrainAndReset))
    }

    /// Raises what repeats. Windows end at the time of the event.
    pub(super) fn escalate(&mut self, at_ms: u64, subject: &HealthSubject) {
        let escalations: Vec<Escalation> = self.rules.escalation.values().cloned().collect();
        let widest_s = escalations.iter().map(|it| it.window_s).max().unwrap_or(0);
        let part = self.memory.part(subject);
        let oldest = at_ms.saturating_sub(widest_s.saturating_mul(1000));
        part.resets.retain(|reset| *reset >= oldest);
        part.past.retain(|event| event.at_ms >= oldest);
        for escalation in escalations {
            let part = self.memory.part(subject);
            if let Some(evidence) = escalation.evidence(part, at_ms) {
                self.raise(at_ms, subject, &escalation.raises, evidence);
            }
        }
    }
}

impl Escalation {
    /// What repeats, if it does.
    fn evidence(&self, part: &PartMemory, at_ms: u64) -> Option<String> {
        let from = at_ms.saturating_sub(self.window_s.saturating_mul(1000));
        let hours = self.window_s / 3600;
        if self.counts == EscalationCount::Resets {
            let resets = part.resets.iter().filter(|reset| **reset >= from).count();
            let said = format!("It needed a reset {resets} times in {hours} hours.");
            return (resets >= self.count).then_some(said);
        }
        let counts = |event: &&PastEvent| {
            let is_of = self.of.contains(&event.code);
            event.at_ms >= from && (is_of || (self.of.is_empty() && event.is_fatal))
        };
        let incidents = self.incidents(part.past.iter().filter(counts));
        match self.counts {
            EscalationCount::Places => {
                let (place, number) = one_place(&incidents)?;
                let said = format!("{number} incidents in {hours} hours, all at {place}.");
                (number >= self.count).then_some(said)
            }
            EscalationCount::Users => {
                let users: BTreeSet<&str> = incidents
                    .iter()
                    .flatten()
                    .filter_map(|event| event.user.as_deref())
                    .collect();
                let number = users.len();
                let said = format!("Programs of {number} users failed in {hours} hours.");
                (number >= self.count).then_some(said)
            }
            EscalationCount::Incidents => {
                let number = incidents.len();
                let said = format!("{number} fatal incidents in {hours} hours.");
                (number >= self.count).then_some(said)
            }
            EscalationCount::Resets => None,
        }
    }

    /// Events in incidents: one begins when the time of a burst is over since the first event of
    /// the one before.
    fn incidents<'a>(
        &self,
        events: impl Iterator<Item = &'a PastEvent>,
    ) -> Vec<Vec<&'a PastEvent>> {
        let mut incidents: Vec<Vec<&PastEvent>> = Vec::new();
        for event in events {
            let begun = incidents.last().and_then(|incident| incident.first());
            let burst_ms = self.burst_s.saturating_mul(1000);
            let is_new =
                begun.is_none_or(|first| event.at_ms >= first.at_ms.saturating_add(burst_ms));
            match incidents.last_mut() {
                Some(incident) if !is_new => incident.push(event),
                _ => incidents.push(vec![event]),
            }
        }
        incidents
    }
}

/// The place at which all incidents were, and how many. A program's own fault comes up wherever
/// the program happens to run; incidents that tell no place do not count.
fn one_place(incidents: &[Vec<&PastEvent>]) -> Option<(String, usize)> {
    let places = |incident: &Vec<&PastEvent>| -> BTreeSet<String> {
        incident
            .iter()
            .filter_map(|event| event.place.clone())
            .collect()
    };
    let located: Vec<BTreeSet<String>> = incidents.iter().map(places).collect();
    let all: BTreeSet<&String> = located.iter().flatten().collect();
    let mut places = all.into_iter();
    let place = places.next()?;
    let number = located.iter().filter(|places| !places.is_empty()).count();
    places.next().is_none().then(|| (place.clone(), number))
}
