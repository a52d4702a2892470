//! Looks at processes that hang in the kernel or hold devices.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::health::{HealthState, HealthSubject};

use super::HealthJudge;
use super::memory::ProcessLooks;
use crate::health::reading::ProcessReading;

const KFD: &str = "/dev/kfd";
/// A rule of processes on a part, and what was seen.
type Signs = BTreeMap<(HealthSubject, &'static str), Vec<String>>;
/// The rule of a process whose task has ended.
const LEFT: &str = "zombie-user";
/// Looks in a row that find such a process: a task may begin or end between a look at processes and
/// one at tasks.
const LEFT_LOOKS: u32 = 2;
const RULES: [&str; 4] = ["stuck-process", "zombie-holder", "foreign-holder", LEFT];

impl HealthJudge {
    pub(super) fn processes(&mut self, now_ms: u64, readings: &[ProcessReading]) {
        let earlier = std::mem::take(&mut self.memory.looks);
        let mut signs = Signs::new();
        for reading in readings {
            let before = earlier.iter();
            let mut same =
                before.filter(|looks| (looks.pid, looks.start) == (reading.pid, reading.start));
            let unused = self.unused(reading);
            let looks = reading.counted(same.next(), !unused.is_empty());
            let is_left =
                |subject: &HealthSubject| looks.left >= LEFT_LOOKS || self.is_left(subject);
            for subject in unused.into_iter().filter(is_left) {
                let said = said(reading);
                signs.entry((subject, LEFT)).or_default().push(said);
            }
            self.signs(reading, &looks, &mut signs);
            self.memory.looks.push(looks);
        }
        self.processes_looked(now_ms, &signs);
    }

    /// Each holds a device of a task that has ended. That is known at once.
    pub(super) fn left_behind(&mut self, now_ms: u64, readings: &[ProcessReading]) {
        for reading in readings {
            for subject in self.holds(reading) {
                self.raise(now_ms, &subject, LEFT, format!("{}.", said(reading)));
            }
        }
    }

    /// What a process is a sign of.
    fn signs(&self, reading: &ProcessReading, looks: &ProcessLooks, signs: &mut Signs) {
        let limits = &self.rules.limits;
        let mut add = |subject, rule| {
            let signs: &mut Vec<String> = signs.entry((subject, rule)).or_default();
            signs.push(said(reading));
        };
        if looks.stuck >= limits.stuck_looks {
            add(HealthSubject::Machine, "stuck-process");
        }
        let is_watcher = limits.watchers.contains(&reading.name);
        if looks.held < limits.holder_looks || is_watcher {
            return;
        }
        let rule = match (reading.state, reading.is_task) {
            ('Z', _) => "zombie-holder",
            (_, false) => "foreign-holder",
            (_, true) => return,
        };
        for subject in self.holds(reading) {
            add(subject, rule);
        }
    }

    /// The devices that a process of a task holds, and that no task has, nor a partition of them.
    fn unused(&self, reading: &ProcessReading) -> BTreeSet<HealthSubject> {
        let mut held = self.holds(reading);
        let is_used = |subject: &HealthSubject| {
            let mut pci = subject.pci().into_iter();
            pci.any(|pci| self.users.contains_key(pci))
        };
        held.retain(|subject| reading.is_task && reading.state != 'Z' && !is_used(subject));
        held
    }

    /// Whether a process whose task has ended held it at the last look.
    fn is_left(&self, subject: &HealthSubject) -> bool {
        let mut parts = self.memory.parts.iter();
        let part = parts.find(|part| part.subject == *subject);
        part.is_some_and(|part| part.state(LEFT) == HealthState::Bad)
    }

    /// The devices that a process holds. The file of KFD is all GPUs' alike, and tells none.
    fn holds(&self, reading: &ProcessReading) -> BTreeSet<HealthSubject> {
        let files = reading.devices.iter().filter(|path| *path != KFD);
        let subjects = files.filter_map(|path| {
            let mut known = self.devices.iter();
            let device = known.find(|device| device.paths.contains(path))?;
            Some(HealthSubject::at(device.pci.as_str()))
        });
        subjects.collect()
    }

    fn processes_looked(&mut self, now_ms: u64, signs: &Signs) {
        let devices = self.devices.iter();
        let parts = devices.map(|device| HealthSubject::at(device.pci.as_str()));
        let known: BTreeSet<HealthSubject> = parts.chain([HealthSubject::Machine]).collect();
        let earlier = self.memory.parts.iter();
        let earlier =
            earlier.filter(|part| RULES.iter().any(|rule| part.standing.contains_key(*rule)));
        let all: BTreeSet<HealthSubject> = known
            .into_iter()
            .chain(earlier.map(|part| part.subject.clone()))
            .collect();
        for subject in all {
            let is_machine = subject == HealthSubject::Machine;
            let rules = RULES
                .iter()
                .filter(|rule| (**rule == RULES[0]) == is_machine);
            let looks = rules.map(|rule| {
                let found = signs.get(&(subject.clone(), *rule));
                (*rule, found.map(|found| format!("{}.", found.join(", "))))
            });
            let looks = looks.collect();
            self.looked(now_ms, &subject, looks);
        }
    }
}

fn said(reading: &ProcessReading) -> String {
    format!("{} (process {})", reading.name, reading.pid)
}

impl ProcessReading {
    /// Counts this look with those before it.
    fn counted(&self, before: Option<&ProcessLooks>, is_left: bool) -> ProcessLooks {
        let count = |is_so: bool, before: Option<u32>| {
            if is_so {
                before.unwrap_or(0).saturating_add(1)
            } else {
                0
            }
        };
        ProcessLooks {
            pid: self.pid,
            start: self.start,
            stuck: count(self.state == 'D', before.map(|looks| looks.stuck)),
            held: count(!self.devices.is_empty(), before.map(|looks| looks.held)),
            left: count(is_left, before.map(|looks| looks.left)),
        }
    }
}
