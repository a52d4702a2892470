//! The first step: the user's exit code and the logs give what the container exits with.

use std::ops::Range;

use muster_model::health::DeviceEvent;

use crate::rule::{DeviceEventPattern, Rule, RuntimePattern};
use crate::scan::Scan;

/// What a failed container exits with if no rule knows the failure.
pub(crate) const UNRECOGNIZED: i32 = 255;

/// What this step looks at.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    /// The user command's exit status, not 0.
    pub(crate) exit_code: i32,
    pub(crate) user_log: Scan<'a>,
    pub(crate) platform_log: Scan<'a>,
    pub(crate) double_ecc_error: bool,
    pub(crate) device_events: &'a [DeviceEvent],
}

/// The rule that was found and where it matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleMatch {
    pub(crate) code: i32,
    pub(crate) user_log: Option<Range<usize>>,
    pub(crate) platform_log: Option<Range<usize>>,
    /// Place of the event that matched.
    pub(crate) device_event: Option<usize>,
}

impl RuleMatch {
    /// A code that no pattern led to.
    pub(crate) const fn plain(code: i32) -> Self {
        Self {
            code,
            user_log: None,
            platform_log: None,
            device_event: None,
        }
    }
}

impl Inside<'_> {
    /// The first pattern of the first rule, in file order, of which every field holds.
    pub(crate) fn first_match(&self, rules: &[Rule]) -> RuleMatch {
        let unrecognized = RuleMatch::plain(UNRECOGNIZED);
        let in_order = rules.iter().filter(|rule| rule.spec.code > 0);
        let mut patterns =
            in_order.flat_map(|rule| rule.runtime.iter().map(|p| (rule.spec.code, p)));
        patterns
            .find_map(|(code, pattern)| self.matches(code, pattern))
            .unwrap_or(unrecognized)
    }

    /// Numbers before texts: most rules are ruled out without a look at the log.
    pub(crate) fn matches(&self, code: i32, pattern: &RuntimePattern) -> Option<RuleMatch> {
        let numbers = pattern
            .exit_code
            .is_none_or(|wanted| wanted == self.exit_code)
            && pattern
                .double_ecc_error
                .is_none_or(|wanted| wanted == self.double_ecc_error);
        if !numbers {
            return None;
        }
        let device_event = match &pattern.device_event {
            Some(wanted) => Some(self.last_event(wanted)?),
            None => None,
        };
        let platform_log = match pattern.platform_log {
            Some(id) => Some(self.platform_log.find(id, None)?),
            None => None,
        };
        let user_log = match pattern.user_log {
            Some(id) => Some(self.user_log.find(id, pattern.user_log_last_lines)?),
            None => None,
        };
        Some(RuleMatch {
            code,
            user_log,
            platform_log,
            device_event,
        })
    }

    /// The place of the last event that matches: it is the nearest to the end.
    fn last_event(&self, wanted: &DeviceEventPattern) -> Option<usize> {
        self.device_events
            .iter()
            .rposition(|event| wanted.matches(event))
    }
}
