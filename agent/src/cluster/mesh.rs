//! The port's other half: this node among others.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use muster_control::cluster;
use muster_control::request::cluster::{
    CreateToken, EditDocument, History, ListTokens, ReadDocument, Recover, RevokeToken, RollBack,
    Schedule,
};
use muster_control::request::member::RecoverCluster;
use muster_control::request::{Failure, Json, Refusal};
use muster_model::finding::Finding;
use muster_model::id::{JobKey, NodeId, TaskId};
use muster_model::mesh::{
    ClusterView, Coverage, CreatedToken, DocumentText, DocumentVersion, DocumentView, Health,
    JoinPlan, Joined, LocalDocument, MemberState, MemberTask, MeshView, NewToken, Reach,
    RecoveryView, Scheduling, SchedulingView, Stage, TokenView, VersionView,
};
use muster_model::node::Capacity;
use muster_portal_gateway::cluster::{Caller, Error};
use muster_portal_gateway::mesh::{Edit, JoinRequest, Mesh, NewScheduling};

use super::{LocalCluster, committed, unavailable};
use crate::affairs::records::root_hash;
use crate::mesh::member::Member;
use crate::mesh::{self, view};

/// What the gateway is told.
fn told(error: mesh::Error) -> Error {
    match error {
        mesh::Error::NotNow(text) => Error::NotNow(text),
        mesh::Error::Invalid(text) => Error::Invalid(text),
        mesh::Error::Refused(text) | mesh::Error::Elsewhere(text) => Error::JoinRefused(text),
        mesh::Error::Busy(text) => Error::JoinBusy(text),
        mesh::Error::Failed(error) => Error::Unavailable(format!("{error:#}")),
        mesh::Error::Undone(failure) => match failure {
            Failure::Refused(Refusal::Invalid(text)) => Error::Invalid(text),
            Failure::Refused(Refusal::Missing(text)) => Error::NotNow(text),
            Failure::Refused(Refusal::Conflict { .. })
            | Failure::NotLed { .. }
            | Failure::Unknown(_) => Error::Unavailable(failure.to_string()),
        },
    }
}

/// Why something was not done, where it was asked for `missing`.
fn told_of(error: mesh::Error, missing: impl FnOnce() -> Error) -> Error {
    match error {
        mesh::Error::Undone(Failure::Refused(Refusal::Missing(_))) => missing(),
        error => told(error),
    }
}

/// Why a document was not changed.
fn unedited_for(error: mesh::Error, name: &str, base: Option<u64>) -> Error {
    match error {
        mesh::Error::Undone(Failure::Refused(Refusal::Conflict { current })) => {
            Error::DocumentConflict {
                document: name.to_owned(),
                base: base.unwrap_or_else(|| current.saturating_sub(1)),
                current,
            }
        }
        error => told(error),
    }
}

/// Tasks of a member, as they are shown.
fn member_tasks(tasks: Vec<(JobKey, TaskId)>) -> Vec<MemberTask> {
    let shown = tasks.into_iter().map(|(job, task)| MemberTask {
        job: job.to_string(),
        task: task.to_string(),
    });
    shown.collect()
}

/// `8 Tesla V100, 96 cores, 768 GiB`: what a machine has, in a few words.
pub(crate) fn summary(capacity: &Capacity) -> String {
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for device in &capacity.devices {
        *models.entry(&device.model).or_default() += 1;
    }
    let mut parts: Vec<String> = models
        .into_iter()
        .map(|(model, count)| format!("{count} {model}"))
        .collect();
    parts.push(format!("{} cores", capacity.cpu));
    parts.push(format!("{} GiB", capacity.memory_mb / 1024));
    parts.join(", ")
}

fn scheduling_view(word: &cluster::Scheduling) -> SchedulingView {
    SchedulingView {
        scheduling: match word.mode {
            cluster::Mode::Open => Scheduling::Open,
            cluster::Mode::Cordoned => Scheduling::Cordoned,
            cluster::Mode::Draining { from_ms } => Scheduling::Draining { from_ms },
        },
        reason: word.reason.to_string(),
        by: word.by.to_string(),
        at_ms: word.at_ms,
    }
}

