//! Looks at ports of the fabric. A port is judged by what it was and by what the others are.

use muster_model::health::{DeviceEvent, EventClass, HealthSubject};
use muster_model::inventory::LinkLayer;

use super::memory::PortMemory;
use super::{HealthJudge, boundary};
use crate::health::reading::PortReading;
use crate::health::rules::{ClearedBy, HealthLimits};

const ACTIVE: &str = "ACTIVE";
/// The code of the event that a port has no link now.
const PORT_LOST: &str = "port-lost";
const PORT_DOWN: &str = "port-down";

impl HealthJudge {
    pub(super) fn ports(&mut self, now_ms: u64, readings: &[PortReading]) {
        for reading in readings {
            let subject = HealthSubject::FabricPort {
                device: reading.device.clone(),
                port: reading.port,
            };
            let port = &mut self.memory.part(&subject).port;
            port.note(now_ms, reading, &self.rules.limits);
            let others = PortPeers::of(reading, readings);
            let looks = vec![
                ("port-fabric", reading.waits_for_fabric()),
                ("port-flaps", port.flaps(now_ms, &self.rules.limits)),
                (
                    "port-not-up",
                    port.never_up(reading, &others, &self.rules.limits),
                ),
                (
                    PORT_DOWN,
                    port.down(now_ms, reading, &others, &self.rules.limits),
                ),
            ];
            self.looked(now_ms, &subject, looks);
        }
        self.ports_missed(now_ms, readings);
    }

    /// Ports that were up and have no link now, as events for the ends of tasks. A task fails
    /// seconds after its port, long before the port is down for long enough to be quarantined. An
    /// outage that is over explains no later end, so nothing of it is kept.
    pub fn lost_ports(&self) -> Vec<DeviceEvent> {
        let rule = self.rules.of_code(PORT_DOWN);
        let class = rule.filter(|rule| !rule.shadow).map(|rule| rule.class);
        let parts = self.memory.parts.iter().filter(|part| part.port.was_up);
        let lost = parts.filter_map(|part| {
            Some(DeviceEvent {
                subject: part.subject.clone(),
                at_ms: part.port.is_down_since_ms?,
                code: PORT_LOST.to_owned(),
                class: class.unwrap_or(EventClass::Information),
                pid: None,
                text: format!("port {} has no link, and had one before", part.subject),
            })
        });
        lost.collect()
    }

    /// Forgets ports that are not among the accepted ones. One that is, and is down, stays down:
    /// to accept it repairs nothing. What a person holds stays held.
    pub(super) fn ports_accepted(&mut self, accepted: &[HealthSubject]) {
        self.memory.parts.retain_mut(|part| {
            let is_port = matches!(part.subject, HealthSubject::FabricPort { .. });
            if !is_port || accepted.contains(&part.subject) {
                return true;
            }
            boundary(&self.rules, part, ClearedBy::Repair);
            part.hold.is_some()
        });
    }

    /// Ports that were up, and that no adapter lists any more.
    fn ports_missed(&mut self, now_ms: u64, readings: &[PortReading]) {
        let is_read = |subject: &HealthSubject| {
            readings.iter().any(|reading| {
                let HealthSubject::FabricPort { device, port } = subject else {
                    return true;
                };
                (device, *port) == (&reading.device, reading.port)
            })
        };
        let ports = self.memory.parts.iter_mut();
        let missed = ports.filter(|part| part.port.was_up && !is_read(&part.subject));
        let mut subjects = Vec::new();
        for part in missed {
            let since_ms = *part.port.is_down_since_ms.get_or_insert(now_ms);
            let drop_ms = self.rules.limits.port_drop_s.saturating_mul(1000);
            if now_ms.saturating_sub(since_ms) >= drop_ms {
                subjects.push(part.subject.clone());
            }
        }
        for subject in subjects {
            let evidence = "No adapter lists the port any more; it was up before.".to_owned();
            self.looked(now_ms, &subject, vec![(PORT_DOWN, Some(evidence))]);
        }
    }
}

