use std::fmt::Write as _;
use std::path::PathBuf;
use std::{fs, io};

use crate::testing::capture_dir;

use super::record::KmsgRecord;
use super::*;

const BOOT_MS: u64 = 1_700_000_000_000;

fn boot(id: &str) -> Boot {
    Boot {
        id: id.to_owned(),
        at_ms: BOOT_MS,
    }
}

/// A log in a file, in the form of `/dev/kmsg`.
struct LogFile {
    dir: tempfile::TempDir,
    next: u64,
}

impl LogFile {
    fn new() -> Self {
        let log = Self {
            dir: tempfile::tempdir().unwrap(),
            next: 0,
        };
        fs::write(log.path(), "").unwrap();
        log
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("kmsg")
    }

    fn add(&mut self, text: &str) {
        self.add_flagged('-', text);
    }

    fn add_flagged(&mut self, flag: char, text: &str) {
        let mut all = fs::read_to_string(self.path()).unwrap();
        let (number, at_us) = (self.next, self.next * 1_000_000);
        writeln!(all, "4,{number},{at_us},{flag};{text}").unwrap();
        fs::write(self.path(), all).unwrap();
        self.next += 1;
    }

    fn open(&self, boot_id: &str, cursor: Option<KernelLogCursor>) -> KernelLog {
        KernelLog::open(&self.path(), &boot(boot_id), cursor).unwrap()
    }
}

/// What a fact says, in one line, as the table has it.
fn described(fact: &KernelFact) -> String {
    let process = fact.pid.map(|pid| {
        let name = fact.process.as_deref().unwrap_or("?");
        format!("{pid} {name}")
    });
    let change = fact.recovery;
    let change = change.map(|change| format!("recovery {} to {}", change.from, change.to));
    let fatal = fact
        .fatal
        .map(|fatal| if fatal { "fatal" } else { "nonfatal" });
    let mut words = vec![
        fact.subject.to_string(),
        fact.code.clone(),
        change
            .or_else(|| fact.place.clone())
            .unwrap_or_else(|| "-".into()),
        process.unwrap_or_else(|| "-".into()),
        fatal.unwrap_or("-").to_owned(),
    ];
    while words.last().is_some_and(|word| word == "-") {
        words.pop();
    }
    words.join(" | ")
}

fn codes(events: &[KernelEvent]) -> Vec<&str> {
    events.iter().map(|event| &*event.fact.code).collect()
}

#[test]
fn lines_of_real_logs() {
    let table = fs::read_to_string(capture_dir("kernel-log").join("lines.txt")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() > 100, "the table is too short");
    for pair in lines.chunks(2) {
        let mut log = LogFile::new();
        log.add(pair[0]);
        let events = log.open("a", None).read().unwrap().events;
        let found: Vec<String> = events.iter().map(|it| described(&it.fact)).collect();
        let found = if found.is_empty() {
            "nothing".to_owned()
        } else {
            found.join(" and ")
        };
        assert_eq!(found, pair[1].trim_start(), "{}", pair[0]);
    }
}

#[test]
fn a_record_is_read_field_by_field() {
    let bytes = b"28,4711,5140900,-,caller=T1;mlx5_core: tab\\x09 back\\x5cslash \\xc3\\xa9 \\xzz\n SUBSYSTEM=pci\n DEVICE=+pci:0000:5c:00.0\n";
    let record = KmsgRecord::parse(bytes).unwrap();
    let expect = KmsgRecord {
        level: 4,
        sequence: 4711,
        at_us: 5_140_900,
        is_continuation: false,
        text: "mlx5_core: tab\t back\\slash é \\xzz".to_owned(),
        device: Some("0000:5c:00.0".to_owned()),
    };
    assert_eq!(record, expect);
    assert_eq!(KmsgRecord::parse(b"no record"), None);
    assert_eq!(KmsgRecord::parse(b"4,x,1,-;text"), None);
}

