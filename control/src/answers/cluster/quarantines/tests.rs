use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use muster_consensus::{GroupId, StoreId};
use muster_gossip::Mesh;
use muster_gossip::frame::DocumentRef;
use muster_gossip::key::{ClusterId, NodeKey, Sign, Signature};
use muster_gossip::record::{DocumentId, Record};
use muster_model::health::HealthSubject;
use muster_model::id::{NodeId, UserName};
use muster_model::login::LoginTrust;
use muster_model::people::{NewPassword, PeopleDenial};
use muster_model::policy::BreakerPolicy;
use muster_model::time::Time;

use super::*;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort, NextTokenKey, WantedToken};
use crate::breaker::{NodeQuarantines, QuarantinedPart};
use crate::cluster::tests::members;
use crate::cluster::{ClusterMap, Hidden, Keys, Lineage, Secret};
use crate::groups::{ApplyOutcome, GroupState, Local};
use crate::now::Now;
use crate::request::RequestRefusal;
use crate::request::member::MemberRequest;

/// A leader of members 0 to 4, of which member 4 was expelled. A test sets its term and clock.
struct PlayedLeader {
    state: GroupState,
    /// None where it does not lead.
    term: Option<u64>,
    now_s: u64,
    policy: BreakerPolicy,
}

type Played = ClusterService<Mutex<PlayedLeader>>;

/// Each member has 8 devices of 32, and rules quarantine so many of them.
fn asks(service: &Played, member: u32, parts: u32) -> Result<BreakerReview, RequestFailure> {
    let part = |number| QuarantinedPart {
        subject: HealthSubject::at(format!("0000:{number:02x}:00.0")),
        devices: 1,
        admitted_for_ms: None,
    };
    let told = NodeQuarantines {
        devices: 8,
        parts: (0..parts).map(part).collect(),
    };
    let answer = pin!(service.answer(MemberId(member), ReviewQuarantines(told)));
    match answer.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits for something"),
    }
}

/// How many parts are held back; none while that is not known.
fn held_back(service: &Played, member: u32, parts: u32) -> Option<usize> {
    match asks(service, member, parts).unwrap() {
        BreakerReview::NotYet => None,
        BreakerReview::HeldBack(parts) => Some(parts.len()),
    }
}

fn service() -> Played {
    let leader = PlayedLeader {
        state: GroupState::Cluster(Box::new(members(5, &[4]))),
        term: Some(1),
        now_s: 0,
        policy: BreakerPolicy::default(),
    };
    ClusterService::new(ClusterId([0; 16]), MemberId(0), Mutex::new(leader))
}

fn set(service: &Played, set: impl FnOnce(&mut PlayedLeader)) {
    set(&mut service.port().lock().unwrap());
}

/// All members have told what they have, and nothing is quarantined.
fn heard() -> Played {
    let service = service();
    for member in 0..4 {
        asks(&service, member, 0).unwrap();
    }
    service
}

#[test]
fn each_member_asks_for_itself() {
    let service = service();
    // The leader waits for four members, of which one asks again and again.
    for _ in 0..3 {
        assert_eq!(held_back(&service, 0, 8), None);
    }
    assert_eq!(held_back(&service, 1, 0), None);
    assert_eq!(held_back(&service, 2, 0), None);
    assert_eq!(held_back(&service, 3, 0), Some(0));
    // Of 32 devices 8 may go. Another member's parts are others, though they are called the same.
    assert_eq!(held_back(&service, 0, 8), Some(0));
    assert_eq!(held_back(&service, 1, 8), Some(8));
    assert_eq!(held_back(&service, 0, 8), Some(0));
}

#[test]
fn a_stranger_is_refused_and_changes_nothing() {
    let service = heard();
    for stranger in [4, 5] {
        let refused = asks(&service, stranger, 8).unwrap_err();
        let RequestFailure::Refused(RequestRefusal::Invalid(why)) = &refused else {
            panic!("{refused:?}")
        };
        assert!(
            why.contains(&format!("member {stranger} is not admitted")),
            "{why}"
        );
    }
    // None of the 8 devices that may go has gone.
    assert_eq!(held_back(&service, 0, 8), Some(0));
}

#[test]
fn a_new_leader_begins_with_nothing_and_one_that_leads_no_more_says_so() {
    let service = heard();
    assert_eq!(held_back(&service, 0, 8), Some(0));
    set(&service, |leader| leader.term = Some(2));
    assert_eq!(held_back(&service, 1, 8), None);
    // It waits for the members no longer than 90 seconds after its first question.
    set(&service, |leader| leader.now_s = 89);
    assert_eq!(held_back(&service, 1, 8), None);
    set(&service, |leader| leader.now_s = 90);
    assert_eq!(held_back(&service, 1, 8), Some(0));
    set(&service, |leader| leader.term = None);
    let failed = asks(&service, 1, 8).unwrap_err();
    assert_eq!(failed, GroupError::NoLeader.into());
}

#[test]
fn the_policy_in_force_counts() {
    let service = heard();
    set(&service, |leader| leader.policy.devices_free = 4);
    set(&service, |leader| leader.policy.share_percent = 10);
    assert_eq!(held_back(&service, 0, 8), Some(4));
    set(&service, |leader| leader.policy = BreakerPolicy::default());
    assert_eq!(held_back(&service, 0, 8), Some(0));
}

#[derive(Debug)]
struct NoSigner;