/// The other ports of the machine with the same on the wire.
struct PortPeers {
    active: usize,
    all: usize,
}

impl PortPeers {
    fn of(reading: &PortReading, readings: &[PortReading]) -> Self {
        let same = |other: &&PortReading| {
            other.link_layer == reading.link_layer
                && (&other.device, other.port) != (&reading.device, reading.port)
        };
        let others: Vec<&PortReading> = readings.iter().filter(same).collect();
        Self {
            active: others.iter().filter(|other| other.is_active()).count(),
            all: others.len(),
        }
    }
}

impl PortReading {
    fn is_active(&self) -> bool {
        self.state == ACTIVE
    }

    /// The cable is well, and the port is not ready: the subnet manager's fault, not the
    /// machine's.
    fn waits_for_fabric(&self) -> Option<String> {
        let is_managed = matches!(self.link_layer, LinkLayer::InfiniBand | LinkLayer::OmniPath);
        let waits = matches!(&*self.state, "INIT" | "ARMED") && self.link_up != Some(false);
        let evidence = format!("The port is {}: no manager has activated it.", self.state);
        (is_managed && waits).then_some(evidence)
    }

    /// Whether the link is lost. INIT and ARMED with a link are the fabric's.
    fn is_lost(&self) -> bool {
        !self.is_active() && self.waits_for_fabric().is_none()
    }
}

impl PortMemory {
    /// Notes ups and downs. An outage between two looks is seen by the port's counter.
    fn note(&mut self, now_ms: u64, reading: &PortReading, limits: &HealthLimits) {
        self.was_up |= reading.is_active();
        let before = self.link_downed;
        let lost = reading.link_downed;
        let unseen = match (before, lost) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => 0,
        };
        self.link_downed = lost;
        if reading.is_lost() {
            self.is_down_since_ms.get_or_insert(now_ms);
        } else if let Some(since_ms) = self.is_down_since_ms.take() {
            let lasted_ms = now_ms.saturating_sub(since_ms);
            if self.was_up && lasted_ms >= limits.port_outage_s.saturating_mul(1000) {
                self.outages.push(now_ms);
            }
        } else {
            // The outages are over, and each look of before found it up.
            let number = usize::try_from(unseen).unwrap_or(usize::MAX);
            let number = number.min(limits.port_flaps);
            self.outages.extend(std::iter::repeat_n(now_ms, number));
        }
        let from = now_ms.saturating_sub(limits.port_flap_window_s.saturating_mul(1000));
        self.outages.retain(|at_ms| *at_ms >= from);
    }

    fn flaps(&self, now_ms: u64, limits: &HealthLimits) -> Option<String> {
        let from = now_ms.saturating_sub(limits.port_flap_window_s.saturating_mul(1000));
        let number = self.outages.iter().filter(|at_ms| **at_ms >= from).count();
        let hours = limits.port_flap_window_s / 3600;
        (number >= limits.port_flaps).then(|| format!("{number} outages in {hours} hours."))
    }

    /// A port that was never up has no cable, unless all others of its kind are up.
    fn never_up(
        &self,
        reading: &PortReading,
        others: &PortPeers,
        limits: &HealthLimits,
    ) -> Option<String> {
        let only_one = others.active == others.all && others.all >= limits.port_peers_min;
        let is_sign = !self.was_up && reading.is_lost() && only_one;
        let all = others.all;
        is_sign.then(|| {
            format!(
                "The port is {}; all {all} others are active.",
                reading.state
            )
        })
    }

    fn down(
        &self,
        now_ms: u64,
        reading: &PortReading,
        others: &PortPeers,
        limits: &HealthLimits,
    ) -> Option<String> {
        let since_ms = self.is_down_since_ms.filter(|_| self.was_up)?;
        let is_long = now_ms.saturating_sub(since_ms) >= limits.port_drop_s.saturating_mul(1000);
        let hint = if others.all > 0 && others.active == 0 {
            " All others are down as well: look at the switch first."
        } else {
            ""
        };
        let state = &reading.state;
        is_long.then(|| format!("The port is {state}, and was up before.{hint}"))
    }
}
