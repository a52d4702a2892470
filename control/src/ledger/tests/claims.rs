//! What one virtual cluster was promised, and tasks of another one use.

use super::*;

const OTHER: &str = "other";

impl Bench {
    /// A node whose job 1 uses both devices, and may be evicted.
    fn lent() -> Self {
        let mut bench = Self::new();
        bench.input(LedgerInput::Learned {
            vc: OTHER.parse().unwrap(),
            generation: 1,
            term: Term(1),
        });
        let mut lent = reserve(1, &[0, 1]);
        if let GangCommand::Reserve { evictable, .. } = &mut lent {
            *evictable = true;
        }
        assert_eq!(bench.told(1, lent), "granted");
        bench.told(1, launch(1));
        bench.seen(1, Observation::Ready);
        bench.told(1, go(1));
        bench.seen(1, Observation::Running);
        bench.steps();
        bench
    }

    /// What is answered to the other virtual cluster's leader, in a word.
    fn other(&mut self, job: u64, command: GangCommand) -> &'static str {
        let mut order = self.order(1, run(job, 0), command);
        order.vc = OTHER.parse().unwrap();
        let reply = self.deliver(order);
        word(&reply)
    }

    fn state(&self, job: u64) -> String {
        let tasks = self.ledger.tasks();
        let task = tasks.iter().find(|task| task.uid == uid(job).as_str());
        task.map_or_else(|| "none".to_owned(), |task| task.state.clone())
    }
}

/// The devices, which job 1 would have to give up.
fn claim(job: u64, devices: &[u32]) -> GangCommand {
    let mut claim = reserve(job, devices);
    if let GangCommand::Reserve { victims, .. } = &mut claim {
        *victims = vec![uid(1)];
    }
    claim
}

#[test]
fn a_claim_costs_nobody_anything_and_a_launch_takes_what_was_claimed() {
    let mut bench = Bench::lent();
    assert_eq!(bench.other(2, claim(2, &[0])), "granted");
    assert_eq!(bench.state(2), "Claimed");
    assert_eq!(bench.steps(), "", "no signal is sent for a claim");
    assert_eq!(bench.other(2, launch(2)), "starting");
    let told = bench.tells.iter().filter_map(|tell| match tell {
        Tell::Answer(answer) => Some(word(&answer.reply)),
        Tell::Report(_) => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["evicted"], "its own leader hears of it");
    assert_eq!(
        bench.steps(),
        "stop u1",
        "nothing is created before it is gone"
    );
    assert_eq!(bench.told(1, stop(1)), "evicted");
    bench.seen(1, Observation::Ended(exit()));
    assert_eq!(bench.steps(), "remove u1");
    assert_eq!(
        bench.state(2),
        "Claimed",
        "its processes may still be there"
    );
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.steps(), "create u2");
    assert_eq!(bench.state(2), "Held");
    bench.seen(2, Observation::Ready);
    assert_eq!(bench.other(2, go(2)), "running");
}

#[test]
fn only_what_may_be_evicted_and_is_named_is_claimed() {
    let mut bench = Bench::lent();
    assert_eq!(bench.other(2, reserve(2, &[0])), "not free", "nobody named");
    assert_eq!(bench.other(2, claim(2, &[0])), "granted");
    assert_eq!(
        bench.other(3, claim(3, &[0])),
        "not free",
        "claimed already"
    );
    assert_eq!(bench.told(4, reserve(4, &[0])), "not free");
    assert_eq!(bench.other(2, stop(2)), "gone");
    assert_eq!(bench.other(3, claim(3, &[0])), "granted");
    let mut bench = Bench::new();
    bench.input(LedgerInput::Learned {
        vc: OTHER.parse().unwrap(),
        generation: 1,
        term: Term(1),
    });
    bench.told(1, reserve(1, &[0, 1]));
    assert_eq!(
        bench.other(2, claim(2, &[0])),
        "not free",
        "promised to its owner"
    );
    bench.told(1, launch(1));
    assert_eq!(bench.other(2, claim(2, &[0])), "not free");
}

