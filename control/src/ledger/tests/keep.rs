//! Places that tasks keep into a later round of their attempt.

use super::*;

/// Job 1 in a later round, under another name, in the place that its reservation of one device gave it.
fn again(name: u64, device: u32) -> GangCommand {
    let mut launch = launch(name);
    let GangCommand::Launch { tasks, .. } = &mut launch else {
        unreachable!("that is what a launch is")
    };
    let place = &mut tasks[0].placement;
    place.devices = vec![(device, DeviceId(format!("gpu{device}")))];
    place.leaves = vec![device];
    place.ports = vec![("http".to_owned(), vec![100])];
    launch
}

impl Bench {
    /// Job 1 waits for Go in its first round.
    fn ready() -> Self {
        let mut bench = Self::new();
        bench.told(1, reserve(1, &[0]));
        bench.told(1, launch(1));
        bench.seen(1, Observation::Ready);
        bench.steps();
        bench
    }

    /// What is answered to an order of a later round of job 1, in a word.
    fn round(&mut self, round: u32, command: GangCommand) -> &'static str {
        let order = self.order(1, run(1, round), command);
        word(&self.deliver(order))
    }

    fn uids(&self) -> Vec<String> {
        let tasks = self.ledger.tasks();
        tasks.into_iter().map(|task| task.uid).collect()
    }
}

#[test]
fn a_task_keeps_its_place_and_its_container_is_made_anew() {
    let mut bench = Bench::ready();
    let free = bench.free_cpu();
    assert_eq!(bench.round(1, again(2, 0)), "starting");
    assert_eq!(
        bench.steps(),
        "stop u1",
        "two at a time would share a device"
    );
    assert_eq!(
        (bench.free_cpu(), bench.uids()),
        (free, vec!["u2".to_owned()])
    );
    assert_eq!(bench.round(1, again(2, 0)), "starting", "said again");
    assert_eq!(bench.told(1, go(1)), "gone", "it is in another round");
    bench.seen(1, Observation::Ready);
    assert_eq!(bench.steps(), "", "it is late");
    bench.seen(1, Observation::Ended(exit()));
    assert_eq!(bench.steps(), "remove u1");
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.steps(), "create u2");
    bench.seen(2, Observation::Ready);
    assert_eq!(bench.round(1, go(2)), "running");
    assert_eq!(bench.steps(), "go u2");
    bench.restart();
    assert_eq!(
        (bench.steps(), bench.uids()),
        ("adopt u2".to_owned(), vec!["u2".to_owned()])
    );
}

#[test]
fn what_has_no_container_yet_gets_its_own_at_once() {
    let mut bench = Bench::new();
    bench.told(1, reserve(1, &[0]));
    assert_eq!(bench.round(1, again(2, 0)), "starting");
    assert_eq!(bench.steps(), "create u2");
    bench.now = bench.now.plus_millis(TTL_MS);
    bench.input(LedgerInput::Tick);
    assert_eq!(bench.uids(), ["u2"], "it ends by itself no more");
}

#[test]
fn only_the_very_place_of_an_earlier_round_is_kept() {
    type Bend = fn(&mut Bench, &mut GangRun);
    let table: [(Bend, u32, &str); 6] = [
        (|_, _| (), 0, "starting"),
        (|_, _| (), 1, "gone"),
        (|_, run| run.attempt.job = 1, 0, "gone"),
        (|_, run| run.gang.job = JobId(2), 0, "gone"),
        (|_, run| run.round = 0, 0, "gone"),
        (|bench, _| drop(bench.say(1, stop(1))), 0, "gone"),
    ];
    for (i, (bend, device, expected)) in table.into_iter().enumerate() {
        let mut bench = Bench::ready();
        let mut run = run(1, 1);
        bend(&mut bench, &mut run);
        let order = bench.order(1, run, again(2, device));
        assert_eq!(word(&bench.deliver(order)), expected, "row {i}");
    }
}

#[test]
fn a_stop_ends_the_round_and_those_before_it() {
    // Its Launch never came.
    let mut bench = Bench::ready();
    assert_eq!(bench.round(1, stop(2)), "gone");
    assert_eq!(bench.steps(), "stop u1");
    // It came, and what was there before is not gone yet.
    let mut bench = Bench::ready();
    bench.round(1, again(2, 0));
    bench.steps();
    assert_eq!(bench.round(1, stop(2)), "stopping");
    assert_eq!(
        bench.steps(),
        "",
        "it was told already, and of the other there is nothing"
    );
    bench.seen(1, Observation::Ended(exit()));
    assert_eq!(bench.free_cpu(), CPU - 4, "its processes may be there");
    bench.seen(1, Observation::Gone);
    assert_eq!(
        (bench.free_cpu(), bench.steps()),
        (CPU, "remove u1".to_owned())
    );
    // A reservation of a later round is none of its business.
    let mut bench = Bench::ready();
    let later = bench.order(1, run(1, 1), reserve(2, &[1]));
    assert_eq!(word(&bench.deliver(later)), "granted");
    bench.told(1, stop(1));
    assert!(bench.uids().contains(&"u2".to_owned()));
}

