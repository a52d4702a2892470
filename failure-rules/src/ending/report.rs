//! What launchers, shells and make report of the programs that they ran.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::bytes::{Captures, Regex};

use super::lines::EndLine;

/// The program that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Launcher {
    /// torchrun, and accelerate with several processes.
    Torchrun,
    /// Whatever Python program starts another one: accelerate with one process.
    Python,
    /// Open MPI's mpirun.
    OpenMpi,
    /// MPICH's mpirun.
    Mpich,
    /// deepspeed.
    Deepspeed,
    /// Slurm's srun.
    Srun,
    /// make.
    Make,
    /// bash, dash, GNU time.
    Shell,
}

impl Launcher {
    pub(crate) const NAMES: [(&str, Self); 8] = [
        ("torchrun", Self::Torchrun),
        ("python", Self::Python),
        ("openmpi", Self::OpenMpi),
        ("mpich", Self::Mpich),
        ("deepspeed", Self::Deepspeed),
        ("srun", Self::Srun),
        ("make", Self::Make),
        ("shell", Self::Shell),
    ];
}

/// How a program ended, as its launcher says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndReport {
    pub(crate) launcher: Launcher,
    pub(crate) end: ReportedEnd,
    /// The line that says so.
    pub(crate) place: Range<usize>,
    /// No line of a program follows that is not about the same end.
    pub(crate) is_last: bool,
}

impl EndReport {
    /// Whether the launcher ended with the program's own code, or one of its own, above 128 though no signal came.
    pub(crate) fn is_own_number(&self) -> bool {
        self.launcher == Launcher::OpenMpi && matches!(self.end, ReportedEnd::Exit(_))
    }

    /// Whether it may be why the command ended with a code. A shell goes on after a program that it reports.
    pub(crate) fn may_lead_to(&self, code: i32) -> bool {
        self.launcher != Launcher::Shell || self.is_last || self.end.code() == code
    }
}

/// An exit code or a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedEnd {
    Exit(i32),
    Signal(i32),
}

/// What launchers say in a log.
#[derive(Debug, Default)]
pub(super) struct Reports {
    found: Vec<FoundReport>,
    is_of_report: Vec<bool>,
}

#[derive(Debug)]
struct FoundReport {
    report: EndReport,
    line: usize,
    rank: Option<u32>,
}

impl Reports {
    /// Whether no launcher says anything of an end.
    pub(super) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether a line is a launcher's.
    pub(super) fn is_of_report(&self, line: usize) -> bool {
        self.is_of_report.get(line).copied().unwrap_or_default()
    }

    /// The process that failed first, as its launcher says.
    pub(super) fn first_rank(&self) -> Option<u32> {
        self.found.iter().find_map(|found| found.rank)
    }

    /// The first report whose line is not outlived. The innermost launcher reports first, and knows most; one that
    /// names a signal knows more than one that names the exit code that was made of it.
    ///
    /// `ends` says whether only lines about the same end follow a line, given the code that a shell shows for it.
    pub(super) fn first_after(
        &self,
        is_outlived: impl Fn(usize) -> bool,
        ends: impl Fn(usize, i32) -> bool,
    ) -> Option<EndReport> {
        let is_signal = |found: &&&FoundReport| matches!(found.report.end, ReportedEnd::Signal(_));
        let last: Vec<&FoundReport> = self
            .found
            .iter()
            .filter(|found| !is_outlived(found.line))
            .collect();
        let first = last.iter().find(is_signal).or_else(|| last.first());
        first.map(|found| EndReport {
            is_last: ends(found.line, found.report.end.code()),
            ..found.report.clone()
        })
    }
}

/// A shell's bare word for a signal stands among so many last lines.
const LAST_WORD_LINES: usize = 64;
/// Lines between two rules of MPI's launchers at most.
const BLOCK_LINES_MAX: usize = 30;
/// Words in blocks of MPI's launchers.
const OF_MPI: &[&str] = &[
    "mpirun",
    "prterun",
    "MPI_ABORT",
    "BAD TERMINATION",
    "Primary job",
];
/// Words in those that say how a program ended.
const OF_AN_END: &[&str] = &[
    "MPI_ABORT was invoked",
    "Primary job",
    "noticed that process rank",
    "exited with non-zero status",
    "BAD TERMINATION",
];
/// What torchrun shows of a worker that it has sent SIGTERM.
const ENDED_BY_TORCHRUN: i32 = -15;

