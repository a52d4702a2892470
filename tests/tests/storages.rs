//! Storages in tasks, on one machine: what needs no server. deploy/vm.sh tries those with one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::home;
use serde_json::{Value, json};

use crate::stage::{Job, LIMIT, Stage, status};

/// A password.
const SECRET: &str = "hunter2-of-the-lab";

/// A stage with a directory that is declared as storages of several kinds.
struct Scene {
    stage: Stage,
    data: PathBuf,
}

impl Scene {
    async fn new() -> Result<Self> {
        let stage = Stage::new().await?;
        let data = stage.home.path().join("data");
        fs::create_dir(&data)?;
        fs::write(data.join("words"), "from the machine\n")?;
        let scene = Self { stage, data };
        scene.declare("")?;
        scene.muster(&[
            "group",
            "set",
            "default",
            "--storage",
            "data,own,gone,other,nfs",
        ])?;
        Ok(scene)
    }

    /// Declares them, with these lines added.
    fn declare(&self, more: &str) -> Result<()> {
        let data = self.data.display();
        let text = format!(
            "# Of the test.
storages:
- {{name: data, type: hostPath, data: {{path: {data}}}}}
- {{name: own, type: hostPath, data: {{path: {data}}}, share: false}}
- {{name: gone, type: hostPath, data: {{path: {data}/gone}}}}
- {{name: denied, type: hostPath, data: {{path: {data}}}}}
- {{name: other, type: other}}
- {{name: nfs, type: nfs, data: {{server: 192.0.2.1, path: /export}}}}
{more}"
        );
        let file = self.stage.home.path().join("storages.yaml");
        fs::write(&file, text)?;
        let known = self.muster(&["storage", "status", "-o", "json"])?;
        let known: Value = serde_json::from_str(&known)?;
        let base = known["newest"]["version"].as_u64().unwrap_or(0).to_string();
        let file = file.display().to_string();
        self.muster(&["storage", "apply", &file, "--base", &base])?;
        Ok(())
    }

    /// What the command prints, which is to succeed.
    fn muster(&self, arguments: &[&str]) -> Result<String> {
        let said = self.stage.home.muster(arguments)?;
        ensure!(said.status.success(), "{arguments:?}: {said:?}");
        Ok(String::from_utf8(said.stdout)?)
    }

    fn yaml(name: &str, storages: &Value, commands: &str) -> String {
        let extras = json!({ "storages": storages });
        format!("{}\nextras: {extras}\n", Job::new(name, commands).yaml())
    }

    async fn submit(
        &self,
        name: &str,
        storages: &Value,
        commands: &str,
    ) -> Result<(StatusCode, String)> {
        let yaml = Self::yaml(name, storages, commands);
        let client = &self.stage.client;
        client
            .send(Method::POST, "/api/v2/jobs", "text/yaml", yaml)
            .await
    }