#[test]
fn rounds_may_follow_each_other_faster_than_containers_end() {
    let mut bench = Bench::ready();
    bench.round(1, again(2, 0));
    assert_eq!(bench.round(2, again(3, 0)), "starting");
    assert_eq!(
        bench.steps(),
        "stop u1",
        "of the second there never was any"
    );
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.steps(), "create u3");
}

#[test]
fn a_lease_that_is_over_meanwhile_frees_nothing_before_the_container_is_gone() {
    let mut bench = Bench::ready();
    bench.round(1, again(2, 0));
    // Its executor has nothing of it.
    bench.seen(2, Observation::Gone);
    assert_eq!(bench.free_cpu(), CPU - 4);
    bench.seen(1, Observation::Gone);
    assert_eq!(
        (bench.free_cpu(), bench.steps()),
        (CPU, "stop u1".to_owned())
    );
}

#[test]
fn under_a_lease_no_place_is_kept_that_an_earlier_life_was_granted() {
    for (seconds, expected) in [(Some(60), "gone"), (None, "starting")] {
        let mut bench = Bench::ready();
        bench.restart();
        bench.seen(1, Observation::Ready);
        let mut command = again(2, 0);
        if let GangCommand::Launch { tasks, .. } = &mut command {
            tasks[0].lease_s = seconds;
        }
        assert_eq!(bench.round(1, command), expected, "{seconds:?}");
    }
}

#[test]
fn a_place_that_holds_by_another_lease_is_not_kept() {
    for (had, wanted, expected) in [
        (None, Some(60), "gone"),
        (Some(60), None, "gone"),
        (Some(60), Some(60), "starting"),
    ] {
        let mut bench = Bench::new();
        bench.told(1, reserve(1, &[0]));
        let leased = |mut command: GangCommand, seconds| {
            if let GangCommand::Launch { tasks, .. } = &mut command {
                tasks[0].lease_s = seconds;
            }
            command
        };
        bench.told(1, leased(launch(1), had));
        let said = bench.round(1, leased(again(2, 0), wanted));
        assert_eq!(said, expected, "{had:?} {wanted:?}");
    }
}

#[test]
fn a_reservation_for_one_task_leaves_the_others_what_they_have() {
    let mut bench = Bench::new();
    bench.told(1, reserve(1, &[0]));
    let mut other = reserve(2, &[1]);
    if let GangCommand::Reserve { asks, .. } = &mut other {
        asks[0].member.task.index = 1;
    }
    assert_eq!(bench.round(1, other), "granted");
    assert_eq!(bench.uids(), ["u1", "u2"]);
    assert_eq!(bench.round(1, again(3, 0)), "starting");
}

#[test]
fn after_a_crash_what_was_there_before_is_removed_first() {
    let mut bench = Bench::ready();
    bench.round(1, again(2, 0));
    bench.steps();
    bench.start += 1;
    let identity = identity(bench.start);
    bench.ledger = Ledger::recover(identity, bench.disk.clone(), capacity()).unwrap();
    bench.input(LedgerInput::Started);
    bench.input(LedgerInput::Found(vec![uid(1)]));
    assert_eq!(bench.steps(), "adopt u2, remove u1");
    bench.seen(2, Observation::Absent);
    assert_eq!(bench.round(1, again(2, 0)), "refused", "it is there still");
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.round(1, again(2, 0)), "starting");
    assert_eq!(bench.steps(), "create u2");
}

#[test]
fn whoever_counts_on_a_task_to_give_way_counts_on_it_in_the_next_round() {
    let other = "other";
    let mut bench = Bench::new();
    bench.input(LedgerInput::Learned {
        vc: other.parse().unwrap(),
        generation: 1,
        term: Term(1),
    });
    let mut lent = reserve(1, &[0]);
    if let GangCommand::Reserve { evictable, .. } = &mut lent {
        *evictable = true;
    }
    bench.told(1, lent);
    bench.told(1, launch(1));
    bench.seen(1, Observation::Ready);
    let mut claim = reserve(9, &[0]);
    if let GangCommand::Reserve { victims, .. } = &mut claim {
        *victims = vec![uid(1)];
    }
    let said = |bench: &mut Bench, command| {
        let mut order = bench.order(1, run(9, 0), command);
        order.vc = other.parse().unwrap();
        word(&bench.deliver(order))
    };
    assert_eq!(said(&mut bench, claim), "granted");
    bench.round(1, again(2, 0));
    bench.steps();
    assert_eq!(said(&mut bench, launch(9)), "starting");
    bench.seen(1, Observation::Ended(exit()));
    assert_eq!(bench.steps(), "remove u1", "nobody has the device yet");
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.steps(), "create u9");
    assert_eq!(bench.uids(), ["u9"]);
}
