//! Members that lie or flood, and wires that damage.

use std::sync::Arc;

use muster_gossip::ClusterId;
use muster_gossip::documents::BodyVerdict;
use muster_gossip::frame::{MeshFrame, Push};
use muster_gossip::mesh::MeshOptions;
use muster_gossip::record::{
    AdmissionState, MemberBody, NodeBody, Record, RecordKey, RecordVersion, WatchBody,
};

use super::stage::MeshStage;
use crate::sim::load;
use crate::sim::mesh::{RULES, VersionDraft, broken_clock, signed};
use crate::sim::random::Chance;

/// S10: one node votes against everybody, always: those it watches by a broken clock, and all
/// others by what it signs.
pub(super) fn liar(stage: &mut MeshStage) {
    let liar = stage.any();
    stage.world.crash(liar);
    stage.run(500);
    stage.world.protocol.hosts[liar].config = broken_clock();
    stage.world.start(liar);
    stage.world.views.excuses[liar] = true;
    for round in 0..20 {
        stage.run(1_000);
        slander(stage, liar, round);
    }
    stage.nobody_wronged();
    let others: Vec<usize> = (0..stage.nodes()).filter(|&node| node != liar).collect();
    for &other in &others {
        let world = &stage.world;
        let against = others.iter().copied().find(|&node| {
            world.views.reach(node, other) == muster_gossip::mesh::Reach::Unreachable
        });
        stage.expect(against.is_none(), || {
            format!("n{against:?} believes the liar on n{other}")
        });
    }
    let bytes = stage.traffic(5_000);
    stage.expect(bytes <= 10_000, || format!("{bytes} bytes/s for a liar"));
    stage.world.protocol.hosts[liar].config = MeshOptions::default();
    stage.world.crash(liar);
    stage.recover();
}

/// The liar signs a vote against every other node.
fn slander(stage: &mut MeshStage, liar: usize, round: u64) {
    stage
        .world
        .act(liar, |nodes, _, out| nodes.slander(liar, round, out));
}

fn links(stage: &MeshStage, node: usize) -> Vec<usize> {
    let links = stage
        .core(node)
        .map(|core| core.links().map(|member| member.index()).collect());
    links.unwrap_or_default()
}

/// S33: bits flip on the wires and in memories.
pub(super) fn damaged(stage: &mut MeshStage) {
    load::pauses(&mut stage.world);
    stage.world.engine.network.weather.corrupt = Chance::percent(10.0);
    let body: Arc<[u8]> = stage.world.random.bytes(100_000).into();
    stage
        .world
        .edit(crate::sim::protocol::Edit { version: 1, body });
    for _ in 0..20 {
        let node = stage.any();
        if stage.world.engine.up(node) {
            stage.world.change(node);
        }
        stage.run(1_000);
    }
    let (refused, passed) = (
        stage.world.protocol.wire.refused,
        stage.world.protocol.wire.passed,
    );
    stage.expect(refused > 0 && passed > 0, || {
        format!("{refused} refused, {passed} passed")
    });
    stage.recover();
    // By each node's own word: what they tell of each other may have been damaged in memory.
    stage.within(
        10_000,
        "finding a document valid in spite of damage",
        |world| {
            let cores: Vec<_> = world
                .awake()
                .filter_map(|node| world.protocol.core(node))
                .collect();
            cores.into_iter().all(|core| {
                let mut documents = core.documents();
                documents.any(|(id, view)| id == RULES && view.verdict == Some(BodyVerdict::Valid))
            })
        },
    );
}

/// S39: a member floods its links with records of its own, a hundred times as many as it may.
pub(super) fn flood(stage: &mut MeshStage) {
    let flooder = stage.any();
    let targets = links(stage, flooder);
    let mut number = 0;
    let first = stage.after(0);
    let to = targets.clone();
    stage.world.add_chore(
        first,
        Box::new(move |world| {
            for _ in 0..5 {
                number += 1;
                let record = Arc::new(node_record(world, flooder, number)?);
                for &to in &to {
                    let push = Push {
                        number: 3,
                        records: vec![record.clone()],
                    };
                    world.act(flooder, |nodes, _, out| {
                        nodes.inject(to, MeshFrame::Push(push), out)
                    });
                }
            }
            Some(world.now().plus_millis(10))
        }),
    );
    let before = stage.world.engine.bytes;
    stage.run(20_000);
    let all = (stage.world.engine.bytes - before) / 20 / stage.nodes() as u64;
    stage.nobody_wronged();
    let limited: u64 = targets.iter().map(|&node| limited(stage, node)).sum();
    stage.expect(limited > 0, || "nobody noticed a flood".into());
    // What the flooder itself sends is spread over all; the rest is what others make of it.
    let own = 500 * targets.len() as u64 * 450 / stage.nodes() as u64;
    stage.expect(all < own + 40_000, || {
        format!("{all} bytes/s while one floods with {own}")
    });
    stage.world.end_chores();
    stage.world.crash(flooder);
    stage.run(2_000);
    stage.recover();
}

