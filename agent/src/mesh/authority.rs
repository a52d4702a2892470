//! The way to the member that leads a group: this one, or another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use muster_consensus::GroupId;
use muster_control::groups::{Local, name};
use muster_gossip::Mesh;
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::net::quic::{Delivery, NetHandle, RequestError};
use muster_model::id::NodeId;
use muster_model::pull::Pull;
use tokio::time::{Instant, sleep, timeout};

use super::told;
use crate::affairs::question::{Answer, Asker, Question, Rejection};
use crate::affairs::recovery::copies_here;
use crate::groups::ClusterGroup;
use crate::loops::cluster::ClusterHandle;
use crate::pulls::Pulls;
use crate::vc::{self, CopyDesk, Desk, VcCopies};

/// How long somebody who leads is looked for. An election takes less than a second.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long one of them may take for a question that can be asked again.
const CANDIDATE: Duration = Duration::from_secs(3);
/// How long a member may take to say how old its copy is.
const COPY_AGE_LIMIT: Duration = Duration::from_secs(1);
/// Most members that are asked that: a group has no more voters.
const COPIES_ASKED: usize = 5;
/// How long a member may take to say which images are on their way to it.
const PULLS_LIMIT: Duration = Duration::from_secs(1);
/// How long a member may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// The same where many machines have to do something first.
const SLOW_LIMIT: Duration = Duration::from_secs(60);
/// Pause before all are asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Reaches the member that leads the group which a question is for: this one, or another.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    /// This node.
    pub(super) me: MemberId,
    /// Settles the cluster's affairs, if they are led here.
    pub(super) cluster: ClusterHandle,
    /// The group that they are settled in.
    pub(super) group: ClusterGroup,
    /// Answers for virtual clusters that are led here.
    pub(super) desk: Desk,
    /// The copies of the logs of the virtual clusters that this node serves.
    pub(super) copies: VcCopies,
    /// What they say, whoever leads.
    pub(super) copy_desk: CopyDesk,
    /// The images that are on their way to this node.
    pub(super) pulls: Pulls,
    /// The way to other members.
    pub(super) way: Way,
}

impl Authority {
    /// The copies of the logs of the virtual clusters that this node serves.
    pub(crate) const fn copies(&self) -> &VcCopies {
        &self.copies
    }

    /// What they say, whoever leads.
    pub(crate) const fn copy_desk(&self) -> &CopyDesk {
        &self.copy_desk
    }

    /// Asks, for this node itself, whoever leads.
    pub(crate) async fn ask(&self, question: Question) -> Answer {
        let until = Instant::now() + PATIENCE;
        let mut tried = Vec::new();
        let mut named = None;
        let mut last = String::new();
        let mut unsure = false;
        loop {
            // The cluster's own may be another one meanwhile.
            let group = self.group_of(&question);
            let next = match named.take() {
                Some(member) => Some(member),
                None => self.candidate(group, &tried).await,
            };
            let answer = match next {
                Some(member) => self.ask_while_likeliest(group, member, &question).await,
                // Where one has answered, what it said tells more.
                None if last.is_empty() => unavailable("no member that may lead can be reached"),
                None => unavailable(&last),
            };
            match answer {
                Answer::Rejected(Rejection::Elsewhere { member }) => {
                    named = Some(MemberId(member)).filter(|named| Some(*named) != next);
                }
                Answer::Rejected(Rejection::Unavailable(why)) => last = why,
                Answer::Rejected(Rejection::Unknown(why)) if question.is_repeatable() => {
                    unsure |= question.changes();
                    last = why;
                }
                answer => return answer,
            }
            let is_over = Instant::now() >= until || self.is_former(group);
            if is_over && unsure {
                return Answer::Rejected(unknown_outcome(&last));
            }
            if is_over {
                return Answer::Rejected(Rejection::Unavailable(format!(
                    "nobody decides this now, try again when enough of the voters of {} can be \
                     reached: {last}; if they are lost for good, see `muster cluster recover --help`",
                    self.name_of(group)
                )));
            }
            match next {
                Some(member) if named.is_none() => tried.push(member),
                Some(_) => {}
                None => tried.clear(),
            }
            sleep(AGAIN).await;
        }
    }

    /// Asks this node for another member: if it does not lead, the answer says who does.
    pub(crate) async fn ask_here(&self, from: MemberId, question: Question) -> Answer {
        if let Question::Copies { groups } = &question {
            let found = copies_here(self.group.groups(), groups).await;
            return found.map_or_else(Answer::Rejected, Answer::Copies);
        }
        let answer = match question {
            Question::Vc { group, question } => self.of_leader(GroupId(group), question).await,
            Question::OfCopy { group, question } => {
                let said = self.copy_desk.answer(GroupId(group), question).await;
                said.map(|(answer, ms)| Answer::OfCopy { ms, answer })
            }
            Question::CopyAge { group } => {
                let age = self.copy_desk.age(GroupId(group)).await;
                age.map(|ms| Answer::CopyAge { ms })
            }
            Question::RenewAll { groups, node } => {
                Ok(Answer::Renewed(self.desk.renew_all(groups, &node).await))
            }
            Question::Pulls => Ok(Answer::Pulls(self.pulls.list())),
            Question::Committed { groups } => {
                Ok(Answer::Committed(self.desk.committed(groups).await))
            }
            question => Ok(self.cluster.ask(Asker(from), question).await),
        };
        answer.unwrap_or_else(Answer::Rejected)
    }

