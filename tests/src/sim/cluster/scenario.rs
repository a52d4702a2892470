//! What can happen to a cluster, each with jobs that go on meanwhile. Waits of hours are minutes here.
//! Whatever it is: the rules hold at every step, and afterwards everything comes to its end.

use muster_consensus::GroupId;
use muster_model::time::Time;

use super::Cluster;
use super::account::Kind;
use super::faults;
use super::play::{Play, back_after, shares};
use crate::sim::mesh::Authority;
use crate::sim::network::Weather;
use crate::sim::random::Chance;
use crate::sim::world::World;

/// Something that happens, and what must come of it.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) play: fn(&mut Play),
}

const fn scenario(name: &'static str, about: &'static str, play: fn(&mut Play)) -> Scenario {
    Scenario { name, about, play }
}

/// All there are, but for single faults.
pub(super) static ALL: &[Scenario] = &[
    scenario("S1", "one machine crashes and comes back", crash),
    scenario("S2", "a rack loses its agents", rack),
    scenario("S3", "halves part and meet again", halves),
    scenario("S4", "a leader is cut off, with users", leader_cut),
    scenario(
        "S5",
        "a leader is cut off with its gang's machines",
        leader_and_gang,
    ),
    scenario("S6", "a leader sends but receives nothing", deaf_leader),
    scenario("S7", "two sides, and one machine that hears both", bridge),
    scenario("S8", "a leader's link comes and goes", flapping),
    scenario("S11", "all agents restart within seconds", restarts),
    scenario("S12", "all are off, and start together", cold_start),
    scenario(
        "S16",
        "a virtual cluster loses most of its voters for good, and goes on",
        recovered,
    ),
    scenario("S17", "a voter loses the log of all groups", amnesia),
    scenario("S18", "leaders die between any two steps", between_steps),
    scenario(
        "S19",
        "a leader stands still, and leads on when it goes on",
        old_leader,
    ),
    scenario(
        "S20",
        "what is committed comes later than reservations last",
        late_commits,
    ),
    scenario(
        "S21",
        "words come twice, out of order, and seconds later",
        doubled,
    ),
    scenario(
        "S22",
        "agents die between two things that they do",
        half_done,
    ),
    scenario(
        "S23",
        "agents of a running gang die while it ends",
        gang_ends_alone,
    ),
    scenario(
        "S24",
        "a machine is cut off, and its agent dies",
        dead_and_cut,
    ),
    scenario(
        "S25",
        "a machine is cut off for longer than leases last",
        long_cut,
    ),
    scenario("S26", "clocks jump while leases last", jumping_clocks),
    scenario(
        "S27",
        "what was promised is wanted back from many at once",
        flood,
    ),
    scenario(
        "S28",
        "virtual clusters shrink and grow while jobs run",
        resized,
    ),
    scenario("S29", "a job is submitted at three machines", thrice),
    scenario("S31", "two admins describe the cluster at once", two_admins),
    scenario("S37", "the cluster's own group has no majority", no_cluster),
    scenario("S38", "disks of leaders and of gangs are full", full),
    scenario("S40", "a burst of jobs, and the leader dies", burst),
];

/// Jobs come all the while.
fn load(play: &mut Play, ms: u64) {
    let jobs = 10 + play.world.nodes().min(100);
    play.submit(jobs, ms);
}

/// The groups of the virtual clusters.
fn vcs(play: &Play) -> Vec<GroupId> {
    play.world.protocol.account.vcs.keys().copied().collect()
}

/// Who leads any of the virtual clusters.
fn any_leader(play: &mut Play) -> usize {
    let vcs = vcs(play);
    let group = vcs[play.world.random.index(vcs.len())];
    let leader = play.world.protocol.leader(group);
    leader.unwrap_or_default()
}

fn any(play: &mut Play) -> usize {
    let nodes = play.world.nodes();
    play.world.random.index(nodes)
}

fn down(world: &mut World<Cluster>, node: usize) {
    if world.engine.up(node) {
        world.crash(node);
    }
}

fn up(world: &mut World<Cluster>, node: usize) {
    if !world.engine.up(node) {
        world.start(node);
    }
}

fn crash(play: &mut Play) {
    load(play, 20_000);
    let node = any(play);
    play.world.run_for(5_000);
    down(&mut play.world, node);
    play.world.run_for(60_000);
}

