//! Files of a GPU: those that a task needs, and those that say what the kernel has.

use std::fs;
use std::path::Path;

use super::ask::{MigInstance, NvidiaGpu};

/// Device files that every task with a GPU needs, where the machine has them.
const SHARED: &[&str] = &[
    "dev/nvidiactl",
    "dev/nvidia-uvm",
    "dev/nvidia-uvm-tools",
    "dev/nvidia-modeset",
];
const KERNEL_GPUS: &str = "proc/driver/nvidia/gpus";
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";

/// The device files that a task needs to use a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFiles {
    /// Those that are there, as paths from `/`.
    pub paths: Vec<String>,
    /// What of its own is not there, as a sentence's end for people.
    pub fault: Option<String>,
}

/// The files for a GPU, or for an instance of it: the GPU's own, what all tasks with a GPU need,
/// and for an instance the two that give access to its parts.
pub fn files(root: &Path, gpu: &NvidiaGpu, instance: Option<&MigInstance>) -> GpuFiles {
    let mut own = vec![format!("dev/nvidia{}", gpu.minor)];
    let mut fault = None;
    for access in instance.iter().flat_map(|part| access_files(gpu, part)) {
        match capability(&root.join(&access)) {
            Some(minor) => own.push(format!("dev/nvidia-caps/nvidia-cap{minor}")),
            None => fault = Some(format!("/{access} does not name its device file")),
        }
    }
    let is_there = |path: &&str| root.join(path).exists();
    let missing = own.iter().find(|path| !is_there(&&***path));
    let fault = fault.or_else(|| missing.map(|path| format!("/{path} does not exist")));
    let all = own.iter().map(String::as_str).chain(SHARED.iter().copied());
    GpuFiles {
        paths: all
            .filter(is_there)
            .map(|path| format!("/{path}"))
            .collect(),
        fault,
    }
}

/// The kernel's files on the access to an instance's memory and to its processors.
fn access_files(gpu: &NvidiaGpu, instance: &MigInstance) -> [String; 2] {
    let memory = format!(
        "{CAPABILITIES}/gpu{}/mig/gi{}",
        gpu.minor, instance.gpu_instance
    );
    let processors = format!("{memory}/ci{}", instance.compute_instance);
    [memory, processors].map(|dir| format!("{dir}/access"))
}

/// Of an access file with `DeviceFileMinor: 30` 30.
pub(super) fn capability(access: &Path) -> Option<u32> {
    let text = fs::read_to_string(access).ok()?;
    let mut minors = text.lines().filter_map(|line| {
        let minor = line.strip_prefix("DeviceFileMinor:")?;
        minor.trim().parse().ok()
    });
    minors.next()
}

/// Addresses of the GPUs that the kernel's driver has, in the order of the bus.
pub(super) fn kernel_gpus(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join(KERNEL_GPUS))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
