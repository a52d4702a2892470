//! Nodes that are silent, off, or kept free, and what becomes of gangs there.

use super::*;
use crate::coordinator::Cordon;

/// A leader that may give leases, and a job with a task on each node that runs and wants this when
/// one is silent.
fn running(partition: Partition, leases: bool) -> Bench {
    let mut bench = Bench::new();
    bench.input(CoordinatorInput::Leases(leases));
    let mut entry = job("x", 2, CPU);
    if let VcEntry::Accept(job) = &mut entry {
        job.spec.partition = partition;
    }
    bench.commit(&entry);
    bench.grant("n1");
    bench.grant("n2");
    bench.stands("n1", &TaskStanding::Ready);
    bench.stands("n2", &TaskStanding::Ready);
    bench.stands("n1", &TaskStanding::Running);
    bench.stands("n2", &TaskStanding::Running);
    bench.heard();
    bench
}

fn silent(bench: &mut Bench, for_ms: u64) -> String {
    let node = node("n2");
    bench.input(CoordinatorInput::Silent { node, for_ms });
    bench.heard()
}

#[test]
fn a_silent_nodes_task_is_given_up_when_its_lease_is_over_and_no_sooner() {
    let mut bench = running(Partition::FailoverAfter { seconds: 15 }, true);
    let overdue = |ms| bench.coordinator.overdue(&bench.state, &node("n2"), ms);
    assert_eq!(overdue(38_109), None);
    assert_eq!(overdue(38_110), Some(38_110));
    assert_eq!(silent(&mut bench, 38_109), "");
    // The rest of the gang is stopped, and all of it starts anew.
    assert_eq!(silent(&mut bench, 38_110), "TaskEnded, n1 stop");
    assert_eq!(silent(&mut bench, 38_110), "", "once");
    bench.stands("n1", &ended(143));
    let job = bench.state.summary(&key("x")).unwrap();
    let retries = (job.retries.total, job.retries.accountable);
    assert_eq!((retries, job.state()), ((1, 0), JobState::Waiting));
    bench.audit();
}

#[test]
fn what_holds_by_no_lease_waits_for_its_node() {
    let long = 100 * 24 * 3_600_000;
    for (partition, leases) in [(Partition::default(), false), (Partition::Hold, true)] {
        let mut bench = running(partition, leases);
        assert_eq!(silent(&mut bench, long), "", "{partition:?}");
        bench.input(CoordinatorInput::Unreachable([node("n2")].into()));
        assert_eq!(bench.heard(), "", "{partition:?}");
    }
}

#[test]
fn who_wants_to_overlap_waits_for_nobody() {
    let mut bench = running(Partition::Overlap, true);
    assert_eq!(silent(&mut bench, 1_000_000), "", "it has no lease");
    bench.input(CoordinatorInput::Unreachable([node("n2")].into()));
    assert_eq!(bench.heard(), "TaskEnded, n1 stop");
}

#[test]
fn of_one_or_two_machines_nobody_overlaps_however_long_one_is_silent() {
    let mut bench = running(Partition::Overlap, false);
    bench.input(CoordinatorInput::Unreachable([node("n2")].into()));
    assert_eq!(bench.heard(), "");
    bench.now = bench.now.plus_millis(100 * 24 * 3_600_000);
    assert_eq!(silent(&mut bench, 100 * 24 * 3_600_000), "");
    bench.elect();
    bench.report("n1", Vec::new());
    bench.input(CoordinatorInput::Unreachable([node("n2")].into()));
    let heard = bench.heard();
    assert!(!heard.contains("TaskEnded"), "nor by a new leader: {heard}");
    assert_eq!(bench.state(), JobState::Running);
    // Once there are enough voters, what the job asks for counts.
    bench.input(CoordinatorInput::Leases(true));
    assert!(bench.heard().contains("TaskEnded, n1 stop"));
    bench.audit();
}

