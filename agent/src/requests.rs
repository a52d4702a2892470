//! The way of a request: to the leader of a group, to a copy, or to one member; this node, or another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use muster_consensus::GroupId;
use muster_control::cluster::{ClusterMap, RecoverableCopy};
use muster_control::groups::{Local, name};
use muster_control::member::routing;
use muster_control::request::cluster::OfCluster;
use muster_control::request::member::{
    AcceptInventory, CopyAge, GetKnownClusterMap, KeepBody, ListCommitted, ListCopies, ListHealth,
    ListImages, ListPulls, MarkPart, OfMember, ReadBody, RecoverCluster, RenewLed, Succeed,
    TakeStacks, TestRules,
};
use muster_control::request::search::{self, Clues, LeaderSearch, SearchTraits, unknown_outcome};
use muster_control::request::vc::{OfCopy, OfVc};
use muster_control::request::{
    Aged, Answers, AnyRequest, RequestFailure, decode_answer, encode_answer,
};
use muster_failure_rules::RULES_BYTES_MAX;
use muster_gossip::Mesh;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::net::quic::{Delivery, MESSAGE_BYTES_MAX, NetHandle, RequestError};
use muster_model::health::HealthCheck;
use muster_model::id::{AttemptUid, NodeId};
use muster_model::image::ImageView;
use muster_model::inventory::InventoryProblem;
use muster_model::mesh::RecoveryView;
use muster_model::pull::Pull;
use muster_model::rule_test::RuleTest;
use muster_model::stacks::TakenStacks;
use muster_model::time::Time;
use muster_portal_gateway::port::Images;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster_service::NodeClusterService;
use crate::failures::RuleTester;
use crate::groups::ClusterGroup;
use crate::health::NodeParts;
use crate::images::NodeImages;
use crate::stacks::StackTaker;
use crate::vc::{AtCopy, AtLeader, LedVcs, LocalCopies};

/// How long a member may take for a request that can be sent to another one.
const CANDIDATE: Duration = Duration::from_millis(search::CANDIDATE_MS);
/// How long a member may take to say how old its copy is.
const COPY_AGE_LIMIT: Duration = Duration::from_secs(1);
/// Most members that are asked that: a group has no more voters.
const COPIES_ASKED: usize = 5;
/// How long a member may take to say which images are on their way to it.
const PULLS_LIMIT: Duration = Duration::from_secs(1);
/// How long a member may take for what it alone answers.
const NODE_LIMIT: Duration = Duration::from_secs(5);
/// How long a member may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// The same where many machines have to do something first.
const SLOW_LIMIT: Duration = Duration::from_secs(60);
/// Members that are asked the same at a time, where each has to do much for its answer.
const MEMBERS_AT_ONCE: usize = 64;
/// Pause before the next member is asked.
const AGAIN: Duration = Duration::from_millis(search::AGAIN_MS);

// The longest request of all: it carries the text of failure rules.
const _: () = assert!(2 * RULES_BYTES_MAX < MESSAGE_BYTES_MAX);

/// Requests about the cluster that this node answers at the same time.
const AT_ONCE: usize = 64;
/// Said where nobody can be asked.
const NOBODY: &str = "no member that may lead can be reached";

/// The sides of this node that answer, and the way to other members. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RequestRouter(Arc<RequestDependencies>);

/// What they are made of.
#[derive(Debug)]
pub(crate) struct RequestDependencies {
    /// This node.
    pub(crate) me: MemberId,
    /// Answers for the cluster, if its group is led here.
    pub(crate) cluster_service: Arc<NodeClusterService>,
    /// That group.
    pub(crate) group: ClusterGroup,
    /// Answers for virtual clusters that are led here.
    pub(crate) led: LedVcs,
    /// Answers by copies of their logs.
    pub(crate) local_copies: LocalCopies,
    /// The images of this node, and those that are on their way to it.
    pub(crate) images: Arc<NodeImages>,
    /// The parts of this node.
    pub(crate) parts: NodeParts,
    /// Tries failure rules on the failures of this node.
    pub(crate) tester: RuleTester,
    /// Looks what the tasks of this node do.
    pub(crate) stacks: StackTaker,
    /// The way to other members.
    pub(crate) way: PeerClient,
    /// Bounds how many requests about the cluster are answered at a time.
    pub(crate) turns: Semaphore,
}

