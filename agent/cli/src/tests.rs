//! Whole commands against an agent of canned answers.

use clap::CommandFactory;
use muster_model::exit::{ExitSpec, Verdict};
use muster_model::id::{JobKey, TaskId};
use muster_model::state::SubState;
use muster_model::vc::WhatIf;
use muster_model::view::{
    AttemptView, JobDetail, JobSummary, Retries, RoleView, TaskAttemptView, TaskView,
};
use serde_json::json;

use super::Cli;
use super::status::CliStatus;
use super::stub::{AgentStub, StubAnswer, TextFile, summary};

fn verdict(code: i32) -> Verdict {
    Verdict {
        spec: ExitSpec {
            code,
            phrase: "Failed".into(),
            ..ExitSpec::default()
        },
        container_exit_code: Some(code),
        origin_exit_code: Some(code),
        signal: None,
        matched_user_log: None,
        matched_platform_log: None,
        user_log: String::new(),
        platform_log: String::new(),
        device_events: Vec::new(),
        used: None,
        judged: None,
        progress: None,
        diagnostics: "It failed.".into(),
    }
}

/// A job at an attempt, all of its `tasks` in one state.
pub(super) fn detail(
    key: &str,
    sub: SubState,
    code: Option<i32>,
    attempt: u32,
    tasks: u32,
) -> JobDetail {
    let mut summary = summary(key, sub, code);
    summary.tasks = tasks;
    let verdict = code.map(verdict);
    let task = |index| TaskView {
        id: TaskId {
            role: "main".parse().unwrap(),
            index,
        },
        uid: format!("t{index}"),
        by_cells: false,
        ssh: None,
        sub_state: sub,
        retries: Retries::default(),
        created: Some(2_000),
        launched: Some(10_000),
        completed: summary.completed,
        attempts: vec![TaskAttemptView {
            on_hold: None,
            id: 0,
            uid: Some(format!("u{attempt}-{index}").parse().unwrap()),
            sub_state: sub,
            created: Some(2_000),
            launched: Some(10_000),
            completed: summary.completed,
            node: Some("n1".parse().unwrap()),
            address: Some("10.0.0.1".into()),
            ports: Vec::new(),
            devices: Vec::new(),
            verdict: verdict.clone(),
        }],
    };
    JobDetail {
        attempt: Some(AttemptView {
            id: attempt,
            uid: None,
            sub_state: sub,
            created: Some(2_000),
            launched: Some(10_000),
            completed: summary.completed,
            verdict: verdict.clone(),
            trigger: None,
        }),
        partition: None,
        run_limit: None,
        warnings: Vec::new(),
        roles: vec![RoleView {
            name: "main".into(),
            tasks: (0..tasks).map(task).collect(),
        }],
        summary,
    }
}

pub(super) fn job_line(key: &str) -> String {
    format!("GET /api/muster/v1/jobs/{key}")
}

pub(super) fn log_line(key: &str, attempt: u32, index: u32, query: &str) -> String {
    format!("GET /api/muster/v1/jobs/{key}/attempts/{attempt}/tasks/main/{index}/0/logs/{query}")
}

const ACCEPTED: &str = "Update job train for user ada successfully.";

#[test]
fn the_command_line_is_well_formed_and_every_command_has_examples() {
    let mut cli = Cli::command();
    cli.clone().debug_assert();
    fn check(command: &mut clap::Command, path: &str) {
        if command.has_subcommands() {
            for command in command.get_subcommands_mut() {
                let path = format!("{path} {}", command.get_name());
                check(command, &path);
            }
        } else {
            let help = command.render_long_help().to_string();
            assert!(
                help.contains(&format!("Examples:\n  {path}")),
                "{path}\n{help}"
            );
        }
    }
    check(&mut cli, "muster");
    assert!(cli.render_long_help().to_string().contains("Exit codes:"));
}

