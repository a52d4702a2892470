//! Members that are expelled.

use muster_consensus::GroupId;
use muster_control::groups::GroupHostInput;
use muster_control::request::cluster::Expel;
use muster_model::time::Time;

use super::{down, gangs, load, up, vcs};
use crate::sim::cluster::founding::ADMIN;
use crate::sim::cluster::play::{ClusterPlay, shares};
use crate::sim::cluster::{Cluster, Out};

/// Who is expelled has no copy of a log any more after this, ms.
const REPLACED_MS: u64 = 20_000;

/// A machine that leads, and runs gangs, is expelled, and goes on as if nothing had happened: it asks for
/// renewals, reports, answers and has its users submit jobs. Nothing of that counts.
pub(super) fn talks_on(play: &mut ClusterPlay) {
    spare_one(play);
    gangs(play, 60_000);
    load(play, 20_000);
    play.world.run_for(5_000);
    let group = vcs(play)[0];
    let used = play.world.protocol.nodes_in_use(group);
    let leader = play.world.protocol.leader(group);
    let outcast = match play.world.random.below(2) {
        0 => leader,
        _ => used.first().copied(),
    };
    let outcast = outcast.unwrap_or_default();
    expel(play, outcast);
    play.within(
        REPLACED_MS,
        "an expelled machine's copies being replaced",
        |world| {
            let groups = world.protocol.groups().into_iter();
            let mut homes = groups.map(|group| world.protocol.homes_wanted(group));
            homes.all(|homes| homes.is_some_and(|homes| !homes.contains(&outcast)))
        },
    );
    load(play, 20_000);
    play.world.run_for(60_000);
    // Nobody has renewed anything there.
    let cluster = &play.world.protocol;
    let leased = cluster.account.leased_on(&cluster.machines[outcast].name);
    play.expect(leased.is_empty(), || {
        format!("{leased:?} go on where nobody may renew leases")
    });
    switch_off(play, outcast);
}

/// One machine is promised to nobody: what is promised can be had without any one of them.
fn spare_one(play: &mut ClusterPlay) {
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    if nodes.is_multiple_of(count) {
        play.describe(shares(nodes, count, nodes / count - 1));
    }
}

/// An admin expels a machine, at another one.
fn expel(play: &mut ClusterPlay, outcast: usize) {
    let here = (outcast + 1) % play.world.nodes();
    let expel = Expel {
        member: format!("n{outcast}"),
        by: ADMIN.to_owned(),
    };
    play.administer_at(here, &expel);
}

/// It is off, and an admin says so: what does not hold by leases ends with it.
fn switch_off(play: &mut ClusterPlay, outcast: usize) {
    down(&mut play.world, outcast);
    let now = play.world.now();
    play.world.protocol.power_off(now, outcast);
    for group in vcs(play) {
        let Some(leader) = play.world.protocol.leader(group) else {
            continue;
        };
        play.world.act(leader, |cluster, now, out| {
            cluster.say_off((now, leader), group, outcast, out);
        });
    }
    play.world.run_for(1_000);
    up(&mut play.world, outcast);
}

impl Cluster {
    fn say_off(&mut self, (now, leader): (Time, usize), group: GroupId, off: usize, out: &mut Out) {
        let node = self.machines[off].name.clone();
        let reply = Box::new(|_| ());
        let off = GroupHostInput::Off { group, node, reply };
        self.keep(now, leader, off, out);
    }
}
