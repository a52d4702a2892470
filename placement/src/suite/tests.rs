use super::{SuiteError, SuiteReport, replay};

const CLUSTER: &str = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 4, isNodeLevel: true}
  physicalCells: [{cellType: NODE, cellAddress: a}, {cellType: NODE, cellAddress: b}]
virtualClusters:
  v: {virtualCells: [{cellType: NODE, cellNumber: 2}]}
";

fn run(steps: &str) -> Result<SuiteReport, SuiteError> {
    let text = format!(
        "
schema: hived-steps/1
name: t
cluster: c
groups: {{g: [{{pods: 1, cells: 2}}]}}
pods: {{p: {{vc: v, priority: 0, type: G, pinned: '', lazy: false, cells: 2, group: g}}}}
jobs: {{j: {{vc: v, priority: 0, type: G, pinned: '', lazy: false, gang: true,
  members: [{{pods: 2, cells: 4}}]}}}}
steps:
{steps}"
    );
    replay(&text, &|name| match name {
        "broken" => Ok("physicalCluster: []".to_owned()),
        "missing" => Err("there is no such file".to_owned()),
        _ => Ok(CLUSTER.to_owned()),
    })
}

/// Each step is wrong about what happens, and the judge says so.
#[test]
fn wrong_expectations_are_found() {
    for step in [
        "- {schedule: {pod: p}, expect: {result: wait}}",
        "- {schedule: {pod: p}, expect: {result: any, result_not: bind}}",
        "- {schedule: {pod: p}, expect: {result: bind, node: b}}",
        "- {schedule: {pod: p}, expect: {result: bind, cells: [2, 3], strict: true}}",
        "- {schedule: {pod: p}, expect: {check: [{count: 3}]}}",
        "- {schedule: {pod: p}, expect: {check: [{node_in: [b]}]}}",
        "- {schedule: {pod: p}, expect: {check: [{node_not_in: [a]}]}}",
        "- {schedule: {pod: p}, expect: {check: [{leaf_type: H}]}}",
        "- {schedule: {pod: p}, expect: {check: [{within_one: G}]}}",
        "- {schedule: {pod: p}, expect: {check: [{different_node_from: p}]}}",
        "- {schedule: {pod: p}, expect: {check: [{disjoint_level_from: p, level: NODE}]}}",
        "- {submit: {job: j}, expect: {bound: 1}}",
        "- {submit: {job: j}, expect: {waiting: 1}}",
        "- {submit: {job: j}, expect: {evicted_jobs: [j]}}",
        "- {submit: {job: j}, expect: {check: [{job_nodes: 1}]}}",
        "- {submit: {job: j}, expect: {check: [{job_nodes_at_least: 3}]}}",
        "- {submit: {job: j}, expect: {check: [{job_within_one: NODE}]}}",
        "- {submit: {job: j}, expect: {check: [{leaf_types: [G, H]}]}}",
        "- {submit: {job: j}, expect: {check: [{different_node_from_job: j}]}}",
        "- {assert: {group: g, state: allocated}}",
        "- {assert: {group: g, lazy_preempted: true}}",
        "- {assert: {vc: v, chain: NODE, cell_type: NODE, cells: all_bad}}",
        "- {submit: {job: j}}\n- {assert: {cluster: pristine}}",
    ] {
        let report = run(step).unwrap_or_else(|error| panic!("{step}: {error}"));
        assert!(!report.passed(), "{step}");
    }
}

/// The exact cells count only where any scheduler must choose them.
#[test]
fn what_is_implementation_defined_is_not_judged() {
    let step = "- {schedule: {pod: p}, expect: {result: bind, node: b, strict: false}}";
    assert!(run(step).unwrap().passed());
}

#[test]
fn a_step_that_makes_no_sense_is_an_error_that_says_what_to_write() {
    for (step, says) in [
        (
            "- {jump: {}}",
            "steps[0]: no known action among [\"jump\"]; use one of",
        ),
        ("- {schedule: {pod: q}}", "no pod q"),
        (
            "- {schedule: {pod: p, phase: x}}",
            "not preempting or filtering",
        ),
        (
            "- {schedule: {pod: p}, expect: {check: [{odd: 1}]}}",
            "check odd is not known",
        ),
        ("- {node: {name: c, state: bad}}", "there is no machine c"),
        ("- {assert: {what: 1}}", "is of no known kind"),
    ] {
        let error = run(step).unwrap_err().to_string();
        assert!(error.contains(says), "{step}: {error}");
    }
}

#[test]
fn a_description_that_is_refused_may_be_what_is_expected() {
    let taken = "{load: {cluster: c}, expect: {result: bind}}";
    let error = "{load: {cluster: broken}, expect: {result: error}}";
    let again = "{reload: {cluster: missing, recover: committed}, expect: {result: error}}";
    let steps = format!("- {taken}\n- {{submit: {{job: j}}}}\n- {error}\n- {again}\n");
    let held = format!("{steps}- {{assert: {{job: j, state: allocated}}}}");
    let report = run(&held).unwrap();
    assert!(report.passed(), "{report:?}");
    assert!(report.steps[2].outcome.starts_with("error: "), "{report:?}");
    for wrong in [
        "- {load: {cluster: c}, expect: {result: error}}",
        "- {load: {cluster: broken}, expect: {result: bind}}",
        "- {reload: {cluster: c}, expect: {result: error}}",
    ] {
        assert!(!run(wrong).unwrap().passed(), "{wrong}");
    }
    for senseless in [
        "- {load: {cluster: broken}}",
        "- {load: {}, expect: {result: error}}",
    ] {
        assert!(run(senseless).is_err(), "{senseless}");
    }
}
