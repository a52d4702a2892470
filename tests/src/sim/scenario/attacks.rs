//! Members that lie or flood, and wires that damage.

use std::sync::Arc;

use muster_gossip::frame::{Frame, Push};
use muster_gossip::mesh::Config;
use muster_gossip::record::{Level, NodeBody, Record, RecordKey, Version, Vote, WatchBody};
use muster_gossip::{ClusterId, Incarnation};

use super::stage::Stage;
use crate::sim::load;
use crate::sim::mesh::signed;
use crate::sim::random::Chance;

/// S10: one node votes against everybody, always: those it watches by a broken clock, and all
/// others by what it signs.
pub(super) fn liar(stage: &mut Stage) {
    let liar = stage.any();
    let broken = Config {
        doubt_ms: 0,
        gone_ms: 0,
        answer_ms: 0,
        ..Config::default()
    };
    stage.world.crash(liar);
    stage.run(500);
    stage.world.protocol.hosts[liar].config = broken;
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
    stage.world.protocol.hosts[liar].config = Config::default();
    stage.world.crash(liar);
    stage.recover();
}

/// The liar signs a vote against every other node.
fn slander(stage: &mut Stage, liar: usize, round: u64) {
    let Some(core) = stage.core(liar) else { return };
    let lives = core
        .ever()
        .filter(|member| member.index() != liar)
        .take(200);
    let votes = lives.map(|subject| Vote {
        subject,
        incarnation: Incarnation(core.member(subject).map_or(0, |view| view.incarnation.0)),
        level: Level::Gone,
        heard: false,
    });
    let body = WatchBody {
        votes: votes.collect(),
    };
    let incarnation = core.incarnation().0;
    let version = Version {
        incarnation,
        number: 1_000 + round,
    };
    let authority = &stage.world.protocol.authority;
    let key = RecordKey::Watch(Stage::id(liar));
    let signer = authority.signer(liar);
    let record = Arc::new(signed(authority.cluster, key, version, &body, &signer));
    for to in links(stage, liar) {
        let push = Push {
            number: 9,
            records: vec![record.clone()],
        };
        stage.send(liar, to, Frame::Push(push));
    }
}

fn links(stage: &Stage, node: usize) -> Vec<usize> {
    let links = stage
        .core(node)
        .map(|core| core.links().map(|member| member.index()).collect());
    links.unwrap_or_default()
}

/// S33: bits flip on the wires and in memories.
pub(super) fn damaged(stage: &mut Stage) {
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
}

/// S39: a member floods its links with records of its own, a hundred times as many as it may.
pub(super) fn flood(stage: &mut Stage) {
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
                        nodes.inject(to, Frame::Push(push), out)
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

fn limited(stage: &Stage, node: usize) -> u64 {
    let counters = stage.core(node).map(|core| core.counters());
    counters.map_or(0, |counters| {
        counters.records_limited + counters.frames_limited
    })
}

/// A record that a node signs of itself, newer than the last.
fn node_record(
    world: &crate::sim::world::World<crate::sim::mesh::Nodes>,
    node: usize,
    number: u64,
) -> Option<Record> {
    let nodes = &world.protocol;
    let incarnation = nodes.core(node)?.incarnation().0;
    let body = NodeBody {
        run: number,
        ..nodes.hosts[node].body.clone()
    };
    let version = Version {
        incarnation,
        number: 1_000 + number,
    };
    let key = RecordKey::Node(Stage::id(node));
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
pub(super) fn foreign(stage: &mut Stage) {
    let other = ClusterId([7; 16]);
    let from = stage.any();
    let incarnation = stage.core(from).map_or(1, |core| core.incarnation().0);
    let version = Version {
        incarnation,
        number: 1_000,
    };
    let nodes = &stage.world.protocol;
    let key = RecordKey::Node(Stage::id(from));
    let body = nodes.hosts[from].body.clone();
    let record = signed(other, key, version, &body, &nodes.authority.signer(from));
    let records = vec![Arc::new(record)];
    for to in (0..stage.nodes()).filter(|&to| to != from) {
        let frame = Frame::Push(Push {
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
