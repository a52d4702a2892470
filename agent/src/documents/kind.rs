//! What each kind of document is: a text with versions, that is read, checked and put in force.

use std::sync::Arc;

use async_trait::async_trait;
use muster_gossip::record::DocumentId;
use muster_portal_gateway::port::PortError;

/// What can be said of a kind without an agent around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// Its number, in the log and on the wire.
    pub(crate) id: DocumentId,
    /// Its name, as users write it.
    pub(crate) name: &'static str,
    /// Whether few members use a version before all do, and none that died of it uses it again: for
    /// what a member evaluates on its own.
    pub(crate) is_staged: bool,
}

/// Puts a version in force that was read.
pub(crate) type PutInForce = Box<dyn FnOnce() + Send>;

/// A text with its version; 0 for the one that holds before anybody has edited it.
pub(crate) type Versioned = (u64, Arc<str>);

/// A kind of document on this node.
#[async_trait]
pub(crate) trait DocumentKind: std::fmt::Debug + Send + Sync {
    /// Its number and name.
    fn about(&self) -> About;

    /// Reads a version. It is in force once the answer was called.
    ///
    /// # Errors
    /// Everything that is wrong, each with its field.
    fn read(&self, text: &str, version: u64) -> Result<PutInForce, Vec<String>>;

    /// Puts in force what holds before anybody has edited it.
    fn reset(&self);

    /// The text that holds before anybody has edited it; empty where that depends on the machines.
    fn first_text(&self) -> Arc<str>;

    /// The text in force here, if it is this version; none asks for any. `Ok(None)`: it is not, or not
    /// known here yet.
    ///
    /// # Errors
    /// When others have to be asked for it, and do not answer.
    async fn text_here(&self, version: Option<u64>) -> Result<Option<Versioned>, PortError>;

    /// Whether a text can become the next version, as far as the cluster can tell before it is one.
    ///
    /// # Errors
    /// [`PortError::InvalidDocument`] with what is wrong; or when those who know do not answer.
    async fn check_edit(&self, text: &str) -> Result<(), PortError> {
        self.read(text, 0)
            .map(drop)
            .map_err(PortError::InvalidDocument)
    }

    /// Waits for what follows an edit that was committed as this version.
    async fn edited(&self, _version: u64) {}
}

/// Each problem as a line.
pub(super) fn lines(problems: &[impl ToString]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