    /// Runs a job that is to succeed, and gives its output.
    async fn works(&self, name: &str, storages: &Value, commands: &str) -> Result<String> {
        let (status_code, text) = self.submit(name, storages, commands).await?;
        ensure!(status_code == StatusCode::ACCEPTED, "{text}");
        let waited = self.stage.waits(name).await;
        let shown = || self.muster(&["job", "show", name]).unwrap_or_default();
        let detail = waited.with_context(shown)?;
        let log = self.stage.log(&detail, "all").await?;
        ensure!(status(&detail).0 == "SUCCEEDED", "{log} {detail:#}");
        Ok(log)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_tasks_read_and_write_storages() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;
    let log = scene
        .works(
            "plain",
            &json!(["data"]),
            "cat /mnt/data/words; echo result >/mnt/data/result; grep ' /mnt/data ' /proc/mounts",
        )
        .await?;
    ensure!(
        log.contains("from the machine") && log.contains("nosuid,nodev"),
        "{log}"
    );
    assert_eq!(fs::read_to_string(scene.data.join("result"))?, "result\n");
    let entry = json!([{"name": "data", "mountPath": "/root/work", "subPath": "runs/one"}]);
    scene
        .works("below", &entry, "cd /root/work; ls; echo deep >file")
        .await?;
    assert_eq!(
        fs::read_to_string(scene.data.join("runs/one/file"))?,
        "deep\n"
    );
    let entries =
        json!([{"name": "data", "readOnly": true}, {"name": "own", "mountPath": "/home/me"}]);
    let commands = "test -e /mnt/data/words; ! touch /mnt/data/words; ! test -e /home/me/words; echo mine >/home/me/file";
    scene.works("apart", &entries, commands).await?;
    assert_eq!(fs::read_to_string(scene.data.join("admin/file"))?, "mine\n");
    // The first storage of the user's group.
    scene
        .works("default", &json!([]), "test -e /mnt/data/words")
        .await?;
    // A link that a user has made leads nowhere.
    symlink("/etc", scene.data.join("link"))?;
    let entry = json!([{"name": "data", "subPath": "link"}]);
    let (code, text) = scene.submit("link", &entry, "ls /mnt/data").await?;
    ensure!(code == StatusCode::ACCEPTED, "{text}");
    told(&scene, "link", "cannot make or open its directory link").await
}

/// Waits until the job shows this, and stops it.
async fn told(scene: &Scene, name: &str, expected: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let shown = scene.muster(&["job", "show", name])?;
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.contains(expected) {
            ensure!(words.contains("219"), "{shown}");
            break;
        }
        ensure!(begun.elapsed() < LIMIT, "{expected} is not in {shown}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    scene.muster(&["job", "stop", name, "--wait"])?;
    let detail = scene
        .stage
        .client
        .get(&format!("/api/v2/jobs/admin~{name}"))
        .await?;
    // What no storage could be had for was not charged.
    assert_eq!(detail["jobStatus"]["retryDetails"]["user"], 0, "{detail:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_storage_that_cannot_be_used_is_told_and_nothing_else_waits() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;
    let refused = |text: &str, expected: &str| -> Result<()> {
        ensure!(
            text.contains("NoStorageError") && text.contains(expected),
            "{text}"
        );
        Ok(())
    };
    let (code, text) = scene.submit("denied", &json!(["denied"]), "true").await?;
    assert_eq!(code, StatusCode::NOT_FOUND);
    refused(&text, "Storage denied is not found.")?;
    let (code, text) = scene.submit("other", &json!(["other"]), "true").await?;
    assert_eq!(code, StatusCode::NOT_FOUND);
    refused(&text, "Storage other is of the type other")?;
    let (code, text) = scene
        .submit(
            "nested",
            &json!(["data", {"name": "own", "mountPath": "/mnt/data/x"}]),
            "true",
        )
        .await?;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{text}");

    for (name, expected) in [
        ("gone", "No such file or directory"),
        ("nfs", "storage nfs:"),
    ] {
        let (code, text) = scene.submit(name, &json!([name]), "true").await?;
        ensure!(code == StatusCode::ACCEPTED, "{text}");
        let begun = Instant::now();
        scene
            .works(&format!("beside-{name}"), &json!(["data"]), "true")
            .await?;
        ensure!(begun.elapsed() < LIMIT);
        told(&scene, name, expected).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_passwords_of_storages_are_kept_sealed() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;

    scene.declare(&format!(
        "- name: home
  type: samba   # of the lab
  data: {{address: //files/home, username: lab, password: {SECRET}}}
"
    ))?;
    let shown = scene.muster(&["storage", "show"])?;
    ensure!(
        shown.contains("sealed:") && shown.contains("# Of the test."),
        "{shown}"
    );
    ensure!(!shown.contains(SECRET), "{shown}");
    // The text that is shown can be applied again as it is.
    let file = scene.stage.home.path().join("again.yaml");
    fs::write(&file, shown.replace("# of the lab", "# again"))?;
    scene.muster(&["storage", "apply", &file.display().to_string()])?;
    let listed = scene.muster(&["storage", "list", "-o", "json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    let home = listed
        .as_array()
        .context("a list")?
        .iter()
        .find(|it| it["name"] == "home");
    ensure!(
        home.is_some_and(|home| home["data"]["username"] == "lab"),
        "{listed:#}"
    );
    // Neither in the cluster's log nor in any file of this machine's state.
    let found = std::process::Command::new("grep")
        .args(["-r", "-l", SECRET])
        .arg(scene.stage.home.state())
        .output()?;
    ensure!(found.stdout.is_empty(), "{found:?}");
    Ok(())
}
