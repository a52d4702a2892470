use super::*;

const WIRE: u64 = 350_000;

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn uid(n: u8) -> AttemptUid {
    AttemptUid::from_bytes([n; 16])
}

fn leased(n: u8, seconds: u32) -> Leased {
    Leased {
        uid: uid(n),
        vc: "default".parse().unwrap(),
        lease: Some(LeaseTime { seconds }),
        before: None,
    }
}

/// The same before its placement was committed.
fn reserved(n: u8) -> Leased {
    Leased {
        lease: None,
        ..leased(n, 15)
    }
}

fn tick(holder: &mut LeaseHolder, ms: u64) -> Vec<LeaseOutput> {
    let mut out = Vec::new();
    holder.tick(at(ms), &mut out);
    out
}

/// The requests that are due, and whom they go to.
fn asks(holder: &mut LeaseHolder, ms: u64) -> Vec<RenewalRequest> {
    let asked = tick(holder, ms).into_iter().map(|output| match output {
        LeaseOutput::Ask(request) => request,
        other => panic!("{other:?}"),
    });
    asked.collect()
}

fn answer(holder: &mut LeaseHolder, request: &RenewalRequest, granted: bool) -> Vec<LeaseOutput> {
    let mut out = Vec::new();
    holder.answered(request, granted, &mut out);
    out
}

fn extend(n: u8, ms: u64) -> LeaseOutput {
    LeaseOutput::Extend {
        uid: uid(n),
        ends: at(ms),
    }
}

/// A holder of one task with a lease of 300 s, granted at 0.
fn holder() -> LeaseHolder {
    let mut holder = LeaseHolder::default();
    holder.follow(at(0), [reserved(1)]);
    assert_eq!(holder.deadline(), None);
    holder.follow(at(500), [leased(1, 300)]);
    assert_eq!(holder.ends(&uid(1)), Some(at(WIRE)));
    holder
}

#[test]
fn a_lease_counts_from_the_grant_and_then_from_the_sending_of_each_request() {
    let mut holder = holder();
    assert_eq!(holder.deadline(), Some(at(15_000)), "the first renewal");
    let asked = asks(&mut holder, 16_000);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].of, LeaseAuthority::Vc);
    // However late the answer.
    let out = answer(&mut holder, &asked[0], true);
    assert_eq!(out, [extend(1, 16_000 + WIRE)]);
    assert_eq!(holder.deadline(), Some(at(31_000)), "the next renewal");
    assert_eq!(asks(&mut holder, 31_000).len(), 1);
}

#[test]
fn renewals_of_several_virtual_clusters_come_to_be_asked_for_together() {
    let mut holder = LeaseHolder::default();
    let other = Leased {
        vc: "prod".parse().unwrap(),
        ..leased(2, 300)
    };
    holder.follow(at(0), [leased(1, 300)]);
    holder.follow(at(9_000), [leased(1, 300), other]);
    // The second would be due at 24 s, which is too far away; and again at the next turn.
    let mut ask = |ms, count| {
        let asked = asks(&mut holder, ms);
        for request in &asked {
            answer(&mut holder, request, true);
        }
        assert_eq!(asked.len(), count, "at {ms}");
        holder.deadline().unwrap()
    };
    assert_eq!(ask(15_000, 1), at(24_000));
    // The first would be due at 30 s, and goes along.
    assert_eq!(ask(24_000, 2), at(39_000));
    assert_eq!(ask(39_000, 2), at(54_000));
}

#[test]
fn what_an_earlier_life_left_is_renewed_at_once() {
    let mut holder = LeaseHolder::default();
    holder.adopt(at(1_000), [leased(1, 300)]);
    holder.follow(at(1_000), [leased(1, 300)]);
    assert_eq!(holder.ends(&uid(1)), None);
    let asked = asks(&mut holder, 1_000);
    assert_eq!(
        answer(&mut holder, &asked[0], true),
        [extend(1, 1_000 + WIRE)]
    );
}

