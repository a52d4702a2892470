//! Every suite of a folder through the replay; a suite of ours beside HiveD's.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;

use muster_placement::suite::{SuiteReport, replay};

fn run(suite: &Path) -> SuiteReport {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let cluster = |name: &str| {
        let places = ["hived/clusters", "own/clusters"];
        let paths = places
            .iter()
            .map(|place| root.join(place).join(format!("{name}.yaml")));
        let mut texts = paths.filter_map(|path| std::fs::read_to_string(path).ok());
        texts
            .next_back()
            .ok_or_else(|| format!("no cluster {name}"))
    };
    let text = std::fs::read_to_string(suite).unwrap();
    replay(&text, &cluster).unwrap_or_else(|error| panic!("{}: {error}", suite.display()))
}

fn all_in(folder: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(root)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    paths.sort();
    let mut failed = Vec::new();
    for path in &paths {
        let report = run(path);
        for step in report.steps.iter().filter(|step| !step.problems.is_empty()) {
            let name = &report.name;
            failed.push(format!(
                "{name}: {} -> {}: {:?}",
                step.action, step.outcome, step.problems
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    paths.len()
}

#[test]
fn our_suites_hold() {
    assert_eq!(all_in("own/suites"), 7);
}

#[test]
fn hiveds_suites_hold() {
    assert_eq!(all_in("hived/suites"), 11);
}
