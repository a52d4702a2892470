//! CPUs, cores and memory where kernels differ.

use super::tree::Tree;
use super::*;

fn topology(tree: &Tree, cpu: u32, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        tree.file(&path, text);
    }
}

#[test]
fn cpus_are_found_without_the_kernels_list() {
    let tree = Tree::new();
    tree.file(
        "proc/cpuinfo",
        "processor\t: 0\nmodel name: x\n\nprocessor\t: 3\n",
    );
    assert_eq!(cpu::online(tree.root()).to_string(), "0,3");
    for cpu in 0..4 {
        tree.dir(&format!("sys/devices/system/cpu/cpu{cpu}"));
    }
    tree.dir("sys/devices/system/cpu/cpufreq")
        .file("sys/devices/system/cpu/cpu2/online", "0\n");
    assert_eq!(cpu::online(tree.root()).to_string(), "0-1,3");
    tree.file("sys/devices/system/cpu/online", "1-2\n\0");
    assert_eq!(cpu::online(tree.root()).to_string(), "1-2");
}

#[test]
fn threads_of_a_core_count_once() {
    let all: cpu_set::CpuSet = cpu_set::CpuSet::from_list("0-7").unwrap();
    let cores = |tree: &Tree| cpu::cores(tree.root(), &all);
    let tree = Tree::new();
    assert_eq!(cores(&tree), 8);
    for cpu in 0..8_u32 {
        let core = format!("{}", cpu % 4);
        topology(
            &tree,
            cpu,
            &[("core_id", &core), ("physical_package_id", "0")],
        );
    }
    assert_eq!(cores(&tree), 4);
    // Numbers of cores repeat in each package, or are not known.
    topology(&tree, 7, &[("physical_package_id", "1")]);
    assert_eq!(cores(&tree), 5);
    topology(&tree, 7, &[("core_id", "-1")]);
    assert_eq!(cores(&tree), 5);
    for cpu in 0..8_u32 {
        let list = format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1);
        topology(&tree, cpu, &[("thread_siblings_list", &list)]);
    }
    assert_eq!(cores(&tree), 4);
    // The map wins over the list, the new name over the old one.
    for cpu in 0..8_u32 {
        topology(&tree, cpu, &[("thread_siblings", "ff")]);
    }
    assert_eq!(cores(&tree), 1);
    for cpu in 0..8_u32 {
        let map = format!("{:x}", 0xf_u32 << (cpu / 4 * 4));
        topology(&tree, cpu, &[("core_cpus", &map)]);
    }
    assert_eq!(cores(&tree), 2);
}

/// A node lists CPUs that were taken offline since, and has those that are left.
#[test]
fn offline_cpus_of_a_node_do_not_count() {
    let tree = Tree::new();
    tree.file("sys/devices/system/cpu/online", "0,2-6\n")
        .node(0, "f", 1024, "10 20")
        .node(1, "f0", 1024, "20 10");
    let found = tree.read();
    let nodes: Vec<_> = found
        .numa
        .iter()
        .map(|node| (node.cpus, &*node.cpu_list))
        .collect();
    assert_eq!(nodes, [(3, "0,2-3"), (3, "4-6")]);
}

/// A core has as many threads as are online.
#[test]
fn offline_threads_do_not_count() {
    let tree = Tree::new();
    let online = cpu_set::CpuSet::from_list("1-2,5").unwrap();
    for (cpu, map) in [(1, "3"), (2, "c"), (5, "30")] {
        topology(&tree, cpu, &[("core_cpus", map)]);
    }
    assert_eq!(cpu::cores(tree.root(), &online), 3);
}

#[test]
fn huge_pages_of_all_sizes_are_left_out() {
    let tree = Tree::new();
    let info = "MemTotal: 67108864 kB\nHugePages_Total: 512\nHugepagesize: 2048 kB\n";
    tree.file("proc/meminfo", info);
    // A kernel that has only the line of the default size.
    assert_eq!(tree.read().memory_mb, (64 << 10) - 1024);
    for (size, pages) in [(2048, 512), (1_048_576, 8), (64, 0)] {
        let path = format!("sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages");
        tree.file(&path, &format!("{pages}\n"));
    }
    assert_eq!(tree.read().memory_mb, (64 << 10) - 1024 - 8192);
}

#[test]
fn what_a_whole_tree_does_not_tell_is_a_problem() {
    let tree = Tree::new();
    tree.file("proc/meminfo", "garbage\n").dir("sys");
    let found = tree.read();
    let names: Vec<&str> = found.problems.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["memory-unknown", "cpus-unknown"]);
    assert_eq!((found.memory_mb, found.cpus), (0, 0));
    let partial = Tree::new();
    partial.dir("sys/class/infiniband");
    assert_eq!(partial.read().problems, []);
}

#[test]
fn nodes_with_the_same_cpus_are_one_for_devices_too() {
    let tree = Tree::new();
    tree.file("sys/devices/system/cpu/online", "0-3\n")
        .node(0, "3", 1024, "10 10 20")
        .node(1, "3", 1024, "10 10 20")
        .node(2, "c", 2048, "20 20 10")
        .flat(&[
            ("0000:01:00.0", 0x0302, "10de:1db1", 0),
            ("0000:02:00.0", 0x0302, "10de:1db1", 1),
            ("0000:03:00.0", 0x0302, "10de:1db1", 2),
        ]);
    let found = tree.read();
    let nodes: Vec<_> = found
        .numa
        .iter()
        .map(|node| (node.id, node.memory_mb))
        .collect();
    assert_eq!(nodes, [(0, 2), (2, 2)]);
    assert_eq!(levels_line(&found), "numa 0,1 2");
}

#[test]
fn a_root_without_a_machine_is_refused() {
    let tree = Tree::new();
    let error = check_root(tree.root()).unwrap_err().to_string();
    assert!(
        error.ends_with("has neither proc nor sys; name the directory that has them"),
        "{error}"
    );
    tree.dir("capture/sys");
    let error = check_root(tree.root()).unwrap_err().to_string();
    assert!(error.ends_with("/capture"), "{error}");
    let below = tree.root().join("capture");
    assert_eq!(check_root(&below), Ok(()));
    let missing = tree.root().join("no");
    assert_eq!(check_root(&missing), Err(RootError::NoDirectory(missing)));
}
