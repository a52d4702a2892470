//! A cluster in memory: one node, the members and clusters it is told of.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use muster_model::alarm::{Alarm, AlarmState, Alarms, AlarmsAfter};
use muster_model::mesh::{
    ClusterView, CreatedToken, JoinPlan, Joined, Leadership, MemberReach, MemberState, MemberView,
    MeshView, NewToken, RecoveryView, TokenView,
};
use muster_model::policy::PortalPlugin;

use super::{FakeCluster, NOW_S};
use crate::port::{Caller, DEFAULT_VC, JoinRequest, Membership, PortError};

/// Names the start of the agent that the fake stands for.
const BOOT: &str = "b1";

/// What the fake knows of other nodes.
#[derive(Debug)]
pub(super) struct FakeMembership {
    pub(super) view: MeshView,
    tokens: Vec<TokenView>,
    /// Clusters that can be joined, by the text of a token.
    offers: BTreeMap<String, ClusterView>,
    alarms: Vec<Alarm>,
    /// What the portal shows besides its own pages.
    plugins: Vec<PortalPlugin>,
}

impl Default for FakeMembership {
    fn default() -> Self {
        let vcs = DEFAULT_VC.parse().map(|vc| [(vc, alone("n1"))].into());
        let view = MeshView {
            cluster: None,
            solo: true,
            me: "n1".to_owned(),
            leadership: alone("n1"),
            vcs: vcs.unwrap_or_default(),
            members: vec![member(0, "n1", MemberReach::Alive)],
            islands: vec![vec!["n1".to_owned()]],
            one_way: Vec::new(),
            digest: "0000000000000000".to_owned(),
            counters: BTreeMap::new(),
            documents: Vec::new(),
            cloned: None,
            certificate: Some("sha256:00ff".to_owned()),
        };
        Self {
            view,
            tokens: Vec::new(),
            offers: BTreeMap::new(),
            alarms: Vec::new(),
            plugins: Vec::new(),
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
pub fn member(id: u32, name: &str, reach: MemberReach) -> MemberView {
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

impl FakeMembership {
    /// Who leads a virtual cluster; if none is named, the cluster itself.
    fn leadership(&mut self, vc: Option<&str>) -> Result<&mut Leadership, PortError> {
        let Some(vc) = vc else {
            return Ok(&mut self.view.leadership);
        };
        let mut vcs = self.view.vcs.iter_mut();
        let found = vcs.find(|(name, _)| name.as_str() == vc);
        let (_, led) = found.ok_or_else(|| PortError::NoVc(vc.to_owned()))?;
        Ok(led)
    }

    pub(super) fn admitted(&mut self, name: &str) -> Result<&mut MemberView, PortError> {
        let mut members = self.view.members.iter_mut();
        let found = members.find(|one| one.name == name && one.state == MemberState::Admitted);
        found.ok_or_else(|| PortError::NoMember(name.to_owned()))
    }

    /// The member of this name, or none where it was one.
    pub(super) fn had(&self, name: &str) -> Result<Option<&MemberView>, PortError> {
        if !self.view.has_had(name) {
            return Err(PortError::NoMember(name.to_owned()));
        }
        Ok(self.view.admitted().find(|one| one.name == name))
    }
}

impl FakeCluster {
    /// Says what the portal shows besides its own pages.
    pub fn set_plugins(&self, plugins: Vec<PortalPlugin>) {
        self.state().membership.plugins = plugins;
    }

    /// Changes what the node sees of the mesh.
    pub fn change_mesh(&self, change: impl FnOnce(&mut MeshView)) {
        change(&mut self.state().membership.view);
    }

    /// Adds an alarm, and gives it its number and the boot that the fake has.
    pub fn alarm(&self, alarm: Alarm) {
        let alarms = &mut self.state().membership.alarms;
        alarms.push(Alarm {
            number: alarms.len() as u64 + 1,
            boot: BOOT.to_owned(),
            ..alarm
        });
    }

    /// Makes a cluster that can be joined with this token.
    pub fn offer(&self, token: &str, name: &str) {
        let offers = &mut self.state().membership.offers;
        offers.insert(token.to_owned(), cluster(name));
    }
}

#[async_trait]
impl Membership for FakeCluster {
    async fn view(&self) -> Result<MeshView, PortError> {
        let state = self.state();
        let view = state.membership.view.clone();
        Ok(MeshView {
            documents: state.documents.view(&view).into_iter().collect(),
            ..view
        })
    }

    fn node_name(&self) -> String {
        self.state().membership.view.me.clone()
    }

    fn plugins(&self) -> Vec<PortalPlugin> {
        self.state().membership.plugins.clone()
    }

    async fn alarms(&self, after: &AlarmsAfter) -> Result<Alarms, PortError> {
        let all = &self.state().membership.alarms;
        let last = all.len() as u64;
        let number = after.number_at(BOOT, last);
        let is_over = |of: &Alarm| {
            let mut later = all.iter().filter(|one| one.number > of.number);
            later.any(|one| (one.kind, &one.subject) == (of.kind, &of.subject))
        };
        let raised = all.iter().filter(|one| one.state == AlarmState::Raised);
        Ok(Alarms {
            boot: BOOT.to_owned(),
            last,
            dropped: false,
            standing: raised.filter(|one| !is_over(one)).cloned().collect(),
            alarms: all
                .iter()
                .filter(|one| one.number > number)
                .cloned()
                .collect(),
        })
    }

    async fn init(&self, name: &str) -> Result<ClusterView, PortError> {
        let view = &mut self.state().membership.view;
        if !view.solo {
            return Err(not_now("this node is in a cluster already"));
        }
        let made = cluster(name);
        view.solo = false;
        view.cluster = Some(made.clone());
        Ok(made)
    }

    async fn join_plan(&self) -> Result<JoinPlan, PortError> {
        Ok(JoinPlan {
            jobs: self.state().jobs.open(),
        })
    }

    async fn join(&self, request: &JoinRequest) -> Result<Joined, PortError> {
        let mut state = self.state();
        let jobs = state.jobs.open().join(", ");
        if !jobs.is_empty() {
            return Err(not_now(&format!("jobs are queued or running: {jobs}")));
        }
        let FakeMembership { view, offers, .. } = &mut state.membership;
        if !view.solo {
            return Err(not_now("leave the cluster first"));
        }
        let Some(cluster) = offers.get(&request.token).cloned() else {
            return Err(PortError::JoinRefused(
                "the token is unknown there".to_owned(),
            ));
        };
        view.solo = false;
        view.cluster = Some(cluster.clone());
        let name = view.me.clone();
        state.jobs.jobs.clear();
        Ok(Joined {
            cluster,
            member: 1,
            name,
        })
    }

    async fn leave(&self) -> Result<(), PortError> {
        let view = &mut self.state().membership.view;
        if view.solo {
            return Err(not_now("this machine is alone"));
        }
        view.solo = true;
        view.cluster = None;
        Ok(())
    }

    async fn expel(&self, _: &Caller, member: &str) -> Result<(), PortError> {
        let membership = &mut self.state().membership;
        if member == membership.view.me {
            return Err(invalid("this node leaves, others expel it"));
        }
        membership.admitted(member)?.state = MemberState::Expelled;
        Ok(())
    }

    async fn recover(
        &self,
        _: &Caller,
        vc: Option<&str>,
        lost: &BTreeSet<String>,
    ) -> Result<RecoveryView, PortError> {
        let mut state = self.state();
        let led = state.membership.leadership(vc)?;
        if led.leader.is_some() {
            let what = vc.unwrap_or("the cluster");
            let text = format!("{what} has a leader: there is nothing to recover");
            return Err(PortError::NotNow(text));
        }
        let (missing, there) = led.voters.split_at(led.voters.len() / 2 + 1);
        let plan = RecoveryView {
            vc: vc.map(str::to_owned),
            generation: 2,
            from_generation: 1,
            from: there.first().cloned().unwrap_or_default(),
            voters: led.voters.clone(),
            missing: missing.to_vec(),
        };
        if lost.is_empty() {
            return Ok(plan);
        }
        if !plan.missing.iter().eq(lost) {
            return Err(not_now("lost: others are missing"));
        }
        led.leader = Some(plan.from.clone());
        led.voters = vec![plan.from.clone()];
        Ok(plan)
    }

    async fn create_token(
        &self,
        caller: &Caller,
        token: NewToken,
    ) -> Result<CreatedToken, PortError> {
        let FakeMembership { view, tokens, .. } = &mut self.state().membership;
        if view.solo {
            return Err(invalid("make a cluster first"));
        }
        let made = TokenView {
            id: format!("t{}", tokens.len()),
            expires_ms: (NOW_S + token.expires_s) * 1000,
            uses_left: token.uses,
            votes: token.votes,
            created_by: caller.user.to_string(),
            revoked: false,
        };
        tokens.push(made.clone());
        Ok(CreatedToken {
            text: format!("{}.secret.{}", made.id, "5f".repeat(32)),
            address: "10.0.0.1:7740".to_owned(),
            token: made,
        })
    }

    async fn tokens(&self) -> Result<Vec<TokenView>, PortError> {
        Ok(self.state().membership.tokens.clone())
    }

    async fn revoke_token(&self, id: &str) -> Result<(), PortError> {
        let tokens = &mut self.state().membership.tokens;
        let found = tokens.iter_mut().find(|token| token.id == id);
        let missing = || PortError::NoJoinToken(id.to_owned());
        found.ok_or_else(missing)?.revoked = true;
        Ok(())
    }
}

fn invalid(text: &str) -> PortError {
    PortError::Invalid(text.to_owned())
}

fn not_now(text: &str) -> PortError {
    PortError::NotNow(text.to_owned())
}
