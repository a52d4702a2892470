//! Upstream's own example jobs and what upstream answered for them, where the data is at hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::super::{CheckedJob, JobProblem, parse, upstream_message};

/// The folder with the examples; tests pass without it.
fn data() -> Option<&'static Path> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    folder.join("protocol-examples").is_dir().then_some(folder)
}

fn example(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join("protocol-examples").join(name)).unwrap()
}

/// The verdicts of the index: whether upstream accepts a file, where it was asked.
fn verdicts(folder: &Path) -> BTreeMap<String, Option<bool>> {
    let index = example(folder, "INDEX.md");
    let rows = index
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = rows.filter(|cells| cells.len() > 3 && cells[1].ends_with(".yaml"));
    rows.map(|cells| {
        let verdict = match cells[2] {
            "valid" => Some(true),
            text if text.starts_with("INVALID") => Some(false),
            _ => None,
        };
        (cells[1].to_owned(), verdict)
    })
    .collect()
}

/// Jobs that refer to nothing, which upstream accepts.
fn is_refused_here_alone(name: &str, problems: &[JobProblem]) -> bool {
    const NAMES: [&str; 3] = [
        "rs-test-secretmask-secrets_in_the_end.yaml",
        "rt-docker_image_acr_registry.yaml",
        "rt-docker_image_auth.yaml",
    ];
    let refers = |problem: &JobProblem| problem.message.contains("refers to nothing");
    NAMES.contains(&name) && problems.iter().all(refers)
}

#[test]
fn every_example_gets_upstreams_verdict() {
    let Some(folder) = data() else { return };
    let verdicts = verdicts(folder);
    assert!(
        verdicts.len() > 100,
        "the index has only {} rows",
        verdicts.len()
    );
    for (name, expect) in verdicts {
        let result = parse(&example(folder, &name));
        if let Some(valid) = expect {
            let found = result.as_ref().err();
            let as_we_do = found.is_some_and(|problems| is_refused_here_alone(&name, problems));
            assert!(
                result.is_ok() == valid || as_we_do,
                "{name}: {:?}",
                result.err()
            );
        }
    }
}

#[test]
fn every_example_renders_and_fails_as_upstream_does() {
    let Some(folder) = data() else { return };
    let text = fs::read_to_string(folder.join("protocol-expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    for (name, expect) in expected["jobs"].as_object().unwrap() {
        match parse(&example(folder, name)) {
            Ok(protocol) => check_valid(name, &protocol, expect),
            Err(problems) if is_refused_here_alone(name, &problems) => {}
            Err(problems) => match &expect["error"] {
                Value::String(text) if text.contains(" at line ") => {
                    assert!(
                        problems[0].message.contains(" line "),
                        "{name}: {problems:?}"
                    );
                }
                Value::String(text) => {
                    // Upstream stops at the first.
                    assert_eq!(problems[0].message, *text, "{name}");
                }
                errors => {
                    let ours: Value = serde_json::from_str(&upstream_message(&problems))
                        .unwrap_or_else(|_| panic!("{name}: {problems:?}"));
                    assert_eq!(ours, *errors, "{name}");
                }
            },
        }
    }
}

fn check_valid(name: &str, protocol: &CheckedJob, expect: &Value) {
    assert_eq!(protocol.name().as_str(), expect["name"], "{name}");
    let rendered: BTreeMap<&str, &str> = protocol
        .entrypoints()
        .iter()
        .map(|(role, text)| (role.as_str(), text.as_str()))
        .collect();
    assert_eq!(serde_json::json!(rendered), expect["entrypoints"], "{name}");
    let spec = protocol.job_spec().unwrap();
    assert_eq!(
        spec.vc.as_str(),
        expect["jobEnv"]["PAI_VIRTUAL_CLUSTER"],
        "{name}"
    );
    let retries = &expect["retryPolicy"];
    assert_eq!(retries["job"]["maxRetryCount"], spec.retry_count, "{name}");
    for role in &spec.roles {
        let key = role.name.as_str();
        let completion = &expect["completion"][key];
        assert_eq!(
            completion["minFailedTaskCount"], role.min_failed,
            "{name} {key}"
        );
        assert_eq!(
            completion["minSucceededTaskCount"], role.min_succeeded,
            "{name} {key}"
        );
        let task_retries = if spec.gang { 0 } else { role.task_retry_count };
        assert_eq!(retries[key]["maxRetryCount"], task_retries, "{name} {key}");
        assert_eq!(retries[key]["fancyRetryPolicy"], !spec.gang, "{name} {key}");
    }
    let (config, _) = protocol.split_secrets();
    assert_eq!(
        config["secrets"] == "******",
        expect["masked"] == true,
        "{name}"
    );
}
