use super::*;

fn body(number: u32, racks: u32) -> MemberBody {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&number.to_le_bytes());
    MemberBody {
        key: NodeKey(key),
        name: format!("n{number}"),
        rack: if racks == 0 {
            String::new()
        } else {
            format!("r{}", number % racks)
        },
        votes: true,
        state: AdmissionState::Admitted,
    }
}

fn roster(count: u32, racks: u32) -> Roster {
    Roster::of((0..count).map(|number| (MemberId(number), body(number, racks))))
}

#[test]
fn everybody_has_as_many_watchers_as_there_can_be() {
    for (count, expect) in [(1, 0), (2, 1), (3, 2), (6, 5), (7, 5), (200, 5)] {
        let roster = roster(count, 3);
        for member in roster.admitted() {
            let watchers = roster.watchers(member, &Absent::NOBODY);
            assert_eq!(watchers.len(), expect, "{member:?} of {count}");
            assert!(!watchers.contains(&member));
        }
    }
}

#[test]
fn the_watched_are_those_whose_watcher_one_is() {
    for (count, racks, gone) in [(9, 0, 0), (60, 4, 0), (60, 4, 20), (200, 0, 150)] {
        let roster = roster(count, racks);
        let without = Absent::new(&roster, (0..gone).map(MemberId).collect());
        for watcher in roster.admitted().filter(|m| !without.contains(*m)) {
            let watched = roster.watched(watcher, &without);
            let expect: Vec<_> = roster
                .admitted()
                .filter(|member| roster.watchers(*member, &without).contains(&watcher))
                .collect();
            assert_eq!(*watched, *expect, "{count} {racks} {gone} {watcher:?}");
        }
    }
}

#[test]
fn the_next_in_the_ring_stand_in_for_the_absent() {
    for (racks, gone) in [(0, 1), (0, 30), (5, 30), (4, 58), (0, 60)] {
        let roster = roster(60, racks);
        // As if the absent had never been members: then the nearest left are the watchers.
        let left = roster.admitted().filter(|member| member.0 >= gone);
        let rest = Roster::of(left.map(|member| (member, body(member.0, racks))));
        let absent = Absent::new(&roster, (0..gone).map(MemberId).collect());
        for member in roster.admitted().filter(|member| member.0 >= gone) {
            let watchers = roster.watchers(member, &absent);
            assert!(watchers.iter().all(|watcher| !absent.contains(*watcher)));
            assert_eq!(
                watchers.len(),
                RINGS.min(rest.len() - 1),
                "{gone} {member:?}"
            );
            let usual = roster.watchers(member, &Absent::NOBODY);
            if usual.iter().all(|watcher| absent.contains(*watcher)) {
                assert_eq!(watchers, rest.watchers(member, &Absent::NOBODY));
            }
        }
    }
}

#[test]
fn watching_is_spread_evenly() {
    let roster = roster(2_000, 0);
    let most = roster
        .admitted()
        .map(|member| roster.watched(member, &Absent::NOBODY).len())
        .max();
    assert!(most <= Some(8), "{most:?}");
}

#[test]
fn watchers_stand_in_other_racks() {
    let roster = roster(120, 12);
    for member in roster.admitted() {
        let mut racks: Vec<_> = roster
            .watchers(member, &Absent::NOBODY)
            .iter()
            .map(|watcher| watcher.0 % 12)
            .chain([member.0 % 12])
            .collect();
        racks.sort_unstable();
        racks.dedup();
        assert!(racks.len() >= 5, "{member:?}: {racks:?}");
    }
}

#[test]
fn one_by_one_is_the_same_as_all_at_once() {
    let mut grown = Roster::default();
    for number in [5, 3, 8, 1, 0, 2, 4, 6, 7] {
        grown.set(MemberId(number), body(number, 0));
    }
    grown.set(
        MemberId(3),
        MemberBody {
            state: AdmissionState::Expelled,
            ..body(3, 0)
        },
    );
    let nine = roster(9, 0);
    let left = nine.admitted().filter(|member| member.0 != 3);
    let whole = Roster::of(left.map(|member| (member, body(member.0, 0))));
    assert_eq!(grown.len(), 8);
    assert_eq!(grown.member_of(&body(3, 0).key), None);
    for member in whole.admitted() {
        let none = Absent::NOBODY;
        assert_eq!(grown.watchers(member, &none), whole.watchers(member, &none));
    }
}
