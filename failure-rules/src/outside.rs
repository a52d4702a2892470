//! The second step: the container and the platform's own findings give the code users see.

use crate::rule::{ContainerPattern, PodPattern, Rule};
use crate::treatment::UsedRules;

pub(crate) const SUCCEEDED: i32 = 0;
/// It failed, but nothing in it did.
pub(crate) const NO_FAILED_CONTAINER: i32 = -300;
/// What a container may exit with to say how it wants to be retried.
pub(crate) const TRANSIENT: i32 = 200;
pub(crate) const TRANSIENT_CONFLICT: i32 = 201;
pub(crate) const PERMANENT: i32 = 210;

/// What this step looks at. OpenPAI calls the whole a pod.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outside<'a> {
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// The container that ended, if one did.
    pub(crate) container: Option<EndedContainer<'a>>,
}

/// How the container ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedContainer<'a> {
    pub(crate) name: &'a str,
    pub(crate) exit_code: i32,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl Outside<'_> {
    /// The code of the first rule that matches, or the container's own code.
    pub(crate) fn code(&self, rules: UsedRules<'_>) -> i32 {
        let exit_code = self.container.map(|container| container.exit_code);
        if self.reason.is_empty() && exit_code == Some(SUCCEEDED) {
            return SUCCEEDED;
        }
        if let Some(code @ (TRANSIENT | TRANSIENT_CONFLICT | PERMANENT)) = exit_code {
            return code;
        }
        let found = rules
            .iter()
            .find(|rule| self.matches(rule))
            .map(|rule| rule.spec.code);
        found
            .or_else(|| exit_code.filter(|code| *code != SUCCEEDED))
            .unwrap_or(NO_FAILED_CONTAINER)
    }

    fn matches(&self, rule: &Rule) -> bool {
        let code = rule.spec.code;
        if (-999..=0).contains(&code) {
            // Raised by the platform itself, never recognized from a pod.
            return false;
        }
        if rule.pod.is_empty() {
            return self
                .container
                .is_some_and(|container| container.exit_code == code);
        }
        rule.pod.iter().any(|pattern| self.matches_pod(pattern))
    }

    pub(crate) fn matches_pod(&self, pattern: &PodPattern) -> bool {
        pattern
            .reason
            .as_ref()
            .is_none_or(|p| p.is_match(self.reason))
            && pattern
                .message
                .as_ref()
                .is_none_or(|p| p.is_match(self.message))
            && pattern
                .containers
                .iter()
                .all(|p| self.container.is_some_and(|c| c.matches(p)))
    }
}

impl EndedContainer<'_> {
    fn matches(&self, pattern: &ContainerPattern) -> bool {
        pattern
            .exit_code
            .map_or(self.exit_code >= 1, |wanted| wanted == self.exit_code)
            && pattern.name.as_ref().is_none_or(|p| p.is_match(self.name))
            && pattern
                .reason
                .as_ref()
                .is_none_or(|p| p.is_match(self.reason))
            && pattern
                .message
                .as_ref()
                .is_none_or(|p| p.is_match(self.message))
    }
}
