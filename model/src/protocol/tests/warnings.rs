//! What is accepted and not carried out is told, with its place.

use crate::remark::Remark;

use super::super::WARNINGS_MAX;
use super::{SMALLEST, changed, valid};

fn warnings(text: &str) -> Vec<Remark> {
    valid(text).job_spec().unwrap().warnings
}

/// One warning, at this path, that holds this text.
#[track_caller]
fn check(text: &str, path: &str, holds: &str) {
    let found = warnings(text);
    let [warning] = &found[..] else {
        panic!("{path}: {found:#?}\nin\n{text}")
    };
    assert_eq!(warning.path, path, "{warning}");
    assert!(warning.message.contains(holds), "{warning}");
}

fn plugin(entry: &str) -> String {
    changed(
        "extras",
        &format!("{{com.microsoft.pai.runtimeplugin: [{entry}]}}"),
    )
}

const PLUGIN: &str = ".extras.com.microsoft.pai.runtimeplugin[0]";

#[test]
fn every_plugin_that_does_not_run_is_named() {
    let unknown = "no runtime plugin nosuch";
    check(&plugin("{plugin: nosuch}"), PLUGIN, unknown);
    check(&plugin("{plugin: tensorboard}"), PLUGIN, "has no logdir");
    for entry in [
        "{plugin: tensorboard, parameters: {port: 1, logdir: {train: /logs}}}",
        "{plugin: git, parameters: {repo_uri: u, options: [--depth=1], clone_dir: d}}",
        "{plugin: ssh, parameters: {jobssh: true, sshbarrier: true, userssh: {type: system}}}",
        "{plugin: cmd, parameters: {preCommands: [a], postCommands: [b]}}",
        "{plugin: cmd, parameters: {callbacks: []}, failurePolicy: ignore, taskroles: [worker]}",
        "{plugin: teamwise_storage, parameters: {storageConfigNames: [nfs1]}}",
    ] {
        assert_eq!(warnings(&plugin(entry)), [], "{entry}");
    }
    let parameters = format!("{PLUGIN}.parameters.preCommand");
    let slip = plugin("{plugin: cmd, parameters: {preCommand: [a]}}");
    check(&slip, &parameters, "Did you mean preCommands?");
    let parameters = format!("{PLUGIN}.parameters.repo");
    let slip = plugin("{plugin: git, parameters: {repo_uri: u, repo: u}}");
    check(&slip, &parameters, "repo_uri");
    let role = format!("{PLUGIN}.taskroles");
    let slip = plugin("{plugin: cmd, taskroles: [workers], parameters: {preCommands: [a]}}");
    check(&slip, &role, "Did you mean worker?");
}

#[test]
fn plugins_that_come_as_prerequisites_are_told_too() {
    let job = |item: &str, listed: &str| {
        let list = format!("prerequisites:\n  - {item}\n");
        let job = SMALLEST.replace("prerequisites:\n", &list);
        job.replace(
            "    dockerImage",
            &format!("    prerequisites: [{listed}]\n    dockerImage"),
        )
    };
    let item = "{type: script, name: p, plugin: com.microsoft.pai.runtimeplugin.tig}";
    check(
        &job(item, "p"),
        ".prerequisites[0]",
        "no runtime plugin tig",
    );
    check(&job(item, ""), ".prerequisites[0]", "No task role lists it");
    let item = "{type: script, name: p, plugin: other.git}";
    check(
        &job(item, ""),
        ".prerequisites[0].plugin",
        "no plugin other.git",
    );
    let item = "{type: script, name: p, require: [q]}";
    check(&job(item, ""), ".prerequisites[0].require", "no effect");
    check(
        &job("{type: script, name: p}", "p"),
        ".taskRoles.worker.prerequisites[0]",
        "no plugin",
    );
}

#[test]
fn keys_that_nobody_reads_are_told_with_what_was_meant() {
    for (path, value, at, holds) in [
        (
            "extras",
            "{gangAlocation: false}",
            ".extras.gangAlocation",
            "Did you mean gangAllocation?",
        ),
        (
            "extras",
            "{strange: 1}",
            ".extras.strange",
            "Known here: hivedScheduler",
        ),
        (
            "defaults",
            "{virtualcluster: v}",
            ".defaults.virtualcluster",
            "virtualCluster?",
        ),
        (
            "taskRoles/worker/extraContainerOptions",
            "{shmMb: 5}",
            ".taskRoles.worker.extraContainerOptions.shmMb",
            "shmMB?",
        ),
        (
            "extras",
            "{hivedScheduler: {jobPriority: prod}}",
            ".extras.hivedScheduler.jobPriority",
            "Known here",
        ),
        (
            "extras",
            "{hivedScheduler: {taskRoles: {worker: {skutype: A}}}}",
            ".extras.hivedScheduler.taskRoles.worker.skutype",
            "skuType?",
        ),
        (
            "extras",
            "{com.microsoft.pai.runtimeplugin: [{plugin: cmd, taskRoles: [worker]}]}",
            ".extras.com.microsoft.pai.runtimeplugin[0].taskRoles",
            "taskroles?",
        ),
        (
            "prerequisites",
            "[{type: dockerimage, name: image, uri: i, auth: {registryUri: r}}]",
            ".prerequisites[0].auth.registryUri",
            "registryuri?",
        ),
    ] {
        check(&changed(path, value), at, holds);
    }
    let free = "{submitFrom: vscode, gangAllocation: true, storages: [], hivedScheduler: {taskRoles: \
                {worker: {skuNum: 1, skuType: null}}}}";
    assert_eq!(warnings(&changed("extras", free)), []);
}