impl LocalCluster {
    /// Has a virtual cluster go on without these voters, or the cluster itself if none is named; tells how
    /// it would if no voters are.
    async fn recovered(
        &self,
        caller: &Caller,
        vc: Option<&str>,
        lost: &BTreeSet<String>,
    ) -> Result<RecoveryView, Error> {
        let (lost, by) = (lost.clone(), caller.user.to_string());
        let recovered = match vc {
            Some(vc) => {
                let vc = vc.to_owned();
                self.mesh.ask(Recover { vc, lost, by }).await
            }
            // The leader that would be asked for it is what is lost.
            None => {
                let member = self.mesh.member();
                let request = RecoverCluster { lost, by };
                let recovered = member.requests().member(member.me, request).await;
                recovered.map_err(mesh::Error::from)
            }
        };
        recovered.map_err(|error| match error {
            mesh::Error::Undone(Failure::Refused(Refusal::Invalid(why))) => Error::NotNow(why),
            error => told_of(error, || Error::NoVc(vc.unwrap_or_default().to_owned())),
        })
    }
}

/// A document that nobody has edited.
fn unedited(name: &str, text: &str) -> DocumentView {
    let newest = DocumentVersion {
        version: 0,
        stage: Stage::Active,
        hash: String::new(),
        bytes: text.len() as u64,
        author: String::new(),
        at_ms: 0,
        forced: false,
    };
    DocumentView {
        name: name.to_owned(),
        newest,
        active: 0,
        coverage: Coverage {
            members: 1,
            valid: 1,
            active: 1,
            ..Coverage::default()
        },
        here: LocalDocument {
            has_newest: true,
            active: 0,
            problem: String::new(),
        },
    }
}

impl LocalCluster {
    async fn member_view(&self, member: &Member) -> Result<MeshView, Error> {
        let (affairs, jobs) = (member.group().id(), self.vc.groups());
        let mut shown = member
            .mesh
            .look(move |mesh| view::shown(mesh, affairs, jobs))
            .await
            .map_err(unavailable)?;
        let named = |id: u32| {
            let found = shown.members.iter().find(|member| member.id == id);
            found.map_or_else(String::new, |member| member.name.clone())
        };
        let me = named(member.me.0);
        let closed = self.accounts.closed();
        for member in &mut shown.members {
            let word = member.name.parse().ok().and_then(|name| closed.get(&name));
            member.scheduling = word
                .filter(|_| member.state == MemberState::Admitted)
                .map(scheduling_view);
        }
        let mut counters = shown.counters;
        counters.extend(
            member
                .net_counters()
                .snapshot()
                .into_iter()
                .map(|(name, count)| (format!("net_{name}"), count)),
        );
        let mut documents = shown.documents;
        for kind in self.documents.all() {
            let name = kind.about().name;
            if !documents.iter().any(|document| document.name == name) {
                documents.push(unedited(name, &kind.first_text()));
            }
        }
        let cloned = shown.cloned.then(|| {
            "another machine writes with this node's key: stop one of them, remove its \
             state/mesh, and let it join anew"
                .to_owned()
        });
        Ok(MeshView {
            cluster: Some(ClusterView {
                id: member.cluster().to_string(),
                name: member.name(),
                root_hash: root_hash(&member.membership().root),
                generation: member.group().lineage().generation,
                feature_level: 1,
            }),
            solo: !member.is_open(),
            me,
            leadership: shown.leadership,
            vcs: shown.vcs,
            members: shown.members,
            islands: shown.islands,
            one_way: shown.one_way,
            digest: shown.digest,
            counters,
            documents,
            cloned,
            certificate: self.node.certificate.clone(),
        })
    }
}

#[async_trait]
impl Mesh for LocalCluster {
    async fn mesh(&self) -> Result<MeshView, Error> {
        self.member_view(&self.mesh.member()).await
    }

