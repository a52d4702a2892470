//! A short set of the simulator's runs: every scenario once, and the load of the table on a few
//! nodes.

use muster_tests::explore::{self, Exploration};
use muster_tests::sim::{self, SimRun, Which, suite};
use serde_json::{Map, Value};

const RUN: SimRun = SimRun {
    nodes: 5,
    seed: 3,
    loss: 5.0,
};

#[test]
fn every_scenario_ends_well_on_five_nodes() {
    let outcome = suite::play(&suite::SuitePlan {
        of: suite::Of::Mesh,
        scenarios: vec!["all".into()],
        nodes: 5,
        seeds: 0..2,
        runs: None,
        jobs: 2,
        loss: 5.0,
        until_failure: false,
    });
    let outcome = outcome.unwrap();
    assert!(outcome.clean, "{}", outcome.line);
    assert_eq!(outcome.line["runs"], 2 * sim::list().count());
}

#[test]
fn the_load_of_the_table_keeps_every_promise_on_five_nodes() {
    let report = sim::table(&RUN, Which::Muster);
    assert!(report.clean(), "{report}");
    let line = line(&report);
    for figure in [
        "suspect_p99_ms",
        "unreachable_p99_ms",
        "record_p99_ms",
        "document_p99_ms",
    ] {
        assert!(
            line[figure].as_f64().is_some_and(|ms| ms > 0.0),
            "{figure} in {line:?}"
        );
    }
    for key in [
        "false_unreachable",
        "heal_ms",
        "idle_bytes_s",
        "nodes",
        "seed",
        "violations",
    ] {
        assert!(!line[key].is_null(), "{key} in {line:?}");
    }
}

#[test]
fn what_it_is_compared_with_misses_them() {
    let report = sim::table(&RUN, Which::Foca);
    assert!(!report.clean(), "{report}");
}

#[test]
fn a_seed_is_a_run() {
    let faults: Vec<String> = ["S33", "crash", "reorder", "dup"].map(Into::into).to_vec();
    let play = |seed| {
        let report = sim::faults(&SimRun { seed, ..RUN }, &faults).unwrap();
        line(&report)
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1)["packets"], play(2)["packets"]);
}

#[test]
fn names_that_are_none_are_refused() {
    let error = sim::faults(&RUN, &["S99".into()]).unwrap_err();
    assert!(error.contains("S99"), "{error}");
    // Of the mesh, and of no cluster.
    let error = sim::cluster(&RUN, &["S39".into()]).unwrap_err();
    assert!(error.contains("S39"), "{error}");
}

#[test]
fn every_scenario_of_a_cluster_ends_well_on_five_nodes() {
    let outcome = suite::play(&suite::SuitePlan {
        of: suite::Of::Cluster,
        scenarios: vec!["all".into()],
        nodes: 5,
        seeds: 0..2,
        runs: None,
        jobs: 2,
        loss: 1.0,
        until_failure: false,
    });
    let outcome = outcome.unwrap();
    assert!(outcome.clean, "{}", outcome.line);
    assert_eq!(outcome.line["runs"], 2 * sim::list_of_cluster().count());
}

/// On fewer nodes virtual clusters have the same voters, and none loses its majority alone but by damage.
#[test]
fn what_runs_outlasts_the_majority_of_its_virtual_cluster_on_fifteen_nodes() {
    for seed in 0..2 {
        let run = SimRun {
            nodes: 15,
            seed,
            loss: 1.0,
        };
        let report = sim::cluster(&run, &["S46".into()]).unwrap();
        assert!(report.clean(), "{report}");
    }
}

#[test]
fn a_cluster_keeps_its_word_whatever_goes_wrong_at_once() {
    let mut leases_ended = 0;
    let mut preempted = 0;
    for seed in 1..25 {
        let run = SimRun {
            nodes: 5,
            seed,
            loss: 1.0,
        };
        let report = sim::cluster(&run, &[]).unwrap();
        assert!(report.clean(), "{report}");
        let line = line(&report);
        assert!(line["started"].as_u64() > Some(0), "{report}");
        leases_ended += line["leases_ended"].as_u64().unwrap_or(0);
        preempted += line["preempted"].as_u64().unwrap_or(0);
    }
    assert!(
        leases_ended > 0 && preempted > 0,
        "{leases_ended} {preempted}"
    );
}

#[test]
fn a_seed_is_a_run_of_a_cluster() {
    let faults: Vec<String> = ["die", "reorder", "S4"].map(Into::into).to_vec();
    let play = |seed| {
        let report = sim::cluster(&SimRun { seed, ..RUN }, &faults).unwrap();
        line(&report)
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1)["packets"], play(2)["packets"]);
}

#[test]
fn a_quiet_cluster_places_jobs_at_once() {
    let report = sim::cluster_table(&SimRun { loss: 0.0, ..RUN });
    assert!(report.clean(), "{report}");
    let line = line(&report);
    let table = &line["table"];
    for figure in ["submit_to_placed_ms", "gang_submit_to_placed_ms"] {
        let p99 = table[figure]["p99"].as_f64();
        assert!(p99.is_some_and(|ms| ms > 1.0 && ms < 60.0), "{table}");
    }
    assert!(
        table["cold_start_to_placed_ms"].as_u64() < Some(5_000),
        "{table}"
    );
}

/// A report without the figures of the host.
fn line(report: &sim::RunReport) -> Map<String, Value> {
    let line: Map<String, Value> = serde_json::from_str(&report.to_string()).expect("a JSON line");
    let host = |key: &String| {
        ["wall", "cpu", "rss", "speed"]
            .iter()
            .any(|of| key.contains(of))
    };
    line.into_iter().filter(|(key, _)| !host(key)).collect()
}

#[test]
fn nothing_is_wrong_in_any_state_of_the_smallest_cases() {
    let cases = ["quiet", "rounds", "stops", "ledgers", "lease-still"];
    let mut names = Vec::new();
    let exploration = Exploration {
        cases: cases.map(str::to_owned).to_vec(),
        jobs: 2,
        limit: None,
        shortest: false,
    };
    explore::explore(&exploration, |outcome| {
        assert!(outcome.clean, "{}", outcome.line);
        names.push(outcome.line["case"].clone());
    })
    .unwrap();
    assert_eq!(names.len(), cases.len(), "{names:?}");
    let unknown = Exploration {
        cases: vec!["none".to_owned()],
        ..exploration
    };
    let error = explore::explore(&unknown, |_| ()).unwrap_err();
    assert!(error.contains("there are quiet"), "{error}");
}
