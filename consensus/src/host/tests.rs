//! What a host does with its groups, rule by rule.

mod bench;
mod states;

use bench::{Bench, GROUP, home, homes, host};

use super::*;
use crate::machine::journal::Journal;
use crate::membership::ReplicaChange;
use crate::wire::frames;

#[test]
fn a_single_node_commits_what_is_durable_and_nothing_else() {
    let mut bench = Bench::new(1);
    bench.bear(GROUP, 1);
    assert_eq!(
        bench.leader(GROUP),
        Some(NodeId(1)),
        "nobody else can object"
    );
    bench.fast = false;
    bench.propose(NodeId(1), 1, "a");
    assert!(!bench.accepted(1));
    bench.propose(NodeId(1), 2, "b");
    let [(_, write)] = &bench.writes[..] else {
        panic!("the second waits for the first: {:?}", bench.writes);
    };
    let number = write.number;
    bench.give(1, HostInput::Written(number));
    assert!(bench.accepted(1) && !bench.accepted(2));
    bench.give(1, HostInput::Written(number + 1));
    assert!(bench.accepted(2));
    assert_eq!(bench.journal(1), ["a", "b"]);
}

#[test]
fn entries_that_come_while_one_is_under_way_go_together() {
    let (mut bench, leader) = Bench::led(3);
    bench.fast = false;
    bench.propose(leader, 1, "1");
    bench.frames.clear();
    for ticket in 2..=30 {
        bench.propose(leader, ticket, &ticket.to_string());
    }
    assert_eq!(bench.frames, [], "nobody is told yet");
    bench.fast = true;
    for (node, write) in std::mem::take(&mut bench.writes) {
        bench.give(node.0, HostInput::Written(write.number));
    }
    assert!((1..=30).all(|ticket| bench.accepted(ticket)));
    let all: Vec<String> = (1..=30).map(|number| number.to_string()).collect();
    assert_eq!(bench.journal(leader.0), all);
    // To each of two what is held, and twice what is committed.
    let told = bench.frames.iter().filter(|(from, _)| *from == leader);
    assert!(told.count() <= 6, "{:?}", bench.frames);
}

#[test]
fn what_others_have_committed_holds_nothing_up_on_a_slow_disk() {
    let (mut bench, leader) = Bench::led(3);
    let lasts = |bench: &Bench| -> Vec<u64> {
        let views = bench.hosts.values().filter_map(|host| host.view(GROUP));
        views.map(|view| view.last.1).collect()
    };
    let before = lasts(&bench);
    bench.fast = false;
    bench.propose(leader, 1, "a");
    bench.propose(leader, 2, "b");
    for (node, write) in std::mem::take(&mut bench.writes) {
        if node != leader {
            bench.give(node.0, HostInput::Written(write.number));
        }
    }
    let after: Vec<u64> = before.iter().map(|last| last + 2).collect();
    assert_eq!(lasts(&bench), after, "all have both");
}

#[test]
fn who_leads_no_more_says_that_it_proposed_nothing_of_what_it_held() {
    let (mut bench, leader) = Bench::led(3);
    bench.fast = false;
    bench.propose(leader, 1, "a");
    bench.propose(leader, 2, "b");
    bench.fast = true;
    bench.writes.retain(|(node, _)| *node == leader);
    bench.down.push(leader);
    bench.pass(5_000);
    bench.down.clear();
    bench.pass(2_000);
    assert_ne!(bench.leader(GROUP), Some(leader));
    assert!(matches!(bench.refused(2), Some(HostRefusal::NotLeader(_))));
}

