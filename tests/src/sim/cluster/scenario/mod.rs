//! What can happen to a cluster, each with jobs that go on meanwhile. Waits of hours are minutes here.
//! Whatever it is: the rules hold at every step, and afterwards everything comes to its end.

mod clocks;
mod crashes;
mod cuts;
mod logs;
mod promises;
mod table;
mod words;

use muster_consensus::GroupId;

use super::Cluster;
use super::play::Play;
use crate::sim::world::World;

pub(super) use table::table;

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
    scenario("S1", "one machine crashes and comes back", crashes::crash),
    scenario("S2", "a rack loses its agents", crashes::rack),
    scenario("S3", "halves part and meet again", cuts::halves),
    scenario("S4", "a leader is cut off, with users", cuts::leader_cut),
    scenario(
        "S5",
        "a leader is cut off with its gang's machines",
        cuts::leader_and_gang,
    ),
    scenario(
        "S6",
        "a leader sends but receives nothing",
        cuts::deaf_leader,
    ),
    scenario(
        "S7",
        "two sides, and one machine that hears both",
        cuts::bridge,
    ),
    scenario("S8", "a leader's link comes and goes", cuts::flapping),
    scenario(
        "S11",
        "all agents restart within seconds",
        crashes::restarts,
    ),
    scenario(
        "S12",
        "all are off, and start together",
        crashes::cold_start,
    ),
    scenario(
        "S16",
        "a virtual cluster loses most of its voters for good, and goes on",
        logs::recovered,
    ),
    scenario("S17", "a voter loses the log of all groups", logs::amnesia),
    scenario(
        "S18",
        "leaders die between any two steps",
        crashes::between_steps,
    ),
    scenario(
        "S19",
        "a leader stands still, and leads on when it goes on",
        clocks::old_leader,
    ),
    scenario(
        "S20",
        "what is committed comes later than reservations last",
        logs::late_commits,
    ),
    scenario(
        "S21",
        "words come twice, out of order, and seconds later",
        words::doubled,
    ),
    scenario(
        "S22",
        "agents die between two things that they do",
        crashes::half_done,
    ),
    scenario(
        "S23",
        "agents of a running gang die while it ends",
        crashes::gang_ends_alone,
    ),
    scenario(
        "S24",
        "a machine is cut off, and its agent dies",
        cuts::dead_and_cut,
    ),
    scenario(
        "S25",
        "a machine is cut off for longer than leases last",
        cuts::long_cut,
    ),
    scenario(
        "S26",
        "clocks jump while leases last",
        clocks::jumping_clocks,
    ),
    scenario(
        "S27",
        "what was promised is wanted back from many at once",
        promises::flood,
    ),
    scenario(
        "S28",
        "virtual clusters shrink and grow while jobs run",
        promises::resized,
    ),
    scenario("S29", "a job is submitted at three machines", words::thrice),
    scenario(
        "S31",
        "two admins describe the cluster at once",
        words::two_admins,
    ),
    scenario(
        "S37",
        "the cluster's own group has no majority",
        logs::no_cluster,
    ),
    scenario("S38", "disks of leaders and of gangs are full", logs::full),
    scenario("S40", "a burst of jobs, and the leader dies", words::burst),
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
