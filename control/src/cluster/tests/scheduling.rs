use muster_gossip::member::MemberId;

use super::world::Bench;
use crate::cluster::{
    AdminScheduling, ClusterApplied, ClusterEntry, ClusterRejection, ClusterState, SchedulingMode,
};

fn word(number: u32, mode: SchedulingMode) -> ClusterEntry {
    ClusterEntry::Scheduled {
        member: MemberId(number),
        scheduling: AdminScheduling {
            mode,
            reason: "new fans".parse().unwrap(),
            by: "ada".parse().unwrap(),
            at_ms: 7,
        },
    }
}

fn closed(state: &ClusterState) -> Vec<(String, SchedulingMode)> {
    let closed = state.cluster_map().unwrap().closed.into_iter();
    closed
        .map(|(node, word)| (node.to_string(), word.mode))
        .collect()
}

#[test]
fn an_admins_word_holds_until_the_next_and_all_members_hear_it() {
    let mut bench = Bench::of(3);
    let draining = SchedulingMode::Draining { from_ms: 9 };
    for (number, mode) in [(1, SchedulingMode::Cordoned), (2, draining)] {
        let applied = bench.apply(&word(number, mode));
        assert_eq!(applied, Ok(ClusterApplied::Scheduled(MemberId(number))));
        assert_eq!(bench.state.map_version(), bench.index);
    }
    let both = vec![
        ("n1".to_owned(), SchedulingMode::Cordoned),
        ("n2".to_owned(), draining),
    ];
    assert_eq!(closed(&bench.state), both);
    let restored = ClusterState::restore(&bench.state.snapshot()).unwrap();
    assert_eq!(closed(&restored), both);
    bench.apply(&word(1, SchedulingMode::Open)).unwrap();
    assert_eq!(closed(&bench.state), both[1..]);
    let member = bench.state.member(MemberId(1)).unwrap();
    let last = member.scheduling.as_ref().unwrap();
    assert_eq!(last.reason.as_str(), "new fans", "who opened it, and why");
}

#[test]
fn a_word_on_a_member_ends_with_its_membership() {
    let mut bench = Bench::of(3);
    bench.apply(&word(1, SchedulingMode::Cordoned)).unwrap();
    bench.leave(1).unwrap();
    assert_eq!(closed(&bench.state), []);
    assert_eq!(
        bench.state.map_version(),
        bench.index,
        "and all members hear that"
    );
    let gone = Err(ClusterRejection::NoMember(MemberId(1)));
    assert_eq!(bench.apply(&word(1, SchedulingMode::Open)), gone);
    let nobody = Err(ClusterRejection::NoMember(MemberId(99)));
    assert_eq!(bench.apply(&word(99, SchedulingMode::Cordoned)), nobody);
    let before = bench.state.map_version();
    bench.leave(2).unwrap();
    assert_eq!(
        bench.state.map_version(),
        before,
        "of the others nothing changed"
    );
}