#[test]
fn times_are_those_of_the_epoch() {
    let mut log = LogFile::new();
    log.add("something else");
    log.add("NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.");
    let events = log.open("a", None).read().unwrap().events;
    assert_eq!(events[0].at_ms, BOOT_MS + 1000);
    assert_eq!(events[0].sequence, 1);
}

#[test]
fn a_gpu_that_is_gone_takes_three_lines() {
    let lines = [
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ];
    let mut three = LogFile::new();
    lines.iter().for_each(|line| three.add(line));
    let mut one = LogFile::new();
    one.add(&lines.join("\\x0a"));
    let mut mixed = LogFile::new();
    for line in lines {
        mixed.add(line);
        mixed.add("usb 1-1: new high-speed USB device");
    }
    for log in [three, one, mixed] {
        let events = log.open("a", None).read().unwrap().events;
        assert_eq!(codes(&events), ["gpu-gone"]);
        assert_eq!(events[0].fact.subject, HealthSubject::at("0000:b3:00.0"));
        assert_eq!(events[0].text, lines.join(" "));
    }
}

#[test]
fn another_message_about_a_gpu_is_no_event() {
    let mut log = LogFile::new();
    log.add("NVRM: The NVIDIA GPU 0000:b3:00.0");
    log.add("NVRM: (PCI ID: 10de:26b5) installed in this system is not supported by the");
    log.add("NVRM: NVIDIA 550.163 driver release.");
    log.add("NVRM: fallen off the bus and is not responding to commands.");
    assert_eq!(log.open("a", None).read().unwrap().events, []);
}

#[test]
fn a_report_of_the_firmware_names_the_device() {
    let mut log = LogFile::new();
    for line in [
        "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4",
        "{1}[Hardware Error]: event severity: fatal",
        "{1}[Hardware Error]:  Error 0, type: fatal",
        "{1}[Hardware Error]:   section_type: PCIe error",
        "{2}[Hardware Error]:   device_id: 0000:77:00.0",
        "{1}[Hardware Error]:   device_id: 0000:19:00.0",
        "{2}[Hardware Error]: event severity: recoverable",
        "{2}[Hardware Error]:   section_type: memory error",
    ] {
        log.add(line);
    }
    let events = log.open("a", None).read().unwrap().events;
    let found: Vec<String> = events.iter().map(|it| described(&it.fact)).collect();
    let expect = [
        "0000:19:00.0 | cper-fatal | PCIe error",
        "machine | cper-recoverable | memory error",
    ];
    assert_eq!(found, expect);
}

#[test]
fn fragments_of_a_line_are_one_line() {
    let mut log = LogFile::new();
    log.add("NVRM: Xid (PCI:0000:05");
    log.add_flagged('c', ":00): 79, GPU has");
    log.add_flagged('+', " fallen off the bus.");
    let events = log.open("a", None).read().unwrap().events;
    assert_eq!(codes(&events), ["xid 79"]);
}

/// Wherever an agent ends and starts again, it reports what one that runs on reports.
#[test]
fn a_restart_repeats_nothing_and_loses_nothing() {
    let lines = [
        "NVRM: Xid (PCI:0000:05:00): 48, pid=1, name=a, DBE",
        "NVRM: The NVIDIA GPU 0000:b3:00.0",
        "NVRM: (PCI ID: 10de:26b5) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        "{1}[Hardware Error]: event severity: fatal",
        "{1}[Hardware Error]:   section_type: PCIe error",
        "{1}[Hardware Error]:   device_id: 0000:19:00.0",
        "NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.",
    ];
    let mut whole = LogFile::new();
    lines.iter().for_each(|line| whole.add(line));
    let expect = whole.open("a", None).read().unwrap().events;
    assert_eq!(
        codes(&expect),
        ["xid 48", "gpu-gone", "cper-fatal", "xid 79"]
    );
    for restart in 0..=lines.len() {
        let mut log = LogFile::new();
        lines[..restart].iter().for_each(|line| log.add(line));
        let mut first = log.open("a", None);
        let mut found = first.read().unwrap().events;
        let kept = serde_json::to_string(first.cursor()).unwrap();
        drop(first);
        lines[restart..].iter().for_each(|line| log.add(line));
        let cursor = serde_json::from_str(&kept).unwrap();
        found.extend(log.open("a", Some(cursor)).read().unwrap().events);
        assert_eq!(found, expect, "restart after {restart} lines");
    }
}

