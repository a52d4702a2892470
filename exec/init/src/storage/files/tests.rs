//! Requests for files of a directory, without a process of their own.

use std::fs;
use std::io::{self, Cursor, Write};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use muster_tree::beneath::Beneath;
use muster_tree::{TreeRecord, TreeRecordKind};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::frame::{self, Decoder, InitFrame};
use crate::storage::AttachedPlace;

/// What a channel writes.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A directory that requests go to.
struct Home {
    directory: tempfile::TempDir,
    read_only: bool,
}

/// What was answered.
struct Answer(Vec<InitFrame>);

impl Answer {
    fn of(&self, kind: u16) -> Option<&InitFrame> {
        self.0.iter().find(|frame| frame.kind == kind)
    }

    fn json<T: DeserializeOwned>(&self, kind: u16) -> T {
        serde_json::from_slice(&self.of(kind).unwrap().body).unwrap()
    }

    fn done(&self) -> FileDone {
        self.json(DONE)
    }

    fn problem(&self) -> FileProblem {
        self.json(FAILED)
    }

    fn data(&self) -> Vec<u8> {
        let parts = self.0.iter().filter(|frame| frame.kind == DATA);
        parts.flat_map(|frame| frame.body.clone()).collect()
    }

    fn entries(&self) -> Vec<FileEntry> {
        let parts = self.0.iter().filter(|frame| frame.kind == ENTRIES);
        parts
            .flat_map(|frame| serde_json::from_slice::<Vec<FileEntry>>(&frame.body).unwrap())
            .collect()
    }
}

