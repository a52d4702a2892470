//! The failure rules that verdicts are made by, now: the shipped ones, or the cluster's.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use muster_failure_rules::{RuleProblem, RuleSet};
use muster_gossip::record::DocumentId;
use muster_model::exit::{Evidence, JudgedBy, Verdict};
use muster_portal_gateway::port::PortError;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::kind::{About, DocumentKind, PutInForce, Versioned, lines};

/// Each node judges by them on its own, so that a version is tried on few nodes first.
pub(super) const ABOUT: About = About {
    id: DocumentId(1),
    name: "failure-rules",
    is_staged: true,
};

/// Bytes of a digest of rules that are kept.
const DIGEST_BYTES: usize = 8;

/// Rules with their text. To compile and try them takes longer than all else of an edit.
#[derive(Clone, Debug)]
struct CompiledRules {
    set: Arc<RuleSet>,
    text: Arc<str>,
    digest: RulesDigest,
}

impl CompiledRules {
    fn of(text: &str) -> Result<Self, Vec<RuleProblem>> {
        Ok(Self {
            set: Arc::new(RuleSet::parse(text)?),
            text: text.into(),
            digest: RulesDigest::of(text),
        })
    }

    fn numbered(self, version: u64) -> Rules {
        let Self { set, text, digest } = self;
        Rules {
            set,
            text,
            digest,
            version,
        }
    }
}

/// Tells the rules that a verdict was made by from others, whatever their versions: shipped ones are of version 0 in
/// each release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RulesDigest(String);

impl RulesDigest {
    /// Of rules with this text.
    pub(crate) fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        Self(
            digest
                .iter()
                .take(DIGEST_BYTES)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        )
    }
}

/// Rules with their text.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The rules.
    pub(crate) set: Arc<RuleSet>,
    /// What they were read from.
    pub(crate) text: Arc<str>,
    /// Which they are.
    pub(crate) digest: RulesDigest,
    /// The document's version; 0 for the shipped ones.
    pub(crate) version: u64,
}

impl Rules {
    /// The rules that hold until the cluster has others.
    ///
    /// # Errors
    /// None: a test reads them.
    pub(crate) fn shipped() -> anyhow::Result<Self> {
        let compiled = CompiledRules::of(RuleSet::shipped_text()).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("the shipped rules are not valid:\n{}", lines.join("\n"))
        })?;
        Ok(compiled.numbered(0))
    }

    /// The verdict on an end, with the version of the rules that made it.
    pub(crate) fn judge(&self, evidence: &Evidence) -> Verdict {
        let verdict = self.set.classify(evidence);
        let judged = verdict.judged.map(|judged| JudgedBy {
            rules_version: self.version,
            ..judged
        });
        Verdict { judged, ..verdict }
    }
}

/// Shared by all who judge, replaced as a whole.
#[derive(Clone, Debug)]
pub(crate) struct RulesInForce {
    now: Arc<watch::Sender<Arc<Rules>>>,
    shipped: Arc<Rules>,
    /// Those that were compiled last: an edit is checked first, and put in force a moment later.
    compiled: Arc<Mutex<Option<CompiledRules>>>,
}

impl RulesInForce {
    /// The shipped rules, until others are put in force.
    pub(crate) fn new(shipped: Rules) -> Self {
        let shipped = Arc::new(shipped);
        Self {
            now: Arc::new(watch::Sender::new(Arc::clone(&shipped))),
            shipped,
            compiled: Arc::default(),
        }
    }

    fn compiled(&self, text: &str) -> Result<CompiledRules, Vec<String>> {
        let mut last = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| *last.text == *text) {
            return Ok(last.clone());
        }
        let compiled = CompiledRules::of(text).map_err(|problems| lines(&problems))?;
        Ok(last.insert(compiled).clone())
    }

    /// The rules now. A verdict is made by one set, whatever happens meanwhile.
    pub(crate) fn now(&self) -> Arc<Rules> {
        self.now.borrow().clone()
    }
}

#[async_trait]
impl DocumentKind for RulesInForce {
    fn about(&self) -> About {
        ABOUT
    }

    fn read(&self, text: &str, version: u64) -> Result<PutInForce, Vec<String>> {
        let rules = Arc::new(self.compiled(text)?.numbered(version));
        let now = Arc::clone(&self.now);
        Ok(Box::new(move || drop(now.send_replace(rules))))
    }

    fn reset(&self) {
        self.now.send_replace(Arc::clone(&self.shipped));
    }

    fn first_text(&self) -> Arc<str> {
        Arc::clone(&self.shipped.text)
    }

    async fn text_here(&self, version: Option<u64>) -> Result<Option<Versioned>, PortError> {
        let rules = self.now();
        let is_asked = version.is_none_or(|asked| asked == rules.version);
        Ok(is_asked.then(|| (rules.version, Arc::clone(&rules.text))))
    }

    async fn check_edit(&self, text: &str) -> Result<(), PortError> {
        // Patterns take long to compile.
        let (rules, text) = (self.clone(), text.to_owned());
        let checked = tokio::task::spawn_blocking(move || rules.read(&text, 0).map(drop));
        match checked.await {
            Ok(checked) => checked.map_err(PortError::InvalidDocument),
            Err(error) => Err(PortError::Unavailable(error.to_string())),
        }
    }
}
