//! The cluster goes on from a copy that missed what the lost ones did last.

use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::record::{AdmissionState, MemberBody, RecordKey};

use super::user_tokens::rotated;
use super::world::{
    Bench, DAY_MS, RULES, admission, body, creation, edit, issue_token, key, new_token, step,
    user_token,
};
use crate::bound::{BoundLeaves, Span};
use crate::cluster::{
    ActivationStep, AdminScheduling, Binding, ClusterApplied, ClusterEntry, ClusterRejection,
    ClusterState, DocumentEdit, Lineage, Replacement, SchedulingMode, Statement, StatementBody,
    UserToken, VcCreation, VersionStage,
};

/// What entries of the second generation count on from.
const SECOND: u64 = 1 << 32;

/// Another copy of the same log.
fn copy(of: &Bench) -> Bench {
    Bench {
        state: ClusterState::restore(&of.state.snapshot()).unwrap(),
        index: of.index,
    }
}

fn scheduled(member: u32, mode: SchedulingMode) -> ClusterEntry {
    ClusterEntry::Scheduled {
        member: MemberId(member),
        scheduling: AdminScheduling {
            mode,
            reason: "disks".parse().unwrap(),
            by: "alice".parse().unwrap(),
            at_ms: 5,
        },
    }
}

fn bound(cells: &[u32]) -> ClusterEntry {
    let node = "n1".parse().unwrap();
    let claims = cells
        .iter()
        .map(|leaf| BoundLeaves::of([(&node, *leaf)], 0));
    ClusterEntry::Bound {
        vc: "default".parse().unwrap(),
        binding: Box::new(Binding {
            claims: claims.collect(),
            ..Binding::default()
        }),
    }
}

/// What the mesh has heard of members.
fn heard(state: &ClusterState) -> Vec<(MemberId, MemberBody)> {
    let said = state.records().into_iter();
    said.filter_map(|statement| match (statement.key, statement.body) {
        (RecordKey::Member(id), StatementBody::Member(body)) => Some((id, body)),
        _ => None,
    })
    .collect()
}

/// What is known of all this where `told` was told last, in this generation.
fn replacement(generation: u32, told: &ClusterState) -> Replacement {
    Replacement {
        generation,
        members: heard(told),
        documents: Vec::new(),
        told: told.cluster_map().map(Box::new),
        at_ms: 77,
    }
}

fn succeed(
    bench: &mut Bench,
    replacement: Replacement,
) -> Result<ClusterApplied, ClusterRejection> {
    bench.apply(&ClusterEntry::Replacement(Box::new(replacement)))
}

/// A cluster of five, and a copy of its log that misses what follows: n5 and n6 are admitted, n1 is expelled,
/// n2 is drained and n3 open again, ada has logged in, and prod was recovered.
fn torn() -> (Bench, Bench) {
    let mut all = Bench::of(5);
    all.edit(edit(0, 7)).unwrap();
    all.apply(&scheduled(3, SchedulingMode::Cordoned)).unwrap();
    all.apply(&bound(&[0, 1])).unwrap();
    let late = copy(&all);
    all.admit(admission(200, 5)).unwrap();
    all.admit(admission(200, 6)).unwrap();
    all.expel(1).unwrap();
    all.apply(&scheduled(2, SchedulingMode::Draining { from_ms: 6 }))
        .unwrap();
    all.apply(&scheduled(3, SchedulingMode::Open)).unwrap();
    all.apply(&rotated(2)).unwrap();
    let token = UserToken {
        key: 2,
        ..user_token("t", None)
    };
    all.apply(&issue_token("ada", token, 0)).unwrap();
    let again = VcCreation {
        generation: 2,
        before: vec![9],
        ..creation("default", 11)
    };
    all.apply(&ClusterEntry::Recovered(Box::new(again)))
        .unwrap();
    (all, late)
}

