//! What users want of the cluster, whether this node is in one or not.

mod founding;
mod leaving;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use muster_control::cluster::Name;
use muster_control::groups::name;
use muster_gossip::join::{Joiner, Newcomer, Nonce, Step, Text, Token};
use muster_gossip::key::{ClusterId, Sign as _};
use muster_gossip::net::NetCounters;
use muster_gossip::net::join::{AskError, Config as JoinConfig, Protocol, To};
use muster_gossip::net::keys::{Ed25519Signer, Ed25519Verifier};
use muster_gossip::record::MemberState;
use muster_model::mesh::{ClusterView, Joined};
use muster_model::view::JobSummary;
use tokio::sync::RwLock;
use tokio::time::Instant;

use super::keeper::Keeper;
use super::member::{Member, Surroundings};
use super::membership::{Files, Membership};
use super::{cordons, entrance, vcs};
use crate::affairs::question::{Answer, Question, Rejection};
use crate::affairs::records::root_hash;
use crate::description::Description;
use crate::port::{self, Port};
use crate::vc::{self, Desk, Seat};

/// What this release understands of the mesh.
const FEATURE_LEVEL: u32 = 1;
/// How often a new member asks for the cluster's name.
const NAME_TRIES: u32 = 10;
/// How long a new member waits to be told which virtual clusters there are.
const SERVED_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);
const NAME_PAUSE: std::time::Duration = std::time::Duration::from_millis(200);
/// How long a join waits for the cluster's users and keys.
const BRIEFING_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Why something was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The node is in a cluster, or in none.
    #[error("{0}")]
    NotNow(String),
    /// What was given makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The other cluster does not let this node in.
    #[error("{0}")]
    Refused(String),
    /// Whoever answers is not of that cluster, or not any more; others may be.
    #[error("{0}")]
    Elsewhere(String),
    /// The other cluster has no time for this node; the same may work a little later.
    #[error("{0}")]
    Busy(String),
    /// The cluster says no.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// It failed.
    #[error("{0:#}")]
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// The door to the cluster.
#[derive(Debug)]
pub(crate) struct Service {
    files: Files,
    surroundings: Surroundings,
    port: Port,
    member: RwLock<Option<Arc<Member>>>,
}

impl Service {
    /// Takes up the membership that the files hold, if any. While another process holds the ports
    /// there is a membership, and no member: see [`Service::retry`].
    ///
    /// # Errors
    /// When the files or addresses cannot be used.
    pub(crate) async fn open(
        files: Files,
        surroundings: Surroundings,
        port: Port,
    ) -> anyhow::Result<Self> {
        let member = match files.read()? {
            Some(membership) => match Member::start(&files, membership, &surroundings).await {
                Ok(member) => {
                    let member = Arc::new(member);
                    follow(&member, &surroundings);
                    Some(member)
                }
                Err(error) if port::is_taken(&error) => {
                    port.tell(&format!("{error:#}"), &surroundings.node.node)
                        .await;
                    None
                }
                Err(error) => return Err(error),
            },
            None => None,
        };
        Ok(Self {
            files,
            surroundings,
            port,
            member: RwLock::new(member),
        })
    }

    /// Takes up the membership as soon as the ports are free, if another process held them.
    pub(crate) fn retry(self: &Arc<Self>) {
        if self.port.problem().borrow().is_none() {
            return;
        }
        let service = Arc::clone(self);
        tokio::spawn(async move {
            let node = &service.surroundings.node.node;
            let member = service.port.wait(node, || service.take_up()).await;
            *service.member.write().await = Some(Arc::clone(&member));
            follow(&member, &service.surroundings);
        });
    }

    async fn take_up(&self) -> anyhow::Result<Arc<Member>> {
        let port = self.port.address().port();
        // A start that fails leaves its trace on the disk, so it is tried with some prospect only.
        if tokio::task::spawn_blocking(move || port::is_foreign(port)).await? {
            anyhow::bail!("the address is in use");
        }
        let membership = self.files.read()?;
        let membership = membership.context("the membership is gone")?;
        let member = Member::start(&self.files, membership, &self.surroundings).await?;
        Ok(Arc::new(member))
    }

    /// Why there is no member.
    fn absent(&self) -> Error {
        let problem = self.port.problem().borrow().clone();
        problem.map_or_else(alone, Error::NotNow)
    }

