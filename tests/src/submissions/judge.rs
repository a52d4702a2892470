//! What must hold for every input.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use muster_model::protocol::{
    CheckedJob, JobProblem, MASK, Secrets, parse, remarks, text_of, upstream_message,
};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};

use super::words::SECRET;

/// Longest text that tells what is wrong with a job, in bytes.
const ERROR_BYTES_MAX: usize = 512 * 1024;

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputVerdict {
    /// It is a job.
    Accepted,
    /// It is none, and it was told why.
    Refused,
    /// It is no text.
    NotText,
}

/// What an input came to.
#[derive(Clone, Debug)]
pub struct JudgedInput {
    /// What became of it.
    pub verdict: InputVerdict,
    /// CPU that its judgement took.
    pub took: Duration,
    /// How long the text is that tells what is wrong, in bytes.
    pub error_bytes: usize,
    /// What is wrong with it, without names and numbers.
    pub sentences: BTreeSet<String>,
    /// Rules that do not hold for it.
    pub broken: Vec<String>,
}

/// Judges an input as the submit path does, and looks at what came of it.
pub fn judge(input: &[u8]) -> JudgedInput {
    let mut judged = JudgedInput {
        verdict: InputVerdict::NotText,
        took: Duration::ZERO,
        error_bytes: 0,
        sentences: BTreeSet::new(),
        broken: Vec::new(),
    };
    let before = cpu();
    let decided = catch_unwind(AssertUnwindSafe(|| decide(input)));
    judged.took = cpu().saturating_sub(before);
    match decided {
        Err(panic) => {
            let what = panic.downcast_ref::<String>().cloned();
            judged
                .broken
                .push(format!("panic: {}", what.unwrap_or_default()));
        }
        Ok(SubmitOutcome::Refused(problems, verdict)) => {
            judged.verdict = verdict;
            judged.refused(input, &problems);
        }
        Ok(SubmitOutcome::Accepted(job)) => {
            judged.verdict = InputVerdict::Accepted;
            let text = std::str::from_utf8(input).unwrap_or_default();
            let looked = catch_unwind(AssertUnwindSafe(|| accepted(text, &job)));
            let found = looked.unwrap_or_else(|_| vec!["panic: when read back".to_owned()]);
            judged.broken.extend(found);
        }
    }
    judged
}

/// CPU of this thread.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(Duration::ZERO, Duration::from)
}

enum SubmitOutcome {
    Accepted(Box<CheckedJob>),
    Refused(Vec<JobProblem>, InputVerdict),
}

/// What the submit path does before it asks the cluster anything.
fn decide(input: &[u8]) -> SubmitOutcome {
    let text = match text_of(input) {
        Ok(text) => text,
        Err(problem) => return SubmitOutcome::Refused(vec![problem], InputVerdict::NotText),
    };
    let job = parse(text).and_then(|job| {
        job.job_spec()?;
        job.storages();
        job.wants_default_storages();
        job.split_secrets();
        Ok(job)
    });
    match job {
        Ok(job) => SubmitOutcome::Accepted(Box::new(job)),
        Err(problems) => SubmitOutcome::Refused(problems, InputVerdict::Refused),
    }
}

impl JudgedInput {
    fn refused(&mut self, input: &[u8], problems: &[JobProblem]) {
        let told = remarks(problems);
        let message = upstream_message(problems);
        let errors = serde_json::to_string(&told).unwrap_or_default();
        self.error_bytes = message.len() + errors.len();
        if told.is_empty() || message.is_empty() {
            self.broken
                .push(format!("refused without a word: {problems:?}"));
        }
        if self.error_bytes > ERROR_BYTES_MAX {
            self.broken
                .push(format!("the error has {} bytes", self.error_bytes));
        }
        for remark in &told {
            let is_placed = !remark.path.is_empty()
                || remark.message.contains("line ")
                || remark.message.starts_with("The job ")
                || remark.message.starts_with("There are ")
                || remark.message.starts_with("This is a job of protocol 1");
            if !is_placed || remark.message.is_empty() {
                self.broken.push(format!("without a place: {remark}"));
            }
            self.sentences.insert(bare(&remark.message));
        }
        let is_unread = told.iter().all(|remark| remark.path.is_empty());
        if (message.contains(SECRET) || errors.contains(SECRET)) && is_hidden(input, is_unread) {
            self.broken.push(format!("a secret is told: {errors:.300}"));
        }
    }
}

/// A sentence without what it quotes, and without numbers.
fn bare(message: &str) -> String {
    let is_kept = |c: &char| c.is_ascii_alphabetic() || *c == ' ';
    message.chars().take(60).filter(is_kept).take(24).collect()
}

/// Whether all that stands for a secret stands where secrets do. Of an input that can only be read as the
/// submit path reads it, nothing is known, unless that could not read it either.
fn is_hidden(input: &[u8], is_unread: bool) -> bool {
    let text = String::from_utf8_lossy(input);
    let Ok(mut value) = serde_saphyr::from_str::<Value>(&text) else {
        // A text that cannot be read is told by its place alone.
        return is_unread;
    };
    if let Some(fields) = value.as_object_mut() {
        fields.remove("secrets");
    }
    let images = value.get_mut("prerequisites").and_then(Value::as_array_mut);
    for image in images.into_iter().flatten() {
        let place = match image.get("auth") {
            Some(Value::String(_)) => "/auth",
            _ => "/auth/password",
        };
        if let Some(hidden) = image.pointer_mut(place) {
            *hidden = Value::Null;
        }
    }
    !value.to_string().contains(SECRET)
}

/// What does not hold for a job that was taken.
fn accepted(text: &str, job: &CheckedJob) -> Vec<String> {
    let mut broken = Vec::new();
    let Ok(spec) = job.job_spec() else {
        return vec!["the second look found another job".to_owned()];
    };
    let (config, secrets) = job.split_secrets();
    let shown = format!("{config} {spec:?} {job:?} {secrets:?}");
    if shown.contains(SECRET) && is_hidden(text.as_bytes(), false) {
        broken.push("a secret is stored in the clear".to_owned());
    }
    let Some(whole) = with_secrets(config.clone(), &secrets) else {
        return broken;
    };
    match parse(&whole.to_string()) {
        Err(problems) => broken.push(format!(
            "its stored document is refused: {:.300}",
            upstream_message(&problems)
        )),
        Ok(again) => {
            if again.job_spec().as_ref() != Ok(&spec) {
                broken.push("its stored document is another job".to_owned());
            }
            if again.split_secrets().0 != config {
                broken.push("its stored document is stored otherwise".to_owned());
            }
        }
    }
    broken
}

/// The stored document with its secrets where they were; none where they cannot be put back, as a list
/// that is referred to as a whole.
fn with_secrets(mut config: Value, secrets: &Secrets) -> Option<Value> {
    if config.get("secrets").is_none_or(|it| *it != MASK) {
        return Some(config);
    }
    let known = serde_json::to_value(secrets).ok()?;
    let mut root = Map::new();
    for (reference, text) in known["texts"].as_object()? {
        let Some(path) = reference.strip_prefix("$secrets.") else {
            continue;
        };
        let (parents, last) = path.rsplit_once('.').map_or(("", path), |it| it);
        let mut fields = &mut root;
        for name in parents.split('.').filter(|name| !name.is_empty()) {
            let below = fields
                .entry(name)
                .or_insert_with(|| Value::Object(Map::new()));
            fields = below.as_object_mut()?;
        }
        if fields.insert(last.to_owned(), text.clone()).is_some() {
            return None;
        }
    }
    config["secrets"] = Value::Object(root);
    Some(config)
}
