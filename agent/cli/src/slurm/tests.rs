//! Whole look-alikes against an agent of canned answers.

use muster_model::state::SubState;
use serde_json::{Value, json};

use super::*;
use crate::api::PAGE;
use crate::stub::{AgentStub, StubAnswer, TextFile, summary};
use crate::tests::detail;

fn listing(query: &str, jobs: &[&str], sub_state: SubState) -> (String, StubAnswer) {
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|key| {
            let code = (sub_state == SubState::Completed).then_some(0);
            let summary = summary(key, sub_state, code);
            let mut value = serde_json::to_value(&summary).unwrap();
            value["state"] = json!(summary.state());
            value
        })
        .collect();
    let line = format!("GET /api/muster/v1/jobs?limit={PAGE}&offset=0{query}");
    (line, StubAnswer::json(jobs))
}

fn with_jobs(stub: &AgentStub, query: &str, jobs: &[&str], sub_state: SubState) {
    let (line, answer) = listing(query, jobs, sub_state);
    stub.answer(&line, [answer]);
}

fn accepted() -> StubAnswer {
    StubAnswer::json(json!({
        "status": 202,
        "message": "Update job train-123456789 for user ada successfully.",
    }))
}

static AMOUNT: std::sync::LazyLock<Value> =
    std::sync::LazyLock::new(|| json!({ "cpu": 8, "memory_mb": 1, "gpu": 2 }));

/// `muster slurm WORDS`
async fn slurm(stub: &AgentStub, words: &[&str]) -> (CliStatus, String, String) {
    let words: Vec<&str> = ["slurm"].into_iter().chain(words.iter().copied()).collect();
    stub.muster(&words).await
}

const SCRIPT: &str = "#!/bin/bash
#SBATCH --job-name=train --container-image=img
#SBATCH --output=%x.out
#SBATCH --gres=gpu:1 --mem=1G
python train.py
";

#[test]
fn a_link_stands_for_a_command() {
    let words = |words: &[&str]| -> Vec<OsString> { words.iter().map(OsString::from).collect() };
    assert_eq!(
        alias(&words(&["/home/ada/bin/squeue", "--socket", "-h"])),
        Some(words(&[
            "muster", "slurm", "squeue", "--", "--socket", "-h"
        ]))
    );
    for program in ["muster", "/usr/bin/muster", "squeue.sh", ""] {
        assert_eq!(alias(&words(&[program, "-h"])), None);
    }
    assert_eq!(alias(&[]), None);
}

