//! Every crate we ship is under a licence that lets anyone use, change and ship it.

use cargo_metadata::MetadataCommand;

/// Licences that ask for no more than their text to be kept.
const PERMISSIVE: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "0BSD",
    "CC0-1.0",
    "MIT-0",
    "Unlicense",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "NCSA",
];

/// In nothing that we ship: the simulator compares with the first; the second is of libp2p's UPnP,
/// which is off, and stands in the lock file alone.
const NOT_SHIPPED: &[&str] = &["foca", "attohttpc"];

#[test]
fn every_dependency_is_permissive() {
    let metadata = MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .other_options(vec![
            "--offline".into(),
            "--filter-platform=x86_64-unknown-linux-gnu".into(),
        ])
        .exec()
        .unwrap();
    let refused: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| !NOT_SHIPPED.contains(&package.name.as_str()))
        .filter(|package| !package.license.as_deref().is_some_and(permissive))
        .map(|package| format!("{} {:?}", package.name, package.license))
        .collect();
    assert!(refused.is_empty(), "not permissive: {refused:#?}");
}

/// Whether a licence expression can be met with permissive licences alone: every AND part has
/// an OR choice among them. Enough for what crates write; a nested form would be refused.
fn permissive(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], " ").replace('/', " OR ");
    flat.split(" AND ").all(|part| {
        part.split(" OR ").any(|choice| {
            let name = choice.split(" WITH ").next().unwrap_or(choice).trim();
            PERMISSIVE.contains(&name)
        })
    })
}

#[test]
fn expressions_are_read_as_written() {
    for (expression, expect) in [
        ("MIT OR Apache-2.0", true),
        ("MIT/Apache-2.0", true),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
    ] {
        assert_eq!(permissive(expression), expect, "{expression}");
    }
}
