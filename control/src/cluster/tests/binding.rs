use super::world::{Bench, creation, init, whole_init};
use crate::bound::{BoundLeaves, Span};
use crate::cluster::{Binding, ClusterApplied, ClusterEntry, ClusterInit, ClusterRejection};

fn cell(node: &str, first: u32, last: u32) -> BoundLeaves {
    at(node, first, last, 0)
}

fn at(node: &str, first: u32, last: u32, epoch: u64) -> BoundLeaves {
    let mut bound = BoundLeaves::default();
    bound.add(&node.parse().unwrap(), Span { first, last, epoch });
    bound
}

/// A cluster with two virtual clusters.
fn shared() -> Bench {
    let mut bench = Bench::new();
    bench.state = crate::cluster::ClusterState::default();
    let vcs = vec![creation("default", 9), creation("prod", 11)];
    let init = ClusterInit {
        vcs,
        ..whole_init()
    };
    bench.apply(&ClusterEntry::Init(Box::new(init))).unwrap();
    bench
}

fn bind(
    bench: &mut Bench,
    vc: &str,
    claims: &[BoundLeaves],
    released: BoundLeaves,
) -> Result<ClusterApplied, ClusterRejection> {
    let binding = Box::new(Binding {
        claims: claims.to_vec(),
        released,
        waits: None,
        held: None,
    });
    let vc = vc.parse().unwrap();
    bench.apply(&ClusterEntry::Bound { vc, binding })
}

fn has(bench: &Bench, vc: &str) -> BoundLeaves {
    let mut all = bench.state.bound();
    let found = all.find(|(name, _)| name.as_str() == vc);
    found.map(|(_, bound)| bound.clone()).unwrap_or_default()
}

#[test]
fn a_cell_is_bound_as_a_whole_and_to_one_alone() {
    let mut bench = shared();
    let none = BoundLeaves::default;
    let mine = [cell("n1", 0, 3), cell("n2", 0, 1)];
    assert_eq!(
        bind(&mut bench, "default", &mine, none()),
        Ok(ClusterApplied::Bound)
    );
    let epoch = bench.index;
    assert_eq!(bench.state.bound_at(), epoch);
    let theirs = [cell("n1", 3, 4), cell("n2", 2, 3)];
    bind(&mut bench, "prod", &theirs, none()).unwrap();
    assert_eq!(has(&bench, "prod"), at("n2", 2, 3, epoch + 1));
    // Asked for again, it has its first epoch still.
    bind(&mut bench, "default", &mine, none()).unwrap();
    assert_eq!(bench.state.bound_at(), epoch + 1);
    assert_eq!(
        has(&bench, "default").epoch_of(&"n1".parse().unwrap(), 0),
        Some(epoch)
    );
}

#[test]
fn what_is_given_back_can_be_bound_again_and_an_old_word_takes_nothing() {
    let mut bench = shared();
    let none = BoundLeaves::default;
    bind(&mut bench, "default", &[cell("n1", 0, 3)], none()).unwrap();
    let first = has(&bench, "default");
    // Nobody takes back what is not his to give.
    bind(&mut bench, "prod", &[], first.clone()).unwrap();
    assert_eq!(has(&bench, "default"), first);
    bind(&mut bench, "default", &[], first.clone()).unwrap();
    assert!(has(&bench, "default").is_empty());
    bind(&mut bench, "prod", &[cell("n1", 0, 1)], none()).unwrap();
    bind(&mut bench, "default", &[cell("n1", 2, 3)], none()).unwrap();
    let later = has(&bench, "default");
    assert_eq!(later, at("n1", 2, 3, bench.index));
    // The same word once more.
    bind(&mut bench, "default", &[], first).unwrap();
    assert_eq!(has(&bench, "default"), later);
    // Given back and asked for in one: it has another epoch then.
    bind(&mut bench, "default", &[cell("n1", 2, 3)], later.clone()).unwrap();
    assert_eq!(has(&bench, "default"), later.in_epoch(bench.index));
}

#[test]
fn who_waits_for_cells_is_known_to_all() {
    let mut bench = shared();
    let waits = |vc: &str, waits| ClusterEntry::Bound {
        vc: vc.parse().unwrap(),
        binding: Box::new(Binding {
            waits: Some(waits),
            ..Binding::default()
        }),
    };
    bench.apply(&waits("prod", true)).unwrap();
    let index = bench.index;
    bench.apply(&waits("prod", true)).unwrap();
    assert_eq!(bench.state.bound_at(), index, "no news");
    bind(
        &mut bench,
        "prod",
        &[cell("n1", 0, 3)],
        BoundLeaves::default(),
    )
    .unwrap();
    assert_eq!(*bench.state.waiting(), ["prod".parse().unwrap()].into());
    bench.apply(&waits("prod", false)).unwrap();
    assert!(bench.state.waiting().is_empty());
    assert_eq!(bench.state.bound_at(), bench.index);
}

#[test]
fn nobody_else_and_nothing_odd_is_bound() {
    let mut bench = shared();
    let none = BoundLeaves::default;
    let unknown = bind(&mut bench, "x", &[cell("n1", 0, 0)], none());
    assert!(matches!(unknown, Err(ClusterRejection::NoVc(_))));
    let odd: BoundLeaves = postcard::from_bytes(&[1, 2, b'n', b'1', 1, 3, 1, 0]).unwrap();
    assert!(odd.problem().is_some());
    let refused = bind(&mut bench, "prod", std::slice::from_ref(&odd), none());
    assert!(matches!(refused, Err(ClusterRejection::Binding(_))));
    let refused = bind(&mut bench, "prod", &[], odd);
    assert!(matches!(refused, Err(ClusterRejection::Binding(_))));
    let mut nobody = Bench::new();
    nobody.state = crate::cluster::ClusterState::default();
    let refused = bind(&mut nobody, "default", &[], none());
    assert_eq!(refused, Err(ClusterRejection::NotFounded));
    nobody.apply(&init()).unwrap();
    assert_eq!(nobody.state.bound_at(), 0);
}
