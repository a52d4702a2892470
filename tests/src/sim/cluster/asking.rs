//! Questions to the leaders of groups, which the search of the agent finds.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_consensus::{GroupId, NodeId};
use muster_control::cluster::Binding;
use muster_control::groups::{GroupHostInput, name};
use muster_control::lease::{self, RenewalRequest};
use muster_control::node;
use muster_control::request::cluster::{Bind, GetClusterMap, GetSilence, OfCluster};
use muster_control::request::search::{AGAIN_MS, CANDIDATE_MS, Clues, LeaderSearch, SearchTraits};
use muster_control::request::vc::{ChangeJob, FindJob, GetTerm, OfVc};
use muster_control::request::{AnyRequest, Request as Asking, RequestFailure, decode_answer};
use muster_gossip::frame::Carrier;
use muster_model::id::VcName;
use muster_model::time::Time;

use super::frame::ClusterFrame;
use super::here::Asked;
use super::machine::MachineDue;
use super::{At, Cluster, Out};
use crate::sim::engine::Sending;
use crate::sim::mesh::member;

/// What a virtual cluster is bound to is asked for so long, ms: it is asked again.
const BIND_PATIENCE_MS: u64 = 3_000;
/// A member may take so long for what may not be asked of another one meanwhile, ms.
const SLOW_MS: u64 = 15_000;

static UNSURE: RequestFailure = RequestFailure::Unknown(String::new());

/// Why something is asked.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// A user's job, by its number.
    Submit(u64),
    /// A user looks at a job that was lost so many times before.
    Look(u64, u32),
    Learn(GroupId, VcName),
    Renew(RenewalRequest),
    Silence(GroupId, lease::SilenceQuestion),
    Brief,
    /// What is bound to the virtual cluster of a group.
    Bind(GroupId),
    /// An admin's change of the cluster.
    Admin(u64),
}

/// What the leader of a group is asked, as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Question {
    group: GroupId,
    wanted: SearchTraits,
    bytes: Arc<[u8]>,
}

impl Question {
    /// To whoever leads a virtual cluster.
    pub(super) fn vc<R: OfVc>(group: GroupId, request: R) -> Self {
        let request = request.into();
        let group_id = group.0;
        Self::of(
            group,
            &AnyRequest::Vc {
                group: group_id,
                request,
            },
        )
    }

    fn of(group: GroupId, request: &AnyRequest) -> Self {
        Self {
            group,
            wanted: SearchTraits::of(request),
            bytes: request.encode().unwrap_or_default().into(),
        }
    }
}

/// Who waits for the answer of one member.
pub(super) enum Call {
    /// Something that this machine answers itself.
    Task(Asked),
    /// An admin.
    Admin(u64),
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}

/// A question that waits for its answer.
#[derive(Clone, Debug)]
struct PendingQuestion {
    question: Question,
    purpose: Purpose,
    search: LeaderSearch,
    tries: u32,
    /// When this try began.
    since: Time,
}

/// What a process has asked.
#[derive(Debug, Default)]
pub(super) struct Asks {
    waiting: BTreeMap<u64, PendingQuestion>,
    /// What members are asked that nobody else can answer.
    pub(super) calls: BTreeMap<u64, Call>,
}

/// What an answer says, if it says that something was done.
fn said<R: Asking>(answer: Option<&[u8]>) -> Option<R::Answer> {
    decode_answer::<R::Answer>(answer?).ok()?.ok()
}

impl Cluster {
    /// A question to whoever leads the cluster.
    pub(super) fn to_cluster<R: OfCluster>(&self, node: usize, request: R) -> Question {
        let request = AnyRequest::Cluster(request.into());
        Question::of(self.cluster_service(node), &request)
    }

