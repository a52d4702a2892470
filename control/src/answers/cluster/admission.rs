//! Who comes and goes.

use muster_gossip::join::{
    self, AdmissionRequest, JoinRefusal, JoinReply, TokenId, TokenSecret, Welcome,
};
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_gossip::record::RecordKey;
use muster_model::mesh::{CreatedToken, TokenView};

use super::ClusterService;
use crate::answers::event::Event;
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::cluster::{
    ClusterApplied, ClusterEntry, ClusterRejection, GivenName, IssuedToken, Judgement, TokenIssue,
};
use crate::request::cluster::{self as ask, Admittance};
use crate::request::{Answers, RequestFailure};

/// Longest life of a token: ten years, in seconds.
const TOKEN_S_MAX: u64 = 10 * 365 * 24 * 3_600;

/// Why a machine alone gives no tokens.
const UNNAMED: &str = "this machine is alone and its ports are closed, so that no other can join: give \
    its cluster a name first, with `muster cluster init --name NAME`";

impl<P: MemberPort> Answers<ask::Admit> for ClusterService<P> {
    /// Lets a stranger in whose proof holds. `from` handed it on: the claim has to name it.
    async fn answer(
        &self,
        from: MemberId,
        ask::Admit(bytes): ask::Admit,
    ) -> Result<Admittance, RequestFailure> {
        let Ok(admission_request) = AdmissionRequest::decode(&bytes) else {
            return Ok(Admittance::Refused(JoinRefusal::Malformed));
        };
        let now = self.now_ms();
        let judge = self.read(move |state| {
            let asked = state.member_by_key(&admission_request.claim.node);
            if asked != Some(from) {
                return Err(JoinRefusal::Malformed);
            }
            state.judge(&admission_request, now)
        });
        let member = match judge.await? {
            Err(refusal) => return Ok(Admittance::Refused(refusal)),
            Ok(Judgement::Admitted(member)) => member,
            Ok(Judgement::Propose(entry)) => match self.order(&entry).await? {
                Ok(ClusterApplied::Member(member)) => member,
                Ok(_) => return Ok(Admittance::Refused(JoinRefusal::Unavailable)),
                Err(rejected) => return Ok(Admittance::Refused(rejected.refusal())),
            },
        };
        Ok(self.welcome(member).await)
    }
}

impl<P: MemberPort> Answers<ask::Leave> for ClusterService<P> {
    /// A member goes: first its copy of the group, over links that a member no more has lost.
    async fn answer(&self, member: MemberId, _: ask::Leave) -> Result<(), RequestFailure> {
        self.may_go(member).await?;
        self.give_up(member).await?;
        let at_ms = self.now_ms();
        self.commit(&ClusterEntry::Left { member, at_ms }).await?;
        self.copies().tell(Event::Left(member));
        Ok(())
    }
}

impl<P: MemberPort> Answers<ask::Expel> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: ask::Expel) -> Result<(), RequestFailure> {
        let ask::Expel { member: name, by } = request;
        let member = self.named(&name).await?;
        self.may_go(member).await?;
        self.give_up(member).await?;
        let at_ms = self.now_ms();
        self.commit(&ClusterEntry::Expelled { member, at_ms })
            .await?;
        self.copies().tell(Event::Expelled { name, by });
        Ok(())
    }
}

impl<P: MemberPort> ClusterService<P> {
    async fn welcome(&self, member: MemberId) -> Admittance {
        let admission = self.record(RecordKey::Member(member)).await;
        let cluster = self.record(RecordKey::Cluster).await;
        let (Some(admission), Some(cluster)) = (admission, cluster) else {
            return Admittance::Refused(JoinRefusal::Unavailable);
        };
        let welcome = Welcome::new(admission, cluster, self.seeds().await);
        match JoinReply::Welcome(welcome).encode() {
            Ok(bytes) => Admittance::Welcome(bytes),
            Err(_) => Admittance::Refused(JoinRefusal::Unavailable),
        }
    }

