//! Processes that hang in the kernel, and processes that hold device files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::inventory::kernel_file::{entries, numbered, text};

const PROC: &str = "proc";
/// Where the time of the start stands in `stat`, counted from the field after the name.
const START_FIELD: usize = 19;

/// One look at a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReading {
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot: a number that is used again is another
    /// process.
    pub start: u64,
    /// Its name, of at most 15 letters.
    pub name: String,
    /// The kernel's letter: D hangs in the kernel, Z has ended and is not waited for.
    pub state: char,
    /// Whether it is one of Muster's tasks, by its cgroup.
    pub is_task: bool,
    /// The device files that it holds: `/dev/nvidia0`, `/dev/kfd`, `/dev/dri/renderD128`.
    pub devices: Vec<String>,
}

/// The processes that hang in the kernel or hold a device's file, of the machine whose file tree
/// is at `root`. `is_task` says of a cgroup whether it is one of Muster's tasks. No file is read
/// that waits for the process.
pub fn processes(root: &Path, is_task: impl Fn(&str) -> bool) -> Vec<ProcessReading> {
    let all = numbered(root.join(PROC), "").into_iter();
    let readings = all.filter_map(|(pid, dir)| {
        let stat = text(dir.join("stat"))?;
        // The name in brackets may hold anything.
        let (before, rest) = stat.rsplit_once(") ")?;
        let (_, name) = before.split_once('(')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let start = fields.nth(START_FIELD - 1)?.parse().ok()?;
        let devices = held(&dir, state);
        (state == 'D' || !devices.is_empty()).then(|| ProcessReading {
            pid,
            start,
            name: name.to_owned(),
            state,
            is_task: cgroup(&dir).is_some_and(|group| is_task(&group)),
            devices,
        })
    });
    readings.collect()
}

/// The device files that a process holds. A process that has ended may have threads that have
/// not: they still hold its files.
fn held(dir: &Path, state: char) -> Vec<String> {
    let mut held = BTreeSet::new();
    let mut add = |dir: &Path| {
        for (_, file) in entries(dir.join("fd")) {
            let target = fs::read_link(file).ok();
            let target = target.and_then(|path| path.to_str().map(str::to_owned));
            held.extend(target.filter(|path| is_device(path)));
        }
    };
    if state == 'Z' {
        for (_, thread) in entries(dir.join("task")) {
            add(&thread);
        }
    } else {
        add(dir);
    }
    held.into_iter().collect()
}

/// Whether it is the file of a device that computes. `/dev/nvidiactl` and its like are no
/// device's.
fn is_device(path: &str) -> bool {
    let number = path
        .strip_prefix("/dev/nvidia")
        .or_else(|| path.strip_prefix("/dev/dri/renderD"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    number.is_some_and(is_number) || path == "/dev/kfd"
}

/// The path of the process' cgroup, of version 2 or of the hierarchy that systemd names.
fn cgroup(dir: &Path) -> Option<String> {
    let groups = text(dir.join("cgroup"))?;
    let path = |mark: &str| {
        let line = groups.lines().find(|line| line.contains(mark))?;
        Some(line.splitn(3, ':').nth(2)?.to_owned())
    };
    path("0::").or_else(|| path("name=systemd"))
}
