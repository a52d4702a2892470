use muster_gossip::key::ClusterId;

use super::super::routing::RoutingRecord;
use super::super::seen::{Halt, MemberSeen};
use super::*;
use crate::cluster::Lineage;

const CLUSTER: ClusterId = ClusterId([9; 16]);
/// The group of virtual cluster `prod`, and the one that takes its place.
const PROD: u64 = 11;
const RECOVERED: u64 = 12;
const RULES: DocumentId = DocumentId(1);

/// A cluster as member 0 sees it.
struct World {
    seen: MembersSeen,
    prod: u64,
    own: BTreeMap<GroupId, Voters>,
    alarms: Alarms,
}

fn member(number: u32) -> MemberSeen {
    MemberSeen {
        name: format!("n{number}"),
        rack: String::new(),
        votes: true,
        reach: Reach::Alive,
        routing: Some(RoutingRecord {
            store: 100 + u64::from(number),
            ..RoutingRecord::default()
        }),
    }
}

impl World {
    /// So many members, of which as many vote in `prod`; the last one leads it.
    fn new(members: u32, voters: u32) -> Self {
        let all = (0..members).map(|number| (MemberId(number), member(number)));
        let seen = MembersSeen {
            cluster: CLUSTER,
            members: all.collect(),
            lineage: Lineage::of_cluster(CLUSTER, None),
            halted: BTreeMap::new(),
            is_expelled: false,
            is_cloned: false,
        };
        let mut world = Self {
            seen,
            prod: PROD,
            own: BTreeMap::new(),
            alarms: Alarms::default(),
        };
        let voters: Vec<u32> = (0..voters).collect();
        world.lead(*voters.last().unwrap(), 1, &voters);
        assert_eq!(world.look(), [""; 0]);
        world
    }

    /// A member leads `prod` in this term, and these vote.
    fn lead(&mut self, leader: u32, term: u64, voters: &[u32]) {
        for (id, member) in &mut self.seen.members {
            let copy = AdvertisedCopy {
                group: self.prod,
                votes: true,
                leads: if id.0 == leader { term } else { 0 },
                voters: match id.0 == leader {
                    true => voters.iter().copied().map(MemberId).collect(),
                    false => Vec::new(),
                },
            };
            let record = member.routing.as_mut().unwrap();
            record.copies = voters.contains(&id.0).then_some(copy).into_iter().collect();
        }
    }

    fn reach(&mut self, number: u32, reach: Reach) {
        self.at(number).reach = reach;
    }

    fn lose(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.reach(*number, Reach::Unreachable);
        }
    }

    fn at(&mut self, number: u32) -> &mut MemberSeen {
        self.seen.members.get_mut(&MemberId(number)).unwrap()
    }

    fn remove(&mut self, number: u32) {
        self.seen.members.remove(&MemberId(number));
    }

    /// What is told, in a word each.
    fn look(&mut self) -> Vec<String> {
        let vc = Owner::Vc("prod".parse().unwrap());
        let cluster = GroupId(self.seen.lineage.group);
        let sight = Sight {
            me: MemberId(0),
            seen: &self.seen,
            groups: [(Owner::Cluster, cluster), (vc, GroupId(self.prod))].into(),
            own: self.own.clone(),
        };
        let events = self.alarms.look(&sight);
        assert_eq!(self.alarms.look(&sight), [], "it is told once");
        events.iter().map(word).collect()
    }
}

fn named(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Expelled => "expelled".to_owned(),
        Trouble::KeyUsedTwice => "key".to_owned(),
        Trouble::ManyLost { lost, members } => format!("{lost} of {members}"),
        Trouble::MemberLost { name, .. } => name.clone(),
        Trouble::AtRisk(majority) => format!("at risk {}", voted(majority)),
        Trouble::MajorityLost(majority) => format!("stopped {}", voted(majority)),
        Trouble::QuarantinesHeldBack { parts } => format!("held back {parts}"),
        Trouble::EditHalted {
            version,
            rejected_by,
            ..
        } => format!("edit {version} {}", rejected_by.join(",")),
    }
}

fn voted(majority: &Majority) -> String {
    let Majority { voters, away, .. } = majority;
    format!("{}-{}", voters.join(","), away.join(","))
}