#[tokio::test]
async fn submit_names_the_job_and_its_user() {
    let stub = AgentStub::start();
    let warnings = json!([{"path": ".extras.x", "message": "This key has no effect."}]);
    stub.answer(
        "POST /api/v2/jobs",
        [
            StubAnswer::json(json!({"status": 202, "message": ACCEPTED})),
            StubAnswer::json(json!({"status": 202, "message": ACCEPTED, "warnings": warnings})),
        ],
    );
    let file = TextFile::of("name: train\n");
    let path = file.path();
    let (status, out, err) = stub.muster(&["job", "submit", path, "--user", "ada"]).await;
    assert_eq!(
        (status, out.as_str(), err.as_str()),
        (CliStatus::Ok, "ada~train\n", "")
    );
    let (_, out, err) = stub.muster(&["job", "submit", path]).await;
    assert_eq!(out, "ada~train\n");
    assert_eq!(err, "muster: warning: .extras.x: This key has no effect.\n");
    let asked = &stub.asked()[0];
    assert_eq!(asked.body, "name: train\n");
    assert_eq!(asked.headers["x-muster-user"], "ada");
    assert_eq!(asked.headers["content-type"], "text/yaml");
}

#[tokio::test]
async fn a_dry_run_tells_what_would_become_of_the_job_and_submits_nothing() {
    let stub = AgentStub::start();
    let route = "POST /api/muster/v1/jobs/what-if";
    let told = |outcome: &str| {
        StubAnswer::json(json!({
            "key": {"user": "ada", "name": "train"}, "vc": "default", "outcome": outcome,
            "reason": "needs 8 devices; 4 are free", "takes": {"cpu": 1, "memory_mb": 64, "gpu": 8},
            "tasks": 1, "placed": 0, "places": [], "nodes": 0, "victims": [], "ahead": 1, "gangs": [],
            "waiting": 1, "warnings": [],
        }))
    };
    stub.answer(route, [told("waits"), told("starts")]);
    let file = TextFile::of("name: train\n");
    let dry = ["job", "submit", file.path(), "--dry-run"];
    let (status, out, _) = stub.muster(&dry).await;
    assert_eq!(status, CliStatus::Negative);
    let wants = "It would wait: it needs 8 devices; 4 are free.\n  1 waiting job comes before it.";
    assert!(out.contains(wants), "{out}");
    let as_json = [dry.as_slice(), &["-o", "json"]].concat();
    let (status, out, _) = stub.muster(&as_json).await;
    assert_eq!(status, CliStatus::Ok);
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["outcome"], "starts");
    assert!(stub.asked().iter().all(|asked| asked.line == route));
}

#[tokio::test]
async fn refusals_say_what_failed_and_what_to_do() {
    let stub = AgentStub::start();
    let ajv = r#"[{"keyword":"type","dataPath":".name","message":"should be string"}]"#;
    let told = json!({"code": "InvalidProtocolError", "message": ajv,
        "errors": [{"path": ".name", "message": "should be text, not 5"}]});
    let told = StubAnswer {
        status: 400,
        ..StubAnswer::json(told)
    };
    stub.answer(
        "POST /api/v2/jobs",
        [StubAnswer::refusal(400, "InvalidProtocolError", ajv), told],
    );
    let missing = StubAnswer::refusal(404, "NoJobError", "Job admin~x is not found.");
    stub.answer(&job_line("admin~x"), [missing]);
    stub.answer(
        "GET /api/muster/v1/images",
        [StubAnswer {
            status: 502,
            ..StubAnswer::text("bad\u{1b}[2J gate\n")
        }],
    );
    stub.answer("GET /api/muster/v1/node", [StubAnswer::text("[]")]);
    let file = TextFile::of("");
    let path = file.path();
    for (arguments, expect) in [
        (
            vec!["job", "submit", path],
            "error: cannot submit the job: \n  .name should be string\n  \
             hint: check it with `muster job validate FILE`\n",
        ),
        (
            vec!["job", "submit", path],
            "error: cannot submit the job: \n  .name: should be text, not 5\n  \
             hint: check it with `muster job validate FILE`\n",
        ),
        (
            vec!["job", "show", "x"],
            "error: cannot show admin~x: Job admin~x is not found.\n  \
             hint: `muster job list` shows every job; write JOB as user~name\n",
        ),
        (
            vec!["image", "list"],
            "error: cannot list images: bad gate\n",
        ),
        (
            vec!["node", "show"],
            "error: cannot show the node: the agent's answer is not understood: invalid length 0, \
             expected struct NodeView with 14 elements at line 1 column 2\n  \
             hint: compare `muster --version` here and where the agent runs\n",
        ),
    ] {
        let (status, out, err) = stub.muster(&arguments).await;
        assert_eq!(
            (status, out.as_str(), err.as_str()),
            (CliStatus::Refused, "", expect)
        );
    }
}

