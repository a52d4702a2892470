//! Fixture trees for the machines that the tests do not run on; the engine's tests read the
//! counters of this one.

use muster_model::task_use::DiskUse;

use super::*;

/// Writes `files` below a new directory.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

const USAGE: Usage = Usage {
    memory_bytes: 3_000,
    memory_peak_bytes: Some(5_000),
    cpu_usec: 12,
    disk: Some(DiskUse {
        read: 4_608,
        written: 1_024,
    }),
    pids: 5,
    oom_kills: 2,
    pids_refused: 7,
};

#[test]
fn version_2_with_systemd() {
    let group = "sys/fs/cgroup/muster.slice/muster-t1.scope";
    let root = tree(&[
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
        ("run/systemd/system/x", ""),
        (&format!("{group}/memory.current"), "4096\n"),
        (&format!("{group}/memory.peak"), "5000\n"),
        (
            &format!("{group}/io.stat"),
            "259:0 rbytes=4096 wbytes=1024 rios=1 wios=2 dbytes=9 dios=1\n8:0 rbytes=512 wbytes=0 rios=1\n",
        ),
        (
            &format!("{group}/memory.stat"),
            "anon 1\ninactive_file 1096\n",
        ),
        (&format!("{group}/memory.events"), "oom 3\noom_kill 2\n"),
        (&format!("{group}/cpu.stat"), "usage_usec 12\nuser_usec 5\n"),
        (&format!("{group}/pids.current"), "5\n"),
        (&format!("{group}/pids.events"), "max 7\n"),
    ]);
    let cgroups = Cgroups::detect(root.path(), "muster").unwrap();
    assert!(cgroups.is_v2() && cgroups.needs_systemd() && cgroups.limits_swap());
    assert_eq!(cgroups.spec_path("t1"), "muster.slice:muster:t1");
    assert_eq!(cgroups.usage("t1").unwrap(), USAGE);
}

#[test]
fn version_1_and_hybrid() {
    let root = tree(&[
        ("sys/fs/cgroup/unified/cgroup.controllers", ""),
        ("run/systemd/system/x", ""),
        (
            "sys/fs/cgroup/memory/muster/t1/memory.usage_in_bytes",
            "4096\n",
        ),
        (
            "sys/fs/cgroup/memory/muster/t1/memory.max_usage_in_bytes",
            "5000\n",
        ),
        (
            "sys/fs/cgroup/blkio/muster/t1/blkio.throttle.io_service_bytes_recursive",
            "259:0 Read 4096\n259:0 Write 1024\n259:0 Total 5120\n8:0 Read 512\nTotal 5632\n",
        ),
        (
            "sys/fs/cgroup/memory/muster/t1/memory.stat",
            "total_inactive_file 1096\n",
        ),
        (
            "sys/fs/cgroup/memory/muster/t1/memory.oom_control",
            "under_oom 0\noom_kill 2\n",
        ),
        ("sys/fs/cgroup/cpuacct/muster/t1/cpuacct.usage", "12999\n"),
        ("sys/fs/cgroup/pids/muster/t1/pids.current", "5\n"),
        ("sys/fs/cgroup/pids/muster/t1/pids.events", "max 7\n"),
    ]);
    let cgroups = Cgroups::detect(root.path(), "muster").unwrap();
    assert!(!cgroups.is_v2() && !cgroups.needs_systemd() && !cgroups.limits_swap());
    assert_eq!(cgroups.spec_path("t1"), "/muster/t1");
    assert_eq!(cgroups.usage("t1").unwrap(), USAGE);
}

#[test]
fn what_is_missing_is_named() {
    let root = tree(&[
        ("sys/fs/cgroup/cgroup.controllers", ""),
        ("sys/fs/cgroup/muster/t1/memory.current", "lots\n"),
    ]);
    let cgroups = Cgroups::detect(root.path(), "muster").unwrap();
    let malformed = cgroups.usage("t1").unwrap_err().to_string();
    assert!(
        malformed.ends_with("memory.current holds \"lots\\n\""),
        "{malformed}"
    );
    // Kernels without the io controller, or before 5.19, count the rest all the same.
    for (file, text) in [
        ("memory.current", "1\n"),
        ("memory.stat", "inactive_file 0\n"),
        ("memory.events", "oom_kill 0\n"),
        ("cpu.stat", "usage_usec 1\n"),
        ("pids.current", "1\n"),
        ("pids.events", "max 0\n"),
    ] {
        let group = root.path().join("sys/fs/cgroup/muster/t2");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join(file), text).unwrap();
    }
    let bare = cgroups.usage("t2").unwrap();
    assert_eq!((bare.disk, bare.memory_peak_bytes), (None, None));
    assert!(matches!(
        cgroups.usage("gone"),
        Err(CgroupError::Read { .. })
    ));
    assert!(matches!(
        Cgroups::detect(&root.path().join("empty"), "muster"),
        Err(CgroupError::NotMounted(_))
    ));
    assert!(matches!(
        Cgroups::detect(root.path(), "a-b"),
        Err(CgroupError::BadParent(_))
    ));
}

#[test]
fn processes_of_groups_within_the_container_are_its_own() {
    let v2 = [
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n"),
        ("sys/fs/cgroup/muster/t1/cgroup.procs", "12\n10\n"),
        ("sys/fs/cgroup/muster/t1/made/cgroup.procs", "15\n"),
        ("sys/fs/cgroup/muster/t1/made/deep/cgroup.procs", "16\n"),
        ("sys/fs/cgroup/muster/t2/cgroup.procs", "99\n"),
    ];
    let v1 = [
        ("sys/fs/cgroup/memory/x", ""),
        ("sys/fs/cgroup/pids/muster/t1/cgroup.procs", "12\n10\n"),
        ("sys/fs/cgroup/pids/muster/t1/made/cgroup.procs", "15\n16\n"),
    ];
    for files in [&v2[..], &v1[..]] {
        let root = tree(files);
        let cgroups = Cgroups::detect(root.path(), "muster").unwrap();
        assert_eq!(cgroups.process_ids("t1").unwrap(), [10, 12, 15, 16]);
        let missing = cgroups.process_ids("t9").unwrap_err().to_string();
        assert!(missing.contains("t9/cgroup.procs"), "{missing}");
    }
}
