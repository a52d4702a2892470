//! What is wrong with a job.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::remark::Remark;

/// One thing that is wrong with a job, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProblem {
    /// Where: `.taskRoles.worker.instances`; empty for the whole document.
    pub path: String,
    /// What, in upstream's words where it has some.
    pub message: String,
    /// ajv's keyword (`type`, `required`, ...); absent for checks beyond the schema.
    pub keyword: Option<String>,
    /// ajv's `schemaPath`.
    pub schema_path: Option<Box<str>>,
    /// ajv's `params`, JSON as text.
    pub params: Option<Box<str>>,
    /// The same for people.
    pub advice: ProblemAdvice,
}

/// What a problem says to people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProblemAdvice {
    /// Its path and message.
    #[default]
    AsIs,
    /// This, which names the key or the remedy as well.
    Instead(Box<Remark>),
    /// Nothing: others say all of it.
    Nothing,
}

impl JobProblem {
    /// A problem beyond the schema.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
            keyword: None,
            schema_path: None,
            params: None,
            advice: ProblemAdvice::AsIs,
        }
    }

    /// What is wrong with the job as a whole.
    pub fn whole(message: impl Into<String>) -> Self {
        Self::at("", message)
    }

    /// Where and what, for people; `None` if other problems of the same document say it better.
    pub fn remark(&self) -> Option<Remark> {
        match &self.advice {
            ProblemAdvice::AsIs => Some(Remark::at(&*self.path, &*self.message)),
            ProblemAdvice::Instead(remark) => Some((**remark).clone()),
            ProblemAdvice::Nothing => None,
        }
    }

    /// The same problem, in other words for people. They are about what lies below the path.
    pub(super) fn advised(self, below: &str, words: impl Into<String>) -> Self {
        let path = format!("{}{below}", self.path);
        let words = match path.as_str() {
            "" => format!("The job {}", words.into()),
            _ => words.into(),
        };
        let remark = Remark::at(path, words);
        let advice = ProblemAdvice::Instead(Box::new(remark));
        Self { advice, ..self }
    }

    /// The same problem, of which people need not hear: others say all of it.
    pub(super) fn silent(self) -> Self {
        Self {
            advice: ProblemAdvice::Nothing,
            ..self
        }
    }

    /// The path as ajv writes it, with the names that users choose in brackets:
    /// `.taskRoles['worker'].instances`.
    pub fn data_path(&self) -> String {
        let mut out = String::with_capacity(self.path.len() + 4);
        let mut chosen = false;
        for (nth, part) in self.path.split('.').enumerate() {
            if nth == 0 {
                out.push_str(part);
                continue;
            }
            if chosen {
                out.push_str(&format!("['{part}']"));
            } else {
                out.push('.');
                out.push_str(part);
            }
            chosen = !chosen && matches!(part, "taskRoles" | "ports");
        }
        out
    }

    /// The problem as one of ajv's error objects. Problems beyond the schema have only
    /// `dataPath` and `message`.
    pub fn to_ajv(&self) -> Value {
        let mut error = Map::new();
        if let Some(keyword) = &self.keyword {
            error.insert("keyword".into(), json!(keyword));
        }
        error.insert("dataPath".into(), json!(self.data_path()));
        if let Some(schema_path) = &self.schema_path {
            error.insert("schemaPath".into(), json!(schema_path));
        }
        if let Some(params) = &self.params {
            let params = serde_json::from_str(params).unwrap_or_else(|_| json!({}));
            error.insert("params".into(), params);
        }
        error.insert("message".into(), json!(self.message));
        Value::Object(error)
    }
}

/// What is wrong, for people: each thing once, with its path and the remedy where one is known.
pub fn remarks(problems: &[JobProblem]) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    for remark in problems.iter().filter_map(JobProblem::remark) {
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks
}

/// The text for `message` of an `InvalidProtocolError`: ajv's array as JSON if the document has the
/// wrong shape, as upstream; else sentences, one a line, which begin with their path. Upstream tells
/// the first sentence only, without its path.
pub fn upstream_message(problems: &[JobProblem]) -> String {
    if problems.iter().any(|problem| problem.keyword.is_some()) {
        return Value::Array(problems.iter().map(JobProblem::to_ajv).collect()).to_string();
    }
    let sentences = problems.iter().map(|p| Remark::at(&*p.path, &*p.message));
    let sentences: Vec<String> = sentences.map(|sentence| sentence.to_string()).collect();
    sentences.join("\n")
}
