use super::report::ReportedEnd;
use super::{ENDING_BYTES_MAX, EndReport, Ending, Launcher, lines};

fn read(log: &str) -> Ending {
    Ending::read(log.as_bytes(), 1, &[])
}

impl Ending {
    fn message(&self) -> Option<&str> {
        let range = self.error.as_ref()?.message.clone();
        std::str::from_utf8(&self.text[range]).ok()
    }

    fn of_closing(&self) -> Vec<&str> {
        let ranges = self.closing.iter();
        ranges
            .map(|range| std::str::from_utf8(&self.text[range.clone()]).unwrap())
            .collect()
    }

    fn reported(&self) -> Option<(Launcher, ReportedEnd)> {
        let report = self.report.as_ref();
        report.map(|EndReport { launcher, end, .. }| (*launcher, *end))
    }
}

const RAISED: &str = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    load()\nValueError: bad label\n";

#[test]
fn terminals_and_launchers_add_nothing_to_a_line() {
    for (log, expect, rank) in [
        ("\x1b[31mred\x1b[0m text", "red text", None),
        ("\x1b]0;title\x07text", "text", None),
        ("[rank3]: text", "text", Some(3)),
        ("[default1]:text", "text", Some(1)),
        ("[worker-2] text", "text", Some(2)),
        ("2026-01-01T00:00:00.5Z text", "text", None),
        ("2026-01-01 00:00:00 text", "2026-01-01 00:00:00 text", None),
        ("[1,2]<stderr>:text", "text", Some(2)),
        ("[node-0:4711] text", "text", None),
        ("(raylet) text", "text", None),
        ("(train pid=7, ip=192.0.2.2) text", "text", None),
        ("[rank0]: [node-0:4711] text", "text", Some(0)),
        (
            "[2026-01-01 00:00:00,000] [INFO] text",
            "[2026-01-01 00:00:00,000] [INFO] text",
            None,
        ),
        ("[1] text", "[1] text", None),
        ("(optional) text", "(optional) text", None),
    ] {
        let (text, lines) = lines::read(log.as_bytes());
        assert_eq!(
            std::str::from_utf8(&text[lines[0].body()]).unwrap(),
            expect,
            "{log:?}"
        );
        assert_eq!(lines[0].rank, rank, "{log:?}");
    }
    let (text, lines) = lines::read(b"10%\r20%\r\nend");
    let bodies: Vec<&[u8]> = lines.iter().map(|line| &text[line.body()]).collect();
    assert_eq!(bodies, [&b"10%"[..], b"20%", b"end"]);
}

#[test]
fn the_end_is_bounded_and_begins_with_a_line() {
    let log = format!("{}\n{RAISED}", "x".repeat(ENDING_BYTES_MAX));
    let ending = read(&log);
    assert!(
        ending.text().starts_with(b"Traceback"),
        "{:?}",
        ending.lines[0]
    );
    let message = ending.error.as_ref().unwrap().message.clone();
    let origin = ending.origin(&message);
    assert_eq!(&log[origin], "ValueError: bad label");
}

#[test]
fn the_last_error_that_was_not_outlived_decides() {
    let progress: String = (0..20).map(|step| format!("step {step}\n")).collect();
    let other = RAISED.replace("ValueError: bad label", "KeyError: 'x'");
    for (log, message, others) in [
        (RAISED.to_owned(), Some("ValueError: bad label"), 0),
        (format!("{other}{RAISED}"), Some("ValueError: bad label"), 1),
        (format!("{RAISED}step 1\nstep 2\n"), Some("ValueError: bad label\nstep 1\nstep 2"), 0),
        (format!("{RAISED}\n{progress}no data found\n"), None, 1),
        // What ended a thread or was ignored did not end the program.
        (format!("Exception in thread Thread-1 (f):\n{RAISED}\n"), None, 0),
        (format!("Exception ignored in: <function f>\n{RAISED}\n"), None, 0),
        // What a part of Dask notes after the program's own error decides only where that is missing.
        (format!("{RAISED}2026-11-30 16:02:13,621 - distributed.nanny - ERROR - \n{other}"), Some("ValueError: bad label"), 1),
        (format!("2026-11-30 16:02:13,621 - distributed.worker - ERROR - \n{RAISED}"), Some("ValueError: bad label"), 0),
        // A line alone, as some programs print their own errors.
        ("epoch 1\nOddError: bad label\n".to_owned(), Some("OddError: bad label"), 0),
        ("  File \"a.py\", line 1\n    def f(:\n          ^\nSyntaxError: invalid syntax\n".to_owned(), Some("SyntaxError: invalid syntax"), 0),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n".to_owned(), Some("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc"), 0),
        ("Exception in thread \"main\" java.lang.IllegalStateException: odd\n\tat A.main(A.java:1)\n".to_owned(), Some("Exception in thread \"main\" java.lang.IllegalStateException: odd\n\tat A.main(A.java:1)"), 0),
    ] {
        let ending = read(&log);
        assert_eq!(ending.message(), message, "{log}");
        assert_eq!(ending.others.len(), others, "{log}");
    }
}

