//! Machines that come back after very long, with all that they had.

use super::{down, gangs, load, up, vcs};
use crate::sim::cluster::Cluster;
use crate::sim::cluster::machine::Machine;
use crate::sim::cluster::play::{ClusterPlay, shares};

/// Away for so long, everybody has long given it up, ms.
const AWAY_MS: u64 = 300_000;
/// Back again, it has nothing of before any more within this, ms.
const CLEARED_MS: u64 = 60_000;

/// A machine is away for so long that all it had is elsewhere, and virtual clusters have shrunk and grown:
/// what it has of that does no harm when it comes back, and is gone soon.
pub(super) fn returned(play: &mut ClusterPlay) {
    gangs(play, 60_000);
    load(play, 10_000);
    play.world.run_for(5_000);
    let used = play.world.protocol.nodes_in_use(vcs(play)[0]);
    let away = used.first().copied().unwrap_or_default();
    leave(play, away);
    let (nodes, count) = (play.world.nodes(), vcs(play).len());
    let here = (away + 1) % nodes;
    for promised in [nodes / 2, 0, nodes / count] {
        load(play, 20_000);
        play.world.run_for(AWAY_MS / 3);
        play.describe_at(here, shares(nodes, count, promised));
    }
    play.world.engine.network.heal();
    up(&mut play.world, away);
    load(play, 10_000);
    play.within(CLEARED_MS, "a machine being rid of what it had", |world| {
        world.protocol.is_rid(away)
    });
}

/// It is cut off only, or its agent is gone, or its power.
fn leave(play: &mut ClusterPlay, node: usize) {
    play.world.engine.network.cuts.side(node, 2);
    let how = play.world.random.below(3);
    if how > 0 {
        down(&mut play.world, node);
    }
    if how > 1 {
        let now = play.world.now();
        play.world.protocol.power_off(now, node);
    }
}

impl Cluster {
    /// Whether a machine has no task that has ended, and no copy of a log that it is to have none of.
    fn is_rid(&self, node: usize) -> bool {
        let machine = &self.machines[node];
        let mut copies = machine.store.groups();
        let is_home = |group| self.homes_wanted(group).is_none_or(|it| it.contains(&node));
        copies.all(is_home) && !self.has_over(machine)
    }

    /// Whether its ledger has something of tasks that have ended.
    fn has_over(&self, machine: &Machine) -> bool {
        let process = machine.process.as_ref();
        let tasks = process.map(|it| it.node.ledger().tasks());
        let mut tasks = tasks.into_iter().flatten();
        tasks.any(|task| {
            let mut books = self.account.books.values();
            books.any(|book| book.ended.keys().any(|uid| uid.as_str() == task.uid))
        })
    }

    /// The machines that have copies of a group by its leader's word, if it has one.
    pub(super) fn homes_wanted(&self, group: muster_consensus::GroupId) -> Option<Vec<usize>> {
        let leader = &self.machines[self.leader(group)?];
        let view = leader.process.as_ref()?.core.groups().host().view(group)?;
        let homes = view.membership.homes.values();
        Some(
            homes
                .filter_map(|home| usize::try_from(home.node.0).ok())
                .collect(),
        )
    }
}
