//! A handful of meshes in one thread: what one sends, another gets a little later.

mod replacement;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::key::{ClusterId, NodeKey, Signature};
use crate::member::Incarnation;
use crate::record::{
    AdmissionState, ClusterBody, MemberBody, NodeBody, RecordVersion, SuspicionLevel, Vote,
    WatchBody,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Signs with a hash of the bytes; good enough to tell writers apart.
#[derive(Debug)]
struct TestKey(NodeKey);

#[derive(Debug)]
struct TestVerifier;

fn hashed(key: &NodeKey, bytes: &[u8]) -> Signature {
    let mut signature = [0; 64];
    let seed = u64::from_le_bytes(key.0[..8].try_into().unwrap());
    signature[..8].copy_from_slice(&xxh3_64_with_seed(bytes, seed).to_le_bytes());
    Signature(signature)
}

impl Sign for TestKey {
    fn key(&self) -> NodeKey {
        self.0
    }
    fn sign(&self, bytes: &[u8]) -> Signature {
        hashed(&self.0, bytes)
    }
}

impl Verify for TestVerifier {
    fn verify(&self, key: &NodeKey, bytes: &[u8], signature: &Signature) -> bool {
        hashed(key, bytes) == *signature
    }
}

fn key(number: u32) -> NodeKey {
    let mut key = [7; 32];
    key[..4].copy_from_slice(&number.to_le_bytes());
    NodeKey(key)
}

const ROOT: u32 = 1 << 30;
const SIGNING: u32 = ROOT + 1;
const DELAY_US: u64 = 200;

fn cluster() -> ClusterId {
    ClusterId::of_root(&key(ROOT))
}

fn signed<B: serde::Serialize>(by: u32, key_: RecordKey, number: u64, body: &B) -> Arc<Record> {
    let version = RecordVersion {
        incarnation: 1,
        number,
    };
    Arc::new(Record::sign(cluster(), key_, version, body, &TestKey(key(by))).unwrap())
}

fn cluster_record() -> Arc<Record> {
    let body = ClusterBody {
        root: key(ROOT),
        generation: 1,
        signing: key(SIGNING),
    };
    signed(ROOT, RecordKey::Cluster, 1, &body)
}

fn admission(number: u32, state: AdmissionState) -> Arc<Record> {
    let body = MemberBody {
        key: key(number),
        name: format!("n{number}"),
        rack: String::new(),
        votes: true,
        state,
    };
    let version = if state == AdmissionState::Admitted {
        1
    } else {
        2
    };
    signed(SIGNING, RecordKey::Member(MemberId(number)), version, &body)
}

fn body(run: u64) -> NodeBody {
    NodeBody {
        run,
        addresses: vec![],
        agent_version: "0".into(),
        problems: vec![],
        payload: vec![],
    }
}

struct Net {
    now: Time,
    nodes: BTreeMap<u32, Mesh>,
    wire: BTreeMap<(Time, u64), (u32, u32, MeshFrame)>,
    sent: u64,
    cut: BTreeSet<(u32, u32)>,
    paused: BTreeSet<u32>,
    events: Vec<(u32, MeshEvent)>,
}

impl Net {
    fn new(count: u32) -> Self {
        let mut net = Self {
            now: Time(1_000_000),
            nodes: BTreeMap::new(),
            wire: BTreeMap::new(),
            sent: 0,
            cut: BTreeSet::new(),
            paused: BTreeSet::new(),
            events: vec![],
        };
        let members = (0..count).map(|number| admission(number, AdmissionState::Admitted));
        let records: Vec<_> = members.chain([cluster_record()]).collect();
        for number in 0..count {
            net.start(number, 1, records.clone());
        }
        net.run(3_000);
        net.events.clear();
        net
    }

    fn start(&mut self, number: u32, incarnation: u64, records: Vec<Arc<Record>>) {
        let (known, refused) = VerifiedRecords::load(cluster(), &key(ROOT), &TestVerifier, records);
        assert_eq!(refused, []);
        let identity = MeshIdentity {
            cluster: cluster(),
            root: key(ROOT),
            member: MemberId(number),
            incarnation: Incarnation(incarnation),
        };
        let run = u64::from(number) << 8 | incarnation;
        let mesh = Mesh::new(
            MeshOptions::default(),
            identity,
            Box::new(TestKey(key(number))),
            Box::new(TestVerifier),
            known,
        );
        self.nodes.insert(number, mesh);
        self.input(number, MeshInput::Node(body(run)));
    }

    fn input(&mut self, number: u32, input: MeshInput) {
        let mut out = vec![];
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        node.handle(self.now, input, &mut out);
        for output in out {
            match output {
                MeshOutput::Send { to, frame, .. } => {
                    self.sent += 1;
                    if !self.cut.contains(&(number, to.0)) {
                        let at = Time(self.now.0 + DELAY_US);
                        self.wire.insert((at, self.sent), (number, to.0, frame));
                    }
                }
                MeshOutput::Event(event) => self.events.push((number, event)),
                MeshOutput::Keep(_) | MeshOutput::Document(_) => {}
            }
        }
    }

    fn run(&mut self, ms: u64) {
        let end = self.now.plus_millis(ms);
        loop {
            let up = |number: &u32| !self.paused.contains(number);
            let timers = self.nodes.iter().filter(|(n, _)| up(n));
            let timer = timers.filter_map(|(n, m)| Some((m.deadline()?, *n))).min();
            let frame = self.wire.keys().find(|k| up(&self.wire[k].1)).copied();
            let next = [timer.map(|t| t.0), frame.map(|f| f.0)]
                .into_iter()
                .flatten()
                .min();
            let Some(next) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            match frame.filter(|f| f.0 <= self.now) {
                Some(at) => {
                    let (from, to, frame) = self.wire.remove(&at).unwrap();
                    let from = MemberId(from);
                    self.input(to, MeshInput::Frame { from, frame });
                }
                None => self.input(timer.unwrap().1, MeshInput::Tick),
            }
        }
        self.now = end;
    }

    fn reach(&self, by: u32, of: u32) -> Reach {
        self.nodes[&by].reach(MemberId(of))
    }

    fn cut_off(&mut self, some: &[u32]) {
        for one in some {
            for other in self.nodes.keys().filter(|n| !some.contains(n)) {
                self.cut.insert((*one, *other));
                self.cut.insert((*other, *one));
            }
        }
    }

    fn assert_equal(&self) {
        let first = self.nodes.values().next().unwrap();
        for (number, node) in &self.nodes {
            assert_eq!(
                node.root(),
                first.root(),
                "node {number} of {}",
                self.nodes.len()
            );
            assert_eq!(node.troubled().collect::<Vec<_>>(), [], "node {number}");
        }
    }
}

#[test]
fn meshes_learn_of_each_other() {
    for count in [1, 2, 3, 7, 40] {
        let net = Net::new(count);
        net.assert_equal();
        for node in net.nodes.values() {
            assert_eq!(node.all_records().count(), 2 * net.nodes.len() + 1);
        }
    }
}

#[test]
fn a_crash_is_noticed_by_all_in_time() {
    for count in [2, 3, 4, 5, 12, 60] {
        let mut net = Net::new(count);
        net.run(317);
        net.nodes.remove(&1);
        net.run(1_450);
        let others: Vec<_> = net.nodes.keys().copied().collect();
        for by in &others {
            assert_eq!(net.reach(*by, 1), Reach::Suspect, "{by} of {count}");
        }
        net.run(1_000);
        for by in &others {
            assert_eq!(net.reach(*by, 1), Reach::Unreachable, "{by} of {count}");
            let since = net.nodes[by].member(MemberId(1)).unwrap().reach_ms.unwrap();
            assert!((100..1_000).contains(&since), "{since}");
            let troubled = net.nodes[by].troubled().count();
            assert_eq!(troubled, 1, "{by} of {count}");
        }
    }
}

#[test]
fn trouble_of_others_does_not_change_since_when_one_is_gone() {
    let mut net = Net::new(8);
    let since = |net: &Net| net.nodes[&0].member(MemberId(3)).unwrap().reach_ms.unwrap();
    net.nodes.remove(&3);
    net.run(4_000);
    let before = since(&net);
    net.nodes.remove(&5);
    net.run(4_000);
    assert_eq!(net.reach(0, 5), Reach::Unreachable);
    assert!((3_500..4_500).contains(&(since(&net) - before)));
}

#[test]
fn a_new_life_is_alive_at_once() {
    let mut net = Net::new(8);
    let records: Vec<_> = net.nodes[&3].all_records().cloned().collect();
    net.nodes.remove(&3);
    net.run(4_000);
    net.start(3, 2, records);
    net.run(100);
    assert_eq!(net.reach(0, 3), Reach::Alive);
    assert_eq!(net.nodes[&0].member(MemberId(3)).unwrap().reach_ms, None);
    net.run(2_500);
    net.assert_equal();
}

#[test]
fn a_short_pause_is_nothing_and_a_long_one_is_over_at_once() {
    let mut net = Net::new(10);
    net.paused.insert(4);
    net.run(990);
    net.paused.clear();
    net.run(3_000);
    assert_eq!(net.events, []);
    net.paused.insert(4);
    net.run(30_000);
    assert_eq!(net.reach(0, 4), Reach::Unreachable);
    net.paused.clear();
    net.run(700);
    net.assert_equal();
}

#[test]
fn both_sides_of_a_cut_know_who_is_left() {
    for (count, island) in [(2, 1), (3, 1), (5, 2), (9, 1), (40, 20), (60, 7), (90, 2)] {
        let mut net = Net::new(count);
        let some: Vec<_> = (0..island).collect();
        net.cut_off(&some);
        net.run(12_000 + 200 * u64::from(count));
        for by in 0..count {
            for of in (0..count).filter(|of| *of != by) {
                let expect = if some.contains(&by) == some.contains(&of) {
                    Reach::Alive
                } else {
                    Reach::Unreachable
                };
                assert_eq!(
                    net.reach(by, of),
                    expect,
                    "{by} of {of}, {island} of {count}"
                );
            }
        }
        net.cut.clear();
        net.run(1_000);
        net.assert_equal();
    }
}

#[test]
fn who_hears_nobody_is_the_suspect() {
    for count in [5, 12] {
        let mut net = Net::new(count);
        for other in 0..count {
            net.cut.insert((other, 2));
        }
        net.run(8_000);
        assert_eq!(net.reach(0, 2), Reach::Unreachable, "{count}");
        for of in (0..count).filter(|of| *of != 2) {
            assert_eq!(net.reach(0, of), Reach::Alive, "{of} of {count}");
        }
        let votes = net.nodes[&0].member(MemberId(2)).unwrap().votes;
        assert!(votes.iter().any(|(_, vote)| vote.heard), "one way only");
        net.cut.clear();
        net.run(20_000);
        net.assert_equal();
    }
}

#[test]
fn a_liar_convinces_nobody() {
    for count in [4, 5, 30] {
        let mut net = Net::new(count);
        let subjects: BTreeSet<_> = net.nodes[&2].watched().collect();
        let vote = |subject: &MemberId| Vote {
            subject: *subject,
            incarnation: Incarnation(1),
            level: SuspicionLevel::Gone,
            heard: false,
        };
        let votes = subjects.iter().map(vote).collect();
        let lie = signed(2, RecordKey::Watch(MemberId(2)), 99, &WatchBody { votes });
        net.nodes.remove(&2);
        for number in (0..count).filter(|n| *n != 2) {
            net.input(number, MeshInput::Record(lie.clone()));
        }
        net.run(50);
        for by in net.nodes.keys() {
            for of in net.nodes.keys() {
                assert_eq!(net.reach(*by, *of), Reach::Alive, "{by} of {of}, {count}");
            }
            assert_eq!(net.reach(*by, 2), Reach::Suspect);
        }
    }
}

#[test]
fn an_admission_and_its_end_reach_all() {
    let mut net = Net::new(9);
    net.input(0, MeshInput::Record(admission(9, AdmissionState::Admitted)));
    let seed = [0, 9].map(|number| admission(number, AdmissionState::Admitted));
    net.start(9, 1, seed.into_iter().chain([cluster_record()]).collect());
    net.run(1_500);
    net.assert_equal();
    assert_eq!(net.nodes[&5].members().count(), 10);
    let newcomer = net.nodes[&5].member(MemberId(9)).unwrap();
    assert!(newcomer.node.is_some());
    assert!((1_000..1_600).contains(&newcomer.said_ms.unwrap()));

    net.input(3, MeshInput::Record(admission(9, AdmissionState::Expelled)));
    net.run(1_500);
    assert!(net.events.contains(&(9, MeshEvent::Expelled)));
    net.nodes.remove(&9);
    net.assert_equal();
    let late = signed(9, RecordKey::Node(MemberId(9)), 50, &body(1));
    net.input(4, MeshInput::Record(late));
    assert_eq!(net.nodes[&4].record(RecordKey::Node(MemberId(9))), None);
    assert_eq!(net.nodes[&4].counters().records_unknown, 1);
}

#[test]
fn forged_and_old_records_are_refused() {
    let mut net = Net::new(3);
    let before = net.nodes[&0].root();
    let old_before = net.nodes[&0].counters().records_old;
    let forged = signed(2, RecordKey::Node(MemberId(1)), 50, &body(1));
    let expulsion = {
        let body = MemberBody {
            state: AdmissionState::Expelled,
            ..net.nodes[&0].member(MemberId(1)).unwrap().body.clone()
        };
        signed(2, RecordKey::Member(MemberId(1)), 9, &body)
    };
    let old = net.nodes[&0]
        .record(RecordKey::Node(MemberId(1)))
        .unwrap()
        .clone();
    let nonsense = signed(1, RecordKey::Node(MemberId(1)), 60, &1_u8);
    for record in [forged, expulsion, old, nonsense] {
        net.input(0, MeshInput::Record(record));
    }
    let counters = net.nodes[&0].counters();
    assert_eq!(counters.records_forged, 2);
    assert_eq!(counters.records_old - old_before, 1);
    assert_eq!(counters.records_malformed, 1);
    assert_eq!(net.nodes[&0].root(), before);
}

#[test]
fn who_sends_what_nobody_signed_is_named() {
    let mut net = Net::new(3);
    let forged = signed(2, RecordKey::Node(MemberId(1)), 50, &body(1));
    let genuine = signed(1, RecordKey::Node(MemberId(1)), 51, &body(1));
    for record in [forged.clone(), genuine, forged] {
        let from = MemberId(2);
        let records = vec![record];
        let frame = MeshFrame::Push(frame::Push { number: 0, records });
        net.input(0, MeshInput::Frame { from, frame });
    }
    // The second time it is older than what came between.
    let forged = [1, 2].map(|id| net.nodes[&0].member(MemberId(id)).unwrap().forged);
    assert_eq!(forged, [0, 1]);
    net.input(0, MeshInput::Record(admission(2, AdmissionState::Expelled)));
    assert_eq!(net.nodes[&0].member(MemberId(2)).unwrap().forged, 0);
}

#[test]
fn a_writer_that_never_stops_is_slowed_and_its_newest_wins() {
    let mut net = Net::new(6);
    let before = net.nodes[&0].counters().records_taken;
    for number in 100..400 {
        let record = signed(1, RecordKey::Node(MemberId(1)), number, &body(9));
        net.input(0, MeshInput::Record(record));
    }
    assert!(net.nodes[&0].counters().records_taken - before <= 30);
    // The writer itself is told, and speaks up.
    net.run(3_000);
    net.assert_equal();
    let version = net.nodes[&3]
        .record(RecordKey::Node(MemberId(1)))
        .unwrap()
        .version;
    assert!(version.incarnation > 1, "{version:?}");
}

#[test]
fn news_is_told_sooner_than_what_changes_often() {
    let told_after = |input: fn(NodeBody) -> MeshInput| {
        let mut net = Net::new(4);
        net.run(2_000);
        let mut slowest = 0;
        for run in 0..6 {
            net.input(1, input(body(100 + run)));
            let begun = net.now;
            let is_told = |net: &Net| {
                let node = net.nodes[&3].member(MemberId(1)).unwrap().node.unwrap();
                node.run == 100 + run
            };
            while !is_told(&net) {
                net.run(10);
            }
            slowest = slowest.max(net.now.micros_since(begun) / 1000);
        }
        net.run(1_000);
        net.assert_equal();
        slowest
    };
    let (usual, news) = (told_after(MeshInput::Node), told_after(MeshInput::News));
    assert!(usual > 900 && news < 400, "{usual} {news}");
}

#[test]
fn a_clone_is_noticed() {
    let mut net = Net::new(5);
    for number in 1..4 {
        let version = RecordVersion {
            incarnation: 10 * number,
            number: 1,
        };
        let key_ = RecordKey::Node(MemberId(1));
        let record = Record::sign(cluster(), key_, version, &body(77), &TestKey(key(1))).unwrap();
        net.input(0, MeshInput::Record(Arc::new(record)));
        net.run(1_500);
    }
    assert!(net.events.contains(&(1, MeshEvent::Cloned)));
    assert!(net.nodes[&1].is_cloned());
    net.run(12_000);
    net.assert_equal();
}

#[test]
fn a_mass_failure_raises_one_alarm() {
    let mut net = Net::new(9);
    for number in 0..4 {
        net.nodes.remove(&number);
    }
    net.run(20_000);
    let alarms = net
        .events
        .iter()
        .filter(|(by, e)| *by == 5 && *e == MeshEvent::MassFailure);
    assert_eq!(alarms.count(), 1);
}

#[test]
fn a_stuck_agent_says_so() {
    let mut net = Net::new(6);
    for (loops, engine, device, expect) in [
        (6_000, 0, 0, Reach::Suspect),
        (0, 16_000, 0, Reach::Suspect),
        (0, 9_000, 50_000, Reach::Alive),
        (0, 0, 61_000, Reach::Suspect),
    ] {
        let health = SelfHealth {
            loop_age_ms: loops,
            engine_age_ms: engine,
            device_age_ms: device,
        };
        net.input(1, MeshInput::Health(health));
        net.run(1_500);
        assert_eq!(net.reach(4, 1), expect, "{health:?}");
        net.input(1, MeshInput::Health(SelfHealth::default()));
        net.run(1_500);
        net.assert_equal();
    }
}

/// How many versions of its votes a node has written.
fn votes_written(net: &Net, by: u32) -> u64 {
    let record = net.nodes[&by].record(RecordKey::Watch(MemberId(by)));
    record.map_or(0, |record| record.version.number)
}

#[test]
fn votes_that_are_taken_back_together_are_written_together() {
    let mut net = Net::new(40);
    net.cut_off(&[0]);
    net.run(20_000);
    assert!(net.nodes[&0].own.misses());
    let before = votes_written(&net, 0);
    net.cut.clear();
    net.run(3_000);
    net.assert_equal();
    // Those it lost come back one by one, some milliseconds apart.
    assert_eq!(votes_written(&net, 0), before + 1);
}

/// A net of which only node 0 goes on, and votes of its members that it has not heard yet: each
/// against another member.
fn listener(voters: usize) -> (Net, Vec<(MemberId, Arc<Record>)>) {
    let mut net = Net::new(40);
    net.paused.extend(1..40);
    let mut accused = BTreeSet::from([MemberId(0)]);
    let mut votes = Vec::new();
    for voter in (1..40).take(voters) {
        let mut watched = net.nodes[&voter].watched();
        let subject = watched.find(|subject| !accused.contains(subject)).unwrap();
        accused.insert(subject);
        votes.push((subject, accusation(voter, 50, subject)));
    }
    (net, votes)
}

/// Version `number` of the votes of `by`, one against `subject`.
fn accusation(by: u32, number: u64, subject: MemberId) -> Arc<Record> {
    let vote = Vote {
        subject,
        incarnation: Incarnation(1),
        level: SuspicionLevel::Gone,
        heard: false,
    };
    let votes = vec![vote];
    signed(
        by,
        RecordKey::Watch(MemberId(by)),
        number,
        &WatchBody { votes },
    )
}

#[test]
fn few_votes_are_believed_at_once() {
    let (mut net, votes) = listener(super::view::VOTERS_MANY);
    for (subject, vote) in votes {
        assert_eq!(net.reach(0, subject.0), Reach::Alive);
        net.input(0, MeshInput::Record(vote));
        assert_eq!(net.reach(0, subject.0), Reach::Suspect);
    }
}

#[test]
fn where_many_vote_the_view_waits_for_a_quiet_moment() {
    let (mut net, mut votes) = listener(super::view::VOTERS_MANY + 3);
    let news = votes.split_off(super::view::VOTERS_MANY + 1);
    for (_, vote) in votes {
        net.input(0, MeshInput::Record(vote));
    }
    net.run(300);
    let [(first, vote), (second, other)] = <[_; 2]>::try_from(news).unwrap();
    net.input(0, MeshInput::Record(vote));
    net.run(30);
    net.input(0, MeshInput::Record(other));
    net.run(39);
    // 69 ms after the first: it waits for the quiet after the second.
    let both = |net: &Net| [first, second].map(|subject| net.reach(0, subject.0));
    assert_eq!(both(&net), [Reach::Alive; 2]);
    net.run(1);
    assert_eq!(both(&net), [Reach::Suspect; 2]);
}

#[test]
fn where_votes_never_end_the_view_does_not_wait_for_ever() {
    let (mut net, mut votes) = listener(super::view::VOTERS_MANY + 2);
    let (subject, vote) = votes.pop().unwrap();
    let (other, _) = votes[0];
    for (_, vote) in votes {
        net.input(0, MeshInput::Record(vote));
    }
    net.run(300);
    net.input(0, MeshInput::Record(vote));
    let mut waited = 0;
    while net.reach(0, subject.0) == Reach::Alive {
        assert!(waited < 600, "never put together");
        net.run(20);
        waited += 20;
        net.input(0, MeshInput::Record(accusation(1, 50 + waited, other)));
    }
    // 200 ms and one for every two who vote.
    assert_eq!(waited, 220);
}

#[test]
fn a_watchers_votes_count_until_its_record_is_replaced_or_forgotten() {
    let mut store = NewestRecords::default();
    let votes = |store: &NewestRecords| -> Vec<_> {
        let cast = store.cast();
        cast.map(|(by, votes)| (by.0, votes[0].subject.0)).collect()
    };
    for (by, of) in [(70, 3), (1, 2), (4, 1)] {
        store.put(accusation(by, 1, MemberId(of)));
    }
    assert_eq!(votes(&store), [(1, 2), (4, 1), (70, 3)]);
    store.put(accusation(1, 2, MemberId(5)));
    let nothing = WatchBody { votes: vec![] };
    store.put(signed(4, RecordKey::Watch(MemberId(4)), 2, &nothing));
    assert_eq!(votes(&store), [(1, 5), (70, 3)]);
    store.forget(MemberId(70));
    assert_eq!((votes(&store), store.voters()), (vec![(1, 5)], 1));
}

#[test]
fn what_members_say_is_added_to_what_is_known_but_no_member() {
    let records = (0..3).map(|number| admission(number, AdmissionState::Admitted));
    let records = records.chain([cluster_record()]).collect();
    let (first, _) = VerifiedRecords::load(cluster(), &key(ROOT), &TestVerifier, records);
    let mut known = first.clone();
    let said = signed(1, RecordKey::Node(MemberId(1)), 1, &body(1));
    let forged = signed(1, RecordKey::Node(MemberId(2)), 1, &body(2));
    let refused = known.add(
        cluster(),
        &TestVerifier,
        [
            said.clone(),
            forged,
            admission(5, AdmissionState::Admitted),
            accusation(2, 1, MemberId(1)),
        ],
    );
    let refused: Vec<_> = refused.into_iter().map(|(key, _)| key).collect();
    let (node, member) = (RecordKey::Node, RecordKey::Member);
    assert_eq!(refused, [node(MemberId(2)), member(MemberId(5))]);
    assert_eq!(known.store.get(said.key), Some(&said));
    assert_eq!(known.store.voters(), 1);
    assert!(Arc::ptr_eq(&known.roster, &first.roster));
}
