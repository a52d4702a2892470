//! The mounts of this process's namespace, as `/proc/thread-self/mountinfo` lists them (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableEntry {
    /// The kernel's number of the mount.
    pub(super) id: u64,
    pub(super) point: PathBuf,
    /// Those flags of the mount itself that have to be named again when it is mounted anew with others.
    pub(super) flags: MsFlags,
}

/// Whether something is mounted right there, for this process.
pub(super) fn has(point: &Path) -> io::Result<bool> {
    let text = std::fs::read("/proc/thread-self/mountinfo")?;
    Ok(parse(&text).iter().any(|entry| entry.point == point))
}

/// The table of another process's namespace. It is opened before that namespace is entered: `/proc` in there shows the
/// processes of a container alone.
#[derive(Debug)]
pub(super) struct OpenTable(File);

impl OpenTable {
    /// That of a process.
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mountinfo")).map(Self)
    }

    /// All mounts, as they are now.
    pub(super) fn read(&mut self) -> io::Result<Vec<TableEntry>> {
        let mut text = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut text)?;
        Ok(parse(&text))
    }
}

pub(super) fn parse(text: &[u8]) -> Vec<TableEntry> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
            let point = OsString::from_vec(unescaped(fields.nth(3)?)).into();
            let flags = flags(fields.next()?);
            Some(TableEntry { id, point, flags })
        })
        .collect()
}

fn flags(options: &[u8]) -> MsFlags {
    let mut flags = MsFlags::empty();
    for option in options.split(|byte| *byte == b',') {
        flags |= match option {
            b"ro" => MsFlags::MS_RDONLY,
            b"nosuid" => MsFlags::MS_NOSUID,
            b"nodev" => MsFlags::MS_NODEV,
            b"noexec" => MsFlags::MS_NOEXEC,
            b"noatime" => MsFlags::MS_NOATIME,
            b"nodiratime" => MsFlags::MS_NODIRATIME,
            b"relatime" => MsFlags::MS_RELATIME,
            _ => MsFlags::empty(),
        };
    }
    flags
}

/// The kernel writes a space, tab, line break and backslash as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}
