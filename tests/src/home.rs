//! A home for one agent under test: its own containerd, namespace and state in a temporary
//! directory, all gone when it is dropped, also after a failed test.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::agent::Agent;
use crate::disk;

const CONTAINERD_LIMIT: Duration = Duration::from_secs(30);
/// How long what is killed may take to be gone.
const CLEAR_LIMIT: Duration = Duration::from_secs(10);
/// The agent's namespace in containerd.
pub const NAMESPACE: &str = "muster_test";
/// The name of the node.
pub const NODE: &str = "n1";

/// Why the tests that need a real containerd cannot run here, if they cannot. In CI that is a
/// failure, not a reason to skip.
pub fn missing() -> Option<String> {
    let root = nix::unistd::geteuid().is_root();
    let found = |program: &str| {
        Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
    };
    let reason = if !root {
        "not root".to_owned()
    } else if let Some(program) = ["containerd", "runc", "ctr"]
        .into_iter()
        .find(|p| !found(p))
    {
        format!("{program} is not installed")
    } else if !Path::new("/usr/bin/busybox").exists() && !Path::new("/bin/busybox").exists() {
        "busybox-static is not installed".to_owned()
    } else {
        return None;
    };
    assert!(
        std::env::var_os("CI").is_none(),
        "in CI nothing is skipped: {reason}"
    );
    eprintln!("SKIPPED: {reason}; see deploy/test.sh");
    Some(reason)
}

/// A temporary home with a running containerd.
#[derive(Debug)]
pub struct AgentHome {
    dir: tempfile::TempDir,
    containerd: Option<Child>,
    url: String,
}

impl AgentHome {
    /// Makes a home whose `agent.toml` holds `extra` besides what a test needs.
    ///
    /// # Errors
    /// When containerd does not come up.
    pub fn new(extra: &str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("muster-test-").tempdir()?;
        // The port is free now and was asked of the kernel, so nobody else is told it.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut home = Self {
            dir,
            containerd: None,
            url: format!("http://127.0.0.1:{port}"),
        };
        let config = format!(
            "[node]\nname = \"{NODE}\"\nadvertise = \"127.0.0.1\"\n[http]\nlisten = \"127.0.0.1:{port}\"\n\
             [containerd]\nsocket = \"{}\"\nnamespace = \"{NAMESPACE}\"\n\
             cgroup_parent = \"{}\"\n{extra}\n",
            home.socket().display(),
            home.cgroup_parent(),
        );
        std::fs::write(home.path().join("agent.toml"), config)?;
        home.start_containerd()?;
        Ok(home)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Adds lines to `agent.toml`, for the agent that starts next.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn configure(&self, lines: &str) -> Result<()> {
        let path = self.path().join("agent.toml");
        let text = std::fs::read_to_string(&path)?;
        std::fs::write(&path, text + lines)?;
        Ok(())
    }

