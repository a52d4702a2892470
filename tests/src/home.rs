//! A home for one agent under test: its own containerd, namespace and state in a temporary
//! directory, all gone when it is dropped, also after a failed test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::agent::Agent;

const CONTAINERD_LIMIT: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "muster_test";

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
pub struct Home {
    dir: tempfile::TempDir,
    containerd: Option<Child>,
    url: String,
}

impl Home {
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
            "[node]\nadvertise = \"127.0.0.1\"\n[http]\nlisten = \"127.0.0.1:{port}\"\n\
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

    /// containerd's socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("containerd.sock")
    }

    /// Where the agent listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn cgroup_parent(&self) -> String {
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
        Ok(Command::new("timeout")
            .args(["10", "ctr", "-a"])
            .arg(self.socket())
            .args(["-n", NAMESPACE])
            .args(arguments)
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
        let imported = self.muster(&["image", "import", &archive.to_string_lossy()])?;
        ensure!(
            imported.status.success(),
            "{}",
            String::from_utf8_lossy(&imported.stderr)
        );
        Ok(())
    }

    /// Ends every container, then containerd; takes down what they mounted.
    fn clear(&mut self) -> Result<()> {
        if self.containerd.is_none() {
            self.start_containerd()?;
        }
        let tasks = self.ctr(&["tasks", "list", "-q"])?;
        for id in String::from_utf8_lossy(&tasks.stdout).lines() {
            self.ctr(&["tasks", "kill", "-a", "-s", "SIGKILL", id])?;
            self.ctr(&["tasks", "delete", "-f", id])?;
        }
        let containers = self.ctr(&["containers", "list", "-q"])?;
        for id in String::from_utf8_lossy(&containers.stdout).lines() {
            self.ctr(&["containers", "delete", id])?;
        }
        self.kill_containerd()?;
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        let prefix = format!("{}/", self.path().display());
        let mut below: Vec<&str> = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .filter(|target| target.starts_with(&prefix))
            .collect();
        below.sort_unstable();
        for target in below.into_iter().rev() {
            nix::mount::umount2(target, nix::mount::MntFlags::MNT_DETACH)?;
        }
        Ok(())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            eprintln!("{} was not cleared: {error:#}", self.path().display());
        }
    }
}

/// The `muster` binary of the build that this test belongs to.
fn muster() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test
        .parent()
        .and_then(Path::parent)
        .context("the build's folder")?;
    let muster = profile.join("muster");
    if !muster.exists() || !profile.join("muster-init").exists() {
        bail!(
            "{} is not built; run sh deploy/build.sh dev",
            muster.display()
        );
    }
    Ok(muster)
}
