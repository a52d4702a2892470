//! NVIDIA's GPUs, as the driver's management library (NVML) tells them.

mod ask;
pub mod device_files;
mod files;
mod library;
mod links;
mod look;
mod sample;
mod sampler;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use muster_model::cluster_spec::Level;
use muster_model::inventory::{Accelerator, AcceleratorKind, InventoryProblem};
use muster_model::node::{DeviceLevel, NVIDIA};
use nvml_wrapper::error::NvmlError;

use super::{DeviceAccess, DeviceListing, FoundDevice, VendorInventory};
pub use ask::{MigInstance, NvidiaGpu};
pub use files::{GpuFiles, files};
pub use links::groups;
pub use look::{NvidiaError, NvidiaLook, SilentGpu, look};
pub use sample::{
    GpuActivity, GpuEcc, GpuIdentity, GpuMemory, GpuNvlink, GpuPcie, GpuPower, GpuProcess,
    GpuRound, GpuSample, GpuTemperature, MigSample, RemappedRows, RetiredPages,
};
pub use sampler::{GpuSampler, SamplerPause};

/// NVIDIA's GPUs of the machine whose file tree is at `root`, in the order of the driver.
/// `library` is the driver's library, if it is not where the loader finds it.
///
/// A card in MIG mode is not listed, its instances are; those of a card are one group of the
/// level `pcie`. A card in MIG mode without instances is listed, with a problem. GPUs of which
/// NVLink links each to each other one are a group of the level `nvlink`. A machine without the
/// driver's library, or without a driver below it, has no GPUs for this reader, and no problem:
/// the PCI bus shows GPUs that a driver should list.
pub fn read(root: &Path, library: Option<&Path>) -> VendorInventory {
    match look(root, library) {
        Ok(look) => inventory(root, &look),
        Err(error) => VendorInventory {
            problems: vec![driver_problem(&error)],
            ..VendorInventory::default()
        },
    }
}

fn inventory(root: &Path, look: &NvidiaLook) -> VendorInventory {
    let mut found = NvidiaDevices::default();
    for gpu in in_order(look) {
        match gpu {
            Ok(gpu) => found.add(root, gpu),
            Err(silent) => found.devices.push(silent_device(silent)),
        }
    }
    let mut problems = silent_problems(root, look);
    problems.extend(found.problems);
    problems.extend(look.hangs.as_ref().map(driver_problem));
    found.cards.retain(|card| card.len() > 1);
    let nvlink = groups(&found.place_of, &look.links);
    let levels = [(Level::Nvlink, nvlink), (Level::Pcie, found.cards)];
    let levels = levels.into_iter().filter(|(_, groups)| !groups.is_empty());
    VendorInventory {
        devices: found.devices,
        levels: levels
            .map(|(level, groups)| DeviceLevel { level, groups })
            .collect(),
        problems,
    }
}

/// All GPUs by the driver's number.
fn in_order(look: &NvidiaLook) -> impl Iterator<Item = Result<&NvidiaGpu, &SilentGpu>> {
    let silent = look.silent.iter().map(|gpu| (gpu.index, Err(gpu)));
    let well = look.gpus.iter().map(|gpu| (gpu.index, Ok(gpu)));
    let in_order: BTreeMap<u32, _> = silent.chain(well).collect();
    in_order.into_values()
}

/// Devices as far as they are known.
#[derive(Default)]
struct NvidiaDevices {
    devices: Vec<FoundDevice>,
    /// Of whole GPUs the driver's number and the place in `devices`.
    place_of: Vec<(u32, u32)>,
    /// The instances of each card.
    cards: Vec<Vec<u32>>,
    problems: Vec<InventoryProblem>,
}

impl NvidiaDevices {
    fn add(&mut self, root: &Path, gpu: &NvidiaGpu) {
        let first = self.next_place();
        match &gpu.instances {
            None => {
                self.place_of.push((gpu.index, first));
                self.devices.push(whole_device(root, gpu, None));
            }
            Some(instances) if instances.is_empty() => {
                let fault = "it is in MIG mode and has no instances";
                self.devices.push(whole_device(root, gpu, Some(fault)));
                self.problems.push(empty(gpu));
            }
            Some(instances) => {
                let parts = instances.iter().map(|part| part_device(root, gpu, part));
                self.devices.extend(parts);
                self.cards.push((first..self.next_place()).collect());
            }
        }
    }

    fn next_place(&self) -> u32 {
        u32::try_from(self.devices.len()).unwrap_or(u32::MAX)
    }
}