    /// Asks the leader of a group, for so many milliseconds.
    pub(super) fn ask(
        &mut self,
        (now, node): At,
        (question, purpose): (Question, Purpose),
        patience_ms: u64,
        out: &mut Out,
    ) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        // Another one than any that an earlier life has asked.
        let number = self.random.next();
        let ask = PendingQuestion {
            search: LeaderSearch::new(question.wanted, now.plus_millis(patience_ms)),
            question,
            purpose,
            tries: 0,
            since: now,
        };
        process.asks.waiting.insert(number, ask);
        self.try_asking((now, node), number, out);
    }

    fn try_asking(&mut self, (now, node): At, number: u64, out: &mut Out) {
        let cluster_service = self.cluster_service(node);
        let Some(ask) = self.waiting(node, number) else {
            return;
        };
        // What the cluster's own group is asked is asked of the one that decides for it by now.
        if ask.question.group != cluster_service
            && name::kind(ask.question.group) == name::GroupKind::Cluster
        {
            ask.question.group = cluster_service;
        }
        ask.tries += 1;
        ask.since = now;
        let (question, tries) = (ask.question.clone(), ask.tries);
        let clues = self.clues(node, question.group);
        let ask = self.waiting(node, number);
        let Some(to) = ask.and_then(|ask| ask.search.next(&clues)) else {
            let nobody = RequestFailure::unavailable("nobody is known that may lead");
            return self.try_ended((now, node), number, Err(nobody), out);
        };
        let again = MachineDue::Again(number, tries);
        self.machines[node].later(now.plus_millis(AGAIN_MS), again);
        if to == member(node) {
            return self.asked((now, node), (node, number), question.bytes, out);
        }
        let asked = ClusterFrame::Ask(number, question.bytes);
        self.send((now, node), to.index(), asked, out);
    }

    fn waiting(&mut self, node: usize, number: u64) -> Option<&mut PendingQuestion> {
        let process = self.machines[node].process.as_mut()?;
        process.asks.waiting.get_mut(&number)
    }

    /// What is known on a machine of the leader of a group.
    fn clues(&self, node: usize, group: GroupId) -> Clues {
        let here = self.machines[node].leader_seen(group).map(member);
        let mesh = self.mesh.core(node);
        mesh.map_or_else(Clues::default, |mesh| Clues::of(mesh, group, here))
    }

    /// A question waits for its answer still: the member that is asked may lead no more.
    pub(super) fn again(
        &mut self,
        now: Time,
        node: usize,
        (number, tries): (u64, u32),
        out: &mut Out,
    ) {
        let waits = |ask: &&mut PendingQuestion| ask.tries == tries;
        let Some(ask) = self.waiting(node, number).filter(waits) else {
            return;
        };
        let (group, since) = (ask.question.group, ask.since);
        let is_patient = !ask.question.wanted.may_be_given_up();
        let limit_ms = if is_patient { SLOW_MS } else { CANDIDATE_MS };
        let clues = self.clues(node, group);
        let ask = self.waiting(node, number);
        let is_overtaken = ask.is_some_and(|ask| ask.search.is_overtaken(&clues));
        if is_overtaken && !is_patient || since.plus_millis(limit_ms) <= now {
            let silent = RequestFailure::unknown("it does not answer");
            return self.try_ended((now, node), number, Err(silent), out);
        }
        let again = MachineDue::Again(number, tries);
        self.machines[node].later(now.plus_millis(AGAIN_MS), again);
    }

    /// An answer arrives. That of a member that is asked no more comes too late.
    pub(super) fn hear_answer(
        &mut self,
        at: At,
        from: usize,
        (number, answer): (u64, Arc<[u8]>),
        out: &mut Out,
    ) {
        if self.hear_called(at, (number, &answer), out) {
            return;
        }
        let is_asked = |ask: &&mut PendingQuestion| ask.search.asked() == Some(member(from));
        if self.waiting(at.1, number).filter(is_asked).is_none() {
            return;
        }
        let answer = match decode_answer::<()>(&answer) {
            Ok(Err(failure)) => Err(failure),
            _ => Ok((from, answer)),
        };
        self.try_ended(at, number, answer, out);
    }

    /// Whether one member was asked this, and no other.
    fn hear_called(&mut self, at: At, (id, answer): (u64, &[u8]), out: &mut Out) -> bool {
        let process = self.machines[at.1].process.as_mut();
        match process.and_then(|it| it.asks.calls.remove(&id)) {
            Some(Call::Task(slot)) => {
                slot.fill(Ok(answer.to_vec()));
                self.poll(at, out);
            }
            Some(Call::Admin(change)) => self.done(change, Ok(answer)),
            None => return false,
        }
        true
    }

    /// One member was asked, and has not answered.
    pub(super) fn is_late(&mut self, at: At, id: u64, out: &mut Out) {
        let process = self.machines[at.1].process.as_mut();
        let silent = RequestFailure::unknown("it does not answer");
        match process.and_then(|it| it.asks.calls.remove(&id)) {
            Some(Call::Task(slot)) => {
                slot.fill(Err(silent));
                self.poll(at, out);
            }
            Some(Call::Admin(change)) => self.done(change, Err(&silent)),
            None => {}
        }
    }

    /// What came of one try.
    fn try_ended(
        &mut self,
        (now, node): At,
        number: u64,
        answer: Result<(usize, Arc<[u8]>), RequestFailure>,
        out: &mut Out,
    ) {
        let Some(group) = self.waiting(node, number).map(|ask| ask.question.group) else {
            return;
        };
        let named = (self.is_former(node, group), "the group");
        let Some(ask) = self.waiting(node, number) else {
            return;
        };
        let tries = ask.tries;
        match ask.search.answered(now, answer, named) {
            Some(end) => self.answered((now, node), number, end, out),
            None => {
                let again = MachineDue::Elsewhere(number, tries);
                self.machines[node].later(now.plus_millis(AGAIN_MS), again);
            }
        }
    }

    /// Whether another group has taken the place of a virtual cluster's, as far as the machine was told.
    fn is_former(&self, node: usize, group: GroupId) -> bool {
        let process = self.machines[node].process.as_ref();
        let cluster_map = process.and_then(|it| it.core.cluster_map());
        let served = cluster_map.is_some_and(|it| !it.vcs.is_empty());
        let mut creations = cluster_map.into_iter().flat_map(|it| &it.vcs);
        let is_vc = name::kind(group) == name::GroupKind::Vc;
        is_vc && served && !creations.any(|creation| creation.group == group.0)
    }

    /// The next member is asked.
    pub(super) fn again_elsewhere(
        &mut self,
        now: Time,
        node: usize,
        (number, tries): (u64, u32),
        out: &mut Out,
    ) {
        let waits = |ask: &&mut PendingQuestion| ask.tries == tries;
        if self.waiting(node, number).filter(waits).is_some() {
            self.try_asking((now, node), number, out);
        }
    }

    fn answered(
        &mut self,
        (now, node): At,
        number: u64,
        answer: Result<(usize, Arc<[u8]>), RequestFailure>,
        out: &mut Out,
    ) {
        let process = self.machines[node].process.as_mut();
        let Some(ask) = process.and_then(|it| it.asks.waiting.remove(&number)) else {
            return;
        };
        let failed = answer.as_ref().err();
        let heard = answer.as_ref().ok().map(|(_, answer)| &**answer);
        match ask.purpose {
            Purpose::Submit(job) => {
                let told = said::<ChangeJob>(heard);
                // What comes once more may be carried out long after it was given up.
                let failed = failed.map(|failed| if self.echo_ms > 0 { &UNSURE } else { failed });
                self.users.submitted(job, (told, failed), &mut self.account);
            }
            Purpose::Look(job, lost) => {
                let found = said::<FindJob>(heard);
                let users = &self.users;
                users.looked((job, lost), found, &mut self.account);
            }
            Purpose::Admin(number) => {
                self.done(number, heard.ok_or_else(|| failed.unwrap_or(&UNSURE)))
            }
            Purpose::Brief => self.follow_map(now, node, said::<GetClusterMap>(heard), out),
            Purpose::Bind(group) => {
                if let Some(news) = said::<Bind>(heard) {
                    self.keep(now, node, GroupHostInput::Bound { group, news }, out);
                }
            }
            Purpose::Learn(group, vc) => match said::<GetTerm>(heard) {
                Some(led) => {
                    let leader = node::VcLeader {
                        reign: (led.generation, led.term),
                        node: NodeId(led.leader),
                    };
                    self.serve(now, node, node::NodeInput::Learned { vc, leader }, out);
                }
                None => self.machines[node].later(now.plus_millis(200), MachineDue::Learn(group)),
            },
            Purpose::Renew(request) => {
                let granted = heard.is_some();
                self.serve(
                    now,
                    node,
                    node::NodeInput::Renewed { request, granted },
                    out,
                );
            }
            Purpose::Silence(group, question) => {
                let ms = said::<GetSilence>(heard);
                let silent = ms.map(|ms| ms >= question.for_ms);
                let silence = GroupHostInput::Silence {
                    group,
                    question,
                    silent,
                };
                self.keep(now, node, silence, out);
            }
        }
    }

    /// The leader of a virtual cluster wants the cluster's to bind it, and to know who is bound to what.
    pub(super) fn bind(
        &mut self,
        (now, node): At,
        (group, vc): (GroupId, VcName),
        (known, binding): (u64, Box<Binding>),
        out: &mut Out,
    ) {
        let binding = *binding;
        let asked = self.to_cluster(node, Bind { vc, binding, known });
        let purpose = Purpose::Bind(group);
        self.ask((now, node), (asked, purpose), BIND_PATIENCE_MS, out);
    }

    pub(super) fn send(&mut self, at: At, to: usize, frame: ClusterFrame, out: &mut Out) {
        self.echo(at, to, &frame);
        let bytes = frame.bytes();
        out.sends.push(Sending {
            to,
            carrier: Carrier::Stream,
            frame,
            bytes,
        });
    }
}