#[test]
fn of_what_was_held_as_much_is_taken_as_there_is_room_for() {
    let (mut bench, leader) = Bench::led(3);
    bench.fast = false;
    bench.propose(leader, 1, "a");
    let long = "b".repeat(1 << 20);
    for ticket in 2..=11 {
        bench.propose(leader, ticket, &long);
    }
    // Eight of them are 8 MiB; more is not even held.
    assert_eq!(bench.refused(9), None);
    assert_eq!(bench.refused(10), Some(HostRefusal::Busy));
    bench.fast = true;
    for (node, write) in std::mem::take(&mut bench.writes) {
        bench.give(node.0, HostInput::Written(write.number));
    }
    let accepted = (1..=11).filter(|ticket| bench.accepted(*ticket)).count();
    let busy = |ticket: &u64| bench.refused(*ticket) == Some(HostRefusal::Busy);
    assert_eq!((accepted, (1..=11).filter(busy).count()), (8, 3));
}

#[test]
fn a_follower_says_nothing_before_it_has_written() {
    let (mut bench, leader) = Bench::led(3);
    bench.fast = false;
    bench.frames.clear();
    bench.propose(leader, 1, "a");
    let from_followers = bench.frames.iter().filter(|(from, _)| *from != leader);
    assert_eq!(from_followers.count(), 0);
    assert!(!bench.accepted(1));
    let follower = bench
        .writes
        .iter()
        .find(|(node, _)| *node != leader)
        .cloned()
        .unwrap();
    bench.give(follower.0.0, HostInput::Written(follower.1.number));
    assert!(!bench.accepted(1), "the leader itself has not written");
    let own = bench
        .writes
        .iter()
        .find(|(node, _)| *node == leader)
        .cloned()
        .unwrap();
    bench.give(leader.0, HostInput::Written(own.1.number));
    assert!(bench.accepted(1), "two of three have");
}

#[test]
fn groups_share_their_frames() {
    let mut bench = Bench::new(3);
    for group in 1..=20 {
        bench.bear(GroupId(group), 3);
    }
    bench.pass(5_000);
    for group in 2..=20 {
        let to = bench.leader(GROUP).unwrap();
        let from = bench.leader(GroupId(group)).unwrap();
        let to = ReplicaId(to.0);
        let group = GroupId(group);
        bench.give(from.0, HostInput::Transfer { group, to });
    }
    bench.pass(1_000);
    let leaders: BTreeSet<_> = (1..=20)
        .filter_map(|group| bench.leader(GroupId(group)))
        .collect();
    assert_eq!(leaders.len(), 1);
    bench.frames.clear();
    bench.pass(2_400);
    // Ten heartbeats to each of two, and an answer to each: not twenty times as many.
    assert!(
        (36..=44).contains(&bench.frames.len()),
        "{}",
        bench.frames.len()
    );
}

#[test]
fn who_does_not_lead_says_who_does() {
    let (mut bench, leader) = Bench::led(3);
    let follower = NodeId(leader.0 % 3 + 1);
    bench.propose(follower, 1, "a");
    assert_eq!(bench.refused(1), Some(HostRefusal::NotLeader(Some(leader))));
    let (group, ticket) = (GROUP, Ticket(2));
    bench.give(follower.0, HostInput::Read { group, ticket });
    assert_eq!(bench.refused(2), Some(HostRefusal::NotLeader(Some(leader))));
    let (group, ticket) = (GroupId(9), Ticket(3));
    bench.give(follower.0, HostInput::Read { group, ticket });
    assert_eq!(bench.refused(3), Some(HostRefusal::NoReplica));
}

#[test]
fn a_dead_leader_is_replaced_within_a_second_and_keeps_nothing_open() {
    let (mut bench, leader) = Bench::led(3);
    bench.propose(leader, 1, "a");
    bench.down.push(leader);
    bench.pass(1_000);
    let next = bench.leader(GROUP).unwrap();
    bench.propose(next, 2, "b");
    assert!(bench.accepted(2));
    bench.down.clear();
    // It believes that it leads, and asks the others in vain.
    let (group, ticket) = (GROUP, Ticket(3));
    bench.give(leader.0, HostInput::Read { group, ticket });
    bench.pass(500);
    assert!(matches!(bench.refused(3), Some(HostRefusal::NotLeader(_))));
    assert_eq!(bench.journal(leader.0), ["a", "b"]);
}

