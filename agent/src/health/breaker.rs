//! The answers of the cluster's breaker on the parts of this node that rules quarantine.
//!
//! A part without an answer is quarantined. A part that the breaker admitted stays quarantined until
//! its checks are cleared, whatever later answers say.

use muster_control::breaker::{BreakerReview, HeldBackPart, NodeQuarantines, QuarantinedPart};
use muster_exec::health::judge::HELD;
use muster_model::health::{HealthCheck, HealthSubject, Quarantine};
use muster_model::node::Capacity;
use serde::{Deserialize, Serialize};

use super::keeps;

/// Checks that say that a device cannot be used at all: it is gone, or its driver does not answer.
const GONE: [&str; 4] = ["xid 79", "gpu-gone", "kfd-gone", "driver-silent"];

/// The breaker's newest answer on each part of this node that rules quarantine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BreakerWords {
    parts: Vec<BreakerWord>,
}

/// The breaker's answer on one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BreakerWord {
    subject: HealthSubject,
    /// When this answer came first, milliseconds since the epoch.
    since_ms: u64,
    /// Why the part is not quarantined; none if it is.
    held_back: Option<String>,
}

impl BreakerWords {
    /// What the breaker is to be asked. Words on parts that are quarantined no more are forgotten.
    pub(crate) fn ask(
        &mut self,
        now_ms: u64,
        (checks, capacity): (&[HealthCheck], &Capacity),
    ) -> NodeQuarantines {
        let subjects = subjects(checks);
        self.parts.retain(|word| subjects.contains(&word.subject));
        let parts = subjects.into_iter().filter_map(|subject| {
            let devices = devices(&subject, checks, capacity)?;
            let admitted = self.admitted(&subject);
            Some(QuarantinedPart {
                subject,
                devices,
                admitted_for_ms: admitted.map(|since_ms| now_ms.saturating_sub(since_ms)),
            })
        });
        let parts: Vec<QuarantinedPart> = parts.collect();
        let devices = capacity.devices.iter().filter(|one| !one.simulated);
        NodeQuarantines {
            devices: number(devices.count()),
            parts,
        }
    }

    /// Takes the answer. Whether anything is otherwise than before.
    pub(crate) fn answered(
        &mut self,
        now_ms: u64,
        asked: &NodeQuarantines,
        review: BreakerReview,
    ) -> bool {
        let BreakerReview::HeldBack(held_back) = review else {
            return false;
        };
        let before = self.clone();
        for part in &asked.parts {
            if self.admitted(&part.subject).is_some() {
                continue;
            }
            let why = held_back
                .iter()
                .find(|it| it.subject == part.subject)
                .map(|HeldBackPart { why, .. }| why.clone());
            self.parts.retain(|word| word.subject != part.subject);
            self.parts.push(BreakerWord {
                subject: part.subject.clone(),
                since_ms: now_ms,
                held_back: why,
            });
        }
        *self != before
    }

    /// Marks the checks whose quarantine is held back.
    pub(crate) fn mark(&self, checks: &mut [HealthCheck]) {
        for check in checks.iter_mut().filter(|check| may_be_held_back(check)) {
            let subject = place(&check.subject);
            let word = self.parts.iter().find(|word| word.subject == subject);
            check.held_back = word.and_then(|word| word.held_back.clone());
        }
    }

    /// How many parts are held back.
    pub(crate) fn held_back(&self) -> usize {
        let words = self.parts.iter();
        words.filter(|word| word.held_back.is_some()).count()
    }

    /// Since when a part is admitted.
    fn admitted(&self, subject: &HealthSubject) -> Option<u64> {
        let mut words = self.parts.iter();
        let word = words.find(|word| word.subject == *subject && word.held_back.is_none());
        word.map(|word| word.since_ms)
    }
}

/// A part by its place: the name that a device is granted by may become known later.
fn place(subject: &HealthSubject) -> HealthSubject {
    match subject.pci() {
        Some(pci) => HealthSubject::at(pci),
        None => subject.clone(),
    }
}

fn may_be_held_back(check: &HealthCheck) -> bool {
    check.name != HELD && !GONE.contains(&&*check.name)
}

