//! The runtime plugin `ssh`.

use crate::ssh::SshAccess;

use super::*;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILl71p6NupexlB2OXwcMWSFU7MXaGQaPxRz5iWZm6ifa";
const PATH: &str = ".extras.com.microsoft.pai.runtimeplugin[0].parameters";

fn extras(parameters: &str, more: &str) -> String {
    let entry = format!("{{plugin: ssh, parameters: {parameters}}}");
    changed(
        "extras",
        &format!("{{{more}com.microsoft.pai.runtimeplugin: [{entry}]}}"),
    )
}

fn access(yaml: &str) -> Option<SshAccess> {
    valid(yaml).job_spec().unwrap().roles.remove(0).ssh
}

fn warned(yaml: &str) -> Vec<String> {
    let warnings = valid(yaml).job_spec().unwrap().warnings.into_iter();
    warnings.map(|warning| warning.to_string()).collect()
}

#[test]
fn users_and_tasks_are_let_in_as_the_job_asks() {
    let none = SshAccess {
        keys: Vec::new(),
        system_keys: false,
        peers: Vec::new(),
        barrier_s: None,
        may_fail: false,
    };
    let worker = || vec!["worker".parse().unwrap()];
    let custom = |value: &str| format!("{{userssh: {{type: custom, value: '{value}'}}}}");
    for (parameters, expected) in [
        ("{}".to_owned(), None),
        ("{jobssh: false, userssh: {type: none}}".to_owned(), None),
        ("{jobssh: false, userssh: {}}".to_owned(), None),
        (
            custom(&format!("{KEY} ada@desk")),
            Some(SshAccess {
                keys: vec![KEY.to_owned()],
                ..none.clone()
            }),
        ),
        (
            "{userssh: {type: system}}".to_owned(),
            Some(SshAccess {
                system_keys: true,
                ..none.clone()
            }),
        ),
        (
            "{jobssh: true}".to_owned(),
            Some(SshAccess {
                peers: worker(),
                ..none.clone()
            }),
        ),
        (
            "{jobssh: true, sshbarrier: true}".to_owned(),
            Some(SshAccess {
                peers: worker(),
                barrier_s: Some(600),
                ..none.clone()
            }),
        ),
        (
            "{jobssh: true, sshbarrier: true, sshbarrierTimeout: 2}".to_owned(),
            Some(SshAccess {
                peers: worker(),
                barrier_s: Some(120),
                ..none.clone()
            }),
        ),
    ] {
        let yaml = extras(&parameters, "");
        assert_eq!(access(&yaml), expected, "{parameters}");
        assert_eq!(warned(&yaml), Vec::<String>::new(), "{parameters}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_field() {
    for (parameters, field, told) in [
        ("{jobssh: 'yes'}", "jobssh", "boolean"),
        (
            "{userssh: {type: other}}",
            "userssh.type",
            "custom, system or none",
        ),
        (
            "{userssh: yes please}",
            "userssh.type",
            "custom, system or none",
        ),
        (
            "{userssh: {type: custom, value: ssh-rsa AAAA}}",
            "userssh.value",
            "line 1: the ssh-rsa key is cut short",
        ),
        (
            "{userssh: {type: custom, value: 7}}",
            "userssh.value",
            "string",
        ),
        (
            "{jobssh: true, sshbarrier: true, sshbarrierTimeout: 0}",
            "sshbarrierTimeout",
            "from 1 to 1440",
        ),
    ] {
        let problems = parse(&extras(parameters, "")).unwrap_err();
        let told_all: Vec<String> = problems
            .iter()
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .collect();
        let is_told = |problem: &&JobProblem| {
            problem.path.starts_with(PATH)
                && problem.message.contains(told)
                && (problem.path == format!("{PATH}.{field}") || told.is_empty())
        };
        assert!(
            problems.iter().any(|problem| is_told(&problem)),
            "{told_all:?}"
        );
    }
}

#[test]
fn what_has_no_effect_is_warned_of() {
    for (parameters, more, told) in [
        (
            "{jobssh: true}",
            "gangAllocation: false, ",
            "without gang allocation",
        ),
        (
            "{sshbarrier: true, userssh: {type: system}}",
            "",
            "without jobssh",
        ),
        (
            "{userssh: {type: custom, value: ''}}",
            "",
            "nobody can log in",
        ),
        ("{jobSsh: true}", "", "Did you mean jobssh?"),
        (
            "{userssh: {type: system, vale: x}}",
            "",
            "Did you mean value?",
        ),
    ] {
        let yaml = extras(parameters, more);
        let warnings = warned(&yaml);
        assert_eq!(warnings.len(), 1, "{parameters}: {warnings:?}");
        assert!(warnings[0].contains(told), "{warnings:?}");
    }
    let alone = extras("{jobssh: true}", "gangAllocation: false, ");
    assert_eq!(access(&alone), None);
}