#[tokio::test]
async fn without_an_agent_it_says_how_to_start_one() {
    let stub = AgentStub::start();
    std::fs::remove_file(stub.socket()).unwrap();
    let (status, out, err) = stub.muster(&["node", "show"]).await;
    assert_eq!((status, out.as_str()), (CliStatus::Unreachable, ""));
    assert!(err.starts_with("error: no agent answers at /"), "{err}");
    assert!(
        err.contains("hint: start it with") && err.contains("--socket"),
        "{err}"
    );
}

#[tokio::test]
async fn listings_are_filtered_and_have_json() {
    let stub = AgentStub::start();
    let ended = summary("ada~b", SubState::Completed, Some(0));
    let mut job = serde_json::to_value(&ended).unwrap();
    job["state"] = json!(ended.state());
    let route = "GET /api/muster/v1/jobs?limit=2000&offset=0&username=ada&state=SUCCEEDED,FAILED";
    stub.answer(route, [StubAnswer::json([job])]);
    let arguments = [
        "job",
        "list",
        "--user",
        "ada",
        "--state",
        "succeeded,failed",
        "-o",
        "json",
    ];
    let (status, out, _) = stub.muster(&arguments).await;
    assert_eq!(status, CliStatus::Ok);
    let listed: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(listed[0]["key"], json!({"user": "ada", "name": "b"}));
    assert_eq!(
        (&listed[0]["state"], listed.as_array().unwrap().len()),
        (&json!("SUCCEEDED"), 1)
    );

    let images = json!([{"name": "b", "digest": "sha256:0", "size_bytes": 3},
                        {"name": "a", "digest": "sha256:1", "size_bytes": 4096}]);
    stub.answer("GET /api/muster/v1/images", [StubAnswer::json(images)]);
    let (_, out, _) = stub.muster(&["image", "list", "-o", "json"]).await;
    let listed: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        listed[0],
        json!({"name": "a", "digest": "sha256:1", "size_bytes": 4096})
    );
    let (_, out, _) = stub.muster(&["image", "list"]).await;
    assert_eq!(
        out,
        "NAME  DIGEST    SIZE\na     sha256:1  4.00 KiB\nb     sha256:0  3 B\n"
    );
    let (_, out, _) = stub.muster(&["image", "list", "-o", "yaml"]).await;
    assert!(out.starts_with("- name: a\n"), "{out}");
}

#[tokio::test]
async fn wait_says_how_the_job_ended() {
    let stub = AgentStub::start();
    let running = detail("ada~j", SubState::AttemptRunning, None, 0, 1);
    for (key, code) in [("ada~good", 0), ("ada~bad", 7), ("ada~gone", -210)] {
        let ended = detail(key, SubState::Completed, Some(code), 0, 1);
        let settle = format!("{}/wait?timeout_ms=20000", job_line(key));
        stub.answer(
            &job_line(key),
            [StubAnswer::json(&running), StubAnswer::json(&ended)],
        );
        stub.answer(&settle, [StubAnswer::text("{}")]);
    }
    stub.answer(&job_line("ada~slow"), [StubAnswer::json(&running)]);
    for (arguments, status, out) in [
        (vec!["good"], CliStatus::Ok, "ada~good  SUCCEEDED\n"),
        (
            vec!["bad"],
            CliStatus::Negative,
            "ada~bad  FAILED  exit code 7\n",
        ),
        (vec!["gone"], CliStatus::Negative, "ada~gone  STOPPED\n"),
        (vec!["slow", "--timeout", "10ms"], CliStatus::TimedOut, ""),
    ] {
        let arguments: Vec<&str> = ["job", "wait", "--user", "ada"]
            .into_iter()
            .chain(arguments)
            .collect();
        let (got, printed, err) = stub.muster(&arguments).await;
        assert_eq!(
            (got, printed.as_str()),
            (status, out),
            "{arguments:?} {err}"
        );
    }
}