#[test]
fn an_entry_that_lost_its_place_is_superseded() {
    let (mut bench, leader) = Bench::led(3);
    let others: Vec<_> = bench
        .hosts
        .keys()
        .copied()
        .filter(|node| *node != leader)
        .collect();
    bench.down.clone_from(&others);
    bench.propose(leader, 1, "lost");
    bench.down = vec![leader];
    bench.pass(2_000);
    let next = bench.leader(GROUP).unwrap();
    bench.propose(next, 2, "kept");
    bench.down.clear();
    bench.pass(500);
    assert_eq!(bench.refused(1), Some(HostRefusal::Superseded));
    assert_eq!(bench.journal(leader.0), ["kept"]);
}

#[test]
fn a_node_that_stood_still_does_not_call_an_election() {
    let (mut bench, leader) = Bench::led(3);
    let term = bench.hosts[&leader].view(GROUP).unwrap().term;
    let sleeper = leader.0 % 3 + 1;
    bench.down.push(NodeId(sleeper));
    bench.pass(10_000);
    bench.down.clear();
    // It wakes: no time has passed for it, as what the leader said is still to be read.
    bench.frames.clear();
    bench.give(sleeper, HostInput::Tick);
    assert_eq!(bench.frames, [], "it asks nobody for a vote");
    bench.pass(1_000);
    assert_eq!(bench.leader(GROUP), Some(leader));
    assert_eq!(bench.hosts[&leader].view(GROUP).unwrap().term, term);
}

#[test]
fn a_newcomer_is_sent_the_state_and_then_votes() {
    let mut bench = Bench::new(4);
    bench.bear(GROUP, 3);
    let leader = bench.elect(GROUP);
    for ticket in 1..=20 {
        bench.propose(leader, ticket, &ticket.to_string());
    }
    bench.change(leader, 100, vec![ReplicaChange::Add(ReplicaId(4), home(4))]);
    assert!(bench.accepted(100));
    bench.pass(500);
    assert_eq!(bench.journal(4), bench.journal(leader.0));
    let restored = |(node, output): &(NodeId, HostOutput<usize>)| {
        *node == NodeId(4) && matches!(output, HostOutput::Restored { .. })
    };
    assert!(bench.said.iter().any(restored), "the log was cut before");
    bench.change(leader, 101, vec![ReplicaChange::Promote(ReplicaId(4))]);
    bench.pass(500);
    let view = bench.hosts[&NodeId(4)].view(GROUP).unwrap();
    assert_eq!(view.voters, [1, 2, 3, 4].map(ReplicaId).into());
    assert_eq!(view.leader, Some(leader));
}

#[test]
fn what_never_comes_whole_is_let_go() {
    let (mut bench, leader) = Bench::led(3);
    let piece = GroupPacket::Piece {
        number: 1,
        part: 0,
        of: 2,
        bytes: vec![7; 1000],
    };
    let from = NodeId(leader.0 % 3 + 1);
    let bytes = frames(vec![piece], &mut 0).next().unwrap();
    bench.give(leader.0, HostInput::Frame { from, bytes });
    bench.pass(4_000);
    assert_eq!(bench.hosts[&leader].pieces.len(), 1);
    bench.pass(2_000);
    assert_eq!(bench.hosts[&leader].pieces.len(), 0);
}

#[test]
fn too_many_questions_are_refused_as_busy() {
    let (mut bench, leader) = Bench::led(3);
    bench.fast = false;
    for ticket in 1..=31 {
        bench.propose(leader, ticket, "a");
    }
    assert_eq!(bench.refused(30), None);
    assert_eq!(bench.refused(31), Some(HostRefusal::Busy));
    let (group, ticket) = (GROUP, Ticket(32));
    bench.give(leader.0, HostInput::Read { group, ticket });
    assert_eq!(bench.refused(32), Some(HostRefusal::Busy));
}

