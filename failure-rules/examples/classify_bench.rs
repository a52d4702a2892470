//! How fast a log is classified, beside `grep -E` with the same expressions. Prints one JSON line.
//!
//! `cargo run --release -p muster-failure-rules --example classify_bench [RULES.yaml [LOG]]`
//!
//! Without a log it makes one of 10 MiB that no rule matches, which is the longest way: every
//! expression must be ruled out. The two sides take turns. grep reads line by line, so of an
//! expression over several lines it is given the last line's part, and one flag must do for all:
//! it ignores case.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use muster_failure_rules::{LOG_BYTES_MAX, RuleSet};
use muster_model::exit::{Evidence, ExitPhase, RawExit};

const ROUNDS: u32 = 10;

fn made_up_log() -> Vec<u8> {
    let mut log = Vec::with_capacity(LOG_BYTES_MAX + 256);
    let mut step: u64 = 0;
    while log.len() < LOG_BYTES_MAX {
        step += 1;
        let loss = step * 7919 % 10_007;
        log.extend_from_slice(
            format!(
                "2024-03-01 12:00:{:02} INFO train.py:118 [rank{}] epoch {} step {step} loss 0.{loss:05} \
                 memory 31.2 GiB, import of 3 shards, error rate 0.{:03}\n",
                step % 60,
                step % 8,
                step / 1000,
                loss % 1000
            )
            .as_bytes(),
        );
    }
    log.truncate(LOG_BYTES_MAX);
    log
}

/// The expressions over logs in a rules file, as grep understands them.
fn expressions(rules: &str) -> Vec<String> {
    let of_logs = rules.lines().filter_map(|line| {
        let (key, text) = line.trim_start_matches([' ', '-']).split_once(": '")?;
        ["userLogRegex", "platformLogRegex"]
            .contains(&key)
            .then_some(text)
    });
    of_logs
        .filter_map(|text| text.strip_suffix('\''))
        .map(for_grep)
        .collect()
}

fn for_grep(expression: &str) -> String {
    let mut text = expression.replace("''", "'");
    for flags in ["(?i)", "(?m)", "(?s)", "(?im)"] {
        text = text.replace(flags, "");
    }
    let text = text
        .replace("[^\\n", "[^\u{1}")
        .replace("{0,5}?", "{0,5}")
        .replace("(?:", "(")
        .replace("[\\w", "[[:alnum:]_")
        .replace("\\t", "\t");
    let last_line = text.rsplit("\\n").next().unwrap_or_default();
    // What was cut off may have opened groups that the rest closes.
    let balanced = last_line.matches('(').count() == last_line.matches(')').count();
    if balanced {
        last_line.to_owned()
    } else {
        text.replace("\\n", "")
    }
}

/// How long grep takes over the log.
fn grep(patterns: &Path, log: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let started = Instant::now();
    let status = Command::new("grep")
        .env("LC_ALL", "C")
        .args(["-E", "-i", "-c", "-f"])
        .args([patterns, log])
        .stdout(Stdio::null())
        .status()?;
    // 1: nothing found.
    if status.code().is_none_or(|code| code > 1) {
        return Err(format!("grep ended with {status}").into());
    }
    Ok(started.elapsed())
}

fn file_of(bytes: &[u8]) -> Result<tempfile::NamedTempFile, std::io::Error> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    Ok(file)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let started = Instant::now();
    let text = match arguments.next() {
        Some(path) => std::fs::read_to_string(path)?,
        None => include_str!("../rules/default.yaml").to_owned(),
    };
    let rules = RuleSet::parse(&text).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    let parse_ms = started.elapsed().as_secs_f64() * 1e3;
    let log = match arguments.next() {
        Some(path) => std::fs::read(path)?,
        None => made_up_log(),
    };
    let bytes = log.len().min(LOG_BYTES_MAX);
    let expressions = expressions(&text);
    let patterns = file_of(expressions.join("\n").as_bytes())?;
    let log_file = file_of(&log[log.len() - bytes..])?;
    let exit = RawExit {
        code: 1,
        signal: None,
        oom_killed: false,
        own_doing: false,
        phase: ExitPhase::UserCommands,
        cause: None,
        message: String::new(),
        ended_ms: 0,
    };
    let evidence = Evidence {
        exit,
        user_log: log,
        user_log_from: 0,
        platform_log: Vec::new(),
        device_events: Vec::new(),
    };
    let code = rules.classify(&evidence).code();
    let (mut ours, mut greps) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let again = rules.classify(&evidence).code();
        ours += started.elapsed();
        assert_eq!(again, code, "the same log, the same code");
        greps += grep(patterns.path(), log_file.path())?;
    }
    let seconds = ours.as_secs_f64() / f64::from(ROUNDS);
    let grep_seconds = greps.as_secs_f64() / f64::from(ROUNDS);
    let megabytes = f64::from(u32::try_from(bytes)?) / 1e6;
    println!(
        "{{\"bench\":\"classify\",\"rules\":{},\"bytes\":{bytes},\"code\":{code},\"parse_ms\":{parse_ms:.1},\
         \"classify_ms\":{:.2},\"mb_per_s\":{:.0},\
         \"grep_expressions\":{},\"grep_ms\":{:.2},\"grep_mb_per_s\":{:.0},\
         \"ratio_to_grep\":{:.2}}}",
        rules.specs().count(),
        seconds * 1e3,
        megabytes / seconds,
        expressions.len(),
        grep_seconds * 1e3,
        megabytes / grep_seconds,
        seconds / grep_seconds,
    );
    Ok(())
}