#[tokio::test]
async fn run_is_like_running_it_here() {
    for (code, expect) in [
        (Some(0), CliStatus::Ok),
        (Some(42), CliStatus::Task(42)),
        (Some(-210), CliStatus::Negative),
    ] {
        let stub = AgentStub::start();
        let accepted =
            json!({"status": 202, "message": "Update job r for user admin successfully."});
        stub.answer("POST /api/v2/jobs", [StubAnswer::json(accepted)]);
        let mut ended = detail("admin~r", SubState::Completed, code, 0, 1);
        if code == Some(-210) {
            // Ended before the command ran.
            ended
                .attempt
                .as_mut()
                .unwrap()
                .verdict
                .as_mut()
                .unwrap()
                .origin_exit_code = None;
        }
        stub.answer(&job_line("admin~r"), [StubAnswer::json(&ended)]);
        stub.answer(
            &log_line("admin~r", 0, 0, "stdout?whole=true&follow=true"),
            [StubAnswer::text("to out")],
        );
        stub.answer(
            &log_line("admin~r", 0, 0, "stderr?whole=true&follow=true"),
            [StubAnswer::text("to err\n")],
        );
        let arguments = [
            "run",
            "--name",
            "r",
            "--image",
            "i",
            "--",
            "sh",
            "-c",
            "echo $HOME",
        ];
        let (status, out, err) = stub.muster(&arguments).await;
        assert_eq!((status, out.as_str()), (expect, "to out"), "{err}");
        assert!(err.contains("to err\n"), "{err}");
        let submitted: serde_json::Value = serde_json::from_str(&stub.asked()[0].body).unwrap();
        assert_eq!(
            submitted["taskRoles"]["main"]["commands"],
            json!(["sh -c 'echo $HOME'"])
        );
    }
}

#[tokio::test]
async fn images_come_from_archives_and_registries() {
    let stub = AgentStub::start();
    let progress = "{\"type\":\"bytes\",\"done\":1,\"total\":2}\n{\"type\":\"layers\",\"done\":1,\"total\":1}\n\
        {\"type\":\"ready\",\"name\":\"a/b:1\",\"digest\":\"sha256:0\",\"size_bytes\":9}\n";
    let failed = "{\"type\":\"failed\",\"message\":\"no such image: check the name\"}\n";
    stub.answer(
        "POST /api/muster/v1/images/import?name=a%2Fb%3A1",
        [StubAnswer::text(progress)],
    );
    stub.answer(
        "POST /api/muster/v1/images/pull",
        [StubAnswer::text(failed), StubAnswer::text("")],
    );
    stub.answer(
        "DELETE /api/muster/v1/images?name=a%2Fb%3A1",
        [StubAnswer::json(json!({}))],
    );
    let archive = TextFile::of("tar");
    let path = archive.path();
    let imported = stub
        .muster(&["image", "import", path, "--name", "a/b:1"])
        .await;
    assert_eq!(imported, (CliStatus::Ok, "a/b:1\n".into(), String::new()));
    assert_eq!(stub.asked()[0].body, "tar");
    assert_eq!(stub.asked()[0].headers["content-length"], "3");
    let refused = "error: cannot pull x: no such image: check the name\n";
    let pulled = stub.muster(&["image", "pull", "x"]).await;
    assert_eq!(pulled, (CliStatus::Refused, String::new(), refused.into()));
    let (status, ..) = stub.muster(&["image", "pull", "x"]).await;
    assert_eq!(
        status,
        CliStatus::Unreachable,
        "an answer that just ends is no success"
    );
    let (status, ..) = stub.muster(&["image", "remove", "a/b:1"]).await;
    assert_eq!(status, CliStatus::Ok);
}

