//! Logs that are lost, late or full, and groups without a majority.

use muster_consensus::GroupId;

use super::{GROWN_MS, any, any_leader, down, load, others_go_on, up, vcs};
use crate::sim::cluster::account::EntryKind;
use crate::sim::cluster::machine::Machine;
use crate::sim::cluster::play::{ClusterPlay, LED_MS, back_after};

/// A group with nothing to do has nothing to do for so long, ms.
const IDLE_MS: u64 = 180_000;
/// Whoever was lost, the next job is placed within this, ms.
const WOKEN_MS: u64 = 10_000;
/// Logs that are cut early are cut after so many entries.
const SHORT_LOG: u64 = 40;
/// A voter that was away is up to date within this, ms.
const CAUGHT_UP_MS: u64 = 15_000;

pub(super) fn amnesia(play: &mut ClusterPlay) {
    load(play, 30_000);
    play.world.run_for(8_000);
    let leader = any_leader(play);
    down(&mut play.world, leader);
    play.world.protocol.lose_log(leader);
    play.world.run_for(2_000);
    up(&mut play.world, leader);
    play.world.run_for(30_000);
}

/// Most copies of a virtual cluster's log are lost for good, twice: first while all that is committed is in
/// the logs of the others as well, whether these know it or not, so that nothing may be lost; then with what
/// was committed while the others heard nothing.
pub(super) fn recovered(play: &mut ClusterPlay) {
    let group = vcs(play)[0];
    play.world.run_for(GROWN_MS);
    load(play, 15_000);
    play.world.run_for(8_000);
    let leader = play.world.protocol.leader(group);
    let mut voters = play.world.protocol.voters(group);
    voters.sort_by_key(|node| Some(*node) != leader);
    for &node in &voters[1..=voters.len() / 2] {
        play.world.protocol.machines[node].slow_us = 60_000_000;
    }
    play.submit(30, 3_000);
    play.world.run_for(3_000);
    if play.world.nodes() < 10 {
        die_with_go(play);
    }
    let heir = lose_most(play, group, &voters);
    play.world.start_all();
    load(play, 10_000);
    play.world.run_for(20_000);
    let Some(group) = heir else { return };
    // Whoever leads is among those that are lost.
    let leader = play.world.protocol.leader(group);
    let mut voters = play.world.protocol.voters(group);
    voters.sort_by_key(|node| Some(*node) != leader);
    for &node in &voters[voters.len() / 2 + 1..] {
        play.world.engine.network.cuts.side(node, 2);
    }
    load(play, 3_000);
    play.world.run_for(3_000);
    play.world.protocol.loses = true;
    lose_most(play, group, &voters);
    play.world.run_for(20_000);
}

/// Somebody commits that a gang may start, and dies before anybody hears that it is committed.
fn die_with_go(play: &mut ClusterPlay) {
    play.world.protocol.trap = Some(EntryKind::Go);
    play.world
        .run_while(3_000, 1, |world| world.protocol.trap.is_none());
    play.world.protocol.trap = None;
    for (node, _) in std::mem::take(&mut play.world.protocol.fallen) {
        down(&mut play.world, node);
    }
}

/// The first of these voters lose their copies: with their machines where there are many, by damage where
/// another group would be lost with them. An admin has the virtual cluster go on from what is left,
/// and where the machines are lost they come back afterwards. Its new group.
fn lose_most(play: &mut ClusterPlay, group: GroupId, voters: &[usize]) -> Option<GroupId> {
    let before = vcs(play);
    let lost = voters[..voters.len() / 2 + 1].to_vec();
    let machines_too = others_go_on(play, group, &lost);
    let now = play.world.now();
    for &node in &lost {
        down(&mut play.world, node);
        play.world.protocol.machines[node].slow_us = 0;
        match machines_too {
            true => play.world.protocol.power_off(now, node),
            false => play.world.protocol.machines[node].store.damage(group),
        }
    }
    play.world.engine.network.heal();
    if !machines_too {
        play.world.start_all();
    }
    play.world.run_for(5_000);
    let leader = play.world.protocol.leader(group);
    play.expect(leader.is_none(), || {
        format!("n{leader:?} leads without most voters")
    });
    play.recover_vc(group);
    // Who is to begin with it asks others for its cluster map, of whom some are lost.
    play.led_within(10_000);
    let heir = vcs(play).into_iter().find(|it| !before.contains(it));
    play.expect(heir.is_some(), || "it has no other group".to_owned());
    if let Some(heir) = heir {
        play.gang(heir, (1, 1), 2_000);
        play.within(15_000, "a job being accepted", |world| {
            world.protocol.users.all_know()
        });
    }
    // Those that were lost come back, all at once.
    play.world.start_all();
    play.world.run_for(5_000);
    let has_it = |machine: &Machine| {
        let process = machine.process.as_ref();
        process.is_some_and(|it| it.core.groups().host().view(group).is_some())
    };
    let machines = play.world.protocol.machines.iter();
    let old: Vec<_> = machines.filter(|it| has_it(it)).map(|it| it.id).collect();
    play.expect(old.is_empty(), || {
        format!("{old:?} have copies still of what was given up")
    });
    heir
}