impl Home {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            read_only: false,
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn names(&self, path: &str) -> Vec<String> {
        let names = fs::read_dir(self.at(path)).unwrap();
        let mut names: Vec<_> = names
            .map(|name| name.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Carries a step out, to which these parts of bytes come, and then their end if there is one.
    fn ask(&self, path: &str, step: FileStep, (parts, ends): (&[&[u8]], bool)) -> Answer {
        let mut input = Vec::new();
        for part in parts {
            input.extend(frame::encode(DATA, part).unwrap());
        }
        if ends {
            input.extend(frame::encode(END, &[]).unwrap());
        }
        let output = Output::default();
        let mut channel = FileChannel::over(Box::new(Cursor::new(input)), Box::new(output.clone()));
        let request = FileRequest {
            namespace: "/none".into(),
            root: AttachedPlace {
                source: self.directory.path().to_owned(),
                is_storage: false,
                below: Vec::new(),
                creates: false,
                target: "/".into(),
                read_only: self.read_only,
            },
            path: path.to_owned(),
            step,
        };
        let root = Beneath::open(self.directory.path()).unwrap();
        if let Err(problem) = carry_out(&root, &request, &mut channel) {
            channel.send_json(FAILED, &problem).unwrap();
        }
        let mut decoder = Decoder::default();
        decoder.push(&output.0.lock().unwrap());
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            frames.push(frame);
        }
        Answer(frames)
    }

    fn read(&self, path: &str, step: ReadStep) -> Answer {
        self.ask(path, FileStep::Read(step), (&[], false))
    }

    fn list(&self, path: &str, after: Option<&str>, limit: u32) -> Answer {
        let after = after.map(str::to_owned);
        self.ask(path, FileStep::List { after, limit }, (&[], false))
    }
}

fn writing(upload: &str) -> WriteStep {
    WriteStep {
        upload: upload.to_owned(),
        is_kept: true,
        mode: 0o640,
        changed_s: Some(1_000_000),
        ..WriteStep::default()
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn a_directory_is_listed_in_pages_by_name() {
    let home = Home::new();
    for number in 0..1_200 {
        fs::write(home.at(&format!("{number:04}")), "x").unwrap();
    }
    symlink("0000", home.at("link")).unwrap();
    fs::create_dir(home.at("sub")).unwrap();
    let first = home.list("", None, 700);
    let names: Vec<_> = first
        .entries()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(
        (names.len(), &*names[0], &*names[699]),
        (700, "0000", "0699")
    );
    assert!(first.done().has_more && first.done().is_directory);
    let rest = home.list("/", Some("0699"), 700);
    assert_eq!((rest.entries().len(), rest.done().has_more), (502, false));
    let entries = rest.entries();
    let link = entries.iter().find(|entry| entry.name == "link").unwrap();
    assert_eq!(
        (link.kind, link.target.as_deref()),
        (FileEntryKind::Link, Some("0000"))
    );
    let alone = home.list("0007", None, 10);
    assert_eq!(
        (alone.entries().len(), alone.done().is_directory),
        (1, false)
    );
    assert_eq!(alone.entries()[0].size, 1);
    assert_eq!(
        home.list("none", None, 1).problem().kind,
        FileProblemKind::NoPath
    );
}

#[test]
fn no_path_leads_out() {
    let home = Home::new();
    fs::create_dir(home.at("sub")).unwrap();
    symlink("/etc", home.at("out")).unwrap();
    symlink("/etc/passwd", home.at("file")).unwrap();
    for path in [
        "out/passwd",
        "file",
        "sub/../../etc/passwd",
        "..",
        "a\0b",
        "./x",
    ] {
        let read = home.read(path, ReadStep::default()).problem();
        assert_eq!(read.kind, FileProblemKind::BadPath, "{path}: {read:?}");
        let written = home.ask(path, FileStep::Write(writing("a")), (&[b"x"], true));
        // A link is replaced, and not followed.
        if path != "file" {
            assert_eq!(written.problem().kind, FileProblemKind::BadPath, "{path}");
        }
    }
    let told = home
        .read("out/passwd", ReadStep::default())
        .problem()
        .message;
    assert!(told.contains("out is a symbolic link"), "{told}");
    assert_eq!(fs::read(home.at("file")).unwrap(), b"x");
    assert!(!Path::new("/etc/x").exists());
    let listed = home.list("out", None, 10);
    assert_eq!(listed.entries()[0].kind, FileEntryKind::Link);
    // A tree neither.
    let mut records = Vec::new();
    for path in ["out/evil", "../evil"] {
        records.clear();
        let record = TreeRecord {
            kind: TreeRecordKind::File,
            path: path.into(),
            mode: 0o644,
            ..TreeRecord::end()
        };
        record.write(&mut records).unwrap();
        TreeRecord::end().write(&mut records).unwrap();
        let token = "t".to_owned();
        let answer = home.ask("", FileStep::ReceiveTree { token }, (&[&records], true));
        assert_eq!(answer.problem().kind, FileProblemKind::BadPath, "{path}");
    }
    let pipe = home.at("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let told = home.read("pipe", ReadStep::default()).problem();
    assert!(told.message.contains("no regular file"), "{told:?}");
}

#[test]
fn a_file_is_whole_or_not_there_and_an_upload_goes_on() {
    let home = Home::new();
    fs::write(home.at("file"), "old").unwrap();
    let broken = home.ask(
        "file",
        FileStep::Write(writing("up1")),
        (&[b"hello ", b"wor"], false),
    );
    assert!(broken.of(DONE).is_none() && broken.of(FAILED).is_none());
    assert_eq!(fs::read(home.at("file")).unwrap(), b"old");
    let kept = home.ask(
        "file",
        FileStep::Kept {
            upload: "up1".to_owned(),
        },
        (&[], false),
    );
    assert_eq!(kept.done().bytes, 9);
    let rest = WriteStep {
        offset: 6,
        prefix: Some(digest(b"hello ")),
        size: Some(11),
        ..writing("up1")
    };
    let done = home.ask("file", FileStep::Write(rest.clone()), (&[b"world"], true));
    assert_eq!(done.done().bytes, 11);
    assert_eq!(fs::read(home.at("file")).unwrap(), b"hello world");
    let metadata = fs::metadata(home.at("file")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert_eq!(
        metadata
            .modified()
            .unwrap()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs(),
        1_000_000
    );
    assert_eq!(home.names(""), ["file"]);
    // Another beginning is not glued to the rest, and a wrong length is no file.
    home.ask(
        "file",
        FileStep::Write(writing("up1")),
        (&[b"HELLO wor"], false),
    );
    let glued = home.ask("file", FileStep::Write(rest), (&[b"world"], true));
    assert_eq!(glued.problem().kind, FileProblemKind::Changed);
    let short = WriteStep {
        size: Some(5),
        ..writing("up2")
    };
    let short = home.ask("file", FileStep::Write(short), (&[b"abc"], true));
    assert_eq!(short.problem().kind, FileProblemKind::Changed);
    assert_eq!(fs::read(home.at("file")).unwrap(), b"hello world");
    assert_eq!(home.names(""), ["file"]);
    // What has no name of its own does not stay.
    let unnamed = WriteStep {
        is_kept: false,
        ..writing("x")
    };
    home.ask("file", FileStep::Write(unnamed), (&[b"abc"], false));
    assert_eq!(home.names(""), ["file"]);
    for upload in ["", "a/b", "..", &"x".repeat(65)] {
        let answer = home.ask("file", FileStep::Write(writing(upload)), (&[], true));
        assert_eq!(answer.problem().kind, FileProblemKind::BadPath, "{upload}");
    }
    fs::create_dir(home.at("dir")).unwrap();
    let onto = home
        .ask("dir", FileStep::Write(writing("u")), (&[b"x"], true))
        .problem();
    assert!(onto.message.contains("dir: is a directory"), "{onto:?}");
    let none = home
        .ask("none/file", FileStep::Write(writing("u")), (&[b"x"], true))
        .problem();
    assert_eq!(none.kind, FileProblemKind::NoPath);
}

#[test]
fn an_upload_that_runs_is_not_begun_twice() {
    let home = Home::new();
    let partial = fs::File::create(home.at(".muster-part-up")).unwrap();
    rustix::fs::flock(&partial, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let refused = home.ask("file", FileStep::Write(writing("up")), (&[b"x"], true));
    assert_eq!(refused.problem().kind, FileProblemKind::Busy);
}

#[test]
fn a_part_of_a_file_is_read() {
    let home = Home::new();
    fs::write(home.at("file"), "0123456789").unwrap();
    let part = |start, end, tail, prefix: Option<&[u8]>| {
        let prefix = prefix.map(digest);
        home.read(
            "file",
            ReadStep {
                start,
                end,
                tail,
                prefix,
            },
        )
    };
    assert_eq!(part(0, None, None, None).data(), b"0123456789");
    assert_eq!(part(2, Some(4), None, None).data(), b"234");
    assert_eq!(part(0, None, Some(3), None).data(), b"789");
    assert_eq!(part(4, None, None, Some(b"0123")).data(), b"456789");
    let head: FileHead = part(4, Some(5), None, None).json(HEAD);
    assert_eq!((head.size, head.start, head.bytes), (10, 4, 2));
    assert_eq!(
        part(4, None, None, Some(b"0124")).problem().kind,
        FileProblemKind::Changed
    );
    assert_eq!(
        part(11, None, None, None).problem().kind,
        FileProblemKind::Range
    );
    assert_eq!(part(10, None, None, Some(b"0123456789")).data(), b"");
}

#[test]
fn a_tree_goes_there_and_back_and_on() {
    let (from, to) = (Home::new(), Home::new());
    fs::create_dir_all(from.at("a/b")).unwrap();
    for path in ["a/b/deep", "a/first", "last"] {
        fs::write(from.at(path), path).unwrap();
    }
    fs::write(from.at("a/large"), vec![1; 100]).unwrap();
    symlink("first", from.at("a/link")).unwrap();
    fs::write(from.at(".muster-part-x"), "a part").unwrap();
    let tree = |after: Option<&str>| {
        let after = after.map(str::to_owned);
        from.ask("", FileStep::SendTree { after, large: 50 }, (&[], false))
            .data()
    };
    let paths = |mut bytes: &[u8]| {
        let mut paths = Vec::new();
        loop {
            let record = TreeRecord::read(&mut bytes).unwrap();
            if record.kind == TreeRecordKind::End {
                return paths;
            }
            if record.kind == TreeRecordKind::File {
                bytes = &bytes[usize::try_from(record.bytes).unwrap()..];
            }
            paths.push(record.path.into_string().unwrap());
        }
    };
    let whole = [
        "a", "a/b", "a/b/deep", "a/first", "a/large", "a/link", "last",
    ];
    assert_eq!(paths(&tree(None)), whole);
    for (number, path) in whole.iter().enumerate() {
        assert_eq!(paths(&tree(Some(path))), whole[number + 1..], "{path}");
    }
    let bytes = tree(None);
    let token = || FileStep::ReceiveTree {
        token: "t".to_owned(),
    };
    let done = to.ask("", token(), (&[&bytes], true));
    assert_eq!(done.done().files, 7);
    assert_eq!(fs::read(to.at("a/b/deep")).unwrap(), b"a/b/deep");
    assert_eq!(fs::read_link(to.at("a/link")).unwrap(), Path::new("first"));
    assert_eq!(to.names("a"), ["b", "first", "link"]);
    let broken = to.ask("", token(), (&[&bytes[..bytes.len() - 30]], true));
    assert_eq!(broken.problem().kind, FileProblemKind::Failed);
    assert_eq!(to.names(""), ["a", "last"]);
}

#[test]
fn what_may_only_be_read_is_not_written() {
    let mut home = Home::new();
    home.read_only = true;
    let refused = home.ask("file", FileStep::Write(writing("up")), (&[b"x"], true));
    assert_eq!(refused.problem().kind, FileProblemKind::ReadOnly);
    let token = "t".to_owned();
    let refused = home.ask("", FileStep::ReceiveTree { token }, (&[], true));
    assert_eq!(refused.problem().kind, FileProblemKind::ReadOnly);
    assert!(home.names("").is_empty());
    let probe: ProbeDone = home.ask("", FileStep::Probe, (&[], false)).json(DONE);
    assert_eq!(
        probe.unwritable.as_deref(),
        Some("it is declared as readOnly")
    );
    home.read_only = false;
    fs::write(home.at("file"), "x").unwrap();
    let probe: ProbeDone = home.ask("", FileStep::Probe, (&[], false)).json(DONE);
    assert_eq!((probe.unwritable, probe.entries), (None, 1));
    assert!(probe.free <= probe.size && probe.size > 0);
    assert_eq!(home.names(""), ["file"]);
}
