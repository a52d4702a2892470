//! The cluster as the gateway sees it: a port for each kind of resource. The agent implements them for
//! real (`agent/src/cluster/`), `fake/` in memory; both pass the lists in `conformance/`.
//!
//! The gateway keeps no state, so everything that a request needs passes through here. Whether the
//! caller may ask is checked before, if a method does not say otherwise; they are named where that is
//! recorded, or decides what they see.

mod documents;
mod error;
mod figures;
mod identity;
mod images;
mod jobs;
mod logs;
mod membership;
mod nodes;
mod sessions;
mod storages;
mod users;
mod uses;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;

pub use documents::{Documents, EditedText};
pub use error::PortError;
pub use figures::{DeviceFigure, Figures};
pub use identity::{
    CodeExchange, DeviceGrant, DeviceOutcome, IdentityProvider, NoIdentityProvider,
    ProviderMetadata,
};
pub use images::{Images, ProgressStream};
pub use jobs::{
    AcceptedSubmission, Awaited, FoundJobs, HiddenFuture, JobReader, JobTask, Jobs, JobsRevision,
};
pub use logs::{
    LogFileInfo, LogNext, LogPlace, LogPlaces, LogQuestion, LogRange, LogSlice, LogWish, Logs,
};
pub use membership::{JoinRequest, Membership};
pub use nodes::{DEFAULT_VC, FoundUsage, NewScheduling, Nodes};
pub use sessions::{SessionIo, SessionOpener, Sessions};
pub use storages::{FileReadWish, FileSlice, FileWriteWish, StoragePlace, Storages};
pub use users::{Caller, GroupView, Login, LoginTerms, TokenInfo, UserView, Users};
pub use uses::Uses;

/// A stream of body bytes. An error ends it and closes the connection unfinished, so that a
/// client never takes a part for the whole.
pub type ByteStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// All ports. A handler gets those that its route names (`route.rs`).
#[derive(Clone, Debug)]
pub struct Ports {
    /// Texts that all nodes agree on.
    pub documents: Arc<dyn Documents>,
    /// What this machine is busy with.
    pub figures: Arc<dyn Figures>,
    /// The identity provider that people log in by.
    pub identity: Arc<dyn IdentityProvider>,
    /// Images on this node.
    pub images: Arc<dyn Images>,
    /// Jobs, and their tasks.
    pub jobs: Arc<dyn Jobs>,
    /// Logs on this node.
    pub logs: Arc<dyn Logs>,
    /// The cluster, and which nodes are in it.
    pub membership: Arc<dyn Membership>,
    /// Nodes, and the virtual clusters that share them.
    pub nodes: Arc<dyn Nodes>,
    /// Sessions in tasks.
    pub sessions: Arc<dyn Sessions>,
    /// Storages that the cluster declares.
    pub storages: Arc<dyn Storages>,
    /// Users and their tokens.
    pub users: Arc<dyn Users>,
    /// What tasks used on this node.
    pub uses: Arc<dyn Uses>,
}