#[test]
fn a_job_names_the_silent_machines_that_it_does_not_get_on_for() {
    let told = |bench: &Bench| {
        let told =
            bench
                .coordinator
                .explanation(bench.now, &bench.state, (&key("x"), &JobSight::All));
        told.unwrap().reason.unwrap_or_default()
    };
    let mut bench = running(Partition::Hold, true);
    assert_eq!(told(&bench), "");
    bench.unreachable(&["n2"]);
    bench.heard();
    bench.now = bench.now.plus_millis(190_000);
    bench.input(CoordinatorInput::Tick);
    let what = "muster cluster off NODE";
    let reason = told(&bench);
    assert!(
        reason.starts_with("waits for n2, which cannot be reached for 3 minutes at least: "),
        "{reason}"
    );
    assert!(
        reason.contains(what) && !reason.contains("lease"),
        "{reason}"
    );
    bench.stop("x");
    bench.stands("n1", &TaskStanding::Gone);
    assert_eq!(bench.state(), JobState::Stopping);
    assert_eq!(told(&bench), reason, "its stop waits as well");
    bench.input(CoordinatorInput::Off(node("n2")));
    assert_eq!(told(&bench), "");
    let mut bench = running(Partition::default(), true);
    bench.unreachable(&["n2"]);
    assert!(told(&bench).contains("once its run lease there is over"));
    bench.unreachable(&[]);
    assert_eq!(told(&bench), "", "it is back");
}

fn cordon(bench: &mut Bench, nodes: &[(&str, Option<u64>)]) -> String {
    let cordon = |(name, after_ms): &(&str, Option<u64>)| {
        let drain_at = after_ms.map(|ms| bench.now.plus_millis(ms));
        (node(name), Cordon { drain_at })
    };
    let cordons = nodes.iter().map(cordon).collect();
    bench.input(CoordinatorInput::Cordoned(cordons));
    bench.heard()
}

#[test]
fn a_cordoned_node_keeps_what_it_has_and_gets_nothing() {
    let mut bench = running(Partition::default(), false);
    assert_eq!(cordon(&mut bench, &[("n1", None)]), "");
    for name in ["n1", "n2"] {
        bench.stands(name, &ended(0));
    }
    bench.heard();
    bench.commit(&job("y", 1, CPU));
    assert_eq!(bench.heard(), "n2 reserve");
    bench.commit(&job("z", 1, CPU));
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "");
    bench.elect();
    bench.report("n1", Vec::new());
    assert_eq!(
        cordon(&mut bench, &[("n1", None)]),
        "n1 reserve",
        "this leader had not been told when it planned"
    );
    bench.audit();
}

#[test]
fn what_waited_for_a_cordoned_node_comes_as_soon_as_it_is_open() {
    let mut bench = Bench::new();
    assert_eq!(cordon(&mut bench, &[("n1", None), ("n2", None)]), "");
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "");
    assert!(
        bench.waiting_for("x").contains("cordoned"),
        "{}",
        bench.waiting_for("x")
    );
    assert_eq!(cordon(&mut bench, &[("n2", None)]), "n1 reserve");
    bench.audit();
}

/// Lets the time pass until something else is sent than the reservation that nobody answers.
fn unanswered(bench: &mut Bench, reserve: &str) -> String {
    loop {
        let heard = bench.wait_long();
        if heard != reserve {
            return heard;
        }
    }
}

#[test]
fn what_is_reserved_on_a_node_that_cannot_be_reached_any_more_is_reserved_elsewhere() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "n1 reserve");
    bench.input(CoordinatorInput::Unreachable([node("n1")].into()));
    assert_eq!(bench.heard(), "n1 stop");
    assert_eq!(bench.wait_long(), "n2 reserve");
    bench.audit();
    // What was granted before is no good there either.
    bench.input(CoordinatorInput::Unreachable([].into()));
    bench.grant("n2");
    assert_eq!(bench.heard(), "Placed, n2 launch");
    bench.commit(&job("y", 2, CPU / 2));
    bench.heard();
    bench.audit();
}

#[test]
fn who_leads_again_places_nothing_on_a_node_before_it_says_something() {
    let mut bench = Bench::new();
    bench.term += 1;
    let term = Term(bench.term);
    bench.input(CoordinatorInput::Elected { term });
    bench.commit(&job("x", 1, CPU));
    assert!(
        !bench.heard().contains("reserve"),
        "both may be gone by now"
    );
    bench.report("n2", Vec::new());
    assert_eq!(bench.heard(), "n2 reserve");
    bench.audit();
}

