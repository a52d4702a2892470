//! What a rule says of itself and of what follows, beyond its row: additions of ours to the format.

use crate::rule::Rule;

/// How a rule is used, and what follows from an end that it explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    /// It decides nothing; verdicts tell what it would have said.
    pub(crate) is_in_shadow: bool,
    /// The next attempt goes to other nodes, if they have room.
    pub(crate) goes_elsewhere: bool,
    /// So many attempts in a row that end so are the last.
    pub(crate) in_a_row_max: Option<u32>,
}

/// Rules of a file, in its order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedRules<'a> {
    rules: &'a [Rule],
    with_shadows: bool,
}

impl<'a> UsedRules<'a> {
    /// Those that decide.
    pub(crate) const fn deciding(rules: &'a [Rule]) -> Self {
        Self {
            rules,
            with_shadows: false,
        }
    }

    /// The same, and those in shadow as if they decided too.
    pub(crate) const fn all(rules: &'a [Rule]) -> Self {
        Self {
            rules,
            with_shadows: true,
        }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a Rule> {
        let is_used = move |rule: &&Rule| self.with_shadows || !rule.treatment.is_in_shadow;
        self.rules.iter().filter(is_used)
    }
}
