//! A virtual cluster that has no majority for long, while what it has running goes on.

use muster_consensus::GroupId;
use muster_model::id::VcName;

use super::{GROWN_MS, are_placed, down, gangs, others_go_on, steadily, up, vcs};
use crate::sim::cluster::play::ClusterPlay;

/// The gang runs for so long, ms.
const GANG_MS: u64 = 240_000;
/// Its virtual cluster has no majority for so long, ms: a lease ends 37 s after it was renewed last, so that more
/// than three would, one after the other.
const AWAY_MS: u64 = 120_000;
/// So many times meanwhile others are seen to place jobs.
const LOOKS: u64 = 3;
/// Who leads without a majority finds out within this, ms.
const DEPOSED_MS: u64 = 5_000;
/// A group that has a majority again is led within this, ms.
const LED_MS: u64 = 10_000;
/// Jobs that nothing keeps from it are placed within this, ms: users try elsewhere after ten seconds.
const PLACED_MS: u64 = 30_000;
/// So many choices of voters are looked at.
const TRIES: u64 = 100;

/// Most voters of a virtual cluster are lost for longer than its leases last: what it has running on other machines
/// goes on, for the leader of the cluster renews those. Others place jobs meanwhile, and it does once it has a
/// majority again.
pub(super) fn lost_for_long(play: &mut ClusterPlay) {
    play.world.run_for(GROWN_MS);
    let group = vcs(play)[0];
    let gang = gangs(play, GANG_MS)[0];
    play.world.run_for(2_000);
    let before = running(play, group);
    play.expect(!before.is_empty(), || "nothing runs".to_owned());
    steadily(play, |play| {
        let agents = spare_majority(play, group);
        match &agents {
            Some(lost) => lost.iter().for_each(|&node| down(&mut play.world, node)),
            None => damage_most(play, group),
        }
        let waits = go_without(play, group);
        let after = running(play, group);
        play.expect(after == before, || {
            format!("without most voters of {group:?} {before:?} have become {after:?}")
        });
        go_on(play, (group, agents), waits);
    });
    ends_well(play, gang);
}

/// Tasks of a virtual cluster whose commands run.
fn running(play: &ClusterPlay, group: GroupId) -> Vec<String> {
    let now = play.world.now();
    play.world.protocol.running(now, group, |_| true)
}

/// Most voters of a group, on machines where no gang is and without which all other groups have their majority;
/// none where there are no such, as where the machines are so few that all groups have the same voters.
fn spare_majority(play: &mut ClusterPlay, group: GroupId) -> Option<Vec<usize>> {
    let used = in_use(play);
    let voters = play.world.protocol.voters(group);
    let most = voters.len() / 2 + 1;
    let idle: Vec<usize> = voters.into_iter().filter(|it| !used.contains(it)).collect();
    (0..TRIES).find_map(|_| {
        let chosen = play.world.random.sample(idle.len(), most);
        let lost: Vec<usize> = chosen.into_iter().map(|at| idle[at]).collect();
        let are_most = lost.len() == most && others_go_on(play, group, &lost);
        are_most.then_some(lost)
    })
}

/// Most voters of a group lose their copies of its log, for good; those where gangs are only if need be.
fn damage_most(play: &mut ClusterPlay, group: GroupId) {
    let used = in_use(play);
    let mut voters = play.world.protocol.voters(group);
    voters.sort_by_key(|node| used.contains(node));
    let most = voters.len() / 2 + 1;
    for node in voters.into_iter().take(most) {
        down(&mut play.world, node);
        play.world.protocol.machines[node].store.damage(group);
        up(&mut play.world, node);
    }
}

/// The machines where any gang is.
fn in_use(play: &ClusterPlay) -> Vec<usize> {
    let groups = vcs(play).into_iter();
    let used = groups.flat_map(|group| play.world.protocol.nodes_in_use(group));
    used.collect()
}

/// A group has no majority for long, while others place one job after the other. What a user submits to it
/// meanwhile.
fn go_without(play: &mut ClusterPlay, group: GroupId) -> u64 {
    play.world.run_for(DEPOSED_MS);
    let leader = play.world.protocol.leader(group);
    play.expect(leader.is_none(), || {
        format!("n{leader:?} leads without most voters")
    });
    let waits = play.gang(group, (1, 1), 2_000);
    let others: Vec<_> = vcs(play).into_iter().filter(|it| *it != group).collect();
    for _ in 0..LOOKS {
        let jobs = others.iter().map(|other| play.gang(*other, (1, 1), 2_000));
        let jobs: Vec<_> = jobs.collect();
        are_placed(play, &jobs, PLACED_MS);
        play.world.run_for(AWAY_MS / LOOKS);
    }
    let is_placed = play.world.protocol.was_placed(waits);
    play.expect(!is_placed, || {
        format!("{group:?} has placed a job without most voters")
    });
    waits
}

/// The agents come back, or an admin has the virtual cluster go on without the copies that were lost. It places what
/// was submitted meanwhile, and what is submitted now.
fn go_on(play: &mut ClusterPlay, (group, agents): (GroupId, Option<Vec<usize>>), waits: u64) {
    let vc = play.world.protocol.account.vcs.get(&group).cloned();
    match agents {
        Some(lost) => lost.iter().for_each(|&node| up(&mut play.world, node)),
        None => play.recover_vc(group),
    }
    play.led_within(LED_MS);
    let group = vc.and_then(|vc| group_of(play, &vc));
    let new = group.map(|group| play.gang(group, (1, 1), 2_000));
    let jobs: Vec<_> = [waits].into_iter().chain(new).collect();
    are_placed(play, &jobs, PLACED_MS);
}

/// The group that a virtual cluster has now.
fn group_of(play: &ClusterPlay, vc: &VcName) -> Option<GroupId> {
    let mut vcs = play.world.protocol.account.vcs.iter();
    vcs.find_map(|(group, name)| (name == vc).then_some(*group))
}

/// A gang ends, at its first attempt and by itself.
fn ends_well(play: &mut ClusterPlay, gang: u64) {
    play.within(GANG_MS, "a gang's end", |world| {
        let summary = world.protocol.summary(gang);
        summary.is_some_and(|it| it.completed.is_some())
    });
    let summary = play.world.protocol.summary(gang);
    let ended = summary.map(|it| (it.exit_code, it.retries.total));
    play.expect(ended == Some((Some(0), 0)), || {
        format!("of a gang that nothing was to end, exit code and retries are {ended:?}")
    });
}
