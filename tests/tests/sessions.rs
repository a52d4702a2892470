//! Sessions in tasks: commands and connections of people, from the node of the task and from another one.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::home;
use muster_tests::net::BareNode;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::gangs::{LIMIT, Site, submit, waits};
use crate::stage::{Job, Stage};

/// Tasks that say where they are, and go on.
const STAY: &str = "echo here >/tmp/mark; while :; do sleep 1; done";

/// The task of a job that runs on another node than this, as ROLE:INDEX, with that node's number.
fn elsewhere(node: &BareNode, job: &str) -> Result<(String, usize)> {
    let detail = node.json(&["job", "show", job])?;
    let tasks = detail["roles"][0]["tasks"].as_array().context("tasks")?;
    let found = tasks.iter().find_map(|task| {
        let on = task["attempts"][0]["node"].as_str()?;
        let index = task["id"]["index"].as_u64()?;
        (on != node.name()).then(|| (format!("main:{index}"), on.to_owned()))
    });
    let (task, on) = found.with_context(|| format!("{detail:#}"))?;
    let number = on.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    Ok((task, number.parse()?))
}

/// What a command says, with input, which ends with this code.
fn said(node: &BareNode, arguments: &[&str], input: &str, code: i32) -> Result<(String, String)> {
    let mut child = started(node, arguments)?;
    let mut stdin = child.stdin.take().context("stdin")?;
    let output = std::thread::scope(|scope| {
        // One that reads nothing may have ended already.
        scope.spawn(move || std::io::Write::write_all(&mut stdin, input.as_bytes()));
        child.wait_with_output()
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    ensure!(
        output.status.code() == Some(code),
        "{arguments:?}: {} in place of {code}: {out}{err}",
        output.status
    );
    Ok((out, err))
}

fn started(node: &BareNode, arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(home::muster()?)
        .args(arguments)
        .env("MUSTER_HOME", node.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(node.namespace().enter(|| command.spawn())??)
}

/// Ends a command that [`started`] has started: what limits its time passes the signal on.
fn end(child: &mut Child) -> Result<()> {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM)?;
    child.wait()?;
    Ok(())
}

async fn two_nodes(job: &Job<'_>) -> Result<Option<Site>> {
    let Some(site) = Site::new(2).await? else {
        return Ok(None);
    };
    submit(site.node(1), job)?;
    waits(site.node(1), job.name, &["RUNNING"])?;
    Ok(Some(site))
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_command_runs_in_a_task_of_another_node() -> Result<()> {
    let job = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("stay", STAY)
    };
    let Some(site) = two_nodes(&job).await? else {
        return Ok(());
    };
    let node = site.node(1);
    let (task, _) = elsewhere(node, "stay")?;
    let target = format!("stay:{task}");
    let exec = |options: &[&str], command: &[&str], input: &str, code| {
        let arguments = [&["job", "exec"], options, &[&target, "--"], command].concat();
        said(node, &arguments, input, code)
    };
    // Its files and variables, both streams, and its exit code.
    let script =
        "cat /tmp/mark; echo $PAI_CURRENT_TASK_ROLE_NAME:$PAI_TASK_INDEX; echo no >&2; exit 7";
    let (out, err) = exec(&[], &["sh", "-c", script], "", 7)?;
    ensure!(out == format!("here\n{task}\n"), "{out}{err}");
    ensure!(err == "no\n", "{err}");
    // Input and its end, in the order of the bytes.
    let words: String = (0..200_000).map(|n| format!("{n}\n")).collect();
    let (out, _) = exec(&["-i"], &["cat"], &words, 0)?;
    ensure!(out == words, "{} bytes of {}", out.len(), words.len());
    // Much output, to a reader who is late.
    let late = format!(
        "{} job exec {target} -- head -c 20000000 /dev/zero | (sleep 4; wc -c)",
        home::muster()?.display()
    );
    let home = format!("MUSTER_HOME={}", node.home().display());
    let counted = node
        .namespace()
        .run("env", &[&home, "sh", "-c", &late], "")?;
    ensure!(counted.trim() == "20000000", "{counted}");
    // What a command has left in the background holds its output open, and not the session.
    let (out, _) = exec(&[], &["sh", "-c", "sleep 99 & echo done"], "", 0)?;
    ensure!(out == "done\n", "{out}");
    // Without -i there is none.
    let (out, _) = exec(&[], &["cat"], "not for it", 0)?;
    ensure!(out.is_empty(), "{out}");
    // A terminal, without one here.
    let (out, _) = exec(&["-t"], &["sh", "-c", "tty; stty size; echo $TERM"], "", 0)?;
    ensure!(out.contains("/dev/pts/") && out.contains("24 80"), "{out}");
    // What is not there, and the filter of system calls, which the task's own commands have.
    let (_, err) = exec(&[], &["/no/such/program"], "", 127)?;
    ensure!(err.contains("no such program"), "{err}");
    let (_, err) = exec(&[], &["unshare", "-r", "true"], "", 1)?;
    ensure!(err.contains("Operation not permitted"), "{err}");
    // A shell, which is told what to do.
    let shell = said(
        node,
        &["job", "exec", "-i", &target],
        "echo $((6 * 7))\n",
        0,
    )?;
    ensure!(shell.0 == "42\n", "{shell:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_two_hundred_commands_at_once_all_end() -> Result<()> {
    let job = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("many", STAY)
    };
    let Some(site) = two_nodes(&job).await? else {
        return Ok(());
    };
    let node = site.node(1);
    let (task, _) = elsewhere(node, "many")?;
    let target = format!("many:{task}");
    let mut children = Vec::new();
    for number in 0..200 {
        let word = format!("number {number}");
        let arguments = ["job", "exec", &target, "--", "echo", &word];
        children.push((number, started(node, &arguments)?));
    }
    let ended = children.into_iter().map(|(number, child)| {
        let waited = tokio::task::spawn_blocking(move || child.wait_with_output());
        async move { Ok::<_, anyhow::Error>((number, waited.await??)) }
    });
    let (mut done, mut refused) = (0, Vec::new());
    for ended in join_all(ended).await {
        let (number, output) = ended?;
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(0) => {
                ensure!(out == format!("number {number}\n"), "{out}{err}");
                done += 1;
            }
            // Said with what to do next.
            Some(3 | 4) if err.contains("error:") => refused.push(err),
            _ => anyhow::bail!("{number}: {} {out}{err}", output.status),
        }
    }
    ensure!(
        done >= 60,
        "{done} ended well, and so were refused: {refused:#?}"
    );
    // Nothing of them is left.
    let left = node.prints(&["job", "exec", &target, "--", "ps"])?;
    ensure!(left.matches("echo").count() == 0, "{left}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_session_ends_with_its_task_its_node_and_its_person() -> Result<()> {
    let job = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("short", STAY)
    };
    let Some(mut site) = two_nodes(&job).await? else {
        return Ok(());
    };
    let (task, number) = elsewhere(site.node(1), "short")?;
    let target = format!("short:{task}");
    let sleeps = ["job", "exec", &target, "--", "sleep", "777"];
    let ps = ["job", "exec", &target, "--", "ps"];
    let sleeping = |site: &Site| site.node(1).prints(&ps);
    // A person who goes: the command is hung up.
    let mut gone = started(site.node(1), &sleeps)?;
    until(|| Ok(is_sleeping(&sleeping(&site)?)))?;
    end(&mut gone)?;
    until(|| Ok(!is_sleeping(&sleeping(&site)?)))?;
    // A node that dies: the person hears of it.
    let there = started(site.node(1), &sleeps)?;
    until(|| Ok(is_sleeping(&sleeping(&site)?)))?;
    site.lan.node_mut(number).kill()?;
    let output = there.wait_with_output()?;
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(4), "{} {err}", output.status);
    ensure!(
        err.contains("the connection to the task's node broke"),
        "{err}"
    );
    // Commands of the agent's former life are ended.
    site.lan.node_mut(number).start()?;
    let mut last = String::new();
    let ended = until(|| {
        let told = sleeping(&site);
        last = format!("{told:?}");
        Ok(told.is_ok_and(|text| !is_sleeping(&text)))
    });
    ended.context(last)?;
    // A task that ends.
    let there = started(site.node(1), &sleeps)?;
    until(|| Ok(is_sleeping(&sleeping(&site)?)))?;
    site.node(1).prints(&["job", "stop", "short"])?;
    let output = there.wait_with_output()?;
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(4), "{} {err}", output.status);
    ensure!(err.contains("the task has ended"), "{err}");
    // One that has ended.
    waits(site.node(1), "short", &["STOPPED"])?;
    let err = site
        .node(1)
        .refused(&["job", "exec", &target, "--", "true"], 4)?;
    ensure!(err.contains("a session needs a task that runs"), "{err}");
    Ok(())
}

