//! What answers need of the node that gives them.

use std::sync::Arc;

use muster_consensus::{GroupId, StoreId};
use muster_gossip::Mesh;
use muster_gossip::frame::DocumentRef;
use muster_gossip::key::Sign;
use muster_gossip::member::MemberId;
use muster_gossip::record::{DocumentId, Record};
use muster_model::id::{NodeId, UserName};
use muster_model::login::LoginTrust;
use muster_model::people::{NewPassword, PeopleDenial};
use muster_model::policy::BreakerPolicy;
use muster_model::user_token::{TokenKind, UserTokenId};

use super::event::Event;
use crate::cluster::{ClusterMap, Hidden, Keys, Lineage, Secret};
use crate::groups::{ApplyOutcome, GroupError, Local, LocalGroup};
use crate::now::Now;
use crate::request::RequestFailure;
use crate::request::member::MemberRequest;

/// A node's copies of groups, time, and threads beside.
pub trait CopiesPort: Send + Sync {
    /// What time it is. Any clock that nobody sets will do for the first of both.
    fn now(&self) -> Now;

    /// Waits for so many milliseconds.
    fn pause(&self, ms: u64) -> impl Future<Output = ()> + Send;

    /// Does what takes long where nothing else waits for it. None where the node ends meanwhile.
    fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;

    /// Puts an entry into a group that is led here. `Ok`: a majority of its voters has it on disk, and it is
    /// applied.
    ///
    /// # Errors
    /// [`GroupError`]; each says whether it may have come about.
    fn propose(
        &self,
        group: GroupId,
        entry: &[u8],
    ) -> impl Future<Output = Result<ApplyOutcome, GroupError>> + Send;

    /// Looks at a group that is led here, after everything that was committed anywhere so far.
    ///
    /// # Errors
    /// [`GroupError`], and then nothing was looked at.
    fn read<T: Send + 'static>(
        &self,
        group: GroupId,
        read: impl FnOnce(LocalGroup<'_>) -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, GroupError>> + Send;

    /// A node asks for renewal of its leases by a group that is led here. `Ok`: a majority has confirmed, after
    /// this was asked, that it is.
    ///
    /// # Errors
    /// [`GroupError`], and then nothing is renewed.
    fn renew(
        &self,
        group: GroupId,
        node: NodeId,
    ) -> impl Future<Output = Result<(), GroupError>> + Send;

    /// Looks at a group's copy here, as far as it has come; none if there is no copy.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    fn look<T: Send + 'static>(
        &self,
        group: GroupId,
        look: impl FnOnce(Local<'_>) -> T + Send + 'static,
    ) -> impl Future<Output = Result<Option<T>, GroupError>> + Send;

    /// A member is about to go: its copy of a group that is led here is to find another place.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    fn going(
        &self,
        group: GroupId,
        member: MemberId,
    ) -> impl Future<Output = Result<(), GroupError>> + Send;

    /// An admin says that a node is off: the tasks of a virtual cluster there are given up soon.
    ///
    /// # Errors
    /// When this node does not lead the virtual cluster, or the node can be reached from here.
    fn off(
        &self,
        group: GroupId,
        node: NodeId,
    ) -> impl Future<Output = Result<(), GroupError>> + Send;

    /// Which log store has all this.
    ///
    /// # Errors
    /// [`GroupError::Ended`].
    fn store(&self) -> impl Future<Output = Result<StoreId, GroupError>> + Send;

    /// Something that people may want to know.
    fn tell(&self, event: Event);
}

/// What the service of the cluster needs of a member.
pub trait MemberPort: Send + Sync {
    /// Its copies of groups.
    type Copies: CopiesPort;
    /// Signs for the cluster.
    type Signer: Sign + 'static;

    /// Its copies of groups.
    fn copies(&self) -> &Self::Copies;

    /// What signs with this key; none if it is no key.
    fn signer(&self, secret: &Secret) -> Option<Self::Signer>;