#[test]
fn what_holds_by_no_lease_asks_for_nothing() {
    let mut holder = LeaseHolder::default();
    holder.follow(at(0), [reserved(1)]);
    assert_eq!(holder.deadline(), None);
    holder.follow(at(1), []);
    assert_eq!(holder.deadline(), None);
}

#[test]
fn the_shortest_lease_says_how_often_all_are_renewed() {
    let mut holder = LeaseHolder::default();
    holder.follow(at(0), [leased(1, 300), leased(2, 15)]);
    let asked = asks(&mut holder, 1_000);
    let out = answer(&mut holder, &asked[0], true);
    assert_eq!(out, [extend(1, 1_000 + WIRE), extend(2, 38_000)]);
    assert_eq!(holder.deadline(), Some(at(2_000)));
}

#[test]
fn whoever_misses_a_renewal_asks_the_other_leader_too() {
    let mut holder = holder();
    let asked = asks(&mut holder, 15_000);
    assert_eq!(asked.len(), 1);
    assert_eq!(answer(&mut holder, &asked[0], false), []);
    assert_eq!(asks(&mut holder, 18_000), [], "not that often");
    let asked = asks(&mut holder, 18_750);
    let of: Vec<_> = asked.iter().map(|request| request.of).collect();
    assert_eq!(of, [LeaseAuthority::Vc, LeaseAuthority::Cluster]);
    assert_eq!(
        answer(&mut holder, &asked[1], true),
        [extend(1, 18_750 + WIRE)]
    );
    assert_eq!(holder.deadline(), Some(at(33_750)));
    // The answer to what was sent before renews nothing beyond that, and takes nothing back.
    assert_eq!(answer(&mut holder, &asked[0], true), []);
}

#[test]
fn one_request_at_a_time_goes_to_each() {
    let mut holder = holder();
    assert_eq!(asks(&mut holder, 15_000).len(), 1);
    let asked = asks(&mut holder, 18_750);
    assert_eq!(asked.len(), 1, "the first is on its way still");
    assert_eq!(asked[0].of, LeaseAuthority::Cluster);
    assert_eq!(asks(&mut holder, 60_000), []);
}

#[test]
fn an_answer_to_another_request_is_void() {
    let mut holder = holder();
    let asked = asks(&mut holder, 15_000);
    let other = RenewalRequest {
        number: asked[0].number + 7,
        ..asked[0].clone()
    };
    assert_eq!(answer(&mut holder, &other, true), []);
    assert_eq!(answer(&mut holder, &asked[0], true).len(), 1);
    assert_eq!(answer(&mut holder, &asked[0], true), [], "once");
}

#[test]
fn a_lease_that_is_over_never_revives() {
    let mut holder = holder();
    let asked = asks(&mut holder, 15_000);
    let end = WIRE - GRACE_MS;
    let before = tick(&mut holder, end - 1);
    assert!(!before.contains(&LeaseOutput::End { uid: uid(1) }));
    assert!(tick(&mut holder, end).contains(&LeaseOutput::End { uid: uid(1) }));
    assert_eq!(answer(&mut holder, &asked[0], true), [], "too late");
    let asked = asks(&mut holder, WIRE);
    assert_eq!(
        asked[0].of,
        LeaseAuthority::Vc,
        "and it is not told to end again"
    );
    assert_eq!(answer(&mut holder, &asked[0], true), []);
    // Others are renewed all the same.
    holder.follow(at(WIRE + 1), [leased(1, 300), leased(2, 300)]);
    let asked = asks(&mut holder, WIRE + 15_001);
    let granted = answer(&mut holder, &asked[0], true);
    assert_eq!(granted, [extend(2, 2 * WIRE + 15_001)]);
}

#[test]
fn what_the_ledger_holds_no_more_is_forgotten() {
    let mut holder = holder();
    let asked = asks(&mut holder, 15_000);
    holder.follow(at(15_001), []);
    assert_eq!(holder.deadline(), None);
    assert_eq!(answer(&mut holder, &asked[0], true), []);
    assert_eq!(tick(&mut holder, WIRE), []);
}
