//! A containerd of one test's own: its root, state and socket lie in a temporary directory,
//! and nothing of it stays when the value is dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

use crate::engine::containerd::ContainerdConfig;

/// The daemon answers well within this, even on a loaded machine.
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
/// The namespace that tests use.
const NAMESPACE: &str = "muster";

/// Why this machine cannot run a containerd.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Only root can.
    #[error("this user is not root")]
    NotRoot,
    /// The programs are missing.
    #[error("{0} is not installed")]
    NotInstalled(String),
    /// It was tried.
    #[error("containerd does not start")]
    Start(#[from] io::Error),
}

/// A running containerd. Dropping it removes its containers, stops it and deletes its files.
#[derive(Debug)]
pub struct PrivateContainerd {
    dir: TempDir,
    cgroup_parent: String,
    runtime: String,
    daemon: Child,
}

impl PrivateContainerd {
    /// Starts one that makes containers with `runtime`, and waits until it answers.
    pub fn start(runtime: &str) -> Result<Self, Unavailable> {
        if !geteuid().is_root() {
            return Err(Unavailable::NotRoot);
        }
        for program in ["containerd", "ctr", runtime] {
            let installed = Command::new(program).arg("--version").output().is_ok();
            if !installed {
                return Err(Unavailable::NotInstalled(program.to_owned()));
            }
        }
        let dir = tempfile::Builder::new()
            .prefix("muster-containerd-")
            .tempdir()?;
        std::fs::write(dir.path().join("config.toml"), config(dir.path()))?;
        let daemon = spawn(dir.path(), runtime)?;
        let cgroup_parent = format!("muster_test_{}", daemon.id());
        let containerd = Self {
            dir,
            cgroup_parent,
            runtime: runtime.to_owned(),
            daemon,
        };
        containerd.wait_until_ready()?;
        Ok(containerd)
    }

    /// Like [`PrivateContainerd::start`], but says what a machine lacks and gives `None`, so
    /// that the caller can skip. Where `CI` is set nothing may be skipped, and it panics.
    #[allow(clippy::panic)]
    pub fn start_or_skip(test: &str, runtime: &str) -> Option<Self> {
        let reason = match Self::start(runtime) {
            Ok(containerd) => return Some(containerd),
            Err(reason) => reason,
        };
        assert!(
            std::env::var_os("CI").is_none(),
            "{test} must run where CI is set: {reason}"
        );
        eprintln!("SKIPPED {test}: {reason}");
        None
    }

    /// How to connect to it.
    pub fn config(&self) -> ContainerdConfig {
        ContainerdConfig {
            socket: self.socket(),
            namespace: NAMESPACE.to_owned(),
            runtime: self.runtime.clone(),
            cgroup_parent: self.cgroup_parent.clone(),
            cdi_dirs: vec![self.dir.path().join("cdi")],
            ..ContainerdConfig::default()
        }
    }

    /// Its directory, for a test's own files too.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("containerd.sock")
    }

    /// Imports an image archive with containerd's own tool, unpacked.
    pub fn import(&self, archive: &Path) -> io::Result<()> {
        let archive = archive.to_string_lossy();
        let output = self.ctr(&["images", "import", &archive])?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }

    /// Runs containerd's own tool on it.
    pub fn ctr(&self, args: &[&str]) -> io::Result<Output> {
        Command::new("ctr")
            .arg("--address")
            .arg(self.socket())
            .args(["--namespace", NAMESPACE])
            .args(args)
            .output()
    }

    /// Stops it for a moment without ending it, as a hang would, or lets it go on.
    pub fn freeze(&self, frozen: bool) -> io::Result<()> {
        let signal = if frozen {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        kill(pid(&self.daemon), signal)?;
        // A stop reaches threads that run on another core a moment later.
        let deadline = Instant::now() + START_MAX;
        while frozen && !self.is_stopped()? {
            if Instant::now() > deadline {
                return Err(io::Error::other("it does not stop"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether every thread of it is stopped.
    fn is_stopped(&self) -> io::Result<bool> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.daemon.id()))? {
            let stat = std::fs::read_to_string(thread?.path().join("stat"))?;
            // The state follows the name, which may hold anything.
            if !stat
                .rsplit(')')
                .next()
                .is_some_and(|rest| rest.starts_with(" T"))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends it, its containers living on, and starts it anew.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop_daemon();
        self.daemon = spawn(self.dir.path(), &self.runtime)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let deadline = Instant::now() + START_MAX;
        while !self.ctr(&["version"])?.status.success() {
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "no answer in time; its log: {log}"
                )));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Asks it to end, and kills it if it does not.
    fn stop_daemon(&mut self) {
        let _ = kill(pid(&self.daemon), Signal::SIGCONT);
        let _ = kill(pid(&self.daemon), Signal::SIGTERM);
        let deadline = Instant::now() + STOP_MAX;
        while matches!(self.daemon.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.daemon.kill();
                let _ = self.daemon.wait();
            }
            thread::sleep(POLL);
        }
    }

    /// Ends every container's process; its shim goes with it.
    fn end_containers(&self) {
        let Ok(list) = self.ctr(&["tasks", "list", "--quiet"]) else {
            return;
        };
        for name in String::from_utf8_lossy(&list.stdout).lines() {
            let _ = self.ctr(&["tasks", "delete", "--force", name]);
        }
    }

    /// Unmounts whatever is mounted below the directory, innermost first.
    fn unmount(&self) {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let ours = |target: &&str| Path::new(target).starts_with(self.dir.path());
        let targets: Vec<&str> = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(1))
            .collect();
        for target in targets.into_iter().filter(ours).rev() {
            let _ = umount2(target, MntFlags::MNT_DETACH);
        }
    }

    /// Removes the containers' parent control group from every hierarchy.
    fn remove_cgroups(&self) {
        let Ok(hierarchies) = Path::new("/sys/fs/cgroup").read_dir() else {
            return;
        };
        let own = hierarchies
            .flatten()
            .map(|entry| entry.path().join(&self.cgroup_parent));
        for dir in own.chain([Path::new("/sys/fs/cgroup").join(&self.cgroup_parent)]) {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

impl Drop for PrivateContainerd {
    fn drop(&mut self) {
        let _ = self.freeze(false);
        self.end_containers();
        self.stop_daemon();
        self.unmount();
        self.remove_cgroups();
    }
}

/// Starts the daemon. For crun, which gives up where cgroup controllers are in two places, it is
/// started in a mount namespace that has the first place only.
fn spawn(dir: &Path, runtime: &str) -> io::Result<Child> {
    let log = std::fs::File::create(dir.join("log"))?;
    let mut command = Command::new("containerd");
    if runtime == "crun" {
        command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.args([WITHOUT_UNIFIED, "containerd"]);
    }
    command
        .arg("--config")
        .arg(dir.join("config.toml"))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

const WITHOUT_UNIFIED: &str = "
    ! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
    exec containerd \"$@\"";

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

fn config(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        r#"version = 2
root = "{dir}/root"
state = "{dir}/state"
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.restart",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{dir}/containerd.sock"
[ttrpc]
  address = "{dir}/containerd.sock.ttrpc"
"#
    )
}
