//! Applying entries: every rule is checked here, and an entry that breaks one changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use muster_gossip::join::TokenId;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::record::AdmissionState;
use muster_model::id::VcName;

use super::document::{
    BODY_BYTES_MAX, CANARIES_MAX, Canary, ClusterDocument, DOCUMENTS_MAX, SoleMember,
};
use super::document::{DESCRIPTION, REASON_BYTES_MAX, VersionStage, is_in_map};
use super::entry::{
    ActivationStep, Admission, ClusterApplied, ClusterEntry, ClusterInit, CopyHome, DocumentEdit,
    GivenName, TokenIssue, VcCreation,
};
use super::member::AdmittedMember;
use super::recovery::generation_at;
use super::rejected::ClusterRejection;
use super::token::{IssuedToken, TOKENS_MAX, USES_MAX};
use super::{CERTIFICATE_BYTES_MAX, ClusterIdentity, ClusterState, NUMBERS_MAX, VCS_MAX};

impl ClusterState {
    /// Applies the entry at `index` of the log. The same entries give the same state and the
    /// same answers on every replica.
    ///
    /// # Errors
    /// When the entry breaks a rule; the state is then as before.
    pub fn apply(
        &mut self,
        index: u64,
        entry: &ClusterEntry,
    ) -> Result<ClusterApplied, ClusterRejection> {
        if let ClusterEntry::Init(init) = entry {
            return self.init(index, init);
        }
        let Some(cluster) = &self.cluster else {
            return Err(ClusterRejection::NotFounded);
        };
        let is_successor = generation_at(index) > cluster.generation.into();
        if is_successor && !matches!(entry, ClusterEntry::Replacement(_)) {
            // It would give numbers and versions again that others know of.
            return Err(ClusterRejection::Replacement);
        }
        match entry {
            ClusterEntry::Init(init) => self.init(index, init),
            ClusterEntry::Named { name } => self.name_cluster(name),
            ClusterEntry::FeatureLevel { level } => self.feature_level(*level),
            ClusterEntry::TokenCreated(new) => self.create_token(index, new),
            ClusterEntry::TokenRevoked { id, at_ms } => self.revoke_token(*id, *at_ms),
            ClusterEntry::Admitted(admission) => self.admit(index, admission),
            ClusterEntry::Left { member, at_ms } => {
                self.end(index, *member, AdmissionState::Left, *at_ms)
            }
            ClusterEntry::Expelled { member, at_ms } => {
                self.end(index, *member, AdmissionState::Expelled, *at_ms)
            }
            ClusterEntry::Scheduled { member, scheduling } => {
                self.schedule(index, *member, scheduling)
            }
            ClusterEntry::DocumentEdited(edit) => self.edit(index, edit),
            ClusterEntry::DocumentStep(step) => self.step(index, step),
            ClusterEntry::UserToken(issue) => self.issue_user_token(index, issue),
            ClusterEntry::UserTokensRevoked(which) => self.revoke_user_tokens(index, which),
            ClusterEntry::UserTokensUsed { uses } => self.note_uses(uses),
            ClusterEntry::TokenKeyChanged(change) => self.change_token_key(index, change),
            ClusterEntry::Recovered(creation) => self.recover(index, creation),
            ClusterEntry::Bound { vc, binding } => self.bind(index, vc, binding),
            ClusterEntry::Unheard { vcs } => Ok(self.stop_waiting(index, vcs)),
            ClusterEntry::Replacement(replacement) => self.succeed(index, replacement),
            ClusterEntry::People(entry) => self.change_people(index, entry),
        }
    }

