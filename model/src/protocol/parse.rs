//! The way from text to a checked job.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::id::JobName;
use crate::job::JobSpec;

use super::document::WrittenJob;
use super::secrets::{Secrets, masked};
use super::template::{RenderBudget, TemplateError};
use super::{JobProblem, NamedStorage, references, rules, spec, storages, undefined, yaml};

/// A job that was checked. Still holds its secrets; see [`CheckedJob::split_secrets`].
pub struct CheckedJob {
    source: Value,
    document: WrittenJob,
    entrypoints: Vec<(String, String)>,
}

impl fmt::Debug for CheckedJob {
    /// Shows the name only, because the rest may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protocol")
            .field("name", &self.document.name)
            .finish_non_exhaustive()
    }
}

/// A body as text.
///
/// # Errors
/// Where it is none.
pub fn text_of(body: &[u8]) -> Result<&str, JobProblem> {
    std::str::from_utf8(body).map_err(|error| {
        let before = &body[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        JobProblem::whole(format!(
            "The job is not UTF-8 text: line {line} has other bytes. Save the file as UTF-8."
        ))
    })
}

/// Reads and checks a job.
///
/// # Errors
/// Everything that is wrong with it. Checks of one kind are told together; those that only
/// make sense on a document of the right shape come once the shape is right.
pub fn parse(text: &str) -> Result<CheckedJob, Vec<JobProblem>> {
    let source = yaml::read(text).map_err(|problem| vec![problem])?;
    none_of(rules::check_shape(&source))?;
    let document = WrittenJob::deserialize(&source).map_err(|error| {
        vec![JobProblem::at(
            "",
            format!("The job cannot be read: {error}."),
        )]
    })?;
    none_of(references::check(&document))?;
    none_of(undefined::check(&document))?;
    let entrypoints = spec::entrypoints(&document)?;
    let protocol = CheckedJob {
        source,
        document,
        entrypoints,
    };
    let spec = protocol.job_spec()?;
    check_length(&spec, &Secrets::of(&protocol.document))
        .map_err(|error| vec![JobProblem::at(".taskRoles", error.to_string())])?;
    Ok(protocol)
}

fn none_of(problems: Vec<JobProblem>) -> Result<(), Vec<JobProblem>> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Nodes put the secrets in, so what that makes of the commands is bounded here.
fn check_length(spec: &JobSpec, secrets: &Secrets) -> Result<(), TemplateError> {
    let mut budget = RenderBudget::whole_job();
    for role in &spec.roles {
        let scripts = role.pre_commands.iter().chain(&role.post_commands);
        for script in scripts.chain([&role.entrypoint]) {
            budget.spend(secrets.rendered_bytes(script))?;
        }
    }
    Ok(())
}

impl CheckedJob {
    /// The job's name.
    pub fn name(&self) -> &JobName {
        &self.document.name
    }

    /// The user's commands by task role, in the order written: the active deployment's
    /// commands put around them, rendered but for `<% $secrets.x %>`.
    pub fn entrypoints(&self) -> &[(String, String)] {
        &self.entrypoints
    }

    /// The job with every reference resolved and every default filled in. Holds no secrets:
    /// passwords that the document writes out became references for [`Secrets::render`].
    ///
    /// # Errors
    /// Never for a protocol that came from [`parse`], which checks this too.
    pub fn job_spec(&self) -> Result<JobSpec, Vec<JobProblem>> {
        spec::job_spec(&self.document, &self.source, &self.entrypoints)
    }

    /// The storages that the job names. Which there are, a cluster knows.
    pub fn storages(&self) -> Vec<NamedStorage> {
        storages::named(&self.document)
    }

    /// Whether the job asks for the user's default storages, by an empty list.
    pub fn wants_default_storages(&self) -> bool {
        storages::wants_defaults(&self.document)
    }

    /// The document as anyone may see it, and apart from it what was masked there.
    ///
    /// In the document `secrets` is `"******"`, as upstream stores it, and so are passwords
    /// written out in an image's `auth`; keys keep their order.
    pub fn split_secrets(&self) -> (Value, Secrets) {
        (masked(&self.source), Secrets::of(&self.document))
    }
}
