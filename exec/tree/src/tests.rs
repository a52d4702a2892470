//! Trees there and back.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::*;

fn packed(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(path, &mut bytes).unwrap();
    bytes
}

/// A directory with files, a link, a directory that is empty, and a program.
fn tree(at: &Path) {
    fs::create_dir_all(at.join("deep/er")).unwrap();
    fs::create_dir(at.join("empty")).unwrap();
    fs::write(at.join("words"), "one\n").unwrap();
    fs::write(at.join("deep/er/large"), vec![7; 3_000_000]).unwrap();
    fs::set_permissions(at.join("words"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("words", at.join("link")).unwrap();
    symlink("/nowhere", at.join("dangling")).unwrap();
}

fn is_tree(at: &Path) -> bool {
    let mode = fs::metadata(at.join("words")).unwrap().permissions().mode();
    fs::read_to_string(at.join("words")).unwrap() == "one\n"
        && fs::read(at.join("deep/er/large")).unwrap() == vec![7; 3_000_000]
        && at.join("empty").is_dir()
        && mode & 0o777 == 0o750
        && fs::read_link(at.join("link")).unwrap() == Path::new("words")
        && fs::read_link(at.join("dangling")).unwrap() == Path::new("/nowhere")
}

#[test]
fn a_tree_goes_into_a_directory_or_to_a_new_name() {
    let root = tempfile::tempdir().unwrap();
    let from = root.path().join("from");
    tree(&from);
    let bytes = packed(&from);
    let into = root.path().join("into");
    fs::create_dir(&into).unwrap();
    unpack(&bytes[..], &into).unwrap();
    assert!(is_tree(&into.join("from")));
    // Again: files are replaced, others stay.
    fs::write(into.join("from/words"), "changed").unwrap();
    fs::write(into.join("from/other"), "stays").unwrap();
    unpack(&bytes[..], &into).unwrap();
    assert!(is_tree(&into.join("from")) && into.join("from/other").exists());
    let new = root.path().join("new");
    unpack(&bytes[..], &new).unwrap();
    assert!(is_tree(&new));
    // A path with a dot at its end is its directory's name.
    let dotted = packed(&from.join("."));
    unpack(&dotted[..], &root.path().join("dotted")).unwrap();
    assert!(is_tree(&root.path().join("dotted")));
}

#[test]
fn a_file_goes_into_a_directory_to_a_new_name_or_in_place_of_a_file() {
    let root = tempfile::tempdir().unwrap();
    let from = root.path().join("words");
    fs::write(&from, "one\n").unwrap();
    let bytes = packed(&from);
    let into = root.path().join("into");
    fs::create_dir(&into).unwrap();
    unpack(&bytes[..], &into).unwrap();
    fs::write(root.path().join("old"), "old").unwrap();
    for name in ["into/words", "new", "old"] {
        let at = root.path().join(name);
        if name != "into/words" {
            unpack(&bytes[..], &at).unwrap();
        }
        assert_eq!(fs::read_to_string(at).unwrap(), "one\n", "{name}");
    }
    let missing = unpack(&bytes[..], &root.path().join("none/new")).unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[test]
fn a_part_is_never_taken_for_the_whole() {
    let root = tempfile::tempdir().unwrap();
    let from = root.path().join("from");
    tree(&from);
    let bytes = packed(&from);
    for end in [0, 100, 512, 20_000, bytes.len() - 600, bytes.len() - 1] {
        let new = root.path().join("new");
        let broken = unpack(&bytes[..end], &new).unwrap_err();
        assert!(
            !matches!(broken, TreeError::Outside(_) | TreeError::Nameless(_)),
            "{end}: {broken}"
        );
        assert!(!new.exists(), "{end}");
    }
    let left: Vec<_> = fs::read_dir(root.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// An archive with one file of this name, and one that leads there by a link.
fn archive(name: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    // The library refuses such names where it is asked for them.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(4);
    header.set_mode(0o644);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, &b"evil"[..]).unwrap();
    let mut bytes = archive.into_inner().unwrap();
    bytes.extend(END);
    bytes
}

#[test]
fn nothing_is_written_outside_the_destination() {
    let root = tempfile::tempdir().unwrap();
    let into = root.path().join("into");
    fs::create_dir(&into).unwrap();
    for name in ["../evil", "a/../../evil", "/evil-of-a-test"] {
        let outside = unpack(&archive(name)[..], &into).unwrap_err();
        assert!(
            matches!(outside, TreeError::Outside(_)),
            "{name}: {outside}"
        );
    }
    // By a link that came before.
    let outer = root.path().display().to_string();
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    archive.append_link(&mut header, "a/way", &outer).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o644);
    header.set_cksum();
    archive
        .append_data(&mut header, "a/way/evil", &b"evil"[..])
        .unwrap();
    let mut bytes = archive.into_inner().unwrap();
    bytes.extend(END);
    unpack(&bytes[..], &into).unwrap_err();
    assert!(!root.path().join("evil").exists());
    assert!(!Path::new("/evil-of-a-test").exists());
    // Two trees in one: only one was named.
    let two = packed_two(root.path());
    assert!(unpack(&two[..], &into).is_err());
}

fn packed_two(root: &Path) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for name in ["one", "two"] {
        fs::write(root.join(name), name).unwrap();
        archive
            .append_path_with_name(root.join(name), name)
            .unwrap();
    }
    let mut bytes = archive.into_inner().unwrap();
    bytes.extend(END);
    bytes
}

#[test]
fn what_cannot_be_packed_is_named() {
    let root = tempfile::tempdir().unwrap();
    let missing = pack(&root.path().join("none"), Vec::new()).unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
    assert!(matches!(
        pack(Path::new("/"), Vec::new()),
        Err(TreeError::Nameless(_))
    ));
}
