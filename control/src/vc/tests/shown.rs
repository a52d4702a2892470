//! What users are shown of the state.

use muster_model::job::Partition;
use muster_model::vc::Amount;
use muster_model::view::PartitionView;

use super::*;
use crate::lease::LeaseTime;

/// A job of two tasks by this policy, placed with this lease.
fn placed(policy: Partition, lease: Option<LeaseTime>) -> Bench {
    let mut spec = spec(true, 0, &[("w", 2, 1, -1)]);
    spec.partition = policy;
    spec.roles[0].resources = Resources {
        cpu: 3,
        memory_mb: 5,
        gpu: 4,
        ..Resources::default()
    };
    let mut bench = Bench::new(spec);
    let run = bench.waiting().remove(0);
    let placed = Placed {
        lease,
        ..bench.placed(&run)
    };
    bench.apply(&VcEntry::Placed(Box::new(placed))).unwrap();
    bench
}

fn shown(bench: &Bench) -> PartitionView {
    let detail = bench.state.detail(&key(), None).unwrap();
    detail.partition.unwrap()
}

#[test]
fn a_run_is_shown_with_its_lease_or_why_it_has_none() {
    let seconds = 60;
    let after = Partition::FailoverAfter { seconds };
    let held = shown(&placed(after, Some(LeaseTime { seconds })));
    assert_eq!(
        (held.policy.as_str(), held.seconds),
        ("failover_after", Some(60))
    );
    let [run] = &held.runs[..] else {
        panic!("{held:?}");
    };
    assert_eq!((run.seconds, run.without.as_deref()), (Some(60), None));
    let nodes: Vec<_> = run.nodes.iter().map(|it| it.node.as_str()).collect();
    assert_eq!(nodes, ["n1"], "each machine once");
    for (policy, name, why) in [
        (after, "failover_after", "fewer than three voters"),
        (Partition::Hold, "hold", "waits"),
        (Partition::Overlap, "overlap", "at once"),
    ] {
        let held = shown(&placed(policy, None));
        let run = &held.runs[0];
        assert_eq!((held.policy.as_str(), run.seconds), (name, None));
        assert!(run.without.as_ref().unwrap().contains(why), "{run:?}");
        assert!(run.nodes.is_empty());
    }
}

#[test]
fn a_task_that_runs_with_a_server_says_how_to_log_in() {
    let mut with = spec(true, 0, &[("w", 2, 1, -1), ("x", 1, 1, -1)]);
    with.roles[0].has_ssh = true;
    let mut bench = Bench::new(with);
    let logins = |bench: &Bench| {
        let detail = bench.state.detail(&key(), None).unwrap();
        detail
            .tasks()
            .map(|task| task.ssh.clone())
            .collect::<Vec<_>>()
    };
    let run = bench.waiting().remove(0);
    let mut placed = bench.placed(&run);
    for task in &mut placed.members {
        "192.0.2.1".clone_into(&mut task.address);
        task.ports = vec![
            ("http".to_owned(), vec![7]),
            ("ssh".to_owned(), vec![22_001, 22_002]),
        ];
    }
    bench.apply(&VcEntry::Placed(Box::new(placed))).unwrap();
    assert_eq!(logins(&bench), [None, None, None], "none runs yet");
    bench
        .apply(&VcEntry::Go {
            run,
            at_ms: 20,
            limit_s: None,
        })
        .unwrap();
    let login = || Some("ssh -p 22001 alice@192.0.2.1".to_owned());
    assert_eq!(logins(&bench), [login(), login(), None]);
}

#[test]
fn what_is_not_carried_out_stands_in_events_and_in_the_detail() {
    let spec = JobSpec {
        warnings: (0..12)
            .map(|n| muster_model::remark::Remark::at(format!(".extras.k{n}"), "no effect"))
            .collect(),
        ..spec(true, 0, &[("w", 1, 1, -1)])
    };
    let bench = Bench::new(spec);
    let warnings = bench.state.detail(&key(), None).unwrap().warnings;
    assert_eq!(warnings.len(), 12);
    let events = bench.state.events(&key()).unwrap();
    let told = events
        .iter()
        .filter(|event| event.reason == "NotCarriedOut");
    let told: Vec<&str> = told.map(|event| event.message.as_str()).collect();
    assert_eq!((told.len(), told[0]), (9, ".extras.k0: no effect"));
    assert!(told[8].starts_with("4 more"), "{told:?}");
    assert!(events[1].warning);
}

#[test]
fn what_tasks_use_is_summed_while_they_may_be_running() {
    let mut bench = placed(Partition::Hold, None);
    let used = |tasks: u32| Amount {
        cpu: 3 * tasks,
        memory_mb: 5 * u64::from(tasks),
        gpu: 4 * tasks,
    };
    assert_eq!(bench.state.used(), used(2));
    bench.end("w", 0, exit(0, Behavior::Unknown));
    assert_eq!(bench.state.used(), used(1));
    bench.end("w", 1, exit(0, Behavior::Unknown));
    assert_eq!(bench.state.used(), used(0));
    assert!(
        bench
            .state
            .detail(&key(), None)
            .unwrap()
            .partition
            .is_none()
    );
}

#[test]
fn a_job_that_succeeds_although_its_tasks_failed_says_how_many_did() {
    let mut bench = Bench::new(spec(true, 0, &[("w", 3, -1, -1)]));
    bench.start();
    let failed = |bench: &Bench| bench.state.summary(&key()).unwrap().tasks_failed;
    assert_eq!(failed(&bench), 0);
    for (index, code, expected) in [(0, 1, 1), (1, 0, 1), (2, 2, 2)] {
        bench.end("w", index, exit(code, Behavior::Unknown));
        assert_eq!(failed(&bench), expected);
    }
    assert_eq!(bench.state(), (JobState::Succeeded, Some(0)));
    // Who was stopped has not failed.
    let mut bench = Bench::new(spec(true, 0, &[("w", 2, 1, -1)]));
    bench.start();
    bench.end("w", 0, exit(7, Behavior::Unknown));
    bench.end("w", 1, stopped(Cause::AttemptCompleted));
    assert_eq!(failed(&bench), 1);
}
