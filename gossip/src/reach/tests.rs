use super::*;
use crate::key::NodeKey;
use crate::record::{MemberBody, MemberState};

fn roster(count: u32) -> Roster {
    let body = |number: u32| MemberBody {
        key: NodeKey([u8::try_from(number).unwrap(); 32]),
        name: format!("n{number}"),
        rack: String::new(),
        votes: true,
        state: MemberState::Admitted,
    };
    Roster::of((0..count).map(|number| (MemberId(number), body(number))))
}

fn cast(votes: &[(u32, u32, Level)]) -> BTreeMap<MemberId, Vec<Vote>> {
    let mut cast = BTreeMap::<_, Vec<_>>::new();
    for (watcher, subject, level) in votes {
        cast.entry(MemberId(*watcher)).or_default().push(Vote {
            subject: MemberId(*subject),
            incarnation: Incarnation(3),
            level: *level,
            heard: false,
        });
    }
    cast
}

/// As a store lists them.
fn list(cast: &BTreeMap<MemberId, Vec<Vote>>) -> Cast<'_> {
    let list = cast.iter().map(|(watcher, votes)| (*watcher, &**votes));
    list.collect()
}

fn reach(count: u32, me: u32, life: u64, given: &[(u32, u32, Level)]) -> Vec<(u32, Reach)> {
    let roster = roster(count);
    let cast = cast(given);
    let votes = Votes::new(&roster, list(&cast), MemberId(me), |_| Incarnation(life));
    let accused = votes.accused();
    let lost = Absent::new(&roster, votes.lost(&accused, &[]).0);
    let reach = votes.reach(&accused, &lost);
    reach
        .into_iter()
        .map(|(member, reach)| (member.0, reach))
        .collect()
}

#[test]
fn votes_are_weighed() {
    use Level::{Doubt, Gone, Sick};
    use Reach::{Suspect, Unreachable};
    // Four members: each watches the three others.
    type Case<'a> = (&'a str, u64, &'a [(u32, u32, Level)], &'a [(u32, Reach)]);
    let cases: [Case<'_>; 10] = [
        ("nothing", 3, &[], &[]),
        ("one vote", 3, &[(1, 0, Doubt)], &[(0, Suspect)]),
        ("sick", 3, &[(1, 0, Sick)], &[(0, Suspect)]),
        ("one says gone", 3, &[(1, 0, Gone)], &[(0, Suspect)]),
        (
            "two of three",
            3,
            &[(1, 0, Gone), (2, 0, Gone)],
            &[(0, Unreachable)],
        ),
        (
            "doubts only",
            3,
            &[(1, 0, Doubt), (2, 0, Doubt)],
            &[(0, Suspect)],
        ),
        ("of an earlier life", 4, &[(1, 0, Gone), (2, 0, Gone)], &[]),
        (
            "the last word of one that is gone",
            3,
            &[(0, 1, Gone), (1, 2, Gone), (2, 1, Gone)],
            &[(1, Unreachable)],
        ),
        ("against oneself", 3, &[(1, 1, Gone)], &[]),
        (
            "one that hears nobody",
            3,
            &[(1, 0, Gone), (1, 2, Gone), (1, 3, Gone)],
            &[(1, Suspect)],
        ),
    ];
    for (name, life, votes, expect) in cases {
        assert_eq!(reach(4, 3, life, votes), expect, "{name}");
    }
}

#[test]
fn an_island_of_two_loses_the_others_however_many() {
    let votes: Vec<_> = [0, 1]
        .into_iter()
        .flat_map(|by| (2..5).map(move |of| (by, of, Level::Gone)))
        .collect();
    let expect: Vec<_> = (2..5).map(|of| (of, Reach::Unreachable)).collect();
    assert_eq!(reach(5, 0, 3, &votes), expect);
    // The other island hears of these votes when the cut heals; its own ears say otherwise.
    let later = reach(5, 3, 3, &votes);
    assert!(later.contains(&(3, Reach::Suspect)), "{later:?}");
}