/// Whether one of the processes is that of the test.
fn is_sleeping(processes: &str) -> bool {
    processes.contains("sleep 777")
}

fn until(mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !holds()? {
        ensure!(start.elapsed() < LIMIT, "it does not come about");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_ports_of_a_task_are_reached_through_another_node() -> Result<()> {
    let serve =
        "mkdir /tmp/www; echo served >/tmp/www/page; httpd -f -p 127.0.0.1:18388 -h /tmp/www";
    let job = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("web", serve)
    };
    let Some(site) = two_nodes(&job).await? else {
        return Ok(());
    };
    let node = site.node(1);
    let (task, _) = elsewhere(node, "web")?;
    let target = format!("web:{task}");
    // One connection, over stdin and stdout.
    let request = "GET /page HTTP/1.0\r\n\r\n";
    let arguments = ["job", "port-forward", "--stdio", &target, "18388"];
    let mut answer = String::new();
    until(|| {
        let said = said(node, &arguments, request, 0);
        answer = said.map(|said| said.0).unwrap_or_default();
        Ok(answer.contains("served"))
    })?;
    ensure!(answer.starts_with("HTTP/1."), "{answer}");
    // A port here, many connections.
    let mut forward = started(node, &["job", "port-forward", &target, "18400:18388"])?;
    let fetched = (0..20)
        .map(|_| {
            let mut text = String::new();
            until(|| {
                let url = "http://127.0.0.1:18400/page";
                let fetched = node.namespace().run("curl", &["-s", url], "");
                text = fetched.unwrap_or_default();
                Ok(text == "served\n")
            })?;
            Ok(text)
        })
        .collect::<Result<Vec<_>>>();
    end(&mut forward)?;
    ensure!(fetched?.len() == 20);
    // What is not the task's is not reached, though it listens on the machine.
    let arguments = ["job", "port-forward", "--stdio", &target, "7741"];
    let err = node.refused(&arguments, 4)?;
    ensure!(
        err.contains("no process of the task listens on port 7741; it listens on 18388"),
        "{err}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_files_are_copied_to_a_task_of_another_node_and_back() -> Result<()> {
    let job = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("files", STAY)
    };
    let Some(site) = two_nodes(&job).await? else {
        return Ok(());
    };
    let node = site.node(1);
    let (task, _) = elsewhere(node, "files")?;
    let place = |path: &str| format!("files:{task}:{path}");
    let here = |path: &str| node.home().join(path).display().to_string();
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    std::fs::create_dir_all(node.home().join("data/deep"))?;
    std::fs::write(node.home().join("data/deep/large"), &large)?;
    node.prints(&["job", "cp", &here("data"), &place("/tmp")])?;
    node.prints(&["job", "cp", &place("/tmp/data"), &here("back")])?;
    ensure!(std::fs::read(node.home().join("back/deep/large"))? == large);
    // One file, under another name.
    let (words, there) = (here("words"), place("/tmp/other"));
    std::fs::write(&words, "one\n")?;
    node.prints(&["job", "cp", &words, &there])?;
    let target = format!("files:{task}");
    let seen = ["job", "exec", &target, "--", "cat", "/tmp/other"];
    ensure!(node.prints(&seen)? == "one\n");
    // What is not there is named, on either side, and leaves nothing.
    let err = node.refused(&["job", "cp", &place("/tmp/none"), &here("none")], 1)?;
    ensure!(err.contains("/tmp/none"), "{err}");
    ensure!(!node.home().join("none").exists());
    let err = node.refused(&["job", "cp", &here("none"), &place("/tmp")], 2)?;
    ensure!(err.contains("none"), "{err}");
    let err = node.refused(&["job", "cp", &words, &place("/none/at/all")], 1)?;
    ensure!(err.contains("/none/at"), "{err}");
    let err = node.refused(&["job", "cp", &words, &here("there")], 2)?;
    ensure!(err.contains("one of FROM and TO"), "{err}");
    Ok(())
}

/// Whose job it is decides, on every surface.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_others_have_no_way_in() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    stage.runs(&Job::new("own", STAY)).await?;
    let user = json!({
        "username": "eve", "password": "eve-of-the-test-1", "email": "", "virtualCluster": ["default"],
    });
    let (status, text) = stage
        .client
        .send(
            Method::POST,
            "/api/v2/users",
            "application/json",
            user.to_string(),
        )
        .await?;
    ensure!(status == StatusCode::CREATED, "{status} {text}");
    let eve = Client::login(stage.home.url(), "eve", "eve-of-the-test-1").await?;
    for path in ["exec?command=true", "ports/80"] {
        let path = format!("/api/muster/v1/jobs/admin~own/tasks/main/0/{path}");
        let (status, text) = eve
            .send(Method::GET, &path, "text/plain", String::new())
            .await?;
        ensure!(status == StatusCode::FORBIDDEN, "{path}: {status} {text}");
        let (status, text) = stage
            .client
            .send(Method::GET, &path, "text/plain", String::new())
            .await?;
        ensure!(
            status == StatusCode::UPGRADE_REQUIRED,
            "{path}: {status} {text}"
        );
    }
    Ok(())
}
