//! The mesh of the cluster in memory: one node, the members and clusters it is told of, and
//! documents that are in force as soon as a cluster of one has them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use muster_model::finding::Finding;
use muster_model::mesh::{
    ClusterView, Coverage, CreatedToken, DocumentText, DocumentVersion, DocumentView, Health,
    JoinPlan, Joined, Leadership, LocalDocument, MemberState, MemberTask, MemberView, MeshView,
    NewToken, Reach, RecoveryView, Scheduling, SchedulingView, Stage, TokenView, VersionView,
};

use super::{Fake, ISSUED_S};
use crate::cluster::{Caller, DEFAULT_VC, Error};
use crate::mesh::{Edit, JoinRequest, Mesh, NewScheduling};

/// The one document that the fake has.
const DOCUMENT: &str = "failure-rules";
/// Its text before anybody edited it.
const SHIPPED: &str = "[]\n";

/// What the fake knows of other nodes.
pub(super) struct State {
    view: MeshView,
    health: Health,
    findings: Vec<Finding>,
    tokens: Vec<TokenView>,
    /// Clusters that can be joined, by the text of a token.
    offers: BTreeMap<String, ClusterView>,
    /// Versions with their texts, the oldest first.
    versions: Vec<(VersionView, String)>,
    /// What runs on members.
    tasks: BTreeMap<String, Vec<MemberTask>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            view: MeshView {
                cluster: None,
                solo: true,
                me: "n1".to_owned(),
                leadership: alone("n1"),
                vcs: DEFAULT_VC
                    .parse()
                    .map(|vc| [(vc, alone("n1"))].into())
                    .unwrap_or_default(),
                members: vec![member(0, "n1", Reach::Alive)],
                islands: vec![vec!["n1".to_owned()]],
                one_way: Vec::new(),
                digest: "0000000000000000".to_owned(),
                counters: BTreeMap::new(),
                documents: Vec::new(),
                cloned: None,
                certificate: Some("sha256:00ff".to_owned()),
            },
            health: Health {
                uptime_s: 61,
                checks: vec![Finding::ok("engine", "containerd", "it answers")],
            },
            findings: vec![Finding::ok("fsync", "state", "p99 1.0 ms")],
            tokens: Vec::new(),
            offers: BTreeMap::new(),
            versions: Vec::new(),
            tasks: BTreeMap::new(),
        }
    }
}

/// One node settles everything by itself.
fn alone(name: &str) -> Leadership {
    Leadership {
        leader: Some(name.to_owned()),
        voters: vec![name.to_owned()],
        away: Vec::new(),
        learners: Vec::new(),
    }
}

/// A member that said nothing of itself but where it is.
pub fn member(id: u32, name: &str, reach: Reach) -> MemberView {
    MemberView {
        id,
        name: name.to_owned(),
        rack: String::new(),
        key: "00".repeat(32),
        votes: true,
        state: MemberState::Admitted,
        reach,
        scheduling: None,
        why: Vec::new(),
        addresses: vec![([10, 0, 0, 1], 7740).into()],
        agent_version: "0.1.0".to_owned(),
        incarnation: 1,
        age_s: Some(1),
        reach_s: None,
        devices: String::new(),
        problems: Vec::new(),
    }
}

fn cluster(name: &str) -> ClusterView {
    ClusterView {
        id: "5f".repeat(16),
        name: name.to_owned(),
        root_hash: "5f".repeat(32),
        generation: 1,
        feature_level: 1,
    }
}

impl State {
    /// Who leads a virtual cluster; if none is named, the cluster itself.
    fn leadership(&mut self, vc: Option<&str>) -> Result<&mut Leadership, Error> {
        let Some(vc) = vc else {
            return Ok(&mut self.view.leadership);
        };
        let mut vcs = self.view.vcs.iter_mut();
        let found = vcs.find(|(name, _)| name.as_str() == vc);
        let (_, led) = found.ok_or_else(|| Error::NoVc(vc.to_owned()))?;
        Ok(led)
    }

    fn admitted(&mut self, name: &str) -> Result<&mut MemberView, Error> {
        let mut members = self.view.members.iter_mut();
        let found = members.find(|one| one.name == name && one.state == MemberState::Admitted);
        found.ok_or_else(|| Error::NoMember(name.to_owned()))
    }

