//! Failure rules on five nodes: how soon an edit at one of them is in force on all, and how long a test of new rules
//! takes on the failures that they keep. Times count from the request on; a node is asked every few milliseconds.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::try_join_all;
use hyper::Method;
use muster_tests::client::Client;
use muster_tests::net::{Lan, View, Watch};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use crate::sample::{Sample, round};

const AGENTS: usize = 5;
/// How long a cluster may take until it is whole, or an edit until it is in force.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);
const DOCUMENT: &str = "/api/muster/v1/documents/failure-rules";
const TEST: &str = "/api/muster/v1/failure-rules/test";
const EDIT_P99_MS_MAX: f64 = 500.0;
const TEST_S_MAX: f64 = 5.0;
/// Bytes of a failure's log.
const LOG_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RulesArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many edits are made, every second one a rollback.
    #[arg(long, default_value_t = 100)]
    edits: usize,
    /// How many failures the nodes keep in all.
    #[arg(long, default_value_t = 10_000)]
    failures: usize,
}

pub(crate) async fn run(arguments: &RulesArguments) -> Result<Value> {
    let mut lan = Lan::running(&arguments.muster, AGENTS)?;
    lan.unite().await?;
    let all_vote = |view: &View| view.voters(None).len() == AGENTS;
    let all = Watch::new(&lan, 1..=AGENTS);
    all.each("all vote in the cluster", LIMIT, all_vote).await?;
    let nodes = RuleClients::new(&lan).await?;
    let shipped = lan.node(1).prints(&["rules", "show"])?;

    let mut edited = Sample::new()?;
    for nth in 0..arguments.edits {
        edited.add(nodes.edit(nth, &shipped).await?);
    }
    let in_force = lan.node(1).prints(&["rules", "show"])?;
    let known = nodes.judged(&in_force).await?;
    let mut took = Vec::new();
    for judged in [known, JudgedKinds::by_others()] {
        for (at, node) in lan.nodes().iter().enumerate() {
            let share = arguments.failures / AGENTS + usize::from(at < arguments.failures % AGENTS);
            keep_failures(&node.home().join("state/failures"), share, &judged)?;
        }
        let begun = Instant::now();
        let tested = nodes.test(&with_rule(&shipped, "Tested")).await?;
        took.push((
            round(begun.elapsed().as_secs_f64()),
            tested["changed"].clone(),
        ));
        ensure!(
            tested["tried"] == arguments.failures && tested["untried"] == 0,
            "{tested}"
        );
    }
    let [(test_s, changed), (test_other_s, of_others)] = &took[..] else {
        unreachable!("there are two tests")
    };
    ensure!(
        changed == of_others,
        "{changed} and {of_others} verdicts change"
    );
    let met = edited.ms(0.99) <= EDIT_P99_MS_MAX && *test_s <= TEST_S_MAX;
    Ok(json!({
        "bench": "rules", "agents": AGENTS, "edits": arguments.edits,
        "edit_p50_ms": edited.ms(0.5), "edit_p99_ms": edited.ms(0.99), "edit_ms": edited.ms(1.0),
        "failures": arguments.failures, "changed": changed, "test_s": test_s, "test_other_s": test_other_s,
        "met": met,
    }))
}

/// The admin at each node.
struct RuleClients(Vec<Client>);

impl RuleClients {
    async fn new(lan: &Lan) -> Result<Self> {
        let admin = lan.node(1).client().await?;
        let nodes = lan.nodes().iter();
        let clients = nodes.map(|node| node.visitor().with_token(admin.token()));
        Ok(Self(clients.collect()))
    }

    /// Changes the rules at one node, or has them go back as `muster rules rollback --now` does: how long until the
    /// version is in force on all.
    async fn edit(&self, nth: usize, shipped: &str) -> Result<Duration> {
        let node = &self.0[nth % AGENTS];
        let since = Instant::now();
        let text = match nth % 2 {
            0 => with_rule(shipped, &format!("Edit{nth}")),
            _ => with_rule(shipped, "Before"),
        };
        let path = format!("{DOCUMENT}?base={nth}&now=true");
        let answer = ask(node, Method::PUT, &path, text).await?;
        let version = answer["version"].as_u64().context("a version")?;
        ensure!(version == nth as u64 + 1, "{answer}");
        let times = self.0.iter().map(|node| in_force(node, version, since));
        let times = try_join_all(times).await?;
        Ok(times.into_iter().max().unwrap_or_default())
    }

    /// What the rules in force say of each kind of failure.
    async fn judged(&self, rules: &str) -> Result<JudgedKinds> {
        let mut kinds = Vec::new();
        for example in JudgedKinds::EXAMPLES {
            let end = json!({ "exit_code": 1, "user_log": log(example) }).to_string();
            let path = "/api/muster/v1/failure-rules/try";
            let (status, text) = self.0[0]
                .send(Method::POST, path, "application/json", end)
                .await?;
            ensure!(status.is_success(), "{path}: {status} {text}");
            let verdict: Value = serde_json::from_str(&text)?;
            let spec = &verdict["spec"];
            kinds.push(json!({
                "code": spec["code"], "phrase": spec["phrase"], "behavior": spec["behavior"],
            }));
        }
        let text = rules
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("# version"));
        let digest = Sha256::digest(text.collect::<String>().as_bytes());
        let digest = digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(JudgedKinds { kinds, digest })
    }

    async fn test(&self, rules: &str) -> Result<Value> {
        ask(&self.0[0], Method::POST, TEST, rules.to_owned()).await
    }
}