pub(super) fn late_commits(play: &mut ClusterPlay) {
    load(play, 30_000);
    let leader = any_leader(play);
    play.world.protocol.machines[leader].slow_us = 40_000_000;
    play.world.run_for(2_000);
    for node in 0..play.world.nodes() {
        play.world.protocol.machines[node].slow_us = 2_000_000;
    }
    play.world.run_for(60_000);
}

/// Most voters of the cluster's own group stand still. Virtual clusters that have most of theirs among the
/// other machines, as some do where there are many, place jobs all the same.
pub(super) fn no_cluster(play: &mut ClusterPlay) {
    // Without that group nobody is bound to anything else.
    play.within(10_000, "being bound", |world| world.protocol.is_bound());
    let group = play.world.protocol.group;
    let voters = play.world.protocol.voters(group);
    let most = voters.len() / 2 + 1;
    for &node in &voters[..most] {
        play.world.pause(node, 60_000_000);
    }
    play.world.run_for(3_000);
    let has_most = |group: &GroupId| {
        let voters = play.world.protocol.voters(*group);
        let awake = voters.iter().filter(|it| !play.world.engine.paused(**it));
        2 * awake.count() > voters.len()
    };
    let able: Vec<_> = vcs(play).into_iter().filter(has_most).collect();
    let since = play.world.now();
    for group in &able {
        play.gang(*group, (1, 1), 2_000);
    }
    play.placed_within(since, &able, 20_000);
    load(play, 20_000);
    play.world.run_for(40_000);
}

pub(super) fn full(play: &mut ClusterPlay) {
    load(play, 60_000);
    for _ in 0..6 {
        let (leader, other) = (any_leader(play), any(play));
        for node in [leader, other] {
            play.world.protocol.machines[node].full = true;
        }
        let ms = 1_000 + play.world.random.below(20_000);
        play.world.run_for(ms);
        empty_disks(play);
    }
    // Those of a gang that was just placed, for longer than its lease lasts.
    for _ in 0..3 {
        load(play, 1_000);
        play.world.protocol.fills = true;
        play.world.run_for(60_000);
        empty_disks(play);
    }
}

fn empty_disks(play: &mut ClusterPlay) {
    for machine in &mut play.world.protocol.machines {
        machine.full = false;
    }
    play.world.run_for(2_000);
}

/// Nothing happens for minutes; then a group loses as many voters as it can do without, its leader among
/// them, and then most of them for a while: the next job is placed.
pub(super) fn idle(play: &mut ClusterPlay) {
    play.world.run_for(IDLE_MS);
    let group = vcs(play)[0];
    let leader = play.world.protocol.leader(group);
    let mut voters = play.world.protocol.voters(group);
    voters.sort_by_key(|node| Some(*node) != leader);
    for count in [voters.len().div_ceil(2) - 1, voters.len() / 2 + 1] {
        let lost = &voters[..count];
        lost.iter().for_each(|&node| down(&mut play.world, node));
        if 2 * count > voters.len() {
            play.world.run_for(20_000);
            lost.iter().for_each(|&node| up(&mut play.world, node));
        }
        let since = play.world.now();
        play.gang(group, (1, 1), 2_000);
        play.placed_within(since, &[group], WOKEN_MS);
        play.world.start_all();
        play.world.run_for(IDLE_MS);
    }
}

/// Logs are cut early. A voter is away while more is committed than its leader's log keeps, and is brought up
/// to date by a snapshot while leaders die.
pub(super) fn long_log(play: &mut ClusterPlay) {
    for node in 0..play.world.nodes() {
        play.world.protocol.machines[node].log_entries_max = Some(SHORT_LOG);
        down(&mut play.world, node);
        up(&mut play.world, node);
    }
    play.led_within(LED_MS);
    for _ in 0..4 {
        catch_up(play);
    }
}

fn catch_up(play: &mut ClusterPlay) {
    let group = vcs(play)[0];
    let leader = play.world.protocol.leader(group);
    let voters = play.world.protocol.voters(group);
    let Some(&away) = voters.iter().find(|node| Some(**node) != leader) else {
        return;
    };
    let ends =
        |play: &ClusterPlay, node: usize| play.world.protocol.machines[node].store.ends(group);
    down(&mut play.world, away);
    let had = ends(play, away).map_or(0, |(_, last)| last);
    for _ in 0..SHORT_LOG {
        play.gang(group, (1, 0), 100);
        play.world.run_for(100);
    }
    play.world.run_for(3_000);
    let leader = play.world.protocol.leader(group).unwrap_or_default();
    let kept = ends(play, leader).map_or(0, |(first, _)| first);
    play.expect(kept > had + 1, || {
        format!("the log begins with {kept}, n{away} has all until {had}")
    });
    up(&mut play.world, away);
    let ms = play.world.random.below(300);
    play.world.run_for(ms);
    down(&mut play.world, leader);
    back_after(&mut play.world, leader, 3_000);
    play.within(CAUGHT_UP_MS, "catching up", |world| {
        let cluster = &world.protocol;
        let applied = |node: usize| cluster.machines[node].applied(group);
        let newest = cluster.leader(group).and_then(applied);
        newest.is_some() && applied(away) >= newest
    });
}
