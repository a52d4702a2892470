//! What others hold of the virtual clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_consensus::{GroupId, NodeId};
use muster_control::coordinator::Refused;
use muster_control::fence::Term;
use muster_control::groups::{Seen, name};
use muster_control::vc::{AcceptedJob, Applied, Entry, Rejected};
use muster_model::id::{self, VcName};
use muster_model::pull::Pull;
use tokio::sync::watch;

use super::question::{Answer, Question};
use super::silent::Silent;
use super::view::View;
use crate::affairs::question as affairs;
use crate::affairs::question::Rejection;
use crate::groups::Groups;
use crate::mesh::authority::Authority;

/// Said where no virtual cluster is known yet.
const NONE_KNOWN: &str =
    "this node does not know yet which virtual clusters its cluster has; try again";

/// Virtual clusters, by name, and the groups that keep their logs.
pub(crate) type Vcs = BTreeMap<VcName, GroupId>;

/// Why a virtual cluster did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// It cannot be asked, or cannot keep anything now. It says whether it may have come about.
    #[error("{0}")]
    Away(String),
    /// The state refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The cluster could never run the job.
    #[error("{}", .0.why)]
    Impossible(Refused),
}

/// Which virtual clusters this node serves.
#[derive(Clone, Debug)]
pub(crate) enum Seat {
    /// The cluster's. They may be led by other members.
    Shared(Vcs, Box<Authority>),
    /// They are not known yet.
    Unknown,
    /// A test's: there is no mesh, and all are led here.
    #[cfg(test)]
    Here(Vcs),
}

impl Seat {
    /// Those that it serves, if they are known.
    pub(crate) const fn vcs(&self) -> Option<&Vcs> {
        match self {
            Self::Shared(vcs, _) => Some(vcs),
            Self::Unknown => None,
            #[cfg(test)]
            Self::Here(vcs) => Some(vcs),
        }
    }
}

/// Asks whoever leads this group.
async fn ask_leader(
    authority: &Authority,
    group: GroupId,
    question: Question,
) -> Result<Answer, Rejection> {
    let group = group.0;
    match authority
        .ask(affairs::Question::Vc { group, question })
        .await
    {
        affairs::Answer::Vc(answer) => Ok(answer),
        affairs::Answer::Rejected(rejection) => Err(rejection),
        _ => Err(Rejection::Unavailable("the answer makes no sense".into())),
    }
}

/// What others hold of the virtual clusters. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct VcHandle {
    groups: Groups,
    seat: watch::Receiver<Seat>,
    /// Those that did not answer when all were asked.
    pub(super) silent: Arc<Silent>,
}

impl VcHandle {
    pub(crate) fn new(groups: Groups, seat: watch::Receiver<Seat>) -> Self {
        Self {
            groups,
            seat,
            silent: Arc::default(),
        }
    }

    /// Which virtual clusters this node serves; changes when it joins or leaves a cluster, and when
    /// one is born there.
    pub(crate) fn seat(&self) -> watch::Receiver<Seat> {
        self.seat.clone()
    }

    /// Those that it serves, as far as they are known.
    pub(crate) fn groups(&self) -> Vcs {
        self.seat.borrow().vcs().cloned().unwrap_or_default()
    }

    /// The same, by name.
    ///
    /// # Errors
    /// [`Error::Away`] when none is known yet.
    pub(crate) fn names(&self) -> Result<Vec<VcName>, Error> {
        let names: Vec<_> = self.groups().into_keys().collect();
        match names.is_empty() {
            true => Err(Error::Away(NONE_KNOWN.to_owned())),
            false => Ok(names),
        }
    }