/// The expressions that reports are read with.
struct ReportLines {
    torch_code: Regex,
    torch_rank: Regex,
    python: Regex,
    spawn: Regex,
    open_mpi_signal: Regex,
    open_mpi_code: Regex,
    mpich_signal: Regex,
    mpich_abort: Regex,
    deepspeed: Regex,
    srun: Regex,
    make: Regex,
    shell: Regex,
    bare: Regex,
    time: Regex,
    other: Regex,
    /// Lines that say nothing of an end, and are a launcher's.
    noise: Regex,
}

static LINES: LazyLock<ReportLines> = LazyLock::new(|| ReportLines {
    torch_code: regex(r"^ *exitcode  *: (-?\d+) \(pid: \d+\)"),
    torch_rank: regex(r"^ *rank  *: (\d+) \(local_rank: \d+\)"),
    python: regex(
        r"CalledProcessError: Command .* (?:returned non-zero exit status (?P<code>\d+)\.|died with <Signals\.(?P<name>SIG[A-Z0-9]+): \d+>\.)",
    ),
    spawn: regex(
        r"ProcessExitedException: process \d+ terminated with (?:exit code (?P<code>\d+)|signal (?P<name>SIG[A-Z0-9]+))",
    ),
    open_mpi_signal: regex(
        r"noticed that process rank \d+ with PID \d+ on node \S+ exited on\s+signal (?P<signal>\d+)",
    ),
    open_mpi_code: regex(r"^ *Exit code: +(?P<code>\d+)$"),
    mpich_signal: regex(
        r"APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal (?P<signal>\d+)\)",
    ),
    mpich_abort: regex(r"^Abort\((?P<code>\d+)\) on node \d+ .*application called MPI_Abort"),
    deepspeed: regex(r"sigkill_handler\] .*exits with return code = (?P<code>-?\d+)"),
    srun: regex(
        r"^srun: error: \S+: tasks? [\d,\-]+: (?:Exited with exit code (?P<code>\d+)|(?P<name>Killed|Terminated|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception))",
    ),
    make: regex(
        r"^make(?:\[\d+\])?: \*\*\* \[.*\] (?:Error (?P<code>\d+)|(?P<name>Killed|Terminated|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception))",
    ),
    shell: regex(
        r"^\S+: line \d+: +\d+ (?P<name>Killed|Terminated|Interrupt|Quit|Hangup|User defined signal \d|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception|Alarm clock|CPU time limit exceeded|File size limit exceeded)(?: +\(core dumped\))? {2,}\S",
    ),
    bare: regex(
        r"^(?P<name>Killed|Terminated|Quit|Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception|File size limit exceeded|CPU time limit exceeded)(?: \(core dumped\))?$",
    ),
    time: regex(
        r"^Command (?:terminated by signal (?P<signal>\d+)|exited with non-zero status (?P<code>\d+))$",
    ),
    other: regex(r"^\S+: .*(?:terminated|killed) by signal (?P<signal>\d+)$"),
    noise: regex(
        r"torch/distributed/(?:run|elastic/\S+|launcher/\S+)\.py:\d+\]|^\[20\S+ \S+ \[\w+\] \[(?:launch|runner|multinode_runner)\.py:\d+:|^(?:Primary job  terminated normally|a non-zero exit code\. Per user-direction)|^make(?:\[\d+\])?: (?:Entering|Leaving) directory|^srun: ",
    ),
});

/// Of each line of a launcher one is part.
const WORDS: [&str; 29] = [
    "CalledProcessError",
    "ProcessExitedException",
    "exited on",
    "Exit code:",
    "EXIT STRING",
    "MPI_Abort",
    "exits with return code",
    "srun: ",
    "make: ",
    "make[",
    "Killed",
    "Terminated",
    "Interrupt",
    "Quit",
    "Hangup",
    "User defined signal",
    "Segmentation fault",
    "Bus error",
    "Aborted",
    "Illegal instruction",
    "Floating point exception",
    "Alarm clock",
    "limit exceeded",
    "by signal",
    "with non-zero status",
    "torch/distributed/",
    "[20",
    "Primary job",
    "Per user-direction",
];

static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| match AhoCorasick::new(WORDS) {
    Ok(finder) => finder,
    Err(error) => unreachable!("the words of reports are part of the program: {error}"),
});

