//! Members that come, go, and come back with old news.

use std::sync::Arc;

use muster_gossip::frame::{MeshFrame, Push};
use muster_gossip::mesh::Reach;
use muster_gossip::record::{AdmissionState, MemberBody, Record, RecordKey, RecordVersion};

use super::stage::MeshStage;
use crate::sim::load;
use crate::sim::mesh::{RULES, VersionDraft, signed};

/// S13: all nodes join within ten seconds.
pub(super) fn storm(stage: &mut MeshStage) {
    let nodes = stage.nodes();
    stage.world.start(0);
    for node in 1..nodes {
        let at = stage.world.random.below(10_000);
        let first = stage.after(at);
        stage.world.add_chore(
            first,
            Box::new(move |world| {
                join(world, node);
                None
            }),
        );
    }
    stage.run(10_000);
    stage.within(2_000, "everybody knowing everybody", |world| {
        let mut awake = world.awake();
        world.identical()
            && awake.all(|node| {
                let core = world.protocol.core(node);
                core.is_some_and(|core| core.members().count() == nodes)
            })
    });
    stage.recover();
}

/// A node is admitted at the first, is told what it needs, and starts.
pub(crate) fn join(world: &mut crate::sim::world::World<crate::sim::mesh::MeshNodes>, node: usize) {
    world.act(0, |nodes, now, out| nodes.admit(now, node, out));
    world.start(node);
}

/// S34: a node was away while members were expelled and others changed, and comes back with its
/// old disk: nothing that is over comes back with it.
pub(super) fn returned(stage: &mut MeshStage) {
    let nodes = stage.nodes();
    let mut order = stage.world.random.sample(nodes - 1, nodes - 1);
    let away = order.pop().map_or(1, |node| node + 1);
    let expelled: Vec<usize> = order
        .drain(..(nodes / 5).max(1))
        .map(|node| node + 1)
        .collect();
    stage.world.crash(away);
    stage.run(4_000);
    for &node in &expelled {
        expel(stage, node);
        stage.world.crash(node);
    }
    for node in order {
        stage.world.change(node + 1);
    }
    stage.run(30_000);
    stage.world.start(away);
    stage.within(2_000, "the returned node knowing what happened", |world| {
        world.identical()
    });
    for node in stage.running() {
        for &gone in &expelled {
            let core = stage.core(node);
            let member = core.is_some_and(|core| core.members().any(|id| id.index() == gone));
            let says = core.and_then(|core| core.record(RecordKey::Node(MeshStage::id(gone))));
            let back = member || says.is_some();
            stage.expect(!back, || format!("expelled n{gone} came back on n{node}"));
        }
    }
    stage.world.end_chores();
    stage.settle();
}

/// The cluster expels a member; the record comes up at the founder.
fn expel(stage: &mut MeshStage, node: usize) {
    let record = stage
        .world
        .protocol
        .authority
        .member(node, AdmissionState::Expelled);
    stage.world.views.excuses[node] = true;
    stage.world.life.cut_off[node] = true;
    stage.record(0, record);
}

/// S35: an expelled member that was never told keeps talking.
pub(super) fn expelled_talks(stage: &mut MeshStage) {
    let outcast = 1 + stage.world.random.index(stage.nodes() - 1);
    let others: Vec<usize> = (0..stage.nodes()).filter(|&node| node != outcast).collect();
    // Nobody tells it: it hears nothing any more.
    stage.world.engine.network.cuts.deafen(outcast);
    expel(stage, outcast);
    stage.run(3_000);
    let before: u64 = others.iter().map(|&node| strangers(stage, node)).sum();
    for _ in 0..10 {
        stage.world.change(outcast);
        stage.run(1_000);
    }
    let after: u64 = others.iter().map(|&node| strangers(stage, node)).sum();
    stage.expect(after > before, || {
        "nobody noticed that an expelled member talks".into()
    });
    stays_out(stage, outcast, &others);
    stage.world.engine.network.heal();
    stage.run(20_000);
    stays_out(stage, outcast, &others);
    stage.world.crash(outcast);
    stage.settle();
}

fn strangers(stage: &MeshStage, node: usize) -> u64 {
    stage.core(node).map_or(0, |core| core.counters().strangers)
}

