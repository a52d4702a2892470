//! One task with its logger, and everything it leaves removed.

use std::fs;
use std::io::{PipeReader, PipeWriter, Read, pipe};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use muster_init::exit_report::ExitReport;
use muster_init::logger::LoggerConfig;
use muster_init::task_dir::TaskDir;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::agent::Agent;

const INIT: &str = env!("CARGO_BIN_EXE_muster-init");
const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than the grace that the tests' setups name.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// Which programs the image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// Those of this machine.
    Host,
    /// Busybox as `sh`.
    BusyboxSh,
    /// Busybox by its own name only.
    Busybox,
    /// None.
    Empty,
}

/// How muster-init is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As PID 1 of a new pid namespace.
    Pid1(Image),
    /// As a plain process, which is faster.
    Process,
}

/// Ends a process when dropped, with all that it started.
#[derive(Debug)]
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // muster-init takes its commands with it when asked; killed, it could not.
        let pid = Pid::from_raw(self.0.id().cast_signed());
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && asked.elapsed() < END_PATIENCE {
            let _ = kill(pid, Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A task that runs.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) dir: TaskDir,
    pub(crate) agent: Option<Agent>,
    init: Reaped,
    logger: Reaped,
    _home: TempDir,
}

/// Whether this machine lets us make namespaces.
pub(crate) fn can_run() -> bool {
    let allowed = nix::unistd::geteuid().is_root()
        && Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--mount-proc", "true"])
            .status()
            .is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("SKIPPED: needs root and pid namespaces");
    }
    allowed
}

impl Task {
    pub(crate) fn start(mode: Mode) -> Self {
        Self::start_with(mode, LoggerConfig::default(), true)
    }

    pub(crate) fn start_with(mode: Mode, config: LoggerConfig, with_agent: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        // Deeper than a socket address is long.
        let dir = TaskDir::new(home.path().join("d".repeat(120)));
        fs::create_dir_all(dir.ctl()).unwrap();
        config.store(&dir.logger_config()).unwrap();
        let agent = with_agent.then(|| Agent::listen(&dir.ctl()));
        let (out_reader, out) = pipe().unwrap();
        let (err_reader, err) = pipe().unwrap();
        let logger = start_logger(&dir.log(), out_reader, err_reader);
        let init = start_init(mode, &dir.ctl(), home.path(), (out, err));
        Self {
            dir,
            agent,
            init: Reaped(init),
            logger: Reaped(logger),
            _home: home,
        }
    }

    pub(crate) fn agent(&mut self) -> &mut Agent {
        self.agent.as_mut().unwrap()
    }

    pub(crate) fn init_pid(&self) -> i32 {
        self.init.0.id().cast_signed()
    }

    pub(crate) fn logger_pid(&self) -> i32 {
        self.logger.0.id().cast_signed()
    }

    pub(crate) fn wait_init(&mut self) -> ExitStatus {
        wait(&mut self.init.0)
    }

    pub(crate) fn wait_logger(&mut self) -> ExitStatus {
        wait(&mut self.logger.0)
    }

    pub(crate) fn log(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.log().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn stored(&self) -> Option<ExitReport> {
        ExitReport::load(&self.dir.exit_report()).unwrap()
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let mut end = None;
    until("the process ends", || {
        end = child.try_wait().unwrap();
        end.is_some()
    });
    end.unwrap()
}

/// Waits for a condition, and fails when it does not come.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts it as the shim does: pipes on fd 3 and 4, and waits until it has said on fd 5 that it is
/// ready.
fn start_logger(dir: &Path, out: PipeReader, err: PipeReader) -> Child {
    let (mut ready, ready_writer) = pipe().unwrap();
    let script = r#"exec "$0" log-dir "$1" 3<&0 4<&1 5>&2 </dev/null >/dev/null 2>&1"#;
    let child = Command::new("/bin/bash")
        .args(["-c", script, INIT])
        .arg(dir)
        .stdin(out)
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(err)))
        .stderr(ready_writer)
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    ready.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"\0", "engines wait for a byte");
    child
}

fn start_init(mode: Mode, ctl: &Path, home: &Path, (out, err): (PipeWriter, PipeWriter)) -> Child {
    let mut command = match mode {
        Mode::Process => {
            let mut command = Command::new(INIT);
            command.arg("run").arg(ctl);
            command
        }
        Mode::Pid1(image) => {
            let mut command = Command::new("unshare");
            command
                .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
                .args(["sh", "-c", image_script(image), INIT])
                .args([ctl, &programs(image, home)]);
            command
        }
    };
    command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap()
}

const fn image_script(image: Image) -> &'static str {
    match image {
        Image::Host => r#"exec "$0" run "$1""#,
        _ => r#"mount --bind "$2" /usr/bin && exec "$0" run "$1""#,
    }
}

fn programs(image: Image, home: &Path) -> PathBuf {
    let dir = home.join("bin");
    fs::create_dir(&dir).unwrap();
    let busybox = match image {
        Image::Host | Image::Empty => return dir,
        Image::BusyboxSh => "sh",
        Image::Busybox => "busybox",
    };
    fs::copy("/usr/bin/busybox", dir.join(busybox)).unwrap();
    for applet in ["sleep", "cat", "tr"] {
        symlink(busybox, dir.join(applet)).unwrap();
    }
    dir
}
