//! `extras.muster`, and where a job asks to run.

use crate::cluster_spec::Level;
use crate::job::{JobSpec, NearSpec, Partition};
use crate::remark::Remark;

use super::super::RUN_S_MAX;
use super::{SMALLEST, invalid, valid};

/// The smallest job with a second role, `ps`, and these `extras`.
fn job(extras: &str) -> String {
    let ps = "  ps:\n    dockerImage: image\n    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}\n    commands: [a]\n";
    format!("{SMALLEST}{ps}extras: {extras}\n")
}

fn spec(extras: &str) -> JobSpec {
    valid(&job(extras)).job_spec().unwrap()
}

#[track_caller]
fn check(extras: &str, expect: &[(&str, &str)]) {
    let problems = invalid(&job(extras));
    let found: Vec<_> = problems
        .iter()
        .map(|p| (p.path.as_str(), p.message.as_str()))
        .collect();
    assert_eq!(found, expect, "{extras}");
}

#[test]
fn wishes_reach_the_spec() {
    let spec = spec(
        "{muster: {maxRunTime: 3600, taskRoles: {worker: {topology: {level: numa}}, \
         ps: {topology: {level: rack, mode: preferred}}}}, \
         hivedScheduler: {lazyPreemptionEnable: true, taskRoles: {worker: {skuType: V100, \
         affinityGroupName: g}, ps: {skuType: '', affinityGroupName: ''}}}}",
    );
    assert_eq!((spec.max_run_s, spec.lazy), (Some(3600), true));
    let [worker, ps] = &spec.roles[..] else {
        panic!("{spec:?}")
    };
    let near = |level, required| Some(NearSpec { level, required });
    assert_eq!(worker.near, near(Level::Numa, true));
    assert_eq!(ps.near, near(Level::Rack, false));
    assert_eq!(worker.sku.as_deref(), Some("V100"));
    assert_eq!(worker.affinity_group.as_deref(), Some("g"));
    assert_eq!(
        (&ps.sku, &ps.pinned, &ps.affinity_group),
        (&None, &None, &None)
    );
    assert_eq!(spec.warnings, []);
}

#[test]
fn the_manuals_example_is_valid() {
    let manual = include_str!("../../../../docs/jobs.md");
    let (_, rest) = manual.split_once("```yaml\n").unwrap();
    let (extras, _) = rest.split_once("```").unwrap();
    let text = job("{}").replace("extras: {}\n", extras);
    let spec = valid(&text).job_spec().unwrap();
    assert_eq!((spec.max_run_s, spec.lazy), (Some(14_400), true));
    let worker = &spec.roles[0];
    assert!(worker.sku.is_some() && worker.near.is_some());
}

#[test]
fn who_asks_for_nothing_gets_nothing() {
    for extras in [
        "{}",
        "{muster: null}",
        "{muster: {}}",
        "{muster: {maxRunTime: null, taskRoles: null}}",
        "{muster: {taskRoles: {worker: null, ps: {topology: null}}}}",
        "{hivedScheduler: {lazyPreemptionEnable: null}}",
    ] {
        let spec = spec(extras);
        assert_eq!((spec.max_run_s, spec.lazy), (None, false), "{extras}");
        assert!(
            spec.roles.iter().all(|role| role.near.is_none()),
            "{extras}"
        );
    }
}

#[test]
fn every_mistake_is_told_with_its_place_and_the_remedy() {
    const SECONDS: &str = "should be seconds: a whole number from 1 to 315360000";
    const LEVELS: &str = "should be one of pcie, nvlink, numa, node, rack";
    let topology =
        |text: &str| format!("{{muster: {{taskRoles: {{worker: {{topology: {text}}}}}}}}}");
    let at = ".extras.muster.taskRoles.worker.topology";
    check("{muster: 5}", &[(".extras.muster", "should be object")]);
    check(
        "{muster: {maxRuntime: 5}}",
        &[(
            ".extras.muster.maxRuntime",
            "is not known; allowed here: maxRunTime, enforceMaxRunTime, holdOnFailure, partition, taskRoles",
        )],
    );
    for seconds in ["0", "-1", "1.5", "'60'", "315360001", "1e300", "[1]"] {
        let extras = format!("{{muster: {{maxRunTime: {seconds}}}}}");
        check(&extras, &[(".extras.muster.maxRunTime", SECONDS)]);
    }
    let enforce = ".extras.muster.enforceMaxRunTime";
    let enforced =
        |value: &str| format!("{{muster: {{maxRunTime: 5, enforceMaxRunTime: {value}}}}}");
    check(&enforced("1"), &[(enforce, "should be true or false")]);
    check(
        "{muster: {enforceMaxRunTime: true}}",
        &[(
            enforce,
            "needs maxRunTime: the seconds after which the job is ended",
        )],
    );
    for (value, expect) in [("true", true), ("false", false), ("null", false)] {
        assert_eq!(spec(&enforced(value)).ending.is_max_run_binding, expect);
    }
    for seconds in ["0", "-1", "1h", "2592001"] {
        let extras = format!("{{muster: {{holdOnFailure: {seconds}}}}}");
        let most = "should be seconds: a whole number from 1 to 2592000";
        check(&extras, &[(".extras.muster.holdOnFailure", most)]);
    }
    assert_eq!(
        spec("{muster: {holdOnFailure: 1800}}").ending.hold_s,
        Some(1800)
    );
    assert_eq!(
        spec("{muster: {maxRunTime: 315360000.0}}").max_run_s,
        Some(RUN_S_MAX)
    );
    check(
        "{muster: {taskRoles: [worker]}}",
        &[(".extras.muster.taskRoles", "should be object")],
    );
    check(
        "{muster: {taskRoles: {ghost: {}, worker: {near: node}}}}",
        &[
            (
                ".extras.muster.taskRoles.ghost",
                "Taskrole ghost does not exist.",
            ),
            (
                ".extras.muster.taskRoles.worker.near",
                "is not known; allowed here: topology",
            ),
        ],
    );
    check(&topology("node"), &[(at, "should be object")]);
    check(&topology("{}"), &[(&format!("{at}.level"), LEVELS)]);
    check(
        &topology("{level: Node}"),
        &[(&format!("{at}.level"), LEVELS)],
    );
    check(
        &topology("{level: 3, mode: hard, why: x}"),
        &[
            (
                &format!("{at}.why"),
                "is not known; allowed here: level, mode",
            ),
            (&format!("{at}.level"), LEVELS),
            (
                &format!("{at}.mode"),
                "should be one of required, preferred",
            ),
        ],
    );
}