#[test]
fn values_without_effect_are_told() {
    for (path, value, at, holds) in [
        (
            "extras",
            "{gangAllocation: 'false'}",
            ".extras.gangAllocation",
            "true and false",
        ),
        (
            "extras",
            "{jobStatusChangeNotification: {failed: true}}",
            ".extras.jobStatusChangeNotification",
            "job wait",
        ),
        (
            "extras",
            "{hivedScheduler: {gangReleaseEnable: true}}",
            ".extras.hivedScheduler.gangReleaseEnable",
            "no effect",
        ),
        (
            "extras",
            "{hivedScheduler: {ignoreK8sSuggestedNodes: false}}",
            ".extras.hivedScheduler.ignoreK8sSuggestedNodes",
            "no effect",
        ),
        (
            "taskRoles/worker/taskRetryCount",
            "2",
            ".taskRoles.worker.taskRetryCount",
            "jobRetryCount",
        ),
        (
            "taskRoles/worker/commands",
            "['a <%& x %>']",
            ".taskRoles.worker.commands",
            "<% & x %>",
        ),
        (
            "deployments",
            "[{name: d, taskRoles: {worker: {preCommands: [a]}}}]",
            ".deployments",
            "defaults.deployment: d",
        ),
    ] {
        check(&changed(path, value), at, holds);
    }
    let alone = changed("taskRoles/worker/taskRetryCount", "2");
    let alone = alone.replacen('{', "{\"extras\": {\"gangAllocation\": false},", 1);
    assert_eq!(warnings(&alone), []);
}

#[test]
fn a_job_that_cannot_fail_is_told() {
    let job = |instances: u32, completion: &str| {
        let fields =
            format!("    instances: {instances}\n    completion: {completion}\n    dockerImage");
        SMALLEST.replace("    dockerImage", &fields)
    };
    let path = ".taskRoles.worker.completion.minFailedInstances";
    let still = "every task of the role may fail and the job still SUCCEEDS";
    for (instances, completion) in [
        (2, "{minFailedInstances: -1, minSucceededInstances: -1}"),
        (2, "{minFailedInstances: -1}"),
        (2, "{minFailedInstances: 3, minSucceededInstances: -1}"),
        (1, "{minFailedInstances: 2147483647}"),
    ] {
        check(&job(instances, completion), path, still);
    }
    for (instances, completion) in [
        (2, "{minFailedInstances: 2}"),
        (2, "{minFailedInstances: 0}"),
        (2, "{minSucceededInstances: -1}"),
        (2, "{minSucceededInstances: 5}"),
        (2, "{}"),
    ] {
        assert_eq!(warnings(&job(instances, completion)), [], "{completion}");
    }
}

#[test]
fn a_deployments_role_that_is_not_there_is_told() {
    let text = format!(
        "{SMALLEST}defaults: {{deployment: d}}\ndeployments:\n  - {{name: d, taskRoles: {{wrker: \
         {{preCommands: [a]}}}}}}\n"
    );
    check(
        &text,
        ".deployments[0].taskRoles.wrker",
        "Did you mean worker?",
    );
}

#[test]
fn data_that_no_command_mentions_is_told() {
    let job = |command: &str| {
        let data = "prerequisites:\n  - {type: data, name: set, uri: [u]}\n";
        let job = SMALLEST.replace("prerequisites:\n", data);
        let job = job.replace("    dockerImage", "    data: set\n    dockerImage");
        job.replace("echo hello", command)
    };
    check(
        &job("echo hello"),
        ".taskRoles.worker.data",
        "<% $data.uri %>",
    );
    assert_eq!(warnings(&job("curl <% $data.uri[0] %>")), []);
}

#[test]
fn warnings_are_bounded() {
    let keys: Vec<String> = (0..99).map(|n| format!("k{n}: 1")).collect();
    let found = warnings(&changed("extras", &format!("{{{}}}", keys.join(", "))));
    assert_eq!(found.len(), WARNINGS_MAX);
    let last = found.last().unwrap();
    assert_eq!(last.to_string(), "There are 68 more warnings.");
    let long = "k".repeat(900);
    let found = warnings(&changed("extras", &format!("{{{long}: 1}}")));
    assert!(found[0].to_string().len() < 400, "{found:?}");
}
