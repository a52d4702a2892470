//! NVIDIA's GPUs, as the driver's management library (NVML) tells them.

mod ask;
mod files;
mod library;
mod links;
mod look;
mod sample;
mod sampler;
#[cfg(test)]
mod tests;

use std::path::Path;

use muster_model::cluster_spec::Level;
use muster_model::inventory::{Accelerator, AcceleratorKind, InventoryProblem};
use muster_model::node::DeviceLevel;
use nvml_wrapper::error::NvmlError;

use super::VendorInventory;
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
    let mut devices = Vec::new();
    let mut place_of = Vec::new();
    let mut cards = Vec::new();
    let mut problems = silent_problems(root, look);
    for gpu in &look.gpus {
        let first = place(&devices);
        match &gpu.instances {
            None => {
                place_of.push((gpu.index, first));
                devices.push(whole(gpu));
            }
            Some(instances) if instances.is_empty() => {
                devices.push(whole(gpu));
                problems.push(empty(gpu));
            }
            Some(instances) => {
                devices.extend(instances.iter().map(|instance| part(gpu, instance)));
                cards.push((first..place(&devices)).collect::<Vec<u32>>());
            }
        }
    }
    problems.extend(look.hangs.as_ref().map(driver_problem));
    cards.retain(|card| card.len() > 1);
    let nvlink = groups(&place_of, &look.links);
    let levels = [(Level::Nvlink, nvlink), (Level::Pcie, cards)];
    let levels = levels.into_iter().filter(|(_, groups)| !groups.is_empty());
    VendorInventory {
        devices,
        levels: levels
            .map(|(level, groups)| DeviceLevel { level, groups })
            .collect(),
        problems,
    }
}

/// Where the next device will be.
fn place(devices: &[Accelerator]) -> u32 {
    u32::try_from(devices.len()).unwrap_or(u32::MAX)
}

fn whole(gpu: &NvidiaGpu) -> Accelerator {
    Accelerator {
        kind: AcceleratorKind::Gpu,
        vendor: "nvidia".to_owned(),
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