const TWO_CELLS: &str =
    "hivedScheduler: {taskRoles: {worker: {pinnedCellId: a}, ps: {pinnedCellId: b}}}";

#[test]
fn a_gang_lies_in_one_pinned_cell() {
    let message = "Taskroles worker and ps have different pinnedCellIds, a and b, but start \
                   together. Name one cell, or set extras.gangAllocation to false.";
    let path = ".extras.hivedScheduler.taskRoles.ps.pinnedCellId";
    check(&format!("{{{TWO_CELLS}}}"), &[(path, message)]);
    let alone = spec(&format!("{{gangAllocation: false, {TWO_CELLS}}}"));
    let pinned: Vec<_> = alone
        .roles
        .iter()
        .map(|role| role.pinned.as_deref())
        .collect();
    assert_eq!(pinned, [Some("a"), Some("b")]);
    let half = spec("{hivedScheduler: {taskRoles: {worker: {pinnedCellId: a}}}}");
    let message =
        "It names no pinnedCellId, but starts together with roles in a: it is placed there too.";
    assert_eq!(half.warnings, [Remark::at(".taskRoles.ps", message)]);
}

#[test]
fn affinity_groups_of_tasks_that_start_alone_are_noted() {
    let groups = "hivedScheduler: {taskRoles: {ps: {affinityGroupName: g, skuType: CPU}}}";
    assert_eq!(spec(&format!("{{{groups}}}")).warnings, []);
    let alone = spec(&format!("{{gangAllocation: false, {groups}}}"));
    let message = "This has no effect without gang allocation: tasks are placed one by one.";
    let path = ".extras.hivedScheduler.taskRoles.ps.affinityGroupName";
    assert_eq!(alone.warnings, [Remark::at(path, message)]);
}

#[test]
fn a_silent_nodes_job_waits_moves_or_overlaps() {
    let partition = |text: &str| spec(&format!("{{muster: {{partition: {text}}}}}")).partition;
    let after = |seconds| Partition::FailoverAfter { seconds };
    assert_eq!(spec("{}").partition, after(300));
    for text in ["null", "{}", "{policy: failover_after}", "{seconds: 300}"] {
        assert_eq!(partition(text), after(300), "{text}");
    }
    assert_eq!(partition("{seconds: 15}"), after(15));
    assert_eq!(
        partition("{policy: failover_after, seconds: 2592000}"),
        after(2_592_000)
    );
    assert_eq!(partition("{policy: hold}"), Partition::Hold);
    assert_eq!(partition("{policy: overlap}"), Partition::Overlap);
}

#[test]
fn a_partition_that_cannot_be_is_told() {
    const SECONDS: &str = "should be seconds: a whole number from 15 to 2592000";
    let at = ".extras.muster.partition";
    let wrong = |text: &str, field: &str, message: &str| {
        let extras = format!("{{muster: {{partition: {text}}}}}");
        check(&extras, &[(&format!("{at}{field}"), message)]);
    };
    wrong("hold", "", "should be object");
    wrong("{seconds: 14}", ".seconds", SECONDS);
    wrong("{seconds: 2592001}", ".seconds", SECONDS);
    wrong("{seconds: soon}", ".seconds", SECONDS);
    let policies = "should be one of failover_after, hold, overlap";
    wrong("{policy: wait}", ".policy", policies);
    wrong("{policy: [hold]}", ".policy", policies);
    let none = "belongs to failover_after; hold has none";
    wrong("{policy: hold, seconds: 60}", ".seconds", none);
    let known = "is not known; allowed here: policy, seconds";
    wrong("{after: 60}", ".after", known);
}