/// The parts that checks quarantine, the one first that has been so for longest.
fn subjects(checks: &[HealthCheck]) -> Vec<HealthSubject> {
    let quarantining = checks
        .iter()
        .filter(|check| check.effect() != Quarantine::None);
    let mut quarantining: Vec<&HealthCheck> = quarantining.collect();
    quarantining.sort_by_key(|check| check.since_ms);
    let mut subjects = Vec::new();
    for check in quarantining {
        let subject = place(&check.subject);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

/// How many devices a part's rules take out of use; none if that is none, or if the part is out of
/// use whatever rules say.
fn devices(subject: &HealthSubject, checks: &[HealthCheck], capacity: &Capacity) -> Option<u32> {
    let own = |check: &&HealthCheck| place(&check.subject) == *subject;
    let own: Vec<&HealthCheck> = checks
        .iter()
        .filter(|check| check.effect() != Quarantine::None)
        .filter(own)
        .collect();
    if own.iter().any(|check| !may_be_held_back(check)) {
        return None;
    }
    let real = capacity.devices.iter().filter(|one| !one.simulated);
    let taken = real.filter(|device| own.iter().any(|check| keeps(check, device)));
    Some(number(taken.count())).filter(|devices| *devices > 0)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use muster_control::breaker::QuarantineBreaker;
    use muster_model::health::{HealthState, Remedy};
    use muster_model::id::NodeId;
    use muster_model::node::Device;
    use muster_model::policy::BreakerPolicy;

    use super::*;

    fn pci(number: u32) -> String {
        format!("0000:{number:02x}:00.0")
    }

    fn capacity(devices: u32) -> Capacity {
        let device = |number| Device {
            pci: Some(pci(number)),
            simulated: false,
            ..Device::simulated(format!("GPU-{number}"), number, "A100")
        };
        Capacity {
            cpu: 1,
            memory_mb: 1,
            devices: (0..devices).map(device).collect(),
            levels: Vec::new(),
            port_first: 1,
            port_last: 1,
        }
    }

    fn check(name: &str, subject: HealthSubject, quarantine: Quarantine) -> HealthCheck {
        HealthCheck {
            name: name.to_owned(),
            subject,
            state: HealthState::Bad,
            evidence: "It was seen.".to_owned(),
            since_ms: 1,
            clears: String::new(),
            shadow: false,
            remedy: Remedy::Nothing,
            advice: String::new(),
            quarantine,
            held_back: None,
        }
    }

    fn bad(number: u32) -> HealthCheck {
        check("xid 48", HealthSubject::at(pci(number)), Quarantine::Device)
    }

    /// What is asked: each part with the number of its devices.
    fn asked(words: &mut BreakerWords, checks: &[HealthCheck]) -> Vec<String> {
        let told = words.ask(1000, (checks, &capacity(4)));
        assert_eq!(told.devices, 4);
        let parts = told.parts.into_iter();
        let parts = parts.map(|part| {
            let QuarantinedPart {
                subject,
                devices,
                admitted_for_ms,
            } = part;
            format!("{subject} {devices} {admitted_for_ms:?}")
        });
        parts.collect()
    }

    /// The breaker holds back these.
    fn review(words: &mut BreakerWords, now_ms: u64, checks: &[HealthCheck], numbers: &[u32]) {
        let told = words.ask(now_ms, (checks, &capacity(4)));
        let held_back = numbers.iter().map(|number| HeldBackPart {
            subject: HealthSubject::at(pci(*number)),
            why: "too many".to_owned(),
        });
        words.answered(now_ms, &told, BreakerReview::HeldBack(held_back.collect()));
    }

    /// Which checks are quarantined in fact.
    fn standing(words: &BreakerWords, checks: &[HealthCheck]) -> Vec<bool> {
        let mut checks = checks.to_vec();
        words.mark(&mut checks);
        let effects = checks.iter().map(|it| it.effect() != Quarantine::None);
        effects.collect()
    }

    #[test]
    fn rules_are_asked_for_and_persons_and_devices_that_are_gone_are_not() {
        let port = HealthSubject::FabricPort {
            device: "mlx5_0".to_owned(),
            port: 1,
        };
        let named = HealthSubject::Device {
            pci: Some(pci(1)),
            id: Some(muster_model::node::DeviceId("GPU-1".to_owned())),
        };
        let words = &mut BreakerWords::default();
        for (checks, expect) in [
            (vec![bad(0)], vec!["0000:00:00.0 1 None"]),
            (
                vec![check("xid 74", named, Quarantine::Links)],
                vec!["0000:01:00.0 1 None"],
            ),
            (
                vec![check("aer-fatal", HealthSubject::Machine, Quarantine::Node)],
                vec!["machine 4 None"],
            ),
            (vec![check("port-down", port, Quarantine::Links)], vec![]),
            (
                vec![check("held", HealthSubject::Machine, Quarantine::Node)],
                vec![],
            ),
            (
                vec![
                    bad(0),
                    check("xid 79", HealthSubject::at(pci(0)), Quarantine::Device),
                ],
                vec![],
            ),
            (
                vec![HealthCheck {
                    shadow: true,
                    ..bad(0)
                }],
                vec![],
            ),
        ] {
            assert_eq!(asked(words, &checks), expect, "{checks:?}");
        }
    }

    #[test]
    fn what_is_held_back_is_granted_until_it_is_admitted() {
        let words = &mut BreakerWords::default();
        let checks = [bad(0), bad(1)];
        assert_eq!(standing(words, &checks), [true, true]);
        let told = words.ask(500, (&checks, &capacity(4)));
        assert!(!words.answered(500, &told, BreakerReview::NotYet));
        assert_eq!(standing(words, &checks), [true, true]);
        review(words, 600, &checks, &[1]);
        assert_eq!(
            (standing(words, &checks), words.held_back()),
            (vec![true, false], 1)
        );
        let expect = ["0000:00:00.0 1 Some(400)", "0000:01:00.0 1 None"];
        assert_eq!(asked(words, &checks), expect);
        // What is admitted stays so, whatever is said.
        review(words, 700, &checks, &[0]);
        assert_eq!(
            (standing(words, &checks), words.held_back()),
            (vec![true, true], 0)
        );
    }

    #[test]
    fn what_is_cleared_is_forgotten() {
        let words = &mut BreakerWords::default();
        review(words, 600, &[bad(0), bad(1)], &[1]);
        assert_eq!(asked(words, &[bad(1)]), ["0000:01:00.0 1 None"]);
        assert_eq!(asked(words, &[]), [] as [&str; 0]);
        // It comes up again, and nothing was said of that.
        assert_eq!(standing(words, &[bad(0), bad(1)]), [true, true]);
        assert_eq!(asked(words, &[bad(0)]), ["0000:00:00.0 1 None"]);
    }

    #[test]
    fn a_person_s_word_stands_beside_a_rule_that_is_held_back() {
        let words = &mut BreakerWords::default();
        review(words, 600, &[bad(0)], &[0]);
        let held = check("held", HealthSubject::at(pci(0)), Quarantine::Device);
        assert_eq!(standing(words, &[bad(0), held]), [false, true]);
    }

    /// A node of a played cluster: one device, which a rule quarantines from the first second on.
    struct PlayedNode {
        name: NodeId,
        words: BreakerWords,
    }

    impl PlayedNode {
        /// Asks the leader. Questions and answers may be lost.
        fn asks(
            &mut self,
            now_ms: u64,
            breaker: &mut QuarantineBreaker,
            (question_lost, answer_lost): (bool, bool),
        ) {
            let checks = [bad(0)];
            let told = self.words.ask(now_ms, (&checks, &capacity(1)));
            if question_lost {
                return;
            }
            let policy = BreakerPolicy::default();
            let review = breaker.review(now_ms, (&self.name, &told), NODES, &policy);
            if !answer_lost {
                self.words.answered(now_ms, &told, review);
            }
        }

        fn is_admitted(&self) -> bool {
            self.words.admitted(&HealthSubject::at(pci(0))).is_some()
        }
    }

    const NODES: usize = 40;

    /// A cluster whose leader changes while a wrong rule quarantines all devices, over a network
    /// that loses messages.
    #[test]
    fn a_wrong_rule_takes_few_devices_of_a_cluster_whatever_its_leaders_and_network_do() {
        for seed in 1..=20 {
            let mut random: u128 = seed;
            let mut draw = |of: u64| {
                random = (random * 6_364_136_223_846_793_005_u128 + 1_442_695_040_888_963_407)
                    % (1 << 64);
                u64::try_from(random >> 33).unwrap() % of
            };
            let node = |number| PlayedNode {
                name: format!("n{number}").parse().unwrap(),
                words: BreakerWords::default(),
            };
            let mut nodes: Vec<PlayedNode> = (0..NODES).map(node).collect();
            let mut breaker = QuarantineBreaker::default();
            let (mut term, mut stood) = (1, [false; NODES]);
            for second in 0..300 {
                if draw(100) == 0 {
                    term += 1;
                }
                breaker.in_term(term, second * 1000);
                for (at, node) in nodes.iter_mut().enumerate() {
                    if draw(10) == 0 {
                        let lost = (draw(10) < 2, draw(10) < 2);
                        node.asks(second * 1000, &mut breaker, lost);
                    }
                    assert!(node.is_admitted() || !stood[at], "seed {seed}: n{at}");
                    stood[at] = node.is_admitted();
                }
            }
            let admitted = stood.iter().filter(|stands| **stands).count();
            assert!((1..=8).contains(&admitted), "seed {seed}: {admitted}");
        }
    }
}
