use muster_gossip::member::MemberId;

use super::world::{Bench, birth, edit, init, whole_init};
use crate::cluster::{
    Applied, Birth, ClusterState, DESCRIPTION, Edit, Entry, Home, Rejected, VCS_MAX,
};

fn description(base: u64, births: Vec<Birth>) -> Edit {
    Edit {
        id: DESCRIPTION,
        forced: true,
        births,
        ..edit(base, 1)
    }
}

/// Names and groups, as every member is told them.
fn told(bench: &Bench) -> Vec<(String, u64)> {
    let briefing = bench.state.briefing().unwrap();
    let vcs = briefing.vcs.iter();
    vcs.map(|birth| (birth.vc.to_string(), birth.group))
        .collect()
}

#[test]
fn a_description_is_in_force_together_with_its_virtual_clusters() {
    let mut bench = Bench::new();
    assert_eq!(told(&bench), [("default".to_owned(), 9)]);
    let before = bench.state.briefed();
    let births = vec![birth("prod", 11), birth("default", 13)];
    let applied = bench.edit(description(0, births));
    let version = |version| {
        Ok(Applied::Document {
            id: DESCRIPTION,
            version,
        })
    };
    assert_eq!(applied, version(1));
    // Whoever was born first keeps its log.
    let both = [("default".to_owned(), 9), ("prod".to_owned(), 11)];
    assert_eq!(told(&bench), both);
    assert!(bench.state.briefed() > before);
    // A later one without it takes nothing away.
    assert_eq!(bench.edit(description(1, Vec::new())), version(2));
    assert_eq!(told(&bench), both);
}

#[test]
fn what_is_refused_bears_nothing() {
    let mut bench = Bench::new();
    let late = description(3, vec![birth("prod", 11)]);
    assert!(matches!(bench.edit(late), Err(Rejected::Conflict { .. })));
    let homeless = Birth {
        homes: Vec::new(),
        ..birth("prod", 11)
    };
    let at = |members: &[u32]| Birth {
        homes: members
            .iter()
            .map(|member| Home {
                member: MemberId(*member),
                store: 1,
            })
            .collect(),
        ..birth("prod", 11)
    };
    for births in [
        vec![homeless],
        vec![at(&[0, 0])],
        vec![at(&[0, 7])],
        vec![birth("prod", 9)],
        vec![birth("a", 11), birth("b", 11)],
    ] {
        let refused = bench.edit(description(0, births));
        assert!(matches!(refused, Err(Rejected::Birth(_))), "{refused:?}");
    }
    let rules = Edit {
        births: vec![birth("prod", 11)],
        ..edit(0, 1)
    };
    assert!(bench.edit(rules).is_ok());
    assert_eq!(told(&bench).len(), 1);
}

#[test]
fn a_virtual_cluster_goes_on_in_its_next_generation() {
    let mut bench = Bench::new();
    let next = |birth: Birth| Entry::Recovered(Box::new(birth));
    let second = Birth {
        generation: 2,
        before: vec![9],
        ..birth("default", 21)
    };
    let stranger = Home {
        member: MemberId(7),
        store: 1,
    };
    let here = second.homes[0];
    for wrong in [
        Birth {
            group: 9,
            ..second.clone()
        },
        Birth {
            homes: vec![stranger],
            ..second.clone()
        },
        Birth {
            homes: vec![here, here],
            ..second.clone()
        },
    ] {
        let refused = bench.apply(&next(wrong.clone()));
        assert!(matches!(refused, Err(Rejected::Birth(_))), "{wrong:?}");
    }
    let prod = "prod".parse().unwrap();
    assert_eq!(
        bench.apply(&next(birth("prod", 21))),
        Err(Rejected::NoVc(prod))
    );
    let before = bench.state.briefed();
    assert_eq!(bench.apply(&next(second.clone())), Ok(Applied::Recovered));
    assert_eq!(told(&bench), [("default".to_owned(), 21)]);
    assert!(bench.state.briefed() > before);
    // Two admins at the same time: the second one looks again.
    let default = second.vc.clone();
    let late = Birth {
        group: 23,
        ..second.clone()
    };
    let refused = bench.apply(&next(late.clone()));
    assert_eq!(refused, Err(Rejected::OtherGeneration(default, 2)));
    // The second one was never born: the third goes on from the first.
    let third = Birth {
        generation: 3,
        before: vec![9, 21],
        ..late
    };
    assert_eq!(bench.apply(&next(third)), Ok(Applied::Recovered));
    // A log that was given up is nobody else's.
    let refused = bench.edit(description(0, vec![birth("prod", 9)]));
    assert!(matches!(refused, Err(Rejected::Birth(_))), "{refused:?}");
}

#[test]
fn there_is_a_bound_for_names() {
    let mut bench = Bench::new();
    let named = |count: usize| {
        let births = (1..=count).map(|nth| birth(&format!("v{nth}"), 2 * nth as u64 + 101));
        description(0, births.collect())
    };
    assert_eq!(
        bench.edit(named(VCS_MAX)),
        Err(Rejected::TooManyVcs(VCS_MAX + 1))
    );
    assert!(bench.edit(named(VCS_MAX - 1)).is_ok());
}

#[test]
fn a_founder_brings_all_that_it_had() {
    let mut state = ClusterState::default();
    let mut two = whole_init();
    two.vcs.push(birth("prod", 11));
    let whole = Entry::Init(Box::new(two.clone()));
    two.vcs.push(birth("late", 11));
    let twice = Entry::Init(Box::new(two));
    assert!(matches!(state.apply(1, &twice), Err(Rejected::Birth(_))));
    assert_eq!(state.apply(1, &whole), Ok(Applied::Cluster));
    assert_eq!(state.vcs().count(), 2);
    let restored = ClusterState::restore(&state.snapshot()).unwrap();
    assert!(restored.vcs().eq(state.vcs()));
    assert_eq!(state.apply(2, &init()), Err(Rejected::Founded));
}