    /// Refuses another membership while this one only waits for its ports.
    fn refuse_if_waiting(&self) -> Result<(), Error> {
        let problem = self.port.problem().borrow().clone();
        problem.map_or(Ok(()), |problem| Err(Error::NotNow(problem)))
    }

    /// The membership that runs now.
    pub(crate) async fn member(&self) -> Option<Arc<Member>> {
        self.member.read().await.clone()
    }

    /// Asks the member that leads the cluster's affairs.
    ///
    /// # Errors
    /// [`Error::NotNow`] when this node is in no cluster, else what the answer says.
    pub(crate) async fn ask(&self, question: Question) -> Result<Answer, Error> {
        let member = self.member().await.ok_or_else(|| self.absent())?;
        let me = member.membership.member;
        let state = member
            .mesh
            .look(move |mesh| mesh.member(me).map(|found| found.body.state));
        if let Ok(Some(MemberState::Expelled)) = state.await {
            return Err(Error::NotNow(
                "this node was expelled from the cluster: run `muster cluster leave` here, then \
                 join with a new token"
                    .to_owned(),
            ));
        }
        match member.authority().ask(question).await {
            Answer::Rejected(rejection) => Err(rejection.into()),
            answer => Ok(answer),
        }
    }

    /// Asks this node as a member, whoever leads.
    ///
    /// # Errors
    /// [`Error::NotNow`] when this node is in no cluster, else what the answer says.
    pub(crate) async fn ask_here(&self, question: Question) -> Result<Answer, Error> {
        let member = self.member().await.ok_or_else(|| self.absent())?;
        let me = member.membership.member;
        match member.authority().ask_here(me, question).await {
            Answer::Rejected(rejection) => Err(rejection.into()),
            answer => Ok(answer),
        }
    }

    /// Founds a cluster with this node as its first member.
    ///
    /// # Errors
    /// When the node is in a cluster already, or the files or ports cannot be used.
    pub(crate) async fn init(&self, name: &str) -> Result<ClusterView, Error> {
        let mut member = self.member.write().await;
        if let Some(member) = &*member {
            return Err(already(&member.membership));
        }
        self.refuse_if_waiting()?;
        let cluster_name =
            Name::try_from(name.to_owned()).map_err(|error| Error::Invalid(error.to_string()))?;
        let membership = self.found(cluster_name).await?;
        let descriptions = &self.surroundings.in_force.descriptions;
        let own = descriptions.own();
        if !own.text.is_empty() {
            // It holds here as what it is about to be, so that it holds all the time.
            let first = Description {
                version: 1,
                ..(*own).clone()
            };
            descriptions.put_in_force(Some(first));
        }
        let started = Arc::new(self.start(membership).await?);
        follow(&started, &self.surroundings);
        *member = Some(Arc::clone(&started));
        self.describe(&started, &own).await?;
        let Answer::Cluster(view) = started.authority().ask(Question::Cluster).await else {
            return Err(Error::NotNow(
                "the cluster was founded but says nothing".to_owned(),
            ));
        };
        tracing::info!(name, id = %view.id, "a cluster was founded");
        Ok(view)
    }

    /// Starts a membership, then writes it down: what does not start is none.
    async fn start(&self, membership: Membership) -> Result<Member, Error> {
        let started = Member::start(&self.files, membership.clone(), &self.surroundings).await?;
        match self.files.write(&membership) {
            Ok(()) => {
                let cluster = ClusterId::of_root(&membership.root);
                self.surroundings.accounts.enter(cluster);
                started.briefings().ring();
                Ok(started)
            }
            Err(error) => {
                started.stop().await;
                Err(Error::Failed(error.into()))
            }
        }
    }

    /// Joins the cluster of the member at `address`.
    ///
    /// # Errors
    /// When the node is in a cluster already, or the cluster does not let it in.
    pub(crate) async fn join(&self, address: &str, token: &str) -> Result<Joined, Error> {
        let mut member = self.member.write().await;
        if let Some(member) = &*member {
            return Err(already(&member.membership));
        }
        self.refuse_if_waiting()?;
        let token: Token = token
            .trim()
            .parse()
            .map_err(|error| Error::Invalid(format!("token: {error}")))?;
        let own = self.close().await?;
        let entered = self.enter(address, token).await;
        let (started, joined) = entered.inspect_err(|_| {
            self.surroundings.seat.send_replace(own);
        })?;
        let membership = started.membership.clone();
        *member = Some(Arc::clone(&started));
        drop(member);
        brief(&started).await;
        let cluster = self.learn_name(membership).await;
        self.wait_until_served().await;
        tracing::info!(id = %cluster.id, member = joined.member.0, "joined a cluster");
        Ok(Joined {
            cluster,
            member: joined.member.0,
            name: joined.admission.name,
        })
    }

