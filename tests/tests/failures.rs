//! Many failures at once, each judged rightly.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_tests::home;
use serde_json::Value;

use crate::stage::{Job, LIMIT, Stage, status};

/// Failures if `MUSTER_FAILURES` does not say how many.
const FAILURES: u32 = 100;
/// Tasks of one job.
const INSTANCES: u32 = 20;
/// For each failure; many run at once.
const LIMIT_EACH: Duration = Duration::from_millis(500);
/// What the shipped rules call a syntax error.
const SYNTAX_ERROR: i64 = 231;

/// The rules in force with one more, which knows what [`FLUX`] prints.
fn with_a_rule(rules: &str) -> String {
    let rule = "{code: 217, phrase: FluxIsLow, behavior: TRANSIENT, \
                pattern: {runtimeContainerPatterns: [{userLogRegex: 'flux \\d+ is low'}]}}";
    rules.replacen("\nspec:\n", &format!("\nspec:\n- {rule}\n"), 1)
}

/// Fails with a text that no rule knows, and prints a secret of its job.
const FLUX: &str = "echo login with '<% $secrets.key %>'; echo flux 7 is low >&2; exit 9";
const SECRET: &str = "the-secret-9f3b7c52";

/// What `muster rules test` says of rules, once so many failures are kept.
async fn tested(stage: &Stage, rules: &str, failures: u64) -> Result<(i32, Value)> {
    let file = stage.home.path().join("new.yaml");
    std::fs::write(&file, rules)?;
    let file = file.to_string_lossy();
    let start = std::time::Instant::now();
    loop {
        let output = stage.home.muster(&["rules", "test", &file, "-o", "json"])?;
        let error = String::from_utf8_lossy(&output.stderr);
        let test: Value = serde_json::from_slice(&output.stdout).context(error.into_owned())?;
        if test["tried"] == failures {
            return Ok((output.status.code().context("no status")?, test));
        }
        ensure!(start.elapsed() < LIMIT, "{test:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_new_rules_are_tested_on_failures_of_before() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let secrets = format!("secrets: {{key: '{SECRET}'}}");
    let fails = |name| Job {
        extra: &secrets,
        ..Job::new(name, FLUX)
    };
    let detail = stage.ends(&fails("flux")).await?;
    assert_eq!(status(&detail).1, 255, "{detail:#}");
    let known = Job::new("syntax", "echo 'SyntaxError: invalid syntax' >&2; exit 1");
    stage.ends(&known).await?;
    stage.ends(&Job::new("fine", "true")).await?;

    let shown = stage.home.muster(&["rules", "show"])?;
    let shown = String::from_utf8(shown.stdout)?;
    let (code, same) = tested(&stage, &shown, 2).await?;
    assert_eq!((code, &same["changed"]), (0, &0.into()), "{same:#}");
    assert_eq!(same["signatures"][0]["text"], "flux N is low", "{same:#}");

    let new = with_a_rule(&shown);
    let (code, test) = tested(&stage, &new, 2).await?;
    assert_eq!((code, &test["changed"]), (1, &1.into()), "{test:#}");
    let change = &test["changes"][0];
    assert_eq!(
        (&change["before"]["code"], &change["after"]["code"]),
        (&255.into(), &217.into()),
        "{test:#}"
    );
    let example = &change["examples"][0];
    assert_eq!(example["job"], "admin~flux", "{test:#}");
    assert_eq!(example["task"], "main:0", "{test:#}");
    assert_eq!(example["line"], "flux 7 is low", "{test:#}");
    assert_eq!(test["unheard"], Value::Array(Vec::new()), "{test:#}");
    no_secret(&stage)?;

    // The secrets of a task that an earlier life of the agent started are known as well.
    let commands = format!("sleep 3; {FLUX}");
    let later = Job {
        extra: &secrets,
        ..Job::new("later", &commands)
    };
    stage.runs(&later).await?;
    stage.crash().await?;
    stage.waits("later").await?;
    let (_, test) = tested(&stage, &new, 3).await?;
    assert_eq!(test["changes"][0]["count"], 2, "{test:#}");
    no_secret(&stage)
}

/// Checks that what is kept of failures has no secret in it, and has what was printed beside it.
fn no_secret(stage: &Stage) -> Result<()> {
    for file in std::fs::read_dir(stage.home.path().join("state/failures"))? {
        let kept = std::process::Command::new("zcat")
            .arg(file?.path())
            .output()?;
        let text = String::from_utf8_lossy(&kept.stdout);
        ensure!(!text.contains(SECRET), "{text}");
        let is_flux = text.contains("flux 7 is low");
        assert_eq!(is_flux, text.contains("login with ***"), "{text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_instant_failures_are_all_judged_rightly() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let failures = match std::env::var("MUSTER_FAILURES") {
        Ok(text) => text.parse().context("MUSTER_FAILURES")?,
        Err(_) => FAILURES,
    };
    let stage = Stage::new().await?;
    let names: Vec<String> = (0..failures / INSTANCES)
        .map(|i| format!("fails{i}"))
        .collect();
    for name in &names {
        let job = Job {
            instances: INSTANCES,
            role: "completion: {minFailedInstances: -1, minSucceededInstances: -1}",
            ..Job::new(name, "echo 'SyntaxError: invalid syntax' >&2; exit 1")
        };
        stage.client.submit(&job.yaml()).await?;
    }
    for name in &names {
        let limit = LIMIT_EACH * failures;
        let detail = stage
            .client
            .wait_final(&format!("admin~{name}"), limit)
            .await?;
        let tasks = detail["taskRoles"]["main"]["taskStatuses"].as_array();
        let codes: Vec<_> = tasks
            .into_iter()
            .flatten()
            .map(|task| task["containerExitCode"].as_i64())
            .collect();
        let expect = vec![Some(SYNTAX_ERROR); INSTANCES as usize];
        assert_eq!(codes, expect, "{name}: {:?}", status(&detail));
        assert_eq!(detail["jobStatus"]["retries"], 0, "{name}");
    }
    let logs = stage.outputs("stderr")?;
    assert_eq!(logs.len(), names.len() * INSTANCES as usize);
    for log in logs {
        assert_eq!(log, "SyntaxError: invalid syntax\n");
    }
    Ok(())
}
