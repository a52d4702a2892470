//! Attempts that fail alike on the same node.

use muster_model::exit::{JudgedBy, Progress, Verdict};

use super::*;

/// A job of one task that may be tried again this often.
fn patient(name: &str, retries: i32) -> VcEntry {
    let VcEntry::Accept(mut accepted) = job(name, 1, CPU) else {
        unreachable!("a job is accepted")
    };
    accepted.spec.retry_count = retries;
    VcEntry::Accept(accepted)
}

/// The node that the next attempt is placed on; it runs there until it ends with this code.
fn runs_and_fails(bench: &mut Bench, code: i32, step: Option<u64>) -> String {
    runs_and_ends(bench, code, |verdict| {
        verdict.progress = step.map(|step| Progress {
            epoch: None,
            step: Some(step),
        });
    })
}

/// As [`runs_and_fails`], with a verdict that is changed so.
fn runs_and_ends(bench: &mut Bench, code: i32, change: impl FnOnce(&mut Verdict)) -> String {
    let heard = bench.heard();
    let (name, _) = heard.rsplit_once(' ').unwrap_or((&heard, ""));
    let name = name.rsplit(' ').next().unwrap_or_default().to_owned();
    bench.grant(&name);
    bench.stands(&name, &TaskStanding::Ready);
    bench.heard();
    let TaskStanding::Ended(mut verdict) = ended(code) else {
        unreachable!("it has ended")
    };
    change(&mut verdict);
    bench.stands(&name, &TaskStanding::Ended(verdict));
    bench.wait();
    name
}

#[test]
fn after_two_failures_alike_on_a_node_the_next_attempt_goes_elsewhere() {
    let mut bench = Bench::new();
    bench.commit(&patient("x", 9));
    let first = runs_and_fails(&mut bench, 1, None);
    assert_eq!(
        runs_and_fails(&mut bench, 1, None),
        first,
        "once is no sign"
    );
    let third = runs_and_fails(&mut bench, 1, None);
    assert_ne!(third, first);
}

#[test]
fn failures_that_differ_or_get_on_say_nothing_of_the_node() {
    for ends in [[(1, None), (2, None)], [(1, Some(10)), (1, Some(20))]] {
        let mut bench = Bench::new();
        bench.commit(&patient("x", 9));
        let nodes = ends.map(|(code, step)| runs_and_fails(&mut bench, code, step));
        let third = runs_and_fails(&mut bench, 1, None);
        assert_eq!([&nodes[1], &third], [&nodes[0]; 2], "{ends:?}");
    }
}

#[test]
fn without_room_elsewhere_it_has_its_place_back() {
    let mut bench = Bench::new();
    bench.unreachable(&["n2"]);
    bench.commit(&patient("x", 9));
    for _ in 0..4 {
        assert_eq!(runs_and_fails(&mut bench, 1, None), "n1");
    }
}

#[test]
fn a_rule_can_send_the_next_attempt_elsewhere_after_one_failure() {
    for goes_elsewhere in [true, false] {
        let judge = |verdict: &mut Verdict| {
            verdict.judged = Some(JudgedBy {
                rules_version: 7,
                pattern: Some(1),
                place: None,
                shadow: None,
                goes_elsewhere,
                in_a_row_max: None,
            });
        };
        let mut bench = Bench::new();
        bench.commit(&patient("x", 9));
        let first = runs_and_ends(&mut bench, 1, judge);
        let second = runs_and_ends(&mut bench, 2, judge);
        assert_eq!(second != first, goes_elsewhere);
    }
}