#[test]
fn an_error_has_what_it_came_from() {
    for between in [
        "\nThe above exception was the direct cause of the following exception:\n\n",
        "\nDuring handling of the above exception, another exception occurred:\n\n",
    ] {
        let inner = RAISED.replace(
            "ValueError: bad label",
            "OSError: [Errno 28] No space left on device",
        );
        let ending = read(&format!("{inner}{between}{RAISED}"));
        let error = ending.error.as_ref().unwrap();
        assert_eq!(ending.message(), Some("ValueError: bad label"));
        let causes: Vec<&[u8]> = error
            .causes
            .iter()
            .map(|range| &ending.text()[range.clone()])
            .collect();
        assert_eq!(causes, [b"OSError: [Errno 28] No space left on device"]);
    }
    let stack = "\tat A.f(A.java:1)\n".repeat(90);
    let java = format!("a.SparkException: odd\n{stack}Caused by: java.io.EOFException\n{stack}");
    assert_eq!(read(&java).error.unwrap().causes.len(), 1);
    // A parent quotes its worker's traceback: the worker's error is the later one.
    let quoted = RAISED.replace(
        "ValueError: bad label",
        "RuntimeError: Caught ValueError in worker 0.",
    );
    let ending = read(&format!("{quoted}Original {RAISED}"));
    assert_eq!(ending.message(), Some("ValueError: bad label"));
    assert_eq!(ending.error.unwrap().causes.len(), 1);
}

#[test]
fn other_threads_may_print_in_the_middle_of_a_traceback() {
    let log = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\nE0101 00:00:00.000000 1 service.cc:1] odd\nand more of it\n  File \"b.py\", line 2, in g\n    h()\nValueError: bad label\n";
    assert_eq!(read(log).message(), Some("ValueError: bad label"));
    // A warning quotes a stack without a message.
    let log = "Traceback (most recent call last):  File \"<string>\", line 1, in <module>\n  File \"a.py\", line 1, in f\n/lib/b.py:20: UserWarning: odd\n";
    assert_eq!(read(log).message(), None);
}

fn summary(root: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"/venv/lib/torch/distributed/launcher/api.py\", line 300, in launch_agent\n    raise ChildFailedError(\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n[1]:\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: 10)  (SIGTERM)\n------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n{root}============================================================\n"
    )
}

#[test]
fn torchrun_names_the_worker_that_failed_first() {
    let killed = summary("  exitcode  : -9 (pid: 11)  (SIGKILL)\n");
    let ending = read(&format!("step 1\n{killed}"));
    assert_eq!(ending.message(), None);
    assert_eq!(ending.of_closing(), ["step 1"]);
    assert_eq!(
        ending.reported(),
        Some((Launcher::Torchrun, ReportedEnd::Signal(9)))
    );
    // The errors of that worker stand before those of the others, whatever their order.
    let of_rank = |rank: u32, message: &str| {
        let text = RAISED.replace("ValueError: bad label", message);
        text.lines()
            .map(|line| format!("[rank{rank}]: {line}\n"))
            .collect::<String>()
    };
    let failed = summary("  exitcode  : 1 (pid: 11)\n");
    let log = format!(
        "{}{}{failed}",
        of_rank(1, "KeyError: 'x'"),
        of_rank(0, "RuntimeError: closed")
    );
    let ending = read(&log);
    assert_eq!(ending.message(), Some("KeyError: 'x'"));
    assert_eq!(ending.others.len(), 1);
    // An error of another worker does not say why that one left.
    let left = summary("  exitcode  : 3 (pid: 11)\n");
    let ending = read(&format!("{}{left}", of_rank(0, "RuntimeError: closed")));
    assert_eq!((ending.message(), ending.others.len()), (None, 1));
    // What a worker recorded is its own error.
    let recorded = summary(
        "  exitcode  : 1 (pid: 11)\n  traceback : Traceback (most recent call last):\n    File \"a.py\", line 1, in f\n      g()\n  ValueError: bad label\n",
    );
    assert_eq!(read(&recorded).message(), Some("ValueError: bad label"));
    let ended = read(&recorded.replace("exitcode  : 1 (pid: 11)", "exitcode  : -15 (pid: 11)"));
    assert_eq!(ended.message(), Some("ValueError: bad label"));
    let report = (Launcher::Torchrun, ReportedEnd::Exit(1));
    assert_eq!(ended.reported(), Some(report));
}