fn rack(play: &mut Play) {
    load(play, 20_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    let rack = Authority::rack(any(play), nodes);
    for node in (0..nodes).filter(|&node| Authority::rack(node, nodes) == rack) {
        down(&mut play.world, node);
    }
    play.world.run_for(30_000);
}

fn halves(play: &mut Play) {
    load(play, 40_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    let order = play.world.random.sample(nodes, nodes);
    for &node in &order[..nodes / 2] {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.run_for(90_000);
}

fn leader_cut(play: &mut Play) {
    load(play, 40_000);
    play.world.run_for(5_000);
    let leader = any_leader(play);
    play.world.engine.network.cuts.side(leader, 2);
    play.world.run_for(60_000);
}

fn leader_and_gang(play: &mut Play) {
    let group = vcs(play)[0];
    let tasks = 2.min(play.world.nodes() as u64 / 2);
    play.gang(group, (tasks, 4), 30_000);
    play.world.run_for(3_000);
    load(play, 20_000);
    let leader = play.world.protocol.leader(group).unwrap_or_default();
    let gang = play.world.protocol.nodes_in_use(group);
    for node in gang.into_iter().chain([leader]) {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.run_for(90_000);
}

fn deaf_leader(play: &mut Play) {
    load(play, 30_000);
    play.world.run_for(5_000);
    let leader = any_leader(play);
    play.world.engine.network.cuts.deafen(leader);
    play.world.run_for(45_000);
}

fn bridge(play: &mut Play) {
    load(play, 30_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    let order = play.world.random.sample(nodes, nodes);
    for &node in &order[..nodes / 2] {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.engine.network.cuts.side(order[0], 3);
    play.world.run_for(45_000);
}

fn flapping(play: &mut Play) {
    load(play, 60_000);
    for _ in 0..15 {
        let leader = any_leader(play);
        play.world.engine.network.cuts.side(leader, 2);
        let ms = play.world.random.below(5_000);
        play.world.run_for(ms);
        play.world.engine.network.heal();
        let ms = play.world.random.below(5_000);
        play.world.run_for(ms);
    }
}

fn restarts(play: &mut Play) {
    load(play, 30_000);
    play.world.run_for(5_000);
    let nodes = play.world.nodes();
    for node in play.world.random.sample(nodes, nodes) {
        down(&mut play.world, node);
        up(&mut play.world, node);
        let ms = play.world.random.below(10_000 / nodes as u64 + 1);
        play.world.run_for(ms);
    }
}

fn cold_start(play: &mut Play) {
    load(play, 5_000);
    play.world.run_for(6_000);
    // Much of what is said in the end is on no disk yet.
    for machine in &mut play.world.protocol.machines {
        machine.slow_us = 300_000;
    }
    play.submit(20, 1_000);
    play.world.run_for(1_500);
    for machine in &mut play.world.protocol.machines {
        machine.slow_us = 0;
    }
    let now = play.world.now();
    for node in 0..play.world.nodes() {
        down(&mut play.world, node);
        play.world.protocol.power_off(now, node);
    }
    play.world.run_for(20_000);
    play.world.start_all();
    play.led_again();
}

fn amnesia(play: &mut Play) {
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
fn recovered(play: &mut Play) {
    let group = vcs(play)[0];
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
fn die_with_go(play: &mut Play) {
    play.world.protocol.trap = Some(Kind::Go);
    play.world
        .run_while(3_000, 1, |world| world.protocol.trap.is_none());
    play.world.protocol.trap = None;
    for (node, _) in std::mem::take(&mut play.world.protocol.fallen) {
        down(&mut play.world, node);
    }
}

/// The first of these voters lose their copies: with their machines where there are many, by damage where the
/// cluster's own group would be lost with them. An admin has the virtual cluster go on from what is left,
/// and where the machines are lost they come back afterwards. Its new group.
fn lose_most(play: &mut Play, group: GroupId, voters: &[usize]) -> Option<GroupId> {
    let before = vcs(play);
    let lost = voters[..voters.len() / 2 + 1].to_vec();
    let affairs = play.world.protocol.voters(play.world.protocol.group);
    let left = affairs.iter().filter(|node| !lost.contains(node));
    let machines_too = 2 * left.count() > affairs.len();
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
    // Who is to begin with it asks others for its briefing, of whom some are lost.
    play.within(10_000, "a leader of every group", |world| {
        let cluster = &world.protocol;
        let led = |group: &GroupId| cluster.leader(*group).is_some();
        cluster.groups().iter().all(led)
    });
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
    let has_it = |machine: &super::machine::Machine| {
        let process = machine.process.as_ref();
        process.is_some_and(|it| it.keeper.host().view(group).is_some())
    };
    let machines = play.world.protocol.machines.iter();
    let old: Vec<_> = machines.filter(|it| has_it(it)).map(|it| it.id).collect();
    play.expect(old.is_empty(), || {
        format!("{old:?} have copies still of what was given up")
    });
    heir
}

fn between_steps(play: &mut Play) {
    for kind in [
        Kind::Accept,
        Kind::Placed,
        Kind::Go,
        Kind::Ended,
        Kind::Stopping,
    ] {
        play.world.protocol.trap = Some(kind);
        load(play, 3_000);
        play.world.run_for(8_000);
    }
    play.world.protocol.trap = None;
}

fn old_leader(play: &mut Play) {
    load(play, 60_000);
    play.world.run_for(1_000);
    let leader = any_leader(play);
    play.world.pause(leader, 60_000_000);
    play.world.run_for(75_000);
}

fn late_commits(play: &mut Play) {
    load(play, 30_000);
    let leader = any_leader(play);
    play.world.protocol.machines[leader].slow_us = 40_000_000;
    play.world.run_for(2_000);
    for node in 0..play.world.nodes() {
        play.world.protocol.machines[node].slow_us = 2_000_000;
    }
    play.world.run_for(60_000);
}

fn doubled(play: &mut Play) {
    play.world.engine.in_order = false;
    let weather = &mut play.world.engine.network.weather;
    weather.duplicate = Chance::percent(20.0);
    weather.reorder = Chance::percent(30.0);
    weather.spike_us = 500_000;
    load(play, 30_000);
    play.world.run_for(40_000);
    play.world.engine.in_order = true;
    play.world.engine.network.weather = Weather::lossy(1.0);
    faults::echo_all(play);
    faults::restart(play);
    faults::kill_leaders(play);
    load(play, 40_000);
    play.world.run_for(60_000);
}

fn half_done(play: &mut Play) {
    play.world.protocol.dies_in = 60;
    load(play, 30_000);
    play.world.run_for(40_000);
}

fn gang_ends_alone(play: &mut Play) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 6_000);
    play.world.run_for(4_000);
    for node in play.world.protocol.nodes_in_use(group) {
        down(&mut play.world, node);
    }
    play.world.run_for(8_000);
}

fn dead_and_cut(play: &mut Play) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 300_000);
    load(play, 20_000);
    play.world.run_for(4_000);
    if let Some(&node) = play.world.protocol.nodes_in_use(group).first() {
        play.world.engine.network.cuts.side(node, 2);
        play.world.run_for(1_000);
        down(&mut play.world, node);
    }
    play.world.run_for(60_000);
}

fn long_cut(play: &mut Play) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 120_000);
    load(play, 20_000);
    play.world.run_for(4_000);
    if let Some(&node) = play.world.protocol.nodes_in_use(group).first() {
        play.world.engine.network.cuts.side(node, 2);
    }
    play.world.run_for(100_000);
    play.world.engine.network.heal();
    play.world.run_for(20_000);
    unconfirmed(play);
}

/// A virtual cluster's leader hears neither of a machine of its gang nor of the leader of the cluster, who
/// hear each other: nobody confirms that the machine is silent.
fn unconfirmed(play: &mut Play) {
    let group = vcs(play)[0];
    play.gang(group, (2, 2), 120_000);
    play.world.run_for(4_000);
    let affairs = play.world.protocol.leader(play.world.protocol.group);
    let leader = play.world.protocol.leader(group);
    let (Some(leader), Some(affairs)) = (leader, affairs) else {
        return;
    };
    let gang = play.world.protocol.nodes_in_use(group);
    for other in gang.into_iter().take(2).chain([affairs]) {
        if other != leader {
            play.world.engine.network.cuts.cut(leader, other);
            play.world.engine.network.cuts.cut(other, leader);
        }
    }
    play.world.run_for(100_000);
}

fn jumping_clocks(play: &mut Play) {
    load(play, 60_000);
    // What one has begun another one ends, by its own clock.
    faults::kill_leaders(play);
    for _ in 0..20 {
        let node = any(play);
        let ahead = play.world.random.below(200_000_000_000);
        let ahead = i64::try_from(ahead).unwrap_or(0) - 100_000_000_000;
        play.world.protocol.machines[node].clock.ahead_us = ahead;
        play.world.act(node, |_, _, _| ());
        play.world.run_for(4_000);
    }
}

/// One virtual cluster uses all machines, opportunistically; all others want theirs back.
fn flood(play: &mut Play) {
    // What could not be launched would leave room that nobody has to make.
    play.world.protocol.habits.fails_in = 0;
    let vcs = vcs(play);
    let nodes = play.world.nodes() as u64;
    for _ in 0..nodes {
        play.opportunistic(vcs[0], (1, 4), 200_000);
    }
    play.world.run_for(10_000);
    let since = play.world.now();
    let lent = play.world.protocol.nodes_in_use(vcs[0]).len();
    play.expect(lent == play.world.nodes(), || {
        format!("only {lent} machines are used")
    });
    let before = play.world.protocol.account.preempted;
    for group in &vcs[1..] {
        play.gang(*group, (1, 4), 5_000);
    }
    // The grace of those that give way, and a launch.
    play.placed_within(since, &vcs[1..], 40_000);
    // A launch may have to be sent again.
    play.world.run_for(3_000);
    let gave_way = play.world.protocol.account.preempted - before;
    play.expect(gave_way > 0, || "nobody had to give way".to_owned());
}

fn resized(play: &mut Play) {
    load(play, 60_000);
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    for promised in [nodes / 2, 0, nodes / count] {
        play.world.run_for(15_000);
        play.describe(shares(nodes, count, promised));
    }
    play.world.run_for(15_000);
    if play.world.random.below(2) == 0 {
        return;
    }
    // Cells change hands while they are being reserved, and leaders die of it.
    load(play, 40_000);
    for _ in 0..14 {
        let promised = play.world.random.index(nodes + 1);
        play.describe(shares(nodes, count, promised));
        let pause = play.world.random.below(3_000);
        play.world.run_for(pause);
        let leader = any_leader(play);
        down(&mut play.world, leader);
        play.world.run_for(500);
        up(&mut play.world, leader);
        play.world.run_for(1_500);
    }
    play.describe(shares(nodes, count, nodes / count));
}

fn thrice(play: &mut Play) {
    let vcs = vcs(play);
    for at in 0..20 {
        let group = vcs[at % vcs.len()];
        let job = play.gang(group, (1, 1), 2_000);
        for _ in 0..2 {
            let gateway = any(play);
            play.world.act(gateway, |cluster, now, out| {
                cluster.submit_again(now, gateway, job, out);
            });
        }
        play.world.run_for(500);
    }
    play.world.run_for(10_000);
}

fn two_admins(play: &mut Play) {
    load(play, 20_000);
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    for _ in 0..4 {
        play.conflict([
            shares(nodes, count, nodes / 2),
            shares(nodes, count, nodes / count),
        ]);
        play.world.run_for(3_000);
    }
}

/// Most voters of the cluster's own group stand still. Virtual clusters that have most of theirs among the
/// other machines, as some do where there are many, place jobs all the same.
fn no_cluster(play: &mut Play) {
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

fn full(play: &mut Play) {
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

fn empty_disks(play: &mut Play) {
    for machine in &mut play.world.protocol.machines {
        machine.full = false;
    }
    play.world.run_for(2_000);
}

fn burst(play: &mut Play) {
    let jobs = 100 + 2 * play.world.nodes();
    play.submit(jobs, 300);
    let group = vcs(play)[0];
    play.world.run_for(100);
    let leader = play.world.protocol.leader(group).unwrap_or_default();
    down(&mut play.world, leader);
    back_after(&mut play.world, leader, 5_000);
    play.world.run_for(20_000);
}

/// What is measured of a cluster to which nothing happens.
pub(super) fn table(play: &mut Play) -> serde_json::Value {
    let nodes = play.world.nodes();
    let group = vcs(play)[0];
    // Leaders hear of all machines first.
    play.world.run_for(3_000);
    // One small job at a time, then a gang on as many machines as are promised, then many at once.
    for _ in 0..100 {
        play.gang(group, (1, 1), 100);
        play.world.run_for(300);
    }
    let small = play.world.protocol.figures.take_placed();
    let wide = (nodes / vcs(play).len()).clamp(1, 64) as u64;
    for _ in 0..20 {
        play.gang(group, (wide, 4), 100);
        play.world.run_for(2_500);
    }
    let gangs = play.world.protocol.figures.take_placed();
    let (tasks, since) = (play.world.protocol.account.tasks, play.world.now());
    play.world.protocol.figures.count_leading();
    for at in 0..4 * nodes {
        let vcs = vcs(play);
        play.gang(vcs[at % vcs.len()], (1, 1), 1_000);
    }
    play.world.run_for(10_000);
    let tasks = play.world.protocol.account.tasks - tasks;
    let last = play.world.protocol.figures.last_placed();
    let took = last.unwrap_or(since).micros_since(since).max(1);
    let many = play.world.protocol.figures.take_placed();
    let led_us = play.world.protocol.figures.led_us();
    // All machines start together from their disks.
    for node in 0..nodes {
        down(&mut play.world, node);
    }
    play.world.run_for(1_000);
    let start: Time = play.world.now();
    play.world.start_all();
    play.persist();
    play.gang(group, (1, 1), 100);
    play.world.run_for(10_000);
    let cold = play.world.protocol.figures.last_placed();
    serde_json::json!({
        "submit_to_placed_ms": small,
        "gang_tasks": wide,
        "gang_submit_to_placed_ms": gangs,
        "burst_submit_to_placed_ms": many,
        "burst_tasks": tasks,
        "leader_cpu_us_per_task": led_us / tasks.max(1),
        "burst_tasks_s": tasks * 1_000_000 / took,
        "cold_start_to_placed_ms": cold.map(|at| at.micros_since(start) / 1_000),
    })
}
