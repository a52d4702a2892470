//! A thorough look at a machine that runs no tasks: links of devices, and the tests of vendors that are installed.

mod link;
mod tool;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_model::diagnosis::Diagnosis;
use muster_model::health::HealthState;
use muster_model::inventory::Inventory;

/// How to look.
#[derive(Clone, Debug)]
pub struct DiagnoseConfig {
    /// The machine's file tree.
    pub root: PathBuf,
    /// Directories that programs are looked for in, the first first.
    pub path: Vec<PathBuf>,
    /// How long one program may run.
    pub limit: Duration,
}

/// Looks at everything, one after the other. `begins` is told the name of each test before it runs.
pub fn diagnose(
    config: &DiagnoseConfig,
    inventory: &Inventory,
    begins: &mut dyn FnMut(&str),
) -> Vec<Diagnosis> {
    begins("inventory");
    let mut found = problems(inventory);
    begins("pci-link");
    let devices = inventory.devices.iter();
    let links = devices.filter_map(|device| timed(|| link::look(&config.root, device)));
    found.extend(links);
    for test in tool::tests_of(inventory) {
        begins(test.program);
        found.extend(timed(|| Some(tool::run(config, &test))));
    }
    found
}

/// What is wrong with what the machine has.
fn problems(inventory: &Inventory) -> Vec<Diagnosis> {
    let diagnosis = |part: &str, state, evidence: String| Diagnosis {
        test: "inventory".to_owned(),
        part: part.to_owned(),
        state,
        evidence,
        took_ms: 0,
    };
    if inventory.problems.is_empty() {
        let what = format!("{} devices, no problem", inventory.devices.len());
        return vec![diagnosis("machine", HealthState::Good, what)];
    }
    let problems = inventory.problems.iter().map(|problem| {
        let evidence = format!("{} {}", problem.evidence, problem.remedy);
        let part = problem.subject.as_deref().unwrap_or("machine");
        diagnosis(part, HealthState::Bad, evidence)
    });
    problems.collect()
}

fn timed(test: impl FnOnce() -> Option<Diagnosis>) -> Option<Diagnosis> {
    let begun = Instant::now();
    let mut diagnosis = test()?;
    diagnosis.took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Some(diagnosis)
}

/// A number in a file below a device's directory.
fn number(dir: &Path, name: &str) -> Option<u32> {
    std::fs::read_to_string(dir.join(name))
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests;