/// The lines that may be a launcher's, in order: most logs have none, and each expression costs time.
fn candidates(text: &[u8], lines: &[EndLine]) -> BTreeSet<usize> {
    let line_at = |at: usize| {
        lines
            .partition_point(|line| line.start <= at)
            .checked_sub(1)
    };
    let found = FINDER.find_iter(text);
    found.filter_map(|found| line_at(found.start())).collect()
}

fn regex(pattern: &str) -> Regex {
    match Regex::new(pattern) {
        Ok(regex) => regex,
        Err(error) => unreachable!("the expressions of reports are part of the program: {error}"),
    }
}

/// Reads all reports.
pub(super) fn read(text: &[u8], lines: &[EndLine]) -> Reports {
    let mut reports = Reports {
        found: Vec::new(),
        is_of_report: vec![false; lines.len()],
    };
    let reader = ReportReader { text, lines };
    reader.torchrun(&mut reports);
    reader.rules(&mut reports);
    for line in candidates(text, lines) {
        let place = &lines[line];
        if let Some((launcher, end)) = reader.line(line) {
            reports.is_of_report[line] = true;
            reports.add(FoundReport {
                report: EndReport {
                    launcher,
                    end,
                    place: place.body(),
                    is_last: true,
                },
                line,
                rank: None,
            });
        } else if LINES.noise.is_match(reader.body(line)) {
            reports.is_of_report[line] = true;
        }
    }
    reports.found.sort_by_key(|found| found.line);
    reports
}

impl Reports {
    fn add(&mut self, found: FoundReport) {
        self.found.push(found);
    }
}

struct ReportReader<'a> {
    text: &'a [u8],
    lines: &'a [EndLine],
}

impl<'a> ReportReader<'a> {
    fn body(&self, line: usize) -> &'a [u8] {
        &self.text[self.lines[line].body()]
    }

    /// A line, with the next one where Open MPI 5 goes on there.
    fn unbroken(&self, line: usize) -> &'a [u8] {
        match self.lines.get(line + 1) {
            Some(next) if self.body(line).ends_with(b" exited on") => {
                &self.text[self.lines[line].start..next.end]
            }
            _ => self.body(line),
        }
    }

    /// What a line reports.
    fn line(&self, line: usize) -> Option<(Launcher, ReportedEnd)> {
        let body = self.unbroken(line);
        let known = &*LINES;
        let of_line = [
            (Launcher::Python, &known.python),
            (Launcher::Python, &known.spawn),
            (Launcher::OpenMpi, &known.open_mpi_signal),
            (Launcher::OpenMpi, &known.open_mpi_code),
            (Launcher::Mpich, &known.mpich_signal),
            (Launcher::Mpich, &known.mpich_abort),
            (Launcher::Deepspeed, &known.deepspeed),
            (Launcher::Srun, &known.srun),
            (Launcher::Make, &known.make),
            (Launcher::Shell, &known.shell),
            (Launcher::Shell, &known.time),
            (Launcher::Shell, &known.other),
        ];
        for (launcher, regex) in of_line {
            if let Some(captures) = regex.captures(body) {
                return Some((launcher, reported(&captures)?));
            }
        }
        // A shell's word for a signal stands alone where the shell says no more; anywhere else it may be the program's.
        if self.lines.len() - line > LAST_WORD_LINES {
            return None;
        }
        let end = reported(&known.bare.captures(body)?)?;
        let code = end.code().to_string();
        let is_about_it = |line: &EndLine| {
            line.start == line.end
                || memchr::memmem::find(&self.text[line.body()], code.as_bytes()).is_some()
        };
        let is_last = self.lines[line + 1..].iter().all(is_about_it);
        is_last.then_some((Launcher::Shell, end))
    }

    /// torchrun's summary. Of the workers that it lists only the root cause counts: it ended the others itself.
    fn torchrun(&self, reports: &mut Reports) {
        let is_root = |line: &usize| {
            self.body(*line)
                .starts_with(b"Root Cause (first observed failure):")
        };
        let Some(root) = (0..self.lines.len()).rev().find(is_root) else {
            return;
        };
        let is_end = |line: &usize| self.body(*line).starts_with(b"=====");
        let end = (root..self.lines.len())
            .find(is_end)
            .unwrap_or(self.lines.len());
        let is_start =
            |line: &usize| memchr::memmem::find(self.body(*line), b"ChildFailedError").is_some();
        let start = (0..root).rev().find(is_start).unwrap_or(root);
        // The traceback that a worker recorded is an error of its own.
        let is_header = |line: &usize| {
            memchr::memmem::find(self.body(*line), b"Traceback (most recent").is_some()
        };
        let recorded = (root..end).find(is_header).unwrap_or(end);
        let mut rank = None;
        for line in root..end {
            let body = self.body(line);
            if let Some(captures) = LINES.torch_rank.captures(body) {
                rank = number(&captures[1]).and_then(|rank| u32::try_from(rank).ok());
            }
            let Some(captures) = LINES.torch_code.captures(body) else {
                continue;
            };
            let Some(code) = number(&captures[1]) else {
                continue;
            };
            // torchrun may end a worker that has just recorded its error.
            let is_recorded = code == ENDED_BY_TORCHRUN && recorded < end;
            let end = ReportedEnd::of_python(if is_recorded { 1 } else { code });
            reports.add(FoundReport {
                report: EndReport {
                    launcher: Launcher::Torchrun,
                    end,
                    place: self.lines[line].body(),
                    is_last: true,
                },
                line,
                rank,
            });
            break;
        }
        let last = end.min(self.lines.len() - 1);
        for line in (start..recorded).chain(last..=last) {
            reports.is_of_report[line] = true;
        }
    }

    /// Open MPI and MPICH put what they say between rules.
    fn rules(&self, reports: &mut Reports) {
        let is_rule = |line: usize| {
            let body = self.body(line);
            body.len() > 60
                && (body.iter().all(|byte| *byte == b'-') || body.iter().all(|byte| *byte == b'='))
        };
        let mut from: Option<usize> = None;
        for line in 0..self.lines.len() {
            if !is_rule(line) {
                continue;
            }
            match from.take() {
                Some(start) if line - start <= BLOCK_LINES_MAX && self.has(start..line, OF_MPI) => {
                    reports.is_of_report[start] = true;
                    reports.is_of_report[line] = true;
                    // Why nothing was started stands in such a block too, and is no report.
                    if self.has(start..line, OF_AN_END) {
                        reports.is_of_report[start..line].fill(true);
                    }
                }
                _ => from = Some(line),
            }
        }
    }

    fn has(&self, lines: Range<usize>, words: &[&str]) -> bool {
        let text = &self.text[self.lines[lines.start].start..self.lines[lines.end].end];
        let mut words = words.iter();
        words.any(|word| memchr::memmem::find(text, word.as_bytes()).is_some())
    }
}

