//! The cluster's own group loses most of its voters for good.

use muster_consensus::GroupId;
use muster_control::request::Json;
use muster_control::request::cluster::Schedule;
use muster_model::mesh::Scheduling;

use super::{GROWN_MS, down, load, vcs};
use crate::sim::cluster::founding::ADMIN;
use crate::sim::cluster::play::{ClusterPlay, shares};

/// The machines of most voters of the cluster's own group are lost for good, and in a small cluster most voters
/// of everything with them. An admin has the cluster go on from what is left, and then each virtual cluster
/// that cannot by itself; then the lost machines come back. Twice: first with voters left that have missed what
/// the lost ones decided last, which is about no job; then among many jobs.
pub(super) fn succeeded(play: &mut ClusterPlay) {
    play.world.run_for(GROWN_MS);
    for misses in [true, false] {
        if !misses {
            load(play, 12_000);
            play.world.run_for(8_000);
            // What is accepted is known to all voters when they are lost.
            play.within(20_000, "all jobs being accepted", |world| {
                world.protocol.users.all_know()
            });
            play.world.run_for(1_000);
        }
        lose_cluster(play, misses);
        load(play, 5_000);
        play.world.run_for(20_000);
    }
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    play.describe(shares(nodes, count, nodes / count));
}

fn lose_cluster(play: &mut ClusterPlay, misses: bool) {
    let group = play.world.protocol.group;
    let leader = play.world.protocol.leader(group);
    let mut voters = play.world.protocol.voters(group);
    voters.sort_by_key(|node| Some(*node) != leader);
    play.expect(!voters.is_empty(), || "nobody leads the cluster".to_owned());
    if voters.is_empty() {
        return;
    }
    let (lost, left) = voters.split_at(voters.len() / 2 + 1);
    if misses {
        edit_without(play, lost[0], left);
    }
    lose(play, group, lost);
    go_on(play);
    if misses {
        play.administer_at(left[0], &scheduled(left[0], Scheduling::Open));
    }
    for group in vcs(play) {
        play.gang(group, (1, 1), 2_000);
    }
    play.within(15_000, "jobs being accepted", |world| {
        world.protocol.users.all_know()
    });
    play.world.start_all();
    play.within(10_000, "nobody having what was given up", |world| {
        let machines = world.protocol.machines.iter();
        let processes = machines.filter_map(|it| it.process.as_ref());
        let mut old = processes.filter(|it| it.core.groups().host().view(group).is_some());
        old.next().is_none()
    });
}

/// These machines are lost, and with them most voters of the group.
fn lose(play: &mut ClusterPlay, group: GroupId, lost: &[usize]) {
    let now = play.world.now();
    for &node in lost {
        down(&mut play.world, node);
        play.world.protocol.power_off(now, node);
    }
    play.world.engine.network.heal();
    play.world.run_for(5_000);
    let leader = play.world.protocol.leader(group);
    play.expect(leader.is_none(), || {
        format!("n{leader:?} leads without most voters")
    });
}

/// An admin has the cluster go on, and each virtual cluster that cannot by itself. What those left have heard
/// is in force afterwards.
fn go_on(play: &mut ClusterPlay) {
    let told = play.world.protocol.told();
    play.recover_cluster();
    play.within(10_000, "the cluster state having a leader", |world| {
        world.protocol.has_succeeded()
    });
    let known = play.world.protocol.in_force();
    play.expect(known == told, || {
        format!("of an admin's edits those left knew {told:?}, and {known:?} are in force")
    });
    for group in vcs(play) {
        let all = play.world.protocol.voters(group);
        let left = all.iter().filter(|node| play.world.engine.up(**node));
        if 2 * left.count() <= all.len() {
            play.recover_vc(group);
        }
    }
    play.led_within(10_000);
}

/// An admin at this machine promises virtual clusters something else, and cordons a machine, while some hear
/// nothing of it, nor of the cells that are bound and given back by it.
fn edit_without(play: &mut ClusterPlay, at: usize, deaf: &[usize]) {
    for &node in deaf {
        play.world.engine.network.cuts.side(node, 2);
    }
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    play.describe_at(at, shares(nodes, count, 1));
    play.administer_at(at, &scheduled(deaf[0], Scheduling::Cordoned));
    play.world.run_for(6_000);
}

fn scheduled(node: usize, scheduling: Scheduling) -> Schedule {
    Schedule {
        member: format!("n{node}"),
        scheduling: Json(scheduling),
        reason: String::new(),
        by: ADMIN.to_owned(),
    }
}
