use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::key::{ClusterId, NodeKey, Sign, Signature};
use crate::member::Incarnation;
use crate::record::{AdmissionState, MemberBody, Record, RecordKey, RecordVersion, WatchBody};
use crate::roster::Roster;
use crate::store::NewestRecords;

mod plain;

use plain::Plain;

fn body(number: u32, state: AdmissionState) -> MemberBody {
    MemberBody {
        key: NodeKey(std::array::from_fn(|at| number.to_le_bytes()[at % 4])),
        name: format!("n{number}"),
        rack: String::new(),
        votes: true,
        state,
    }
}

fn roster(count: u32) -> Roster {
    let admitted = |number| (MemberId(number), body(number, AdmissionState::Admitted));
    Roster::of((0..count).map(admitted))
}

#[derive(Debug)]
struct Unsigned;

impl Sign for Unsigned {
    fn key(&self) -> NodeKey {
        NodeKey([0; 32])
    }
    fn sign(&self, _: &[u8]) -> Signature {
        Signature([0; 64])
    }
}

fn record<B: serde::Serialize>(key: RecordKey, life: u64, body: &B) -> Arc<Record> {
    let version = RecordVersion {
        incarnation: life,
        number: 1,
    };
    let record = Record::sign(ClusterId::default(), key, version, body, &Unsigned);
    Arc::new(record.unwrap())
}

fn cast(by: u32, votes: Vec<Vote>) -> Arc<Record> {
    record(RecordKey::Watch(MemberId(by)), 1, &WatchBody { votes })
}

/// All of `count` members are in this life, and vote so.
fn store(count: u32, life: u64, votes: &[(u32, u32, SuspicionLevel)]) -> NewestRecords {
    let mut store = NewestRecords::default();
    for member in (0..count).map(MemberId) {
        store.put(record(RecordKey::Node(member), life, &()));
    }
    let mut lists = BTreeMap::<_, Vec<_>>::new();
    for (watcher, subject, level) in votes {
        lists.entry(*watcher).or_default().push(Vote {
            subject: MemberId(*subject),
            incarnation: Incarnation(3),
            level: *level,
            heard: false,
        });
    }
    for (by, mut votes) in lists {
        votes.sort_by_key(|vote| vote.subject);
        store.put(cast(by, votes));
    }
    store
}

/// What follows from some records, with nothing kept from before.
fn see(on: VoteContext<'_>, me: MemberId, askers: &[MemberId]) -> (ReachFindings, ReachChange) {
    let mut tallies = Tallies::default();
    tallies.complete(on);
    let mut findings = ReachFindings::default();
    let changed = tallies.take_changed();
    let votes = Votes::new(on, &tallies, me);
    let found = votes.find(&changed, askers, true, &mut findings);
    (findings, found)
}

fn reach(
    count: u32,
    me: u32,
    life: u64,
    given: &[(u32, u32, SuspicionLevel)],
) -> Vec<(u32, Reach)> {
    let on = VoteContext {
        roster: &roster(count),
        store: &store(count, life, given),
    };
    let (findings, _) = see(on, MemberId(me), &[]);
    findings
        .reach()
        .map(|(member, reach)| (member.0, reach))
        .collect()
}

#[test]
fn votes_are_weighed() {
    use Reach::{Suspect, Unreachable};
    use SuspicionLevel::{Doubt, Gone, Sick};
    // Four members: each watches the three others.
    type Case<'a> = (
        &'a str,
        u64,
        &'a [(u32, u32, SuspicionLevel)],
        &'a [(u32, Reach)],
    );
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
        .flat_map(|by| (2..5).map(move |of| (by, of, SuspicionLevel::Gone)))
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
        votes.extend(by.iter().map(|by| (by.0, of.0, SuspicionLevel::Gone)));
    }
    let me = (0..40)
        .map(MemberId)
        .find(|m| !lost.contains(*m) && !next.contains(m) && *m != subject)
        .unwrap();
    let of = |votes: &[(u32, u32, SuspicionLevel)]| {
        let all = reach(40, me.0, 3, votes);
        all.iter()
            .find(|(member, _)| *member == subject.0)
            .map(|(_, reach)| *reach)
    };
    assert_eq!(of(&votes), None);
    for (count, watcher) in next.iter().enumerate() {
        votes.push((watcher.0, subject.0, SuspicionLevel::Gone));
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
                votes.push((by.0, subject.0, SuspicionLevel::Gone));
            }
        }
    }
    let on = VoteContext {
        roster: &roster,
        store: &store(count, 3, &votes),
    };
    let (found, _) = see(on, MemberId(0), &[]);
    assert!(
        found.accused.len() > count as usize / 4,
        "{}",
        found.accused.len()
    );
    let lost = found.lost.set();
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
    let mut votes: Vec<_> = watched
        .iter()
        .map(|of| (me.0, of.0, SuspicionLevel::Gone))
        .collect();
    votes.extend(watchers.iter().map(|by| (by.0, me.0, SuspicionLevel::Gone)));
    let on = VoteContext {
        roster: &roster,
        store: &store(40, 3, &votes),
    };
    // It hears none of those it watches.
    let (alone, found) = see(on, me, &[]);
    assert!(!alone.accused.contains(me), "its own word");
    assert!(!found.asked);
    assert!(watched.iter().all(|member| alone.lost.contains(*member)));
    // One of the others asks it, and hears them.
    let other = roster.admitted().find(|m| *m != me && !watched.contains(m));
    let (asked, found) = see(on, me, &[other.unwrap()]);
    assert!(found.asked);
    assert!(watched.iter().all(|member| !asked.lost.contains(*member)));
    // Its watchers say that it is gone: others step over it, which it knows.
    assert!(asked.lost.contains(me));
}