    /// containerd's socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("containerd.sock")
    }

    /// Where the agent listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The parent of the control groups of all tasks of this home.
    pub fn cgroup_parent(&self) -> String {
        let name = self
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
    }

    /// Starts containerd, which must not run.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub fn start_containerd(&mut self) -> Result<()> {
        let config = self.path().join("containerd.toml");
        std::fs::write(
            &config,
            format!(
                "version = 2\nroot = \"{0}/root\"\nstate = \"{0}/run\"\n\
                 disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
                 [grpc]\n  address = \"{0}/containerd.sock\"\n",
                self.path().display()
            ),
        )?;
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path().join("containerd.log"))?;
        let child = Command::new("containerd")
            .arg("--config")
            .arg(&config)
            .env("PATH", self.search_path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("containerd")?;
        self.containerd = Some(child);
        let start = Instant::now();
        while !self.ctr(&["version"]).is_ok_and(|out| out.status.success()) {
            ensure!(
                start.elapsed() < CONTAINERD_LIMIT,
                "containerd does not answer"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Where containerd looks for programs: first in the home, for tests that play one.
    fn search_path(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.path().join("bin").display())
    }

    /// Has containers start without the locked-memory limit that tasks of the fabric ask for: root
    /// of a container may not raise it.
    ///
    /// # Errors
    /// When the program that does so cannot be written.
    pub fn keep_memory_limit(&self) -> Result<()> {
        let real = ["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"];
        let real = real.iter().find(|path| Path::new(path).exists());
        let real = real.context("runc")?;
        let script = format!(
            "#!/bin/sh\nlast=\nfor word in \"$@\"; do\n  [ \"$last\" = --bundle ] && \
             sed -i 's/,{{[^{{}}]*RLIMIT_MEMLOCK[^{{}}]*}}//' \"$word/config.json\"\n  last=$word\ndone\n\
             exec {real} \"$@\"\n"
        );
        let folder = self.path().join("bin");
        std::fs::create_dir_all(&folder)?;
        let program = folder.join("runc");
        std::fs::write(&program, script)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// containerd's pid.
    pub fn containerd_pid(&self) -> Option<u32> {
        self.containerd.as_ref().map(Child::id)
    }

    /// Kills containerd as a crash would.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill_containerd(&mut self) -> Result<()> {
        if let Some(mut child) = self.containerd.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Runs `ctr` in the agent's namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn ctr(&self, arguments: &[&str]) -> Result<Output> {
        self.ctr_in(NAMESPACE, arguments)
    }

    fn ctr_in(&self, namespace: &str, arguments: &[&str]) -> Result<Output> {
        Ok(Command::new("timeout")
            .args(["10", "ctr", "-a"])
            .arg(self.socket())
            .args(["-n", namespace])
            .args(arguments)
            .stdin(Stdio::null())
            .output()?)
    }

    /// Runs the command line, and ends it when it takes longer than `limit`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn muster_for(&self, arguments: &[&str], limit: Duration) -> Result<Output> {
        Ok(Command::new("timeout")
            .arg(limit.as_secs_f64().to_string())
            .arg(muster()?)
            .args(arguments)
            .env("MUSTER_HOME", self.path())
            .stdin(Stdio::null())
            .output()?)
    }

    /// Runs the command line against this home's agent.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn muster(&self, arguments: &[&str]) -> Result<Output> {
        Ok(Command::new(muster()?)
            .args(arguments)
            .env("MUSTER_HOME", self.path())
            .stdin(Stdio::null())
            .output()?)
    }

    /// Starts the agent.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn agent(&self) -> Result<Agent> {
        Agent::start(&muster()?, self.path(), &self.url)
    }

    /// Makes and imports `muster/busybox`.
    ///
    /// # Errors
    /// When either fails.
    pub fn import_busybox(&self) -> Result<()> {
        let archive = self.busybox()?;
        let imported = self.muster(&["image", "import", &archive.to_string_lossy()])?;
        ensure!(
            imported.status.success(),
            "{}",
            String::from_utf8_lossy(&imported.stderr)
        );
        Ok(())
    }

    /// Puts the state on a disk of its own that holds `bytes`. No agent may run yet.
    ///
    /// # Errors
    /// When it cannot be mounted.
    pub fn mount_state(&self, bytes: u64) -> Result<()> {
        disk::mount_at(&self.state(), bytes)
    }

    /// Makes the state's disk read-only. It must be mounted, and no agent may run.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn freeze_state(&self) -> Result<()> {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(
            None::<&str>,
            &self.state(),
            None::<&str>,
            flags,
            None::<&str>,
        )?;
        Ok(())
    }

    /// The agent's state directory.
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Lets containerd hang, or go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal_containerd(&self, signal: Signal) -> Result<()> {
        let pid = self.containerd_pid().context("containerd does not run")?;
        kill(Pid::from_raw(pid.try_into()?), signal)?;
        Ok(())
    }

    /// Takes down everything, as far as it goes.
    fn clear(&mut self) -> Result<()> {
        let ended = self.end_containers();
        self.kill_containerd()?;
        let killed = self.kill_leftovers();
        disk::unmount_below(self.path())?;
        ended.and(killed)
    }

    /// What a test that failed half-way left behind: processes in this home's cgroups, and those
    /// that name this home in their command line, as shims and loggers do.
    fn kill_leftovers(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let left = [self.pids_in_cgroups(), self.pids_that_name_us()].concat();
            let gone = left.is_empty() && !self.cgroups().iter().any(|dir| dir.exists());
            if gone {
                return Ok(());
            }
            ensure!(start.elapsed() < CLEAR_LIMIT, "left behind: {left:?}");
            for pid in left {
                // It may have ended by itself.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            for dir in self.cgroups() {
                remove_cgroup(&dir);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The parent of this home's cgroups, in each hierarchy.
    fn cgroups(&self) -> Vec<PathBuf> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let hierarchies = std::fs::read_dir(&root).into_iter().flatten().flatten();
        let hierarchies = hierarchies.map(|entry| entry.path());
        hierarchies
            .chain([root])
            .map(|hierarchy| hierarchy.join(self.cgroup_parent()))
            .collect()
    }

    fn pids_in_cgroups(&self) -> Vec<i32> {
        let below = self
            .cgroups()
            .into_iter()
            .flat_map(|dir| subdirectories(&dir));
        let texts = below.filter_map(|dir| std::fs::read_to_string(dir.join("cgroup.procs")).ok());
        let pids = texts.flat_map(|text| {
            let pids = text.lines().map(str::parse);
            pids.filter_map(Result::ok).collect::<Vec<i32>>()
        });
        pids.filter(|pid| *pid != 0).collect()
    }

    fn pids_that_name_us(&self) -> Vec<i32> {
        let mark = format!("{}/", self.path().display());
        let names_us = |pid: &i32| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&mark))
        };
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(names_us)
            .collect()
    }

    fn end_containers(&mut self) -> Result<()> {
        match self.containerd {
            Some(_) => self.signal_containerd(Signal::SIGCONT)?,
            None => self.start_containerd()?,
        }
        let namespaces = self.ctr(&["namespaces", "list", "-q"])?;
        for namespace in String::from_utf8_lossy(&namespaces.stdout).lines() {
            self.end_containers_in(namespace)?;
        }
        Ok(())
    }

    fn end_containers_in(&self, namespace: &str) -> Result<()> {
        let ctr = |arguments: &[&str]| self.ctr_in(namespace, arguments);
        let tasks = ctr(&["tasks", "list", "-q"])?;
        for id in String::from_utf8_lossy(&tasks.stdout).lines() {
            ctr(&["tasks", "kill", "-a", "-s", "SIGKILL", id])?;
            ctr(&["tasks", "delete", "-f", id])?;
        }
        let containers = ctr(&["containers", "list", "-q"])?;
        for id in String::from_utf8_lossy(&containers.stdout).lines() {
            ctr(&["containers", "delete", id])?;
        }
        Ok(())
    }

    /// Makes the archive of the image `muster/busybox`.
    ///
    /// # Errors
    /// When the script fails.
    pub fn busybox(&self) -> Result<PathBuf> {
        let archive = self.path().join("busybox.tar");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/busybox-image.sh");
        let made = Command::new("sh")
            .arg(script)
            .arg("muster/busybox")
            .arg(&archive)
            .output()?;
        ensure!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        Ok(archive)
    }
}