impl ReportedEnd {
    /// As a shell shows it.
    const fn code(self) -> i32 {
        match self {
            Self::Exit(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// Python's return codes of processes are negative for signals.
    const fn of_python(code: i32) -> Self {
        match code {
            signal @ ..0 => Self::Signal(-signal),
            code => Self::Exit(code),
        }
    }
}

fn reported(captures: &Captures<'_>) -> Option<ReportedEnd> {
    let text = |name: &str| captures.name(name).map(|found| found.as_bytes());
    if let Some(code) = text("code") {
        return Some(ReportedEnd::of_python(number(code)?));
    }
    if let Some(signal) = text("signal") {
        return Some(ReportedEnd::Signal(number(signal)?));
    }
    text("name").and_then(signal_of).map(ReportedEnd::Signal)
}

fn number(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The signal that a shell's word or a name stands for.
fn signal_of(word: &[u8]) -> Option<i32> {
    const WORDS: [(&[u8], &[u8], i32); 14] = [
        (b"Hangup", b"SIGHUP", 1),
        (b"Interrupt", b"SIGINT", 2),
        (b"Quit", b"SIGQUIT", 3),
        (b"Illegal instruction", b"SIGILL", 4),
        (b"Aborted", b"SIGABRT", 6),
        (b"Bus error", b"SIGBUS", 7),
        (b"Floating point exception", b"SIGFPE", 8),
        (b"Killed", b"SIGKILL", 9),
        (b"User defined signal 1", b"SIGUSR1", 10),
        (b"Segmentation fault", b"SIGSEGV", 11),
        (b"User defined signal 2", b"SIGUSR2", 12),
        (b"Alarm clock", b"SIGALRM", 14),
        (b"Terminated", b"SIGTERM", 15),
        (b"CPU time limit exceeded", b"SIGXCPU", 24),
    ];
    if word == b"File size limit exceeded" || word == b"SIGXFSZ" {
        return Some(25);
    }
    let known = WORDS
        .iter()
        .find(|(said, name, _)| *said == word || *name == word);
    known.map(|(_, _, signal)| *signal)
}
