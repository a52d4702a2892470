use std::collections::BTreeSet;

use muster_gossip::member::MemberId;

use super::world::creation;
use crate::cluster::{CopyHome, Hindrance, RecoverableCopy, VcCreation};

fn members(numbers: &[u32]) -> BTreeSet<MemberId> {
    numbers.iter().copied().map(MemberId).collect()
}

/// Of one of five voters.
fn copy(group: u64, member: u32, last: (u64, u64)) -> RecoverableCopy {
    RecoverableCopy {
        group,
        home: CopyHome {
            member: MemberId(member),
            store: 100 + u64::from(member),
        },
        last,
        leads: false,
        voters: members(&[1, 2, 3, 4, 5]),
        outgoing: BTreeSet::new(),
    }
}

#[test]
fn it_goes_on_from_the_copy_that_knows_most() {
    let none = BTreeSet::new();
    let known = creation("prod", 11);
    // A longer log of an older term has nothing that was committed later.
    let copies = [copy(11, 2, (3, 90)), copy(11, 4, (4, 70))];
    let plan = known.lineage().recovery(&copies, &none, 13).unwrap();
    let expected = VcCreation {
        generation: 2,
        homes: vec![copies[1].home],
        before: vec![11],
        ..creation("prod", 13)
    };
    assert_eq!(plan.creation(expected.vc.clone()), expected);
    assert_eq!(plan.voters, members(&[1, 2, 3, 4, 5]));
    assert_eq!(plan.missing, members(&[1, 3, 5]));
    // One that only learns may know most, and is no vote.
    let learner = copy(11, 9, (4, 80));
    let more = [&copies[..], &[learner]].concat();
    let plan = known.lineage().recovery(&more, &none, 13).unwrap();
    assert_eq!(plan.lineage.homes[0].member, MemberId(9));
    assert_eq!(plan.missing, members(&[1, 3, 5]));
}

#[test]
fn what_was_born_and_lost_before_anybody_knew_it_is_passed_over() {
    let none = BTreeSet::new();
    let second = VcCreation {
        generation: 2,
        before: vec![11],
        ..creation("prod", 13)
    };
    let old = copy(11, 2, (9, 90));
    let plan = second
        .lineage()
        .recovery(std::slice::from_ref(&old), &none, 17)
        .unwrap();
    assert_eq!(plan.lineage.before, [11, 13]);
    assert_eq!((plan.from, plan.lineage.generation), (1, 3));
    // What is of the newer one counts for more, however little it is.
    let new = RecoverableCopy {
        voters: members(&[4, 6]),
        ..copy(13, 4, (2, 5))
    };
    let plan = second
        .lineage()
        .recovery(&[old.clone(), new], &none, 17)
        .unwrap();
    assert_eq!(plan.from, 2);
    assert_eq!(plan.missing, members(&[6]));
    let empty = copy(13, 4, (0, 0));
    let plan = second.lineage().recovery(&[old, empty], &none, 17).unwrap();
    assert_eq!(plan.from, 1);
}

#[test]
fn what_has_most_of_its_voters_is_left_alone() {
    let none = BTreeSet::new();
    let known = creation("prod", 11);
    let three = [2, 3, 4].map(|member| copy(11, member, (3, 90)));
    let majority = Err(Hindrance::Majority(members(&[2, 3, 4])));
    assert_eq!(known.lineage().recovery(&three, &none, 13), majority);
    let mut led = three[..1].to_vec();
    led[0].leads = true;
    let leader = Err(Hindrance::Led(MemberId(2)));
    assert_eq!(known.lineage().recovery(&led, &none, 13), leader);
    // An old leader that knows nothing of its successor.
    let second = VcCreation {
        before: vec![11],
        ..creation("prod", 13)
    };
    assert!(second.lineage().recovery(&led, &none, 17).is_ok());
    assert_eq!(
        known.lineage().recovery(&[], &none, 13),
        Err(Hindrance::NoCopy)
    );
    let stranger = copy(12, 2, (3, 90));
    assert_eq!(
        known.lineage().recovery(&[stranger], &none, 13),
        Err(Hindrance::NoCopy)
    );
}

#[test]
fn what_nobody_serves_any_more_needs_no_majority() {
    let none = BTreeSet::new();
    // Recovered at n2, which died before it began; the others are back.
    let second = VcCreation {
        generation: 2,
        homes: vec![copy(11, 2, (0, 0)).home],
        before: vec![11],
        ..creation("prod", 13)
    };
    let back = [1, 4, 5].map(|member| copy(11, member, (3, 90)));
    let plan = second.lineage().recovery(&back, &none, 17).unwrap();
    assert_eq!((plan.from, plan.lineage.before), (1, vec![11, 13]));
    assert_eq!(plan.missing, members(&[2, 3]));
    // As long as n2 is there with what it is to begin with, it does.
    let there = [&back[..], &[copy(11, 2, (3, 80))]].concat();
    let begins = Err(Hindrance::Begins(MemberId(2)));
    assert_eq!(second.lineage().recovery(&there, &none, 17), begins);
    // On another disk it has nothing to begin with.
    let mut empty = copy(11, 2, (3, 80));
    empty.home.store = 7;
    let there = [&back[..], &[empty]].concat();
    assert!(second.lineage().recovery(&there, &none, 17).is_ok());
}

#[test]
fn whoever_may_know_more_has_to_be_named() {
    let known = creation("prod", 11);
    // Of a copy that was taken out of its group while it was away.
    let old = [copy(11, 2, (3, 90))];
    let plan = known
        .lineage()
        .recovery(&old, &members(&[4, 8]), 13)
        .unwrap();
    assert_eq!(plan.missing, members(&[1, 3, 4, 5, 8]));
    // While voters change, most of both are needed.
    let change = |member| RecoverableCopy {
        voters: members(&[1, 2, 4]),
        outgoing: members(&[1, 2, 3]),
        ..copy(11, member, (3, 90))
    };
    let none = BTreeSet::new();
    let plan = known
        .lineage()
        .recovery(&[2, 4].map(change), &none, 13)
        .unwrap();
    assert_eq!(plan.missing, members(&[1, 3]));
    assert_eq!(plan.voters, members(&[1, 2, 3, 4]));
    let both = known.lineage().recovery(&[1, 2].map(change), &none, 13);
    assert_eq!(both, Err(Hindrance::Majority(members(&[1, 2]))));
}
