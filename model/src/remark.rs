//! Something to tell of a document, and where in it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sentence on one place of a job's document: an error, or a warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// Where: `.taskRoles.worker.instances`; empty for the whole document.
    pub path: String,
    /// What.
    pub message: String,
}

impl Remark {
    /// A remark on a place.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Remark {
    /// `.taskRoles.worker.instances: should be integer`, in one line if the message is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}