impl Sign for NoSigner {
    fn key(&self) -> NodeKey {
        unreachable!("{NOT_ASKED}")
    }

    fn sign(&self, _: &[u8]) -> Signature {
        unreachable!("{NOT_ASKED}")
    }
}

impl CopiesPort for Mutex<PlayedLeader> {
    fn now(&self) -> Now {
        Time(self.lock().unwrap().now_s * 1_000_000).into()
    }

    async fn read<T: Send + 'static>(
        &self,
        _: GroupId,
        read: impl FnOnce(LocalGroup<'_>) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        let leader = self.lock().unwrap();
        Ok(read(LocalGroup {
            machine: &leader.state,
            coordinator: None,
            hearing: None,
            reports: None,
            description: None,
            applied: 0,
            term: leader.term,
            wall: Time(0),
        }))
    }

    async fn pause(&self, _: u64) {
        unreachable!("{NOT_ASKED}")
    }

    async fn aside<T: Send + 'static>(&self, _: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        unreachable!("{NOT_ASKED}")
    }

    async fn propose(&self, _: GroupId, _: &[u8]) -> Result<ApplyOutcome, GroupError> {
        unreachable!("{NOT_ASKED}")
    }

    async fn renew(&self, _: GroupId, _: NodeId) -> Result<(), GroupError> {
        unreachable!("{NOT_ASKED}")
    }

    async fn look<T: Send + 'static>(
        &self,
        _: GroupId,
        _: impl FnOnce(Local<'_>) -> T + Send + 'static,
    ) -> Result<Option<T>, GroupError> {
        unreachable!("{NOT_ASKED}")
    }

    async fn going(&self, _: GroupId, _: MemberId) -> Result<(), GroupError> {
        unreachable!("{NOT_ASKED}")
    }

    async fn off(&self, _: GroupId, _: NodeId) -> Result<(), GroupError> {
        unreachable!("{NOT_ASKED}")
    }

    async fn store(&self) -> Result<StoreId, GroupError> {
        unreachable!("{NOT_ASKED}")
    }

    fn tell(&self, _: Event) {
        unreachable!("{NOT_ASKED}")
    }
}

const NOT_ASKED: &str = "a review needs none of that";

impl MemberPort for Mutex<PlayedLeader> {
    type Copies = Self;
    type Signer = NoSigner;

    fn copies(&self) -> &Self {
        self
    }

    fn lineage(&self) -> Lineage {
        Lineage {
            group: 1,
            generation: 1,
            homes: Vec::new(),
            before: Vec::new(),
        }
    }

    fn breaker(&self) -> BreakerPolicy {
        self.lock().unwrap().policy.clone()
    }

    fn signer(&self, _: &Secret) -> Option<NoSigner> {
        unreachable!("{NOT_ASKED}")
    }

    fn fill(&self, _: &mut [u8]) {
        unreachable!("{NOT_ASKED}")
    }

    async fn mesh<T: Send + 'static>(
        &self,
        _: impl FnOnce(&Mesh) -> T + Send + 'static,
    ) -> Option<T> {
        unreachable!("{NOT_ASKED}")
    }

    async fn publish(&self, _: Vec<Arc<Record>>, _: Vec<(DocumentRef, Arc<[u8]>)>) {
        unreachable!("{NOT_ASKED}")
    }

    async fn ask(&self, _: MemberId, _: MemberRequest) -> Result<Vec<u8>, RequestFailure> {
        unreachable!("{NOT_ASKED}")
    }

    fn cluster_map(&self) -> Option<Arc<ClusterMap>> {
        unreachable!("{NOT_ASKED}")
    }

    fn brief(&self) {
        unreachable!("{NOT_ASKED}")
    }

    fn address(&self) -> String {
        unreachable!("{NOT_ASKED}")
    }

    async fn text(&self, _: DocumentRef) -> Option<Arc<[u8]>> {
        unreachable!("{NOT_ASKED}")
    }

    fn keep_body(&self, _: &[u8; 32], _: &[u8]) -> Result<(), String> {
        unreachable!("{NOT_ASKED}")
    }

    fn read_body(&self, _: &[u8; 32]) -> Result<Option<Arc<[u8]>>, String> {
        unreachable!("{NOT_ASKED}")
    }

    fn has_body(&self, _: &[u8; 32]) -> bool {
        unreachable!("{NOT_ASKED}")
    }

    fn retain_bodies(&self, _: &[[u8; 32]]) {
        unreachable!("{NOT_ASKED}")
    }

    fn soak_ms(&self) -> u64 {
        unreachable!("{NOT_ASKED}")
    }

    fn is_staged(&self, _: DocumentId) -> bool {
        unreachable!("{NOT_ASKED}")
    }

    async fn is_right(
        &self,
        _: Option<Hidden<String>>,
        _: Hidden<String>,
        _: LoginTrust,
    ) -> Option<bool> {
        unreachable!("{NOT_ASKED}")
    }

    async fn hash(&self, _: &UserName, _: NewPassword) -> Result<Hidden<String>, PeopleDenial> {
        unreachable!("{NOT_ASKED}")
    }

    fn token(&self, _: &Keys, _: &WantedToken<'_>) -> Result<Hidden<String>, String> {
        unreachable!("{NOT_ASKED}")
    }

    fn next_token_key(&self, _: &Keys) -> Result<NextTokenKey, String> {
        unreachable!("{NOT_ASKED}")
    }
}
