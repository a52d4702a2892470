//! Tries new failure rules on the failures of this node.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use muster_control::request::RequestFailure;
use muster_failure_rules::RuleSet;
use muster_model::rule_test::RuleTest;
use tokio::sync::Mutex;

use super::replay::RuleReplay;
use super::store::FailureStore;
use crate::documents::failure_rules::RulesInForce;
use crate::low_priority;

/// How long failures are judged; the answer says how many are left then.
const TIME_MAX: Duration = Duration::from_secs(30);
/// A test takes one in so many of the machine's cores.
const CORES_SHARE: usize = 2;

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RuleTester(Arc<RuleTesterParts>);

#[derive(Debug)]
struct RuleTesterParts {
    store: FailureStore,
    rules: RulesInForce,
    node: String,
    /// One test at a time: each takes all the cores that tests may have.
    turn: Mutex<()>,
}

impl RuleTester {
    /// One for the failures in `store`, beside the rules in force on the node of this name.
    pub(crate) fn new(store: FailureStore, rules: RulesInForce, node: String) -> Self {
        Self(Arc::new(RuleTesterParts {
            store,
            rules,
            node,
            turn: Mutex::default(),
        }))
    }

    /// What these rules would say of all failures that are kept, the newest first.
    ///
    /// # Errors
    /// [`RequestFailure`] when the rules cannot be read, or the failures cannot be listed.
    pub(crate) async fn test(&self, text: String) -> Result<RuleTest, RequestFailure> {
        let _turn = self.0.turn.lock().await;
        let parts = Arc::clone(&self.0);
        let tested = low_priority::run(move || parts.test(&text)).await;
        let ended = || RequestFailure::unavailable("the test of the rules broke off");
        tested.ok_or_else(ended)?
    }
}

impl RuleTesterParts {
    fn test(&self, text: &str) -> Result<RuleTest, RequestFailure> {
        let after = RuleSet::parse(text).map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
            RequestFailure::invalid(lines.join("\n"))
        })?;
        // A test is asked what they would change.
        let after = after.without_shadow();
        let unreadable = |error| {
            let directory = self.store.directory().display();
            RequestFailure::unavailable(format!("cannot list {directory}: {error}"))
        };
        let kept = self.store.list().map_err(unreadable)?;
        // Where the time is up, the old ones are left.
        let names: Vec<_> = kept.into_iter().rev().map(|(name, _)| name).collect();
        let cores = available_parallelism().map_or(1, usize::from);
        let in_force = self.rules.now();
        let replay = RuleReplay {
            before: &in_force.set,
            digest: &in_force.digest,
            after: &after,
            node: &self.node,
            until: Instant::now() + TIME_MAX,
        };
        let threads = (cores / CORES_SHARE).max(1);
        Ok(replay.run(&names, threads, |name| self.store.read(name)))
    }
}
