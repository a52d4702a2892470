//! What the mesh carries for its owner.

use super::super::handle::CARGO_MAX;
use super::*;
use crate::frame::CARGO_BYTES_MAX;

/// Two meshes that know each other.
async fn pair(cluster: &ClusterKeys) -> (Node, Node) {
    let (one, two) = (cluster.start(0, &[0, 1]), cluster.start(1, &[0, 1]));
    one.says("here").await;
    two.says("here").await;
    one.finds(&two).await;
    knows(&two, &one, "here").await;
    knows(&one, &two, "here").await;
    (one, two)
}

async fn receives(node: &mut Node) -> (MemberId, Arc<[u8]>) {
    let cargo = timeout(PATIENCE, node.cargo.recv()).await;
    cargo.expect("the cargo comes").expect("the mesh lives")
}

#[tokio::test]
async fn cargo_arrives_as_it_was_and_in_order() {
    let (mut one, mut two) = pair(&ClusterKeys::of(2)).await;
    let sizes = [0, 1, 100, CARGO_BYTES_MAX];
    let loads: Vec<Vec<u8>> = (0..40_u8)
        .zip(sizes.into_iter().cycle())
        .map(|(n, len)| vec![n; len])
        .collect();
    for load in &loads[..20] {
        one.handle.carry(two.id, load.clone());
        two.handle.carry(one.id, load.clone());
    }
    for load in &loads[..20] {
        assert!(receives(&mut two).await == (one.id, load[..].into()));
        assert!(receives(&mut one).await == (two.id, load[..].into()));
    }
    one.handle.carry(two.id, vec![0; CARGO_BYTES_MAX + 1]);
    assert_eq!(one.count(|c| &c.oversize_out), 1);
}

#[tokio::test]
async fn cargo_that_nobody_takes_is_dropped_and_the_mesh_goes_on() {
    let (one, mut two) = pair(&ClusterKeys::of(2)).await;
    let mut given = 0_u32;
    // As fast as it arrives, so that it is not this side that drops it.
    while given < 700 {
        let before = two.count(|c| &c.frames_in);
        for _ in 0..100 {
            one.handle.carry(two.id, given.to_le_bytes().into());
            given += 1;
        }
        let arrived = || async { two.count(|c| &c.frames_in) >= before + 100 };
        until("it arrives", arrived).await;
    }
    let too_many = u64::from(given) - CARGO_MAX as u64;
    let dropped = || async { two.count(|c| &c.cargo_dropped) == too_many };
    until("the rest is dropped", dropped).await;
    one.says("still here").await;
    knows(&two, &one, "still here").await;
    // What was in time is all there.
    for n in 0..CARGO_MAX {
        let (from, bytes) = receives(&mut two).await;
        assert_eq!(
            (from, &bytes[..]),
            (one.id, &u32::try_from(n).unwrap().to_le_bytes()[..])
        );
    }
    // There is room again.
    one.handle.carry(two.id, b"again".into());
    assert_eq!(*receives(&mut two).await.1, *b"again");
    assert_eq!(one.count(|c| &c.cargo_unsent), 0);
}

#[tokio::test]
async fn cargo_that_the_mesh_has_no_time_for_is_counted() {
    let cluster = ClusterKeys::of(2);
    let node = cluster.start(0, &[0, 1]);
    // The mesh's task has no turn meanwhile.
    for _ in 0..CARGO_MAX + 7 {
        node.handle.carry(MemberId(1), vec![1]);
    }
    assert_eq!(node.count(|c| &c.cargo_unsent), 7);
}

#[tokio::test]
async fn cargo_of_a_generation_that_is_over_is_not_handed_over() {
    let cluster = ClusterKeys::of(2);
    let members = [0, 1].map(|n| cluster.member(n, AdmissionState::Admitted));
    let recovered = members.iter().cloned().chain([cluster.record(2)]).collect();
    let mut node = cluster.start_with(0, recovered);
    let behind = cluster.start(1, &[0, 1]);
    behind.handle.carry(node.id, b"old".into());
    behind.finds(&node).await;
    let caught_up = || async {
        let look = |mesh: &Mesh| mesh.cluster().map(|cluster| cluster.generation);
        behind.handle.look(look).await.unwrap() == Some(2)
    };
    until("the new generation", caught_up).await;
    behind.handle.carry(node.id, b"new".into());
    assert_eq!(*receives(&mut node).await.1, *b"new");
}

#[tokio::test]
async fn cargo_of_one_that_is_no_member_any_more_is_dropped() {
    let cluster = ClusterKeys::of(2);
    let (one, mut two) = pair(&cluster).await;
    // The network hears of it when that is kept; the core knows it at once.
    two.disk.stopped.store(true, Ordering::SeqCst);
    let expelled = MeshInput::Record(cluster.member(0, AdmissionState::Expelled));
    two.handle.input(expelled).await.unwrap();
    one.handle.carry(two.id, b"too late".into());
    let dropped = || async { two.count(|c| &c.cargo_dropped) == 1 };
    until("it is dropped", dropped).await;
    assert!(two.cargo.try_recv().is_err());
}
