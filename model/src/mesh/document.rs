//! Documents: what nodes agree on, how far a new version has come, and what came before it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A document as the node asked knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentView {
    /// Its name: `failure-rules`.
    pub name: String,
    /// The newest version.
    pub newest: DocumentVersion,
    /// The version that is in force where the newest is not yet; 0 if there was none before.
    pub active: u64,
    /// How far the newest version has come.
    pub coverage: CoverageView,
    /// How this node stands to it.
    pub here: LocalDocument,
}

/// One version of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentVersion {
    /// Counts the edits, from 1. 0: nobody edited it yet, nodes use what they were shipped with.
    pub version: u64,
    /// How far its activation has come.
    #[serde(flatten)]
    pub stage: ActivationStage,
    /// SHA-256 of its text, in hex.
    pub hash: String,
    /// Length of its text.
    pub bytes: u64,
    /// Who edited it.
    pub author: String,
    /// When, milliseconds since the epoch.
    pub at_ms: u64,
    /// Whether the steps of its activation were skipped.
    pub forced: bool,
}

/// One version in a document's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionView {
    /// The version.
    #[serde(flatten)]
    pub version: DocumentVersion,
    /// What became of it, where more is known than the stage: why it was withdrawn, which
    /// version it repeats.
    pub note: String,
}

/// A version with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentText {
    /// Which version. 0: the text that nodes were shipped with.
    pub version: u64,
    /// The text.
    pub text: String,
}

/// How far the activation of a version has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum ActivationStage {
    /// Every node fetches it, checks it, and says whether it is valid.
    Distribute,
    /// A few put it in force, the others wait.
    Canary {
        /// Which.
        nodes: Vec<String>,
    },
    /// All put it in force.
    Active,
    /// It was found bad or taken back: nobody puts it in force.
    Withdrawn {
        /// Why.
        reason: String,
    },
}

impl ActivationStage {
    /// The word that users see, the one that JSON has.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Distribute => "distribute",
            Self::Canary { .. } => "canary",
            Self::Active => "active",
            Self::Withdrawn { .. } => "withdrawn",
        }
    }
}

impl fmt::Display for ActivationStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many members have come how far with a version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoverageView {
    /// Members in all.
    pub members: u32,
    /// Have it and found it valid.
    pub valid: u32,
    /// Have it in force.
    pub active: u32,
    /// Found it bad, with what they say.
    pub rejected: Vec<Rejection>,
    /// Did not come as far, and cannot be reached.
    pub unreachable: Vec<String>,
    /// Did not come as far although they can be reached: they are at it, or stuck.
    pub missing: Vec<String>,
}

/// A member that found a version bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rejection {
    /// Who.
    pub member: String,
    /// What it says. Empty where that is not known here.
    pub reason: String,
}

/// How one node stands to a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalDocument {
    /// Whether the newest version is here.
    pub has_newest: bool,
    /// The version in force here. 0: the one that came with the agent.
    pub active: u64,
    /// What is wrong: that it was rejected here, that the last good version is used. Empty if
    /// nothing is.
    pub problem: String,
}

impl DocumentView {
    /// How many members came as far as the stage asks.
    const fn reached(&self) -> u32 {
        match self.newest.stage {
            ActivationStage::Active => self.coverage.active,
            _ => self.coverage.valid,
        }
    }
}

/// `version 42: 98 of 100, unreachable: a, b, rejected: 0`
impl fmt::Display for DocumentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let coverage = &self.coverage;
        let version = self.newest.version;
        write!(
            f,
            "version {version}: {} of {}",
            self.reached(),
            coverage.members
        )?;
        names(f, "unreachable", &coverage.unreachable)?;
        names(f, "missing", &coverage.missing)?;
        write!(f, ", rejected: {}", coverage.rejected.len())
    }
}

fn names(f: &mut fmt::Formatter<'_>, what: &str, names: &[String]) -> fmt::Result {
    if names.is_empty() {
        return Ok(());
    }
    write!(f, ", {what}: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_how_far_it_came() {
        let rejection = || Rejection {
            member: "c".to_owned(),
            reason: "rule 3: bad pattern".to_owned(),
        };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let away = CoverageView {
            members: 100,
            valid: 99,
            active: 98,
            unreachable: names(&["a", "b"]),
            ..CoverageView::default()
        };
        let stuck = CoverageView {
            rejected: vec![rejection()],
            missing: names(&["d"]),
            ..away.clone()
        };
        for (stage, coverage, expect) in [
            (
                ActivationStage::Active,
                &away,
                "version 42: 98 of 100, unreachable: a, b, rejected: 0",
            ),
            (
                ActivationStage::Distribute,
                &stuck,
                "version 42: 99 of 100, unreachable: a, b, missing: d, rejected: 1",
            ),
        ] {
            let view = DocumentView {
                name: "failure-rules".to_owned(),
                newest: DocumentVersion {
                    version: 42,
                    stage,
                    hash: String::new(),
                    bytes: 0,
                    author: String::new(),
                    at_ms: 0,
                    forced: false,
                },
                active: 41,
                coverage: coverage.clone(),
                here: LocalDocument::default(),
            };
            assert_eq!(view.to_string(), expect);
        }
    }
}
