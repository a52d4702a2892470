//! Applying entries: every rule is checked here, and an entry that breaks one changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use muster_gossip::join::TokenId;
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::record::MemberState;
use muster_model::id::VcName;

use super::document::{Alone, BODY_BYTES_MAX, CANARIES_MAX, Canary, DOCUMENTS_MAX, Document};
use super::document::{DESCRIPTION, REASON_BYTES_MAX, Stage};
use super::entry::{Admission, Applied, Birth, Edit, Entry, Home, Init, Name, NewToken, Step};
use super::member::Member;
use super::recovery::generation_at;
use super::rejected::Rejected;
use super::token::{TOKENS_MAX, Token, USES_MAX};
use super::{CERTIFICATE_BYTES_MAX, Cluster, ClusterState, NUMBERS_MAX, VCS_MAX};

impl ClusterState {
    /// Applies the entry at `index` of the log. The same entries give the same state and the
    /// same answers on every replica.
    ///
    /// # Errors
    /// When the entry breaks a rule; the state is then as before.
    pub fn apply(&mut self, index: u64, entry: &Entry) -> Result<Applied, Rejected> {
        if let Entry::Init(init) = entry {
            return self.init(index, init);
        }
        let Some(cluster) = &self.cluster else {
            return Err(Rejected::NotFounded);
        };
        let is_successor = generation_at(index) > cluster.generation.into();
        if is_successor && !matches!(entry, Entry::Succession(_)) {
            // It would give numbers and versions again that others know of.
            return Err(Rejected::Succession);
        }
        match entry {
            Entry::Init(init) => self.init(index, init),
            Entry::Named { name } => self.name_cluster(name),
            Entry::FeatureLevel { level } => self.feature_level(*level),
            Entry::TokenCreated(new) => self.create_token(index, new),
            Entry::TokenRevoked { id, at_ms } => self.revoke_token(*id, *at_ms),
            Entry::Admitted(admission) => self.admit(index, admission),
            Entry::Left { member, at_ms } => self.end(index, *member, MemberState::Left, *at_ms),
            Entry::Expelled { member, at_ms } => {
                self.end(index, *member, MemberState::Expelled, *at_ms)
            }
            Entry::Scheduled { member, scheduling } => self.schedule(index, *member, scheduling),
            Entry::DocumentEdited(edit) => self.edit(index, edit),
            Entry::DocumentStep(step) => self.step(index, step),
            Entry::UserToken { user, token, now_s } => {
                self.issue_user_token(index, user, token, *now_s)
            }
            Entry::UserTokenRevoked { user, text } => self.revoke_user_token(index, user, &text.0),
            Entry::Recovered(birth) => self.recover(index, birth),
            Entry::Bound { vc, binding } => self.bind(index, vc, binding),
            Entry::Unheard { vcs } => Ok(self.stop_waiting(index, vcs)),
            Entry::Succession(succession) => self.succeed(index, succession),
        }
    }

    fn init(&mut self, index: u64, init: &Init) -> Result<Applied, Rejected> {
        if self.cluster.is_some() {
            return Err(Rejected::Founded);
        }
        if init.certificate.len() > CERTIFICATE_BYTES_MAX {
            return Err(Rejected::Certificate(init.certificate.len()));
        }
        init.check_users()?;
        self.check_births(&init.vcs)?;
        self.keys = Some(init.keys.clone());
        self.users = init.users.clone();
        self.briefed = index;
        self.cluster = Some(Cluster {
            name: init.name.clone(),
            id: ClusterId::of_root(&init.root),
            root: init.root,
            signing: init.signing,
            generation: Cluster::GENERATION,
            feature_level: init.feature_level,
            at_ms: init.at_ms,
            secret: init.secret.clone(),
            certificate: init.certificate.clone(),
        });
        self.vcs = by_name(&init.vcs);
        self.enroll(Member {
            key: init.founder.key,
            name: init.founder.name.clone(),
            rack: init.founder.rack.clone(),
            votes: true,
            state: MemberState::Admitted,
            token: None,
            admitted_ms: init.at_ms,
            ended_ms: None,
            scheduling: None,
            changed: index,
        })?;
        Ok(Applied::Cluster)
    }

    fn name_cluster(&mut self, name: &Name) -> Result<Applied, Rejected> {
        let cluster = self.cluster.as_mut().ok_or(Rejected::NotFounded)?;
        cluster.name.clone_from(name);
        Ok(Applied::Cluster)
    }

    fn feature_level(&mut self, level: u32) -> Result<Applied, Rejected> {
        let cluster = self.cluster.as_mut().ok_or(Rejected::NotFounded)?;
        if level <= cluster.feature_level {
            return Err(Rejected::FeatureLevel(cluster.feature_level));
        }
        cluster.feature_level = level;
        Ok(Applied::Cluster)
    }

