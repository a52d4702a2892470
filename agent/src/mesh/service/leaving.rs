//! How a membership ends: this node leaves, or a member is expelled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_control::cluster::ClusterState;
use muster_control::member::routing;
use muster_control::request::cluster::{Expel, Leave};
use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;
use muster_gossip::net::driver::MeshHandle;
use muster_gossip::record::AdmissionState;
use muster_model::id::VcName;
use muster_model::job_query::JobQuery;
use tokio::time::Instant;

use super::{Service, counted};
use crate::loops::node::UnschedulableReason;
use crate::mesh::MeshError;
use crate::mesh::member::ActiveMembership;
use crate::vc::{self, Seat};

/// How long tasks that have ended may take to be cleared away, before the node counts as holding them.
const CLEAR_LIMIT: Duration = Duration::from_secs(3);
const CLEAR_PAUSE: Duration = Duration::from_millis(50);
/// Why a node that is about to leave takes nothing.
const LEAVING: &str = "the node is about to leave the cluster";

impl Service {
    /// Ends the membership: the cluster is told, then the files are put aside.
    ///
    /// # Errors
    /// When the node is alone, or the cluster cannot be told.
    pub(crate) async fn leave(self: &Arc<Self>) -> Result<(), MeshError> {
        let node = &self.dependencies.node.node;
        // Whatever leaders it learns of meanwhile.
        node.closed(UnschedulableReason::Leaving, Some(LEAVING.to_owned()))
            .await;
        let left = self.leave_closed().await;
        node.closed(UnschedulableReason::Leaving, None).await;
        left
    }

    /// The same, while nothing new comes here.
    async fn leave_closed(self: &Arc<Self>) -> Result<(), MeshError> {
        let _changing = self.changing.lock().await;
        let running = self.member();
        if !running.is_open() {
            return Err(MeshError::NotNow(
                "this machine is alone: there is no cluster to leave".to_owned(),
            ));
        }
        let me = running.me;
        let look = running.mesh.look(move |mesh| {
            let known = mesh.member(me);
            let ended = known.is_some_and(|m| m.body.state != AdmissionState::Admitted);
            (ended, mesh.members().count())
        });
        let (ended, members) = look.await.unwrap_or((true, 0));
        if !ended && members == 1 && running.me == ClusterState::FOUNDER {
            return self.stay_alone(&running).await;
        }
        if !ended {
            self.hold_nothing(&running.mesh, members).await?;
        }
        // The last one takes the cluster with it.
        if !ended && members > 1 {
            let left = self.say_good_bye(&running).await;
            left.inspect_err(|_| self.learn_term())?;
        }
        let ended = tokio::task::block_in_place(|| running.folder.put_aside());
        ended.map_err(|error| MeshError::Failed(error.into()))?;
        running.stop().await;
        let left = self.dependencies.groups.left().await;
        left.map_err(|error| MeshError::Failed(error.into()))?;
        self.dependencies.node.node.moved().await;
        self.take_up().await?;
        Ok(())
    }

    /// The founder is the last member of its cluster: it keeps all of it but the name, and nobody
    /// can join any more.
    async fn stay_alone(&self, running: &ActiveMembership) -> Result<(), MeshError> {
        self.name(running, "").await?;
        running.close_ports().await;
        Ok(())
    }

    /// Whether this node can go: it holds no task, and as the last one leaves no job open.
    async fn hold_nothing(&self, mesh: &MeshHandle, members: usize) -> Result<(), MeshError> {
        let tasks = self.tasks_left().await;
        let open = match members {
            1 => self.open_jobs(mesh).await?,
            _ => 0,
        };
        if tasks + open == 0 {
            return Ok(());
        }
        Err(MeshError::NotNow(format!(
            "this node holds {}, and {} would be left to nobody: stop them, or wait for their end, \
             before it leaves",
            counted(tasks, "task"),
            counted(open, "job")
        )))
    }

