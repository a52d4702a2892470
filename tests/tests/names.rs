//! Names of types: each is the name of one thing, so that a search for it finds that thing alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The crates whose `src` holds shipped code.
const SHIPPED: &[&str] = &[
    "agent/cli",
    "agent",
    "consensus",
    "control",
    "exec/init",
    "exec",
    "failure-rules",
    "gossip",
    "model",
    "placement",
    "portal-gateway/tls",
    "portal-gateway",
];

/// Of a hundred types, how many may have the name of another one.
const SHARED_PERCENT_MAX: usize = 3;

#[test]
fn few_types_share_their_name() {
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for name in SHIPPED {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        for file in shipped_files(&root.join(name).join("src")).unwrap() {
            let text = fs::read_to_string(&file).unwrap();
            for line in text.lines() {
                if let Some(defined) = defined(line) {
                    let places = places.entry(defined.to_owned()).or_default();
                    places.push(file.clone());
                }
            }
        }
    }
    let all: usize = places.values().map(Vec::len).sum();
    places.retain(|_, files| files.len() > 1);
    let shared: usize = places.values().map(Vec::len).sum();
    assert!(all > 1_000, "only {all} types were found");
    assert!(
        shared * 100 <= all * SHARED_PERCENT_MAX,
        "{shared} of {all} types share their name: {places:#?}"
    );
}

#[test]
fn definitions_are_recognised() {
    assert_eq!(defined("pub(crate) struct Held<T> {"), Some("Held"));
    assert_eq!(defined("pub enum Reach {"), Some("Reach"));
    assert_eq!(defined("trait Port: Send {"), Some("Port"));
    assert_eq!(defined("type Rows = Vec<Row>;"), Some("Rows"));
    // An associated type stands in its trait, and is no type of its own.
    assert_eq!(defined("    type Answer;"), None);
    assert_eq!(defined("// struct Held"), None);
    assert_eq!(defined("let structure = 1;"), None);
}

/// The name of the type that a line defines at the top level of a module.
fn defined(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => after,
        };
        rest = rest.trim_start();
    }
    let (kind, rest) = rest.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&kind) {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

/// The Rust files below a folder that are not tests.
fn shipped_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && name != "tests" {
            found.extend(shipped_files(&path)?);
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            found.push(path);
        }
    }
    Ok(found)
}