/// The shipped rules with one more before them, which knows the failures that are kept.
fn with_rule(shipped: &str, phrase: &str) -> String {
    let rule = format!(
        "- code: 215\n  phrase: {phrase}\n  pattern:\n    runtimeContainerPatterns:\n    - userLogRegex: 'shard \
         [0-9]*8 is not there'\n      userLogIn: error\n"
    );
    // The first line of what is shown tells the version.
    let file = shipped
        .lines()
        .filter(|line| !line.starts_with("# version"));
    let mut text = String::new();
    for line in file {
        text.push_str(line);
        text.push('\n');
        if line == "spec:" {
            text.push_str(&rule);
        }
    }
    text
}

async fn ask(node: &Client, method: Method, path: &str, body: String) -> Result<Value> {
    let (status, text) = node.send(method, path, "text/yaml", body).await?;
    ensure!(status.is_success(), "{path}: {status} {text}");
    Ok(serde_json::from_str(&text)?)
}

/// How long after `since` a node judges by the version.
async fn in_force(node: &Client, version: u64, since: Instant) -> Result<Duration> {
    loop {
        let shown = ask(node, Method::GET, DOCUMENT, String::new()).await?;
        if shown["here"]["active"] == version {
            return Ok(since.elapsed());
        }
        ensure!(since.elapsed() < LIMIT, "{shown}");
        sleep(LOOK).await;
    }
}

/// The verdicts that are kept with failures, and the digest of the rules that made them.
struct JudgedKinds {
    kinds: Vec<Value>,
    digest: String,
}

impl JudgedKinds {
    /// A failure of each kind: of the four errors, and of the first one where the added rule knows it.
    const EXAMPLES: [usize; 5] = [0, 1, 2, 3, 8];

    /// Verdicts of rules that are not in force any more: those in force are asked anew.
    fn by_others() -> Self {
        let kept = json!({"code": 1, "phrase": "Kept", "behavior": "UNKNOWN"});
        Self {
            kinds: vec![kept; Self::EXAMPLES.len()],
            digest: String::new(),
        }
    }

    fn of(&self, nth: usize) -> &Value {
        let is_known = nth.is_multiple_of(4) && nth % 10 == 8;
        &self.kinds[if is_known { 4 } else { nth % 4 }]
    }
}

/// Failures as an agent keeps them, of programs that end with different errors.
fn keep_failures(directory: &Path, count: usize, judged: &JudgedKinds) -> Result<()> {
    // Those of the test before.
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let now_ms = u64::try_from(std::time::UNIX_EPOCH.elapsed()?.as_millis())?;
    for nth in 0..count {
        let log = log(nth);
        let ended_ms = now_ms - nth as u64 * 1000;
        let head = json!({
            "user_log_bytes": log.len(), "platform_log_bytes": 0,
            "failure": {
                "uid": format!("bench-{nth}"), "job": format!("ada~train{nth}"), "task": "worker:0",
                "exit": {
                    "code": 1, "signal": null, "oom_killed": false, "own_doing": true, "phase": "UserCommands",
                    "cause": null, "message": "", "ended_ms": ended_ms,
                },
                "device_events": [], "rules_version": 0, "rules": judged.digest, "is_whole": true,
                "judged": judged.of(nth),
            },
        });
        let file = directory.join(format!("{ended_ms:014}-bench-{nth}.gz"));
        let mut file = GzEncoder::new(fs::File::create(file)?, Compression::fast());
        writeln!(file, "{head}")?;
        file.write_all(log.as_bytes())?;
        file.finish()?;
    }
    Ok(())
}

/// The log of a training that fails: steps, then a traceback, of which there are four kinds.
fn log(nth: usize) -> String {
    let error = match nth % 4 {
        0 => format!("FileNotFoundError: shard {nth} is not there"),
        1 => format!("RuntimeError: the loss of batch {nth} is not a number"),
        2 => "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.".to_owned(),
        _ => "ModuleNotFoundError: No module named 'flash_attn'".to_owned(),
    };
    let mut log = String::with_capacity(LOG_BYTES + 512);
    let mut step = nth;
    while log.len() < LOG_BYTES {
        step += 1;
        log.push_str(&format!(
            "[rank0]: step {step} loss 0.{:06} lr 3.0e-4 tokens/s {}\n",
            step * 7 % 999_983,
            step % 4099
        ));
    }
    log.push_str("Traceback (most recent call last):\n  File \"/src/train.py\", line 41, in <module>\n    main()\n");
    log.push_str(&error);
    log.push('\n');
    log
}