#[test]
fn a_log_is_read_while_it_grows() {
    let mut log = LogFile::new();
    let mut open = log.open("a", None);
    assert_eq!(open.read().unwrap(), KernelLogRead::default());
    log.add("NVRM: Xid (PCI:0000:05:00): 48, DBE");
    let events = open.read().unwrap().events;
    assert_eq!(codes(&events), ["xid 48"]);
    // The log's own time is years ago.
    assert!(events[0].at_ms > BOOT_MS + 1_000_000_000);
    assert_eq!(open.read().unwrap(), KernelLogRead::default());
}

#[test]
fn a_clock_of_the_log_that_is_ahead_is_not_believed() {
    let log = LogFile::new();
    let far = "4,0,9000000000000000,-;NVRM: Xid (PCI:0000:05:00): 48, DBE\n";
    fs::write(log.path(), far).unwrap();
    let events = log.open("a", None).read().unwrap().events;
    assert!(events[0].at_ms < BOOT_MS + 9_000_000_000_000);
}

#[test]
fn after_a_reboot_the_log_is_read_from_its_first_record() {
    let mut log = LogFile::new();
    log.add("NVRM: Xid (PCI:0000:05:00): 48, DBE");
    let mut open = log.open("a", None);
    open.read().unwrap();
    let cursor = open.cursor().clone();
    let mut again = log.open("b", Some(cursor));
    assert_eq!(codes(&again.read().unwrap().events), ["xid 48"]);
    assert_eq!(again.cursor().boot_id, "b");
}

#[test]
fn records_that_were_overwritten_are_counted() {
    let log = LogFile::new();
    let text = "4,10,1,-;NVRM: Xid (PCI:0000:05:00): 48, DBE\n4,12,1,-;other\n";
    fs::write(log.path(), text).unwrap();
    let cursor = KernelLogCursor {
        boot_id: "a".to_owned(),
        next: 7,
        ..KernelLogCursor::default()
    };
    let mut open = log.open("a", Some(cursor));
    let read = open.read().unwrap();
    assert_eq!((read.lost, codes(&read.events)), (3, vec!["xid 48"]));
    assert_eq!(open.cursor().next, 13);
}

#[test]
fn a_log_that_is_not_there_is_told() {
    let missing = LogFile::new().path();
    let error = KernelLog::open(&missing, &boot("a"), None).unwrap_err();
    assert!(error.to_string().contains("run the agent as root"));
}

#[test]
fn a_boot_is_read_from_the_kernels_files() {
    let root = tempfile::tempdir().unwrap();
    assert!(Boot::read(root.path()).is_err());
    fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
    let id = root.path().join("proc/sys/kernel/random/boot_id");
    fs::write(id, "1c2d\n").unwrap();
    fs::write(root.path().join("proc/stat"), "cpu 1 2\nctxt 3\n").unwrap();
    assert!(matches!(Boot::read(root.path()), Err(BootError::NoTime)));
    fs::write(root.path().join("proc/stat"), "cpu 1 2\nbtime 1700000000\n").unwrap();
    assert_eq!(
        Boot::read(root.path()).unwrap(),
        Boot {
            id: "1c2d".to_owned(),
            at_ms: BOOT_MS
        }
    );
}

/// The real device, where this machine lets the test read it.
#[test]
fn the_real_log_ends_and_does_not_wait() -> io::Result<()> {
    let path = std::path::Path::new("/dev/kmsg");
    let Ok(mut log) = KernelLog::open(path, &boot("a"), None) else {
        return Ok(());
    };
    while log.read().map_err(io::Error::other)?.more {}
    Ok(())
}
