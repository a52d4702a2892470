use muster_gossip::member::MemberId;

use super::world::{Bench, creation, edit, init, whole_init};
use crate::cluster::{
    ClusterApplied, ClusterEntry, ClusterRejection, ClusterState, CopyHome, DESCRIPTION,
    DocumentEdit, VCS_MAX, VcCreation,
};

fn description(base: u64, creations: Vec<VcCreation>) -> DocumentEdit {
    DocumentEdit {
        id: DESCRIPTION,
        forced: true,
        creations,
        ..edit(base, 1)
    }
}

/// Names and groups, as every member is told them.
fn told(bench: &Bench) -> Vec<(String, u64)> {
    let cluster_map = bench.state.cluster_map().unwrap();
    let vcs = cluster_map.vcs.iter();
    vcs.map(|creation| (creation.vc.to_string(), creation.group))
        .collect()
}

#[test]
fn a_description_is_in_force_together_with_its_virtual_clusters() {
    let mut bench = Bench::new();
    assert_eq!(told(&bench), [("default".to_owned(), 9)]);
    let before = bench.state.map_version();
    let creations = vec![creation("prod", 11), creation("default", 13)];
    let applied = bench.edit(description(0, creations));
    let version = |version| {
        Ok(ClusterApplied::Document {
            id: DESCRIPTION,
            version,
        })
    };
    assert_eq!(applied, version(1));
    // Whoever was born first keeps its log.
    let both = [("default".to_owned(), 9), ("prod".to_owned(), 11)];
    assert_eq!(told(&bench), both);
    assert!(bench.state.map_version() > before);
    // A later one without it takes nothing away.
    assert_eq!(bench.edit(description(1, Vec::new())), version(2));
    assert_eq!(told(&bench), both);
}

#[test]
fn what_is_refused_bears_nothing() {
    let mut bench = Bench::new();
    let late = description(3, vec![creation("prod", 11)]);
    assert!(matches!(
        bench.edit(late),
        Err(ClusterRejection::Conflict { .. })
    ));
    let homeless = VcCreation {
        homes: Vec::new(),
        ..creation("prod", 11)
    };
    let at = |members: &[u32]| VcCreation {
        homes: members
            .iter()
            .map(|member| CopyHome {
                member: MemberId(*member),
                store: 1,
            })
            .collect(),
        ..creation("prod", 11)
    };
    for creations in [
        vec![homeless],
        vec![at(&[0, 0])],
        vec![at(&[0, 7])],
        vec![creation("prod", 9)],
        vec![creation("a", 11), creation("b", 11)],
    ] {
        let refused = bench.edit(description(0, creations));
        assert!(
            matches!(refused, Err(ClusterRejection::Creation(_))),
            "{refused:?}"
        );
    }
    let rules = DocumentEdit {
        creations: vec![creation("prod", 11)],
        ..edit(0, 1)
    };
    assert!(bench.edit(rules).is_ok());
    assert_eq!(told(&bench).len(), 1);
}

#[test]
fn a_virtual_cluster_goes_on_in_its_next_generation() {
    let mut bench = Bench::new();
    let next = |creation: VcCreation| ClusterEntry::Recovered(Box::new(creation));
    let second = VcCreation {
        generation: 2,
        before: vec![9],
        ..creation("default", 21)
    };
    let stranger = CopyHome {
        member: MemberId(7),
        store: 1,
    };
    let here = second.homes[0];
    for wrong in [
        VcCreation {
            group: 9,
            ..second.clone()
        },
        VcCreation {
            homes: vec![stranger],
            ..second.clone()
        },
        VcCreation {
            homes: vec![here, here],
            ..second.clone()
        },
    ] {
        let refused = bench.apply(&next(wrong.clone()));
        assert!(
            matches!(refused, Err(ClusterRejection::Creation(_))),
            "{wrong:?}"
        );
    }
    let prod = "prod".parse().unwrap();
    assert_eq!(
        bench.apply(&next(creation("prod", 21))),
        Err(ClusterRejection::NoVc(prod))
    );
    let before = bench.state.map_version();
    assert_eq!(
        bench.apply(&next(second.clone())),
        Ok(ClusterApplied::Recovered)
    );
    assert_eq!(told(&bench), [("default".to_owned(), 21)]);
    assert!(bench.state.map_version() > before);
    // Two admins at the same time: the second one looks again.
    let default = second.vc.clone();
    let late = VcCreation {
        group: 23,
        ..second.clone()
    };
    let refused = bench.apply(&next(late.clone()));
    assert_eq!(refused, Err(ClusterRejection::OtherGeneration(default, 2)));
    // The second one was never born: the third goes on from the first.
    let third = VcCreation {
        generation: 3,
        before: vec![9, 21],
        ..late
    };
    assert_eq!(bench.apply(&next(third)), Ok(ClusterApplied::Recovered));
    // A log that was given up is nobody else's.
    let refused = bench.edit(description(0, vec![creation("prod", 9)]));
    assert!(
        matches!(refused, Err(ClusterRejection::Creation(_))),
        "{refused:?}"
    );
}

#[test]
fn there_is_a_bound_for_names() {
    let mut bench = Bench::new();
    let named = |count: usize| {
        let creations = (1..=count).map(|nth| creation(&format!("v{nth}"), 2 * nth as u64 + 101));
        description(0, creations.collect())
    };
    assert_eq!(
        bench.edit(named(VCS_MAX)),
        Err(ClusterRejection::TooManyVcs(VCS_MAX + 1))
    );
    assert!(bench.edit(named(VCS_MAX - 1)).is_ok());
}

#[test]
fn a_founder_brings_all_that_it_had() {
    let mut state = ClusterState::default();
    let mut two = whole_init();
    two.vcs.push(creation("prod", 11));
    let whole = ClusterEntry::Init(Box::new(two.clone()));
    two.vcs.push(creation("late", 11));
    let twice = ClusterEntry::Init(Box::new(two));
    assert!(matches!(
        state.apply(1, &twice),
        Err(ClusterRejection::Creation(_))
    ));
    assert_eq!(state.apply(1, &whole), Ok(ClusterApplied::Cluster));
    assert_eq!(state.vcs().count(), 2);
    let restored = ClusterState::restore(&state.snapshot()).unwrap();
    assert!(restored.vcs().eq(state.vcs()));
    assert_eq!(state.apply(2, &init()), Err(ClusterRejection::Founded));
}
