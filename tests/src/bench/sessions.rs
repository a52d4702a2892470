//! A command in a task of another node until its first byte, against `ctr task exec` in the same container on its own
//! node; and a file copied into that task, against `ssh cat` between the same two nodes. The sides in turn.

use std::fs::File;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::job::Job;
use muster_tests::net::BareNode;
use muster_tests::site::Site;
use serde_json::{Value, json};

use crate::sample::{Sample, round};
use crate::unique;

/// Turns that are not counted.
const WARM_UP: usize = 3;
/// How long a job may take until it runs, or a server until it answers.
const LIMIT: Duration = Duration::from_secs(60);
/// What the issue of a way into tasks allows.
const FIRST_BYTE_MS_MAX: f64 = 60.0;
const FIRST_BYTE_RATIO_MAX: f64 = 1.5;
const COPY_RATIO_MIN: f64 = 0.7;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionsArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// Commands of each side.
    #[arg(long, default_value_t = 100)]
    n: usize,
    /// Copies of each side.
    #[arg(long, default_value_t = 3)]
    copies: usize,
    /// The size of the file, MiB.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
}

pub(crate) async fn run(arguments: &SessionsArguments) -> Result<Value> {
    let site = Site::running(&arguments.muster, 2).await?;
    let site = site.context("containers or network namespaces cannot be made here")?;
    let scene = Scene::new(&site, &arguments.muster)?;
    let (mut ours, mut peer) = (Sample::new()?, Sample::new()?);
    for nth in 0..WARM_UP + arguments.n {
        let (one, other) = (scene.exec(&["true-word"])?, scene.ctr(nth)?);
        if nth >= WARM_UP {
            ours.add(one);
            peer.add(other);
        }
    }
    let (mut put, mut get, mut ssh) = (Sample::new()?, Sample::new()?, Sample::new()?);
    let server = SshServer::start(scene.far, arguments.mib)?;
    for nth in 0..=arguments.copies {
        let (one, two) = (scene.put(&server.file)?, scene.get(&server.home)?);
        let three = server.copy(scene.near)?;
        eprintln!("cp to the task {one:?}, from it {two:?}, ssh {three:?}");
        if nth > 0 {
            put.add(one);
            get.add(two);
            ssh.add(three);
        }
    }
    let ratio = round(ours.ms(0.5) / peer.ms(0.5));
    let rate = |sample: &Sample| round(arguments.mib as f64 * 1000.0 / sample.ms(0.5));
    let copied = round(rate(&put) / rate(&ssh));
    Ok(json!({
        "bench": "sessions", "n": arguments.n, "copies": arguments.copies, "file_mib": arguments.mib,
        "exec_first_byte_p50_ms": ours.ms(0.5), "exec_first_byte_p99_ms": ours.ms(0.99),
        "ctr_first_byte_p50_ms": peer.ms(0.5), "ctr_first_byte_p99_ms": peer.ms(0.99),
        "ratio_p50": ratio,
        "exec_met": ours.ms(0.5) <= FIRST_BYTE_MS_MAX && ratio <= FIRST_BYTE_RATIO_MAX,
        "cp_to_mib_s": rate(&put), "cp_from_mib_s": rate(&get), "ssh_cat_mib_s": rate(&ssh),
        "cp_to_ratio": copied, "cp_from_ratio": round(rate(&get) / rate(&ssh)),
        "cp_met": copied >= COPY_RATIO_MIN,
    }))
}

/// A task on the second of two nodes, which is entered from the first.
struct Scene<'a> {
    near: &'a BareNode,
    far: &'a BareNode,
    muster: &'a Path,
    socket: PathBuf,
    task: String,
    container: String,
}

impl<'a> Scene<'a> {
    fn new(site: &'a Site, muster: &'a Path) -> Result<Self> {
        let (near, far) = (site.node(1), site.node(2));
        let name = unique("sessions");
        // One task on each node.
        let job = Job {
            instances: 2,
            gpu: 8,
            ..Job::new(&name, "sleep 1d")
        };
        let file = near.home().join("sessions.yaml");
        std::fs::write(&file, job.yaml())?;
        near.prints(&["job", "submit", &file.to_string_lossy()])?;
        let begin = Instant::now();
        let detail = loop {
            let detail = near.json(&["job", "show", &name])?;
            if detail["state"] == "RUNNING" {
                break detail;
            }
            ensure!(begin.elapsed() < LIMIT, "{detail:#}");
            std::thread::sleep(Duration::from_millis(100));
        };
        let tasks = detail["roles"][0]["tasks"].as_array().context("tasks")?;
        let on_far = |task: &&Value| task["attempts"][0]["node"] == far.name();
        let task = tasks.iter().find(on_far).context("no task there")?;
        let mut scene = Self {
            near,
            far,
            muster,
            socket: site.engine.socket(),
            task: format!("{name}:main:{}", task["id"]["index"]),
            container: String::new(),
        };
        let listed = scene
            .ctr_command(&["containers", "list", "-q"])
            .output()?
            .stdout;
        scene.container = String::from_utf8(listed)?.trim().to_owned();
        Ok(scene)
    }

