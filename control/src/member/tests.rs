use std::collections::BTreeSet;

use muster_consensus::{Host, HostOptions};
use muster_gossip::mesh::Reach;

use super::*;
use crate::cluster::{GivenName, Hidden, Keys};
use crate::coordinator::{self, Coordinator};
use crate::groups::{GENERATION, GroupHostParts};

const CLUSTER: ClusterId = ClusterId([9; 16]);
const VC: GroupId = GroupId(11);
const STEP_MS: u64 = 10;

/// Members with disks and links that take no time.
struct World {
    now_ms: u64,
    cores: Vec<MemberCore>,
    /// What each told all others last.
    said: Vec<RoutingRecord>,
    /// Who told something, and when.
    told_ms: Vec<(usize, u64)>,
    events: Vec<MemberEvent>,
}

fn store(member: usize) -> StoreId {
    StoreId(100 + member as u64)
}

fn numbered(member: usize) -> MemberId {
    MemberId(u32::try_from(member).unwrap())
}

fn core(number: usize) -> MemberCore {
    let node = name::node(numbered(number));
    let options = HostOptions::new(node, store(number), 0);
    let mut outputs = Vec::new();
    let make = GroupState::of;
    let host = Host::open(Time::default(), options, Vec::new(), make, &mut outputs);
    let coordinator = |vc: &id::VcName, generation| {
        Coordinator::new(coordinator::CoordinatorOptions {
            vc: vc.clone(),
            generation,
            seed: 1,
            policy: coordinator::LeaderPolicy::default(),
        })
    };
    let group_host = GroupHost::new(GroupHostParts {
        host,
        outputs,
        coordinator: Box::new(coordinator),
    });
    MemberCore::new(group_host, store(number))
}

/// A virtual cluster with one copy of its log, at the first member.
fn creation() -> VcCreation {
    VcCreation {
        vc: "default".parse().unwrap(),
        group: VC.0,
        generation: GENERATION,
        homes: vec![crate::cluster::CopyHome {
            member: MemberId(0),
            store: store(0).0,
        }],
        before: Vec::new(),
    }
}

fn cluster_map(closed: &[(&str, SchedulingMode)]) -> ClusterMap {
    let closed = closed.iter().map(|(node, mode)| {
        let word = AdminScheduling {
            mode: *mode,
            reason: "".parse().unwrap(),
            by: GivenName::default(),
            at_ms: 0,
        };
        (node.parse().unwrap(), word)
    });
    ClusterMap {
        cluster: CLUSTER,
        version: 1,
        keys: Keys {
            data: Hidden([0; 32]),
            link: Hidden([0; 32]),
            token: Hidden(Vec::new()),
            token_number: 1,
            retired: Vec::new(),
        },
        vcs: vec![creation()],
        users: BTreeMap::new(),
        groups: BTreeMap::new(),
        closed: closed.collect(),
        description: 0,
        policy: 0,
    }
}

impl World {
    fn new(members: usize) -> Self {
        let mut world = Self {
            now_ms: 0,
            cores: (0..members).map(core).collect(),
            said: vec![RoutingRecord::default(); members],
            told_ms: Vec::new(),
            events: Vec::new(),
        };
        for number in 0..members {
            let joined = MemberInput::Joined {
                cluster: CLUSTER,
                member: numbered(number),
                lineage: Lineage::of_cluster(CLUSTER, None),
            };
            world.give(number, joined);
        }
        world
    }

    fn brief(&mut self, cluster_map: &ClusterMap) {
        let cluster_map = Arc::new(cluster_map.clone());
        for number in 0..self.cores.len() {
            self.give(number, MemberInput::ClusterMap(Arc::clone(&cluster_map)));
        }
    }

    fn give(&mut self, number: usize, input: MemberInput) {
        let time = Time::from_millis(self.now_ms);
        let now = Now {
            steady: time,
            wall: time,
        };
        let mut out = Vec::new();
        self.cores[number].handle(now, input, &mut out);
        for output in out {
            match output {
                MemberOutput::Groups(output) => self.perform(number, output),
                MemberOutput::Routing(record) => {
                    self.told_ms.push((number, self.now_ms));
                    self.said[number] = record;
                }
                MemberOutput::Event(event) => self.events.push(event),
            }
        }
    }

    fn perform(&mut self, number: usize, output: groups::GroupHostOutput) {
        match output {
            groups::GroupHostOutput::Write(write) => {
                let written = groups::GroupHostInput::Written(write.number);
                self.give(number, MemberInput::Groups(written));
            }
            groups::GroupHostOutput::Send { to, bytes } => {
                let from = name::node(numbered(number));
                let to = name::member(to).unwrap().index();
                let envelope = groups::GroupHostInput::Envelope { from, bytes };
                self.give(to, MemberInput::Groups(envelope));
            }
            _ => {}
        }
    }

    fn seen(&self) -> MembersSeen {
        let seen = |(number, routing): (usize, &RoutingRecord)| {
            let seen = MemberSeen {
                name: format!("n{number}"),
                rack: String::new(),
                votes: true,
                reach: Reach::Alive,
                routing: Some(routing.clone()),
            };
            (numbered(number), seen)
        };
        MembersSeen {
            cluster: CLUSTER,
            members: self.said.iter().enumerate().map(seen).collect(),
            lineage: Lineage::of_cluster(CLUSTER, None),
            halted: BTreeMap::new(),
            is_expelled: false,
            is_cloned: false,
        }
    }

