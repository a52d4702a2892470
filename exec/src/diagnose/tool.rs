//! Tests that vendors make: run where they are installed.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use muster_model::diagnosis::Diagnosis;
use muster_model::health::HealthState;
use muster_model::inventory::{AcceleratorKind, Inventory};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::DiagnoseConfig;

/// Of an output so much of its end is kept at least.
const KEPT_BYTES: usize = 256 << 10;
/// Between two looks whether a program has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// A program and how it is run on this machine.
#[derive(Clone, Debug)]
pub(super) struct ToolTest {
    pub(super) program: &'static str,
    arguments: Vec<String>,
    /// What it tests.
    part: &'static str,
    /// The line that tells the figure begins with this, after spaces and signs of comments.
    figure: &'static str,
    /// A line with this says that a device failed, whatever the exit status is.
    failure: &'static str,
    /// Where it comes from.
    package: &'static str,
}

/// The tests for a machine's devices.
pub(super) fn tests_of(inventory: &Inventory) -> Vec<ToolTest> {
    let of = |vendor: &str| {
        let devices = inventory.devices.iter();
        let gpus =
            devices.filter(|device| device.vendor == vendor && device.kind == AcceleratorKind::Gpu);
        gpus.filter(|device| device.partition_of.is_none()).count()
    };
    let (nvidia, amd) = (of("nvidia"), of("amd"));
    let test = |program, arguments: &[&str], (figure, failure), package| ToolTest {
        program,
        arguments: arguments.iter().map(|&it| it.to_owned()).collect(),
        part: "gpus",
        figure,
        failure,
        package,
    };
    let mut tests = Vec::new();
    if nvidia > 0 {
        let dcgm = "NVIDIA's package datacenter-gpu-manager";
        tests.push(test("dcgmi", &["diag", "-r", "3"], ("Error", "Fail"), dcgm));
        let copy = ("SUM", "ERROR");
        tests.push(test("nvbandwidth", &[], copy, "NVIDIA/nvbandwidth"));
        let burn = ("GPU", "FAULTY");
        tests.push(test("gpu_burn", &["60"], burn, "wilicc/gpu-burn"));
    }
    if amd > 0 {
        let validation = "AMD's package rocm-validation-suite";
        tests.push(test("rvs", &[], ("RVS", "FAIL"), validation));
    }
    let all = nvidia.max(amd).to_string();
    if nvidia > 1 || amd > 1 {
        let sizes = ["-b", "8M", "-e", "512M", "-f", "2", "-g", &all];
        let figure = ("Avg bus bandwidth", "FAILED");
        tests.push(test(
            "all_reduce_perf",
            &sizes,
            figure,
            "nccl-tests, or rccl-tests",
        ));
    }
    tests
}

/// Runs one, for as long as it may.
pub(super) fn run(config: &DiagnoseConfig, test: &ToolTest) -> Diagnosis {
    let (state, evidence) = match find(config, test.program) {
        None => {
            let what = format!(
                "{} is not installed; it is in {}",
                test.program, test.package
            );
            (HealthState::Unknown, what)
        }
        Some(program) => ended(&program, test, config.limit),
    };
    Diagnosis {
        test: test.program.to_owned(),
        part: test.part.to_owned(),
        state,
        evidence,
        took_ms: 0,
    }
}

fn find(config: &DiagnoseConfig, program: &str) -> Option<PathBuf> {
    let mut places = config.path.iter().map(|dir| dir.join(program));
    places.find(|place| place.is_file())
}

fn ended(program: &PathBuf, test: &ToolTest, limit: Duration) -> (HealthState, String) {
    let mut command = Command::new("/bin/sh");
    // Both outputs in one, in their order.
    command
        .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
        .arg(program)
        .args(&test.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return (
                HealthState::Unknown,
                format!("it cannot be started: {error}"),
            );
        }
    };
    let lines = read(&mut child);
    let status = wait(&mut child, limit);
    let lines = lines.join().unwrap_or_default();
    judged(test, status, &lines, limit)
}

/// Reads the output to its end, and keeps the last lines. Programs that show their progress end a line with CR.
fn read(child: &mut Child) -> thread::JoinHandle<Vec<String>> {
    let output = child.stdout.take();
    thread::spawn(move || {
        let (mut kept, mut part) = (Vec::new(), [0; 8192]);
        if let Some(mut output) = output {
            // What cannot be read any more is the end.
            while let Ok(length @ 1..) = output.read(&mut part) {
                kept.extend_from_slice(&part[..length]);
                if kept.len() > 2 * KEPT_BYTES {
                    kept.drain(..kept.len() - KEPT_BYTES);
                }
            }
        }
        let text = String::from_utf8_lossy(&kept);
        let lines = text.split(['\n', '\r']);
        lines.map(|line| line.trim().to_owned()).collect()
    })
}

/// The exit status; none if it had to be killed, with all that it started.
fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status.code().unwrap_or(-1)),
            Ok(None) if begun.elapsed() < limit => thread::sleep(PAUSE),
            Ok(None) | Err(_) => break None,
        }
    };
    // What it started may hold its output open.
    if let Ok(group) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.wait();
    status
}

fn judged(
    test: &ToolTest,
    status: Option<i32>,
    lines: &[String],
    limit: Duration,
) -> (HealthState, String) {
    let Some(status) = status else {
        let what = format!("it did not end within {} seconds", limit.as_secs());
        return (HealthState::Bad, what);
    };
    let failed = lines.iter().rev().find(|line| line.contains(test.failure));
    let figure = |line: &&String| line.trim_start_matches(['#', ' ']).starts_with(test.figure);
    let last = lines.iter().rev().find(|line| !line.is_empty());
    let told = failed.or_else(|| lines.iter().rev().find(figure)).or(last);
    let told = told.map_or("it printed nothing", String::as_str);
    match (status, failed) {
        (0, None) => (HealthState::Good, told.to_owned()),
        (0, Some(_)) => (HealthState::Bad, told.to_owned()),
        (status, _) => (HealthState::Bad, format!("exit status {status}: {told}")),
    }
}