    /// How many jobs have not ended, of those whose log is here: nobody else has it.
    async fn open_jobs(&self, mesh: &MeshHandle) -> Result<usize, MeshError> {
        let unknown = |error: vc::VcError| MeshError::NotNow(error.to_string());
        let vc = &self.dependencies.node.vc;
        let listed = vc.jobs(JobQuery::default()).await.map_err(unknown)?;
        let me = mesh.look(|mesh| mesh.me()).await;
        let me = me.map_err(|error| MeshError::NotNow(error.to_string()))?;
        let held = self.held(mesh, me).await;
        if let Some(vc) = listed.away.iter().find(|vc| held.contains(*vc)) {
            return Err(MeshError::NotNow(format!(
                "it is not known whether virtual cluster {vc} has jobs: most of its voters left \
                 without a word"
            )));
        }
        let open = listed.jobs.iter().filter(|job| !job.state().is_final());
        Ok(open.count())
    }

    /// How many tasks this node holds, after those that have ended had a moment to be cleared away.
    pub(super) async fn tasks_left(&self) -> usize {
        let until = Instant::now() + CLEAR_LIMIT;
        loop {
            let view = self.dependencies.node.node.view().await;
            let left = view.map_or(0, |view| view.tasks.len());
            if left == 0 || Instant::now() >= until {
                return left;
            }
            tokio::time::sleep(CLEAR_PAUSE).await;
        }
    }

    /// Gives up what this node has of the cluster, and tells the others.
    async fn say_good_bye(&self, running: &ActiveMembership) -> Result<(), MeshError> {
        self.give_up_copies(&running.mesh, running.me).await?;
        // No leader is heard from here on; what one was granted before still counts.
        self.dependencies.node.node.moved().await;
        self.hold_nothing(&running.mesh, 2).await?;
        // One that was born meanwhile may have begun here.
        self.give_up_copies(&running.mesh, running.me).await?;
        running.requests().cluster(Leave).await?;
        tracing::info!("left the cluster");
        Ok(())
    }

    /// Has the ledger learn its leaders' terms again.
    fn learn_term(&self) {
        self.dependencies.seat.send_modify(|_| {});
    }

    /// Expels a member. Its copies of the virtual clusters' logs find other places first, unless it is
    /// gone without a word.
    ///
    /// # Errors
    /// When the cluster says no.
    pub(crate) async fn expel(&self, name: String, by: String) -> Result<(), MeshError> {
        let member = self.member();
        let named = name.clone();
        let look = member.mesh.look(move |mesh| {
            let mut members = mesh.members();
            let is = |id: &MemberId| mesh.member(*id).is_some_and(|it| it.body.name == named);
            members.find(is).map(|id| (id, mesh.reach(id)))
        });
        let found = look.await.ok().flatten();
        if found.is_some_and(|(id, _)| id == member.me) {
            return Err(MeshError::Invalid(format!(
                "{name} is the machine that was asked: it leaves with `muster cluster leave`"
            )));
        }
        if let Some((id, reach)) = found
            && let Err(error) = self.give_up_copies(&member.mesh, id).await
            && reach != Reach::Unreachable
        {
            return Err(error);
        }
        self.ask(Expel { member: name, by }).await
    }

    /// A member's copies of the virtual clusters' logs find other places.
    async fn give_up_copies(&self, mesh: &MeshHandle, member: MemberId) -> Result<(), MeshError> {
        if matches!(*self.dependencies.seat.borrow(), Seat::Unknown) {
            // Where it is not known which there are, nobody can be asked.
            return Ok(());
        }
        let kept = self.dependencies.node.vc.give_up(member).await;
        let kept = kept.map_err(|error| MeshError::NotNow(error.to_string()))?;
        // One that nobody leads holds up none but those who have its log.
        let held = self.held(mesh, member).await;
        match kept.into_iter().find(|(vc, _)| held.contains(vc)) {
            Some((_, why)) => Err(MeshError::NotNow(why.to_string())),
            None => Ok(()),
        }
    }

    /// The virtual clusters of whose logs a member says that it has copies.
    async fn held(&self, mesh: &MeshHandle, member: MemberId) -> BTreeSet<VcName> {
        let look = mesh.look(move |mesh| routing::holds(mesh, member));
        let held = look.await.unwrap_or_default();
        let vcs = self.dependencies.node.vc.groups().into_iter();
        let held = vcs.filter(|(_, group)| held.contains(&group.0));
        held.map(|(vc, _)| vc).collect()
    }
}
