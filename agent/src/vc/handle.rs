//! What others hold of the virtual clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_consensus::{GroupId, NodeId};
use muster_control::answers::vc::VcLeaderView;
use muster_control::breaker::{BreakerReview, NodeQuarantines};
use muster_control::coordinator::UnplaceableJob;
use muster_control::fence::Term;
use muster_control::groups::{Local, name};
use muster_control::request::cluster::{RenewLeases, ReviewQuarantines};
use muster_control::request::member::{OfMember, RenewLed};
use muster_control::request::vc::{
    ChangeJob, ForecastJob, GetTerm, NotTaken, OfVc, RenewLease, Submit,
};
use muster_control::request::{Answers, Json, RequestFailure};
use muster_control::vc::{AcceptedJob, VcApplied, VcEntry, VcRejection};
#[cfg(test)]
use muster_gossip::member::MemberId;
use muster_model::forecast::JobForecast;
use muster_model::id::{self, VcName};
use muster_model::protocol;
use muster_model::pull::Pull;
use muster_model::sight::JobSight;
use muster_portal_gateway::port;
use tokio::sync::watch;

use super::AtLeader;
use super::silent::SilentVcs;
use crate::groups::Groups;
use crate::requests::RequestRouter;

/// Said where no virtual cluster is known yet.
const NONE_KNOWN: &str =
    "this node does not know yet which virtual clusters its cluster has; try again";

/// Virtual clusters, by name, and the groups that keep their logs.
pub(crate) type Vcs = BTreeMap<VcName, GroupId>;

/// Why a virtual cluster did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VcError {
    /// It cannot be asked, or cannot keep anything now. It says whether it may have come about.
    #[error("{0}")]
    Away(String),
    /// The state refused; nothing was changed.
    #[error(transparent)]
    Rejected(#[from] VcRejection),
    /// The cluster could never run the job.
    #[error("{}", .0.why)]
    Impossible(UnplaceableJob),
}

impl From<VcError> for port::PortError {
    fn from(error: VcError) -> Self {
        match error {
            VcError::Rejected(rejected) => match rejected {
                VcRejection::JobExists(key) => Self::JobExists {
                    job: key.to_string(),
                    same: None,
                },
                VcRejection::NoJob(key) => Self::NoJob(key.to_string()),
                VcRejection::NoTag(tag) => Self::NoTag(tag),
                VcRejection::QueueFull { .. } => Self::Unavailable(rejected.to_string()),
                other => Self::Invalid(other.to_string()),
            },
            VcError::Impossible(UnplaceableJob { path, why }) => {
                let problem = protocol::JobProblem::whole(why);
                Self::InvalidJob(vec![protocol::JobProblem { path, ..problem }])
            }
            VcError::Away(why) => Self::Unavailable(why),
        }
    }
}

/// Which virtual clusters this node serves.
#[derive(Clone, Debug)]
pub(crate) enum Seat {
    /// The cluster's. They may be led by other members.
    Shared(Vcs, Box<RequestRouter>),
    /// They are not known yet.
    Unknown,
    /// A test's: there is no mesh, and all are led here.
    #[cfg(test)]
    Here(Vcs, Box<super::LedVcs>),
}

impl Seat {
    /// Those that it serves, if they are known.
    pub(crate) const fn vcs(&self) -> Option<&Vcs> {
        match self {
            Self::Shared(vcs, _) => Some(vcs),
            Self::Unknown => None,
            #[cfg(test)]
            Self::Here(vcs, _) => Some(vcs),
        }
    }
}

