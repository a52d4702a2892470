//! What the kernel's files say of a process.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_model::stacks::{FRAMES_MAX, ProcessStack, THREADS_MAX, ThreadStack};
use syscalls::Sysno;

use super::cut;

/// Of a file no more is read.
const FILE_BYTES_MAX: u64 = 128 << 10;
/// Threads of a process that are looked at.
const LOOKED_MAX: usize = 4096;
/// The kernel counts CPU time in these for programs, whatever its own clock is.
const TICK_MS: u64 = 10;
/// Variables with the rank of a process in a parallel program, the most usual first.
const RANKS: &[&str] = &[
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
];

/// The files of one process, or of one of its threads.
#[derive(Clone, Debug)]
pub(super) struct ProcFiles(PathBuf);

/// What `stat` says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcStat {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) parent: u32,
    pub(super) cpu_ms: u64,
}

impl ProcFiles {
    /// Of this process; `proc`: `/proc`, or a tree that stands for it.
    pub(super) fn new(proc: &Path, pid: u32) -> Self {
        Self(proc.join(pid.to_string()))
    }

    /// Of the threads of the process, by their numbers on the machine, in their order. The main one has the number of
    /// the process.
    fn threads(&self) -> Vec<(u32, Self)> {
        let entries = fs::read_dir(self.0.join("task")).into_iter().flatten();
        let named = entries.flatten().filter_map(|entry| {
            let tid = entry.file_name().to_str()?.parse().ok()?;
            Some((tid, Self(entry.path())))
        });
        let mut threads: Vec<_> = named.take(LOOKED_MAX).collect();
        threads.sort_unstable_by_key(|(tid, _)| *tid);
        threads
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = File::open(self.0.join(name)).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(name)?).into_owned())
    }

    pub(super) fn stat(&self) -> Option<ProcStat> {
        parse_stat(&self.text("stat")?)
    }

    /// Its number as programs in the container see it.
    pub(super) fn inner_id(&self) -> Option<u32> {
        parse_inner_id(&self.text("status")?)
    }

    /// Which program it runs, by its path in the container.
    pub(super) fn exe(&self) -> Option<PathBuf> {
        fs::read_link(self.0.join("exe")).ok()
    }

    /// What its memory is mapped from.
    pub(super) fn maps(&self) -> Option<String> {
        let mut bytes = Vec::new();
        let file = File::open(self.0.join("maps")).ok()?;
        file.take(FILE_BYTES_MAX * 32)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A thread as far as the kernel knows it.
    pub(super) fn thread(&self) -> Option<ThreadStack> {
        let ProcStat { name, state, .. } = self.stat()?;
        let syscall = self.text("syscall").and_then(|text| parse_syscall(&text));
        let kernel = self.text("stack").map(|text| parse_kernel(&text));
        Some(ThreadStack {
            tid: self.inner_id().unwrap_or_default(),
            name,
            state,
            syscall: syscall.map(str::to_owned),
            wchan: self.text("wchan").and_then(|text| parse_wchan(&text)),
            kernel: kernel.unwrap_or_default(),
            frames: Vec::new(),
        })
    }

    /// A process as far as it can be told without a look into its memory, which may have to wait; none if it has
    /// ended. Of its threads the main one, or all.
    pub(super) fn process(&self, pid: u32, all_threads: bool) -> Option<ProcessStack> {
        let stat = self.stat()?;
        let threads = self.threads();
        let main = threads.iter().find(|(tid, _)| *tid == pid);
        let others = threads.iter().filter(|(tid, _)| all_threads && *tid != pid);
        let told = main.into_iter().chain(others.take(THREADS_MAX - 1));
        let told: Vec<_> = told.filter_map(|(_, files)| files.thread()).collect();
        Some(ProcessStack {
            pid: self.inner_id().unwrap_or(pid),
            host_pid: pid,
            parent: stat.parent,
            name: cut(&stat.name),
            cpu_ms: stat.cpu_ms,
            threads_left_out: count(threads.len().saturating_sub(told.len())),
            threads: told,
            ..ProcessStack::default()
        })
    }

    /// The thread that programs in the container see under this number.
    pub(super) fn thread_of(&self, inner_id: u32) -> Option<ThreadStack> {
        let threads = self.threads();
        let found = threads
            .iter()
            .find(|(_, files)| files.inner_id() == Some(inner_id));
        found.and_then(|(_, files)| files.thread())
    }

    /// Its command line, and its rank.
    pub(super) fn describe(&self, process: &mut ProcessStack) {
        if let Some(bytes) = self.bytes("cmdline") {
            process.command = cut(&parse_command(&bytes));
        }
        process.rank = self.bytes("environ").and_then(|bytes| parse_rank(&bytes));
    }
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// `12 (a name) S 1 …`: the name may hold anything, what follows it is a letter and numbers.
pub(super) fn parse_stat(text: &str) -> Option<ProcStat> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<_> = after.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(ProcStat {
        name: name.to_owned(),
        state: (*fields.first()?).to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        cpu_ms: ticks(11)?
            .saturating_add(ticks(12)?)
            .saturating_mul(TICK_MS),
    })
}

/// `NSpid: 4711 23`: the last is that of the innermost namespace.
pub(super) fn parse_inner_id(status: &str) -> Option<u32> {
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().last()?.parse().ok()
}

/// The name of the system call in `230 0x0 …`; none of `running`, and of `-1 …`, which is in no call.
pub(super) fn parse_syscall(text: &str) -> Option<&'static str> {
    let number = text.split_whitespace().next()?.parse().ok()?;
    Some(Sysno::new(number)?.name())
}

/// `0` where it waits nowhere, or the kernel does not tell.
pub(super) fn parse_wchan(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text != "0").then(|| cut(text))
}

/// `[<0>] hrtimer_nanosleep+0x74/0xf0` a line.
pub(super) fn parse_kernel(text: &str) -> Vec<String> {
    let lines = text.lines().take(FRAMES_MAX);
    let named = lines.filter_map(|line| line.split_once("] ").map(|(_, rest)| rest));
    let plain = named.map(|rest| rest.split('+').next().unwrap_or(rest));
    plain.map(cut).collect()
}

/// Words apart by zero bytes.
pub(super) fn parse_command(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\0').replace('\0', " ")
}

/// The rank, of an environment. Nothing else of it is told: it holds secrets.
pub(super) fn parse_rank(environment: &[u8]) -> Option<u32> {
    let of = |name: &&str| {
        let mut variables = environment.split(|byte| *byte == 0);
        let value =
            variables.find_map(|it| it.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    RANKS.iter().find_map(of)
}