    /// Asks whoever leads a virtual cluster.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn ask(&self, vc: &VcName, question: Question) -> Result<Answer, Error> {
        let seat = self.seat.borrow().clone();
        let unknown = || Error::Away(format!("virtual cluster {vc} is not known here yet"));
        let answer = match seat {
            Seat::Shared(vcs, authority) => {
                let mut group = *vcs.get(vc).ok_or_else(unknown)?;
                loop {
                    let asked = ask_leader(&authority, group, question.clone()).await;
                    let now = self.groups().get(vc).copied();
                    match (asked, now) {
                        // It was recovered meanwhile, and nobody can have taken this.
                        (Err(Rejection::Unavailable(_)), Some(now)) if now != group => group = now,
                        (asked, _) => break asked,
                    }
                }
            }
            Seat::Unknown => return Err(Error::Away(NONE_KNOWN.to_owned())),
            #[cfg(test)]
            Seat::Here(vcs) => {
                let group = *vcs.get(vc).ok_or_else(unknown)?;
                let desk = super::Desk::new(self.groups.clone(), name::FOUNDER);
                desk.answer(group, question).await
            }
        };
        answer.map_err(|rejection| Error::Away(format!("virtual cluster {vc}: {rejection}")))
    }

    /// Asks whoever leads a virtual cluster, and picks what is to be heard.
    pub(super) async fn asked<T>(
        &self,
        vc: &VcName,
        question: Question,
        pick: impl FnOnce(Answer) -> Option<T>,
    ) -> Result<T, Error> {
        match self.ask(vc, question).await? {
            Answer::Rejected(rejected) => Err(Error::Rejected(rejected)),
            Answer::Impossible(why) => Err(Error::Impossible(why)),
            answer => pick(answer).ok_or_else(|| {
                Error::Away(format!(
                    "the leader of virtual cluster {vc} answers something else; is it of an older \
                     release?"
                ))
            }),
        }
    }

    /// Has its virtual cluster take a job. When this returns `Ok`, it is on the disks of a majority of
    /// the voters.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn submit(&self, job: AcceptedJob) -> Result<Applied, Error> {
        let vc = job.spec.vc.clone();
        let question = Question::Submit(Box::new(job));
        let done = |answer| match answer {
            Answer::Done(applied) => Some(applied),
            _ => None,
        };
        self.asked(&vc, question, done).await
    }

    /// Commits a user's change of a job of this virtual cluster.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn change(&self, vc: &VcName, entry: Entry) -> Result<Applied, Error> {
        let question = Question::Change(Box::new(entry));
        let done = |answer| match answer {
            Answer::Done(applied) => Some(applied),
            _ => None,
        };
        self.asked(vc, question, done).await
    }

    /// The generation and the term, by the word of a majority given after this was asked, and the
    /// number of who leads.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn term(&self, vc: &VcName) -> Result<(u32, Term, NodeId), Error> {
        let told = |answer| match answer {
            Answer::Term {
                generation,
                term,
                leader,
            } => Some((generation, term, NodeId(leader))),
            _ => None,
        };
        self.asked(vc, Question::Term, told).await
    }

    /// Renews what a node holds of a virtual cluster. When this returns `Ok`, somebody has led the virtual
    /// cluster after this was asked.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn renew(&self, vc: &VcName, node: id::NodeId) -> Result<(), Error> {
        let renewed = |answer| matches!(answer, Answer::Renewed).then_some(());
        self.asked(vc, Question::Renew(node), renewed).await
    }

    /// Renews what a node holds of several virtual clusters, which this one leads as far as is known: with
    /// one message. Those of them that it has led after this was asked.
    pub(crate) async fn renew_all<'v>(
        &self,
        leader: NodeId,
        vcs: impl Iterator<Item = &'v VcName>,
        node: &id::NodeId,
    ) -> BTreeSet<VcName> {
        let seat = self.seat.borrow().clone();
        let (Seat::Shared(known, authority), Some(member)) = (seat, name::member(leader)) else {
            return BTreeSet::new();
        };
        let groups: BTreeMap<u64, &VcName> =
            vcs.filter_map(|vc| Some((known.get(vc)?.0, vc))).collect();
        let question = affairs::Question::RenewAll {
            groups: groups.keys().copied().collect(),
            node: node.clone(),
        };
        match authority.ask_at(member, question).await {
            affairs::Answer::Renewed(renewed) => {
                let renewed = renewed.iter().filter_map(|group| groups.get(group));
                renewed.map(|vc| (*vc).clone()).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Renews its run leases by the leader of the `cluster` group.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub(crate) async fn renew_at_cluster(&self, node: id::NodeId) -> Result<(), Error> {
        let seat = self.seat.borrow().clone();
        let Seat::Shared(_, authority) = seat else {
            return Err(Error::Away(NONE_KNOWN.to_owned()));
        };
        match authority.ask(affairs::Question::Renew { node }).await {
            affairs::Answer::Done => Ok(()),
            affairs::Answer::Rejected(why) => Err(Error::Away(why.to_string())),
            _ => Err(Error::Away("the answer makes no sense".to_owned())),
        }
    }

    /// The images that are on their way to these nodes, of those that answer soon.
    pub(crate) async fn pulls_of(
        &self,
        nodes: &BTreeSet<id::NodeId>,
    ) -> BTreeMap<id::NodeId, Vec<Pull>> {
        let seat = self.seat.borrow().clone();
        match seat {
            Seat::Shared(_, authority) => authority.pulls_of(nodes).await,
            Seat::Unknown => BTreeMap::new(),
            #[cfg(test)]
            Seat::Here(_) => BTreeMap::new(),
        }
    }

    /// Whether it is led here.
    pub(crate) fn leads(&self, vc: &VcName) -> bool {
        let led = self.groups.led();
        let led = led.borrow();
        let group = self.groups().get(vc).copied();
        group.is_some_and(|group| led.contains_key(&group))
    }

    /// What is wrong with the cells, as far as virtual clusters are led here; each sentence once.
    pub(crate) async fn cell_problems(&self) -> BTreeSet<String> {
        let led = self.groups.led().borrow().clone();
        let groups = self.groups().into_values();
        let mut found = BTreeSet::new();
        for group in groups.filter(|group| led.contains_key(group)) {
            let look = |seen: Seen<'_>| View::of(seen).map(|view| view.problems());
            let problems = self.groups.read(group, look).await;
            found.extend(problems.ok().flatten().into_iter().flatten());
        }
        found
    }

    /// Changes whenever an entry was applied to a copy here.
    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.groups.applied()
    }

    /// Why nothing can be committed here now, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.groups.problem()
    }

    /// Whether the loop under it is alive.
    pub(crate) async fn is_alive(&self) -> bool {
        self.groups.store().await.is_ok()
    }
}
