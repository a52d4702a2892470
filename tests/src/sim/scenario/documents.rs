//! Documents that do harm.

use std::sync::Arc;

use muster_gossip::frame::{DocumentFrame, DocumentRef, MeshFrame};
use muster_gossip::record::{Header, RecordKey, RecordVersion};

use super::stage::MeshStage;
use crate::sim::load;
use crate::sim::mesh::{INVALID, POISON, RULES, VersionDraft, signed};
use muster_gossip::record::HeaderStage as Step;

/// A large body, 10 MB.
const LARGE_BYTES: usize = 10 << 20;
/// Where machines are many, the large body is smaller: each keeps a copy.
const MANY: usize = 100;

/// S30: a good version, one that does not parse, one that crashes whoever puts it in force, one
/// of 10 MB, and one that claims to have a gigabyte. Only the good ones are ever in force on more
/// than those who try first.
pub(super) fn poison(stage: &mut MeshStage) {
    load::pauses(&mut stage.world);
    good(stage);
    invalid(stage);
    poisonous(stage);
    large(stage);
    huge(stage);
    stage.nobody_wronged();
    stage.recover();
    in_force(stage, 4, "at the end");
}

/// Version 1 goes all the way.
fn good(stage: &mut MeshStage) {
    let body: Arc<[u8]> = stage.world.random.bytes(5_000).into();
    let draft = VersionDraft::new(1, body);
    publish(stage, &draft);
    valid_everywhere(stage, 1);
    publish(
        stage,
        &VersionDraft {
            stage: Step::Active,
            ..draft
        },
    );
    stage.run(1_000);
    in_force(stage, 1, "when it is active");
}

/// Version 2 does not parse: everybody says so, and nobody puts it in force.
fn invalid(stage: &mut MeshStage) {
    let draft = VersionDraft {
        active: 1,
        ..VersionDraft::new(2, INVALID.into())
    };
    publish(stage, &draft);
    let nodes = stage.nodes();
    stage.within(3_000, "everybody rejecting what does not parse", |world| {
        let core = world.protocol.core(0);
        let view = core.and_then(|core| core.documents().find(|(id, _)| *id == RULES));
        view.is_some_and(|(_, view)| count(&view.coverage.rejected) == nodes)
    });
    publish(
        stage,
        &VersionDraft {
            stage: Step::Withdrawn,
            ..draft
        },
    );
    stage.run(1_000);
    in_force(stage, 1, "after one was rejected");
}

/// Version 3 crashes those who try it, two canaries; it is withdrawn, and they come back with the
/// good one.
fn poisonous(stage: &mut MeshStage) {
    let draft = VersionDraft {
        active: 1,
        ..VersionDraft::new(3, POISON.into())
    };
    publish(stage, &draft);
    valid_everywhere(stage, 3);
    let canaries = [1, 2].map(MeshStage::id).to_vec();
    publish(
        stage,
        &VersionDraft {
            stage: Step::Canary(canaries),
            ..draft.clone()
        },
    );
    stage.run(1_000);
    for node in 0..stage.nodes() {
        let fell = stage.world.protocol.hosts[node].poisoned;
        let canary = node == 1 || node == 2;
        stage.expect(fell == canary, || {
            format!("n{node} fell over the poison: {fell}")
        });
        if fell {
            stage.world.crash(node);
        }
    }
    stage.run(1_000);
    publish(
        stage,
        &VersionDraft {
            stage: Step::Withdrawn,
            ..draft
        },
    );
    stage.world.start_all();
    stage.run(3_000);
    in_force(stage, 1, "after a poisonous one");
}

/// Version 4 is large: it arrives, and disturbs nobody's liveness.
fn large(stage: &mut MeshStage) {
    let bytes = if stage.nodes() > MANY {
        LARGE_BYTES / 10
    } else {
        LARGE_BYTES
    };
    let body: Arc<[u8]> = stage.world.random.bytes(bytes).into();
    let draft = VersionDraft {
        active: 1,
        ..VersionDraft::new(4, body)
    };
    publish(stage, &draft);
    valid_everywhere(stage, 4);
    publish(
        stage,
        &VersionDraft {
            stage: Step::Active,
            ..draft
        },
    );
    stage.run(1_000);
    in_force(stage, 4, "when it is active");
}

/// A header that claims a gigabyte, signed by whom the cluster trusts: nobody asks for more than
/// a body may have. And chunks that nobody asked for are dropped.
fn huge(stage: &mut MeshStage) {
    let authority = &stage.world.protocol.authority;
    let header = Header {
        bytes: 1 << 30,
        ..VersionDraft::new(5, vec![1; 10].into()).header(0)
    };
    let version = RecordVersion {
        incarnation: 1,
        number: 1_000_000,
    };
    let key = RecordKey::Document(RULES);
    let signer = authority.cluster_signer();
    let record = signed(authority.cluster, key, version, &header, signer);
    stage.record(0, Arc::new(record));
    let document = DocumentRef {
        id: RULES,
        version: 5,
    };
    for to in 1..stage.nodes() {
        let bytes = vec![0; 1_000].into();
        let chunk = DocumentFrame::Chunk {
            document,
            chunk: 0,
            bytes,
        };
        stage.send(0, to, MeshFrame::Document(chunk));
    }
    stage.run(5_000);
    let has = (0..stage.nodes()).find(|&node| {
        let disk = &stage.world.protocol.hosts[node].disk;
        disk.bodies.contains_key(&document)
    });
    stage.expect(has.is_none(), || {
        format!("n{has:?} has a body of a gigabyte")
    });
}

fn publish(stage: &mut MeshStage, draft: &VersionDraft) {
    stage
        .world
        .act(0, |nodes, now, out| nodes.publish(now, 0, draft, out));
}

/// The author hears that every node has checked a version and found it good.
fn valid_everywhere(stage: &mut MeshStage, version: u64) {
    let nodes = stage.nodes();
    stage.within(10_000, "a version being valid everywhere", |world| {
        let core = world.protocol.core(0);
        let view = core.and_then(|core| core.documents().find(|(id, _)| *id == RULES));
        view.is_some_and(|(_, view)| {
            view.header.version == version && count(&view.coverage.valid) == nodes
        })
    });
}

fn count(bitmap: &[u8]) -> usize {
    bitmap.iter().map(|byte| byte.count_ones() as usize).sum()
}

/// This version is in force on every node, by its disk.
fn in_force(stage: &mut MeshStage, version: u64, when: &str) {
    let awake: Vec<usize> = stage.world.awake().collect();
    for node in awake {
        let active = stage.world.protocol.hosts[node].disk.active.get(&RULES);
        let active = active.map_or(0, |document| document.version);
        stage.expect(active == version, || {
            format!("n{node} has {active} in force {when}")
        });
    }
}
