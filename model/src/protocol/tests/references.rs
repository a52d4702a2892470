//! What commands and logins refer to.

use super::super::remarks;
use super::{SMALLEST, changed, invalid, valid};

const FULL: &str = "\
protocolVersion: 2
name: job
type: job
parameters: {model: resnet, none: null, map: {a: 1}}
secrets: {token: t, more: {a: b}}
prerequisites:
  - {type: dockerimage, name: image, uri: i, auth: {username: LOGIN, password: p}}
  - {type: data, name: set, uri: [u]}
taskRoles:
  worker:
    data: set
    dockerImage: image
    resourcePerInstance: {cpu: 2, memoryMB: 512, gpu: 1}
    commands: [echo, COMMAND]
deployments:
  - {name: on, taskRoles: {worker: {preCommands: [BEFORE]}}}
  - {name: off, taskRoles: {worker: {preCommands: ['<% $parameters.nosuch %>']}}}
defaults: {deployment: on}
extras:
  com.microsoft.pai.runtimeplugin:
    - {plugin: cmd, parameters: {callbacks: [{event: taskStarts, commands: [PLUGIN]}]}}
";

fn with(place: &str, text: &str) -> String {
    FULL.replace(place, &format!("'{text}'"))
}

#[test]
fn what_refers_to_nothing_is_refused_with_its_path() {
    for (place, path) in [
        ("COMMAND", ".taskRoles.worker.commands[1]"),
        ("BEFORE", ".deployments[0].taskRoles.worker.preCommands[0]"),
        (
            "PLUGIN",
            ".extras.com.microsoft.pai.runtimeplugin[0].parameters",
        ),
        ("LOGIN", ".prerequisites[0].auth.username"),
    ] {
        let found = remarks(&invalid(&with(place, "a <% $secrets.tokn %>")));
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        let why = "secrets has no tokn; did you mean token?";
        assert_eq!(
            told,
            [format!(
                "{path}: <% $secrets.tokn %> refers to nothing: {why}"
            )]
        );
    }
    for (reference, why) in [
        ("$parameters.nosuch", "parameters has no nosuch"),
        ("$parameters.modle.x", "parameters has no modle.x"),
        ("$parameters.none", "none of parameters is empty"),
        ("$secrets.more", "more of secrets holds more than one value"),
        ("$data.uri[1]", "data has no uri.1"),
        ("$output.uri", "the task role names no output"),
    ] {
        let found = remarks(&invalid(&with("COMMAND", &format!("<% {reference} %>"))));
        let told = found[0].message.split(": ").last().unwrap();
        assert_eq!(told, why, "{found:?}");
    }
    let login = remarks(&invalid(&with("LOGIN", "<% $parameters.model %>")));
    assert!(
        login[0].message.ends_with("only secrets count in a login"),
        "{login:?}"
    );
    let none = changed("taskRoles/worker/commands", "['<% $parameters.x %>']");
    assert!(
        remarks(&invalid(&none))[0]
            .message
            .ends_with("the job has no parameters")
    );
}

#[test]
fn what_refers_to_something_or_is_no_reference_stays() {
    for text in [
        "<% $parameters.model %>",
        "<% $parameters.map.a %>",
        "<% $secrets.token %>",
        "<% $secrets.more.a %>",
        "<% $data.uri[0] %>",
        "<% $x %>",
        "<% x %>",
    ] {
        valid(&with("COMMAND", text));
    }
    valid(&with("LOGIN", "<% $secrets.token %>"));
}

#[test]
fn a_login_may_hold_references_beside_other_text() {
    let password = "{username: u, password: 'pre-<% $secrets.t %>'}";
    let job = changed(
        "prerequisites",
        &format!("[{{type: dockerimage, name: image, uri: i, auth: {password}}}]"),
    );
    let job = job.replacen('{', "{\"secrets\": {\"t\": \"x\"},", 1);
    let protocol = valid(&job);
    let auth = protocol.job_spec().unwrap().roles.remove(0).image_auth;
    let (_, secrets) = protocol.split_secrets();
    assert_eq!(secrets.render(&auth.unwrap().password), "pre-x");
}

#[test]
fn numbers_go_into_commands_as_they_are_written() {
    for written in [
        "3.10",
        "1e3",
        "1.0",
        "0x10",
        "0o17",
        "1_000",
        "007",
        "+1",
        "3.0e-5",
        "1e400",
        "0.1",
        "12",
        "-3",
        "yes",
        "no",
        "on",
        "off",
        "true",
        "True",
        "FALSE",
        "2024-01-31",
        "1:30",
        "12345678901234567890123",
        ".inf",
        ".5",
        "5.",
        "'3.10'",
    ] {
        let sections =
            format!("parameters: {{v: {written}, list: [{written}]}}\nsecrets: {{v: {written}}}\n");
        let commands = "'<% $parameters.v %>|<% $parameters.list[0] %>|<% $parameters.list %>'";
        let job = SMALLEST.replace("echo hello", commands);
        let protocol = valid(&format!("{job}{sections}"));
        let plain = written.trim_matches('\'');
        let expect = format!("{plain}|{plain}|{plain}");
        assert_eq!(protocol.entrypoints()[0].1, expect, "{written}");
        let (_, secrets) = protocol.split_secrets();
        assert_eq!(secrets.render("<% $secrets.v %>"), plain, "{written}");
    }
    // Aliases and merged keys too.
    let aliases = "parameters: {<<: &a {v: 3.10}, w: &b 4.20, x: *b}\n";
    let command = "'<% $parameters.v %> <% $parameters.w %> <% $parameters.x %>'";
    let job = SMALLEST.replace("echo hello", command);
    let protocol = valid(&format!("{job}{aliases}"));
    assert_eq!(protocol.entrypoints()[0].1, "3.10 4.20 4.20");
    // Where a number is wanted it is one.
    let protocol = valid(&format!(
        "{SMALLEST}jobRetryCount: 0x10\nparameters: {{v: 1.50}}\n"
    ));
    assert_eq!(protocol.job_spec().unwrap().retry_count, 16);
    let (shown, _) = protocol.split_secrets();
    assert_eq!(shown["parameters"]["v"], "1.50");
}
