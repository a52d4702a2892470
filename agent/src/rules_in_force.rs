//! The failure rules that verdicts are made by, now: shipped, from a file, or the cluster's.

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
    /// The document's version; 0 for what the agent was started with.
    pub(crate) version: u64,
}

/// Shared by all who judge, replaced as a whole.
#[derive(Clone, Debug)]
pub(crate) struct RulesInForce(Arc<watch::Sender<Arc<Rules>>>);

impl RulesInForce {
    /// These rules, until others are put in force.
    pub(crate) fn new(rules: Rules) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(rules))))
    }

    /// The rules now. A verdict is made by one set, whatever happens meanwhile.
    pub(crate) fn now(&self) -> Arc<Rules> {
        self.0.borrow().clone()
    }

    /// Puts others in force.
    pub(crate) fn replace(&self, rules: Rules) {
        self.0.send_replace(Arc::new(rules));
    }
}
