//! Who comes and goes.

use muster_control::cluster::{Applied, Entry, Judgement, Name, NewToken, Rejected, Token};
use muster_control::request::cluster::{self as ask, Admittance};
use muster_control::request::{Answers, Failure};
use muster_gossip::join::{Petition, Refusal, Reply, TokenId, TokenSecret, Welcome};
use muster_gossip::member::MemberId;
use muster_gossip::record::RecordKey;
use muster_model::mesh::{CreatedToken, TokenView};

use super::Affairs;
use crate::clock;

/// Longest life of a token: ten years, in seconds.
const TOKEN_S_MAX: u64 = 10 * 365 * 24 * 3_600;

/// Why a machine alone gives no tokens.
const UNNAMED: &str = "this machine is alone and its ports are closed, so that no other can join: give \
    its cluster a name first, with `muster cluster init --name NAME`";

impl Answers<ask::Petition> for Affairs {
    /// Lets a stranger in whose proof holds. `from` handed it on: the claim has to name it.
    async fn answer(
        &self,
        from: MemberId,
        ask::Petition(bytes): ask::Petition,
    ) -> Result<Admittance, Failure> {
        let Ok(petition) = Petition::decode(&bytes) else {
            return Ok(Admittance::Refused(Refusal::Malformed));
        };
        let now = clock::now().as_millis();
        let judge = self.group.read(move |state| {
            let asked = state.member_by_key(&petition.claim.node);
            if asked != Some(from) {
                return Err(Refusal::Malformed);
            }
            state.judge(&petition, now)
        });
        let member = match judge.await? {
            Err(refusal) => return Ok(Admittance::Refused(refusal)),
            Ok(Judgement::Admitted(member)) => member,
            Ok(Judgement::Propose(entry)) => match self.order(&entry).await? {
                Ok(Applied::Member(member)) => member,
                Ok(_) => return Ok(Admittance::Refused(Refusal::Unavailable)),
                Err(rejected) => return Ok(Admittance::Refused(rejected.refusal())),
            },
        };
        Ok(self.welcome(member).await)
    }
}

impl Answers<ask::Leave> for Affairs {
    /// A member goes: first its copy of the group, over links that a member no more has lost.
    async fn answer(&self, member: MemberId, _: ask::Leave) -> Result<(), Failure> {
        self.may_go(member).await?;
        self.give_up(member).await?;
        let at_ms = clock::now().as_millis();
        self.commit(&Entry::Left { member, at_ms }).await?;
        tracing::info!(member = member.0, "a member left");
        Ok(())
    }
}

impl Answers<ask::Expel> for Affairs {
    async fn answer(&self, _: MemberId, request: ask::Expel) -> Result<(), Failure> {
        let ask::Expel { member: name, by } = request;
        let member = self.named(&name).await?;
        self.may_go(member).await?;
        self.give_up(member).await?;
        let at_ms = clock::now().as_millis();
        self.commit(&Entry::Expelled { member, at_ms }).await?;
        tracing::info!(name, by, "a member was expelled");
        Ok(())
    }
}

impl Affairs {
    async fn welcome(&self, member: MemberId) -> Admittance {
        let admission = self.record(RecordKey::Member(member)).await;
        let cluster = self.record(RecordKey::Cluster).await;
        let (Some(admission), Some(cluster)) = (admission, cluster) else {
            return Admittance::Refused(Refusal::Unavailable);
        };
        let welcome = Welcome::new(admission, cluster, self.members.seeds().await);
        match Reply::Welcome(welcome).encode() {
            Ok(bytes) => Admittance::Welcome(bytes),
            Err(_) => Admittance::Refused(Refusal::Unavailable),
        }
    }

    /// The member of that name.
    pub(super) async fn named(&self, name: &str) -> Result<MemberId, Failure> {
        let known: Option<muster_model::id::NodeId> = name.parse().ok();
        let find = self
            .group
            .read(move |state| known.and_then(|name| state.member_by_name(&name)));
        let missing = || {
            let text = format!("no member is called {name:?}; see `muster cluster members`");
            Failure::missing(text)
        };
        find.await?.ok_or_else(missing)
    }

    /// Whether somebody would be left to decide.
    async fn may_go(&self, member: MemberId) -> Result<(), Failure> {
        let last = self.group.read(move |state| state.is_last_voter(member));
        match last.await? {
            false => Ok(()),
            true => Err(Rejected::LastVoter(member).into()),
        }
    }
}

impl Answers<ask::CreateToken> for Affairs {
    async fn answer(
        &self,
        _: MemberId,
        request: ask::CreateToken,
    ) -> Result<CreatedToken, Failure> {
        let ask::CreateToken { token: wanted, by } = request;
        let now = clock::now().as_millis();
        let founded = || Failure::invalid(Rejected::NotFounded.to_string());
        let named = self.group.read(|state| {
            let cluster = state.cluster()?;
            Some((cluster.id, cluster.name.to_string()))
        });
        let (cluster, name) = named.await?.ok_or_else(founded)?;
        if name.is_empty() {
            return Err(Failure::invalid(UNNAMED.to_owned()));
        }
        let token = muster_gossip::join::Token {
            id: TokenId(rand::random()),
            secret: TokenSecret(rand::random()),
            cluster,
        };
        let life_ms = wanted.expires_s.min(TOKEN_S_MAX) * 1_000;
        let new = NewToken {
            id: token.id,
            key: token.key(),
            expires_ms: now + life_ms,
            uses: wanted.uses,
            votes: wanted.votes,
            author: author(&by)?,
            at_ms: now,
        };
        self.commit(&Entry::TokenCreated(Box::new(new))).await?;
        let id = token.id;
        let kept = self
            .group
            .look(move |state, _| state.token(id).map(|kept| token_view(id, kept)));
        let view = kept.await?.flatten().ok_or_else(founded)?;
        Ok(CreatedToken {
            text: token.text(),
            address: self.members.address(),
            token: view,
        })
    }
}

impl Answers<ask::ListTokens> for Affairs {
    async fn answer(&self, _: MemberId, _: ask::ListTokens) -> Result<Vec<TokenView>, Failure> {
        let read = self.group.read(|state| {
            let tokens = state.tokens();
            tokens.map(|(id, token)| token_view(id, token)).collect()
        });
        Ok(read.await?)
    }
}

impl Answers<ask::RevokeToken> for Affairs {
    async fn answer(&self, _: MemberId, request: ask::RevokeToken) -> Result<(), Failure> {
        let id = request.id;
        let at_ms = clock::now().as_millis();
        let id = id
            .parse()
            .map_err(|error| Failure::missing(format!("{id:?} is no token's id: {error}")))?;
        self.commit(&Entry::TokenRevoked { id, at_ms }).await?;
        Ok(())
    }
}

fn token_view(id: TokenId, token: &Token) -> TokenView {
    TokenView {
        id: id.to_string(),
        expires_ms: token.expires_ms,
        uses_left: token.uses_left,
        votes: token.votes,
        created_by: token.author.to_string(),
        revoked: token.revoked_ms.is_some(),
    }
}

pub(super) fn author(text: &str) -> Result<Name, Failure> {
    Name::try_from(text.to_owned()).map_err(|error| Failure::invalid(error.to_string()))
}
