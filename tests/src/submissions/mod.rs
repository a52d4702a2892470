//! A fuzzer of the submit path: it makes bodies of `POST jobs` out of job files, and judges what the code makes of them.
//!
//! Each input comes from a real job file and a number, so that any of them can be made again. For each it
//! must hold that nothing panics, that an answer takes little time, that what is refused is refused with
//! its place, that the stored document of a job that is taken gives the same job again, and that no text
//! for people holds a secret.

mod document;
mod judge;
mod mutation;
mod seeds;
mod words;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::sim::random::Random;

pub use judge::{InputVerdict, judge};
pub use seeds::SeedJobs;

/// Longest input.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;
/// So many violations are told.
const VIOLATIONS_TOLD: usize = 20;

/// Makes one input: the same for the same seed and number.
pub fn input(seeds: &SeedJobs, seed: u64, number: u64) -> Vec<u8> {
    mutation::input(seeds, &mut Random::new(seed, number))
}

/// Many inputs, from a number on.
#[derive(Clone, Debug)]
pub struct Submissions {
    /// What all randomness comes from.
    pub seed: u64,
    /// The first input.
    pub from: u64,
    /// How many.
    pub inputs: u64,
    /// Most CPU that the judgement of an input may take.
    pub time_max: Duration,
    /// Threads that judge.
    pub threads: usize,
}

/// A rule that an input broke.
#[derive(Clone, Debug, Serialize)]
pub struct SubmissionViolation {
    /// The number of the input.
    pub input: u64,
    /// Which rule, and how.
    pub what: String,
}

/// What came of many inputs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SubmissionReport {
    /// How many there were.
    pub inputs: u64,
    /// Of those, jobs that were taken.
    pub accepted: u64,
    /// Jobs that were refused.
    pub refused: u64,
    /// Bodies that are no text.
    pub not_text: u64,
    /// How many different sentences told what is wrong, without the names and numbers in them.
    pub sentences: usize,
    /// CPU that the slowest took, in milliseconds.
    pub slowest_ms: f64,
    /// Which that was.
    pub slowest: u64,
    /// The longest text that told what is wrong, in bytes.
    pub longest_error: usize,
    /// How many broke a rule.
    pub violated: u64,
    /// The first of them.
    pub violations: Vec<SubmissionViolation>,
    #[serde(skip)]
    told: BTreeSet<String>,
}

impl Submissions {
    /// Makes and judges all of them.
    ///
    /// # Errors
    /// When a thread fails; a panic at an input is a violation, and no error.
    pub fn run(&self, seeds: &SeedJobs) -> Result<SubmissionReport> {
        let next = AtomicU64::new(self.from);
        let worker = || {
            let mut report = SubmissionReport::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.from + self.inputs {
                    return report;
                }
                report.count(number, &input(seeds, self.seed, number), self.time_max);
            }
        };
        let mut whole = SubmissionReport::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(worker)).collect();
            for thread in threads {
                let part = thread.join();
                whole.join(part.map_err(|_| anyhow::anyhow!("a thread that judges panicked"))?);
            }
            anyhow::Ok(())
        })?;
        whole.sentences = whole.told.len();
        Ok(whole)
    }

    /// Writes an input to a file, to look at it.
    ///
    /// # Errors
    /// When it cannot.
    pub fn save(&self, seeds: &SeedJobs, number: u64, path: &Path) -> Result<()> {
        std::fs::write(path, input(seeds, self.seed, number))
            .with_context(|| path.display().to_string())
    }
}

impl SubmissionReport {
    fn count(&mut self, number: u64, input: &[u8], time_max: Duration) {
        let judged = judge(input);
        self.inputs += 1;
        match judged.verdict {
            InputVerdict::Accepted => self.accepted += 1,
            InputVerdict::Refused => self.refused += 1,
            InputVerdict::NotText => self.not_text += 1,
        }
        let took_ms = judged.took.as_secs_f64() * 1000.0;
        if took_ms > self.slowest_ms {
            (self.slowest_ms, self.slowest) = (took_ms, number);
        }
        self.longest_error = self.longest_error.max(judged.error_bytes);
        self.told.extend(judged.sentences);
        let mut broken = judged.broken;
        if judged.took > time_max {
            broken.push(format!("it took {took_ms:.0} ms"));
        }
        self.violated += u64::from(!broken.is_empty());
        for what in broken {
            self.violations.push(SubmissionViolation {
                input: number,
                what,
            });
        }
        self.violations.truncate(VIOLATIONS_TOLD);
    }

    fn join(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.not_text += other.not_text;
        self.violated += other.violated;
        if other.slowest_ms > self.slowest_ms {
            (self.slowest_ms, self.slowest) = (other.slowest_ms, other.slowest);
        }
        self.longest_error = self.longest_error.max(other.longest_error);
        self.told.extend(other.told);
        self.violations.extend(other.violations);
        self.violations.truncate(VIOLATIONS_TOLD);
    }
}