    /// The member of this name, or none where it was one.
    fn had(&self, name: &str) -> Result<Option<&MemberView>, Error> {
        if !self.view.has_had(name) {
            return Err(Error::NoMember(name.to_owned()));
        }
        Ok(self.view.admitted().find(|one| one.name == name))
    }

    fn newest(&self) -> DocumentVersion {
        match self.versions.last() {
            Some((newest, _)) => newest.version.clone(),
            None => DocumentVersion {
                version: 0,
                stage: Stage::Active,
                hash: String::new(),
                bytes: SHIPPED.len() as u64,
                author: String::new(),
                at_ms: 0,
                forced: false,
            },
        }
    }

    fn document(&self) -> DocumentView {
        let newest = self.newest();
        let named = |reach: fn(Reach) -> bool| {
            let those = self.view.admitted().filter(move |one| reach(one.reach));
            those.map(|one| one.name.clone()).collect::<Vec<_>>()
        };
        let here = named(|reach| reach != Reach::Unreachable);
        let count = |names: &[String]| u32::try_from(names.len()).unwrap_or(u32::MAX);
        let active = newest.stage == Stage::Active;
        let unreachable = named(|reach| reach == Reach::Unreachable);
        DocumentView {
            name: DOCUMENT.to_owned(),
            active: self.active(),
            coverage: Coverage {
                members: count(&here) + count(&unreachable),
                valid: count(&here),
                active: if active { count(&here) } else { 0 },
                unreachable,
                ..Coverage::default()
            },
            here: LocalDocument {
                has_newest: true,
                active: self.active(),
                problem: String::new(),
            },
            newest,
        }
    }

    fn add(&mut self, caller: &Caller, text: String, now: bool, note: String) -> u64 {
        let version = self.newest().version + 1;
        let alone = self.view.admitted().count() == 1;
        let made = DocumentVersion {
            version,
            stage: if now || alone {
                Stage::Active
            } else {
                Stage::Distribute
            },
            hash: format!("{version:064x}"),
            bytes: text.len() as u64,
            author: caller.user.to_string(),
            at_ms: ISSUED_S * 1000,
            forced: now,
        };
        let version_view = VersionView {
            version: made,
            note,
        };
        self.versions.push((version_view, text));
        version
    }

    /// The version in force; 0 for the one that came with the agent.
    fn active(&self) -> u64 {
        let mut versions = self.versions.iter().rev().map(|(view, _)| &view.version);
        let active = versions.find(|version| version.stage == Stage::Active);
        active.map_or(0, |version| version.version)
    }

    fn text(&self, version: u64) -> Result<String, Error> {
        if version == 0 {
            return Ok(SHIPPED.to_owned());
        }
        let mut versions = self.versions.iter();
        let found = versions.find(|(view, _)| view.version.version == version);
        found
            .map(|(_, text)| text.clone())
            .ok_or_else(|| Error::NoVersion {
                document: DOCUMENT.to_owned(),
                version,
            })
    }
}

fn known(name: &str) -> Result<(), Error> {
    if name == DOCUMENT {
        Ok(())
    } else {
        Err(Error::NoDocument(name.to_owned()))
    }
}

fn valid(text: &str) -> Result<(), Error> {
    if text.trim().is_empty() {
        return Err(Error::InvalidDocument(vec!["it is empty".to_owned()]));
    }
    Ok(())
}

impl Fake {
    /// Says what runs on a member: jobs with their tasks.
    pub fn run_on(&self, member: &str, tasks: &[(&str, &str)]) {
        let tasks = tasks.iter().map(|(job, task)| MemberTask {
            job: (*job).to_owned(),
            task: (*task).to_owned(),
        });
        let tasks = tasks.collect();
        self.state().mesh.tasks.insert(member.to_owned(), tasks);
    }

    /// Changes what the node sees of the mesh.
    pub fn change_mesh(&self, change: impl FnOnce(&mut MeshView)) {
        change(&mut self.state().mesh.view);
    }

    /// Says how the node is.
    pub fn set_health(&self, health: Health) {
        self.state().mesh.health = health;
    }

    /// Says what the doctor finds.
    pub fn set_findings(&self, findings: Vec<Finding>) {
        self.state().mesh.findings = findings;
    }

