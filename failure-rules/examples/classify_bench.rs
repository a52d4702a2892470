//! How fast a log is classified. Prints one JSON line.
//!
//! `cargo run --release -p muster-failure-rules --example classify_bench [RULES.yaml [LOG]]`
//!
//! Without a log it makes one of 10 MiB that no rule matches, which is the longest way: every
//! expression must be ruled out.

use std::time::Instant;

use muster_failure_rules::{LOG_BYTES_MAX, RuleSet};
use muster_model::exit::{Evidence, Phase, RawExit};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let started = Instant::now();
    let rules = match arguments.next() {
        Some(path) => RuleSet::parse(&std::fs::read_to_string(path)?).map_err(|problems| {
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        })?,
        None => RuleSet::parse(include_str!("../rules/default.yaml"))
            .map_err(|_| "the shipped rules do not parse")?,
    };
    let parse_ms = started.elapsed().as_secs_f64() * 1e3;
    let log = match arguments.next() {
        Some(path) => std::fs::read(path)?,
        None => made_up_log(),
    };
    let bytes = log.len().min(LOG_BYTES_MAX);
    let exit = RawExit {
        code: 1,
        signal: None,
        oom_killed: false,
        phase: Phase::UserCommands,
        cause: None,
        message: String::new(),
        ended_ms: 0,
    };
    let evidence = Evidence {
        exit,
        user_log: log,
        platform_log: Vec::new(),
        double_ecc_error: false,
    };
    let code = rules.classify(&evidence).code();
    let started = Instant::now();
    for _ in 0..ROUNDS {
        assert_eq!(
            rules.classify(&evidence).code(),
            code,
            "the same log, the same code"
        );
    }
    let seconds = started.elapsed().as_secs_f64() / f64::from(ROUNDS);
    let megabytes = f64::from(u32::try_from(bytes)?) / 1e6;
    println!(
        "{{\"bench\":\"failure-rules\",\"rules\":{},\"bytes\":{bytes},\"code\":{code},\"parse_ms\":{parse_ms:.1},\
         \"classify_ms\":{:.2},\"mb_per_s\":{:.0}}}",
        rules.specs().count(),
        seconds * 1e3,
        megabytes / seconds
    );
    Ok(())
}