#[test]
fn nothing_is_taken_before_it_knows_what_others_know() {
    let (all, mut late) = torn();
    late.index = SECOND;
    for entry in [
        ClusterEntry::Admitted(Box::new(admission(200, 8))),
        bound(&[7]),
        scheduled(2, SchedulingMode::Cordoned),
    ] {
        assert_eq!(late.apply(&entry), Err(ClusterRejection::Replacement));
    }
    for generation in [1, 3] {
        let other = replacement(generation, &all.state);
        assert_eq!(
            succeed(&mut late, other),
            Err(ClusterRejection::Succeeded(1))
        );
    }
    let first = replacement(2, &all.state);
    assert_eq!(
        succeed(&mut late, first.clone()),
        Ok(ClusterApplied::Replacement)
    );
    assert_eq!(late.state.cluster().unwrap().generation, 2);
    assert_eq!(
        succeed(&mut late, first),
        Err(ClusterRejection::Succeeded(2))
    );
    late.apply(&bound(&[7])).unwrap();
}

#[test]
fn what_others_have_heard_is_known_and_counts_on() {
    let (all, mut late) = torn();
    late.index = SECOND;
    succeed(&mut late, replacement(2, &all.state)).unwrap();
    assert_eq!(heard(&late.state), heard(&all.state));
    let vcs = |bench: &Bench| bench.state.vcs().cloned().collect::<Vec<_>>();
    assert_eq!(vcs(&late), vcs(&all));
    let told = |bench: &Bench| {
        let told = bench.state.cluster_map().unwrap();
        (told.closed, told.users, told.keys)
    };
    assert_eq!(told(&late), told(&all));
    let ada = "ada".parse().unwrap();
    let user = |bench: &Bench| bench.state.user(&ada).unwrap().clone();
    assert_eq!(user(&late), user(&all), "with the password");
    // Nobody gets a number, a name or a key a second time.
    late.token(new_token(3, 9)).unwrap();
    let next = late.admit(admission(3, 9)).unwrap();
    assert_eq!(next, ClusterApplied::Member(MemberId(7)));
    let twice = late.admit(admission(3, 5)).unwrap_err();
    assert!(
        matches!(twice, ClusterRejection::KeyAdmitted { .. }),
        "{twice}"
    );
}

#[test]
fn all_is_said_anew_and_counts_for_more_than_what_the_lost_ones_said() {
    let (mut all, mut late) = torn();
    for number in 0..9 {
        all.edit(edit(number + 1, 8)).unwrap();
    }
    late.index = SECOND;
    succeed(&mut late, replacement(2, &all.state)).unwrap();
    let is_over = |statement: &Statement| match &statement.body {
        StatementBody::Member(body) => body.state != AdmissionState::Admitted,
        StatementBody::Document(_) => false,
    };
    let newest = all.state.records().into_iter().map(|it| it.version).max();
    let said = late.state.records();
    let mut lasting = said.iter().filter(|it| !is_over(it));
    assert!(lasting.all(|it| Some(it.version) > newest), "{said:?}");
    assert!(late.state.map_version() > SECOND);
    assert_eq!(late.state.bound_at(), SECOND + 1);
}

/// Cells of n1 from the first to the last, in this epoch.
fn cells(first: u32, last: u32, epoch: u64) -> BoundLeaves {
    let mut bound = BoundLeaves::default();
    bound.add(&"n1".parse().unwrap(), Span { first, last, epoch });
    bound
}

/// A virtual cluster says what it has by its own log, and asks for more.
fn says(bench: &mut Bench, vc: &str, held: BoundLeaves, claim: Option<BoundLeaves>) {
    let binding = Box::new(Binding {
        claims: claim.into_iter().collect(),
        held: Some(held),
        ..Binding::default()
    });
    let vc = vc.parse().unwrap();
    bench.apply(&ClusterEntry::Bound { vc, binding }).unwrap();
}

fn has(bench: &Bench, vc: &str) -> BoundLeaves {
    let mut all = bench.state.bound();
    let found = all.find(|(name, _)| name.as_str() == vc);
    found.map(|(_, bound)| bound.clone()).unwrap_or_default()
}