    fn init(&mut self, index: u64, init: &ClusterInit) -> Result<ClusterApplied, ClusterRejection> {
        if self.cluster.is_some() {
            return Err(ClusterRejection::Founded);
        }
        if init.certificate.len() > CERTIFICATE_BYTES_MAX {
            return Err(ClusterRejection::Certificate(init.certificate.len()));
        }
        init.check_users()?;
        self.check_creations(&init.vcs)?;
        self.keys = Some(init.keys.clone());
        self.users = init.users.clone();
        self.map_version = index;
        self.cluster = Some(ClusterIdentity {
            name: init.name.clone(),
            id: ClusterId::of_root(&init.root),
            root: init.root,
            signing: init.signing,
            generation: ClusterIdentity::GENERATION,
            feature_level: init.feature_level,
            at_ms: init.at_ms,
            secret: init.secret.clone(),
            certificate: init.certificate.clone(),
        });
        self.vcs = by_name(&init.vcs);
        self.found_groups(index);
        self.enroll(AdmittedMember {
            key: init.founder.key,
            name: init.founder.name.clone(),
            rack: init.founder.rack.clone(),
            votes: true,
            state: AdmissionState::Admitted,
            token: None,
            admitted_ms: init.at_ms,
            ended_ms: None,
            scheduling: None,
            changed: index,
        })?;
        Ok(ClusterApplied::Cluster)
    }

    fn name_cluster(&mut self, name: &GivenName) -> Result<ClusterApplied, ClusterRejection> {
        let cluster = self.cluster.as_mut().ok_or(ClusterRejection::NotFounded)?;
        cluster.name.clone_from(name);
        Ok(ClusterApplied::Cluster)
    }

    fn feature_level(&mut self, level: u32) -> Result<ClusterApplied, ClusterRejection> {
        let cluster = self.cluster.as_mut().ok_or(ClusterRejection::NotFounded)?;
        if level <= cluster.feature_level {
            return Err(ClusterRejection::FeatureLevel(cluster.feature_level));
        }
        cluster.feature_level = level;
        Ok(ClusterApplied::Cluster)
    }

    fn create_token(
        &mut self,
        index: u64,
        new: &TokenIssue,
    ) -> Result<ClusterApplied, ClusterRejection> {
        if self.tokens.contains_key(&new.id) {
            return Err(ClusterRejection::TokenExists(new.id));
        }
        if !(1..=USES_MAX).contains(&new.uses) || new.expires_ms <= new.at_ms {
            return Err(ClusterRejection::UselessToken);
        }
        if self.tokens.len() >= TOKENS_MAX {
            let over = self.oldest_token_over(new.at_ms);
            let over = over.ok_or(ClusterRejection::TooManyTokens)?;
            self.tokens.remove(&over);
        }
        self.tokens.insert(new.id, IssuedToken::new(index, new));
        Ok(ClusterApplied::Token(new.id))
    }

    fn oldest_token_over(&self, at_ms: u64) -> Option<TokenId> {
        let over = |(id, token): &(&TokenId, &IssuedToken)| token.good(**id, at_ms).is_err();
        let over = self.tokens.iter().filter(over);
        over.min_by_key(|(_, token)| token.created)
            .map(|(id, _)| *id)
    }

    fn revoke_token(
        &mut self,
        id: TokenId,
        at_ms: u64,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let token = self
            .tokens
            .get_mut(&id)
            .ok_or(ClusterRejection::NoToken(id))?;
        token.revoked_ms.get_or_insert(at_ms);
        Ok(ClusterApplied::Token(id))
    }

    fn admit(
        &mut self,
        index: u64,
        admission: &Admission,
    ) -> Result<ClusterApplied, ClusterRejection> {
        if let Some(member) = self.admitted_before(admission)? {
            return Ok(ClusterApplied::Member(member));
        }
        let id = admission.token;
        let token = self
            .tokens
            .get_mut(&id)
            .ok_or(ClusterRejection::NoToken(id))?;
        let votes = token.votes;
        // Checked above: the token is good, so a use is left.
        token.uses_left = token.uses_left.saturating_sub(1);
        let member = self.enroll(AdmittedMember {
            key: admission.key,
            name: admission.name.clone(),
            rack: admission.rack.clone(),
            votes,
            state: AdmissionState::Admitted,
            token: Some(id),
            admitted_ms: admission.at_ms,
            ended_ms: None,
            scheduling: None,
            changed: index,
        })?;
        Ok(ClusterApplied::Member(member))
    }