    async fn health(&self) -> Result<Health, Error> {
        Ok(self.node.health().await)
    }

    async fn doctor(&self) -> Result<Vec<Finding>, Error> {
        let findings = self.doctor.examine().await;
        findings.ok_or_else(|| {
            Error::NotNow("the doctor is at work already; ask again in a few seconds".to_owned())
        })
    }

    async fn init_cluster(&self, _: &Caller, name: &str) -> Result<ClusterView, Error> {
        self.mesh.init(name).await.map_err(told)
    }

    async fn join_plan(&self) -> Result<JoinPlan, Error> {
        let jobs = self.vc.all_jobs().await.map_err(committed)?;
        let open = jobs.iter().filter(|job| !job.state().is_final());
        Ok(JoinPlan {
            jobs: open.map(|job| job.key.to_string()).collect(),
        })
    }

    async fn join(&self, _: &Caller, request: &JoinRequest) -> Result<Joined, Error> {
        let plan = self.join_plan().await?;
        if let Some(job) = plan.jobs.first() {
            return Err(Error::NotNow(format!(
                "{} jobs are queued or running here, {job} among them; stop them or wait for them \
                 before this node joins a cluster",
                plan.jobs.len()
            )));
        }
        self.mesh
            .join(&request.address, &request.token)
            .await
            .map_err(told)
    }

    async fn leave(&self, _: &Caller) -> Result<(), Error> {
        self.mesh.leave().await.map_err(told)
    }

    async fn expel(&self, caller: &Caller, member: &str) -> Result<(), Error> {
        let expelled = self.mesh.expel(member.to_owned(), caller.user.to_string());
        let missing = || Error::NoMember(member.to_owned());
        expelled.await.map_err(|error| told_of(error, missing))
    }

    async fn schedule(
        &self,
        caller: &Caller,
        member: &str,
        wanted: &NewScheduling,
    ) -> Result<(), Error> {
        let NewScheduling { scheduling, reason } = wanted.clone();
        let request = Schedule {
            member: member.to_owned(),
            scheduling: Json(scheduling),
            reason,
            by: caller.user.to_string(),
        };
        let scheduled = self.mesh.ask(request).await;
        scheduled.map_err(|error| told_of(error, || Error::NoMember(member.to_owned())))?;
        // So that the next listing from this node shows it.
        self.refresh_briefing().await;
        Ok(())
    }

    async fn tasks_on(&self, member: &str) -> Result<Vec<MemberTask>, Error> {
        let missing = || Error::NoMember(member.to_owned());
        let node = member.parse().map_err(|_| missing())?;
        if !self.mesh().await?.has_had(member) {
            return Err(missing());
        }
        let found = self.vc.tasks_on(node).await.map_err(committed)?;
        match found.away.first() {
            // Whoever empties the machine must not take it for empty.
            Some(vc) => Err(Error::Unavailable(format!(
                "it is not known what virtual cluster {vc} has on {member}: its leader does not \
                 answer; try again"
            ))),
            None => Ok(member_tasks(found.tasks)),
        }
    }

    async fn say_off(&self, caller: &Caller, member: &str) -> Result<Vec<MemberTask>, Error> {
        let view = self.mesh().await?;
        let missing = || Error::NoMember(member.to_owned());
        if !view.has_had(member) {
            return Err(missing());
        }
        // Who is no member any more is heard by nobody, and may have left tasks.
        let mut members = view.admitted();
        let found = members.find(|one| one.name == member);
        if found.is_some_and(|one| one.reach != Reach::Unreachable) {
            return Err(Error::NotNow(format!(
                "{member} is not unreachable, as {} sees it: wait until it is, or `muster drain` it",
                view.me
            )));
        }
        let node: NodeId = member.parse().map_err(|_| missing())?;
        let found = self.vc.tasks_on(node.clone()).await.map_err(committed)?;
        let away = self.vc.off(node).await.map_err(committed)?;
        let tasks = member_tasks(found.tasks);
        tracing::warn!(member, by = %caller.user, tasks = tasks.len(), ?away, "said to be off");
        match away.first() {
            Some(vc) => Err(Error::Unavailable(format!(
                "{} tasks on {member} are given up, but not those that virtual cluster {vc} has there: \
                 nobody leads it, or its leader reaches the machine; say it again later",
                tasks.len()
            ))),
            None => Ok(tasks),
        }
    }