fn whole_device(root: &Path, gpu: &NvidiaGpu, fault: Option<&str>) -> FoundDevice {
    let files = files(root, gpu, None);
    let access = DeviceAccess {
        id: gpu.uuid.clone(),
        paths: files.paths,
        fault: fault.map(str::to_owned).or(files.fault),
    };
    FoundDevice::listed(whole(gpu), Some(access))
}

fn part_device(root: &Path, gpu: &NvidiaGpu, instance: &MigInstance) -> FoundDevice {
    let files = files(root, gpu, Some(instance));
    let access = DeviceAccess {
        id: instance.uuid.clone(),
        paths: files.paths,
        fault: files.fault,
    };
    FoundDevice::listed(part(gpu, instance), Some(access))
}

/// A GPU that the driver counts but does not answer for. The bus may list it.
fn silent_device(gpu: &SilentGpu) -> FoundDevice {
    let accelerator = Accelerator {
        kind: AcceleratorKind::Gpu,
        vendor: NVIDIA.to_owned(),
        model: "unknown".to_owned(),
        pci: None,
        numa: None,
        memory_mb: 0,
        partition_of: None,
    };
    let access = DeviceAccess {
        id: format!("gpu-{}", gpu.index),
        paths: Vec::new(),
        fault: Some(format!("the driver does not answer for it: {}", gpu.reason)),
    };
    FoundDevice {
        accelerator,
        access: Some(access),
        listing: DeviceListing::Counted,
    }
}

fn whole(gpu: &NvidiaGpu) -> Accelerator {
    Accelerator {
        kind: AcceleratorKind::Gpu,
        vendor: NVIDIA.to_owned(),
        model: gpu.model.clone(),
        pci: gpu.pci.clone(),
        numa: None,
        memory_mb: gpu.memory_mb,
        partition_of: None,
    }
}

fn part(gpu: &NvidiaGpu, instance: &MigInstance) -> Accelerator {
    Accelerator {
        model: instance.model.clone(),
        memory_mb: instance.memory_mb,
        // A partition whose card has no address is still one.
        partition_of: Some(gpu.pci.clone().unwrap_or_else(|| gpu.uuid.clone())),
        ..whole(gpu)
    }
}

fn empty(gpu: &NvidiaGpu) -> InventoryProblem {
    let index = gpu.index;
    InventoryProblem {
        name: "mig-empty".to_owned(),
        subject: gpu.pci.clone(),
        evidence: format!("GPU {index} is in MIG mode and has no instance, so nothing can use it."),
        remedy: format!(
            "Make instances with nvidia-smi mig -i {index} -cgi PROFILE -C, or leave the mode \
             with nvidia-smi -i {index} -mig 0."
        ),
    }
}

/// GPUs that the driver counts and does not answer for. Their addresses are known where the
/// kernel lists as many GPUs that did not answer.
fn silent_problems(root: &Path, look: &NvidiaLook) -> Vec<InventoryProblem> {
    let mut unheard = files::kernel_gpus(root);
    unheard.retain(|pci| look.gpus.iter().all(|gpu| gpu.pci.as_ref() != Some(pci)));
    let is_told = unheard.len() == look.silent.len();
    let problem = |(at, silent): (usize, &SilentGpu)| InventoryProblem {
        name: "device-silent".to_owned(),
        subject: unheard.get(at).filter(|_| is_told).cloned(),
        evidence: format!(
            "The driver counts GPU {} and does not answer for it: {}.",
            silent.index, silent.reason
        ),
        remedy: "Look for Xid in the kernel log; reset the GPU, or restart the machine.".to_owned(),
    };
    look.silent.iter().enumerate().map(problem).collect()
}

fn driver_problem(error: &NvidiaError) -> InventoryProblem {
    let (name, remedy) = match error {
        NvidiaError::Call {
            source: NvmlError::LibRmVersionMismatch,
            ..
        } => (
            "driver-mismatch",
            "Restart the machine, so that the kernel loads the driver of the library's version.",
        ),
        NvidiaError::Call { .. } => (
            "driver-unusable",
            "Install the driver's library and its kernel module again, in one version.",
        ),
        NvidiaError::NoAnswer { .. } => (
            "driver-hangs",
            "Look for NVRM and Xid in the kernel log; restart the machine.",
        ),
    };
    InventoryProblem {
        name: name.to_owned(),
        subject: None,
        evidence: format!("{}.", sentence(error)),
        remedy: remedy.to_owned(),
    }
}

/// An error with what caused it, as the start of a sentence.
fn sentence(error: &NvidiaError) -> String {
    let text = match error {
        NvidiaError::Call { source, .. } => format!("{error}: {source}"),
        NvidiaError::NoAnswer { .. } => error.to_string(),
    };
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
