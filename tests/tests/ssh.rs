//! Tasks that are logged in to, in real containers. `exec/sshd/tests/openssh.rs` tries all that a client can do.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::home;
use serde_json::{Value, json};

use crate::gangs::{Site, submit, waits};
use crate::stage::{Job, LIMIT, SIMULATED, Stage, status};

/// What OpenSSH's client needs where there is nothing but it.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// Of a task with a server.
const MEMORY_MB: u32 = 256;
/// A stop takes no longer if nothing resists it: the grace is 20 s.
const QUICK: Duration = Duration::from_secs(10);

fn yaml(job: &Job<'_>, parameters: &Value, storages: &Value) -> String {
    let plugin = json!({"plugin": "ssh", "parameters": parameters});
    let extras = json!({"com.microsoft.pai.runtimeplugin": [plugin], "storages": storages});
    format!("{}\nextras: {extras}\n", job.yaml())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A stage whose tasks have ports of these. The agents of other tests on this machine give away others.
async fn stage(ports: &str) -> Result<Stage> {
    Stage::with(&format!("{SIMULATED}ports = {ports}\n")).await
}

/// A new pair of keys: the path of the private one, and the public one.
fn keygen(path: PathBuf) -> Result<(PathBuf, String)> {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-t", "ed25519", "-f"])
        .arg(&path)
        .status()?;
    ensure!(made.success(), "ssh-keygen");
    let public = fs::read_to_string(path.with_extension("pub"))?;
    Ok((path, public))
}

/// A task that runs, as a user sees it.
struct Login {
    key: PathBuf,
    port: String,
    target: String,
}

impl Login {
    /// From the line that users copy: `ssh -p PORT USER@HOST`.
    fn of(line: &str, key: PathBuf) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ssh", "-p", port, target] = words[..] else {
            anyhow::bail!("{line}");
        };
        Ok(Self {
            key,
            port: port.to_owned(),
            target: target.to_owned(),
        })
    }

    fn client(&self, program: &str, flag: &str) -> Command {
        let mut command = Command::new(program);
        command.args([
            "-F",
            "none",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "BatchMode=yes",
        ]);
        command.args(["-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]);
        command.args(["-o", "UserKnownHostsFile=/dev/null", flag, &self.port]);
        command.arg("-i").arg(&self.key).env_remove("SSH_AUTH_SOCK");
        command
    }

    fn ssh(&self, flags: &[&str], command: &str) -> Result<Output> {
        let mut client = self.client("ssh", "-p");
        client.args(flags).arg(&self.target).arg(command);
        Ok(client.stdin(Stdio::null()).output()?)
    }

    fn sftp(&self, batch: &str) -> Result<()> {
        let mut client = self.client("sftp", "-P");
        client.args(["-b", "-"]).arg(&self.target);
        client
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = client.spawn()?;
        child
            .stdin
            .take()
            .context("stdin")?
            .write_all(batch.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{batch}: {output:?}");
        Ok(())
    }
}

/// The line that `muster job show` has for a task.
fn shown(stage: &Stage, job: &str) -> Result<String> {
    let page = text(&stage.home.muster(&["job", "show", job])?.stdout);
    let line = page.lines().find_map(|line| line.split_once("ssh -p "));
    let (_, rest) = line.with_context(|| page.clone())?;
    Ok(format!("ssh -p {rest}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_user_logs_in_to_a_task() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = stage("[24000, 24099]").await?;
    let (key, public) = keygen(stage.home.path().join("key"))?;
    let job = Job {
        memory_mb: MEMORY_MB,
        ..Job::new("open", "echo begun; sleep 1000")
    };
    let user = json!({"userssh": {"type": "custom", "value": public}});
    stage
        .client
        .submit(&yaml(&job, &user, &Value::Null))
        .await?;
    let client = &stage.client;
    let detail = client
        .wait("admin~open", LIMIT, |state| state == "RUNNING")
        .await?;
    let line = shown(&stage, "open")?;
    let task = &detail["taskRoles"]["main"]["taskStatuses"][0];
    assert_eq!(task["containerSsh"], line.as_str());
    let login = Login::of(&line, key)?;
    until_listens(&login)?;

    let told = login.ssh(
        &[],
        "echo $PAI_JOB_NAME; grep -w Seccomp: /proc/self/status; exit 7",
    )?;
    assert_eq!(told.status.code(), Some(7), "{told:?}");
    let told = text(&told.stdout);
    ensure!(
        told.contains("admin~open") && told.contains("Seccomp:\t2"),
        "{told}"
    );
    assert_eq!(
        login.ssh(&["-tt"], "test -t 0 && exit 5")?.status.code(),
        Some(5)
    );
    files(stage.home.path(), &login)?;
    forwards(&login)?;
    let (other, _) = keygen(stage.home.path().join("other"))?;
    let wrong = Login {
        key: other,
        port: login.port.clone(),
        target: login.target.clone(),
    };
    let refused = wrong.ssh(&[], "true")?;
    ensure!(
        text(&refused.stderr).contains("Permission denied"),
        "{refused:?}"
    );

    // A session that resists does not hold the task.
    let mut session = login.client("ssh", "-p");
    session
        .args(["-tt", &login.target])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut session = session.spawn()?;
    let begun = Instant::now();
    let stopped = stage.home.muster(&["job", "stop", "open", "--wait"])?;
    ensure!(stopped.status.success(), "{stopped:?}");
    ensure!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
    session.wait()?;
    let detail = stage.waits("open").await?;
    assert_eq!(status(&detail).0, "STOPPED", "{detail:#}");
    let said = stage.log(&detail, "runtime.log").await?;
    ensure!(said.contains("the SSH server listens on port"), "{said}");
    let page = text(&stage.home.muster(&["job", "show", "open"])?.stdout);
    ensure!(!page.contains("ssh -p"), "{page}");
    Ok(())
}

/// The server begins with the commands, a moment after the job is shown as running.
fn until_listens(login: &Login) -> Result<()> {
    let begun = Instant::now();
    while !login.ssh(&[], "true")?.status.success() {
        ensure!(begun.elapsed() < LIMIT, "nobody listens");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn files(directory: &Path, login: &Login) -> Result<()> {
    let (there, back) = (directory.join("there"), directory.join("back"));
    let bytes: Vec<u8> = (0..4_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    fs::write(&there, &bytes)?;
    let (put, get) = (there.display(), back.display());
    login.sftp(&format!(
        "put {put} /tmp-file\nget /tmp-file {get}\nrm /tmp-file\n"
    ))?;
    ensure!(fs::read(&back)? == bytes, "other bytes came back");
    Ok(())
}

/// A server beside the task, reached through it, and the client's agent.
fn forwards(login: &Login) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let server = std::thread::spawn(move || -> std::io::Result<String> {
        let (mut stream, _) = listener.accept()?;
        stream.write_all(b"from the server")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    });
    let mut client = login.client("ssh", "-p");
    client.args(["-W", &format!("localhost:{port}"), &login.target]);
    let output = client.stdin(Stdio::null()).output()?;
    assert_eq!(text(&output.stdout), "from the server", "{output:?}");
    server.join().map_err(|_| anyhow::anyhow!("the server"))??;
    let socket = login.key.with_extension("agent");
    let mut agent = Command::new("ssh-agent");
    agent.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null());
    let mut agent = agent.spawn()?;
    let begun = Instant::now();
    while !socket.exists() && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut client = login.client("ssh", "-p");
    client
        .env("SSH_AUTH_SOCK", &socket)
        .arg("-A")
        .arg(&login.target);
    let output = client
        .arg("test -S $SSH_AUTH_SOCK")
        .stdin(Stdio::null())
        .output();
    agent.kill()?;
    agent.wait()?;
    let output = output?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

/// OpenSSH's client with its libraries, for a container that has neither.
fn client_into(directory: &Path) -> Result<()> {
    fs::create_dir(directory)?;
    let told = Command::new("ldd").arg("/usr/bin/ssh").output()?;
    let told = text(&told.stdout);
    let files = told.split_whitespace().filter(|word| word.starts_with('/'));
    for file in files.chain(["/usr/bin/ssh", LOADER]) {
        let name = Path::new(file).file_name().context("a name")?;
        fs::copy(file, directory.join(name))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_tasks_log_in_to_each_other() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = stage("[24100, 24199]").await?;
    let data = stage.home.path().join("data");
    client_into(&data)?;
    let file = stage.home.path().join("storages.yaml");
    let declared = format!(
        "storages:\n- {{name: data, type: hostPath, data: {{path: {}}}}}\n",
        data.display()
    );
    fs::write(&file, declared)?;
    let file = file.display().to_string();
    for arguments in [
        &["storage", "apply", &file, "--base", "0"][..],
        &["group", "set", "default", "--storage", "data"],
    ] {
        let done = stage.home.muster(arguments)?;
        ensure!(done.status.success(), "{done:?}");
    }
    let ssh = "/mnt/data/ld-linux-x86-64.so.2 --library-path /mnt/data /mnt/data/ssh";
    let commands = format!(
        "other=$((1 - PAI_TASK_INDEX)); {ssh} main-$other 'echo I am $PAI_TASK_INDEX; exit 3' || echo ended by $?
touch /mnt/data/done-$PAI_TASK_INDEX
until test -e /mnt/data/done-$other; do sleep 1; done"
    );
    let job = Job {
        instances: 2,
        memory_mb: MEMORY_MB,
        ..Job::new("gang", &commands)
    };
    let parameters = json!({"jobssh": true, "sshbarrier": true, "sshbarrierTimeout": 1});
    let client = &stage.client;
    client
        .submit(&yaml(&job, &parameters, &json!(["data"])))
        .await?;
    let detail = stage.waits("gang").await?;
    let log = stage.log(&detail, "all").await?;
    let said = stage.log(&detail, "runtime.log").await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{log} {said} {detail:#}");
    ensure!(
        log.contains("I am 1") && log.contains("ended by 3"),
        "{log} {said}"
    );
    ensure!(
        said.contains("the SSH servers of all 2 tasks answer"),
        "{said}"
    );
    Ok(())
}

/// What an editor such as Visual Studio Code sends to a shell of a machine: a program that serves on a port there, and
/// a line that says that it does.
const EDITOR: &str = "mkdir /tmp/served && echo from the task >/tmp/served/page
httpd -p 127.0.0.1:24190 -h /tmp/served && echo serves; exec cat\n";

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_task_of_another_node_is_used_as_editors_do() -> Result<()> {
    let Some(site) = Site::new(2).await? else {
        return Ok(());
    };
    let node = site.node(1);
    let (key, public) = keygen(node.home().join("key"))?;
    let user = json!({"userssh": {"type": "custom", "value": public}});
    let plugin = json!([{"plugin": "ssh", "parameters": user}]);
    let extra = format!(
        "extras: {}",
        json!({"com.microsoft.pai.runtimeplugin": plugin})
    );
    // One task on each node.
    let job = Job {
        gpu: 8,
        instances: 2,
        memory_mb: MEMORY_MB,
        extra: &extra,
        ..Job::new("open", "sleep 1000")
    };
    submit(node, &job)?;
    let detail = waits(node, "open", &["RUNNING"])?;
    let tasks = detail["roles"][0]["tasks"].as_array().context("tasks")?;
    let is_far = |task: &&Value| task["attempts"][0]["node"] != node.name();
    let task = tasks.iter().find(is_far).context("a task elsewhere")?;
    let login = Login::of(task["ssh"].as_str().context("ssh")?, key)?;
    node.namespace().enter(|| {
        until_listens(&login)?;
        files(node.home(), &login)?;
        edits(&login)
    })?
}

/// A shell that is fed, and a connection through the client's proxy to what the shell has started.
fn edits(login: &Login) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let proxy = listener.local_addr()?.to_string();
    drop(listener);
    let mut client = login.client("ssh", "-p");
    client.args(["-T", "-D", &proxy, &login.target, "sh"]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn()?;
    let mut stdin = client.stdin.take().context("stdin")?;
    stdin.write_all(EDITOR.as_bytes())?;
    let mut said = [0; 7];
    let stdout = client.stdout.as_mut().context("stdout")?;
    stdout.read_exact(&mut said)?;
    ensure!(&said == b"serves\n", "{}", text(&said));
    let page = Command::new("curl")
        .args(["-s", "--max-time", "20", "--socks5-hostname", &proxy])
        .arg("http://localhost:24190/page")
        .output()?;
    ensure!(text(&page.stdout) == "from the task\n", "{page:?}");
    // The end of its input ends the shell.
    drop(stdin);
    let ended = client.wait()?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}
