//! Storages in tasks, and their files without a job, on one machine: what needs no server. deploy/vm.sh tries those with one.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
            "data,own,gone,other,nfs,read,small",
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
- {{name: read, type: hostPath, data: {{path: {data}}}, readOnly: true}}
- {{name: small, type: hostPath, data: {{path: {data}/small}}}}
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

    /// What the command says on stderr, which is to fail.
    fn refused(&self, arguments: &[&str]) -> Result<String> {
        let said = self.stage.home.muster(arguments)?;
        ensure!(!said.status.success(), "{arguments:?}: {said:?}");
        Ok(String::from_utf8(said.stderr)?)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.data.join(path)
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

/// Names of files that are not whole.
fn partial(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(".muster-part-") {
            found.push(path);
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_files_of_storages_are_copied_both_ways() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;
    let here = scene.stage.home.path().join("here");
    let here_text = here.display().to_string();
    fs::create_dir_all(here.join("deep/er"))?;
    fs::write(here.join("words"), "one\n")?;
    fs::set_permissions(here.join("words"), fs::Permissions::from_mode(0o750))?;
    fs::write(here.join("deep/er/file"), "two\n")?;
    let large: Vec<u8> = (0..9_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    fs::write(here.join("deep/large"), &large)?;
    symlink("words", here.join("link"))?;
    scene.muster(&["storage", "put", &here_text, "data:"])?;
    assert_eq!(fs::read(scene.at("here/deep/large"))?, large);
    assert_eq!(fs::read_to_string(scene.at("here/deep/er/file"))?, "two\n");
    assert_eq!(fs::read_link(scene.at("here/link"))?, Path::new("words"));
    let words = fs::metadata(scene.at("here/words"))?;
    assert_eq!(
        (words.permissions().mode() & 0o777, words.uid()),
        (0o750, 0)
    );
    assert!(partial(&scene.at("here"))?.is_empty());
    let back = scene.stage.home.path().join("back");
    let back_text = back.display().to_string();
    scene.muster(&["storage", "get", "data:here", &back_text])?;
    assert_eq!(fs::read(back.join("deep/large"))?, large);
    assert_eq!(fs::read_to_string(back.join("words"))?, "one\n");
    assert_eq!(fs::read_link(back.join("link"))?, Path::new("words"));
    // Into what is there, and over a file.
    fs::write(back.join("words"), "changed")?;
    scene.muster(&["storage", "get", "data:here/words", &back_text])?;
    assert_eq!(fs::read_to_string(back.join("words"))?, "one\n");
    assert_eq!(
        scene.muster(&["storage", "get", "data:here/words", "-"])?,
        "one\n"
    );
    let listed = scene.muster(&["storage", "ls", "data:here", "-o", "json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    let kinds = listed["entries"].as_array().context("a list")?.iter();
    let kinds: Vec<_> = kinds
        .map(|it| format!("{} {}", it["name"], it["kind"]))
        .collect();
    assert_eq!(
        kinds,
        [
            r#""deep" "directory""#,
            r#""link" "link""#,
            r#""words" "file""#
        ]
    );
    // A job sees the same.
    scene
        .works(
            "sees",
            &json!(["data"]),
            "cmp /mnt/data/here/words /mnt/data/here/link",
        )
        .await?;
    let probed = scene.muster(&["storage", "probe", "data", "-o", "json"])?;
    let probed: Value = serde_json::from_str(&probed)?;
    assert_eq!(
        (&probed["canWrite"], &probed["problem"]),
        (&json!(true), &json!(null))
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_transfer_that_broke_off_goes_on() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;
    let big = scene.stage.home.path().join("big");
    let mut content = vec![0_u8; 384 << 20];
    for (at, part) in content.chunks_mut(1 << 20).enumerate() {
        part[..8].copy_from_slice(&at.to_le_bytes());
    }
    fs::write(&big, &content)?;
    let big = big.display().to_string();
    let put = ["storage", "put", &big, "data:big"];
    let broken = scene
        .stage
        .home
        .muster_for(&put, Duration::from_millis(900))?;
    ensure!(!broken.status.success(), "it was too fast: {broken:?}");
    assert!(!scene.at("big").exists());
    let begun = Instant::now();
    // The helper keeps what has come, and ends.
    while partial(&scene.data)?.is_empty() {
        ensure!(begun.elapsed() < LIMIT, "nothing was kept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let said = scene.stage.home.muster(&put)?;
    let told = String::from_utf8(said.stderr)?;
    ensure!(said.status.success() && told.contains("1 file"), "{told}");
    ensure!(!told.contains("384.00 MiB"), "it began anew: {told}");
    ensure!(fs::read(scene.at("big"))? == content, "another file");
    assert!(partial(&scene.data)?.is_empty());
    // The way back.
    let back = scene.stage.home.path().join("back");
    let back_text = back.display().to_string();
    let get = ["storage", "get", "data:big", &back_text];
    let broken = scene
        .stage
        .home
        .muster_for(&get, Duration::from_millis(900))?;
    ensure!(!broken.status.success(), "it was too fast: {broken:?}");
    assert!(!back.exists() && partial(scene.stage.home.path())?.len() == 1);
    let said = scene.stage.home.muster(&get)?;
    let told = String::from_utf8(said.stderr)?;
    ensure!(
        said.status.success() && !told.contains("384.00 MiB"),
        "{told}"
    );
    ensure!(fs::read(&back)? == content, "another file");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_files_that_may_not_be_had_are_refused() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;
    let words = scene.at("words").display().to_string();
    symlink("/etc", scene.at("out"))?;
    fs::create_dir(scene.at("bob"))?;
    fs::write(scene.at("bob/secret"), "of bob")?;
    for (arguments, expected) in [
        (["ls", "none:", ""], "Storage none is not found"),
        (["ls", "denied:", ""], "not allowed to access denied"),
        (["ls", "gone:", ""], "No such file or directory"),
        (["ls", "other:", ""], "of the type other"),
        (["ls", "data:none", ""], "none: No such file"),
        (["get", "data:out/passwd", "-"], "out is a symbolic link"),
        (["get", "own:bob/secret", "-"], "bob"),
        (["put", &words, "read:new"], "may only be read"),
        (["put", &words, "data:none/new"], "No such file"),
        (["get", "data:bob", "-"], "is a directory"),
    ] {
        let arguments: Vec<_> = ["storage"].into_iter().chain(arguments).collect();
        let arguments: Vec<_> = arguments.into_iter().filter(|it| !it.is_empty()).collect();
        let told = scene.refused(&arguments)?;
        ensure!(told.contains(expected), "{arguments:?}: {told}");
    }
    let path = "/api/muster/v1/storages/own/files/content?path=../bob/secret";
    let (code, text) = scene
        .stage
        .client
        .send(Method::GET, path, "text/plain", String::new())
        .await?;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{text}");
    scene.muster(&["storage", "put", &words, "own:mine"])?;
    ensure!(
        scene.at("admin/mine").exists(),
        "not in the user's own directory"
    );
    // A server that cannot be used is told in time, and the agent goes on meanwhile.
    let begun = Instant::now();
    let probe = scene.stage.home.muster(&["storage", "probe", "nfs"])?;
    let told = String::from_utf8(probe.stdout)?;
    ensure!(
        probe.status.code() == Some(1) && begun.elapsed() < LIMIT,
        "{told}"
    );
    ensure!(
        told.contains("nfs-common") || told.contains("storage nfs:"),
        "{told}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_full_disk_is_told_and_left_free() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;
    let small = scene.at("small");
    fs::create_dir(&small)?;
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4M", "small"])
        .arg(&small)
        .status()?;
    ensure!(mounted.success(), "no tmpfs");
    let done = full(&scene, &small);
    std::process::Command::new("umount").arg(&small).status()?;
    done
}

fn full(scene: &Scene, small: &Path) -> Result<()> {
    let big = scene.stage.home.path().join("big");
    fs::write(&big, vec![1; 64 << 20])?;
    let told = scene.refused(&["storage", "put", &big.display().to_string(), "small:big"])?;
    ensure!(told.contains("No space left on device"), "{told}");
    ensure!(
        fs::read_dir(small)?.next().is_none(),
        "something was left there"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_storage_is_declared_and_taken_out_alone() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let scene = Scene::new().await?;
    let path = scene.data.display().to_string();
    scene.muster(&[
        "storage",
        "add",
        "new",
        "--type",
        "host-path",
        "--path",
        &path,
        "--own",
    ])?;
    let shown = scene.muster(&["storage", "show"])?;
    ensure!(
        shown.contains("# Of the test.") && shown.contains("\"new\""),
        "{shown}"
    );
    let told = scene.refused(&["storage", "remove", "data"])?;
    ensure!(told.contains("granted by default"), "{told}");
    scene.muster(&["storage", "remove", "new"])?;
    scene.muster(&["storage", "remove", "data", "--force"])?;
    let shown = scene.muster(&["storage", "show"])?;
    ensure!(
        !shown.contains("name: data") && shown.contains("# Of the test."),
        "{shown}"
    );
    Ok(())
}