    async fn recovery(&self, caller: &Caller, vc: Option<&str>) -> Result<RecoveryView, Error> {
        self.recovered(caller, vc, &BTreeSet::new()).await
    }

    async fn recover(
        &self,
        caller: &Caller,
        vc: Option<&str>,
        lost: &BTreeSet<String>,
    ) -> Result<RecoveryView, Error> {
        self.recovered(caller, vc, lost).await
    }

    async fn create_join_token(
        &self,
        caller: &Caller,
        token: NewToken,
    ) -> Result<CreatedToken, Error> {
        let by = caller.user.to_string();
        let created = self.mesh.ask(CreateToken { token, by }).await;
        created.map_err(told)
    }

    async fn join_tokens(&self) -> Result<Vec<TokenView>, Error> {
        self.mesh.ask(ListTokens).await.map_err(told)
    }

    async fn revoke_join_token(&self, _: &Caller, id: &str) -> Result<(), Error> {
        let revoked = self.mesh.ask(RevokeToken { id: id.to_owned() }).await;
        revoked.map_err(|error| told_of(error, || Error::NoJoinToken(id.to_owned())))
    }

    async fn documents(&self) -> Result<Vec<DocumentView>, Error> {
        Ok(self.mesh().await?.documents)
    }

    async fn document_history(&self, name: &str) -> Result<Vec<VersionView>, Error> {
        let document = self.documents.named(name)?.about().id.0;
        let history = self.mesh.ask(History { document }).await;
        history.map(|versions| versions.0).map_err(told)
    }

    async fn document_text(
        &self,
        _: &Caller,
        name: &str,
        version: Option<u64>,
    ) -> Result<DocumentText, Error> {
        let kind = self.documents.named(name)?;
        if let Some((version, text)) = kind.text_here(version).await? {
            let text = text.to_string();
            return Ok(DocumentText { version, text });
        }
        let unknown =
            || Error::Unavailable(format!("this node has not heard {name} yet; try again"));
        let version = version.ok_or_else(unknown)?;
        let missing = || Error::NoVersion {
            document: name.to_owned(),
            version,
        };
        let document = kind.about().id.0;
        let read = self.mesh.ask(ReadDocument { document, version }).await;
        read.map_err(|error| told_of(error, missing))
    }

    async fn edit_document(&self, caller: &Caller, name: &str, edit: Edit) -> Result<u64, Error> {
        let kind = self.documents.named(name)?;
        kind.check_edit(&edit.text).await?;
        let request = EditDocument {
            document: kind.about().id.0,
            base: edit.base,
            text: edit.text,
            now: edit.now,
            by: caller.user.to_string(),
        };
        let edited = self.mesh.ask(request).await;
        let version = edited.map_err(|error| unedited_for(error, name, Some(edit.base)))?;
        kind.edited(version).await;
        Ok(version)
    }

    async fn rollback_document(
        &self,
        caller: &Caller,
        name: &str,
        version: u64,
    ) -> Result<u64, Error> {
        let kind = self.documents.named(name)?;
        let request = RollBack {
            document: kind.about().id.0,
            version,
            by: caller.user.to_string(),
        };
        match self.mesh.ask(request).await {
            Ok(version) => {
                kind.edited(version).await;
                Ok(version)
            }
            Err(mesh::Error::Undone(Failure::Refused(Refusal::Missing(_)))) => {
                Err(Error::NoVersion {
                    document: name.to_owned(),
                    version,
                })
            }
            Err(error) => Err(unedited_for(error, name, None)),
        }
    }
}