#[test]
fn the_next_in_the_ring_stands_in_for_watchers_that_are_gone() {
    let roster = roster(40);
    let none = Absent::NOBODY;
    let subject = MemberId(7);
    let usual = roster.watchers(subject, &none);
    let lost = Absent::new(&roster, usual.iter().copied().collect());
    let next = roster.watchers(subject, &lost);
    assert!(next.iter().all(|watcher| !lost.contains(*watcher)));
    // All five watchers are gone, as their watchers say; one of the next says so of the subject.
    let mut votes: Vec<_> = Vec::new();
    for of in usual.iter() {
        let by = roster.watchers(*of, &none);
        votes.extend(by.iter().map(|by| (by.0, of.0, Level::Gone)));
    }
    let me = (0..40)
        .map(MemberId)
        .find(|m| !lost.contains(*m) && !next.contains(m) && *m != subject)
        .unwrap();
    let of = |votes: &[(u32, u32, Level)]| {
        let all = reach(40, me.0, 3, votes);
        all.iter()
            .find(|(member, _)| *member == subject.0)
            .map(|(_, reach)| *reach)
    };
    assert_eq!(of(&votes), None);
    for (count, watcher) in next.iter().enumerate() {
        votes.push((watcher.0, subject.0, Level::Gone));
        let expect = if count < 2 {
            Reach::Suspect
        } else {
            Reach::Unreachable
        };
        assert_eq!(of(&votes), Some(expect), "{count}");
    }
}

/// What a node of the first half thinks of a cluster of `count`, where no watcher hears anybody of
/// the other half, but for those of `bridge`: how many it holds for lost, and whether one of the
/// other half among them.
fn halves(count: u32, bridge: Option<u32>) -> (usize, bool) {
    let roster = roster(count);
    let parted = |one: u32, other: u32| {
        let crosses = (one < count / 2) != (other < count / 2);
        crosses && Some(one) != bridge && Some(other) != bridge
    };
    let mut votes = Vec::new();
    for subject in roster.admitted() {
        for by in roster.watchers(subject, &Absent::NOBODY).iter() {
            // Without a bridge, what the others say does not come here.
            let known = bridge.is_some() || by.0 < count / 2;
            if known && parted(by.0, subject.0) {
                votes.push((by.0, subject.0, Level::Gone));
            }
        }
    }
    let cast = cast(&votes);
    let votes = Votes::new(&roster, list(&cast), MemberId(0), |_| Incarnation(3));
    let accused = votes.accused();
    assert!(accused.len() > count as usize / 4, "{}", accused.len());
    let (lost, _) = votes.lost(&accused, &[]);
    (lost.len(), lost.contains(MemberId(count - 1)))
}

#[test]
fn who_is_heard_by_somebody_heard_is_not_lost() {
    let (lost, other) = halves(60, None);
    assert!(lost >= 20 && other, "{lost}");
    // One node that hears both is a chain to the other half. A few are watched by nobody who
    // hears them.
    let (lost, _) = halves(60, Some(30));
    assert!(lost < 5, "{lost}");
}

#[test]
fn whoever_asks_is_heard_and_one_can_be_lost_oneself() {
    let roster = roster(40);
    let me = MemberId(7);
    let watched = roster.watched(me, &Absent::NOBODY);
    let watchers = roster.watchers(me, &Absent::NOBODY);
    let mut votes: Vec<_> = watched.iter().map(|of| (me.0, of.0, Level::Gone)).collect();
    votes.extend(watchers.iter().map(|by| (by.0, me.0, Level::Gone)));
    votes.sort_unstable_by_key(|(by, of, _)| (*by, *of));
    let cast = cast(&votes);
    let votes = Votes::new(&roster, list(&cast), me, |_| Incarnation(3));
    let accused = votes.accused();
    assert!(!accused.contains(me), "its own word");
    // It hears none of those it watches.
    let (alone, by_askers) = votes.lost(&accused, &[]);
    assert!(!by_askers);
    assert!(watched.iter().all(|member| alone.contains(*member)));
    // One of the others asks it, and hears them.
    let other = roster.admitted().find(|m| *m != me && !watched.contains(m));
    let (asked, by_askers) = votes.lost(&accused, &[other.unwrap()]);
    assert!(by_askers);
    assert!(watched.iter().all(|member| !asked.contains(*member)));
    // Its watchers say that it is gone: others step over it, which it knows.
    assert!(asked.contains(me));
}