#[test]
fn an_empty_disk_answers_for_nothing() {
    let (mut bench, leader) = Bench::led(3);
    let victim = leader.0 % 3 + 1;
    let options = HostOptions::new(NodeId(victim), StoreId(999), 1);
    let mut out = Vec::new();
    let empty = Host::open(
        bench.now,
        options,
        Vec::new(),
        |_| Journal::default(),
        &mut out,
    );
    bench.hosts.insert(NodeId(victim), empty);
    let homes = homes(1..=3);
    let group = GROUP;
    bench.give(victim, HostInput::Creation { group, homes });
    bench.pass(500);
    assert_eq!(
        bench.hosts[&NodeId(victim)].view(GROUP),
        None,
        "it was another disk's"
    );
    let (group, replica) = (GROUP, ReplicaId(victim));
    let lost = (leader, HostOutput::Lost { group, replica });
    assert!(bench.said.contains(&lost));
    let fresh = ReplicaHome {
        node: NodeId(victim),
        store: StoreId(999),
    };
    let changes = vec![
        ReplicaChange::Remove(replica),
        ReplicaChange::Add(ReplicaId(4), fresh),
    ];
    bench.change(leader, 1, changes);
    bench.pass(500);
    let view = bench.hosts[&NodeId(victim)].view(GROUP).unwrap();
    assert_eq!(view.replica, ReplicaId(4));
}

#[test]
fn who_has_no_state_has_no_vote() {
    let mut bench = Bench::new(2);
    // A leader's sign of life makes room for a copy that knows nothing.
    let message = |kind, term| {
        let mut message = Message {
            from: 1,
            to: 2,
            term,
            ..Message::default()
        };
        message.set_msg_type(kind);
        let packet = GroupPacket::Raft {
            group: GROUP,
            from: ReplicaId(1),
            to: ReplicaId(2),
            home: StoreId(101),
            store: StoreId(102),
            message: message.write_to_bytes().unwrap(),
        };
        let from = NodeId(1);
        let bytes = frames(vec![packet], &mut 0).next().unwrap();
        HostInput::Frame { from, bytes }
    };
    bench.give(2, message(MessageType::MsgRequestVote, 7));
    assert_eq!(bench.hosts[&NodeId(2)].view(GROUP), None);
    bench.give(2, message(MessageType::MsgHeartbeat, 7));
    assert_eq!(bench.frames.len(), 1, "it answers its leader");
    bench.give(2, message(MessageType::MsgRequestVote, 8));
    bench.give(2, message(MessageType::MsgRequestPreVote, 8));
    assert_eq!(bench.frames.len(), 1, "and nobody else");
}

#[test]
fn a_removed_copy_ends_and_never_comes_back() {
    let (mut bench, leader) = Bench::led(3);
    let victim = leader.0 % 3 + 1;
    bench.change(leader, 1, vec![ReplicaChange::Remove(ReplicaId(victim))]);
    bench.pass(2_000);
    let host = &bench.hosts[&NodeId(victim)];
    assert_eq!(host.view(GROUP), None);
    let (group, homes) = (GROUP, homes(1..=3));
    bench.give(victim, HostInput::Creation { group, homes });
    assert_eq!(bench.hosts[&NodeId(victim)].view(GROUP), None);
    let view = bench.hosts[&leader].view(GROUP).unwrap();
    assert_eq!(view.voters.len(), 2);
    bench.propose(leader, 2, "a");
    assert!(bench.accepted(2));
}

