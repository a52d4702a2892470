//! OpenPAI job protocol v2.

use serde::{Deserialize, Serialize};

/// One thing that is wrong with a job, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where: `.taskRoles.worker.instances`; empty for the whole document.
    pub path: String,
    /// What, in upstream's words where it has some.
    pub message: String,
    /// ajv's keyword (`type`, `required`, ...); absent for checks beyond the schema.
    pub keyword: Option<String>,
    /// ajv's `schemaPath`.
    pub schema_path: Option<String>,
    /// ajv's `params`, JSON as text.
    pub params: Option<String>,
}