#[tokio::test]
async fn stop_asks_for_the_end() {
    let stub = AgentStub::start();
    let key: JobKey = "ada~j".parse().unwrap();
    let line = format!("PUT /api/v2/jobs/{key}/executionType");
    stub.answer(
        &line,
        [StubAnswer::json(json!({"status": 202, "message": "ok"}))],
    );
    let ended = detail("ada~j", SubState::Completed, Some(-210), 0, 1);
    stub.answer(&job_line("ada~j"), [StubAnswer::json(ended)]);
    let stopped = stub.muster(&["job", "stop", "ada~j", "--wait"]).await;
    assert_eq!(
        stopped,
        (CliStatus::Ok, "ada~j  STOPPED\n".into(), String::new())
    );
    assert_eq!(stub.asked()[0].body, r#"{"value":"STOP"}"#);
}

#[tokio::test]
async fn files_are_judged_without_an_agent() {
    let stub = AgentStub::start();
    let bad = TextFile::of("name: [1\n");
    let path = bad.path();
    let (status, out, _) = stub.muster(&["job", "validate", path, "-o", "json"]).await;
    let verdict: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &verdict["valid"]),
        (CliStatus::Negative, &json!(false))
    );
    assert!(
        verdict["errors"][0]["message"]
            .as_str()
            .unwrap()
            .contains("line"),
        "{out}"
    );
    let text = "protocolVersion: 2\nname: j\ntype: job\nprerequisites: [{type: dockerimage, name: i, uri: \
                u}]\ntaskRoles: {w: {dockerImage: i, commands: [a], resourcePerInstance: {cpu: 1, memoryMB: \
                9, gpu: 0}}}\nextras: {storage: 1}\n";
    let warned = TextFile::of(text);
    let judged = ["job", "validate", warned.path()];
    let (status, out, _) = stub.muster(&judged).await;
    let line = "warning: .extras.storage: This key has no effect. Did you mean storages?\nvalid\n";
    assert_eq!((status, out.as_str()), (CliStatus::Ok, line));
    let (status, out, _) = stub.muster(&["rules", "check", path]).await;
    assert_eq!(status, CliStatus::Negative);
    assert!(!out.is_empty());
    let (status, _, err) = stub.muster(&["job", "validate", "/no/such/file"]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(
        err.starts_with("error: cannot read /no/such/file: No such file"),
        "{err}"
    );
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn virtual_clusters_are_listed_and_shown() {
    let amount = |gpu: u32| json!({ "gpu": gpu, "cpu": gpu * 4, "memory_mb": gpu * 1024 });
    let vision = json!({
        "name": "vision", "used": amount(1), "guaranteed": amount(2), "total": amount(3),
        "skus": { "V100": amount(1) }, "problems": ["1 V100 on n7 cannot be used"],
    });
    let stub = AgentStub::start();
    let vcs = || StubAnswer::json(json!([vision]));
    let route = "GET /api/muster/v1/virtual-clusters";
    stub.answer(route, [vcs(), vcs(), vcs(), vcs()]);
    let (status, out, err) = stub.muster(&["vc", "list"]).await;
    assert_eq!(status, CliStatus::Ok, "{err}");
    let expect = "\
VC      GPUS        CPU           MEMORY
vision  1 of 2 (3)  4 of 8 (12)   1.00 GiB of 2.00 GiB (3.00 GiB)  1 V100 on n7 cannot be used
";
    assert_eq!(
        out.split_whitespace().collect::<Vec<_>>(),
        expect.split_whitespace().collect::<Vec<_>>()
    );
    let (_, out, _) = stub.muster(&["vc", "show", "vision"]).await;
    assert!(out.contains("GPUs    1 of 2 (3)"), "{out}");
    assert!(out.contains("V100  1     4    1.00 GiB"), "{out}");
    assert!(
        out.ends_with("Problems\n  - 1 V100 on n7 cannot be used\n"),
        "{out}"
    );
    let (_, out, _) = stub.muster(&["vc", "ls", "-o", "json"]).await;
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown, json!([vision]));
    let (status, _, err) = stub.muster(&["vc", "show", "speech"]).await;
    assert_eq!(status, CliStatus::Usage);
    assert!(err.contains("there are: vision"), "{err}");
}

