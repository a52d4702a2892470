//! Each rule by itself; the histories put them together.

mod bench;
mod histories;

use muster_gossip::mesh::Reach;

use super::CopyChange::{self, Add, Demote, Promote, Remove};
use super::{Condition, GONE_MS, STEADY_MS, first};
use bench::{Bench, id};

fn adds(bench: &Bench) -> usize {
    let changes = bench.changes();
    assert!(changes.iter().all(|change| matches!(change, Add(_))));
    changes.len()
}

fn none() -> Vec<CopyChange> {
    Vec::new()
}

#[test]
fn so_many_voters_for_so_many_members() {
    let cases = [
        (1, 5, 1),
        (2, 5, 1),
        (3, 5, 3),
        (4, 5, 3),
        (5, 5, 5),
        (6, 5, 5),
        (9, 3, 3),
    ];
    for (members, max, voters) in cases.into_iter().chain([(9, 4, 3), (9, 1, 1), (2, 0, 1)]) {
        let mut bench = Bench::of(members).voters(&[0]);
        bench.wanted.voters_max = max;
        bench.settle();
        assert_eq!(
            bench.voting().len(),
            voters,
            "{members} members, at most {max}"
        );
        let learners = usize::from(voters == 1 && members > 1);
        assert_eq!(bench.copies.len(), voters + learners, "{members} members");
    }
}

#[test]
fn learners_are_promoted_together_so_that_the_number_is_odd() {
    let mut bench = Bench::of(3).voters(&[0]);
    assert_eq!(adds(&bench), 2);
    bench.make();
    assert_eq!(bench.changes(), none(), "they learn");
    bench.copy(1).condition = Condition::CaughtUp;
    assert_eq!(bench.changes(), none(), "two voters bear no more than one");
    bench.copy(2).condition = Condition::CaughtUp;
    bench.down(1, 0);
    assert_eq!(bench.changes(), none(), "never one that cannot be reached");
    bench.up(1);
    assert_eq!(bench.changes(), [Promote(id(1)), Promote(id(2))]);
}

#[test]
fn an_even_number_is_made_odd_by_one() {
    let bench = Bench::of(6).voters(&[0, 1]).learners(&[2, 3]);
    assert_eq!(bench.changes().len(), 1, "{:?}", bench.changes());
    assert!(matches!(bench.changes()[0], Promote(_)));
}

#[test]
fn who_may_not_vote_counts_for_nothing_and_gets_nothing() {
    let mut bench = Bench::of(5).voters(&[0]);
    for number in [1, 2, 3] {
        bench.node(number).votes = false;
    }
    assert_eq!(bench.changes(), [Add(id(4))]);
    bench.make();
    bench.learn();
    assert_eq!(bench.changes(), none());
}

#[test]
fn without_a_known_store_nobody_gets_a_copy() {
    let mut bench = Bench::of(3).voters(&[0]);
    bench.node(1).has_store = false;
    assert_eq!(bench.changes(), [Add(id(2))]);
    bench.make();
    bench.learn();
    assert_eq!(
        bench.changes(),
        none(),
        "it counts, so two seats are waited for"
    );
    bench.node(1).has_store = true;
    assert_eq!(bench.changes(), [Add(id(1))]);
}

#[test]
fn a_cluster_that_shrinks_has_fewer_voters() {
    let mut bench = Bench::of(5).voters(&[0, 1, 2, 3, 4]);
    bench.leave(4);
    let changes = bench.changes();
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(changes.contains(&Remove(id(4))) && !changes.contains(&Remove(id(0))));
    let mut bench = Bench::of(3).voters(&[0, 1, 2]);
    bench.leave(1);
    assert_eq!(bench.changes(), [Demote(id(2)), Remove(id(1))]);
    bench.make();
    bench.leave(2);
    assert_eq!(bench.changes(), [Remove(id(2))]);
}

#[test]
fn of_healthy_voters_those_stay_that_stand_apart() {
    for group in 0..20 {
        let mut bench = Bench::of(5).voters(&[0, 1, 2, 3, 4]);
        bench.wanted.group = group;
        for (number, rack) in [(0, "a"), (1, "a"), (2, "a"), (3, "b")] {
            bench.rack(number, rack);
        }
        bench.leave(4);
        bench.make();
        assert_eq!(bench.voting().len(), 3);
        assert_eq!(bench.racks().len(), 2, "{:?}", bench.voting());
    }
}

#[test]
fn mere_unreachability_never_shrinks_a_group() {
    let mut bench = Bench::of(5).voters(&[0, 1, 2, 3, 4]);
    bench.down(3, STEADY_MS);
    bench.down(4, STEADY_MS);
    assert_eq!(bench.changes(), none());
    let mut bench = Bench::of(3).voters(&[0, 1, 2]);
    bench.down(1, STEADY_MS);
    bench.down(2, STEADY_MS);
    assert_eq!(bench.changes(), none());
}