    /// What the leader of a virtual cluster says, if it is led here.
    async fn of_leader(&self, group: GroupId, question: vc::Question) -> Result<Answer, Rejection> {
        let answer = match question {
            vc::Question::GiveUp(member) => {
                let member = MemberId(member);
                self.desk.give_up(&self.copies, group, member).await
            }
            question => self.desk.answer(group, question).await,
        };
        answer.map(Answer::Vc)
    }

    /// What the newest copy of a virtual cluster's log says that can be reached, and how many milliseconds
    /// ago it was known to be up to date; none if no copy says anything.
    pub(crate) async fn ask_copies(
        &self,
        group: GroupId,
        question: &vc::Question,
    ) -> Option<(vc::Answer, Option<u64>)> {
        let mut ages = self.copy_ages(group).await;
        // Those of unknown age last.
        ages.sort_by_key(|(_, ms)| (ms.is_none(), *ms));
        for (member, _) in ages {
            let asked = Instant::now();
            let question = Question::OfCopy {
                group: group.0,
                question: question.clone(),
            };
            if let Answer::OfCopy { ms, answer } = self.ask_at(member, question).await {
                let passed = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                return Some((answer, ms.map(|ms| ms.saturating_add(passed))));
            }
        }
        None
    }

    /// Who has a copy of a group's log and can be reached, and how old each is.
    async fn copy_ages(&self, group: GroupId) -> Vec<(MemberId, Option<u64>)> {
        let mut members = self.way.reached_copies(group).await;
        members.truncate(COPIES_ASKED);
        if !members.contains(&self.me) {
            members.push(self.me);
        }
        let ages = members.into_iter().map(|member| async move {
            let question = Question::CopyAge { group: group.0 };
            let asked = timeout(COPY_AGE_LIMIT, self.ask_at(member, question));
            match asked.await {
                Ok(Answer::CopyAge { ms }) => Some((member, ms)),
                _ => None,
            }
        });
        join_all(ages).await.into_iter().flatten().collect()
    }

    /// The images that are on their way to these members, of those that answer soon.
    pub(crate) async fn pulls_of(&self, nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, Vec<Pull>> {
        let members = self.way.reached(nodes.clone()).await;
        let asked = members.into_iter().map(|(node, member)| async move {
            let asked = timeout(PULLS_LIMIT, self.ask_at(member, Question::Pulls));
            match asked.await {
                Ok(Answer::Pulls(pulls)) => Some((node, pulls)),
                _ => None,
            }
        });
        join_all(asked).await.into_iter().flatten().collect()
    }

    /// Who leads a group, as far as the copy here knows.
    pub(crate) async fn leader(&self, group: GroupId) -> Option<MemberId> {
        let look = |local: Local<'_>| local.standing.view.leader;
        let leader = self.group.groups().look(group, look).await;
        leader.ok().flatten().flatten().and_then(name::member)
    }

    /// The group whose leader answers.
    fn group_of(&self, question: &Question) -> GroupId {
        match question {
            Question::Vc { group, .. } => GroupId(*group),
            _ => self.group.id(),
        }
    }

    /// Whether another group has taken the place of a virtual cluster's.
    fn is_former(&self, group: GroupId) -> bool {
        let served = self.copies.groups();
        group != self.group.id() && !served.is_empty() && !served.contains(&group)
    }

    fn name_of(&self, group: GroupId) -> &'static str {
        if group == self.group.id() {
            "the cluster"
        } else {
            "the virtual cluster"
        }
    }

    /// Asks that member, which may be this one.
    pub(crate) async fn ask_at(&self, member: MemberId, question: Question) -> Answer {
        if member == self.me {
            return self.ask_here(self.me, question).await;
        }
        if !may_be_given_up(&question) {
            return self.way.ask(member, question).await;
        }
        // One that is gone without a word does not use up what the others have.
        let asked = timeout(CANDIDATE, self.way.ask(member, question)).await;
        asked.unwrap_or_else(|_| {
            let text = format!("member {} does not answer", member.0);
            Answer::Rejected(Rejection::Unknown(text))
        })
    }

    /// Asks that member, until another one is said to lead: a machine that lost power refuses nothing, and
    /// the others have a new leader long before it counts as silent.
    async fn ask_while_likeliest(
        &self,
        group: GroupId,
        member: MemberId,
        question: &Question,
    ) -> Answer {
        let asked = self.ask_at(member, question.clone());
        if member == self.me || !may_be_given_up(question) {
            return asked.await;
        }
        tokio::pin!(asked);
        let before = self.said_to_lead(group).await;
        loop {
            if let Ok(answer) = timeout(AGAIN, &mut asked).await {
                return answer;
            }
            let now = self.said_to_lead(group).await;
            if is_overtaken(member, before, now) {
                let text = format!("member {} leads no more, and did not answer", member.0);
                return Answer::Rejected(Rejection::Unknown(text));
            }
        }
    }