    /// The member of that name.
    pub(super) async fn named(&self, name: &str) -> Result<MemberId, RequestFailure> {
        let known: Option<muster_model::id::NodeId> = name.parse().ok();
        let find = self.read(move |state| known.and_then(|name| state.member_by_name(&name)));
        let missing = || {
            let text = format!("no member is called {name:?}; see `muster cluster members`");
            RequestFailure::missing(text)
        };
        find.await?.ok_or_else(missing)
    }

    fn new_token(&self, cluster: ClusterId) -> join::JoinToken {
        let mut token = join::JoinToken {
            id: TokenId([0; 5]),
            secret: TokenSecret([0; 20]),
            cluster,
        };
        self.port.fill(&mut token.id.0);
        self.port.fill(&mut token.secret.0);
        token
    }

    /// Whether somebody would be left to decide.
    async fn may_go(&self, member: MemberId) -> Result<(), RequestFailure> {
        let last = self.read(move |state| state.is_last_voter(member));
        match last.await? {
            false => Ok(()),
            true => Err(ClusterRejection::LastVoter(member).into()),
        }
    }
}

impl<P: MemberPort> Answers<ask::CreateToken> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        request: ask::CreateToken,
    ) -> Result<CreatedToken, RequestFailure> {
        let ask::CreateToken { token: wanted, by } = request;
        let now = self.now_ms();
        let founded = || RequestFailure::invalid(ClusterRejection::NotFounded.to_string());
        let named = self.read(|state| {
            let cluster = state.cluster()?;
            Some((cluster.id, cluster.name.to_string()))
        });
        let (cluster, name) = named.await?.ok_or_else(founded)?;
        if name.is_empty() {
            return Err(RequestFailure::invalid(UNNAMED.to_owned()));
        }
        let token = self.new_token(cluster);
        let life_ms = wanted.expires_s.min(TOKEN_S_MAX) * 1_000;
        let new = TokenIssue {
            id: token.id,
            key: token.key(),
            expires_ms: now + life_ms,
            uses: wanted.uses,
            votes: wanted.votes,
            author: author(&by)?,
            at_ms: now,
        };
        self.commit(&ClusterEntry::TokenCreated(Box::new(new)))
            .await?;
        let id = token.id;
        let kept = self.look(move |state, _| state.token(id).map(|kept| token_view(id, kept)));
        let view = kept.await?.flatten().ok_or_else(founded)?;
        Ok(CreatedToken {
            text: token.text(),
            address: self.port.address(),
            token: view,
        })
    }
}

impl<P: MemberPort> Answers<ask::ListTokens> for ClusterService<P> {
    async fn answer(
        &self,
        _: MemberId,
        _: ask::ListTokens,
    ) -> Result<Vec<TokenView>, RequestFailure> {
        let read = self.read(|state| {
            let tokens = state.tokens();
            tokens.map(|(id, token)| token_view(id, token)).collect()
        });
        Ok(read.await?)
    }
}

impl<P: MemberPort> Answers<ask::RevokeToken> for ClusterService<P> {
    async fn answer(&self, _: MemberId, request: ask::RevokeToken) -> Result<(), RequestFailure> {
        let id = request.id;
        let at_ms = self.now_ms();
        let id = id.parse().map_err(|error| {
            RequestFailure::missing(format!("{id:?} is no token's id: {error}"))
        })?;
        self.commit(&ClusterEntry::TokenRevoked { id, at_ms })
            .await?;
        Ok(())
    }
}

fn token_view(id: TokenId, token: &IssuedToken) -> TokenView {
    TokenView {
        id: id.to_string(),
        expires_ms: token.expires_ms,
        uses_left: token.uses_left,
        votes: token.votes,
        created_by: token.author.to_string(),
        revoked: token.revoked_ms.is_some(),
    }
}

pub(super) fn author(text: &str) -> Result<GivenName, RequestFailure> {
    GivenName::try_from(text.to_owned()).map_err(|error| RequestFailure::invalid(error.to_string()))
}