#[test]
fn a_voter_that_is_gone_is_replaced_in_one_change() {
    let mut bench = Bench::of(4).voters(&[0, 1, 2]);
    bench.down(2, GONE_MS - 1);
    assert_eq!(bench.changes(), none(), "it may come back");
    bench.down(2, GONE_MS);
    assert_eq!(bench.changes(), [Add(id(3))]);
    bench.make();
    assert_eq!(bench.changes(), none());
    bench.learn();
    assert_eq!(bench.changes(), [Promote(id(3)), Remove(id(2))]);
    bench.make();
    bench.up(2);
    assert_eq!(bench.changes(), none(), "nobody goes back");
}

#[test]
fn who_comes_back_in_time_keeps_its_seat() {
    let mut bench = Bench::of(4).voters(&[0, 1, 2]);
    bench.down(2, GONE_MS);
    bench.make();
    bench.up(2);
    assert_eq!(bench.changes(), [Remove(id(3))]);
}

#[test]
fn growth_does_not_cost_a_seat_and_the_dead_go_first() {
    let mut bench = Bench::of(6).voters(&[0, 1, 2]).learners(&[3, 4]);
    bench.down(2, GONE_MS);
    assert_eq!(bench.changes(), [Promote(id(3)), Promote(id(4))]);
    let mut bench = Bench::of(6).voters(&[0, 1, 2]).learners(&[3]);
    bench.down(2, GONE_MS);
    assert_eq!(bench.changes(), [Promote(id(3)), Remove(id(2))]);
    let mut bench = Bench::of(5).voters(&[0, 1, 2, 3, 4]);
    bench.down(2, GONE_MS);
    bench.leave(4);
    assert_eq!(bench.changes(), [Remove(id(2)), Remove(id(4))]);
}

#[test]
fn a_copy_of_a_member_no_more_waits_for_its_replacement() {
    let mut bench = Bench::of(5).voters(&[0, 1, 2]);
    bench.leave(1);
    assert_eq!(adds(&bench), 1);
    bench.make();
    assert_eq!(bench.changes(), none());
    bench.learn();
    let changes = bench.changes();
    assert!(
        matches!(changes[..], [Promote(_), Remove(out)] if out == id(1)),
        "{changes:?}"
    );
}

#[test]
fn it_does_not_wait_for_nobody_nor_where_it_does_harm() {
    let mut bench = Bench::of(4).voters(&[0, 1, 2]);
    bench.down(3, 0);
    bench.leave(1);
    assert_eq!(bench.changes(), [Remove(id(1))], "nobody comes");
    let mut bench = Bench::of(8).voters(&[0, 1, 2, 3, 4]);
    bench.leave(3);
    bench.leave(4);
    assert_eq!(
        bench.changes(),
        [Remove(id(3)), Remove(id(4))],
        "three bear one failure more"
    );
}

#[test]
fn a_learner_of_a_member_no_more_goes() {
    let mut bench = Bench::of(3).voters(&[0]).learners(&[1]);
    bench.leave(1);
    assert_eq!(bench.changes(), [Add(id(2)), Remove(id(1))]);
}

#[test]
fn a_lost_copy_is_replaced_and_its_member_may_get_another() {
    let mut bench = Bench::of(3).voters(&[0, 1, 2]);
    bench.copy(2).condition = Condition::Lost;
    assert_eq!(bench.changes(), [Remove(id(2))]);
    bench.make();
    assert_eq!(bench.changes(), [Add(id(2))]);
    let mut bench = Bench::of(4).voters(&[0, 1, 2]);
    bench.copy(2).condition = Condition::Lost;
    assert_eq!(bench.changes(), [Add(id(3))]);
}

#[test]
fn a_learner_that_is_gone_is_replaced_if_there_is_another() {
    let mut bench = Bench::of(4).voters(&[0]).learners(&[1, 2]);
    bench.copy(1).condition = Condition::Behind;
    bench.down(1, GONE_MS - 1);
    assert_eq!(bench.changes(), none());
    bench.down(1, GONE_MS);
    assert_eq!(bench.changes(), [Add(id(3)), Remove(id(1))]);
    let mut bench = Bench::of(2).voters(&[0]).learners(&[1]);
    bench.down(1, STEADY_MS);
    assert_eq!(bench.changes(), none(), "it may be the last copy");
}