    /// Is let in, and takes up the membership.
    async fn enter(
        &self,
        address: &str,
        token: Token,
    ) -> Result<(Arc<Member>, muster_gossip::join::Joined), Error> {
        let joined = self.knock(address, token).await?;
        let keep = || -> anyhow::Result<()> {
            let mut keeper = Keeper::open(&self.files.keeper())?;
            Ok(keeper.keep(&joined.records)?)
        };
        tokio::task::block_in_place(keep)?;
        let membership = Membership {
            name: String::new(),
            root: joined.cluster.root,
            member: joined.member,
        };
        // First: what this node remembers of its own terms would shut out the cluster's leaders.
        self.surroundings.node.node.moved().await;
        let started = Arc::new(self.start(membership).await?);
        follow(&started, &self.surroundings);
        Ok((started, joined))
    }

    /// Jobs can be submitted here as soon as a new member knows the virtual clusters. Where it is not
    /// told in time it is a member all the same.
    async fn wait_until_served(&self) {
        let mut seat = self.surroundings.seat.subscribe();
        let served = seat.wait_for(|seat| !matches!(seat, Seat::Unknown));
        let _late = tokio::time::timeout(SERVED_LIMIT, served).await.is_err();
    }

    /// Takes no more jobs, for this node is about to join a cluster: nothing may wait or run. What
    /// was served till now; its jobs stay on disk, and are seen again when the node has left.
    async fn close(&self) -> Result<Seat, Error> {
        let seat = &self.surroundings.seat;
        let own = seat.send_replace(Seat::Unknown);
        let jobs = match self.own_jobs(&own).await {
            Ok(jobs) => jobs,
            Err(error) => {
                seat.send_replace(own);
                return Err(error);
            }
        };
        let open = jobs.iter().filter(|job| !job.state().is_final()).count();
        let tasks = match open {
            0 => self.tasks_left().await,
            _ => 0,
        };
        if open + tasks > 0 {
            seat.send_replace(own);
            return Err(Error::NotNow(format!(
                "{open} jobs wait or run on this node and it holds {tasks} tasks: stop them, or \
                 wait for their end, before it joins a cluster"
            )));
        }
        Ok(own)
    }

    /// The jobs of this node alone.
    async fn own_jobs(&self, own: &Seat) -> Result<Vec<JobSummary>, Error> {
        let Seat::Own(vcs) = own else {
            return Err(Error::NotNow("this node is about to join a cluster".into()));
        };
        let desk = Desk::new(self.surroundings.groups.clone(), name::ALONE);
        let mut all = Vec::new();
        for group in vcs.values() {
            let jobs = vc::Question::Jobs(Box::default());
            match desk.answer(*group, jobs).await? {
                vc::Answer::Jobs { jobs, .. } => all.extend(jobs),
                _ => return Err(Error::NotNow("this node does not know its jobs".into())),
            }
        }
        Ok(all)
    }

    /// The cluster's name is nothing that joining depends on: asked for once, and kept.
    async fn learn_name(&self, membership: Membership) -> ClusterView {
        let root_hash = root_hash(&membership.root);
        let mut asked = self.ask(Question::Cluster).await;
        // No member that leads may have been heard yet.
        for _ in 0..NAME_TRIES {
            if asked.is_ok() {
                break;
            }
            tokio::time::sleep(NAME_PAUSE).await;
            asked = self.ask(Question::Cluster).await;
        }
        match asked {
            Ok(Answer::Cluster(view)) => {
                if let Some(member) = self.member().await {
                    member.learn_name(&view.name);
                }
                let named = Membership {
                    name: view.name.clone(),
                    ..membership
                };
                if let Err(error) = self.files.write(&named) {
                    tracing::warn!(%error, "the cluster's name cannot be kept");
                }
                view
            }
            _ => ClusterView {
                id: root_hash.clone(),
                name: String::new(),
                root_hash,
                generation: 1,
                feature_level: FEATURE_LEVEL,
            },
        }
    }