    fn muster_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.muster);
        command.args(arguments).env("MUSTER_HOME", self.near.home());
        command
    }

    fn ctr_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ctr");
        command.arg("-a").arg(&self.socket);
        command.args(["-n", &format!("muster_{}", self.far.name())]);
        command.args(arguments);
        command
    }

    /// Through the first node.
    fn exec(&self, words: &[&str]) -> Result<Duration> {
        let arguments = [&["job", "exec", &self.task, "--", "echo"], words].concat();
        first_byte(self.near, self.muster_command(&arguments))
    }

    /// On the second one.
    fn ctr(&self, nth: usize) -> Result<Duration> {
        let id = format!("bench-{nth}");
        let arguments = [
            "task",
            "exec",
            "--exec-id",
            &id,
            &self.container,
            "echo",
            "true-word",
        ];
        first_byte(self.far, self.ctr_command(&arguments))
    }

    fn put(&self, file: &Path) -> Result<Duration> {
        let to = format!("{}:/tmp/copied", self.task);
        timed(
            self.near,
            self.muster_command(&["job", "cp", &file.to_string_lossy(), &to]),
        )
    }

    fn get(&self, home: &Path) -> Result<Duration> {
        let from = format!("{}:/tmp/copied", self.task);
        let to = home.join("back");
        timed(
            self.near,
            self.muster_command(&["job", "cp", &from, &to.to_string_lossy()]),
        )
    }
}

/// From the start of a program in a node's namespace until the first byte that it prints. It is to succeed.
fn first_byte(node: &BareNode, mut command: Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    node.namespace().enter(move || {
        let begin = Instant::now();
        let mut child = command.spawn()?;
        let mut byte = [0];
        child
            .stdout
            .as_mut()
            .context("stdout")?
            .read_exact(&mut byte)?;
        let time = begin.elapsed();
        let status = child.wait()?;
        ensure!(status.success(), "{command:?}: {status}");
        Ok(time)
    })?
}

/// From the start of a program in a node's namespace until its end. It is to succeed.
fn timed(node: &BareNode, mut command: Command) -> Result<Duration> {
    command.stdout(Stdio::null());
    node.namespace().enter(move || {
        let begin = Instant::now();
        let output = command.output()?;
        let time = begin.elapsed();
        ensure!(output.status.success(), "{command:?}: {output:?}");
        Ok(time)
    })?
}

/// OpenSSH's server on the second node, and the file that is copied.
struct SshServer {
    child: Child,
    home: PathBuf,
    file: PathBuf,
    address: String,
    port: u16,
}

impl SshServer {
    fn start(node: &BareNode, mib: u64) -> Result<Self> {
        let home = node.home().join("ssh");
        std::fs::create_dir(&home)?;
        let file = home.join("file");
        // What cannot be compressed, as checkpoints cannot.
        let mut random = File::open("/dev/urandom")?.take(mib << 20);
        std::io::copy(&mut random, &mut File::create(&file)?)?;
        for name in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-N", "", "-t", "ed25519", "-f"])
                .arg(home.join(name))
                .status()?;
            ensure!(made.success(), "ssh-keygen");
        }
        std::fs::rename(home.join("user.pub"), home.join("authorized"))?;
        // OpenSSH's server asks for this directory.
        std::fs::create_dir_all("/run/sshd")?;
        let port = node.namespace().enter(|| {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            anyhow::Ok(listener.local_addr()?.port())
        })??;
        let config = home.join("config");
        let at = home.display();
        std::fs::write(
            &config,
            format!(
                "Port {port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\n\
                 PidFile none\nPermitRootLogin yes\n"
            ),
        )?;
        let mut command = Command::new("/usr/sbin/sshd");
        command.arg("-D").arg("-f").arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = node.namespace().enter(|| command.spawn())??;
        Ok(Self {
            child,
            file,
            address: node.address().to_string(),
            port,
            home,
        })
    }

    /// Sends the file through `ssh` to `cat` on the other node.
    fn copy(&self, from: &BareNode) -> Result<Duration> {
        let begin = Instant::now();
        loop {
            let mut command = Command::new("ssh");
            command.args(["-F", "none", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]);
            command.args(["-o", "StrictHostKeyChecking=no"]);
            command.args(["-o", "UserKnownHostsFile=/dev/null", "-p"]);
            command.arg(self.port.to_string()).arg("-i");
            command
                .arg(self.home.join("user"))
                .arg(format!("root@{}", self.address))
                .arg(format!("cat >{}/sent", self.home.display()))
                .stdin(File::open(&self.file)?);
            match timed(from, command) {
                // The server has just been started.
                Err(error) if begin.elapsed() > LIMIT => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
                done => return done,
            }
        }
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