fn word(event: &MemberEvent) -> String {
    match event {
        MemberEvent::Raised(trouble) => format!("+ {}", named(trouble)),
        MemberEvent::Cleared { trouble, why } => format!("- {} {why:?}", named(trouble)),
        MemberEvent::LeaderChanged { leader, before, .. } => format!("{before} > {leader}"),
        MemberEvent::Succeeded { .. } | MemberEvent::CopiesChange { .. } => panic!("not by alarms"),
    }
}

#[test]
fn a_member_is_lost_once_and_back_once() {
    let mut world = World::new(5, 1);
    world.reach(3, Reach::Suspect);
    assert_eq!(world.look(), [""; 0]);
    world.lose(&[3]);
    assert_eq!(world.look(), ["+ n3"]);
    world.at(4).rack = "r1".to_owned();
    assert_eq!(world.look(), [""; 0]);
    world.reach(3, Reach::Suspect);
    assert_eq!(world.look(), ["- n3 Well"]);
    world.reach(3, Reach::Alive);
    assert_eq!(world.look(), [""; 0]);
    world.lose(&[3]);
    assert_eq!(world.look(), ["+ n3"], "it is another loss");
}

#[test]
fn a_member_that_was_expelled_is_lost_no_more() {
    let mut world = World::new(5, 1);
    world.lose(&[3]);
    world.look();
    world.remove(3);
    assert_eq!(world.look(), ["- n3 Gone"]);
    // One that left in order never was.
    world.remove(4);
    assert_eq!(world.look(), [""; 0]);
}

#[test]
fn a_member_does_not_lose_itself() {
    let mut world = World::new(3, 3);
    world.lose(&[0]);
    assert_eq!(world.look(), [""; 0]);
}

#[test]
fn many_are_three_and_more_than_a_third() {
    let mut world = World::new(9, 1);
    world.lose(&[6, 7, 8]);
    assert_eq!(world.look(), ["+ n6", "+ n7", "+ n8"]);
    world.lose(&[5]);
    assert_eq!(world.look(), ["+ 4 of 9", "+ n5"]);
    world.lose(&[4]);
    assert_eq!(world.look(), ["+ n4"]);
    world.reach(4, Reach::Alive);
    world.reach(5, Reach::Alive);
    let told = world.look();
    assert_eq!(told, ["- 4 of 9 Well", "- n4 Well", "- n5 Well"]);
    let mut small = World::new(3, 1);
    small.lose(&[1, 2]);
    assert_eq!(small.look(), ["+ n1", "+ n2"]);
}

#[test]
fn a_majority_is_at_risk_then_lost_then_well() {
    let mut world = World::new(7, 5);
    world.lose(&[1]);
    assert_eq!(world.look(), ["+ n1"], "any one may fail");
    world.lose(&[2]);
    assert_eq!(world.look(), ["+ n2", "+ at risk n0,n1,n2,n3,n4-n1,n2"]);
    world.lose(&[4]);
    let told = world.look();
    let worse = "- at risk n0,n1,n2,n3,n4-n1,n2 Worse";
    let lost = "+ stopped n0,n1,n2,n3,n4-n1,n2,n4";
    assert_eq!(told, [worse, "+ 3 of 7", "+ n4", lost]);
    world.reach(1, Reach::Alive);
    world.reach(2, Reach::Alive);
    world.reach(4, Reach::Alive);
    let told = world.look();
    assert!(
        told.contains(&format!("{} Well", lost.replace('+', "-"))),
        "{told:?}"
    );
    assert!(world.alarms.standing.is_empty(), "{:?}", world.alarms);
}

#[test]
fn voters_that_never_had_a_spare_one_are_no_trouble() {
    for voters in [1, 2] {
        let mut world = World::new(3, voters);
        assert_eq!(world.look(), [""; 0]);
        world.lose(&[voters - 1]);
        let told = world.look();
        match voters {
            // Member 0 votes alone, and sees itself.
            1 => assert_eq!(told, [""; 0]),
            _ => assert_eq!(told, ["+ n1", "+ stopped n0,n1-n1"]),
        }
    }
}

#[test]
fn another_voter_in_the_place_of_a_lost_one_clears_the_risk() {
    let mut world = World::new(4, 3);
    world.lose(&[1]);
    assert_eq!(world.look(), ["+ n1", "+ at risk n0,n1,n2-n1"]);
    world.lead(2, 1, &[0, 2, 3]);
    assert_eq!(world.look(), ["- at risk n0,n1,n2-n1 Well"]);
}