    /// All members see what each says, and time passes.
    fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms += STEP_MS;
            let seen = self.seen();
            for number in 0..self.cores.len() {
                self.give(number, MemberInput::Seen(Box::new(seen.clone())));
                self.give(number, MemberInput::Tick);
            }
        }
    }

    /// The members that vote in the virtual cluster's group, by the word of its leader.
    fn voters(&self) -> BTreeSet<u32> {
        let voters = self.seen().voters(VC);
        voters.into_iter().map(|member| member.0).collect()
    }
}

#[test]
fn a_virtual_cluster_gets_copies_on_all_of_three_members() {
    let mut world = World::new(3);
    world.brief(&cluster_map(&[]));
    world.pass(2_000);
    assert!(world.said[0].copies[0].leads > 0, "{:?}", world.said);
    world.pass(30_000);
    assert_eq!(world.voters(), [0, 1, 2].into());
    let is_change = |event: &&MemberEvent| matches!(event, MemberEvent::CopiesChange { .. });
    let changes = world.events.iter().filter(is_change).count();
    assert!((2..=8).contains(&changes), "{:?}", world.events);
}

#[test]
fn what_changes_of_copies_is_told_every_two_seconds_at_most() {
    let mut world = World::new(3);
    world.brief(&cluster_map(&[]));
    world.pass(30_000);
    let told = world.told_ms.iter().filter(|(member, _)| *member == 0);
    let times: Vec<u64> = told.map(|(_, at)| *at).collect();
    assert!(times.len() >= 2, "that it leads, and the voters: {times:?}");
    let mut pauses = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(pauses.all(|ms| ms >= ROUTING_MS), "{times:?}");
}

#[test]
fn a_member_that_admins_want_empty_gives_its_copy_to_another() {
    let mut world = World::new(4);
    world.brief(&cluster_map(&[]));
    world.pass(30_000);
    assert_eq!(world.voters().len(), 3);
    let drained = *world.voters().last().unwrap();
    let others: BTreeSet<u32> = (0..4).filter(|member| *member != drained).collect();
    let mode = SchedulingMode::Draining { from_ms: 0 };
    world.brief(&cluster_map(&[(&format!("n{drained}"), mode)]));
    world.pass(60_000);
    assert_eq!(world.voters(), others);
}

#[test]
fn a_member_that_is_about_to_go_gives_its_copy_away() {
    let mut world = World::new(4);
    world.brief(&cluster_map(&[]));
    world.pass(30_000);
    let going = *world.voters().last().unwrap();
    let leader = world.said.iter().position(|it| it.copies[0].leads > 0);
    let leader = leader.unwrap();
    for _ in 0..50 {
        let member = MemberId(going);
        world.give(leader, MemberInput::Going { group: VC, member });
        world.pass(100);
    }
    assert!(!world.voters().contains(&going), "{:?}", world.voters());
    assert!(world.said[going as usize].copies.is_empty(), "it is gone");
    assert_eq!(world.voters().len(), 3, "another has it");
}

#[test]
fn others_hear_at_once_that_a_member_leads() {
    let mut world = World::new(1);
    world.brief(&cluster_map(&[]));
    let leads = |world: &World| {
        let led = world.cores[0].groups().led();
        (led.contains_key(&VC), led.get(&VC).copied())
    };
    while !leads(&world).0 {
        assert!(world.now_ms < 5_000, "nobody leads");
        world.now_ms += STEP_MS;
        world.give(0, MemberInput::Tick);
    }
    assert_eq!(Some(world.said[0].copies[0].leads), leads(&world).1);
}

#[test]
fn what_another_cluster_tells_its_members_is_ignored() {
    let mut world = World::new(1);
    let other = ClusterMap {
        cluster: ClusterId([8; 16]),
        ..cluster_map(&[])
    };
    world.brief(&other);
    world.pass(2_000);
    assert!(world.cores[0].cluster_map().is_none());
    assert!(world.said[0].copies.is_empty());
    let mut seen = world.seen();
    seen.cluster = other.cluster;
    seen.lineage = Lineage::of_cluster(other.cluster, None);
    world.give(0, MemberInput::Seen(Box::new(seen)));
    assert_eq!(world.events, [], "it follows no other cluster's group");
    world.brief(&cluster_map(&[]));
    world.pass(2_000);
    world.give(0, MemberInput::Left);
    world.brief(&cluster_map(&[]));
    assert!(world.cores[0].cluster_map().is_none(), "it is no member");
}

#[test]
fn a_member_follows_the_group_that_takes_the_place_of_the_clusters() {
    let mut world = World::new(1);
    let mut seen = world.seen();
    seen.lineage.before.push(seen.lineage.group);
    seen.lineage.group += 1;
    seen.lineage.generation += 1;
    world.give(0, MemberInput::Seen(Box::new(seen.clone())));
    let generation = seen.lineage.generation;
    assert_eq!(world.events, [MemberEvent::Succeeded { generation }]);
    assert_eq!(world.cores[0].lineage(), Some(&seen.lineage));
    world.give(0, MemberInput::Seen(Box::new(seen)));
    assert_eq!(world.events.len(), 1, "once");
}

#[test]
fn what_was_wrong_in_a_cluster_is_over_when_the_machine_leaves_it() {
    let mut world = World::new(2);
    let mut seen = world.seen();
    let lost = seen.members.get_mut(&MemberId(1)).unwrap();
    lost.reach = Reach::Unreachable;
    world.give(0, MemberInput::Seen(Box::new(seen)));
    let [MemberEvent::Raised(trouble)] = &world.events[..] else {
        panic!("{:?}", world.events);
    };
    let cleared = MemberEvent::Cleared {
        trouble: trouble.clone(),
        why: alarms::Clearing::Gone,
    };
    world.give(0, MemberInput::Left);
    assert_eq!(world.events[1..], [cleared]);
}
