//! File trees of machines, made by tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// A tree below a directory of its own.
pub(super) struct Tree(tempfile::TempDir);

/// A function on the bus: its path below `sys/devices`, its class, vendor and device.
pub(super) struct Function<'t> {
    pub(super) path: &'t str,
    pub(super) class: u32,
    pub(super) id: &'t str,
    pub(super) numa: i32,
}

pub(super) fn function<'t>(path: &'t str, class: u32, id: &'t str, numa: i32) -> Function<'t> {
    Function {
        path,
        class,
        id,
        numa,
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn read(&self) -> Inventory {
        read(&of_root(self.root()))
    }

    pub(super) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(super) fn dir(&self, path: &str) -> &Self {
        fs::create_dir_all(self.root().join(path)).unwrap();
        self
    }

    pub(super) fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    /// A NUMA node with CPUs as a map, memory and distances.
    pub(super) fn node(&self, id: u32, map: &str, memory_kb: u64, distance: &str) -> &Self {
        let dir = format!("sys/devices/system/node/node{id}");
        let info = format!("Node {id} MemTotal:       {memory_kb} kB\nNode {id} MemFree:  1 kB\n");
        self.file(&format!("{dir}/cpumap"), map)
            .file(&format!("{dir}/meminfo"), &info)
            .file(&format!("{dir}/distance"), distance)
    }

    /// A function with the bridges above it.
    pub(super) fn pci(&self, function: &Function<'_>) -> &Self {
        let parts: Vec<&str> = function.path.split('/').collect();
        for at in 1..parts.len() {
            let is_last = at + 1 == parts.len();
            let class = if is_last {
                function.class << 8
            } else {
                0x06_0400
            };
            let dir = format!("sys/devices/{}", parts[..=at].join("/"));
            let link = format!("sys/bus/pci/devices/{}", parts[at]);
            if !self.root().join(&link).exists() {
                self.file(&format!("{dir}/class"), &format!("0x{class:06x}\n"));
                let (vendor, device) = match is_last {
                    true => function.id.split_once(':').unwrap(),
                    false => ("10b5", "8796"),
                };
                self.file(&format!("{dir}/vendor"), &format!("0x{vendor}\n"))
                    .file(&format!("{dir}/device"), &format!("0x{device}\n"))
                    .file(&format!("{dir}/numa_node"), &format!("{}\n", function.numa));
                self.link(
                    &link,
                    &format!("../../../devices/{}", parts[..=at].join("/")),
                );
            }
        }
        self
    }

    /// Functions on a bus of their own, without a bridge above them.
    pub(super) fn flat(&self, functions: &[(&str, u32, &str, i32)]) -> &Self {
        for (address, class, id, numa) in functions {
            let bus = address.rsplit_once(':').unwrap().0;
            self.pci(&function(&format!("pci{bus}/{address}"), *class, id, *numa));
        }
        self
    }
}