/// Numbers that look random: the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn member(&mut self, count: u32) -> MemberId {
        MemberId(u32::try_from(self.below(count as usize)).unwrap())
    }
}

/// A node's records, and what is kept up with them.
struct Kept {
    count: u32,
    roster: Roster,
    store: NewestRecords,
    lives: Vec<u64>,
    tallies: Tallies,
    findings: ReachFindings,
    anew: bool,
}

impl Kept {
    fn new(count: u32) -> Self {
        Self {
            count,
            roster: roster(count),
            store: store(count, 3, &[]),
            lives: vec![3; count as usize],
            tallies: Tallies::default(),
            findings: ReachFindings::default(),
            anew: true,
        }
    }

    /// A watcher votes anew, mostly on some of those it watches; where the cluster is cut in two,
    /// against all of the other part.
    fn vote(&mut self, dice: &mut Dice, cut: u32) {
        let by = dice.member(self.count);
        let mut subjects = self.roster.watched(by, &self.findings.lost).into_owned();
        let across = |member: &MemberId| (member.0 < cut) != (by.0 < cut);
        if cut > 0 {
            subjects.retain(across);
        } else {
            subjects.retain(|_| dice.below(3) == 0);
        }
        subjects.extend((0..dice.below(3) / 2).map(|_| dice.member(self.count + 1)));
        subjects.sort_unstable();
        subjects.dedup();
        let vote = |subject: MemberId| Vote {
            subject,
            incarnation: Incarnation(3 + dice.below(8) as u64 / 7),
            level: [
                SuspicionLevel::Sick,
                SuspicionLevel::Doubt,
                SuspicionLevel::Gone,
                SuspicionLevel::Gone,
            ][dice.below(4)],
            heard: false,
        };
        let after = cast(by.0, subjects.into_iter().map(vote).collect());
        let before = self.store.put(after.clone());
        let before = before
            .as_ref()
            .map_or(&[][..], |before| before.votes().unwrap());
        let on = VoteContext {
            roster: &self.roster,
            store: &self.store,
        };
        self.tallies.recast(on, by, before, after.votes().unwrap());
    }

    fn restart(&mut self, member: MemberId) {
        let life = &mut self.lives[member.index()];
        let before = Incarnation(*life);
        *life += 1;
        self.store.put(record(RecordKey::Node(member), *life, &()));
        let on = VoteContext {
            roster: &self.roster,
            store: &self.store,
        };
        self.tallies.reborn(on, member, before);
    }

    fn expel(&mut self, member: MemberId) {
        let gone = body(member.0, AdmissionState::Expelled);
        self.roster.set(member, gone);
        self.store.forget(member);
        self.tallies.spoil();
        self.anew = true;
    }

    /// Brings the findings up to date, and compares them with what follows from the records.
    fn check(&mut self, me: MemberId, askers: &[MemberId]) {
        let on = VoteContext {
            roster: &self.roster,
            store: &self.store,
        };
        self.tallies.complete(on);
        let changed = self.tallies.take_changed();
        let votes = Votes::new(on, &self.tallies, me);
        let anew = std::mem::take(&mut self.anew);
        let before = self.findings.lost.set().clone();
        let found = votes.find(&changed, askers, anew, &mut self.findings);
        let plain = Plain::new(on, me);
        assert!(self.findings.accused.iter().eq(plain.accused()));
        let (lost, asked) = plain.lost(askers);
        assert!(self.findings.lost.set().iter().eq(lost));
        assert_eq!(found.asked, asked);
        assert_eq!(found.moved, anew || *self.findings.lost.set() != before);
        let reach: Vec<_> = self.findings.reach().collect();
        assert_eq!(reach, plain.reach(&self.findings.lost));
        for member in (0..self.count).map(MemberId) {
            let voted = on
                .store
                .cast()
                .any(|(_, votes)| votes.iter().any(|vote| vote.subject == member));
            assert_eq!(self.tallies.is_voted_against(on, member), voted);
        }
    }
}

/// Records change at random, and what is kept up is compared again and again.
fn check_random(seed: u64, count: u32) {
    let mut dice = Dice(seed);
    let mut kept = Kept::new(count);
    let mut cut = 0;
    for _ in 0..150 {
        match dice.below(40) {
            0 => kept.expel(dice.member(count)),
            1..4 => kept.restart(dice.member(count)),
            4 => cut = dice.member(count).0,
            5 => cut = 0,
            _ => kept.vote(&mut dice, cut),
        }
        let askers = [dice.member(count), dice.member(count)];
        let askers = &askers[..dice.below(3)];
        let me = MemberId(0);
        if dice.below(3) == 0 && kept.roster.is_admitted(me) {
            kept.check(me, askers);
        }
    }
}

#[test]
fn what_is_kept_up_is_what_follows_from_the_records() {
    for seed in 0..100 {
        check_random(seed, 5 + u32::try_from(seed % 40).unwrap());
    }
    // So many that chains are looked for from both ends.
    for seed in 100..110 {
        check_random(seed, 400);
    }
}