#[test]
fn the_last_voter_goes_when_another_has_its_seat() {
    let mut bench = Bench::of(3).voters(&[0]);
    bench.leave(0);
    assert_eq!(adds(&bench), 2, "one for the seat, one beside");
    bench.make();
    assert_eq!(bench.changes(), none());
    bench.learn();
    let changes = bench.changes();
    assert!(
        matches!(changes[..], [Promote(_), Remove(out)] if out == id(0)),
        "{changes:?}"
    );
    let mut bench = Bench::of(1).voters(&[0]);
    bench.leave(0);
    assert_eq!(bench.changes(), none(), "nobody else is there");
    let mut bench = Bench::of(2).voters(&[0]);
    bench.leave(0);
    bench.down(1, STEADY_MS);
    assert_eq!(bench.changes(), none(), "or can be reached");
}

#[test]
fn the_leader_keeps_its_seat_if_another_can_go() {
    for group in 0..20 {
        let mut bench = Bench::of(5).voters(&[4, 0, 1, 2, 3]);
        bench.wanted.group = group;
        bench.down(4, GONE_MS);
        assert_eq!(bench.changes(), none(), "who leads is heard");
        bench.leave(3);
        let changes = bench.changes();
        assert_eq!(changes.len(), 2);
        assert!(!changes.contains(&Remove(id(4))), "{changes:?}");
    }
}

#[test]
fn candidates_are_chosen_by_reach_then_rack_then_lot() {
    let mut bench = Bench::of(6).voters(&[0, 1, 2]);
    for (number, rack) in [(0, "a"), (1, "b"), (3, "a"), (4, "c"), (5, "d")] {
        bench.rack(number, rack);
    }
    bench.wanted.voters_max = 3;
    bench.down(2, GONE_MS);
    bench.down(5, 0);
    assert_eq!(bench.changes(), [Add(id(4))], "an empty rack");
    bench.node(4).reach = Reach::Suspect;
    assert_eq!(bench.changes(), [Add(id(3))], "a suspect comes last");
    bench.down(3, 0);
    assert_eq!(bench.changes(), [Add(id(4))], "but before nobody");
    bench.down(4, 0);
    assert_eq!(bench.changes(), none());
}