    /// Talks with a member, at one of its addresses after the other, until it is let in or
    /// refused. Whoever finds it busy comes again by itself.
    async fn knock(
        &self,
        address: &str,
        token: Token,
    ) -> Result<muster_gossip::join::Joined, Error> {
        let failed = |error: anyhow::Error| Error::Failed(error);
        let nearby = address == entrance::NEARBY;
        if nearby && !self.surroundings.config.mdns {
            return Err(Error::Invalid(
                "address: mdns is off here: set it to true under [mesh] in agent.toml, or name a \
                 member's address"
                    .to_owned(),
            ));
        }
        let signer = self
            .files
            .node_key()
            .map_err(|error| failed(error.into()))?;
        let config = JoinConfig {
            listen: Vec::new(),
            mdns: nearby,
            ..JoinConfig::default()
        };
        let counters = Arc::new(NetCounters::default());
        let bound = muster_gossip::net::join::bind(config, &signer, counters).await;
        let (questions, _inbound) = bound.map_err(|error| failed(error.into()))?;
        let addresses = if nearby {
            entrance::nearby(&questions).await?
        } else {
            entrance::resolve(address).await?
        };
        let talk = |address| self.talk(&questions, address, token.clone(), &signer);
        entrance::one_by_one(&addresses, talk).await
    }

    /// One conversation.
    async fn talk(
        &self,
        questions: &muster_gossip::net::join::Questions,
        address: SocketAddr,
        token: Token,
        signer: &Ed25519Signer,
    ) -> Result<muster_gossip::join::Joined, Error> {
        let newcomer = Newcomer {
            key: signer.key(),
            name: self.surroundings.node.identity.node.clone(),
            rack: rack(&self.surroundings.config.rack)?,
            agent_version: Text::try_from(env!("CARGO_PKG_VERSION").to_owned())
                .map_err(|error| Error::Invalid(error.to_string()))?,
            feature_level: FEATURE_LEVEL,
        };
        let mut joiner = Joiner::new(token, newcomer, Nonce(rand::random()));
        let mut bytes = joiner.hello().map_err(refused)?;
        let mut to = To { address, key: None };
        loop {
            let asked = questions.ask(to, Protocol::Join, bytes).await;
            let (peer, reply) = asked.map_err(unanswered)?;
            to.key = Some(peer);
            match joiner
                .reply(&peer, &reply, &Ed25519Verifier)
                .map_err(refused)?
            {
                Step::Send(next) => bytes = next,
                Step::Joined(joined) => return Ok(*joined),
            }
        }
    }
}

/// Has a member act on what the cluster's briefings say.
fn follow(member: &Arc<Member>, surroundings: &Surroundings) {
    vcs::serve(member, &surroundings.accounts);
    cordons::pass_on(member, surroundings);
}

/// Waits for the users and keys of a cluster that was joined just now. If they do not come, the
/// member's loop goes on asking.
async fn brief(member: &Member) {
    let until = Instant::now() + BRIEFING_LIMIT;
    while member.briefings().version() == 0 {
        let asked = member.briefings().refresh(Instant::now()).await;
        match asked {
            Ok(()) => {}
            Err(error) if Instant::now() >= until => {
                tracing::warn!(%error, "the cluster's users and keys are not known here yet");
                return;
            }
            Err(_) => tokio::time::sleep(NAME_PAUSE).await,
        }
    }
}

fn refused(error: muster_gossip::join::Error) -> Error {
    let text = error.to_string();
    use muster_gossip::join::Error as Join;
    match error {
        Join::Refused { retry_ms, .. } if retry_ms > 0 => {
            Error::Busy(format!("{text} (in {} s)", retry_ms.div_ceil(1000)))
        }
        Join::Refused { .. } | Join::OtherName(_) => Error::Refused(text),
        Join::Trust(_) | Join::Message(_) | Join::Unexpected => Error::Elsewhere(text),
    }
}

fn unanswered(error: AskError) -> Error {
    if error.passes() {
        Error::Busy(error.to_string())
    } else {
        Error::NotNow(error.to_string())
    }
}

fn rack(text: &str) -> Result<Text<64>, Error> {
    Text::try_from(text.to_owned())
        .map_err(|error| Error::Invalid(format!("mesh.rack in agent.toml: {error}")))
}

fn alone() -> Error {
    Error::NotNow(
        "this node is in no cluster; found one with `muster cluster init` or join one with \
         `muster cluster join`"
            .to_owned(),
    )
}

fn already(membership: &Membership) -> Error {
    Error::NotNow(format!(
        "this node is in cluster {:?} already, as member {}; leave it first with `muster cluster \
         leave`",
        membership.name, membership.member.0
    ))
}
