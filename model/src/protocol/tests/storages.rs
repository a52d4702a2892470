//! Storages of jobs.

use crate::job::JobStorage;
use crate::protocol::JOB_STORAGES_MAX;

use super::super::verdict;
use super::*;

fn storages(extras: &str) -> Vec<JobStorage> {
    let spec = valid(&changed("extras", extras)).job_spec();
    spec.unwrap().roles.remove(0).storages
}

/// The one problem of these extras.
fn problem(extras: &str) -> String {
    let problems = parse(&changed("extras", extras)).unwrap_err();
    assert_eq!(problems.len(), 1, "{extras}: {problems:?}");
    format!("{}: {}", problems[0].path, problems[0].message)
}

#[test]
fn storages_are_named_and_mounted_where_upstream_mounts_them() {
    let names = ".extras.com.microsoft.pai.runtimeplugin[0].parameters.storageConfigNames[1]";
    for (extras, path, name) in [
        ("{storages: [{name: nfs1}]}", ".extras.storages[0]", "nfs1"),
        ("{storages: [nfs1]}", ".extras.storages[0]", "nfs1"),
        ("{storages: nfs1}", ".extras.storages", "nfs1"),
        (
            "{com.microsoft.pai.runtimeplugin: [{plugin: teamwise_storage, taskroles: [other], parameters: \
             {storageConfigNames: [a, b]}}]}",
            names,
            "b",
        ),
    ] {
        let job = valid(&changed("extras", extras));
        let named = job.storages();
        let last = named.last().unwrap();
        assert_eq!(
            (&*last.path, last.name.as_deref()),
            (path, Some(name)),
            "{extras}"
        );
        let missing = last.missing().message;
        assert_eq!(missing, format!("Storage {name} is not found."));
        let verdict = verdict(&changed("extras", extras));
        assert!(verdict.valid, "which there are, a cluster knows: {extras}");
        let last = storages(extras).pop().unwrap();
        assert_eq!(last, JobStorage::usual(name.to_owned()));
        assert_eq!(last.mount_path, format!("/mnt/{name}"));
    }
    let verdict = verdict(&changed("extras", "{storages: [{mountPath: /mnt}]}"));
    assert!(!verdict.valid);
    assert_eq!(verdict.errors[0].path, ".extras.storages[0]");
}

#[test]
fn an_empty_list_asks_for_the_default_ones() {
    for (extras, wants) in [
        ("{storages: []}", true),
        ("{storages: null}", false),
        ("{storages: [a]}", false),
    ] {
        let job = valid(&changed("extras", extras));
        assert_eq!(job.wants_default_storages(), wants, "{extras}");
    }
}

#[test]
fn an_entry_says_where_and_what_of_it() {
    let all = storages(
        "{storages: [{name: a, mountPath: /data/, subPath: /runs/1/, readOnly: true}, {name: b}, {name: a, mountPath: \
         /other}]}",
    );
    let whole = |name: &str, mount_path: &str| JobStorage {
        mount_path: mount_path.to_owned(),
        ..JobStorage::usual(name.to_owned())
    };
    let first = JobStorage {
        sub_path: "runs/1".to_owned(),
        read_only: true,
        ..whole("a", "/data")
    };
    assert_eq!(all, [first, whole("b", "/mnt/b"), whole("a", "/other")]);
    // The list and a plugin may name the same one.
    let twice = "{storages: [{name: a}], com.microsoft.pai.runtimeplugin: [{plugin: teamwise_storage, parameters: \
                 {storageConfigNames: [a]}}]}";
    assert_eq!(storages(twice).len(), 1);
}

#[test]
fn what_cannot_be_mounted_is_told_with_its_field() {
    const AT: &str = ".extras.storages[0]";
    for (entry, expected) in [
        ("mountPath: data", "mountPath: should be an absolute path"),
        ("mountPath: /", "mountPath: should be an absolute path"),
        (
            "mountPath: /a/../proc",
            "mountPath: should be an absolute path",
        ),
        ("mountPath: /a//b", "mountPath: should be an absolute path"),
        ("mountPath: 7", "mountPath: should be string"),
        (
            "mountPath: /proc",
            "mountPath: should not be in or around /proc",
        ),
        (
            "mountPath: /dev/shm/x",
            "mountPath: should not be in or around /dev",
        ),
        (
            "mountPath: /usr/local/muster",
            "mountPath: should not be in or around /usr/local/muster",
        ),
        (
            "mountPath: /usr",
            "mountPath: should not be in or around /usr/local/muster",
        ),
        (
            "mountPath: /etc",
            "mountPath: should not be in or around /etc/hosts",
        ),
        ("subPath: ../x", "subPath: should be a relative path"),
        ("subPath: a/./b", "subPath: should be a relative path"),
        ("subPath: [a]", "subPath: should be string"),
        ("readOnly: 1", "readOnly: should be boolean"),
    ] {
        let told = problem(&format!("{{storages: [{{name: a, {entry}}}]}}"));
        assert!(
            told.starts_with(&format!("{AT}.{expected}")),
            "{entry}: {told}"
        );
    }
    for (second, expected) in [
        ("mountPath: /mnt/a", "should be another path: storage a"),
        (
            "mountPath: /mnt",
            "should not be inside of another storage's, or around it: a has /mnt/a",
        ),
        ("mountPath: /mnt/a/b", "should not be inside"),
    ] {
        let told = problem(&format!("{{storages: [a, {{name: b, {second}}}]}}"));
        let begin = format!(".extras.storages[1].mountPath: {expected}");
        assert!(told.starts_with(&begin), "{second}: {told}");
    }
    let many: Vec<_> = (0..=JOB_STORAGES_MAX)
        .map(|index| format!("s{index}"))
        .collect();
    let told = problem(&format!("{{storages: [{}]}}", many.join(", ")));
    assert_eq!(told, ".extras.storages: should NOT have more than 32 items");
}

#[test]
fn keys_without_effect_are_told() {
    let job = valid(&changed("extras", "{storages: [{name: a, mountpath: /x}]}"));
    let warned = job.job_spec().unwrap().warnings;
    assert_eq!(warned[0].path, ".extras.storages[0].mountpath");
    assert!(warned[0].message.contains("Did you mean mountPath?"));
}

#[test]
fn lists_without_storages_need_none() {
    for extras in [
        "{storages: []}",
        "{storages: null}",
        "{com.microsoft.pai.runtimeplugin: [{plugin: teamwise_storage, parameters: {storageConfigNames: \
         []}}]}",
    ] {
        assert!(verdict(&changed("extras", extras)).valid, "{extras}");
    }
}
