//! Who decides, and how many of those may fail.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who decides by majority: the cluster state (admissions, tokens, documents), or its jobs.
/// As far as this node has heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leadership {
    /// The member that leads. None while nobody does, or nobody that does is known.
    pub leader: Option<String>,
    /// Members with a vote, by name. A majority of them is needed for every change.
    pub voters: Vec<String>,
    /// Those of them that do not count now, as far as the node that tells has heard: they cannot be
    /// reached, or do not say that they have a copy with a vote.
    pub away: Vec<String>,
    /// Members that keep a copy and have no vote.
    pub learners: Vec<String>,
}

impl Leadership {
    /// How many more voters may fail at once without harm; none if too many are away already.
    pub const fn spare(&self) -> Option<usize> {
        let there = self.voters.len().saturating_sub(self.away.len());
        there.checked_sub(self.voters.len() / 2 + 1)
    }
}

/// `n1 leads; 3 voters (n1, n2, n3), any 1 may fail`
/// `n1 leads; 3 voters (n1, n2, n3), n3 away: no other may fail`
impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.leader {
            Some(leader) => write!(f, "{leader} leads; ")?,
            None => f.write_str("nobody leads; ")?,
        }
        let names = self.voters.join(", ");
        match (self.voters.len(), self.away.is_empty()) {
            (0, _) => f.write_str("no voter is known yet"),
            (1, true) => write!(
                f,
                "1 voter ({names}), which must not fail: three machines bear a loss"
            ),
            (1, false) => write!(f, "1 voter ({names}), which is away"),
            (count, _) => write!(f, "{count} voters ({names}), {}", self.bears()),
        }
    }
}

impl Leadership {
    /// What several voters bear.
    fn bears(&self) -> String {
        let away = self.away.join(", ");
        match (self.spare(), self.away.is_empty()) {
            (Some(0), true) => "none of which may fail".to_owned(),
            (Some(spare), true) => format!("any {spare} may fail"),
            (Some(0), false) => format!("{away} away: no other may fail"),
            (Some(spare), false) => {
                format!("{away} away: {spare} of the others may fail")
            }
            (None, _) => format!("{away} away: a majority of them is needed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(voters: &[&str], away: &[&str]) -> Leadership {
        Leadership {
            leader: voters.first().map(ToString::to_string),
            voters: voters.iter().map(ToString::to_string).collect(),
            away: away.iter().map(ToString::to_string).collect(),
            learners: Vec::new(),
        }
    }

    #[test]
    fn it_says_plainly_what_it_bears() {
        for (voters, expect) in [
            (
                &["a"][..],
                "a leads; 1 voter (a), which must not fail: three machines bear a loss",
            ),
            (
                &["a", "b"],
                "a leads; 2 voters (a, b), none of which may fail",
            ),
            (
                &["a", "b", "c"],
                "a leads; 3 voters (a, b, c), any 1 may fail",
            ),
            (
                &["a", "b", "c", "d", "e"],
                "a leads; 5 voters (a, b, c, d, e), any 2 may fail",
            ),
            (&[], "nobody leads; no voter is known yet"),
        ] {
            assert_eq!(led(voters, &[]).to_string(), expect);
        }
    }

    #[test]
    fn what_is_away_has_failed_already() {
        let all = ["a", "b", "c", "d", "e"];
        for (away, expect) in [
            (&["e"][..], "e away: 1 of the others may fail"),
            (&["d", "e"], "d, e away: no other may fail"),
            (
                &["c", "d", "e"],
                "c, d, e away: a majority of them is needed",
            ),
        ] {
            let expect = format!("a leads; 5 voters (a, b, c, d, e), {expect}");
            assert_eq!(led(&all, away).to_string(), expect);
        }
        let one = led(&["a"], &["a"]).to_string();
        assert_eq!(one, "a leads; 1 voter (a), which is away");
    }
}