    fn create_token(&mut self, index: u64, new: &NewToken) -> Result<Applied, Rejected> {
        if self.tokens.contains_key(&new.id) {
            return Err(Rejected::TokenExists(new.id));
        }
        if !(1..=USES_MAX).contains(&new.uses) || new.expires_ms <= new.at_ms {
            return Err(Rejected::UselessToken);
        }
        if self.tokens.len() >= TOKENS_MAX {
            let over = self.oldest_token_over(new.at_ms);
            let over = over.ok_or(Rejected::TooManyTokens)?;
            self.tokens.remove(&over);
        }
        self.tokens.insert(new.id, Token::new(index, new));
        Ok(Applied::Token(new.id))
    }

    fn oldest_token_over(&self, at_ms: u64) -> Option<TokenId> {
        let over = |(id, token): &(&TokenId, &Token)| token.good(**id, at_ms).is_err();
        let over = self.tokens.iter().filter(over);
        over.min_by_key(|(_, token)| token.created)
            .map(|(id, _)| *id)
    }

    fn revoke_token(&mut self, id: TokenId, at_ms: u64) -> Result<Applied, Rejected> {
        let token = self.tokens.get_mut(&id).ok_or(Rejected::NoToken(id))?;
        token.revoked_ms.get_or_insert(at_ms);
        Ok(Applied::Token(id))
    }

    fn admit(&mut self, index: u64, admission: &Admission) -> Result<Applied, Rejected> {
        if let Some(member) = self.admitted_before(admission)? {
            return Ok(Applied::Member(member));
        }
        let id = admission.token;
        let token = self.tokens.get_mut(&id).ok_or(Rejected::NoToken(id))?;
        let votes = token.votes;
        // Checked above: the token is good, so a use is left.
        token.uses_left = token.uses_left.saturating_sub(1);
        let member = self.enroll(Member {
            key: admission.key,
            name: admission.name.clone(),
            rack: admission.rack.clone(),
            votes,
            state: MemberState::Admitted,
            token: Some(id),
            admitted_ms: admission.at_ms,
            ended_ms: None,
            scheduling: None,
            changed: index,
        })?;
        Ok(Applied::Member(member))
    }

    /// Whether this admission may be made: the member that it made before, if so, and none if it
    /// is new.
    pub(super) fn admitted_before(
        &self,
        admission: &Admission,
    ) -> Result<Option<MemberId>, Rejected> {
        if let Some(id) = self.roll.keys.get(&admission.key) {
            return self.same_admission(*id, admission).map(Some);
        }
        let id = admission.token;
        let token = self.tokens.get(&id).ok_or(Rejected::NoToken(id))?;
        token.good(id, admission.at_ms)?;
        let expelled = self.roll.expelled.get(&admission.key);
        if expelled.is_some_and(|expelled| token.created < *expelled) {
            return Err(Rejected::Expelled);
        }
        if let Some(member) = self.roll.names.get(&admission.name) {
            return Err(Rejected::NameTaken {
                name: admission.name.clone(),
                member: *member,
            });
        }
        if self.members.len() >= NUMBERS_MAX {
            return Err(Rejected::Full);
        }
        Ok(None)
    }

    /// A node that did not get its answer asks again, and gets the same.
    fn same_admission(&self, id: MemberId, admission: &Admission) -> Result<MemberId, Rejected> {
        let member = self.members.get(id.index());
        let member = member.ok_or(Rejected::NoMember(id))?;
        if member.token == Some(admission.token)
            && member.name == admission.name
            && member.rack == admission.rack
        {
            return Ok(id);
        }
        Err(Rejected::KeyAdmitted {
            name: member.name.clone(),
            member: id,
        })
    }

    fn enroll(&mut self, member: Member) -> Result<MemberId, Rejected> {
        let number = u32::try_from(self.members.len()).map_err(|_| Rejected::Full)?;
        let id = MemberId(number);
        self.roll.add(id, &member);
        self.members.push(member);
        Ok(id)
    }

    fn end(
        &mut self,
        index: u64,
        id: MemberId,
        state: MemberState,
        at_ms: u64,
    ) -> Result<Applied, Rejected> {
        let last = self.is_last_voter(id);
        let member = self.members.get_mut(id.index());
        let member = member.ok_or(Rejected::NoMember(id))?;
        if member.state == state {
            return Ok(Applied::Member(id));
        }
        if !member.is_admitted() {
            return Err(Rejected::NoMember(id));
        }
        if last {
            return Err(Rejected::LastVoter(id));
        }
        if member.is_closed() {
            self.briefed = index;
        }
        member.state = state;
        member.ended_ms = Some(at_ms);
        member.changed = index;
        self.roll.remove(member);
        Ok(Applied::Member(id))
    }

    /// Whether no other member may vote.
    pub fn is_last_voter(&self, id: MemberId) -> bool {
        let is_voter = |member: &Member| member.votes && member.is_admitted();
        let mut others = self.members().filter(|(other, _)| *other != id);
        self.member(id).is_some_and(is_voter) && !others.any(|(_, member)| is_voter(member))
    }

