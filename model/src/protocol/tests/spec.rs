//! What becomes of a document: rendered commands and the job spec.

use crate::job::{JobSpec, RoleSpec};
use crate::state::PriorityClass;

use super::super::{CPU_LEAST, MEMORY_MB_LEAST};
use super::{changed, valid};

fn spec(path: &str, value: &str) -> JobSpec {
    valid(&changed(path, value)).job_spec().unwrap()
}

fn role(path: &str, value: &str) -> RoleSpec {
    spec(path, value).roles.remove(0)
}

const FULL: &str = "\
protocolVersion: 2
name: full
type: job
jobRetryCount: 3
parameters: {model: resnet, list: [a, {b: deep}], html: 'a<b&c'}
secrets: {p: s}
prerequisites:
  - {type: dockerimage, name: image, uri: ' repo/image ', auth: {username: u, password: '<% $secrets.p %>'}}
  - {type: data, name: set, uri: ['http://one', 'http://two']}
  - {type: script, name: code, uri: 'http://code', version: 1.50}
  - type: script
    name: load
    plugin: com.microsoft.pai.runtimeplugin.cmd
    callbacks:
      - {event: taskStarts, commands: ['fetch <% $data.uri[1] %>', 'cd data']}
      - {event: taskSucceeds, commands: ['tidy']}
taskRoles:
  worker:
    instances: 4
    taskRetryCount: 2
    completion: {minFailedInstances: 0, minSucceededInstances: -1}
    dockerImage: image
    data: set
    script: code
    prerequisites: [load, set]
    extraContainerOptions: {shmMB: 64, infiniband: true}
    resourcePerInstance: {cpu: 8, memoryMB: 1024, gpu: 2, ports: {http: 0, web: 2}}
    commands:
      - '  train <% $parameters.model %> <% $parameters.list[1].b %>  '
      - echo <% $parameters.html %> <%! gone %><% $secrets.p %> <% $script.version %>
  ps:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: [serve]
deployments:
  - {name: test, taskRoles: {ps: {preCommands: [no]}}}
  - {name: prod, taskRoles: {worker: {preCommands: ['get <% $data.name %>'], postCommands: [put]}}}
defaults: {deployment: prod, virtualCluster: vc1}
extras:
  gangAllocation: false
  storages: [{name: nfs}]
  hivedScheduler: {jobPriorityClass: crit}
  com.microsoft.pai.runtimeplugin:
    - {plugin: ssh, parameters: {jobssh: true}}
    - {plugin: cmd, taskroles: [worker], failurePolicy: ignore, parameters: {preCommands: [warm <% $parameters.model %>, up], postCommands: [cool]}}
    - {plugin: cmd, taskroles: [ps], parameters: {preCommands: [other]}}
";

#[test]
fn commands_are_rendered_as_upstream_does() {
    let protocol = valid(FULL);
    let expect = "get set\n\
        train resnet deep\n\
        echo a<b&c <% $secrets.p %> 1.50\n\
        put";
    let entrypoints = [
        ("worker".into(), expect.into()),
        ("ps".into(), "serve".into()),
    ];
    assert_eq!(protocol.entrypoints(), entrypoints);
}

#[test]
fn every_field_reaches_the_spec() {
    let spec = valid(FULL).job_spec().unwrap();
    assert_eq!(spec.vc.as_str(), "vc1");
    assert_eq!((spec.retry_count, spec.gang), (3, false));
    assert_eq!(spec.priority, Some(PriorityClass::Crit));
    assert_eq!((spec.task_count(), spec.gpu_count()), (5, 8));
    let worker = &spec.roles[0];
    assert_eq!(
        (
            worker.min_failed,
            worker.min_succeeded,
            worker.task_retry_count
        ),
        (1, -1, 2)
    );
    assert_eq!(
        (worker.image.as_str(), worker.shm_mb, worker.infiniband),
        ("repo/image", Some(64), true)
    );
    let auth = worker.image_auth.as_ref().unwrap();
    assert_eq!(
        (auth.username.as_str(), auth.password.as_str()),
        ("u", "<% $secrets.p %>")
    );
    let ports = [
        ("http".to_owned(), 1),
        ("web".to_owned(), 2),
        ("ssh".to_owned(), 1),
    ];
    assert_eq!(worker.resources.ports, ports);
    let pre = ["fetch http://two\ncd data", "(\nwarm resnet\nup\n) || true"];
    assert_eq!(worker.pre_commands, pre);
    assert_eq!(worker.post_commands, ["(\ncool\n) || true", "tidy"]);
    assert_eq!(spec.roles[1].pre_commands, ["other"]);
    let warned: Vec<&str> = spec.warnings.iter().map(|w| w.path.as_str()).collect();
    let paths = [
        ".extras.com.microsoft.pai.runtimeplugin[0].parameters.jobssh",
        ".taskRoles.worker.prerequisites[1]",
    ];
    assert_eq!(warned, paths);
}

#[test]
fn defaults_are_upstreams() {
    let spec = spec("type", "job");
    assert_eq!(spec.vc.as_str(), "default");
    assert_eq!(
        (spec.retry_count, spec.gang, spec.priority),
        (0, true, None)
    );
    assert_eq!(spec.warnings, []);
    let role = &spec.roles[0];
    assert_eq!(
        (role.instances, role.min_failed, role.min_succeeded),
        (1, 1, 1)
    );
    assert_eq!(
        (role.shm_mb, role.infiniband, role.image_auth.is_none()),
        (None, false, true)
    );
    let ports = [("ssh".to_owned(), 1), ("http".to_owned(), 1)];
    assert_eq!(role.resources.ports, ports);
}

#[test]
fn completion_defaults_follow_the_instances() {
    assert_eq!(role("taskRoles/worker/instances", "7").min_succeeded, 7);
    let text = "{minFailedInstances: null, minSucceededInstances: 0}";
    let role = role("taskRoles/worker/completion", text);
    assert_eq!((role.min_failed, role.min_succeeded), (1, 1));
}

#[test]
fn only_a_literal_false_switches_the_gang_off() {
    for (value, gang) in [
        ("false", false),
        ("true", true),
        ("0", true),
        ("'false'", true),
    ] {
        assert_eq!(
            spec("extras", &format!("{{gangAllocation: {value}}}")).gang,
            gang,
            "{value}"
        );
    }
}

#[test]
fn asking_for_nothing_gets_the_least_and_a_warning() {
    let spec = spec(
        "taskRoles/worker/resourcePerInstance",
        "{cpu: 0, memoryMB: 0, gpu: 0}",
    );
    let resources = &spec.roles[0].resources;
    assert_eq!(
        (resources.cpu, resources.memory_mb),
        (CPU_LEAST, MEMORY_MB_LEAST)
    );
    assert_eq!(spec.warnings.len(), 2);
}

#[test]
fn sections_and_partials_vanish() {
    let rows = [
        ("a<%! x %>b", "ab"),
        ("a<%# s %> in <% $parameters.x %> <%/ s %>b", "ab"),
        ("a<%> p %>b<%& q %>c", "abc"),
        ("<%    $x\\n%>", "<% $x %>"),
    ];
    for (command, rendered) in rows {
        let text = changed("taskRoles/worker/commands", &format!("[\"{command}\"]"));
        assert_eq!(valid(&text).entrypoints()[0].1, rendered);
    }
}
