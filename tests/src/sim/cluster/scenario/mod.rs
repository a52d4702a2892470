//! What can happen to a cluster, each with jobs that go on meanwhile. Waits of hours are minutes here.
//! Whatever it is: the rules hold at every step, and afterwards everything comes to its end.
//!
//! Numbers that are missing here are about documents, records and joining, which the simulation of the mesh
//! has (S13, S30, S32, S33, S39), or about entries and records of two versions at a time (S15), of which there
//! is one of each still.

mod clocks;
mod crashes;
mod cuts;
mod devices;
mod expelling;
mod judging;
mod logs;
mod majority;
mod promises;
mod replacement;
mod returning;
mod table;
mod words;

use muster_consensus::GroupId;

use super::Cluster;
use super::play::ClusterPlay;
use crate::sim::world::World;

pub(super) use table::table;

/// Gangs that nothing keeps from it are started within this, ms.
const STARTED_MS: u64 = 15_000;
/// Groups have as many voters as they will have after this, ms.
const GROWN_MS: u64 = 20_000;

/// Something that happens, and what must come of it.
pub(super) struct ClusterScenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) play: fn(&mut ClusterPlay),
}

const fn scenario(
    name: &'static str,
    about: &'static str,
    play: fn(&mut ClusterPlay),
) -> ClusterScenario {
    ClusterScenario { name, about, play }
}

/// All there are, but for single faults.
pub(super) static ALL: &[ClusterScenario] = &[
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
        "S9",
        "a hundredth of the machines hardly get to run",
        judging::starved,
    ),
    scenario(
        "S10",
        "one machine says that everybody is away",
        judging::liar,
    ),
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
        "S14",
        "agents are restarted in turn, and half way those again",
        crashes::rolling,
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
        "S34",
        "a machine returns after very long",
        returning::returned,
    ),
    scenario("S35", "an expelled machine goes on", expelling::talks_on),
    scenario(
        "S36",
        "voters are lost of groups that had nothing to do",
        logs::idle,
    ),
    scenario(
        "S37",
        "the cluster's own group has no majority",
        logs::no_cluster,
    ),
    scenario("S38", "disks of leaders and of gangs are full", logs::full),
    scenario("S40", "a burst of jobs, and the leader dies", words::burst),
    scenario(
        "S41",
        "devices are not seen for two minutes",
        devices::blind,
    ),
    scenario(
        "S42",
        "a voter is sent a snapshot while leaders die",
        logs::long_log,
    ),
    scenario(
        "S43",
        "machines take no new connections",
        cuts::no_strangers,
    ),
    scenario(
        "S44",
        "the cluster loses most of its own voters for good, and goes on",
        replacement::succeeded,
    ),
    scenario(
        "S45",
        "what long gangs run on is promised to others",
        promises::withdrawn,
    ),
    scenario(
        "S46",
        "a virtual cluster has no majority for longer than leases last",
        majority::lost_for_long,
    ),
];

/// Jobs come all the while.
fn load(play: &mut ClusterPlay, ms: u64) {
    let jobs = 10 + play.world.nodes().min(100);
    play.submit(jobs, ms);
}

/// The groups of the virtual clusters.
fn vcs(play: &ClusterPlay) -> Vec<GroupId> {
    play.world.protocol.account.vcs.keys().copied().collect()
}

/// Who leads any of the virtual clusters.
fn any_leader(play: &mut ClusterPlay) -> usize {
    let vcs = vcs(play);
    let group = vcs[play.world.random.index(vcs.len())];
    let leader = play.world.protocol.leader(group);
    leader.unwrap_or_default()
}

fn any(play: &mut ClusterPlay) -> usize {
    let nodes = play.world.nodes();
    play.world.random.index(nodes)
}

/// Gangs of all virtual clusters are started that run for so long, unless they are stopped. Their numbers.
fn gangs(play: &mut ClusterPlay, ms: u64) -> Vec<u64> {
    play.world.protocol.habits.fails_in = 0;
    let vcs = vcs(play);
    let all = play.world.protocol.account.started + vcs.len() as u64;
    let gangs = vcs.into_iter().map(|group| play.gang(group, (2, 1), ms));
    let gangs = gangs.collect();
    play.within(STARTED_MS, "gangs being started", |world| {
        world.protocol.account.started >= all
    });
    gangs
}

/// Waits until these jobs have been placed; says what they wait for if that takes too long.
fn are_placed(play: &mut ClusterPlay, jobs: &[u64], limit_ms: u64) {
    let all = |world: &World<Cluster>| jobs.iter().all(|job| world.protocol.was_placed(*job));
    let took = play.world.run_while(limit_ms, 20, all);
    let rest = took.map_or_else(|| play.world.protocol.rest(), |_| String::new());
    play.expect(took.is_some(), || {
        format!("after {limit_ms} ms {jobs:?} are not all placed: {rest}")
    });
}

/// Whether all groups but this one have most of their voters without these machines.
fn others_go_on(play: &ClusterPlay, group: GroupId, lost: &[usize]) -> bool {
    let mut others = play.world.protocol.groups().into_iter();
    others.all(|other| {
        let all = play.world.protocol.voters(other);
        let left = all.iter().filter(|node| !lost.contains(node));
        other == group || 2 * left.count() > all.len()
    })
}

/// While this happens no task ends, and none is given up, because somebody could not be heard.
fn steadily(play: &mut ClusterPlay, happens: impl FnOnce(&mut ClusterPlay)) {
    let before = play.world.protocol.account.unheard();
    happens(play);
    let account = &play.world.protocol.account;
    let unheard = account.unheard() - before;
    let (lost, overlapped) = (account.lost, account.overlapped);
    let leases = account.leases_ended;
    play.expect(unheard == 0, || {
        format!("{unheard} tasks too many: {lost} lost, {overlapped} overlapped, {leases} with their lease")
    });
}

/// While this happens nobody who can be reached is held for unreachable; some are excused.
fn fairly(play: &mut ClusterPlay, excused: &[usize], happens: impl FnOnce(&mut ClusterPlay)) {
    let views = &mut play.world.views;
    views.excused = false;
    views.wrongs.clear();
    for &node in excused {
        views.excuses[node] = true;
    }
    happens(play);
    let views = &mut play.world.views;
    views.excused = true;
    let wrongs = std::mem::take(&mut views.wrongs);
    play.expect(wrongs.is_empty(), || {
        format!("wrongly held for unreachable: {wrongs:?}")
    });
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