#[tokio::test]
async fn a_description_is_not_applied_unasked_where_it_is_not_known_what_it_does() {
    let mut what = WhatIf::default();
    let why = "nobody leads there who can be reached".to_owned();
    what.unheard.insert("vision".parse().unwrap(), why);
    let stub = AgentStub::start();
    let route = "POST /api/muster/v1/virtual-clusters/what-if";
    stub.answer(route, [StubAnswer::json(what)]);
    let file = TextFile::of("{}\n");
    let path = file.path();
    let (status, out, _) = stub.muster(&["vc", "apply", path, "--what-if"]).await;
    assert_eq!(status, CliStatus::Negative);
    let line = "jobs of vision may lose something, which is not known now: nobody leads there";
    assert!(out.contains(line), "{out}");
    let apply = ["vc", "apply", path, "--base", "1"];
    let (status, _, err) = stub.muster(&apply).await;
    assert_eq!(status, CliStatus::Usage, "nobody can be asked");
    assert!(err.contains(line) && err.contains("--yes"), "{err}");
    let asked = stub.asked();
    assert!(asked.iter().all(|asked| asked.line == route), "{asked:?}");
}

fn listed(key: &str, submitted: u64) -> JobSummary {
    let mut job = summary(key, SubState::AttemptRunning, None);
    job.submitted = submitted;
    job
}

fn page(jobs: impl Iterator<Item = u64>) -> StubAnswer {
    let job = |n: u64| listed(&format!("ada~j{n}"), n);
    let rows = jobs.map(|n| {
        let mut row = serde_json::to_value(job(n)).unwrap();
        row["state"] = json!(job(n).state());
        row
    });
    StubAnswer::json(rows.collect::<Vec<_>>())
}

#[tokio::test]
async fn a_long_list_of_jobs_is_asked_for_in_pages_by_what_is_wanted() {
    let stub = AgentStub::start();
    let line = |offset: u64, filter: &str| {
        format!("GET /api/muster/v1/jobs?limit=2000&offset={offset}{filter}")
    };
    let filter = "&username=ada&state=RUNNING,STOPPING&vc=default";
    stub.answer(&line(0, filter), [page((1_001..=3_000).rev())]);
    // One has ended meanwhile, so that those after it moved up.
    stub.answer(&line(1_800, filter), [page((1..=1_199).rev())]);
    let (status, out, err) = stub
        .muster(&[
            "job",
            "list",
            "--user",
            "ada",
            "--state",
            "running,stopping",
            "--vc",
            "default",
            "-o",
            "json",
        ])
        .await;
    assert_eq!((status, err.as_str()), (CliStatus::Ok, ""));
    let jobs: Vec<serde_json::Value> = serde_json::from_str(&out).unwrap();
    let names = jobs.iter().map(|job| job["submitted"].as_u64().unwrap());
    assert!(names.eq((1..=3_000).rev()), "each once: {}", jobs.len());
    // Who can be asked changes between two pages: what stands where is not known any more.
    let away = || page((1_001..=3_000).rev());
    let last = || page((1..=1_200).rev());
    stub.answer(
        &line(0, ""),
        [away(), away().with("x-muster-away", "vision")],
    );
    let last = [last().with("x-muster-away", "vision")];
    stub.answer(&line(1_800, ""), last);
    let (status, _, err) = stub.muster(&["job", "list"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert!(err.contains("the jobs of vision are missing"), "{err}");
    let asked = stub.asked().into_iter().map(|asked| asked.line);
    let asked: Vec<String> = asked.skip(2).collect();
    assert_eq!(asked, [0, 1_800, 0, 1_800].map(|offset| line(offset, "")));
}

#[tokio::test]
async fn jobs_that_the_user_does_not_see_are_told_beside_the_list() {
    let stub = AgentStub::start();
    let hidden = "lab=private, vision=group";
    let line = "GET /api/muster/v1/jobs?limit=2000&offset=0";
    stub.answer(line, [page(1..=1).with("x-muster-hidden", hidden)]);
    let (status, out, err) = stub.muster(&["job", "list"]).await;
    assert_eq!(status, CliStatus::Ok);
    assert!(out.contains("ada~j1"), "{out}");
    for expect in [
        "jobs of others in lab are not shown: its jobs are private",
        "jobs of others in vision are not shown: they are shown to users of a group with vision",
    ] {
        assert!(err.contains(expect), "{err}");
    }
}
