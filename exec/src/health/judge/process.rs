//! Looks at processes that hang in the kernel or hold devices.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::health::HealthSubject;

use super::HealthJudge;
use super::memory::ProcessLooks;
use crate::health::reading::ProcessReading;

const KFD: &str = "/dev/kfd";
/// A rule of processes on a part, and what was seen.
type Signs = BTreeMap<(HealthSubject, &'static str), Vec<String>>;
const RULES: [&str; 3] = ["stuck-process", "zombie-holder", "foreign-holder"];

impl HealthJudge {
    pub(super) fn processes(&mut self, now_ms: u64, readings: &[ProcessReading]) {
        let earlier = std::mem::take(&mut self.memory.looks);
        let mut signs = Signs::new();
        for reading in readings {
            let before = earlier.iter();
            let mut same =
                before.filter(|looks| (looks.pid, looks.start) == (reading.pid, reading.start));
            let looks = reading.counted(same.next());
            self.signs(reading, &looks, &mut signs);
            self.memory.looks.push(looks);
        }
        self.processes_looked(now_ms, &signs);
    }

    /// What a process is a sign of.
    fn signs(&self, reading: &ProcessReading, looks: &ProcessLooks, signs: &mut Signs) {
        let limits = &self.rules.limits;
        let mut add = |subject, rule| {
            let said = format!("{} (process {})", reading.name, reading.pid);
            signs.entry((subject, rule)).or_default().push(said);
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

impl ProcessReading {
    /// Counts this look with those before it.
    fn counted(&self, before: Option<&ProcessLooks>) -> ProcessLooks {
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
        }
    }
}
