//! The breaker of a cluster's quarantines: rules that suddenly take many devices out of use are
//! wrong more often than the devices are. It is a pure state machine, kept where the quarantines
//! of a cluster are counted.
//!
//! It holds back new quarantines of rules only. It clears nothing, blocks no clearing, and has no
//! say in what a person holds.

use std::collections::BTreeMap;

use muster_model::health::{HealthCheck, HealthSubject, Quarantine};
use serde::{Deserialize, Serialize};

/// When the breaker holds back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerLimits {
    /// The time in which quarantines are counted, seconds.
    pub window_s: u64,
    /// The share of the cluster's devices that rules may quarantine in that time, percent.
    pub share_percent: u32,
    /// How many devices rules may quarantine in that time, whatever their share is.
    pub devices_free: u32,
    /// Clusters with fewer devices have no breaker: one machine is a large share of them.
    pub cluster_devices_min: u32,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self {
            window_s: 300,
            share_percent: 20,
            devices_free: 8,
            cluster_devices_min: 32,
        }
    }
}

/// What one quarantine takes out of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineRequest {
    /// The machine.
    pub node: String,
    /// The part of it.
    pub subject: HealthSubject,
    /// How many devices it takes out of use.
    pub devices: u32,
    /// Whether a person asks for it.
    pub by_person: bool,
}

/// Quarantines of a cluster, as far as they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineBreaker {
    /// When each part was quarantined, milliseconds since the epoch, and how many devices that
    /// took.
    admitted: BTreeMap<String, (u64, u32)>,
}

impl QuarantineBreaker {
    /// Whether a quarantine may be done; the error says why it is held back. A part that is
    /// quarantined stays admitted for as long as it is not cleared, so it may be asked for at
    /// every look.
    ///
    /// # Errors
    /// When it is held back. The check stays, marked by [`QuarantineBreaker::mark`].
    pub fn admit(
        &mut self,
        now_ms: u64,
        request: &QuarantineRequest,
        cluster_devices: u32,
        limits: &BreakerLimits,
    ) -> Result<(), String> {
        let key = key(&request.node, &request.subject);
        if request.by_person || self.admitted.contains_key(&key) {
            return Ok(());
        }
        let window_ms = limits.window_s.saturating_mul(1000);
        let is_recent = |at_ms: u64| now_ms.saturating_sub(at_ms) < window_ms;
        let recent = self
            .admitted
            .values()
            .filter(|(at_ms, _)| is_recent(*at_ms));
        let recent: u32 = recent.map(|(_, devices)| *devices).sum();
        let sum = recent.saturating_add(request.devices);
        let share =
            u64::from(sum) * 100 > u64::from(cluster_devices) * u64::from(limits.share_percent);
        let is_on = cluster_devices >= limits.cluster_devices_min;
        if is_on && share && sum > limits.devices_free {
            return Err(format!(
                "Rules have quarantined {recent} of {cluster_devices} devices within {} seconds; \
                 more are held back. Look whether the rule is right.",
                limits.window_s
            ));
        }
        self.admitted.insert(key, (now_ms, request.devices));
        Ok(())
    }

    /// A quarantine is over. This is never held back.
    pub fn clear(&mut self, node: &str, subject: &HealthSubject) {
        self.admitted.remove(&key(node, subject));
    }

    /// A machine has left the cluster.
    pub fn forget(&mut self, node: &str) {
        self.admitted
            .retain(|key, _| !key.starts_with(&format!("{node} ")));
    }

    /// Asks for the quarantine of a check, and marks the check if it is held back. Checks that
    /// quarantine nothing stay as they are.
    pub fn mark(
        &mut self,
        now_ms: u64,
        check: &mut HealthCheck,
        request: &QuarantineRequest,
        cluster: (u32, &BreakerLimits),
    ) {
        check.held_back = None;
        if matches!(check.effect(), Quarantine::None | Quarantine::Links) {
            return;
        }
        let (devices, limits) = cluster;
        check.held_back = self.admit(now_ms, request, devices, limits).err();
    }
}

/// A machine's name has no space.
fn key(node: &str, subject: &HealthSubject) -> String {
    format!("{node} {subject}")
}

#[cfg(test)]
mod tests {
    use muster_model::health::{HealthState, Remedy};

