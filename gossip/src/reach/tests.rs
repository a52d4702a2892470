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

fn cast(votes: &[(u32, u32, Level)]) -> Cast {
    let mut cast = Cast::new();
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

fn reach(count: u32, me: u32, life: u64, given: &[(u32, u32, Level)]) -> Vec<(u32, Reach)> {
    let roster = roster(count);
    let cast = cast(given);
    let votes = Votes::new(&roster, &cast, MemberId(me), |_| Incarnation(life));
    let reach = votes.reach(&Absent::new(&roster, votes.accused()));
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
    let cases: [Case<'_>; 9] = [
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
    // All five watchers are gone, each said by two; one of the next says so of the subject.
    let accusers = (0..40)
        .map(MemberId)
        .filter(|m| !lost.contains(*m) && *m != subject);
    let accusers: Vec<_> = accusers.take(2).collect();
    let mut votes: Vec<_> = usual
        .iter()
        .flat_map(|of| accusers.iter().map(|by| (by.0, of.0, Level::Gone)))
        .collect();
    let me = (0..40)
        .map(MemberId)
        .find(|m| !lost.contains(*m) && !next.contains(m))
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