#[test]
fn each_launcher_reports_in_its_words() {
    use Launcher::{Deepspeed, Make, Mpich, OpenMpi, Python, Shell, Srun};
    use ReportedEnd::{Exit, Signal};
    for (log, launcher, end) in [
        (
            "run.sh: line 1: 27542 Bus error               ./app",
            Shell,
            Signal(7),
        ),
        (
            "run.sh: line 1: 27542 Segmentation fault      (core dumped) ./app",
            Shell,
            Signal(11),
        ),
        ("step 1\nKilled", Shell, Signal(9)),
        ("step 1\nQuit (core dumped)", Shell, Signal(3)),
        ("Command terminated by signal 9", Shell, Signal(9)),
        ("xargs: ./app: terminated by signal 9", Shell, Signal(9)),
        ("make[1]: *** [Makefile:2: all] Error 127", Make, Exit(127)),
        ("srun: error: node-0: task 3: Killed", Srun, Signal(9)),
        (
            "srun: error: node-0: tasks 1-2: Exited with exit code 3",
            Srun,
            Exit(3),
        ),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node-0 exited on signal 11 (Segmentation fault).",
            OpenMpi,
            Signal(11),
        ),
        (
            "prterun noticed that process rank 1 with PID 8 on node node-0 exited on\nsignal 9 (Killed).",
            OpenMpi,
            Signal(9),
        ),
        ("  Exit code:    3", OpenMpi, Exit(3)),
        (
            "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
            Mpich,
            Signal(9),
        ),
        (
            "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1",
            Mpich,
            Exit(3),
        ),
        (
            "[2026-01-01 00:00:00,000] [ERROR] [launch.py:259:sigkill_handler] ['python3', 'a.py'] exits with return code = -9",
            Deepspeed,
            Signal(9),
        ),
        (
            "subprocess.CalledProcessError: Command '['python3', 'a.py']' died with <Signals.SIGKILL: 9>.",
            Python,
            Signal(9),
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGSEGV",
            Python,
            Signal(11),
        ),
        (
            "subprocess.CalledProcessError: Command '['python3', 'a.py']' returned non-zero exit status 3.",
            Python,
            Exit(3),
        ),
    ] {
        assert_eq!(
            read(&format!("{log}\n\n")).reported(),
            Some((launcher, end)),
            "{log}"
        );
    }
    for log in [
        "the job was Killed\n",
        "Killed\nand then it went on\n",
        "make: Leaving directory '/a'\n",
        "exit code: 3 of the optional tool\n",
        "noticed that process rank 1 with PID 8 on node node-0 exited on\nMonday\n",
    ] {
        assert_eq!(read(log).reported(), None, "{log}");
    }
}

#[test]
fn a_report_that_was_outlived_says_nothing() {
    let progress: String = (0..20).map(|step| format!("step {step}\n")).collect();
    let killed = "run.sh: line 1: 27542 Killed                  ./optional\n";
    assert_eq!(read(&format!("{killed}{progress}")).reported(), None);
    let report = |log: &str| read(log).report.unwrap();
    // A shell goes on: its word counts where its own code is that of the signal, or nothing follows.
    let followed = report(&format!("{killed}step 1\n"));
    assert!(followed.may_lead_to(137) && !followed.may_lead_to(3));
    assert!(report(killed).may_lead_to(3));
    assert!(report("Killed\njob failed: 137\n").may_lead_to(1));
    assert!(report(&format!("{killed}ERROR: training failed\n")).may_lead_to(3));
}