#[test]
fn who_does_not_answer_a_reservation_gets_nothing_until_it_says_something() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    assert_eq!(bench.heard(), "n1 reserve");
    assert_eq!(unanswered(&mut bench, "n1 reserve"), "n1 stop");
    assert_eq!(bench.wait_long(), "n2 reserve");
    let why = "the leader of the virtual cluster hears nothing of it, though others do";
    let problem = format!("nothing is placed on n1: {why}");
    assert_eq!(bench.coordinator.problems(), [problem]);
    let view = bench.coordinator.virtual_clusters().remove(0);
    assert_eq!(view.problems, [format!("n1 is not used: {why}")]);
    assert_eq!((view.total.cpu, view.guaranteed.cpu), (2 * CPU, CPU));
    bench.grant("n2");
    bench.heard();
    bench.commit(&job("y", 1, CPU));
    assert_eq!(bench.heard(), "", "n1 is not asked in vain");
    bench.polled.clear();
    let end = bench.now.plus_millis(10_000);
    while bench.coordinator.deadline().unwrap() < end {
        bench.wait();
    }
    assert_eq!(bench.polled, [node("n1"), node("n1"), node("n1")]);
    bench.heard();
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "n1 reserve");
    assert_eq!(bench.coordinator.problems(), Vec::<String>::new());
    bench.audit();
}

#[test]
fn who_has_answered_is_not_held_for_silent_with_the_others() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    bench.heard();
    assert_eq!(unanswered(&mut bench, "n2 reserve"), "n1 stop, n2 stop");
    bench.commit(&job("y", 1, CPU));
    assert_eq!(bench.heard(), "n1 reserve");
    bench.audit();
}

#[test]
fn a_drained_nodes_gang_waits_for_its_turn_elsewhere_and_nobody_pays() {
    let mut bench = running(Partition::default(), false);
    assert_eq!(
        cordon(&mut bench, &[("n1", Some(0))]),
        "Stopping, n1 stop, n2 stop"
    );
    bench.stands("n1", &ended(verdict::EXIT_PREEMPTED));
    bench.stands("n2", &ended(verdict::EXIT_PREEMPTED));
    bench.heard();
    let job = bench.state.summary(&key("x")).unwrap();
    let retries = (job.retries.total, job.retries.accountable);
    assert_eq!((retries, job.state()), ((1, 0), JobState::Waiting));
    assert_eq!(bench.wait_long(), "", "both nodes are needed");
    assert!(cordon(&mut bench, &[]).contains("n1 reserve"));
    bench.audit();
}

#[test]
fn what_may_stay_for_a_while_goes_then() {
    let mut bench = running(Partition::default(), false);
    assert_eq!(cordon(&mut bench, &[("n2", Some(5_000))]), "");
    assert_eq!(bench.wait(), 5_000);
    assert_eq!(bench.heard(), "Stopping, n1 stop, n2 stop");
    // A task that had ended by itself before it was told.
    bench.stands("n1", &ended(0));
    bench.stands("n2", &ended(0));
    assert_eq!(bench.state(), JobState::Succeeded);
}

#[test]
fn what_is_placed_on_a_drained_node_by_an_earlier_plan_never_starts() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 2, CPU));
    bench.grant("n1");
    cordon(&mut bench, &[("n1", Some(0))]);
    bench.grant("n2");
    assert_eq!(
        bench.heard(),
        "Placed, Stopping, n1 stop, n2 stop, n1 launch, n2 launch"
    );
}

#[test]
fn a_new_leader_goes_on_draining() {
    let mut bench = running(Partition::default(), false);
    cordon(&mut bench, &[("n1", Some(60_000))]);
    bench.elect();
    bench.heard();
    assert_eq!(cordon(&mut bench, &[("n1", Some(0))]), "Stopping");
    bench.report("n1", Vec::new());
    assert_eq!(bench.heard(), "n1 stop");
}

#[test]
fn what_was_on_a_node_that_is_off_has_ended() {
    let mut bench = running(Partition::Hold, false);
    bench.input(CoordinatorInput::Off(node("n2")));
    assert_eq!(bench.heard(), "TaskEnded, n1 stop");
    bench.stands("n1", &ended(143));
    let job = bench.state.summary(&key("x")).unwrap();
    let retries = (job.retries.total, job.retries.accountable);
    assert_eq!((retries, job.state()), ((1, 0), JobState::Waiting));
    bench.audit();
}