#[test]
fn groups_spread_over_the_members() {
    let chosen = |group| {
        let mut bench = Bench::of(20).voters(&[0]);
        bench.wanted.group = group;
        bench.changes()
    };
    assert_eq!(chosen(1), chosen(1));
    let mut all: Vec<u32> = (0..50)
        .flat_map(chosen)
        .map(|change| match change {
            Add(id) => id.0,
            other => panic!("{other:?}"),
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 15, "{all:?}");
}

#[test]
fn a_healthy_voter_moves_only_to_a_better_rack_and_a_steady_member() {
    let mut bench = Bench::of(4).voters(&[0, 1, 2]);
    for (number, rack) in [(0, "a"), (1, "a"), (2, "b"), (3, "b")] {
        bench.rack(number, rack);
    }
    assert_eq!(bench.changes(), none(), "no better");
    bench.rack(3, "c");
    bench.node(3).since_ms = STEADY_MS - 1;
    assert_eq!(bench.changes(), none(), "too young");
    bench.node(3).since_ms = STEADY_MS;
    bench.wanted.voters_max = 3;
    bench.join(4);
    bench.rack(4, "c");
    bench.node(4).since_ms = STEADY_MS - 1;
    for group in 0..20 {
        bench.wanted.group = group;
        assert_eq!(bench.changes(), [Add(id(3))], "not the younger one");
    }
    bench.leave(4);
    assert_eq!(bench.changes(), [Add(id(3))]);
    bench.make();
    assert_eq!(bench.changes(), none());
    bench.learn();
    assert_eq!(
        bench.changes(),
        [Promote(id(3)), Remove(id(1))],
        "not the leader"
    );
    bench.make();
    assert_eq!(bench.changes(), none());
}

#[test]
fn a_move_that_is_of_no_use_any_more_is_given_up() {
    let mut bench = Bench::of(4).voters(&[0, 1, 2]);
    for (number, rack) in [(0, "a"), (1, "a"), (2, "b"), (3, "c")] {
        bench.rack(number, rack);
    }
    bench.make();
    bench.learn();
    bench.node(3).reach = Reach::Suspect;
    assert_eq!(bench.changes(), [Remove(id(3))]);
    bench.node(3).reach = Reach::Alive;
    bench.down(2, GONE_MS);
    assert_eq!(
        bench.changes(),
        [Promote(id(3)), Remove(id(2))],
        "repair goes first"
    );
}

#[test]
fn a_drained_voter_goes_where_another_can_take_its_seat() {
    let mut bench = Bench::of(4).voters(&[0, 1, 2]);
    bench.node(3).since_ms = 0;
    bench.node(1).is_drained = true;
    assert_eq!(bench.changes(), [Add(id(3))], "at once");
    bench.make();
    assert_eq!(bench.changes(), none());
    bench.learn();
    let learnt = bench.clone();
    assert_eq!(bench.changes(), [Promote(id(3)), Remove(id(1))]);
    bench.make();
    assert_eq!(bench.changes(), none());
    bench.node(1).is_drained = false;
    assert_eq!(bench.changes(), none(), "it need not come back");
    // Whoever leads goes too.
    bench.node(0).is_drained = true;
    assert_eq!(bench.changes(), [Add(id(1))]);
    bench.make();
    bench.learn();
    assert_eq!(bench.changes(), [Promote(id(1)), Remove(id(0))]);
    // The admin has thought better of it.
    let mut bench = learnt;
    bench.node(1).is_drained = false;
    assert_eq!(bench.changes(), [Remove(id(3))]);
}

#[test]
fn a_drained_voter_stays_where_nobody_else_can_have_its_seat() {
    let mut bench = Bench::of(3).voters(&[0, 1, 2]);
    bench.wanted.voters_max = 3;
    bench.node(1).is_drained = true;
    assert_eq!(bench.changes(), none());
    bench.join(3);
    bench.node(3).is_drained = true;
    assert_eq!(bench.changes(), none(), "the other one is to go as well");
    bench.join(4);
    bench.node(4).votes = false;
    bench.join(5);
    bench.down(5, 0);
    assert_eq!(bench.changes(), none());
    // Better a copy that may be gone soon than none.
    bench.down(2, GONE_MS);
    assert_eq!(bench.changes(), [Add(id(3))]);
    assert!(first(&bench.wanted, &bench.nodes).contains(&id(1)));
}

#[test]
fn unknown_racks_are_shared_with_nobody() {
    let mut bench = Bench::of(9).voters(&[0, 1, 2, 3, 4]);
    bench.rack(8, "a");
    assert_eq!(bench.changes(), none());
}

#[test]
fn a_group_is_born_on_an_odd_number_that_can_be_reached_of_all_racks() {
    for (members, count) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)] {
        let bench = Bench::of(members);
        assert_eq!(first(&bench.wanted, &bench.nodes).len(), count, "{members}");
    }
    let mut bench = Bench::of(6);
    for (number, rack) in [(0, "a"), (1, "a"), (2, "a"), (3, "b"), (4, "c")] {
        bench.nodes[number].rack = rack.parse().unwrap();
    }
    bench.wanted.voters_max = 3;
    let mut racks: Vec<_> = first(&bench.wanted, &bench.nodes)
        .into_iter()
        .map(|member| bench.nodes[member.index()].rack.to_string())
        .collect();
    racks.sort_unstable();
    racks.dedup();
    assert_eq!(racks.len(), 3, "{racks:?}");
    // One that is away, one without a disk of which anybody knows, and one that may not vote.
    bench.down(0, 0);
    bench.nodes[1].has_store = false;
    bench.nodes[2].votes = false;
    bench.nodes[5].votes = false;
    assert_eq!(first(&bench.wanted, &bench.nodes).len(), 1);
}

/// So many members of which the first ones vote in the cluster group.
fn beside_cluster_group(members: u32, group_hosts: u32) -> Bench {
    let mut bench = Bench::of(members);
    bench.wanted.apart = true;
    for number in 0..group_hosts {
        bench.node(number).votes_in_cluster_group = true;
    }
    bench
}

#[test]
fn a_group_moves_away_from_who_votes_in_the_cluster_group() {
    for leader in [0, 7] {
        let mut bench = beside_cluster_group(10, 5).voters(&[leader, 1, 2, 3, 4]);
        bench.settle();
        // Whoever leads stays.
        let shared = bench.voting().into_iter().filter(|member| member.0 < 5);
        assert_eq!(shared.count(), usize::from(leader == 0), "{leader} leads");
    }
}

#[test]
fn racks_come_before_keeping_apart() {
    let mut bench = beside_cluster_group(6, 3).voters(&[3, 0, 1]);
    bench.wanted.voters_max = 3;
    for (number, rack) in [(0, "a"), (1, "b"), (2, "c"), (3, "c"), (4, "c"), (5, "a")] {
        bench.rack(number, rack);
    }
    bench.settle();
    let mut voting: Vec<_> = bench.voting().into_iter().map(|member| member.0).collect();
    voting.sort_unstable();
    assert_eq!(voting, [1, 3, 5], "b has nobody else");
}

#[test]
fn the_clusters_own_group_does_not_keep_apart_from_itself() {
    let mut bench = beside_cluster_group(10, 5).voters(&[0, 1, 2, 3, 4]);
    bench.wanted.apart = false;
    assert_eq!(bench.changes(), none());
}