impl Drop for AgentHome {
    fn drop(&mut self) {
        if let Some(kept) = std::env::var_os("MUSTER_TEST_LOGS") {
            let name = self.path().file_name().unwrap_or_default();
            // For a person who looks into a failure.
            let _ = std::fs::copy(self.path().join("agent.log"), Path::new(&kept).join(name));
        }
        if let Err(error) = self.clear() {
            eprintln!("{} was not cleared: {error:#}", self.path().display());
        }
    }
}

/// A directory and all below it, the deepest last.
fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    let mut next = 0;
    while let Some(dir) = found.get(next) {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let below = entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir());
        found.extend(below.collect::<Vec<_>>());
        next += 1;
    }
    found
}

/// runc leaves the parents. What still holds a process stays for the next try.
fn remove_cgroup(dir: &Path) {
    for dir in subdirectories(dir).iter().rev() {
        let _ = std::fs::remove_dir(dir);
    }
}

/// The `muster` binary of the build that this test or program belongs to.
///
/// # Errors
/// When it is not built.
pub fn muster() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("the build's folder")?;
    // Tests lie one deeper than programs.
    let profile = match folder.ends_with("deps") {
        true => folder.parent().context("the build's folder")?,
        false => folder,
    };
    let muster = profile.join("muster");
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = profile
        .parent()
        .zip(profile.file_name())
        .context("the build's folder")?;
    let init = folder.0.join(target).join(folder.1).join("muster-init");
    if !muster.exists() || !init.exists() {
        bail!(
            "{} or {} is not built; run sh deploy/build.sh dev",
            muster.display(),
            init.display()
        );
    }
    Ok(muster)
}
