//! The list of checks, made of what stands.

use std::collections::BTreeMap;

use muster_model::health::{HealthCheck, HealthState, HealthSubject, Quarantine, Remedy};

use super::memory::{Hold, PartMemory, Standing};
use super::{HealthJudge, HealthOutput};
use crate::health::rules::{RecoveryRule, advice};

/// The name of the check that a person's hold makes.
pub const HELD: &str = "held";
/// The name of the check of the driver's recovery action.
pub(super) const RECOVERY: &str = "recovery-action";

impl HealthJudge {
    /// All checks that are known, also good ones.
    pub fn checks(&self) -> Vec<HealthCheck> {
        let checks = self.memory.parts.iter().flat_map(|part| {
            let standing = part.standing.iter();
            let of_rules = standing.filter_map(|(name, standing)| self.check(part, name, standing));
            let held = part.hold.iter().map(|hold| self.held(part, hold));
            of_rules.chain(held)
        });
        checks.collect()
    }

    fn check(&self, part: &PartMemory, name: &str, standing: &Standing) -> Option<HealthCheck> {
        let rule = self.rules.of_code(name)?;
        let action = self.rules.of_recovery(part.action);
        let is_trouble = standing.state > HealthState::Unknown;
        let (mut quarantine, mut remedy) = match action {
            Some(action) if name == RECOVERY => (action.quarantine, action.remedy),
            _ => (rule.quarantine, by_authority(rule.remedy, action)),
        };
        // Of a line that names no device nobody knows which one it is.
        if part.subject == HealthSubject::Machine && quarantine == Quarantine::Device {
            quarantine = Quarantine::Node;
        }
        if standing.is_mild || !is_trouble {
            quarantine = Quarantine::None;
            remedy = Remedy::Nothing;
        }
        Some(HealthCheck {
            name: name.to_owned(),
            subject: self.named(&part.subject),
            state: standing.state,
            evidence: standing.evidence.clone(),
            since_ms: standing.since_ms,
            clears: rule.clears.sentence(rule.sticky_s),
            shadow: rule.shadow,
            remedy,
            advice: advice(remedy).to_owned(),
            quarantine,
            held_back: None,
        })
    }

    fn held(&self, part: &PartMemory, hold: &Hold) -> HealthCheck {
        let quarantine = match part.subject {
            HealthSubject::Machine => Quarantine::Node,
            HealthSubject::Device { .. } => Quarantine::Device,
            HealthSubject::FabricPort { .. } => Quarantine::Links,
        };
        HealthCheck {
            name: HELD.to_owned(),
            subject: self.named(&part.subject),
            state: HealthState::Bad,
            evidence: format!("{} keeps it out of use: {}", hold.by, hold.why),
            since_ms: hold.since_ms,
            clears: "A person who releases it.".to_owned(),
            shadow: false,
            remedy: Remedy::Inspect,
            advice: format!("Ask {}; release it when it is well.", hold.by),
            quarantine,
            held_back: None,
        }
    }

    /// The part with the name that it is granted by, if there is one name.
    pub(super) fn named(&self, subject: &HealthSubject) -> HealthSubject {
        let Some(pci) = subject.pci() else {
            return subject.clone();
        };
        let mut ids = self.devices.iter().filter(|device| device.pci == pci);
        let id = ids.next().map(|device| device.id.clone());
        HealthSubject::Device {
            pci: Some(pci.to_owned()),
            id: id.filter(|_| ids.next().is_none()),
        }
    }

    /// Says which checks are not what they were.
    pub(super) fn differences(&self, before: Vec<HealthCheck>, out: &mut Vec<HealthOutput>) {
        let after = self.checks();
        let (was, is) = (by_place(&before), by_place(&after));
        let is_new = |check: &&HealthCheck| {
            let same = was.get(&place(check));
            !same.is_some_and(|same| same.contains(check))
        };
        let changed = after.iter().filter(is_new);
        out.extend(changed.cloned().map(HealthOutput::Changed));
        let gone = before
            .iter()
            .filter(|check| !is.contains_key(&place(check)));
        out.extend(gone.cloned().map(HealthOutput::Cleared));
    }
}

/// What a check is of: its name, and its part. The name of a device may become known in between, so the PCI address
/// stands for the part where there is one.
type CheckPlace<'a> = (&'a str, Option<&'a str>, Option<&'a HealthSubject>);

fn place(check: &HealthCheck) -> CheckPlace<'_> {
    let pci = check.subject.pci();
    let subject = Some(&check.subject).filter(|_| pci.is_none());
    (&check.name, pci, subject)
}

fn by_place(checks: &[HealthCheck]) -> BTreeMap<CheckPlace<'_>, Vec<&HealthCheck>> {
    let mut places: BTreeMap<CheckPlace<'_>, Vec<&HealthCheck>> = BTreeMap::new();
    for check in checks {
        places.entry(place(check)).or_default().push(check);
    }
    places
}

/// The driver's word decides the remedy, except where a person has to look at the device.
fn by_authority(remedy: Remedy, action: Option<&RecoveryRule>) -> Remedy {
    let is_for_person = remedy >= Remedy::Inspect;
    let is_reset = remedy >= Remedy::DrainLinks;
    match action {
        Some(action) if is_reset && !is_for_person => action.remedy,
        _ => remedy,
    }
}
