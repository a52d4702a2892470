//! Who decides, and how many of those may fail.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who decides by majority: the affairs of the cluster (admissions, tokens, documents), or its jobs.
/// As far as this node has heard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leadership {
    /// The member that leads. None while nobody does, or nobody that does is known.
    pub leader: Option<String>,
    /// Members with a vote, by name. A majority of them is needed for every change.
    pub voters: Vec<String>,
    /// Members that keep a copy and have no vote.
    pub learners: Vec<String>,
}

impl Leadership {
    /// How many voters may fail at once without harm.
    pub const fn spare(&self) -> usize {
        self.voters.len().saturating_sub(1) / 2
    }
}

/// `n1 leads; 3 voters (n1, n2, n3), any 1 may fail`
impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.leader {
            Some(leader) => write!(f, "{leader} leads; ")?,
            None => f.write_str("nobody leads; ")?,
        }
        let names = self.voters.join(", ");
        match (self.voters.len(), self.spare()) {
            (0, _) => f.write_str("no voter is known yet"),
            (1, _) => write!(
                f,
                "1 voter ({names}), which must not fail: three machines bear a loss"
            ),
            (count, 0) => write!(f, "{count} voters ({names}), none of which may fail"),
            (count, spare) => write!(f, "{count} voters ({names}), any {spare} may fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(voters: &[&str]) -> Leadership {
        Leadership {
            leader: voters.first().map(ToString::to_string),
            voters: voters.iter().map(ToString::to_string).collect(),
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
            assert_eq!(led(voters).to_string(), expect);
        }
    }
}