fn stays_out(stage: &mut MeshStage, outcast: usize, others: &[usize]) {
    for &node in others {
        let core = stage.core(node);
        let record = core.and_then(|core| core.record(RecordKey::Node(MeshStage::id(outcast))));
        let member = core.is_some_and(|core| core.members().any(|id| id.index() == outcast));
        let back = member || record.is_some();
        stage.expect(!back, || format!("expelled n{outcast} is back on n{node}"));
        let reach = stage.world.views.reach(node, outcast);
        stage.expect(reach == Reach::Alive, || {
            format!("n{node} still judges n{outcast}")
        });
    }
}

/// S32: an expelled member signs what only the cluster may sign, and what it once might.
pub(super) fn expelled_signs(stage: &mut MeshStage) {
    let outcast = 1 + stage.world.random.index(stage.nodes() - 1);
    let body: Arc<[u8]> = stage.world.random.bytes(1_000).into();
    stage.world.edit(crate::sim::protocol::Edit {
        version: 1,
        body: body.clone(),
    });
    stage.run(1_000);
    stage.world.engine.network.cuts.deafen(outcast);
    expel(stage, outcast);
    stage.run(3_000);
    let forged = forgeries(stage, outcast, &body);
    let refused = |stage: &MeshStage| -> u64 {
        let cores = (0..stage.nodes()).filter_map(|node| stage.core(node));
        cores
            .map(|core| core.counters().records_forged + core.counters().strangers)
            .sum()
    };
    let before = refused(stage);
    for record in forged {
        for to in 0..stage.nodes() {
            // Sent by itself, and by a member that does not look at what it passes on.
            let records = vec![record.clone()];
            for from in [outcast, 0] {
                if from != to && to != outcast {
                    let push = Push {
                        number: 7,
                        records: records.clone(),
                    };
                    stage.send(from, to, MeshFrame::Push(push));
                }
            }
        }
        stage.run(500);
    }
    let counted = refused(stage) - before;
    stage.expect(counted > 0, || "forged records were not counted".into());
    let others: Vec<usize> = (0..stage.nodes()).filter(|&node| node != outcast).collect();
    stays_out(stage, outcast, &others);
    stage.world.crash(outcast);
    stage.world.engine.network.heal();
    stage.settle();
}

/// What an outcast might sign: an edit, its own admission, itself, all newer than what is known.
fn forgeries(stage: &mut MeshStage, outcast: usize, body: &Arc<[u8]>) -> Vec<Arc<Record>> {
    let authority = &stage.world.protocol.authority;
    let signer = authority.signer(outcast);
    let (cluster, key) = (authority.cluster, authority.node_key(outcast));
    let version = RecordVersion {
        incarnation: 1,
        number: 1_000,
    };
    let header = VersionDraft::new(99, body.clone()).header(1);
    let admission = MemberBody {
        key,
        name: "n0".into(),
        rack: String::new(),
        votes: true,
        state: AdmissionState::Admitted,
    };
    let me = stage.world.protocol.hosts[outcast].body.clone();
    let number = MeshStage::id(outcast);
    let document = signed(
        cluster,
        RecordKey::Document(RULES),
        version,
        &header,
        &signer,
    );
    let member = signed(
        cluster,
        RecordKey::Member(number),
        version,
        &admission,
        &signer,
    );
    let node = signed(cluster, RecordKey::Node(number), version, &me, &signer);
    [document, member, node].map(Arc::new).to_vec()
}

/// A node loses its disk but keeps its key: it must not be taken for its own past.
pub(super) fn disk_lost(stage: &mut MeshStage) {
    load::pauses(&mut stage.world);
    let node = 1 + stage.world.random.index(stage.nodes() - 1);
    stage.world.change(node);
    stage.run(2_000);
    stage.world.crash(node);
    stage.run(3_000);
    stage.world.protocol.wipe(node);
    stage.world.start(node);
    stage.within(
        8_000,
        "a node without its past being known again",
        |world| world.identical(),
    );
    stage.run(1_000);
    stage.world.change(node);
    stage.run(2_000);
    let hash = |stage: &MeshStage, at: usize| {
        let record = stage
            .core(at)
            .and_then(|core| core.record(RecordKey::Node(MeshStage::id(node))));
        record.map(|record| record.hash)
    };
    let (own, other) = (hash(stage, node), hash(stage, 0));
    stage.expect(own.is_some() && own == other, || {
        format!("n{node} is not believed any more")
    });
    stage.recover();
}