#[test]
fn a_claim_ends_by_itself_and_is_a_reservation_once_its_victim_is_gone() {
    let mut bench = Bench::lent();
    bench.other(2, claim(2, &[0]));
    bench.now = bench.now.plus_millis(TTL_MS);
    bench.input(LedgerInput::Tick);
    assert_eq!(bench.state(2), "none");
    assert_eq!(bench.other(2, launch(2)), "gone");
    assert_eq!(
        bench.steps(),
        "",
        "who claims nothing any more evicts nobody"
    );
    bench.other(3, claim(3, &[0]));
    bench.seen(1, Observation::Ended(exit()));
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.state(3), "Reserved");
    bench.now = bench.now.plus_millis(TTL_MS);
    bench.input(LedgerInput::Tick);
    assert_eq!(bench.state(3), "none", "its end stays");
}

#[test]
fn cores_that_are_claimed_are_nobody_elses_when_their_user_leaves() {
    let mut bench = Bench::lent();
    assert_eq!(bench.free_cpu(), CPU - 4);
    bench.other(2, claim(2, &[0]));
    assert_eq!(
        bench.free_cpu(),
        CPU - 4,
        "counted once, while job 1 has them"
    );
    assert_eq!(bench.other(3, claim(3, &[1])), "granted");
    assert_eq!(bench.free_cpu(), 0, "job 1 has only those of one of them");
    bench.seen(1, Observation::Ended(exit()));
    bench.seen(1, Observation::Gone);
    assert_eq!(bench.free_cpu(), 0);
}

#[test]
fn who_was_told_to_give_way_ends_though_the_claim_is_taken_back_or_the_agent_dies() {
    let mut bench = Bench::lent();
    bench.other(2, claim(2, &[0]));
    bench.other(2, launch(2));
    bench.steps();
    assert_eq!(bench.other(2, stop(2)), "gone");
    assert_eq!(bench.state(1), "Draining");
    bench.restart();
    assert_eq!(bench.steps(), "adopt u1, stop u1");
    bench.seen(1, Observation::Running);
    assert_eq!(bench.state(1), "Draining");
}

#[test]
fn a_claimant_is_launched_anew_after_the_agents_death() {
    let mut bench = Bench::lent();
    bench.other(2, claim(2, &[0]));
    bench.other(2, launch(2));
    bench.restart();
    bench.learn(1);
    bench.seen(1, Observation::Ended(exit()));
    bench.seen(1, Observation::Gone);
    bench.steps();
    assert_eq!(bench.state(2), "Held");
    assert_eq!(bench.other(2, launch(2)), "starting");
    assert_eq!(bench.steps(), "create u2");
}

#[test]
fn a_reservation_that_may_be_evicted_ends_at_once() {
    let mut bench = Bench::new();
    bench.input(LedgerInput::Learned {
        vc: OTHER.parse().unwrap(),
        generation: 1,
        term: Term(1),
    });
    let mut lent = reserve(1, &[0]);
    if let GangCommand::Reserve { evictable, .. } = &mut lent {
        *evictable = true;
    }
    bench.told(1, lent);
    assert_eq!(bench.other(2, claim(2, &[0])), "granted");
    assert_eq!(bench.other(2, launch(2)), "starting");
    assert_eq!(bench.steps(), "create u2");
    assert_eq!(bench.told(1, launch(1)), "gone");
}

#[test]
fn leaders_of_other_virtual_clusters_hear_what_one_of_them_did() {
    let mut bench = Bench::lent();
    bench.tells.clear();
    bench.now = bench.now.plus_millis(200);
    bench.input(LedgerInput::Tick);
    let [Tell::Report(report)] = &*bench.tells else {
        panic!("{:?}", bench.tells);
    };
    let holding = report.tasks[0].holding.clone().unwrap();
    assert_eq!((holding.devices, holding.cpu), (vec![0, 1], 4));
    bench.tells.clear();
    bench.now = bench.now.plus_millis(1_000);
    bench.input(LedgerInput::Tick);
    assert_eq!(bench.tells, [], "nothing has changed since");
}
