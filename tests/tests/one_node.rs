//! One machine, run as users run it: a real agent, containerd and runc, over REST.

use anyhow::Result;
use muster_tests::home;

use crate::stage::{Job, Stage, empty_registry, status};

#[tokio::test(flavor = "multi_thread")]
async fn containerd_hello_example_succeeds() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let yaml = include_str!("../../deploy/examples/hello.yaml");
    stage.client.submit(yaml).await?;
    let detail = stage.waits("hello").await?;
    assert_eq!(status(&detail), ("SUCCEEDED", 0, "Succeeded"), "{detail:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_failures_are_explained() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let image = format!("{}/no/such:image", empty_registry()?);
    let syntax = "echo '  File \"train.py\", line 3' >&2\n\
                  echo 'SyntaxError: invalid syntax' >&2\nexit 1";
    let memory = "exec tail -c 200m /dev/zero";
    let cases = [
        (Job::new("syntax", syntax), 231, "ContainerSyntaxError"),
        (
            Job {
                memory_mb: 32,
                ..Job::new("memory", memory)
            },
            -1200,
            "UserContainerDockerOOMKilled",
        ),
        (
            Job {
                image: &image,
                ..Job::new("image", "true")
            },
            254,
            "ContainerImageNotExists",
        ),
        (Job::new("command", "no-such-command --flag"), 240, ""),
    ];
    for (job, code, phrase) in cases {
        let detail = stage.ends(&job).await?;
        let (state, found_code, found_phrase) = status(&detail);
        assert_eq!(state, "FAILED", "{}: {detail:#}", job.name);
        if !phrase.is_empty() {
            assert_eq!(
                (found_code, found_phrase),
                (code, phrase),
                "{}: {detail:#}",
                job.name
            );
        }
        let shown = stage.home.muster(&["job", "show", job.name])?;
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(text.contains(found_phrase), "{}: {text}", job.name);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_logs_environment_and_stop() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let commands = "echo out; echo err >&2; env | grep ^PAI_ | sort";
    let detail = stage.ends(&Job::new("log", commands)).await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    let out = stage.log(&detail, "stdout").await?;
    for expect in [
        "out\n",
        "PAI_JOB_NAME=admin~log\n",
        "PAI_HOST_IP_main_0=127.0.0.1\n",
        "PAI_TASK_INDEX=0\n",
    ] {
        assert!(out.contains(expect), "{expect} is not in {out}");
    }
    assert_eq!(stage.log(&detail, "stderr").await?, "err\n");
    assert!(stage.log(&detail, "all").await?.contains("err\n"));

    stage.runs(&Job::new("long", "sleep 600")).await?;
    let stopped = stage.home.muster(&["job", "stop", "long", "--wait"])?;
    assert!(
        !String::from_utf8_lossy(&stopped.stderr).contains("rror"),
        "{stopped:?}"
    );
    let detail = stage.waits("long").await?;
    assert_eq!(
        status(&detail),
        ("STOPPED", -210, "StopFrameworkRequested"),
        "{detail:#}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_run_streams_and_exits_as_the_task() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let run = [
        "run",
        "--image",
        "muster/busybox",
        "--gpus",
        "2",
        "--memory",
        "64m",
        "--",
    ];
    let script = "echo $NVIDIA_VISIBLE_DEVICES; echo oh >&2; exit 7";
    let output = stage
        .home
        .muster(&[&run[..], &["sh", "-c", script]].concat())?;
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0,1\n",
        "{output:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("oh\n"),
        "{output:?}"
    );
    Ok(())
}

#[test]
fn an_agent_that_cannot_start_says_why_and_leaves_no_socket() -> Result<()> {
    let home = tempfile::tempdir()?;
    let config = "[http]\nlisten = \"127.0.0.1:0\"\n[tasks]\ninit = \"/no/such/muster-init\"\n";
    std::fs::write(home.path().join("agent.toml"), config)?;
    let agent = std::process::Command::new(home::muster()?)
        .arg("agent")
        .env("MUSTER_HOME", home.path())
        .output()?;
    let said = String::from_utf8_lossy(&agent.stderr);
    assert_eq!(agent.status.code(), Some(1), "{said}");
    assert!(
        said.contains("muster-init is not at /no/such/muster-init"),
        "{said}"
    );
    assert!(!home.path().join("agent.sock").exists());
    Ok(())
}
