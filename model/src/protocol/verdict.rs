//! What `muster job validate` says of a job.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::JobSpec;
use crate::remark::Remark;

use super::{CheckedJob, JobProblem, parse, remarks};

/// Whether a job is valid, and why not or what it would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobValidation {
    /// Whether it would be accepted, as far as that can be told without a cluster.
    pub valid: bool,
    /// What is wrong; empty for a valid job.
    pub errors: Vec<Remark>,
    /// What is accepted and not carried out, or not as it reads; empty for an invalid job.
    pub warnings: Vec<Remark>,
    /// The rendered commands by task role; empty for an invalid job.
    pub entrypoints: Map<String, Value>,
}

/// Judges a job.
pub fn verdict(text: &str) -> JobValidation {
    match parse(text) {
        Ok(protocol) => match (protocol.missing_storages(), protocol.job_spec()) {
            (missing, Ok(spec)) if missing.is_empty() => JobValidation::of_valid(&protocol, spec),
            (missing, spec) => {
                let problems = missing.into_iter().chain(spec.err().into_iter().flatten());
                JobValidation::of_invalid(&problems.collect::<Vec<_>>())
            }
        },
        Err(problems) => JobValidation::of_invalid(&problems),
    }
}

impl JobValidation {
    fn of_valid(protocol: &CheckedJob, spec: JobSpec) -> Self {
        let entrypoints = protocol.entrypoints().iter();
        Self {
            valid: true,
            errors: Vec::new(),
            warnings: spec.warnings,
            entrypoints: entrypoints
                .map(|(role, text)| (role.clone(), text.clone().into()))
                .collect(),
        }
    }

    fn of_invalid(problems: &[JobProblem]) -> Self {
        Self {
            valid: false,
            errors: remarks(problems),
            warnings: Vec::new(),
            entrypoints: Map::new(),
        }
    }
}
