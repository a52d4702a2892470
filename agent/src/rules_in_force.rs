//! The failure rules that verdicts are made by, now: the shipped ones, or the cluster's.

use std::sync::Arc;

use muster_failure_rules::RuleSet;
use tokio::sync::watch;

/// Rules with their text.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The rules.
    pub(crate) set: RuleSet,
    /// What they were read from.
    pub(crate) text: Arc<str>,
    /// The document's version; 0 for the shipped ones.
    pub(crate) version: u64,
}

impl Rules {
    /// The rules that hold until the cluster has others.
    ///
    /// # Errors
    /// None: a test reads them.
    pub(crate) fn shipped() -> anyhow::Result<Self> {
        let text = RuleSet::shipped_text();
        let set = RuleSet::parse(text).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("the shipped rules are not valid:\n{}", lines.join("\n"))
        })?;
        Ok(Self {
            set,
            text: text.into(),
            version: 0,
        })
    }
}

/// Shared by all who judge, replaced as a whole.
#[derive(Clone, Debug)]
pub(crate) struct RulesInForce {
    now: Arc<watch::Sender<Arc<Rules>>>,
    shipped: Arc<Rules>,
}

impl RulesInForce {
    /// The shipped rules, until others are put in force.
    pub(crate) fn new(shipped: Rules) -> Self {
        let shipped = Arc::new(shipped);
        Self {
            now: Arc::new(watch::Sender::new(Arc::clone(&shipped))),
            shipped,
        }
    }

    /// The rules now. A verdict is made by one set, whatever happens meanwhile.
    pub(crate) fn now(&self) -> Arc<Rules> {
        self.now.borrow().clone()
    }

    /// Puts others in force.
    pub(crate) fn replace(&self, rules: Rules) {
        self.now.send_replace(Arc::new(rules));
    }

    /// Puts the shipped ones in force.
    pub(crate) fn reset(&self) {
        self.now.send_replace(Arc::clone(&self.shipped));
    }
}