#[test]
fn a_cluster_as_it_was_found_is_one_virtual_cluster_of_all_nodes() {
    let mut bench = Bench::new();
    let shown = |bench: &Bench| {
        let mut vcs = bench.coordinator.virtual_clusters();
        assert_eq!(vcs.len(), 1);
        let vc = vcs.remove(0);
        assert_eq!(vc.name.as_str(), "default");
        let cpu = (vc.used.cpu, vc.guaranteed.cpu, vc.total.cpu);
        (cpu, vc.problems.len())
    };
    assert_eq!(shown(&bench), ((0, 2 * CPU, 2 * CPU), 0));
    cordon(&mut bench, &[("n1", None)]);
    assert_eq!(shown(&bench), ((0, CPU, 2 * CPU), 1));
    bench.input(CoordinatorInput::Unreachable([node("n2")].into()));
    assert_eq!(
        shown(&bench),
        ((0, 0, CPU), 1),
        "it may be a member no more"
    );
}

#[test]
fn after_a_mass_failure_gangs_start_anew_one_after_the_other() {
    let mut bench = Bench::new();
    bench.input(CoordinatorInput::Leases(true));
    for name in ["n3", "n4"] {
        bench.report(name, Vec::new());
    }
    for name in ["x", "y"] {
        let mut entry = job(name, 1, CPU);
        if let VcEntry::Accept(job) = &mut entry {
            job.spec.partition = Partition::Overlap;
        }
        bench.commit(&entry);
    }
    let used: Vec<String> = ["n1", "n2", "n3", "n4"]
        .into_iter()
        .filter(|name| bench.orders.contains_key(&node(name)))
        .map(str::to_owned)
        .collect();
    for name in &used {
        bench.grant(name);
        bench.stands(name, &TaskStanding::Ready);
        bench.stands(name, &TaskStanding::Running);
    }
    bench.heard();
    assert_eq!(bench.coordinator.problems(), Vec::<String>::new());
    let lost = used.iter().map(|name| node(name)).collect();
    bench.input(CoordinatorInput::Unreachable(lost));
    let heard = bench.heard();
    assert_eq!(heard.matches("TaskEnded").count(), 1, "{heard}");
    let problems = bench.coordinator.problems();
    assert!(problems[0].starts_with("2 machines"), "{problems:?}");
    bench.input(CoordinatorInput::Tick);
    assert!(!bench.heard().contains("TaskEnded"));
    let start = bench.now;
    while !bench.heard().contains("TaskEnded") {
        bench.wait();
    }
    assert_eq!(bench.now.micros_since(start), 10_000_000);
    // An admin who has looked need not wait.
    let other = used.last().unwrap();
    bench.input(CoordinatorInput::Off(node(other)));
    bench.audit();
}

#[test]
fn a_gang_on_many_silent_nodes_is_given_up_in_one_turn() {
    let mut bench = running(Partition::FailoverAfter { seconds: 15 }, true);
    bench.input(CoordinatorInput::Unreachable(
        [node("n1"), node("n2")].into(),
    ));
    let now = bench.now;
    assert_eq!(silent(&mut bench, 38_110), "TaskEnded, n1 stop");
    let (node, for_ms) = (node("n1"), 38_110);
    bench.input(CoordinatorInput::Silent { node, for_ms });
    assert_eq!((bench.heard().as_str(), bench.now), ("TaskEnded", now));
    assert_eq!(bench.state(), JobState::Waiting);
}

#[test]
fn who_was_expelled_or_left_is_no_loss() {
    let mut bench = Bench::new();
    for name in ["n3", "n4", "n5"] {
        bench.report(name, Vec::new());
    }
    bench.input(CoordinatorInput::Unreachable([node("n5")].into()));
    bench.input(CoordinatorInput::Left([node("n5")].into()));
    bench.input(CoordinatorInput::Unreachable(
        [node("n4"), node("n5")].into(),
    ));
    assert_eq!(bench.coordinator.problems(), Vec::<String>::new());
    // One more is more than a third of those that are left.
    bench.unreachable(&["n3", "n4", "n5"]);
    let problems = bench.coordinator.problems();
    assert!(problems[0].starts_with("2 machines"), "{problems:?}");
}