/// A request as it is sent.
struct EncodedRequest {
    bytes: Vec<u8>,
    wanted: SearchTraits,
}

impl EncodedRequest {
    fn of(request: &AnyRequest) -> Result<Self, RequestFailure> {
        let bytes = request.encode();
        let bytes = bytes.map_err(|error| RequestFailure::invalid(error.to_string()))?;
        let wanted = SearchTraits::of(request);
        Ok(Self { bytes, wanted })
    }
}

impl RequestRouter {
    pub(crate) fn new(parts: RequestDependencies) -> Self {
        Self(Arc::new(parts))
    }

    /// How many requests about the cluster are answered at a time.
    pub(crate) fn turns() -> Semaphore {
        Semaphore::new(AT_ONCE)
    }

    /// The virtual clusters that are led here.
    pub(crate) fn led(&self) -> &LedVcs {
        &self.0.led
    }

    /// The copies of their logs.
    pub(crate) fn local_copies(&self) -> &LocalCopies {
        &self.0.local_copies
    }

    /// The group that decides for the cluster.
    pub(crate) fn group(&self) -> &ClusterGroup {
        &self.0.group
    }

    /// Asks the leader of the `cluster` group.
    ///
    /// # Errors
    /// [`RequestFailure`].
    pub(crate) async fn cluster<R: OfCluster>(
        &self,
        request: R,
    ) -> Result<R::Answer, RequestFailure>
    where
        NodeClusterService: Answers<R>,
    {
        let sent = EncodedRequest::of(&AnyRequest::Cluster(request.clone().into()))?;
        // It may be another group meanwhile.
        let group = || self.0.group.id();
        self.at_leader(group, &sent, || async {
            // Closed only with the node.
            let _turn = self.0.turns.acquire().await;
            self.0
                .cluster_service
                .answer(self.0.me, request.clone())
                .await
        })
        .await
    }

    /// Asks the leader of a virtual cluster's group.
    ///
    /// # Errors
    /// [`RequestFailure`].
    pub(crate) async fn leader<R: OfVc>(
        &self,
        group: GroupId,
        request: R,
    ) -> Result<R::Answer, RequestFailure>
    where
        for<'a> AtLeader<'a>: Answers<R>,
    {
        let sent = EncodedRequest::of(&AnyRequest::Vc {
            group: group.0,
            request: request.clone().into(),
        })?;
        let here = || async {
            let side = self.0.led.at(group);
            side.answer(self.0.me, request.clone()).await
        };
        self.at_leader(|| group, &sent, here).await
    }

    /// What the newest copy of a virtual cluster's log says that can be reached; none if no copy says
    /// anything.
    pub(crate) async fn copy<R: OfCopy>(
        &self,
        group: GroupId,
        request: &R,
    ) -> Option<Aged<R::Answer>>
    where
        for<'a> AtCopy<'a>: Answers<R>,
    {
        let mut ages = self.copy_ages(group).await;
        // Those of unknown age last.
        ages.sort_by_key(|(_, ms)| (ms.is_none(), *ms));
        for (member, age_ms) in ages {
            let asked = Instant::now();
            let Ok(value) = self.at_copy(member, group, request).await else {
                continue;
            };
            let passed = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
            let age_ms = age_ms.map(|ms| ms.saturating_add(passed));
            return Some(Aged { value, age_ms });
        }
        None
    }