#[test]
fn an_expelled_voter_counts_until_the_group_is_without_it() {
    let mut world = World::new(4, 3);
    world.lose(&[1]);
    world.look();
    world.remove(1);
    assert_eq!(world.look(), ["- n1 Gone"]);
    world.lead(2, 1, &[0, 2, 3]);
    assert_eq!(world.look(), ["- at risk n0,n1,n2-n1 Well"]);
}

#[test]
fn a_voter_with_another_log_store_has_lost_its_copy() {
    let mut world = World::new(3, 3);
    // Just after its start an agent knows of no group.
    world.at(1).routing.as_mut().unwrap().copies.clear();
    assert_eq!(world.look(), [""; 0]);
    world.at(1).routing.as_mut().unwrap().store = 7;
    assert_eq!(world.look(), ["+ at risk n0,n1,n2-n1"]);
    world.lead(2, 1, &[0, 1, 2]);
    assert_eq!(world.look(), ["- at risk n0,n1,n2-n1 Well"]);
}

#[test]
fn without_a_leader_those_vote_that_the_own_copy_knows() {
    let mut world = World::new(3, 3);
    world.alarms = Alarms::default();
    world.lead(9, 0, &[0, 1, 2]);
    world.lose(&[1, 2]);
    let vote = (0..3).map(|id| (MemberId(id), 100 + u64::from(id)));
    world.own = [(GroupId(PROD), vote.collect())].into();
    assert_eq!(world.look(), ["+ n1", "+ n2", "+ stopped n0,n1,n2-n1,n2"]);
}

#[test]
fn the_voters_of_the_last_leader_count_while_there_is_none() {
    let mut world = World::new(3, 3);
    world.lose(&[1, 2]);
    assert_eq!(world.look(), ["+ n1", "+ n2", "+ stopped n0,n1,n2-n1,n2"]);
    // It goes on from the copy of one of them, as another group.
    world.prod = RECOVERED;
    world.lead(0, 1, &[0]);
    assert_eq!(world.look(), ["- stopped n0,n1,n2-n1,n2 Well", "n2 > n0"]);
}

#[test]
fn another_leader_is_told_once_and_none_is_not_told() {
    let mut world = World::new(3, 3);
    world.lead(2, 2, &[0, 1, 2]);
    assert_eq!(world.look(), [""; 0], "the same one again");
    world.lead(9, 0, &[0, 1, 2]);
    assert_eq!(world.look(), [""; 0]);
    world.lead(1, 3, &[0, 1, 2]);
    assert_eq!(world.look(), ["n2 > n1"]);
    // What one said that led earlier comes once more.
    world.lead(2, 2, &[0, 1, 2]);
    assert_eq!(world.look(), [""; 0]);
    world.lead(1, 3, &[0, 1, 2]);
    assert_eq!(world.look(), [""; 0]);
}

#[test]
fn a_halted_edit_stands_until_another_one_takes_its_place() {
    let mut world = World::new(3, 1);
    let halt = |version, by: &[u32]| Halt {
        version,
        rejected_by: by.iter().copied().map(MemberId).collect(),
    };
    world.seen.halted.insert(RULES, halt(5, &[1]));
    assert_eq!(world.look(), ["+ edit 5 n1"]);
    world.seen.halted.insert(RULES, halt(5, &[1, 2]));
    assert_eq!(world.look(), [""; 0]);
    world.seen.halted.insert(RULES, halt(6, &[]));
    assert_eq!(world.look(), ["- edit 5 n1 Well", "+ edit 6 "]);
    world.seen.halted.clear();
    assert_eq!(world.look(), ["- edit 6  Well"]);
}

#[test]
fn what_an_expelled_machine_saw_counts_no_more() {
    let mut world = World::new(3, 3);
    world.lose(&[1]);
    world.seen.is_cloned = true;
    let told = world.look();
    assert_eq!(told, ["+ key", "+ n1", "+ at risk n0,n1,n2-n1"]);
    world.seen.is_expelled = true;
    world.remove(0);
    let told = world.look();
    let over = ["- key Gone", "- n1 Gone", "- at risk n0,n1,n2-n1 Gone"];
    assert_eq!(told, [&over[..], &["+ expelled"]].concat());
    let over = world.alarms.end(false);
    let told: Vec<_> = over.iter().map(word).collect();
    assert_eq!(told, ["- expelled Gone"]);
}
