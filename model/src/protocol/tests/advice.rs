//! What people are told of a job of the wrong shape: place, key and remedy.

use super::super::{remarks, upstream_message, verdict};
use super::{changed, invalid};

/// The one thing that people are told.
#[track_caller]
fn check(text: &str, path: &str, message: &str) {
    let found = remarks(&invalid(text));
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("{path}: {message}")], "{text}");
}

#[test]
fn keys_names_and_values_are_told_with_the_remedy() {
    const IDENTIFIER: &str = "is no valid name: a name here has letters, digits and _ only, and begins with \
                              a letter or _ ([a-zA-Z_][a-zA-Z0-9_]*)";
    let name = |valid: &str| format!("{IDENTIFIER}; {valid} would do");
    for (path, value, at, message) in [
        (
            "jobRetrycount",
            "1",
            ".jobRetrycount",
            "is not known here; did you mean jobRetryCount?",
        ),
        (
            "retryCount",
            "1",
            ".retryCount",
            "is not known here; did you mean jobRetryCount?",
        ),
        (
            "taskRoles/worker/resourcePerInstance/shmMB",
            "256",
            ".taskRoles.worker.resourcePerInstance.shmMB",
            "is not known here; it belongs into extraContainerOptions of the task role",
        ),
        (
            "taskRoles/worker/cpu",
            "1",
            ".taskRoles.worker.cpu",
            "is not known here; it belongs into resourcePerInstance of the task role",
        ),
        (
            "virtualCluster",
            "a",
            ".virtualCluster",
            "is not known here; it belongs into defaults",
        ),
        (
            "taskRoles/worker/completion",
            "{minfailed: 1}",
            ".taskRoles.worker.completion.minfailed",
            "is not known here; known are minFailedInstances, minSucceededInstances",
        ),
        (
            "taskRoles/worker/resourcePerInstance/gpu",
            "",
            ".taskRoles.worker.resourcePerInstance.gpu",
            "is missing",
        ),
        (
            "name",
            "a b",
            ".name",
            "is no valid name: a name has letters, digits, - and _ only ([a-zA-Z0-9_-]+); a_b would do",
        ),
        (
            "name",
            "5",
            ".name",
            "should be text, not 5; write \"5\", in quotes",
        ),
        (
            "taskRoles/worker/instances",
            "'<% $parameters.n %>'",
            ".taskRoles.worker.instances",
            "should be a whole number, not the text \"<% $parameters.n %>\"; parameters count in commands \
             only: write the value itself",
        ),
        (
            "taskRoles/worker/instances",
            "'2'",
            ".taskRoles.worker.instances",
            "should be a whole number, not the text \"2\"; write it without quotes",
        ),
        (
            "taskRoles/worker/instances",
            "0",
            ".taskRoles.worker.instances",
            "should be at least 1, not 0",
        ),
        (
            "taskRoles/worker/commands",
            "python train.py",
            ".taskRoles.worker.commands",
            "should be a list, not the text \"python train.py\"; write each item in a line of its own, \
             after \"- \"",
        ),
        (
            "taskRoles/worker/commands",
            "[]",
            ".taskRoles.worker.commands",
            "should not be empty: at least 1 of its items have to be there",
        ),
        (
            "protocolVersion",
            "3",
            ".protocolVersion",
            "should be 2, not 3",
        ),
        (
            "type",
            "data",
            ".type",
            "should be job, not the text \"data\"",
        ),
        (
            "extras",
            "{hivedScheduler: {jobPriorityClass: Prod}}",
            ".extras.hivedScheduler.jobPriorityClass",
            "should be prod or test or oppo or crit, not the text \"Prod\"; did you mean prod?",
        ),
    ] {
        check(&changed(path, value), at, message);
    }
    let port = "{cpu: 1, memoryMB: 1, gpu: 0, ports: {my-port: 1}}";
    let port = changed("taskRoles/worker/resourcePerInstance", port);
    check(
        &port,
        ".taskRoles.worker.resourcePerInstance.ports.my-port",
        &name("my_port"),
    );
    let role = changed("name", "job").replace("\"worker\"", "\"my-role\"");
    check(&role, ".taskRoles.my-role", &name("my_role"));
    let role = changed("name", "job").replace("\"worker\"", "\"8ball\"");
    check(&role, ".taskRoles.8ball", &name("_8ball"));
}

#[test]
fn of_a_prerequisite_only_what_its_type_needs_is_told() {
    let with = |item: &str| changed("prerequisites", &format!("[{item}]"));
    check(
        &with("{type: dockerimage, name: image}"),
        ".prerequisites[0].uri",
        "is missing",
    );
    check(
        &with("{type: dockerimage, name: image, url: i, uri: i}"),
        ".prerequisites[0].url",
        "is not known here; did you mean uri?",
    );
    check(
        &with("{type: data, name: d, uri: u}"),
        ".prerequisites[0].uri",
        "should be a list, not the text \"u\"; write each item in a line of its own, after \"- \"",
    );
    check(
        &with("{type: docker, name: image, uri: i}"),
        ".prerequisites[0].type",
        "should be script or output or data or dockerimage, not the text \"docker\"",
    );
    check(
        &with("image"),
        ".prerequisites[0]",
        "should be a mapping, not the text \"image\"",
    );
}

#[test]
fn a_job_of_protocol_1_is_recognised_as_a_whole() {
    let old = r#"{"jobName": "old", "image": "i", "dataDir": "d", "outputDir": "o", "codeDir": "c",
        "virtualCluster": "default", "taskRoles": [{"name": "w", "taskNumber": 1, "cpuNumber": 1,
        "memoryMB": 1, "gpuNumber": 0, "command": "true"}]}"#;
    let verdict = verdict(old);
    let [only] = &verdict.errors[..] else {
        panic!("{:#?}", verdict.errors)
    };
    assert_eq!(only.path, "");
    assert!(
        only.message.starts_with("This is a job of protocol 1"),
        "{only}"
    );
    // Machines get all of ajv's errors.
    assert!(upstream_message(&invalid(old)).contains("\"additionalProperty\":\"jobName\""));
}

#[test]
fn what_is_told_is_bounded() {
    let long = changed(&"k".repeat(5_000), "1");
    assert!(remarks(&invalid(&long))[0].to_string().len() < 600);
    let long = changed(
        "taskRoles/worker/instances",
        &format!("\"{}\"", "é".repeat(5_000)),
    );
    assert!(remarks(&invalid(&long))[0].to_string().len() < 600);
}
