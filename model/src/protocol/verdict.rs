//! What `muster job validate` says of a job.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Problem, Protocol, parse};

/// Whether a job is valid, and why not or what it would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it would be accepted, as far as that can be told without a cluster.
    pub valid: bool,
    /// What is wrong; empty for a valid job.
    pub errors: Vec<Fault>,
    /// The rendered commands by task role; empty for an invalid job.
    pub entrypoints: Map<String, Value>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Where: `.taskRoles.worker.instances`; empty for the whole document.
    pub path: String,
    /// What.
    pub message: String,
}

/// Judges a job.
pub fn verdict(text: &str) -> Verdict {
    match parse(text) {
        Ok(protocol) => Verdict::of_valid(&protocol),
        Err(problems) => Verdict::of_invalid(problems),
    }
}

impl Verdict {
    fn of_valid(protocol: &Protocol) -> Self {
        let entrypoints = protocol.entrypoints().iter();
        Self {
            valid: true,
            errors: Vec::new(),
            entrypoints: entrypoints
                .map(|(role, text)| (role.clone(), text.clone().into()))
                .collect(),
        }
    }

    fn of_invalid(problems: Vec<Problem>) -> Self {
        let fault = |problem: Problem| Fault {
            path: problem.path,
            message: problem.message,
        };
        Self {
            valid: false,
            errors: problems.into_iter().map(fault).collect(),
            entrypoints: Map::new(),
        }
    }
}
