//! Whole documents: our own fixtures, then upstream's examples where the data is at hand.

mod advice;
mod bad_jobs;
mod examples;
mod hostile;
mod muster;
mod references;
mod rules;
mod secrets;
mod spec;
mod ssh;
mod storages;
mod warnings;

use serde_json::Value;

use super::{CheckedJob, JobProblem, parse};

/// The smallest valid job. Tests change one thing of it.
const SMALLEST: &str = "\
protocolVersion: 2
name: job
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: 'repo/image:1'}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 2, memoryMB: 512, gpu: 1}
    commands:
      - echo hello
";

/// The smallest job with `value` (YAML) put at `path`, `taskRoles/worker/instances`, or taken
/// away where `value` is empty.
fn changed(path: &str, value: &str) -> String {
    let mut document: Value = serde_saphyr::from_str(SMALLEST).unwrap();
    let mut spot = &mut document;
    let (parents, last) = path.rsplit_once('/').unwrap_or(("", path));
    for name in parents.split('/').filter(|name| !name.is_empty()) {
        spot = &mut spot[name];
    }
    let fields = spot.as_object_mut().unwrap();
    match value {
        "" => fields.remove(last),
        _ => fields.insert(last.to_owned(), serde_saphyr::from_str(value).unwrap()),
    };
    document.to_string()
}

fn valid(text: &str) -> CheckedJob {
    parse(text).unwrap_or_else(|problems| panic!("{problems:#?}\nin\n{text}"))
}

fn invalid(text: &str) -> Vec<JobProblem> {
    match parse(text) {
        Ok(_) => panic!("accepted\n{text}"),
        Err(problems) => problems,
    }
}