    /// Whether this admission may be made: the member that it made before, if so, and none if it
    /// is new.
    pub(super) fn admitted_before(
        &self,
        admission: &Admission,
    ) -> Result<Option<MemberId>, ClusterRejection> {
        if let Some(id) = self.roll.keys.get(&admission.key) {
            return self.same_admission(*id, admission).map(Some);
        }
        let id = admission.token;
        let token = self.tokens.get(&id).ok_or(ClusterRejection::NoToken(id))?;
        token.good(id, admission.at_ms)?;
        let expelled = self.roll.expelled.get(&admission.key);
        if expelled.is_some_and(|expelled| token.created < *expelled) {
            return Err(ClusterRejection::Expelled);
        }
        if let Some(member) = self.roll.names.get(&admission.name) {
            return Err(ClusterRejection::NameTaken {
                name: admission.name.clone(),
                member: *member,
            });
        }
        if self.members.len() >= NUMBERS_MAX {
            return Err(ClusterRejection::Full);
        }
        Ok(None)
    }

    /// A node that did not get its answer asks again, and gets the same.
    fn same_admission(
        &self,
        id: MemberId,
        admission: &Admission,
    ) -> Result<MemberId, ClusterRejection> {
        let member = self.members.get(id.index());
        let member = member.ok_or(ClusterRejection::NoMember(id))?;
        if member.token == Some(admission.token)
            && member.name == admission.name
            && member.rack == admission.rack
        {
            return Ok(id);
        }
        Err(ClusterRejection::KeyAdmitted {
            name: member.name.clone(),
            member: id,
        })
    }

    fn enroll(&mut self, member: AdmittedMember) -> Result<MemberId, ClusterRejection> {
        let number = u32::try_from(self.members.len()).map_err(|_| ClusterRejection::Full)?;
        let id = MemberId(number);
        self.roll.add(id, &member);
        self.members.push(member);
        Ok(id)
    }

    fn end(
        &mut self,
        index: u64,
        id: MemberId,
        state: AdmissionState,
        at_ms: u64,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let last = self.is_last_voter(id);
        let member = self.members.get_mut(id.index());
        let member = member.ok_or(ClusterRejection::NoMember(id))?;
        if member.state == state {
            return Ok(ClusterApplied::Member(id));
        }
        if !member.is_admitted() {
            return Err(ClusterRejection::NoMember(id));
        }
        if last {
            return Err(ClusterRejection::LastVoter(id));
        }
        if member.is_closed() {
            self.map_version = index;
        }
        member.state = state;
        member.ended_ms = Some(at_ms);
        member.changed = index;
        self.roll.remove(member);
        Ok(ClusterApplied::Member(id))
    }

    /// Whether no other member may vote.
    pub fn is_last_voter(&self, id: MemberId) -> bool {
        let is_voter = |member: &AdmittedMember| member.votes && member.is_admitted();
        let mut others = self.members().filter(|(other, _)| *other != id);
        self.member(id).is_some_and(is_voter) && !others.any(|(_, member)| is_voter(member))
    }

    fn edit(
        &mut self,
        index: u64,
        edit: &DocumentEdit,
    ) -> Result<ClusterApplied, ClusterRejection> {
        if edit.body.bytes > BODY_BYTES_MAX {
            return Err(ClusterRejection::TooLong(edit.body.bytes));
        }
        let known = self.documents.get(&edit.id);
        let current = known.map_or(0, ClusterDocument::version);
        if edit.base != current {
            return Err(ClusterRejection::Conflict {
                base: edit.base,
                current,
            });
        }
        if known.is_none() && self.documents.len() >= DOCUMENTS_MAX {
            return Err(ClusterRejection::TooManyDocuments);
        }
        self.check_creations(&edit.creations)?;
        self.check_homes(&edit.creations)?;
        if is_in_map(edit.id) {
            self.map_version = index;
        }
        if edit.id == DESCRIPTION {
            let before = std::mem::replace(&mut self.vcs, by_name(&edit.creations));
            // Of two that were proposed at the same time the first one counts.
            let is_new = |it: &&VcCreation| !before.contains_key(&it.vc);
            let new: Vec<VcCreation> = edit.creations.iter().filter(is_new).cloned().collect();
            self.vcs.extend(before);
            self.add_vc_groups(index, &new);
        }
        let document = self.documents.entry(edit.id).or_default();
        document.edit(index, edit);
        Ok(ClusterApplied::Document {
            id: edit.id,
            version: document.version(),
        })
    }