    fn edit(&mut self, index: u64, edit: &Edit) -> Result<Applied, Rejected> {
        if edit.body.bytes > BODY_BYTES_MAX {
            return Err(Rejected::TooLong(edit.body.bytes));
        }
        let known = self.documents.get(&edit.id);
        let current = known.map_or(0, Document::version);
        if edit.base != current {
            return Err(Rejected::Conflict {
                base: edit.base,
                current,
            });
        }
        if known.is_none() && self.documents.len() >= DOCUMENTS_MAX {
            return Err(Rejected::TooManyDocuments);
        }
        self.check_births(&edit.births)?;
        self.check_homes(&edit.births)?;
        if edit.id == DESCRIPTION {
            self.briefed = index;
            let before = std::mem::replace(&mut self.vcs, by_name(&edit.births));
            // Of two that were proposed at the same time the first one counts.
            self.vcs.extend(before);
        }
        let document = self.documents.entry(edit.id).or_default();
        document.edit(index, edit);
        Ok(Applied::Document {
            id: edit.id,
            version: document.version(),
        })
    }

    /// Whether virtual clusters may be born, those aside that there are: with a name, a group and
    /// first copies of their own each.
    fn check_births(&self, births: &[Birth]) -> Result<(), Rejected> {
        let mut all = self.vcs.clone();
        for birth in births {
            if all.contains_key(&birth.vc) {
                continue;
            }
            let is_taken = all.values().any(|other| other.has_had(birth.group));
            if birth.homes.is_empty() || is_taken || !birth.before.is_empty() {
                return Err(Rejected::Birth(birth.vc.clone()));
            }
            all.insert(birth.vc.clone(), birth.clone());
        }
        match all.len() {
            0..=VCS_MAX => Ok(()),
            many => Err(Rejected::TooManyVcs(many)),
        }
    }

    /// Whether the first copies are at members, one at each.
    fn check_homes(&self, births: &[Birth]) -> Result<(), Rejected> {
        let mut new = births
            .iter()
            .filter(|birth| !self.vcs.contains_key(&birth.vc));
        match new.find(|birth| !self.are_homes(&birth.homes)) {
            Some(birth) => Err(Rejected::Birth(birth.vc.clone())),
            None => Ok(()),
        }
    }

    fn are_homes(&self, homes: &[Home]) -> bool {
        let members: BTreeSet<MemberId> = homes.iter().map(|home| home.member).collect();
        let are_there = members.iter().all(|id| self.admitted(*id).is_some());
        are_there && members.len() == homes.len()
    }

    /// A virtual cluster goes on in its next generation from one copy of a group that it had.
    fn recover(&mut self, index: u64, birth: &Birth) -> Result<Applied, Rejected> {
        let known = self.vcs.get(&birth.vc);
        let known = known.ok_or_else(|| Rejected::NoVc(birth.vc.clone()))?;
        let groups = known.before.iter().chain([&known.group]);
        if birth.generation != known.generation + 1 || !groups.eq(&birth.before) {
            return Err(Rejected::OtherGeneration(
                birth.vc.clone(),
                known.generation,
            ));
        }
        let is_taken = self.vcs.values().any(|other| other.has_had(birth.group));
        if is_taken || birth.homes.len() != 1 || !self.are_homes(&birth.homes) {
            return Err(Rejected::Birth(birth.vc.clone()));
        }
        self.briefed = index;
        self.vcs.insert(birth.vc.clone(), birth.clone());
        Ok(Applied::Recovered)
    }

    fn step(&mut self, index: u64, step: &Step) -> Result<Applied, Rejected> {
        match &step.stage {
            Stage::Canary(canaries) if !self.are_canaries(canaries) => {
                return Err(Rejected::Canaries);
            }
            Stage::Withdrawn(reason) if reason.len() > REASON_BYTES_MAX => {
                return Err(Rejected::Reason);
            }
            Stage::Distribute | Stage::Canary(_) | Stage::Active | Stage::Withdrawn(_) => {}
        }
        let alone = match self.roll.keys.len() {
            0 | 1 => Alone::Yes,
            _ => Alone::No,
        };
        let document = self.documents.get_mut(&step.id);
        let document = document.ok_or(Rejected::NoDocument(step.id))?;
        document.step(index, step, alone)?;
        if step.id == DESCRIPTION {
            self.briefed = index;
        }
        Ok(Applied::Document {
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

impl Birth {
    /// Whether this is its group, or was.
    fn has_had(&self, group: u64) -> bool {
        self.group == group || self.before.contains(&group)
    }
}

fn by_name(births: &[Birth]) -> BTreeMap<VcName, Birth> {
    let births = births.iter().rev();
    births
        .map(|birth| (birth.vc.clone(), birth.clone()))
        .collect()
}
