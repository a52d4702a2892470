//! Documents: texts that all nodes agree on, as the failure rules.

use async_trait::async_trait;
use muster_model::exit::{TriedEnd, Verdict};
use muster_model::mesh::{DocumentText, DocumentView, VersionView};
use muster_model::rule_test::RuleTest;

use super::{Caller, PortError};

/// A new text for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    /// The version that the author had before their eyes. The edit is refused if another one is
    /// the newest by now.
    pub base: u64,
    /// The whole new text.
    pub text: String,
    /// Skip the steps: in force everywhere at once. That is recorded.
    pub now: bool,
}

/// The cluster's documents. [`PortError::NoDocument`] where there is none of that name.
#[async_trait]
pub trait Documents: std::fmt::Debug + Send + Sync {
    /// Every document.
    async fn list(&self) -> Result<Vec<DocumentView>, PortError>;
    /// What is kept of a document's earlier versions, the newest first.
    async fn history(&self, name: &str) -> Result<Vec<VersionView>, PortError>;
    /// A document's text at a version, the one in force here if none is named.
    async fn text(&self, name: &str, version: Option<u64>) -> Result<DocumentText, PortError>;
    /// Gives a document a new text; answers its version. [`PortError::DocumentConflict`] when `base`
    /// is not the newest.
    async fn edit(&self, caller: &Caller, name: &str, edit: EditedText) -> Result<u64, PortError>;
    /// What failure rules say of an end: these, or those in force here. The same is said of the end of a task.
    /// [`PortError::InvalidDocument`] when the rules cannot be read.
    async fn try_rules(&self, rules: Option<&str>, end: &TriedEnd) -> Result<Verdict, PortError>;
    /// What failure rules would say of the failures that nodes keep, beside those in force there. Members that do not
    /// answer are named. [`PortError::InvalidDocument`] when the rules cannot be read.
    async fn test_rules(&self, rules: &str) -> Result<RuleTest, PortError>;
    /// Gives a document an earlier version's text again, as a new version, which is answered.
    async fn rollback(&self, caller: &Caller, name: &str, version: u64) -> Result<u64, PortError>;
}