#[test]
fn a_group_goes_on_from_what_one_copy_has() {
    let (mut bench, leader) = Bench::led(3);
    bench.propose(leader, 1, "a");
    assert!(bench.accepted(1));
    // The others hear of it, and die before anybody knows that it is committed.
    bench.down = (1..=3).map(NodeId).filter(|node| *node != leader).collect();
    bench.propose(leader, 2, "b");
    assert!(!bench.accepted(2));
    let before = bench.hosts[&leader].view(GROUP).unwrap();
    let (group, after, from) = (GroupId(2), 1_000, GROUP);
    let elsewhere = ReplicaHome {
        store: StoreId(999),
        ..home(leader.0)
    };
    let inherit = |home| HostInput::Inherit {
        group,
        after,
        from,
        home,
    };
    bench.give(leader.0, inherit(elsewhere));
    assert_eq!(bench.hosts[&leader].view(group), None, "on another disk");
    bench.give(leader.0, inherit(home(leader.0)));
    let host = &bench.hosts[&leader];
    assert_eq!(host.view(GROUP), None);
    let view = host.view(group).unwrap();
    assert!(view.leads && view.term > before.term, "{view:?}");
    let entries = &host.machine(group).unwrap().0;
    let texts: Vec<_> = entries.iter().map(|(_, text)| &text[..]).collect();
    assert_eq!(texts, [b"a", b"b"]);
    let (_, last) = before.last;
    assert_eq!(entries[1].0, last);
    assert_eq!(bench.refused(2), Some(HostRefusal::Unknown));
    // It begins once.
    bench.give(leader.0, inherit(home(leader.0)));
    // Those that were away could elect a leader of the old one: they are told first.
    bench.down.clear();
    bench.pass(2_000);
    let is_old = |host: &Host<Journal>| host.view(GROUP).is_some();
    assert!(!bench.hosts.values().any(is_old));
    // And not anew either.
    bench.bear(GROUP, 3);
    assert!(!bench.hosts.values().any(is_old));
    let other = leader.0 % 3 + 1;
    let give = |group, ticket, changes| HostInput::Change {
        group,
        ticket: Ticket(ticket),
        changes,
    };
    let add = vec![ReplicaChange::Add(ReplicaId(2), home(other))];
    bench.give(leader.0, give(group, 3, add));
    bench.pass(500);
    bench.give(
        leader.0,
        give(group, 4, vec![ReplicaChange::Promote(ReplicaId(2))]),
    );
    bench.pass(500);
    let (ticket, entry) = (Ticket(5), b"c".to_vec());
    bench.give(
        leader.0,
        HostInput::Propose {
            group,
            ticket,
            entry,
        },
    );
    bench.pass(500);
    assert!(bench.accepted(5));
    let copy = bench.hosts[&NodeId(other)].machine(group).unwrap();
    assert_eq!(copy, bench.hosts[&leader].machine(group).unwrap());
    assert_eq!(copy.0.len(), 3);
    assert!(copy.0[2].0 > after, "{last} was the last one of before");
}

#[test]
fn only_who_had_a_copy_says_that_a_group_has_a_successor() {
    let (mut bench, _) = Bench::led(3);
    let gone = |replica| {
        let group = GROUP;
        let packets = vec![GroupPacket::Gone { group, replica }];
        frames(packets, &mut 0).next().unwrap()
    };
    let hear = |bench: &mut Bench, from: u64, replica| {
        let (from, bytes) = (NodeId(from), gone(replica));
        bench.give(1, HostInput::Frame { from, bytes });
        bench.hosts[&NodeId(1)].view(GROUP).is_some()
    };
    assert!(hear(&mut bench, 7, ReplicaId::EVERY), "a stranger");
    // One whose disk cannot be read any more says that of its own copy alone.
    assert!(hear(&mut bench, 2, ReplicaId::LAST));
    assert!(!hear(&mut bench, 2, ReplicaId::EVERY));
    assert!(bench.said.iter().any(|(_, output)| matches!(
        output,
        HostOutput::Removed {
            why: Removal::Succeeded,
            ..
        }
    )));
}

