//! One network namespace.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace without a name. It lasts until this is dropped and the last process in it
/// has ended.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Makes one that has nothing but its loopback.
    ///
    /// # Errors
    /// When the kernel refuses, as it does to those who are not root.
    pub fn new() -> Result<Self> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare")?;
            File::open("/proc/thread-self/ns/net").context("/proc/thread-self/ns/net")
        };
        let namespace = Self(on_a_thread(make)??);
        namespace.run("ip", &["-batch", "-"], "link set lo up\n")?;
        Ok(namespace)
    }

    /// Runs something on a thread inside; the processes it starts and the sockets it opens are
    /// inside for good.
    ///
    /// # Errors
    /// When the thread cannot enter.
    pub fn enter<T: Send>(&self, run: impl FnOnce() -> T + Send) -> Result<T> {
        on_a_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET).context("setns")?;
            Ok(run())
        })?
    }

    /// Runs a program inside, with `input`, and gives its output.
    ///
    /// # Errors
    /// When it fails, with what it says.
    pub fn run(&self, program: &str, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(program);
        command.args(arguments);
        let output = self.enter(|| fed(&mut command, input))??;
        ensure!(
            output.status.success(),
            "{program} {}: {}{input}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A path that leads here, for `ip link set ... netns` and `nsenter --net=`.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// A namespace belongs to a thread, so whoever changes it takes one of its own.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T> {
    let ended = std::thread::scope(|scope| scope.spawn(run).join());
    ended.map_err(|_| anyhow::anyhow!("a thread in a network namespace panicked"))
}

fn fed(command: &mut Command, input: &str) -> Result<std::process::Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("stdin")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    Ok(child.wait_with_output()?)
}