/// What others hold of the virtual clusters. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct VcHandle {
    groups: Groups,
    seat: watch::Receiver<Seat>,
    /// Those that did not answer when all were asked.
    pub(super) silent: Arc<SilentVcs>,
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
    /// [`VcError::Away`] when none is known yet.
    pub(crate) fn names(&self) -> Result<Vec<VcName>, VcError> {
        let names: Vec<_> = self.groups().into_keys().collect();
        match names.is_empty() {
            true => Err(VcError::Away(NONE_KNOWN.to_owned())),
            false => Ok(names),
        }
    }

    /// Asks the leader of a virtual cluster.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn ask<R: OfVc>(&self, vc: &VcName, request: R) -> Result<R::Answer, VcError>
    where
        for<'a> AtLeader<'a>: Answers<R>,
    {
        let seat = self.seat.borrow().clone();
        let unknown = || VcError::Away(format!("virtual cluster {vc} is not known here yet"));
        let answer = match seat {
            Seat::Shared(vcs, requests) => {
                let mut group = *vcs.get(vc).ok_or_else(unknown)?;
                loop {
                    let asked = requests.leader(group, request.clone()).await;
                    let now = self.groups().get(vc).copied();
                    match (asked, now) {
                        // It was recovered meanwhile, and nobody can have taken this.
                        (Err(RequestFailure::NotLed { .. }), Some(now)) if now != group => {
                            group = now
                        }
                        (asked, _) => break asked,
                    }
                }
            }
            Seat::Unknown => return Err(VcError::Away(NONE_KNOWN.to_owned())),
            #[cfg(test)]
            Seat::Here(vcs, led) => {
                let group = *vcs.get(vc).ok_or_else(unknown)?;
                led.at(group).answer(MemberId(0), request).await
            }
        };
        answer.map_err(|failure| VcError::Away(format!("virtual cluster {vc}: {failure}")))
    }

    /// Has its virtual cluster take a job. When this returns `Ok`, it is on the disks of a majority of
    /// the voters.
    ///
    /// # Errors
    /// [`VcError`].
    pub(crate) async fn submit(&self, job: AcceptedJob) -> Result<VcApplied, VcError> {
        let vc = job.spec.vc.clone();
        match self.ask(&vc, Submit(job)).await? {
            Ok(applied) => Ok(applied),
            Err(NotTaken::Rejected(rejected)) => Err(VcError::Rejected(rejected)),
            Err(NotTaken::Impossible(why)) => Err(VcError::Impossible(why)),
        }
    }

    /// What would become of a job if its virtual cluster were given it now.
    ///
    /// # Errors
    /// [`VcError`], as [`Self::submit`].
    pub(crate) async fn forecast(
        &self,
        job: AcceptedJob,
        sight: &JobSight,
    ) -> Result<JobForecast, VcError> {
        let vc = job.spec.vc.clone();
        let sight = sight.clone();
        match self.ask(&vc, ForecastJob { job, sight }).await? {
            Ok(Json(forecast)) => Ok(forecast),
            Err(NotTaken::Rejected(rejected)) => Err(VcError::Rejected(rejected)),
            Err(NotTaken::Impossible(why)) => Err(VcError::Impossible(why)),
        }
    }

    /// Commits a user's change of a job of this virtual cluster.
    ///
    /// # Errors
    /// [`VcError`].
    pub(crate) async fn change(&self, vc: &VcName, entry: VcEntry) -> Result<VcApplied, VcError> {
        Ok(self.ask(vc, ChangeJob(entry)).await??)
    }

    /// The generation and the term, by the word of a majority given after this was asked, and the
    /// number of the node that leads.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn term(&self, vc: &VcName) -> Result<(u32, Term, NodeId), VcError> {
        let led = self.ask(vc, GetTerm).await?;
        Ok((led.generation, led.term, NodeId(led.leader)))
    }

    /// Renews what a node holds of a virtual cluster. When this returns `Ok`, somebody has led the virtual
    /// cluster after this was asked.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn renew(&self, vc: &VcName, node: id::NodeId) -> Result<(), VcError> {
        self.ask(vc, RenewLease { node }).await
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
        let (Seat::Shared(known, requests), Some(member)) = (seat, name::member(leader)) else {
            return BTreeSet::new();
        };
        let groups: BTreeMap<u64, &VcName> =
            vcs.filter_map(|vc| Some((known.get(vc)?.0, vc))).collect();
        let request = RenewLed {
            groups: groups.keys().copied().collect(),
            node: node.clone(),
        };
        let renewed = requests.member(member, request).await.unwrap_or_default();
        let renewed = renewed.iter().filter_map(|group| groups.get(group));
        renewed.map(|vc| (*vc).clone()).collect()
    }

    /// Renews its run leases by the leader of the `cluster` group.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn renew_at_cluster(&self, node: id::NodeId) -> Result<(), VcError> {
        let seat = self.seat.borrow().clone();
        let Seat::Shared(_, requests) = seat else {
            return Err(VcError::Away(NONE_KNOWN.to_owned()));
        };
        let renewed = requests.cluster(RenewLeases { node }).await;
        renewed.map_err(|why| VcError::Away(why.to_string()))
    }

    /// Asks the leader of the `cluster` group which quarantines its breaker holds back.
    ///
    /// # Errors
    /// [`VcError::Away`].
    pub(crate) async fn review_quarantines(
        &self,
        told: NodeQuarantines,
    ) -> Result<BreakerReview, VcError> {
        let seat = self.seat.borrow().clone();
        let Seat::Shared(_, requests) = seat else {
            return Err(VcError::Away(NONE_KNOWN.to_owned()));
        };
        let reviewed = requests.cluster(ReviewQuarantines(told)).await;
        reviewed.map_err(|why| VcError::Away(why.to_string()))
    }

    /// The images that are on their way to these nodes, of those that answer soon.
    pub(crate) async fn pulls_of(
        &self,
        nodes: &BTreeSet<id::NodeId>,
    ) -> BTreeMap<id::NodeId, Vec<Pull>> {
        let seat = self.seat.borrow().clone();
        match seat {
            Seat::Shared(_, requests) => requests.pulls_of(nodes).await,
            _ => BTreeMap::new(),
        }
    }

    /// Asks another node for something that it alone answers; none if it cannot be reached, or
    /// does not answer soon.
    pub(crate) async fn of_node<R: OfMember>(
        &self,
        node: id::NodeId,
        request: R,
    ) -> Option<Result<R::Answer, RequestFailure>>
    where
        RequestRouter: Answers<R>,
    {
        let seat = self.seat.borrow().clone();
        match seat {
            Seat::Shared(_, requests) => requests.of_node(node, request).await,
            _ => None,
        }
    }

    /// Asks each of these nodes for something that it alone answers, and that may take long. Those that cannot be
    /// reached are left out.
    pub(crate) async fn of_nodes<R: OfMember>(
        &self,
        nodes: BTreeSet<id::NodeId>,
        request: R,
    ) -> Vec<(id::NodeId, Result<R::Answer, RequestFailure>)>
    where
        RequestRouter: Answers<R>,
    {
        let seat = self.seat.borrow().clone();
        match seat {
            Seat::Shared(_, requests) => requests.of_nodes(nodes, request).await,
            _ => Vec::new(),
        }
    }

    /// Asks each of these nodes its own request, all at the same moment, and waits for `limit` at most.
    /// Those that cannot be reached are left out.
    pub(crate) async fn of_each<R: OfMember>(
        &self,
        requests: BTreeMap<id::NodeId, R>,
        limit: Duration,
    ) -> Vec<(id::NodeId, Result<R::Answer, RequestFailure>)>
    where
        RequestRouter: Answers<R>,
    {
        let seat = self.seat.borrow().clone();
        match seat {
            Seat::Shared(_, router) => router.of_each(requests, limit).await,
            _ => Vec::new(),
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
            // What is shown every two seconds needs no word of a majority.
            let look = |local: Local<'_>| VcLeaderView::of(local.seen).map(|view| view.problems());
            let problems = self.groups.look(group, look).await;
            found.extend(problems.ok().flatten().flatten().into_iter().flatten());
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