#[test]
fn a_leader_that_is_removed_answers_all_that_is_open() {
    let (mut bench, leader) = Bench::led(3);
    bench.fast = false;
    bench.change(leader, 1, vec![ReplicaChange::Remove(ReplicaId(leader.0))]);
    bench.propose(leader, 2, "a");
    let (group, ticket) = (GROUP, Ticket(3));
    bench.give(leader.0, HostInput::Read { group, ticket });
    // The change is written everywhere, the entry after it is not.
    for (node, write) in std::mem::take(&mut bench.writes) {
        bench.give(node.0, HostInput::Written(write.number));
    }
    assert!(bench.accepted(1));
    assert_eq!(bench.hosts[&leader].view(GROUP), None);
    assert_eq!(bench.refused(2), Some(HostRefusal::Unknown));
    assert!(bench.is_read(3) || bench.refused(3).is_some());
}

#[test]
fn a_copy_that_was_away_when_it_was_removed_hears_of_it() {
    let (mut bench, leader) = Bench::led(3);
    let victim = leader.0 % 3 + 1;
    bench.down.push(NodeId(victim));
    bench.change(leader, 1, vec![ReplicaChange::Remove(ReplicaId(victim))]);
    bench.pass(2_000);
    bench.down.clear();
    bench.pass(3_000);
    assert_eq!(bench.hosts[&NodeId(victim)].view(GROUP), None);
    assert_eq!(bench.leader(GROUP), Some(leader));
}

#[test]
fn what_makes_no_sense_is_refused_at_once() {
    let (mut bench, leader) = Bench::led(3);
    bench.change(leader, 1, vec![ReplicaChange::Promote(ReplicaId(7))]);
    let unfit = crate::membership::Unfit::Unknown(ReplicaId(7));
    assert_eq!(bench.refused(1), Some(HostRefusal::Unfit(unfit)));
    bench.propose(leader, 2, "");
    assert_eq!(bench.refused(2), Some(HostRefusal::Empty));
    let from = NodeId(3);
    let bytes = vec![0xff; 40];
    bench.give(leader.0, HostInput::Frame { from, bytes });
    assert_eq!(bench.leader(GROUP), Some(leader));
}

#[test]
fn a_copy_that_its_node_ends_is_lost_to_the_others() {
    let (mut bench, leader) = Bench::led(3);
    let leaver = if leader == NodeId(1) { 2 } else { 1 };
    bench.give(leaver, HostInput::Leave { group: GROUP });
    let ended = bench.said.iter().any(|(node, output)| {
        let by_node = matches!(
            output,
            HostOutput::Removed {
                why: Removal::ByNode,
                ..
            }
        );
        node.0 == leaver && by_node
    });
    assert!(ended);
    assert_eq!(bench.hosts[&NodeId(leaver)].view(GROUP), None);
    bench.pass(1_000);
    let lost = |(node, output): &(NodeId, HostOutput<usize>)| {
        *node == leader && matches!(output, HostOutput::Lost { replica, .. } if replica.0 == leaver)
    };
    assert!(bench.said.iter().any(lost));
}

#[test]
fn a_leader_says_who_keeps_up() {
    let (mut bench, leader) = Bench::led(3);
    let all: BTreeSet<_> = (1..=3).map(ReplicaId).collect();
    let current = |bench: &Bench| bench.hosts[&leader].view(GROUP).unwrap().current;
    assert_eq!(current(&bench), all);
    let other = NodeId(if leader == NodeId(1) { 2 } else { 1 });
    assert_eq!(
        bench.hosts[&other].view(GROUP).unwrap().current,
        BTreeSet::new()
    );
    bench.down.push(other);
    for ticket in 1..=100 {
        let propose = HostInput::Propose {
            group: GROUP,
            ticket: Ticket(ticket),
            entry: vec![7],
        };
        bench.give(leader.0, propose);
    }
    assert!(!current(&bench).contains(&ReplicaId(other.0)));
}

