//! Requests that OpenSSH's client does not make; `tests/openssh.rs` has those that it does.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::packet::{self, Fields, Reply};
use super::serve;

/// What a status says.
const OK: u32 = 0;
const EOF: u32 = 1;
const MISSING: u32 = 2;
const FAILURE: u32 = 4;
const MALFORMED: u32 = 5;
const UNSUPPORTED: u32 = 8;

/// A request: the reply's shape is the same.
fn request(kind: u8, number: u32, fill: impl FnOnce(&mut Reply)) -> Vec<u8> {
    let mut request = Reply::new(kind, number);
    fill(&mut request);
    request.packet()
}

/// The replies to requests, without their lengths.
fn replies(requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    serve(&requests.concat()[..], &mut out).unwrap();
    let mut rest = Fields::new(&out);
    let mut replies = Vec::new();
    while let Ok(reply) = rest.text() {
        replies.push(reply.to_vec());
    }
    replies
}

/// The number and the status of a reply that is one.
fn status(reply: &[u8]) -> (u32, u32) {
    let mut fields = Fields::new(reply);
    assert_eq!(fields.byte(), Some(101), "{reply:?}");
    (fields.u32().unwrap(), fields.u32().unwrap())
}

fn text(path: &Path) -> impl FnOnce(&mut Reply) {
    let path = path.as_os_str().as_bytes().to_vec();
    move |request| request.text(&path)
}

#[test]
fn requests_that_cannot_be_carried_out_are_answered() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "words").unwrap();
    let told = replies(&[
        request(packet::STAT, 7, text(&home.path().join("none"))),
        request(packet::RMDIR, 8, text(&file)),
        request(packet::STAT, 9, |_| {}),
        request(99, 10, |_| {}),
        request(packet::EXTENDED, 11, |request| {
            request.text(b"nosuch@example.org")
        }),
        request(packet::CLOSE, 12, |request| request.text(b"zzzz")),
        request(packet::READ, 13, |request| {
            request.text(&[0; 4]);
            request.u64(0);
            request.u32(1);
        }),
        request(packet::RENAME, 14, |request| {
            request.text(file.as_os_str().as_bytes());
            request.text(home.path().as_os_str().as_bytes());
        }),
    ]);
    let told: Vec<_> = told.iter().map(|reply| status(reply)).collect();
    let statuses = [
        (7, MISSING),
        (8, FAILURE),
        (9, MALFORMED),
        (10, UNSUPPORTED),
        (11, UNSUPPORTED),
        (12, FAILURE),
        (13, FAILURE),
        (14, FAILURE),
    ];
    assert_eq!(told, statuses);
}

#[test]
fn a_file_is_read_and_written_at_its_places() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    let name = file.as_os_str().as_bytes();
    let open = |number, flags: u32| {
        request(packet::OPEN, number, move |request| {
            request.text(name);
            request.u32(flags);
            request.u32(0);
        })
    };
    let write = |number, handle: u32, place: u64, data: &[u8]| {
        request(packet::WRITE, number, move |request| {
            request.text(&handle.to_be_bytes());
            request.u64(place);
            request.text(data);
        })
    };
    let read = |number, place: u64| {
        request(packet::READ, number, move |request| {
            request.text(&0_u32.to_be_bytes());
            request.u64(place);
            request.u32(100);
        })
    };
    let told = replies(&[
        // Read, write, create, truncate; then write and append.
        open(1, 0x1b),
        write(2, 0, 6, b"world"),
        write(3, 0, 0, b"hello "),
        read(4, 3),
        read(5, 11),
        open(6, 0x06),
        write(7, 1, 0, b"!"),
        request(packet::CLOSE, 8, |request| {
            request.text(&0_u32.to_be_bytes())
        }),
        read(9, 0),
    ]);
    assert_eq!(fs::read(&file).unwrap(), b"hello world!");
    assert_eq!(told[3][9..], *b"lo world");
    assert_eq!(status(&told[4]), (5, EOF));
    assert_eq!(status(&told[7]), (8, OK));
    assert_eq!(status(&told[8]), (9, FAILURE));
}

#[test]
fn a_request_that_is_too_long_ends_the_session() {
    let long = u32::MAX.to_be_bytes();
    assert!(serve(&long[..], Vec::new()).is_err());
    assert!(serve(&[0, 0, 0, 1, 3][..], Vec::new()).is_err());
    assert!(serve(&[0, 0][..], Vec::new()).is_ok());
}

#[test]
fn paths_need_not_exist_to_have_a_whole_name() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let whole = |path: &Path| super::paths::absolute(path).unwrap();
    assert_eq!(whole(&home.join("a/../b/./c")), home.join("b/c"));
    assert_eq!(whole(Path::new(".")), std::env::current_dir().unwrap());
    let expanded = |path: &str| super::paths::expanded(Path::new(path), &home);
    assert_eq!(expanded("~/x"), home.join("x"));
    assert_eq!(expanded("~"), home.join(""));
    assert_eq!(expanded("~eve/x"), Path::new("~eve/x"));
}