    /// Who leads a group: as the copy here knows, or as those say who have one.
    async fn said_to_lead(&self, group: GroupId) -> Option<MemberId> {
        match self.leader(group).await {
            Some(leader) => Some(leader),
            None => self.way.leader(group).await,
        }
    }

    /// Somebody who may lead: as the copy here says, or as those say who have one.
    async fn candidate(&self, group: GroupId, tried: &[MemberId]) -> Option<MemberId> {
        let leader = self.leader(group).await;
        if let Some(leader) = leader.filter(|leader| !tried.contains(leader)) {
            return Some(leader);
        }
        let others = self.way.copies(group).await;
        others.into_iter().find(|other| !tried.contains(other))
    }
}

/// The way to other members.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(super) mesh: MeshHandle,
    pub(super) net: NetHandle,
}

impl Way {
    /// Members that say they have a copy of a group's log, the likeliest leader first.
    pub(crate) async fn copies(&self, group: GroupId) -> Vec<MemberId> {
        let look = self.mesh.look(move |mesh| {
            let copies = told::copies(mesh, group).into_iter();
            copies.map(|(id, _)| id).collect()
        });
        look.await.unwrap_or_default()
    }

    /// The one of them that says that it leads, in the newest term.
    async fn leader(&self, group: GroupId) -> Option<MemberId> {
        let look = self.mesh.look(move |mesh| {
            let copies = told::copies(mesh, group).into_iter();
            let mut leaders = copies.filter(|(_, copy)| copy.leads > 0);
            leaders.next().map(|(id, _)| id)
        });
        look.await.unwrap_or_default()
    }

    /// Those of them that can be reached.
    async fn reached_copies(&self, group: GroupId) -> Vec<MemberId> {
        let look = self.mesh.look(move |mesh| {
            let copies = told::copies(mesh, group).into_iter().map(|(id, _)| id);
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
    pub(crate) async fn ask(&self, member: MemberId, question: Question) -> Answer {
        let asked = self.ask_afar(member, &question).await;
        asked.unwrap_or_else(Answer::Rejected)
    }

    async fn ask_afar(&self, member: MemberId, question: &Question) -> Result<Answer, Rejection> {
        let failed = |why: String| Rejection::Unavailable(why);
        let bytes = serde_json::to_vec(question).map_err(|error| failed(error.to_string()))?;
        let limit = match question.is_slow() {
            true => SLOW_LIMIT,
            false => ANSWER_LIMIT,
        };
        let delivery = match question.is_repeatable() {
            true => Delivery::AtLeastOnce,
            false => Delivery::AtMostOnce,
        };
        let asked = self.net.request((member, delivery), &bytes, limit).await;
        let (why, sent) = match asked {
            Ok(answer) => match serde_json::from_slice(&answer) {
                Ok(answer) => return Ok(answer),
                Err(error) => (format!("it answered nonsense: {error}"), true),
            },
            Err(error @ RequestError::TooLong(_)) => {
                return Err(Rejection::Invalid(error.to_string()));
            }
            Err(error @ RequestError::NoAnswer(_)) => (error.to_string(), true),
            Err(error) => (error.to_string(), false),
        };
        let text = format!("{}: {why}", self.name(member).await);
        match sent && !question.is_repeatable() {
            true => Err(unknown_outcome(&text)),
            false => Err(failed(text)),
        }
    }

    /// A member's name; its number where that is not known.
    async fn name(&self, member: MemberId) -> String {
        let look = move |mesh: &Mesh| Some(mesh.member(member)?.body.name.clone());
        let name = self.mesh.look(look).await.ok().flatten();
        name.unwrap_or_else(|| format!("member {}", member.0))
    }
}

/// Whether another member may be asked the same before one has answered.
fn may_be_given_up(question: &Question) -> bool {
    question.is_repeatable() && !question.is_slow()
}

/// Whether another member than the one that was asked has begun to lead, by who was said to lead before
/// it was asked and who is now. Old news does not count: the question may be at `member` because of newer
/// ones.
fn is_overtaken(member: MemberId, before: Option<MemberId>, now: Option<MemberId>) -> bool {
    now != before && now.is_some_and(|now| now != member)
}

fn unavailable(why: &str) -> Answer {
    Answer::Rejected(Rejection::Unavailable(why.to_owned()))
}

fn unknown_outcome(why: &str) -> Rejection {
    Rejection::Unknown(format!(
        "it is not known whether this took effect, look before you try again: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_begins_to_lead_meanwhile_overtakes_the_one_that_is_asked() {
        let [asked, old, new] = [1, 2, 3].map(MemberId);
        assert!(is_overtaken(asked, Some(asked), Some(new)));
        assert!(is_overtaken(asked, None, Some(new)));
        assert!(!is_overtaken(asked, Some(asked), None), "an election");
        assert!(!is_overtaken(asked, Some(old), Some(asked)));
        assert!(!is_overtaken(asked, Some(old), Some(old)), "old news");
    }
}
