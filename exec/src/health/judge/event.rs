//! Events of the kernel's log.

use muster_model::health::{DeviceEvent, EventClass, HealthState, HealthSubject};

use super::check::RECOVERY;
use super::memory::PastEvent;
use super::{HealthJudge, HealthOutput, boundary};
use crate::health::kernel_log::KernelEvent;
use crate::health::rules::{ClearedBy, HealthRule};

/// Events of a part that are kept for escalations, at most.
const PAST_MAX: usize = 512;
/// Recovery actions that a reset of the GPU ends: reset, restart of the machine, drain
/// and reset.
pub(super) const RESETTING: [u32; 3] = [1, 2, 4];

impl HealthJudge {
    /// Judges an event. One that was judged before is left out, so that the log may be read
    /// again.
    pub(super) fn kernel(&mut self, event: &KernelEvent, out: &mut Vec<HealthOutput>) {
        let place = Some((event.sequence, event.line));
        if place <= self.memory.last {
            return;
        }
        self.memory.last = place;
        let Some(rule) = self.rules.of_code(&event.fact.code).cloned() else {
            return;
        };
        let is_mild = rule.milder_if_nonfatal && event.fact.fatal == Some(false);
        let class = if rule.shadow || is_mild {
            EventClass::Information
        } else {
            rule.class
        };
        out.push(HealthOutput::Event(DeviceEvent {
            subject: self.named(&event.fact.subject),
            at_ms: event.at_ms,
            code: event.fact.code.clone(),
            class,
            pid: event.fact.pid,
            text: event.text.clone(),
        }));
        let subject = self.key(&event.fact.subject);
        self.event_counts(event, &subject, &rule, is_mild);
    }

    /// What follows from an event.
    fn event_counts(
        &mut self,
        event: &KernelEvent,
        subject: &HealthSubject,
        rule: &HealthRule,
        is_mild: bool,
    ) {
        let at_ms = event.at_ms;
        for cancelled in &rule.cancels {
            self.memory.part(subject).standing.remove(cancelled);
        }
        if let Some(change) = event.fact.recovery {
            self.recovery(at_ms, subject, change.to);
        }
        if rule.state != HealthState::Good {
            self.stand_event(event, subject, rule, is_mild);
        }
        let is_link = rule.class == EventClass::Link;
        let is_fault = is_link || rule.class == EventClass::Hardware;
        let user = subject.pci().and_then(|pci| self.users.get(pci));
        // Where several users have partitions of a card, nobody is known to have caused it.
        let user = user.and_then(|users| match users.as_slice() {
            [one] => Some(one.clone()),
            _ => None,
        });
        let part = self.memory.part(subject);
        if !rule.shadow {
            part.past.push_back(PastEvent {
                at_ms,
                code: event.fact.code.clone(),
                place: event.fact.place.clone(),
                user,
                is_fatal: is_fault && rule.state == HealthState::Bad && !is_mild,
            });
        }
        if part.past.len() > PAST_MAX {
            part.past.pop_front();
        }
        self.escalate(at_ms, subject);
    }

    /// A check of an event: one that is not fatal does not make a fatal one milder.
    fn stand_event(
        &mut self,
        event: &KernelEvent,
        subject: &HealthSubject,
        rule: &HealthRule,
        is_mild: bool,
    ) {
        let (name, at_ms) = (event.fact.code.as_str(), event.at_ms);
        let state = if is_mild {
            HealthState::Warn
        } else {
            rule.state
        };
        if is_mild && self.memory.part(subject).state(name) > state {
            return;
        }
        let evidence = format!("{} The kernel's log: {}", rule.meaning, event.text);
        self.stand(at_ms, subject, name, (state, evidence));
        if let Some(standing) = self.memory.part(subject).standing.get_mut(name) {
            standing.is_mild = is_mild;
        }
    }

    /// The driver's word on what has to be done. That nothing has to be done any more after a
    /// reset was needed means that there was one.
    pub(super) fn recovery(&mut self, at_ms: u64, subject: &HealthSubject, action: u32) {
        let part = self.memory.part(subject);
        let earlier = part.action;
        part.gpu.recovered_looks = 0;
        if action == 0 && RESETTING.contains(&earlier) {
            boundary(&self.rules, part, ClearedBy::Reset);
        }
        let part = self.memory.part(subject);
        part.action = action;
        let Some(rule) = self.rules.of_recovery(action) else {
            self.well(at_ms, subject, RECOVERY);
            return;
        };
        let evidence = format!("The driver says: {} (action {action}).", rule.meaning);
        let state = rule.state;
        self.stand(at_ms, subject, RECOVERY, (state, evidence));
    }
}