/// The copy knows that `default` has cells 0 and 1 in epoch 9; `prod` is new to it.
fn two_vcs() -> Bench {
    let (all, mut late) = torn();
    late.index = SECOND;
    let mut known = replacement(2, &all.state);
    let told = known.told.as_mut().unwrap();
    told.vcs.push(creation("prod", 13));
    succeed(&mut late, known).unwrap();
    assert_eq!(has(&late, "default"), cells(0, 1, 9));
    late
}

#[test]
fn what_virtual_clusters_have_by_their_own_logs_counts_and_nothing_is_claimed_before() {
    let mut late = two_vcs();
    // It was bound to 2, gave 1 back, and has that written down.
    let mut held = cells(0, 0, 9);
    held.extend(&cells(2, 2, 20));
    says(&mut late, "default", held.clone(), Some(cells(7, 7, 0)));
    assert_eq!(has(&late, "default"), held, "nobody else was heard");
    assert_eq!(late.state.unheard().len(), 1);
    // The lost ones had bound 1 to this one, and 7 was nobody's when it asked.
    says(&mut late, "prod", cells(1, 1, 21), Some(cells(7, 7, 0)));
    let mut expected = cells(1, 1, late.index);
    expected.extend(&cells(7, 7, late.index));
    assert_eq!(has(&late, "prod"), expected);
    assert_eq!(has(&late, "default"), held.in_epoch(late.index));
    assert_eq!(late.state.bound_at(), late.index);
    // Nobody is asked twice.
    says(&mut late, "default", cells(0, 9, 99), None);
    assert_eq!(has(&late, "default"), held.in_epoch(late.index - 1));
}

#[test]
fn of_two_that_have_the_same_cell_the_one_has_it_that_was_bound_to_it_later() {
    for first in ["default", "prod"] {
        let mut late = two_vcs();
        let logs = [("default", cells(0, 1, 9)), ("prod", cells(1, 2, 21))];
        let (one, two) = logs
            .into_iter()
            .partition::<Vec<_>, _>(|(vc, _)| *vc == first);
        for (vc, held) in one.into_iter().chain(two) {
            says(&mut late, vc, held, None);
        }
        assert_eq!(
            has(&late, "default"),
            cells(0, 0, late.index),
            "{first} first"
        );
        assert_eq!(has(&late, "prod"), cells(1, 2, late.index), "{first} first");
    }
}

#[test]
fn who_says_nothing_holds_nobody_up_for_ever() {
    let mut late = two_vcs();
    says(&mut late, "prod", cells(5, 5, 21), None);
    late.apply(&bound(&[6])).unwrap();
    assert_eq!(has(&late, "default"), cells(0, 1, 9), "it waits");
    let vcs = late.state.unheard().clone();
    assert_eq!(
        late.apply(&ClusterEntry::Unheard { vcs }),
        Ok(ClusterApplied::Bound)
    );
    let raised = late.index;
    assert_eq!(has(&late, "default"), cells(0, 1, raised));
    assert_eq!(has(&late, "prod"), cells(5, 5, raised));
    // By now that is how it is, whatever its log says.
    says(&mut late, "default", cells(5, 5, 30), Some(cells(6, 6, 0)));
    let mut all = cells(0, 1, raised);
    all.extend(&cells(6, 6, late.index));
    assert_eq!(has(&late, "default"), all);
}

#[test]
fn a_document_that_is_behind_comes_into_force_after_all_that_were_heard_of() {
    let (all, mut late) = torn();
    late.index = SECOND;
    let known = replacement(2, &all.state);
    let behind = DocumentEdit {
        forced: true,
        ..edit(105, 8)
    };
    let documents = vec![behind];
    succeed(&mut late, Replacement { documents, ..known }).unwrap();
    let document = late.state.document(RULES).unwrap();
    assert_eq!((document.version(), document.active()), (200, 200));
    let newest = document.newest().unwrap();
    assert_eq!(
        (newest.body, newest.stage()),
        (body(8), &VersionStage::Active)
    );
    let early = late.edit(edit(1, 3)).unwrap_err();
    assert!(matches!(
        early,
        ClusterRejection::Conflict { current: 200, .. }
    ));
    late.edit(edit(200, 3)).unwrap();
}

