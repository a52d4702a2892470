//! What `muster job validate` says of a job.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::job::JobSpec;
use crate::remark::Remark;

use super::{CheckedJob, JobProblem, NamedStorage, parse, remarks};

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
        Ok(protocol) => match protocol.job_spec() {
            Ok(spec) => with_storages(&protocol, spec),
            Err(problems) => JobValidation::of_invalid(&problems),
        },
        Err(problems) => JobValidation::of_invalid(&problems),
    }
}

/// Whether there is a storage of that name, only a cluster knows; that it needs one is known here.
fn with_storages(protocol: &CheckedJob, spec: JobSpec) -> JobValidation {
    let storages = protocol.storages();
    let nameless = storages.iter().filter(|storage| storage.name.is_none());
    let problems: Vec<JobProblem> = nameless.map(NamedStorage::missing).collect();
    if !problems.is_empty() {
        return JobValidation::of_invalid(&problems);
    }
    JobValidation::of_valid(protocol, spec)
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