#[test]
fn who_is_alone_has_nothing_to_wake_for() {
    let (bench, leader) = Bench::led(1);
    assert_eq!(bench.hosts[&leader].deadline(), None);
    let (bench, leader) = Bench::led(2);
    assert!(bench.hosts[&leader].deadline().is_some());
}

#[test]
fn a_copy_that_lost_what_it_acknowledged_ends_itself() {
    let (mut bench, leader) = Bench::led(3);
    bench.propose(leader, 1, "kept");
    bench.pass(500);
    let follower = if leader == NodeId(1) { 2 } else { 1 };
    // The disk as it was at the creation, put back under the same name.
    let now = bench.now;
    bench.hosts.insert(NodeId(follower), host(now, follower));
    let (group, homes) = (GROUP, homes(1..=3));
    bench.give(follower, HostInput::Creation { group, homes });
    bench.said.clear();
    bench.pass(500);
    let ended = |(node, output): &(NodeId, HostOutput<usize>)| {
        let unreadable = matches!(
            output,
            HostOutput::Removed {
                why: Removal::Unreadable(_),
                ..
            }
        );
        node.0 == follower && unreadable
    };
    assert!(bench.said.iter().any(ended));
    let lost = |(node, output): &(NodeId, HostOutput<usize>)| {
        *node == leader
            && matches!(output, HostOutput::Lost { replica, .. } if replica.0 == follower)
    };
    assert!(bench.said.iter().any(lost));
    bench.propose(leader, 2, "goes on");
    assert!(bench.accepted(2));
}

/// A message between copies of the group, as it stands in a frame.
fn message(message: &Message) -> Vec<u8> {
    let packet = GroupPacket::Raft {
        group: GROUP,
        from: ReplicaId(message.from),
        to: ReplicaId(message.to),
        home: home(message.from).store,
        store: home(message.to).store,
        message: message.write_to_bytes().unwrap(),
    };
    frames(vec![packet], &mut 0).next().unwrap()
}

#[test]
fn nobody_tells_the_only_copy_anything() {
    let (mut bench, only) = Bench::led(1);
    bench.propose(only, 1, "kept");
    let gone = GroupPacket::Gone {
        group: GROUP,
        replica: ReplicaId(1),
    };
    let gone = frames(vec![gone], &mut 0).next().unwrap();
    let mut later = Message::default();
    later.set_msg_type(MessageType::MsgHeartbeat);
    (later.from, later.to, later.term) = (2, 1, 99);
    for bytes in [gone, message(&later)] {
        let from = NodeId(2);
        bench.give(1, HostInput::Frame { from, bytes });
    }
    let view = bench.hosts[&only].view(GROUP).unwrap();
    assert!(view.leads && view.term < 99);
    bench.propose(only, 2, "goes on");
    assert!(bench.accepted(2));
}

#[test]
fn what_raft_says_to_itself_is_not_heard_from_others() {
    let (mut bench, leader) = Bench::led(3);
    // Raft panics on a proposal of nothing.
    let mut nothing = Message::default();
    nothing.set_msg_type(MessageType::MsgPropose);
    (nothing.from, nothing.to) = (leader.0 % 3 + 1, leader.0);
    let (from, bytes) = (NodeId(nothing.from), message(&nothing));
    bench.give(leader.0, HostInput::Frame { from, bytes });
    bench.propose(leader, 1, "goes on");
    assert!(bench.accepted(1));
}

#[test]
fn only_groups_that_are_welcome_make_copies() {
    for (welcome, expect) in [(GroupId(9), false), (GROUP, true)] {
        let mut bench = Bench::new(4);
        bench.bear(GROUP, 3);
        let leader = bench.elect(GROUP);
        bench.give(4, HostInput::Welcome([welcome].into()));
        bench.change(leader, 100, vec![ReplicaChange::Add(ReplicaId(4), home(4))]);
        bench.pass(500);
        let there = bench.hosts[&NodeId(4)].view(GROUP).is_some();
        assert_eq!(there, expect);
    }
}