    /// Makes a cluster that can be joined with this token.
    pub fn offer(&self, token: &str, name: &str) {
        let mut state = self.state();
        state.mesh.offers.insert(token.to_owned(), cluster(name));
    }

    fn open_jobs(&self) -> Vec<String> {
        let state = self.state();
        let jobs = state.jobs.values().map(|job| &job.summary);
        let open = jobs.filter(|job| !job.state().is_final());
        open.map(|job| job.key.to_string()).collect()
    }
}

#[async_trait]
impl Mesh for Fake {
    async fn mesh(&self) -> Result<MeshView, Error> {
        let state = self.state();
        Ok(MeshView {
            documents: vec![state.mesh.document()],
            ..state.mesh.view.clone()
        })
    }

    async fn health(&self) -> Result<Health, Error> {
        Ok(self.state().mesh.health.clone())
    }

    async fn doctor(&self) -> Result<Vec<Finding>, Error> {
        Ok(self.state().mesh.findings.clone())
    }

    async fn init_cluster(&self, _: &Caller, name: &str) -> Result<ClusterView, Error> {
        let view = &mut self.state().mesh.view;
        if !view.solo {
            return Err(Error::NotNow(
                "this node is in a cluster already".to_owned(),
            ));
        }
        let made = cluster(name);
        view.solo = false;
        view.cluster = Some(made.clone());
        Ok(made)
    }

    async fn join_plan(&self) -> Result<JoinPlan, Error> {
        Ok(JoinPlan {
            jobs: self.open_jobs(),
        })
    }

    async fn join(&self, _: &Caller, request: &JoinRequest) -> Result<Joined, Error> {
        let JoinPlan { jobs } = self.join_plan().await?;
        if !jobs.is_empty() {
            let jobs = jobs.join(", ");
            return Err(Error::NotNow(format!("jobs are queued or running: {jobs}")));
        }
        let mut state = self.state();
        let State { view, offers, .. } = &mut state.mesh;
        if !view.solo {
            return Err(Error::NotNow("leave the cluster first".to_owned()));
        }
        let Some(cluster) = offers.get(&request.token).cloned() else {
            return Err(Error::JoinRefused("the token is unknown there".to_owned()));
        };
        view.solo = false;
        view.cluster = Some(cluster.clone());
        let name = view.me.clone();
        state.jobs.clear();
        Ok(Joined {
            cluster,
            member: 1,
            name,
        })
    }

    async fn leave(&self, _: &Caller) -> Result<(), Error> {
        let view = &mut self.state().mesh.view;
        if view.solo {
            return Err(Error::NotNow("this machine is alone".to_owned()));
        }
        view.solo = true;
        view.cluster = None;
        Ok(())
    }

    async fn expel(&self, _: &Caller, member: &str) -> Result<(), Error> {
        if member == self.state().mesh.view.me {
            return Err(Error::NotNow(
                "this node leaves, others expel it".to_owned(),
            ));
        }
        self.state().mesh.admitted(member)?.state = MemberState::Expelled;
        Ok(())
    }

    async fn schedule(
        &self,
        caller: &Caller,
        member: &str,
        wanted: &NewScheduling,
    ) -> Result<(), Error> {
        let NewScheduling { scheduling, reason } = wanted.clone();
        let word = SchedulingView {
            scheduling,
            reason,
            by: caller.user.to_string(),
            at_ms: ISSUED_S * 1000,
        };
        let word = (scheduling != Scheduling::Open).then_some(word);
        self.state().mesh.admitted(member)?.scheduling = word;
        Ok(())
    }

    async fn tasks_on(&self, member: &str) -> Result<Vec<MemberTask>, Error> {
        let mut state = self.state();
        let word = state.mesh.had(member)?;
        let word = word.and_then(|member| member.scheduling.clone());
        let drains = word.is_some_and(|it| matches!(it.scheduling, Scheduling::Draining { .. }));
        let tasks = state.mesh.tasks.entry(member.to_owned()).or_default();
        let before = tasks.clone();
        if drains {
            // One ends between two looks.
            tasks.pop();
        }
        Ok(before)
    }

    async fn say_off(&self, _: &Caller, member: &str) -> Result<Vec<MemberTask>, Error> {
        let mut state = self.state();
        let found = state.mesh.had(member)?;
        if found.is_some_and(|member| member.reach != Reach::Unreachable) {
            let text = format!("{member} can be reached, so it is not off");
            return Err(Error::NotNow(text));
        }
        Ok(state.mesh.tasks.remove(member).unwrap_or_default())
    }