/// Whoever comes back may have versions that nobody has heard of: they must not count for more.
#[test]
fn what_is_in_force_comes_into_force_once_more_in_a_version_that_nobody_has_made() {
    let mut bench = Bench::of(2);
    bench.edit(edit(0, 7)).unwrap();
    bench.apply(&stepped(1)).unwrap();
    bench.edit(edit(1, 8)).unwrap();
    bench.index = SECOND;
    let mut known = replacement(2, &bench.state);
    // Of one that is not behind nothing is to be taken.
    known.documents = vec![edit(1, 9)];
    succeed(&mut bench, known).unwrap();
    let document = bench.state.document(RULES).unwrap();
    assert_eq!((document.version(), document.active()), (100, 100));
    let newest = document.newest().unwrap();
    assert_eq!(
        (newest.body, newest.stage()),
        (body(7), &VersionStage::Active)
    );
    assert_eq!(newest.since_ms(), 77);
    assert_eq!(document.history().count(), 3, "what was made is remembered");
}

/// The version is in force.
fn stepped(version: u64) -> ClusterEntry {
    let step = ActivationStep {
        forced: true,
        ..step(version, VersionStage::Active)
    };
    ClusterEntry::DocumentStep(Box::new(step))
}

#[test]
fn of_somebody_unheard_of_the_number_alone_is_kept() {
    let (all, mut late) = torn();
    late.index = SECOND;
    let mut known = replacement(2, &all.state);
    known.members.retain(|(id, _)| *id != MemberId(5));
    // What was told before n3 was closed is no news.
    known.told = Bench::of(5).state.cluster_map().map(Box::new);
    succeed(&mut late, known).unwrap();
    let unheard = late.state.member(MemberId(5)).unwrap();
    assert_eq!(
        (unheard.state, unheard.key),
        (AdmissionState::Left, NodeKey([0; 32]))
    );
    assert_eq!(late.state.member_by_key(&key(6)), Some(MemberId(6)));
    assert_eq!(
        late.state.member_by_name(&"n6".parse().unwrap()),
        Some(MemberId(6))
    );
    let vcs: Vec<_> = late
        .state
        .vcs()
        .map(|creation| creation.generation)
        .collect();
    assert_eq!(vcs, [1]);
    let closed = late.state.cluster_map().unwrap().closed;
    assert!(closed.contains_key(&"n3".parse().unwrap()));
    // By a new token it may come again.
    late.token(new_token(3, 9)).unwrap();
    assert_eq!(
        late.admit(admission(3, 5)).unwrap(),
        ClusterApplied::Member(MemberId(7))
    );
}

#[test]
fn who_was_expelled_stays_so_and_a_token_of_later_lets_it_in() {
    let mut all = Bench::of(3);
    all.expel(1).unwrap();
    let after = super::world::new_token(4, 5);
    all.token(after).unwrap();
    let mut late = copy(&all);
    late.index = SECOND;
    succeed(&mut late, replacement(2, &all.state)).unwrap();
    assert_eq!(
        late.admit(admission(200, 1)),
        Err(ClusterRejection::Expelled)
    );
    assert!(late.admit(admission(4, 1)).is_ok(), "within {DAY_MS} ms");
}

#[test]
fn the_lineage_is_what_the_mesh_was_told() {
    let cluster = muster_gossip::ClusterId([0xee; 16]);
    let first = Lineage::of_cluster(cluster, None);
    assert_eq!((first.generation, first.begins_after()), (1, 0));
    assert_eq!(first.said(), None);
    let second = Lineage {
        group: 40,
        generation: 2,
        homes: creation("x", 1).homes,
        before: first.groups(),
    };
    assert_eq!(second.begins_after(), SECOND);
    let said = second.said().unwrap();
    assert_eq!(Lineage::of_cluster(cluster, Some(&said)), second);
}