    use super::*;

    fn request(node: u32) -> QuarantineRequest {
        QuarantineRequest {
            node: format!("n{node}"),
            subject: HealthSubject::at("0000:1a:00.0"),
            devices: 1,
            by_person: false,
        }
    }

    fn limits() -> BreakerLimits {
        BreakerLimits::default()
    }

    /// Asks for one device on each of so many machines; how many were admitted.
    fn admitted(breaker: &mut QuarantineBreaker, now_ms: u64, ask: u32, cluster: u32) -> u32 {
        let asked = (0..ask).filter(|node| {
            let request = request(*node);
            breaker.admit(now_ms, &request, cluster, &limits()).is_ok()
        });
        u32::try_from(asked.count()).unwrap()
    }

    /// How many devices the cluster has, how many quarantines are asked for, how many are done.
    #[test]
    fn share_and_number_hold_back_together() {
        for (cluster, ask, expect) in [
            (8, 8, 8),
            (31, 31, 31),
            (32, 32, 8),
            (40, 40, 8),
            (100, 100, 20),
            (1000, 150, 150),
            (1000, 500, 200),
        ] {
            let mut breaker = QuarantineBreaker::default();
            let found = admitted(&mut breaker, 0, ask, cluster);
            assert_eq!(found, expect, "{ask} of {cluster}");
        }
    }

    #[test]
    fn after_the_window_more_may_follow() {
        let mut breaker = QuarantineBreaker::default();
        assert_eq!(admitted(&mut breaker, 0, 100, 100), 20);
        assert_eq!(admitted(&mut breaker, 299_999, 100, 100), 20);
        // The first twenty are asked for again, and stand; as many others follow.
        assert_eq!(admitted(&mut breaker, 300_000, 100, 100), 40);
    }

    #[test]
    fn a_quarantine_that_stands_is_never_held_back() {
        let mut breaker = QuarantineBreaker::default();
        admitted(&mut breaker, 0, 100, 100);
        assert!(breaker.admit(1, &request(0), 100, &limits()).is_ok());
        assert!(breaker.admit(1, &request(99), 100, &limits()).is_err());
        breaker.clear("n0", &request(0).subject);
        assert!(breaker.admit(1, &request(99), 100, &limits()).is_ok());
        assert!(breaker.admit(1, &request(0), 100, &limits()).is_err());
        breaker.forget("n1");
        assert!(breaker.admit(1, &request(0), 100, &limits()).is_ok());
    }

    #[test]
    fn a_person_is_never_held_back_and_does_not_count() {
        let mut breaker = QuarantineBreaker::default();
        for node in 0..100 {
            let mut request = request(node);
            request.by_person = true;
            assert!(breaker.admit(0, &request, 100, &limits()).is_ok());
        }
        assert_eq!(admitted(&mut breaker, 0, 20, 100), 20);
    }

    #[test]
    fn a_check_that_is_held_back_stays_and_says_so() {
        let mut check = HealthCheck {
            name: "xid 48".to_owned(),
            subject: HealthSubject::at("0000:1a:00.0"),
            state: HealthState::Bad,
            evidence: "seen".to_owned(),
            since_ms: 0,
            clears: "reset".to_owned(),
            shadow: false,
            remedy: Remedy::ResetDevice,
            advice: String::new(),
            quarantine: Quarantine::Device,
            held_back: None,
        };
        let mut breaker = QuarantineBreaker::default();
        admitted(&mut breaker, 0, 20, 100);
        breaker.mark(1, &mut check, &request(50), (100, &limits()));
        let why = check.held_back.clone().unwrap();
        assert!(
            why.contains("20 of 100 devices within 300 seconds"),
            "{why}"
        );
        assert_eq!(
            (check.state, check.effect()),
            (HealthState::Bad, Quarantine::None)
        );
        breaker.mark(300_001, &mut check, &request(50), (100, &limits()));
        assert_eq!(
            (check.held_back.as_deref(), check.effect()),
            (None, Quarantine::Device)
        );
        check.shadow = true;
        breaker.mark(300_002, &mut check, &request(51), (100, &limits()));
        assert!(!breaker.admitted.contains_key("n51 0000:1a:00.0"));
    }
}
