//! Numbers of jobs, which Slurm has and Muster has not.
//!
//! sbatch chooses a number of nine digits and makes it the end of the job's name: `train-123456789`. So the number
//! is stored where the job is, every machine reads the same one, and nothing has to be kept beside it. A job with
//! another name has no number, and goes by its name.

use std::fmt;

use muster_model::id::{JobKey, JobName};
use rand::Rng as _;

const LEAST: u32 = 100_000_000;
const END: u32 = 1_000_000_000;
const DIGITS: usize = 9;

/// A number of nine digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlurmNumber(u32);

impl SlurmNumber {
    pub(super) fn new() -> Self {
        Self(rand::rng().random_range(LEAST..END))
    }

    fn read(text: &str) -> Option<Self> {
        let number = text
            .parse()
            .ok()
            .filter(|number| (LEAST..END).contains(number));
        let is_plain = text.len() == DIGITS && text.bytes().all(|letter| letter.is_ascii_digit());
        number.filter(|_| is_plain).map(Self)
    }

    /// What a job is called apart from its number, and the number.
    pub(super) fn split(name: &JobName) -> (&str, Option<Self>) {
        let parts = name.as_str().rsplit_once('-');
        let numbered = parts.and_then(|(stem, number)| Some((stem, Self::read(number)?)));
        match numbered.filter(|(stem, _)| !stem.is_empty()) {
            Some((stem, number)) => (stem, Some(number)),
            None => (name.as_str(), None),
        }
    }
}

impl fmt::Display for SlurmNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What stands for a job in the column JOBID: its number, else its name.
pub(super) fn shown(key: &JobKey) -> String {
    match SlurmNumber::split(&key.name) {
        (_, Some(number)) => number.to_string(),
        (_, None) => key.to_string(),
    }
}

/// A job as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobSelector {
    Number(SlurmNumber),
    /// `user~name`.
    Key(JobKey),
    /// A name, or the part of it before the number.
    Name(String),
}

impl JobSelector {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.contains('~') {
            return text.parse().map(Self::Key).map_err(|why| format!("{why}"));
        }
        if let Some((job, task)) = text.split_once('_')
            && SlurmNumber::read(job).is_some()
        {
            return Err(format!(
                "{text}: the task {task} of an array cannot be named alone; give {job} for all of it"
            ));
        }
        if let Some(number) = SlurmNumber::read(text) {
            return Ok(Self::Number(number));
        }
        let is_number = text.bytes().all(|letter| letter.is_ascii_digit());
        match text.parse::<JobName>() {
            Ok(_) if is_number => Err(format!(
                "{text:?} is no job: numbers of jobs have nine digits; `squeue` shows them"
            )),
            Ok(_) => Ok(Self::Name(text.to_owned())),
            Err(why) => Err(format!("{why}")),
        }
    }

    pub(super) fn takes(&self, key: &JobKey) -> bool {
        let (stem, number) = SlurmNumber::split(&key.name);
        match self {
            Self::Number(wanted) => number == Some(*wanted),
            Self::Key(wanted) => wanted == key,
            Self::Name(wanted) => stem == wanted || key.name.as_str() == wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_end_of_a_name() {
        let split = |name: &str| {
            let name: JobName = name.parse().unwrap();
            let (stem, number) = SlurmNumber::split(&name);
            (stem.to_owned(), number.map(|it| it.to_string()))
        };
        let some = |number: &str| Some(number.to_owned());
        for (name, stem, number) in [
            ("train-123456789", "train", some("123456789")),
            ("a-b-999999999", "a-b", some("999999999")),
            ("train-12345678", "train-12345678", None),
            ("train-0123456789", "train-0123456789", None),
            ("train-012345678", "train-012345678", None),
            ("-123456789", "-123456789", None),
            ("123456789", "123456789", None),
            ("train", "train", None),
        ] {
            assert_eq!(split(name), (stem.to_owned(), number), "{name}");
        }
        let number = SlurmNumber::new();
        let key: JobKey = format!("ada~x-{number}").parse().unwrap();
        assert_eq!(shown(&key), number.to_string());
        assert_eq!(shown(&"ada~x".parse().unwrap()), "ada~x");
    }

    #[test]
    fn jobs_go_by_number_and_by_name() {
        let key: JobKey = "ada~train-123456789".parse().unwrap();
        for (text, takes) in [
            ("123456789", true),
            ("123456780", false),
            ("ada~train-123456789", true),
            ("bob~train-123456789", false),
            ("train", true),
            ("train-123456789", true),
            ("trai", false),
        ] {
            assert_eq!(
                JobSelector::read(text).unwrap().takes(&key),
                takes,
                "{text}"
            );
        }
        for (text, word) in [
            ("123456789_3", "array"),
            ("42", "nine digits"),
            ("a b", "letters"),
            ("a~b~c", "letters"),
        ] {
            let error = JobSelector::read(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
