//! Bodies of `POST jobs` that are made of job files by a seeded generator. `muster-fuzz` tries a million.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::net::{Lan, missing};
use muster_tests::submissions::{InputVerdict, SeedJobs, Submissions, input, judge};
use serde_json::Value;

const SEED: u64 = 1;
/// How many are judged by the code alone, and by an agent.
const INPUTS: u64 = 3_000;
const INPUTS_OF_AGENT: u64 = 300;
/// Code without optimisation takes many times as long.
const TIME_MAX: Duration = Duration::from_secs(4);
const JOBS: &str = "/api/v2/jobs";

#[test]
fn inputs_break_no_rule() -> Result<()> {
    let submissions = Submissions {
        seed: SEED,
        from: 0,
        inputs: INPUTS,
        time_max: TIME_MAX,
        threads: 2,
    };
    let report = submissions.run(&SeedJobs::own()?)?;
    ensure!(report.violated == 0, "{:#?}", report.violations);
    // Or the generator makes nothing that gets far.
    let shares = [report.accepted, report.refused, report.not_text];
    ensure!(
        shares.iter().all(|share| *share > INPUTS / 100),
        "{shares:?}"
    );
    ensure!(report.sentences > 50, "{}", report.sentences);
    Ok(())
}

#[test]
fn an_input_can_be_made_again() -> Result<()> {
    let seeds = SeedJobs::own()?;
    for number in 0..50 {
        ensure!(input(&seeds, SEED, number) == input(&seeds, SEED, number));
    }
    ensure!(input(&seeds, SEED, 1) != input(&seeds, SEED + 1, 1));
    Ok(())
}

/// What an agent answers to a body.
async fn posted(client: &Client, body: Vec<u8>) -> Result<(StatusCode, Value)> {
    let answer = client
        .respond(Method::POST, JOBS, "text/yaml", body)
        .await?;
    let status = answer.status();
    let body: Value = serde_json::from_str(answer.body()).context(status)?;
    Ok((status, body))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_answers_every_input() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(1)?;
    lan.start()?;
    let client = lan.node(1).client().await?;
    let seeds = SeedJobs::own()?;
    let mut taken = 0;
    for number in 0..INPUTS_OF_AGENT {
        let body = input(&seeds, SEED, number);
        let verdict = judge(&body).verdict;
        let (status, answer) = posted(&client, body).await?;
        let what = format!("input {number}, {verdict:?}: {status} {answer}");
        ensure!(answer["message"].is_string(), "{what}");
        match verdict {
            // The cluster may refuse it: for its name, its virtual cluster, its devices, its storages.
            InputVerdict::Accepted => {
                let statuses = [202, 400, 403, 404, 409];
                ensure!(statuses.contains(&status.as_u16()), "{what}");
            }
            InputVerdict::Refused | InputVerdict::NotText => {
                ensure!(status == StatusCode::BAD_REQUEST, "{what}");
                ensure!(answer["code"] == "InvalidProtocolError", "{what}");
                let errors = answer["errors"].as_array().context(what.clone())?;
                ensure!(!errors.is_empty(), "{what}");
            }
        }
        if status != StatusCode::ACCEPTED {
            ensure!(answer["code"].is_string(), "{what}");
        }
        taken += u32::from(status == StatusCode::ACCEPTED);
    }
    // Most have the name of one that was taken before.
    ensure!(taken > 0, "none was taken");
    Ok(())
}