#[tokio::test]
async fn sbatch_says_the_number_that_the_name_ends_with() {
    let stub = AgentStub::start();
    let taken = StubAnswer::refusal(409, "ConflictJobError", "it exists");
    stub.answer("POST /api/v2/jobs", [taken, accepted()]);
    let file = TextFile::of(SCRIPT);
    let (status, out, err) = slurm(&stub, &["sbatch", file.path(), "--lr", "1"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let number = out.strip_prefix("Submitted batch job ").unwrap().trim();
    let asked = stub.asked();
    let names: Vec<Value> = asked
        .iter()
        .map(|it| serde_json::from_str::<Value>(&it.body).unwrap()["name"].clone())
        .collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1]);
    assert_eq!(names[1], format!("train-{number}"));
    assert!(
        asked[1].body.contains("slurm_script\\\" --lr 1"),
        "{}",
        asked[1].body
    );
    let warning = format!(
        "muster: warning: line 3 of the script: --output: no file is written: `muster job logs \
         train-{number}` shows what the job writes\n"
    );
    assert_eq!(err, warning);

    let (_, out, err) = slurm(&stub, &["sbatch", "-Q", "--parsable", file.path()]).await;
    assert!(out.trim().parse::<u32>().is_ok(), "{out}");
    assert_eq!(err, "");
    // Options of the muster command line are none of sbatch behind `--`.
    let (status, _, err) = slurm(&stub, &["sbatch", "--", "--url", "x"]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(err.contains("--url is no option here"), "{err}");
}

#[tokio::test]
async fn sbatch_submits_nothing_that_it_does_not_understand() {
    let stub = AgentStub::start();
    for (script, words, expect) in [
        ("id\n", &[][..], "the script does not say what runs it"),
        (
            "#!/bin/sh\n#SBATCH --gress=gpu:1\n",
            &[],
            "line 2 of the script: --gress is no option here; the nearest one is --gres",
        ),
        (
            "#!/bin/sh\n#SBATCH -t 1:0 extra\n",
            &[],
            "line 2 of the script: \"extra\" is no option",
        ),
        (
            "#!/bin/sh\n",
            &["--dependency=afterok:1"],
            "--dependency is not supported: submit the first with --wait",
        ),
        (
            "#!/bin/sh\n",
            &["--array=0-9%2"],
            "--array: %2 limits how many tasks run at once",
        ),
        (
            "#!/bin/sh\n",
            &["--wrap", "id"],
            "--wrap takes the place of a script",
        ),
    ] {
        let file = TextFile::of(script);
        let mut all = vec!["sbatch", "--image", "img"];
        all.extend(words);
        all.push(file.path());
        let (status, out, err) = slurm(&stub, &all).await;
        assert_eq!((status, out.as_str()), (CliStatus::Usage, ""), "{err}");
        assert!(err.contains(expect), "{err}");
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn sbatch_waits_and_exits_as_the_job_does() {
    let stub = AgentStub::start();
    stub.answer("POST /api/v2/jobs", [accepted()]);
    let ended = detail("ada~train-123456789", SubState::Completed, Some(3), 0, 1);
    stub.answer(
        "GET /api/muster/v1/jobs/ada~train-123456789",
        [StubAnswer::json(&ended)],
    );
    let words = ["sbatch", "-W", "--image", "img", "--wrap", "exit 3"];
    let (status, out, _) = slurm(&stub, &words).await;
    assert_eq!(status, CliStatus::Task(3));
    assert!(out.starts_with("Submitted batch job "), "{out}");
}

#[tokio::test]
async fn sbatch_checks_a_job_without_submitting_it() {
    let stub = AgentStub::start();
    let vc = muster_model::vc::VcView::new("default".parse().unwrap());
    stub.answer(
        "GET /api/muster/v1/virtual-clusters",
        [StubAnswer::json([vc])],
    );
    let words = |partition: &'static str| {
        [
            "sbatch",
            "--test-only",
            "-p",
            partition,
            "--image",
            "img",
            "-a",
            "1-3",
            "--wrap",
            "id",
        ]
    };
    let (status, out, _) = slurm(&stub, &words("default")).await;
    assert_eq!(status, CliStatus::Ok);
    assert!(
        out.contains("3 tasks of an array, each of 1 cores"),
        "{out}"
    );
    let (status, _, err) = slurm(&stub, &words("nosuch")).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(
        err.contains("no virtual cluster is called \"nosuch\""),
        "{err}"
    );
    let posted = stub.asked().iter().any(|it| it.line.starts_with("POST"));
    assert!(!posted);
}

#[tokio::test]
async fn a_type_of_gpu_gets_the_name_that_the_cluster_has() {
    let stub = AgentStub::start();
    let device =
        |model: &str| json!({ "index": 0, "model": model, "fault": null, "is_used": false });
    let nodes = json!([{
        "id": "n1",
        "has": {
            "share": { "total": *AMOUNT, "healthy": *AMOUNT, "free": *AMOUNT },
            "devices": [device("Tesla V100-SXM2-16GB"), device("NVIDIA A100")],
            "levels": [],
            "silent_ms": 0,
        },
        "closed": [],
    }]);
    stub.answer("GET /api/muster/v1/nodes", [StubAnswer::json(nodes)]);
    stub.answer(
        "GET /api/muster/v1/virtual-clusters",
        [StubAnswer::text("[]")],
    );
    stub.answer("POST /api/v2/jobs", [accepted()]);
    let words = [
        "sbatch",
        "--image",
        "img",
        "--gres=gpu:v100:2",
        "--wrap",
        "id",
    ];
    let (status, _, err) = slurm(&stub, &words).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let body = stub.asked().pop().unwrap().body;
    assert!(
        body.contains("\"skuType\": \"Tesla-V100-SXM2-16GB\""),
        "{body}"
    );
}

#[tokio::test]
async fn scancel_stops_what_is_meant_and_nothing_else() {
    let stub = AgentStub::start();
    let jobs = [
        "admin~train-123456789",
        "bob~train-123456789",
        "bob~eval-123456780",
        "admin~plain",
        "admin~plain-123456781",
    ];
    with_jobs(&stub, "", &jobs, SubState::AttemptRunning);
    for key in jobs {
        let line = format!("PUT /api/v2/jobs/{key}/executionType");
        stub.answer(&line, [StubAnswer::text("{}")]);
    }
    let stopped = |stub: &AgentStub| {
        let lines = stub.asked().into_iter().map(|it| it.line);
        let lines = lines.filter(|line| line.starts_with("PUT"));
        lines.collect::<Vec<_>>()
    };
    // Mine before another's with the same number.
    let (status, ..) = slurm(&stub, &["scancel", "123456789"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert_eq!(
        stopped(&stub),
        ["PUT /api/v2/jobs/admin~train-123456789/executionType"]
    );
    let (status, ..) = slurm(&stub, &["scancel", "123456780"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert_eq!(stopped(&stub).len(), 2);
    for (words, expect) in [
        (
            &["scancel", "plain"][..],
            "plain may be admin~plain, admin~plain-123456781",
        ),
        (&["scancel", "111111111"], "no such job: 111111111"),
        (&["scancel"], "no job is named"),
        (
            &["scancel", "-s", "USR1", "123456789"],
            "no other signal can be sent",
        ),
    ] {
        let (status, _, err) = slurm(&stub, words).await;
        assert_eq!(status, CliStatus::Usage, "{err}");
        assert!(err.contains(expect), "{err}");
    }
    assert_eq!(stopped(&stub).len(), 2);
    let mine = "&username=admin&state=WAITING,RUNNING,STOPPING";
    with_jobs(&stub, mine, &["admin~plain"], SubState::AttemptRunning);
    let (status, ..) = slurm(&stub, &["scancel", "-n", "plain"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert_eq!(
        stopped(&stub).last().unwrap(),
        "PUT /api/v2/jobs/admin~plain/executionType"
    );
}

#[tokio::test]
async fn scancel_says_that_a_job_has_ended() {
    let stub = AgentStub::start();
    let ended = summary("admin~train-123456789", SubState::Completed, Some(0));
    let mut value = serde_json::to_value(&ended).unwrap();
    value["state"] = json!(ended.state());
    let (line, _) = listing("", &[], SubState::Completed);
    stub.answer(&line, [StubAnswer::json([value])]);
    let (status, _, err) = slurm(&stub, &["scancel", "123456789"]).await;
    assert_eq!(status, CliStatus::Negative);
    assert_eq!(err, "muster: 123456789 has ended already: SUCCEEDED\n");
}

#[tokio::test]
async fn squeue_shows_what_is_active_and_where() {
    let stub = AgentStub::start();
    let active = "&state=WAITING,RUNNING,STOPPING";
    with_jobs(
        &stub,
        active,
        &["ada~train-123456789"],
        SubState::AttemptRunning,
    );
    let running = detail("ada~train-123456789", SubState::AttemptRunning, None, 0, 2);
    stub.answer(
        "GET /api/muster/v1/jobs/ada~train-123456789",
        [StubAnswer::json(&running)],
    );
    let (status, out, err) = slurm(&stub, &["squeue", "-h", "-o", "%i %j %t %D %R"]).await;
    assert_eq!(
        (status, out.as_str(), err.as_str()),
        (CliStatus::Ok, "123456789 train R 2 n1\n", "")
    );
    let (_, out, _) = slurm(&stub, &["squeue", "--json"]).await;
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["jobs"][0]["job_id"], 123_456_789);
    assert_eq!(value["jobs"][0]["nodes"], "n1");
    for (words, expect) in [
        (&["squeue", "-t", "TO"][..], "no job is ever TO here"),
        (
            &["squeue", "-O", "x"],
            "--Format) is not supported: give --format",
        ),
        (&["squeue", "12"], "jobs are named with -j"),
        (&["squeue", "-j", "12"], "nine digits"),
    ] {
        let (status, _, err) = slurm(&stub, words).await;
        assert_eq!(status, CliStatus::Usage);
        assert!(err.contains(expect), "{err}");
    }
}

/// `while squeue -h -j $job | grep -q .; do sleep 5; done` waits for the end of a job.
#[tokio::test]
async fn squeue_shows_a_job_no_longer_when_it_has_ended() {
    let stub = AgentStub::start();
    with_jobs(&stub, "", &["ada~train-123456789"], SubState::Completed);
    let (status, out, err) = slurm(&stub, &["squeue", "-h", "-j", "123456789"]).await;
    assert_eq!((status, out.as_str()), (CliStatus::Ok, ""));
    assert!(err.contains("123456789 has ended: "), "{err}");
    let (status, _, err) = slurm(&stub, &["squeue", "-h", "-j", "123456788"]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(err.contains("no such job"), "{err}");
    let all = "&state=WAITING,RUNNING,STOPPING,SUCCEEDED,STOPPED,FAILED";
    with_jobs(&stub, all, &["ada~train-123456789"], SubState::Completed);
    let words = ["squeue", "-h", "-t", "all", "-j", "123456789", "-o", "%i"];
    let (_, out, _) = slurm(&stub, &words).await;
    assert_eq!(out, "123456789\n");
}

#[tokio::test]
async fn sacct_lists_what_has_ended_too() {
    let stub = AgentStub::start();
    // They ended in 1970.
    with_jobs(
        &stub,
        "",
        &["ada~train-123456789", "bob~x"],
        SubState::Completed,
    );
    with_jobs(
        &stub,
        "&username=ada",
        &["ada~train-123456789"],
        SubState::Completed,
    );
    with_jobs(&stub, "&username=admin", &[], SubState::Completed);
    let failed = "&username=ada&state=FAILED";
    with_jobs(&stub, failed, &["ada~train-123456789"], SubState::Completed);
    let ended = detail("ada~train-123456789", SubState::Completed, Some(0), 0, 2);
    stub.answer(
        "GET /api/muster/v1/jobs/ada~train-123456789",
        [StubAnswer::json(&ended)],
    );
    let sacct = async |words: &[&str]| slurm(&stub, &[&["sacct"][..], words].concat()).await;
    let fields = ["-n", "-P", "-o", "JobID,State,ExitCode,NodeList"];
    let of_number = [&fields[..], &["-j", "123456789"]].concat();
    let (status, out, err) = sacct(&of_number).await;
    let row = "123456789|COMPLETED|0:0|n1\n";
    assert_eq!(
        (status, out.as_str(), err.as_str()),
        (CliStatus::Ok, row, "")
    );
    let of_user = ["-b", "-n", "-p", "-u", "ada", "-S", "1970-01-01"];
    assert_eq!(sacct(&of_user).await.1, "123456789|COMPLETED|0:0|\n");
    assert_eq!(sacct(&["-n", "-u", "ada"]).await.1, "", "none of today");
    let all = [
        "-a",
        "-X",
        "-n",
        "-S",
        "1970-01-01",
        "-E",
        "now",
        "-o",
        "JobID",
    ];
    assert_eq!(sacct(&all).await.1, "123456789\nbob~x\n");
    assert_eq!(sacct(&["-n", "-S", "1970-01-01"]).await.1, "", "mine");
    // No job is in the state that it was asked for: the agent's filter is no promise.
    let failed = ["-n", "-u", "ada", "-s", "F", "-S", "1970-01-01"];
    assert_eq!(sacct(&failed).await.1, "");
    let (_, out, err) = sacct(&["-j", "123456780", "-b"]).await;
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(err.contains("no such job"), "{err}");
    assert!(sacct(&["-e"]).await.1.contains("AllocTRES\n"));
}

#[tokio::test]
async fn sacct_refuses_what_it_cannot_answer() {
    let stub = AgentStub::start();
    for (words, expect) in [
        (
            &["-o", "JobID,MaxRSS"][..],
            "no field MaxRSS here; there are JobID, JobIDRaw",
        ),
        (&["-s", "TO"], "--state: no job is ever TO here"),
        (
            &["-j", "123456789.batch"],
            "there are no steps such as batch",
        ),
        (&["-j", "12"], "nine digits"),
        (
            &["-S", "11/20/26"],
            "--starttime: \"11/20/26\" is no time here",
        ),
        (
            &["-E", "2026-01-01"],
            "--endtime (2026-01-01T00:00:00) is before --starttime",
        ),
        (&["-l"], "--helpformat lists them"),
        (&["--json"], "muster history -o json"),
        (&["--wckeys"], "--wckeys is no option here"),
        (&["-Z"], "-Z is no option here"),
        (&["123456789"], "jobs are named with -j"),
    ] {
        let (status, _, err) = slurm(&stub, &[&["sacct"][..], words].concat()).await;
        assert_eq!(status, CliStatus::Usage, "{words:?}");
        assert!(err.contains(expect), "{words:?}: {err}");
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn every_look_alike_says_what_it_can_and_cannot() {
    let stub = AgentStub::start();
    for name in NAMES {
        let (status, out, _) = slurm(&stub, &[name, "--help"]).await;
        assert_eq!(status, CliStatus::Ok);
        for heading in [
            &format!("Usage: {name} ")[..],
            "Options:\n",
            "Refused, with",
            "Examples:",
        ] {
            assert!(out.contains(heading), "{name}: {out}");
        }
    }
}
