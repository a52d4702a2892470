//! The star of imports: which crate may know which, and which outside crates stay where.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// What each crate may import of the workspace. `muster-init`, `muster-sshd` and `muster-tree` are nested in `exec`,
/// `muster-cli` in `agent`, `muster-tls` in `portal-gateway`.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("consensus", &["model"]),
    ("gossip", &["model"]),
    ("placement", &["model"]),
    ("failure-rules", &["model"]),
    ("tree", &[]),
    ("init", &["tree"]),
    ("sshd", &["model"]),
    ("exec", &["model", "init"]),
    ("control", &["model", "placement", "consensus", "gossip"]),
    ("tls", &[]),
    ("portal-gateway", &["model", "tls"]),
    (
        "cli",
        &["model", "placement", "failure-rules", "tls", "tree"],
    ),
];

/// Outside crates that only some of ours may use.
const FENCED: &[(&str, &[&str])] = &[
    ("containerd-client", &["exec"]),
    ("nvml-wrapper", &["exec"]),
    // The benchmark of the REST API measures a bare server beside it.
    ("warp", &["portal-gateway", "tests"]),
    ("redb", &["consensus", "agent"]),
    (
        "tokio",
        &[
            "exec",
            "sshd",
            "gossip",
            "tls",
            "portal-gateway",
            "cli",
            "agent",
            "tests",
        ],
    ),
    ("libp2p", &["gossip"]),
    ("quinn", &["gossip"]),
    ("russh", &["sshd"]),
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

/// The simulator drives the very cores, without the network that they run over elsewhere.
#[test]
fn the_simulator_builds_without_the_network() {
    let tree = dependencies_of("muster-tests");
    assert!(
        tree.contains("muster-gossip") && tree.contains("foca"),
        "{tree:?}"
    );
    for outside in ["libp2p", "quinn", "tonic", "warp"] {
        let found = tree
            .iter()
            .find(|name| *name == outside || name.starts_with(&format!("{outside}-")));
        assert_eq!(found, None, "muster-tests must not need {outside}");
    }
}

/// Everything that a crate's code (not its tests) is built with, as cargo resolves it.
fn dependencies_of(package: &str) -> BTreeSet<String> {
    let output = std::process::Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}", "--package", package])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo tree");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_cores_of_the_mesh_need_no_runtime_and_no_network() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let gossip = packages
        .iter()
        .find(|package| package.name.as_str() == "muster-gossip")
        .expect("muster-gossip");
    for outside in ["tokio", "libp2p", "quinn", "futures"] {
        let dependency = gossip.dependencies.iter().find(|one| one.name == outside);
        let dependency = dependency.unwrap_or_else(|| panic!("{outside}: check its name"));
        assert!(
            dependency.optional,
            "{outside} belongs to gossip's net feature"
        );
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