    /// Whether virtual clusters may be born, those aside that there are: with a name, a group and
    /// first copies of their own each.
    fn check_creations(&self, creations: &[VcCreation]) -> Result<(), ClusterRejection> {
        let mut all = self.vcs.clone();
        for creation in creations {
            if all.contains_key(&creation.vc) {
                continue;
            }
            let is_taken = all.values().any(|other| other.has_had(creation.group));
            if creation.homes.is_empty() || is_taken || !creation.before.is_empty() {
                return Err(ClusterRejection::Creation(creation.vc.clone()));
            }
            all.insert(creation.vc.clone(), creation.clone());
        }
        match all.len() {
            0..=VCS_MAX => Ok(()),
            many => Err(ClusterRejection::TooManyVcs(many)),
        }
    }

    /// Whether the first copies are at members, one at each.
    fn check_homes(&self, creations: &[VcCreation]) -> Result<(), ClusterRejection> {
        let mut new = creations
            .iter()
            .filter(|creation| !self.vcs.contains_key(&creation.vc));
        match new.find(|creation| !self.are_homes(&creation.homes)) {
            Some(creation) => Err(ClusterRejection::Creation(creation.vc.clone())),
            None => Ok(()),
        }
    }

    fn are_homes(&self, homes: &[CopyHome]) -> bool {
        let members: BTreeSet<MemberId> = homes.iter().map(|home| home.member).collect();
        let are_there = members.iter().all(|id| self.admitted(*id).is_some());
        are_there && members.len() == homes.len()
    }

    /// A virtual cluster goes on in its next generation from one copy of a group that it had.
    fn recover(
        &mut self,
        index: u64,
        creation: &VcCreation,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let known = self.vcs.get(&creation.vc);
        let known = known.ok_or_else(|| ClusterRejection::NoVc(creation.vc.clone()))?;
        let groups = known.before.iter().chain([&known.group]);
        if creation.generation != known.generation + 1 || !groups.eq(&creation.before) {
            return Err(ClusterRejection::OtherGeneration(
                creation.vc.clone(),
                known.generation,
            ));
        }
        let is_taken = self.vcs.values().any(|other| other.has_had(creation.group));
        if is_taken || creation.homes.len() != 1 || !self.are_homes(&creation.homes) {
            return Err(ClusterRejection::Creation(creation.vc.clone()));
        }
        self.map_version = index;
        self.vcs.insert(creation.vc.clone(), creation.clone());
        Ok(ClusterApplied::Recovered)
    }

    fn step(
        &mut self,
        index: u64,
        step: &ActivationStep,
    ) -> Result<ClusterApplied, ClusterRejection> {
        match &step.stage {
            VersionStage::Canary(canaries) if !self.are_canaries(canaries) => {
                return Err(ClusterRejection::Canaries);
            }
            VersionStage::Withdrawn(reason) if reason.len() > REASON_BYTES_MAX => {
                return Err(ClusterRejection::Reason);
            }
            VersionStage::Distribute
            | VersionStage::Canary(_)
            | VersionStage::Active
            | VersionStage::Withdrawn(_) => {}
        }
        let alone = match self.roll.keys.len() {
            0 | 1 => SoleMember::Yes,
            _ => SoleMember::No,
        };
        let document = self.documents.get_mut(&step.id);
        let document = document.ok_or(ClusterRejection::NoDocument(step.id))?;
        document.step(index, step, alone)?;
        if is_in_map(step.id) {
            self.map_version = index;
        }
        Ok(ClusterApplied::Document {
            id: step.id,
            version: step.version,
        })
    }

    fn are_canaries(&self, canaries: &[Canary]) -> bool {
        let is_admitted = |canary: &Canary| self.admitted(canary.member).is_some();
        (1..=CANARIES_MAX).contains(&canaries.len())
            && canaries.is_sorted_by(|one, next| one.member < next.member)
            && canaries.iter().all(is_admitted)
    }
}

impl VcCreation {
    /// Whether this is its group, or was.
    fn has_had(&self, group: u64) -> bool {
        self.group == group || self.before.contains(&group)
    }
}

fn by_name(creations: &[VcCreation]) -> BTreeMap<VcName, VcCreation> {
    let creations = creations.iter().rev();
    creations
        .map(|creation| (creation.vc.clone(), creation.clone()))
        .collect()
}