    /// Fills it with what nobody can guess.
    fn fill(&self, bytes: &mut [u8]);

    /// Which group decides for the cluster, and which did before it.
    fn lineage(&self) -> Lineage;

    /// Looks at the mesh. None once that has ended.
    fn mesh<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Mesh) -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;

    /// Gives the mesh new records that the cluster signed, and bodies that they are about.
    fn publish(
        &self,
        records: Vec<Arc<Record>>,
        bodies: Vec<(DocumentRef, Arc<[u8]>)>,
    ) -> impl Future<Output = ()> + Send;

    /// Asks that member, and no other. The answer as bytes.
    ///
    /// # Errors
    /// When there is none.
    fn ask(
        &self,
        member: MemberId,
        request: MemberRequest,
    ) -> impl Future<Output = Result<Vec<u8>, RequestFailure>> + Send;

    /// What this node was told last as a member.
    fn cluster_map(&self) -> Option<Arc<ClusterMap>>;

    /// There is a newer cluster map.
    fn brief(&self);

    /// Where this node can be joined.
    fn address(&self) -> String;

    /// The text of a version that the mesh has put on this node's disk, if it is there.
    fn text(&self, document: DocumentRef) -> impl Future<Output = Option<Arc<[u8]>>> + Send;

    /// Keeps a body beside the cluster's log, by its hash. On disk when this returns.
    ///
    /// # Errors
    /// Why the disk refuses.
    fn keep_body(&self, hash: &[u8; 32], body: &[u8]) -> Result<(), String>;

    /// A body that is kept here and whole.
    ///
    /// # Errors
    /// Why the disk refuses.
    fn read_body(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, String>;

    /// Whether a body is kept here.
    fn has_body(&self, hash: &[u8; 32]) -> bool;

    /// Lets all other bodies go, but for those that may be about to be named.
    fn retain_bodies(&self, wanted: &[[u8; 32]]);

    /// How long the first members that try a document are watched, ms.
    fn soak_ms(&self) -> u64;

    /// When quarantines of rules are held back.
    fn breaker(&self) -> BreakerPolicy;

    /// Whether a document is put in force step by step.
    fn is_staged(&self, document: DocumentId) -> bool;

    /// Whether a password is what the hash was made of. Without a hash it is not, and that takes as long. None:
    /// it was not looked at, for too many are being checked.
    fn is_right(
        &self,
        hash: Option<Hidden<String>>,
        password: Hidden<String>,
        trust: LoginTrust,
    ) -> impl Future<Output = Option<bool>> + Send;

    /// The hash of a new password of a user's, in PHC form; empty for none.
    ///
    /// # Errors
    /// When it is no password, or too many are being checked.
    fn hash(
        &self,
        user: &UserName,
        password: NewPassword,
    ) -> impl Future<Output = Result<Hidden<String>, PeopleDenial>> + Send;

    /// Makes a user's token.
    ///
    /// # Errors
    /// When the key cannot be used.
    fn token(&self, keys: &Keys, wanted: &WantedToken<'_>) -> Result<Hidden<String>, String>;

    /// Makes another key of tokens.
    ///
    /// # Errors
    /// When none can be made, or the one until now cannot be read.
    fn next_token_key(&self, keys: &Keys) -> Result<NextTokenKey, String>;
}

/// A token that is to be made. The same gives the same token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedToken<'a> {
    /// Whose.
    pub user: &'a UserName,
    /// For a person or a program.
    pub kind: TokenKind,
    /// When it is issued, in seconds since the epoch.
    pub at_s: u64,
    /// When it expires, in seconds since the epoch; none: never.
    pub expires_s: Option<u64>,
    /// Names it, and tells it from others of the same second.
    pub id: UserTokenId,
}

/// A key of tokens that follows another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextTokenKey {
    /// Signs tokens: Ed25519, PKCS#8 in DER.
    pub key: Hidden<Vec<u8>>,
    /// The public half of the one before.
    pub public_before: Vec<u8>,
}