    async fn at_copy<R: OfCopy>(
        &self,
        member: MemberId,
        group: GroupId,
        request: &R,
    ) -> Result<R::Answer, RequestFailure>
    where
        for<'a> AtCopy<'a>: Answers<R>,
    {
        if member == self.0.me {
            let side = self.0.local_copies.at(group);
            return side.answer(member, request.clone()).await;
        }
        let sent = EncodedRequest::of(&AnyRequest::Copy {
            group: group.0,
            request: request.clone().into(),
        })?;
        self.afar(member, &sent).await
    }

    /// Who has a copy of a group's log and can be reached, and how old each is.
    async fn copy_ages(&self, group: GroupId) -> Vec<(MemberId, Option<u64>)> {
        let mut members = self.0.way.reached_copies(group).await;
        members.truncate(COPIES_ASKED);
        if !members.contains(&self.0.me) {
            members.push(self.0.me);
        }
        let ages = members.into_iter().map(|member| async move {
            let asked = self.member(member, CopyAge { group: group.0 });
            let age = timeout(COPY_AGE_LIMIT, asked).await;
            Some((member, age.ok()?.ok()?))
        });
        join_all(ages).await.into_iter().flatten().collect()
    }

    /// Asks that member, which may be this one.
    ///
    /// # Errors
    /// [`RequestFailure`].
    pub(crate) async fn member<R: OfMember>(
        &self,
        member: MemberId,
        request: R,
    ) -> Result<R::Answer, RequestFailure>
    where
        Self: Answers<R>,
    {
        if member == self.0.me {
            return self.answer(member, request).await;
        }
        let sent = EncodedRequest::of(&AnyRequest::Member(request.into()))?;
        self.afar(member, &sent).await
    }