fn limited(stage: &MeshStage, node: usize) -> u64 {
    let counters = stage.core(node).map(|core| core.counters());
    counters.map_or(0, |counters| {
        counters.records_limited + counters.frames_limited
    })
}

/// A record that a node signs of itself, newer than the last.
fn node_record(
    world: &crate::sim::world::World<crate::sim::mesh::MeshNodes>,
    node: usize,
    number: u64,
) -> Option<Record> {
    let nodes = &world.protocol;
    let incarnation = nodes.core(node)?.incarnation().0;
    let body = NodeBody {
        run: number,
        ..nodes.hosts[node].body.clone()
    };
    let version = RecordVersion {
        incarnation,
        number: 1_000 + number,
    };
    let key = RecordKey::Node(MeshStage::id(node));
    let signer = nodes.authority.signer(node);
    Some(signed(
        nodes.authority.cluster,
        key,
        version,
        &body,
        &signer,
    ))
}

/// Frames and records of another cluster come in over a member's connection.
pub(super) fn foreign(stage: &mut MeshStage) {
    let other = ClusterId([7; 16]);
    let from = stage.any();
    let incarnation = stage.core(from).map_or(1, |core| core.incarnation().0);
    let version = RecordVersion {
        incarnation,
        number: 1_000,
    };
    let nodes = &stage.world.protocol;
    let key = RecordKey::Node(MeshStage::id(from));
    let body = nodes.hosts[from].body.clone();
    let record = signed(other, key, version, &body, &nodes.authority.signer(from));
    let records = vec![Arc::new(record)];
    for to in (0..stage.nodes()).filter(|&to| to != from) {
        let frame = MeshFrame::Push(Push {
            number: 5,
            records: records.clone(),
        });
        stage.world.protocol.wire.check_foreign(&frame, other);
        stage.send(from, to, frame);
    }
    stage.run(2_000);
    let took = (0..stage.nodes()).find(|&node| {
        let record = stage.core(node).and_then(|core| core.record(key));
        record.is_some_and(|record| record.cluster == other)
    });
    stage.expect(took.is_none(), || {
        format!("n{took:?} took another cluster's record")
    });
    stage.recover();
}

/// A member signs records that only others may write, of every kind, and hands them to all: nobody
/// takes one, and nobody answers for what it never said.
pub(super) fn forged(stage: &mut MeshStage) {
    let forger = stage.any();
    let victim = (forger + 1) % stage.nodes();
    let before = stage.core(victim).map(|core| core.incarnation());
    let was = forgeries_counted(stage);
    for record in forgeries(stage, forger, victim) {
        for to in (0..stage.nodes()).filter(|&to| to != forger) {
            let records = vec![record.clone()];
            stage.send(forger, to, MeshFrame::Push(Push { number: 3, records }));
        }
        stage.run(500);
    }
    let counted = forgeries_counted(stage) - was;
    stage.expect(counted > 0, || "forged records were not counted".into());
    let after = stage.core(victim).map(|core| core.incarnation());
    stage.expect(before == after, || {
        format!("n{victim} went from {before:?} to {after:?} over records that it did not sign")
    });
    stage.nobody_wronged();
    stage.recover();
}

fn forgeries_counted(stage: &MeshStage) -> u64 {
    let cores = (0..stage.nodes()).filter_map(|node| stage.core(node));
    cores.map(|core| core.counters().records_forged).sum()
}

/// Of the victim, of the cluster and of a document, all newer than what is known.
fn forgeries(stage: &MeshStage, forger: usize, victim: usize) -> Vec<Arc<Record>> {
    let nodes = &stage.world.protocol;
    let signer = nodes.authority.signer(forger);
    let cluster = nodes.authority.cluster;
    let version = RecordVersion {
        incarnation: 1_000,
        number: 1,
    };
    let id = MeshStage::id(victim);
    let known = stage
        .core(forger)
        .and_then(|core| core.record(RecordKey::Member(id)));
    let admission = known.and_then(|record| record.body::<MemberBody>().ok());
    let votes = WatchBody { votes: Vec::new() };
    let header = VersionDraft::new(99, vec![1; 10].into()).header(1);
    let mut forged = vec![
        signed(cluster, RecordKey::Watch(id), version, &votes, &signer),
        signed(
            cluster,
            RecordKey::Node(id),
            version,
            &nodes.hosts[victim].body,
            &signer,
        ),
        signed(
            cluster,
            RecordKey::Document(RULES),
            version,
            &header,
            &signer,
        ),
    ];
    let end = admission.map(|body| MemberBody {
        state: AdmissionState::Expelled,
        ..body
    });
    forged.extend(end.map(|body| signed(cluster, RecordKey::Member(id), version, &body, &signer)));
    forged.into_iter().map(Arc::new).collect()
}
