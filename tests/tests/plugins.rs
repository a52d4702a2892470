//! Runtime plugins that start programs of the image.

use anyhow::{Result, ensure};
use muster_tests::home;

use crate::stage::{Job, Stage, status};

/// Programs that stand in for those of an image: they say how they were called.
const PROGRAMS: &str = r#"preCommands: ["mkdir -p /opt/bin", "printf '#!/bin/sh\\necho git \"$@\"\\n' >/bin/git", "printf '#!/bin/sh\\necho \"$@\" >/tmp/called; exec httpd -f -p 127.0.0.1:$4 -h /tmp\\n' >/bin/tensorboard", "chmod +x /bin/git /bin/tensorboard"]"#;

/// A job with these plugins besides.
fn extra(plugins: &str) -> String {
    format!(
        "extras: {{com.microsoft.pai.runtimeplugin: [{{plugin: cmd, parameters: {{{PROGRAMS}}}}}, {plugins}]}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_git_clones_before_the_commands_and_tensorboard_runs_beside_them() -> Result<()>
{
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let plugins = "{plugin: git, parameters: {repo_uri: 'https://git.example/a b.git', clone_dir: code}}, \
        {plugin: tensorboard, parameters: {logdir: {train: /tmp}}}";
    let commands = "until wget -q -O - http://127.0.0.1:$PAI_CONTAINER_HOST_tensorboard_PORT_LIST/called 2>/dev/null; do sleep 0.1; done; \
        echo $PAI_CONTAINER_HOST_tensorboard_PORT_LIST";
    let job = Job {
        extra: &extra(plugins),
        ..Job::new("tools", commands)
    };
    let detail = stage.ends(&job).await?;
    let (runtime, output) = (
        stage.log(&detail, "runtime.log").await?,
        stage.log(&detail, "all").await?,
    );
    ensure!(status(&detail).0 == "SUCCEEDED", "{runtime}{output}");
    let cloned = "git clone -- https://git.example/a b.git code";
    ensure!(runtime.contains(cloned), "{runtime}");
    ensure!(
        runtime.contains("/proxy/admin~tools/tensorboard/"),
        "{runtime}"
    );
    // It has a port of its own, which no other task of the machine has.
    let port = output.lines().last().unwrap_or_default();
    ensure!(
        port.parse::<u16>().is_ok()
            && output == format!("--host 127.0.0.1 --port {port} --logdir /tmp\n{port}\n"),
        "{output}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_the_image_lacks_is_told() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let plugin = |text: &str| format!("extras: {{com.microsoft.pai.runtimeplugin: [{text}]}}");
    let board = plugin("{plugin: tensorboard, parameters: {logdir: {train: /tmp}}}");
    let job = Job {
        extra: &board,
        ..Job::new("board", "true")
    };
    let detail = stage.ends(&job).await?;
    ensure!(status(&detail).0 == "SUCCEEDED", "{detail:#}");
    let runtime = stage.log(&detail, "runtime.log").await?;
    ensure!(
        runtime.contains("the image has no program tensorboard"),
        "{runtime}"
    );
    let git = |name, policy| {
        let text = format!("{{plugin: git, failurePolicy: {policy}, parameters: {{repo_uri: u}}}}");
        (name, plugin(&text))
    };
    for ((name, extra), state) in [
        (git("heeded", "fail"), "FAILED"),
        (git("ignored", "ignore"), "SUCCEEDED"),
    ] {
        let job = Job {
            extra: &extra,
            ..Job::new(name, "true")
        };
        let detail = stage.ends(&job).await?;
        let runtime = stage.log(&detail, "runtime.log").await?;
        ensure!(status(&detail).0 == state, "{name}: {runtime}");
        ensure!(runtime.contains("needs the program git"), "{runtime}");
    }
    Ok(())
}