    async fn recovery(&self, _: &Caller, vc: Option<&str>) -> Result<RecoveryView, Error> {
        let mut state = self.state();
        let led = state.mesh.leadership(vc)?;
        if led.leader.is_some() {
            let what = vc.unwrap_or("the cluster");
            return Err(Error::NotNow(format!(
                "{what} has a leader: there is nothing to recover"
            )));
        }
        let (missing, there) = led.voters.split_at(led.voters.len() / 2 + 1);
        Ok(RecoveryView {
            vc: vc.map(str::to_owned),
            generation: 2,
            from_generation: 1,
            from: there.first().cloned().unwrap_or_default(),
            voters: led.voters.clone(),
            missing: missing.to_vec(),
        })
    }

    async fn recover(
        &self,
        caller: &Caller,
        vc: Option<&str>,
        lost: &BTreeSet<String>,
    ) -> Result<RecoveryView, Error> {
        let plan = self.recovery(caller, vc).await?;
        if !plan.missing.iter().eq(lost) {
            return Err(Error::NotNow("lost: others are missing".to_owned()));
        }
        let mut state = self.state();
        let led = state.mesh.leadership(vc)?;
        led.leader = Some(plan.from.clone());
        led.voters = vec![plan.from.clone()];
        Ok(plan)
    }

    async fn create_join_token(
        &self,
        caller: &Caller,
        token: NewToken,
    ) -> Result<CreatedToken, Error> {
        let mut state = self.state();
        if state.mesh.view.solo {
            return Err(Error::NotNow("make a cluster first".to_owned()));
        }
        let id = format!("t{}", state.mesh.tokens.len());
        let made = TokenView {
            id: id.clone(),
            expires_ms: (ISSUED_S + token.expires_s) * 1000,
            uses_left: token.uses,
            votes: token.votes,
            created_by: caller.user.to_string(),
            revoked: false,
        };
        state.mesh.tokens.push(made.clone());
        Ok(CreatedToken {
            text: format!("{id}.secret.{}", "5f".repeat(32)),
            address: "10.0.0.1:7740".to_owned(),
            token: made,
        })
    }

    async fn join_tokens(&self) -> Result<Vec<TokenView>, Error> {
        Ok(self.state().mesh.tokens.clone())
    }

    async fn revoke_join_token(&self, _: &Caller, id: &str) -> Result<(), Error> {
        let mut state = self.state();
        let found = state.mesh.tokens.iter_mut().find(|token| token.id == id);
        found
            .ok_or_else(|| Error::NoJoinToken(id.to_owned()))?
            .revoked = true;
        Ok(())
    }

    async fn documents(&self) -> Result<Vec<DocumentView>, Error> {
        Ok(vec![self.state().mesh.document()])
    }

    async fn document_history(&self, name: &str) -> Result<Vec<VersionView>, Error> {
        known(name)?;
        let state = self.state();
        let versions = state.mesh.versions.iter().rev();
        Ok(versions.map(|(version, _)| version.clone()).collect())
    }

    async fn document_text(
        &self,
        _: &Caller,
        name: &str,
        version: Option<u64>,
    ) -> Result<DocumentText, Error> {
        known(name)?;
        let state = self.state();
        let version = version.unwrap_or_else(|| state.mesh.active());
        let text = state.mesh.text(version)?;
        Ok(DocumentText { version, text })
    }

    async fn edit_document(&self, caller: &Caller, name: &str, edit: Edit) -> Result<u64, Error> {
        known(name)?;
        valid(&edit.text)?;
        let mesh = &mut self.state().mesh;
        let current = mesh.newest().version;
        if current != edit.base {
            return Err(Error::DocumentConflict {
                document: name.to_owned(),
                base: edit.base,
                current,
            });
        }
        Ok(mesh.add(caller, edit.text, edit.now, String::new()))
    }

    async fn rollback_document(
        &self,
        caller: &Caller,
        name: &str,
        version: u64,
    ) -> Result<u64, Error> {
        known(name)?;
        let mesh = &mut self.state().mesh;
        let text = mesh.text(version)?;
        let note = format!("repeats version {version}");
        Ok(mesh.add(caller, text, false, note))
    }
}