    /// The images that are on their way to these members, of those that answer soon.
    pub(crate) async fn pulls_of(&self, nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, Vec<Pull>> {
        let members = self.0.way.reached(nodes.clone()).await;
        let asked = members.into_iter().map(|(node, member)| async move {
            let asked = timeout(PULLS_LIMIT, self.member(member, ListPulls));
            Some((node, asked.await.ok()?.ok()?))
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Asks a member for something that it alone answers; none if no member of that name can be
    /// reached, or it does not answer soon.
    pub(crate) async fn of_node<R: OfMember>(
        &self,
        node: NodeId,
        request: R,
    ) -> Option<Result<R::Answer, RequestFailure>>
    where
        Self: Answers<R>,
    {
        let members = self.0.way.reached(BTreeSet::from([node])).await;
        let (_, member) = members.into_iter().next()?;
        timeout(NODE_LIMIT, self.member(member, request)).await.ok()
    }

    /// Asks each of these members for something that it alone answers, and that may take long. Those that cannot be
    /// reached are left out.
    pub(crate) async fn of_nodes<R: OfMember>(
        &self,
        nodes: BTreeSet<NodeId>,
        request: R,
    ) -> Vec<(NodeId, Result<R::Answer, RequestFailure>)>
    where
        Self: Answers<R>,
    {
        let members = self.0.way.reached(nodes).await;
        let asked = members.into_iter().map(|(node, member)| {
            let request = request.clone();
            async move { (node, self.member(member, request).await) }
        });
        stream::iter(asked)
            .buffer_unordered(MEMBERS_AT_ONCE)
            .collect()
            .await
    }

    /// Asks each of these members something else that it alone answers, all at the same moment and for so long at
    /// most. Those that cannot be reached are left out.
    pub(crate) async fn of_each<R: OfMember>(
        &self,
        requests: BTreeMap<NodeId, R>,
        limit: Duration,
    ) -> Vec<(NodeId, Result<R::Answer, RequestFailure>)>
    where
        Self: Answers<R>,
    {
        let members = self.0.way.reached(requests.keys().cloned().collect()).await;
        let asked = members.into_iter().filter_map(|(node, member)| {
            let request = requests.get(&node)?.clone();
            let asked = timeout(limit, self.member(member, request));
            let late = move || format!("it does not answer within {} s", limit.as_secs());
            Some(async move {
                let answer = asked.await;
                (
                    node,
                    answer.unwrap_or_else(|_| Err(RequestFailure::unavailable(late()))),
                )
            })
        });
        join_all(asked).await
    }

    /// Who leads a group, as far as the copy here knows.
    pub(crate) async fn leader_here(&self, group: GroupId) -> Option<MemberId> {
        let look = |local: Local<'_>| local.standing.view.leader;
        let leader = self.0.group.groups().look(group, look).await;
        leader.ok().flatten().flatten().and_then(name::member)
    }

    /// Answers a request that came from another member, as bytes.
    pub(crate) async fn answer_bytes(&self, from: MemberId, bytes: &[u8]) -> Option<Vec<u8>> {
        match AnyRequest::decode(bytes) {
            Ok(AnyRequest::Cluster(request)) => {
                // Closed only with the node.
                let _turn = self.0.turns.acquire().await;
                request.answer(&*self.0.cluster_service, from).await
            }
            Ok(AnyRequest::Vc { group, request }) => {
                let side = self.0.led.at(GroupId(group));
                request.answer(&side, from).await
            }
            Ok(AnyRequest::Copy { group, request }) => {
                let side = self.0.local_copies.at(GroupId(group));
                request.answer(&side, from).await
            }
            Ok(AnyRequest::Member(request)) => request.answer(self, from).await,
            Err(error) => encode_answer::<()>(&Err(RequestFailure::invalid(format!(
                "the request is not understood; is this an older release? {error}"
            )))),
        }
    }

    /// Asks the leader of a group, and looks for it for as long as none is found.
    async fn at_leader<T, F>(
        &self,
        group_of: impl Fn() -> GroupId,
        sent: &EncodedRequest,
        here: impl Fn() -> F,
    ) -> Result<T, RequestFailure>
    where
        T: serde::de::DeserializeOwned,
        F: Future<Output = Result<T, RequestFailure>>,
    {
        let begun = Instant::now();
        let until = Time::from_millis(search::PATIENCE_MS);
        let mut search = LeaderSearch::new(sent.wanted, until);
        loop {
            let group = group_of();
            let clues = match search.is_begun() {
                false if self.0.group.groups().leads(group) => Clues::led_by(self.0.me),
                _ => self.clues(group).await,
            };
            let answer = match search.next(&clues) {
                Some(member) if member == self.0.me => here().await,
                Some(member) => self.while_likeliest((group, member), sent, &search).await,
                None => Err(RequestFailure::unavailable(NOBODY)),
            };
            let passed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let named = (self.is_former(group), self.name_of(group));
            if let Some(end) = search.answered(Time::from_millis(passed), answer, named) {
                return end;
            }
            sleep(AGAIN).await;
        }
    }

    /// Whether another group has taken the place of a virtual cluster's.
    fn is_former(&self, group: GroupId) -> bool {
        let served = self.0.led.served();
        group != self.0.group.id() && !served.is_empty() && !served.contains(&group)
    }

    fn name_of(&self, group: GroupId) -> &'static str {
        match group == self.0.group.id() {
            true => "the cluster",
            false => "the virtual cluster",
        }
    }

    /// Asks another member.
    async fn afar<T: serde::de::DeserializeOwned>(
        &self,
        member: MemberId,
        sent: &EncodedRequest,
    ) -> Result<T, RequestFailure> {
        if !sent.wanted.may_be_given_up() {
            return self.0.way.ask(member, sent).await;
        }
        // One that is gone without a word does not use up what the others have.
        let asked = timeout(CANDIDATE, self.0.way.ask(member, sent)).await;
        asked.unwrap_or_else(|_| {
            Err(RequestFailure::unknown(format!(
                "member {} does not answer",
                member.0
            )))
        })
    }

    /// Asks another member, until a third one has begun to lead.
    async fn while_likeliest<T: serde::de::DeserializeOwned>(
        &self,
        (group, member): (GroupId, MemberId),
        sent: &EncodedRequest,
        search: &LeaderSearch,
    ) -> Result<T, RequestFailure> {
        let asked = self.afar(member, sent);
        if !sent.wanted.may_be_given_up() {
            return asked.await;
        }
        tokio::pin!(asked);
        loop {
            if let Ok(answer) = timeout(AGAIN, &mut asked).await {
                return answer;
            }
            if search.is_overtaken(&self.clues(group).await) {
                let text = format!("member {} leads no more, and did not answer", member.0);
                return Err(RequestFailure::unknown(text));
            }
        }
    }

    /// What is known here of the leader of a group.
    async fn clues(&self, group: GroupId) -> Clues {
        let here = self.leader_here(group).await;
        let mesh = &self.0.way.mesh;
        let look = mesh.look(move |mesh| Clues::of(mesh, group, here));
        look.await.unwrap_or_default()
    }
}

impl Answers<RenewLed> for RequestRouter {
    async fn answer(&self, _: MemberId, request: RenewLed) -> Result<Vec<u64>, RequestFailure> {
        let RenewLed { groups, node } = request;
        Ok(self.0.led.renew_all(groups, &node).await)
    }
}

impl Answers<ListCommitted> for RequestRouter {
    async fn answer(
        &self,
        _: MemberId,
        request: ListCommitted,
    ) -> Result<Vec<(u64, u64)>, RequestFailure> {
        Ok(self.0.led.committed(request.groups).await)
    }
}

impl Answers<CopyAge> for RequestRouter {
    async fn answer(&self, _: MemberId, request: CopyAge) -> Result<Option<u64>, RequestFailure> {
        self.0.local_copies.age(GroupId(request.group)).await
    }
}

impl Answers<ListPulls> for RequestRouter {
    async fn answer(&self, _: MemberId, _: ListPulls) -> Result<Vec<Pull>, RequestFailure> {
        Ok(self.0.images.pulls().list())
    }
}

impl Answers<ListImages> for RequestRouter {
    async fn answer(&self, _: MemberId, _: ListImages) -> Result<Vec<ImageView>, RequestFailure> {
        let images = Images::list(&*self.0.images).await;
        images.map_err(|error| RequestFailure::unavailable(error.to_string()))
    }
}

impl Answers<ListHealth> for RequestRouter {
    async fn answer(&self, _: MemberId, _: ListHealth) -> Result<Vec<HealthCheck>, RequestFailure> {
        Ok(self.0.parts.now().checks)
    }
}

impl Answers<MarkPart> for RequestRouter {
    async fn answer(
        &self,
        _: MemberId,
        request: MarkPart,
    ) -> Result<Vec<HealthCheck>, RequestFailure> {
        let MarkPart { part, mark } = request;
        self.0.parts.mark_part(&part, mark).await
    }
}

impl Answers<AcceptInventory> for RequestRouter {
    async fn answer(
        &self,
        _: MemberId,
        _: AcceptInventory,
    ) -> Result<Vec<InventoryProblem>, RequestFailure> {
        self.0.parts.accept().await
    }
}

impl Answers<TestRules> for RequestRouter {
    async fn answer(&self, _: MemberId, request: TestRules) -> Result<RuleTest, RequestFailure> {
        self.0.tester.test(request.rules).await
    }
}

impl Answers<TakeStacks> for RequestRouter {
    async fn answer(
        &self,
        _: MemberId,
        request: TakeStacks,
    ) -> Result<Vec<(AttemptUid, TakenStacks)>, RequestFailure> {
        self.0.stacks.take(request.0).await
    }
}

/// Answered by what decides for the cluster.
macro_rules! of_cluster_group {
    ($($request:ty => $answer:ty,)*) => {
        $(impl Answers<$request> for RequestRouter {
            async fn answer(&self, from: MemberId, request: $request) -> Result<$answer, RequestFailure> {
                self.0.cluster_service.answer(from, request).await
            }
        })*
    };
}

of_cluster_group! {
    KeepBody => (),
    ReadBody => String,
    ListCopies => Vec<RecoverableCopy>,
    GetKnownClusterMap => Option<ClusterMap>,
    RecoverCluster => RecoveryView,
    Succeed => (),
}

/// The way to other members.
#[derive(Clone, Debug)]
pub(crate) struct PeerClient {
    pub(crate) mesh: MeshHandle,
    pub(crate) net: NetHandle,
}

impl PeerClient {
    /// Members that say they have a copy of a group's log and can be reached, the likeliest leader first.
    async fn reached_copies(&self, group: GroupId) -> Vec<MemberId> {
        let look = self.mesh.look(move |mesh| {
            let copies = routing::copies(mesh, group).into_iter().map(|(id, _)| id);
            let reached = copies.filter(|id| mesh.reach(*id) != Reach::Unreachable);
            reached.collect()
        });
        look.await.unwrap_or_default()
    }

    /// Those of these nodes that are members and can be reached.
    async fn reached(&self, nodes: BTreeSet<NodeId>) -> Vec<(NodeId, MemberId)> {
        let look = self.mesh.look(move |mesh| {
            let members = mesh.members().filter_map(|id| mesh.member(id));
            let reached = members.filter(|member| member.reach != Reach::Unreachable);
            let named = reached.filter_map(|member| {
                let name: NodeId = member.body.name.parse().ok()?;
                nodes.contains(&name).then_some((name, member.id))
            });
            named.collect()
        });
        look.await.unwrap_or_default()
    }

    /// Asks that member, and no other.
    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        member: MemberId,
        sent: &EncodedRequest,
    ) -> Result<T, RequestFailure> {
        let answer = self.ask_bytes(member, sent).await?;
        let odd = |error| format!("member {} answered nonsense: {error}", member.0);
        decode_answer(&answer).map_err(|error| match sent.wanted.may_repeat {
            true => RequestFailure::unavailable(odd(error)),
            false => unknown_outcome(&odd(error)),
        })?
    }

    /// Asks that member something that only it is asked; gives the answer as bytes.
    pub(crate) async fn ask_member(
        &self,
        member: MemberId,
        request: muster_control::request::member::MemberRequest,
    ) -> Result<Vec<u8>, RequestFailure> {
        let sent = EncodedRequest::of(&AnyRequest::Member(request))?;
        self.ask_bytes(member, &sent).await
    }

    async fn ask_bytes(
        &self,
        member: MemberId,
        sent: &EncodedRequest,
    ) -> Result<Vec<u8>, RequestFailure> {
        let limit = match sent.wanted.is_slow {
            true => SLOW_LIMIT,
            false => ANSWER_LIMIT,
        };
        let delivery = match sent.wanted.may_repeat {
            true => Delivery::AtLeastOnce,
            false => Delivery::AtMostOnce,
        };
        let asked = self.net.request((member, delivery), &sent.bytes, limit);
        let error = match asked.await {
            Ok(answer) => return Ok(answer),
            Err(error @ RequestError::TooLong(_)) => {
                return Err(RequestFailure::invalid(error.to_string()));
            }
            Err(error) => error,
        };
        let is_sent = matches!(error, RequestError::NoAnswer(_));
        let text = format!("{}: {error}", self.name(member).await);
        match is_sent && !sent.wanted.may_repeat {
            true => Err(unknown_outcome(&text)),
            false => Err(RequestFailure::unavailable(text)),
        }
    }

    /// A member's name; its number where that is not known.
    async fn name(&self, member: MemberId) -> String {
        let look = move |mesh: &Mesh| Some(mesh.member(member)?.body.name.clone());
        let name = self.mesh.look(look).await.ok().flatten();
        name.unwrap_or_else(|| format!("member {}", member.0))
    }
}
