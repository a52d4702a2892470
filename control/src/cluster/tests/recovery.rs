use std::collections::BTreeSet;

use muster_gossip::member::MemberId;

use super::world::birth;
use crate::cluster::{Birth, Copy, Hindrance, Home};

fn members(numbers: &[u32]) -> BTreeSet<MemberId> {
    numbers.iter().copied().map(MemberId).collect()
}

/// Of one of five voters.
fn copy(group: u64, member: u32, last: (u64, u64)) -> Copy {
    Copy {
        group,
        home: Home {
            member: MemberId(member),
            store: 100 + u64::from(member),
        },
        last,
        leads: false,
        voters: members(&[1, 2, 3, 4, 5]),
    }
}

#[test]
fn it_goes_on_from_the_copy_that_knows_most() {
    let known = birth("prod", 11);
    // A longer log of an older term has nothing that was committed later.
    let copies = [copy(11, 2, (3, 90)), copy(11, 4, (4, 70))];
    let plan = known.recovery(&copies, 13).unwrap();
    let expected = Birth {
        generation: 2,
        homes: vec![copies[1].home],
        before: vec![11],
        heir_of: Some(11),
        ..birth("prod", 13)
    };
    assert_eq!(plan.birth, expected);
    assert_eq!(plan.voters, members(&[1, 2, 3, 4, 5]));
    assert_eq!(plan.missing, members(&[1, 3, 5]));
    // One that only learns may know most, and is no vote.
    let learner = copy(11, 9, (4, 80));
    let more = [&copies[..], &[learner]].concat();
    let plan = known.recovery(&more, 13).unwrap();
    assert_eq!(plan.birth.homes[0].member, MemberId(9));
    assert_eq!(plan.missing, members(&[1, 3, 5]));
}

#[test]
fn what_was_born_and_lost_before_anybody_knew_it_is_passed_over() {
    let second = Birth {
        generation: 2,
        before: vec![11],
        heir_of: Some(11),
        ..birth("prod", 13)
    };
    let old = copy(11, 2, (9, 90));
    let plan = second.recovery(std::slice::from_ref(&old), 17).unwrap();
    assert_eq!(plan.birth.before, [11, 13]);
    assert_eq!(plan.birth.heir_of, Some(11));
    assert_eq!(plan.birth.generation, 3);
    // What is of the newer one counts for more, however little it is.
    let new = Copy {
        voters: members(&[4, 6]),
        ..copy(13, 4, (2, 5))
    };
    let plan = second.recovery(&[old.clone(), new], 17).unwrap();
    assert_eq!(plan.birth.heir_of, Some(13));
    assert_eq!(plan.missing, members(&[6]));
    let empty = copy(13, 4, (0, 0));
    let plan = second.recovery(&[old, empty], 17).unwrap();
    assert_eq!(plan.birth.heir_of, Some(11));
}

#[test]
fn what_has_most_of_its_voters_is_left_alone() {
    let known = birth("prod", 11);
    let three = [2, 3, 4].map(|member| copy(11, member, (3, 90)));
    let majority = Err(Hindrance::Majority(members(&[2, 3, 4])));
    assert_eq!(known.recovery(&three, 13), majority);
    let mut led = three[..1].to_vec();
    led[0].leads = true;
    let leader = Err(Hindrance::Led(MemberId(2)));
    assert_eq!(known.recovery(&led, 13), leader);
    // An old leader that knows nothing of its successor.
    let second = Birth {
        before: vec![11],
        ..birth("prod", 13)
    };
    assert!(second.recovery(&led, 17).is_ok());
    assert_eq!(known.recovery(&[], 13), Err(Hindrance::NoCopy));
    let stranger = copy(12, 2, (3, 90));
    assert_eq!(known.recovery(&[stranger], 13), Err(Hindrance::NoCopy));
}
