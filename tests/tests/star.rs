//! The star of imports: which crate may know which, and which outside crates stay where.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// What each crate may import of the workspace. `muster-init` is nested in `exec`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("consensus", &["model"]),
    ("placement", &["model"]),
    ("failure-rules", &["model"]),
    ("init", &["model"]),
    ("exec", &["model", "init"]),
    ("control", &["model", "placement", "consensus"]),
    ("portal-gateway", &["model"]),
];

/// Outside crates that only some of ours may use.
const FENCED: &[(&str, &[&str])] = &[
    ("containerd-client", &["exec"]),
    ("nvml-wrapper", &["exec"]),
    ("warp", &["portal-gateway"]),
    ("redb", &["consensus", "agent"]),
    ("tokio", &["exec", "portal-gateway", "agent", "tests"]),
    ("libp2p", &["gossip"]),
    ("quinn", &["gossip"]),
];

#[test]
fn crates_import_along_the_star() {
    let metadata = metadata();
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    for (name, imports) in imports(&metadata) {
        let ours = imports
            .iter()
            .filter_map(|import| import.strip_prefix("muster-"));
        for import in ours {
            let Some(allowed) = allowed.get(name.as_str()) else {
                continue;
            };
            assert!(allowed.contains(&import), "{name} must not import {import}");
        }
    }
}

#[test]
fn every_crate_has_its_place_in_the_star() {
    let free: BTreeSet<&str> = ["agent", "tests"].into();
    for name in imports(&metadata()).keys() {
        let known = ALLOWED.iter().any(|(crate_name, _)| crate_name == name);
        assert!(
            known || free.contains(name.as_str()),
            "add {name} to ALLOWED"
        );
    }
}

#[test]
fn outside_crates_stay_behind_their_fence() {
    for (name, imports) in imports(&metadata()) {
        for (outside, users) in FENCED {
            let used = imports.contains(*outside);
            assert!(
                !used || users.contains(&name.as_str()),
                "{name} must not import {outside}"
            );
        }
    }
}

/// Each crate of the workspace by folder name, with what its code (not its tests) imports.
fn imports(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    metadata
        .workspace_packages()
        .iter()
        .map(|package| {
            let name = package
                .name
                .strip_prefix("muster-")
                .unwrap_or(&package.name)
                .to_owned();
            let imports = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind == DependencyKind::Normal)
                .map(|dependency| dependency.name.clone())
                .collect();
            (name, imports)
        })
        .collect()
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .other_options(vec!["--offline".into()])
        .no_deps()
        .exec()
        .expect("cargo metadata")
}
