//! The bytes of every released frame and record. They never change: a change is a new kind.

use std::path::Path;

use muster_gossip::frame::codec;
use muster_gossip::record::Record;

use crate::samples::{self, CLUSTER, GENERATION};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(folder.join(format!("{name}.hex")));
    bytes_of(text.unwrap_or_default().trim())
}

#[test]
fn frames_are_written_and_read_as_they_always_were() {
    for (name, frame) in samples::frames() {
        let bytes = codec::encode(&frame, CLUSTER, GENERATION);
        assert_eq!(hex(&golden(name)), hex(&bytes), "{name}.hex");
        assert_eq!(codec::decode(&bytes, CLUSTER, GENERATION), Ok(frame));
    }
}

#[test]
fn records_are_written_and_read_as_they_always_were() {
    for (name, record) in samples::records() {
        assert_eq!(hex(&golden(name)), hex(record.bytes()), "{name}.hex");
        assert_eq!(Record::decode(record.bytes()).as_ref(), Ok(&*record));
    }
}

#[test]
fn every_golden_file_has_a_sample() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let frames = samples::frames().into_iter().map(|(name, _)| name);
    let records = samples::records().into_iter().map(|(name, _)| name);
    let mut expected: Vec<_> = frames
        .chain(records)
        .map(|name| format!("{name}.hex"))
        .collect();
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut found: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    expected.sort();
    found.sort();
    assert_eq!(expected, found);
}
