//! GPUs that are granted: what NVIDIA's driver tells, with the files that a task needs.

use std::collections::BTreeMap;
use std::path::Path;

use muster_model::node::{Device, DeviceId};

use super::near::{BusId, Located};
use crate::inventory::nvidia::{
    self, MigInstance, NvidiaError, NvidiaGpu, NvidiaLook, SilentGpu, files,
};

/// What is granted of NVIDIA's GPUs.
#[derive(Debug, Default)]
pub(super) struct Gpus {
    /// Every GPU by index; one that does not answer is listed as faulty. A card in MIG mode is
    /// not listed, its instances are, and then indices count what is listed: they are not the
    /// driver's.
    pub(super) devices: Vec<Located>,
    /// Indices of GPUs that NVLink links.
    pub(super) nvlink: Vec<Vec<u32>>,
}

pub(super) fn probe(root: &Path, library: Option<&Path>) -> Result<Gpus, NvidiaError> {
    Ok(granted(root, &nvidia::look(root, library)?))
}

fn granted(root: &Path, look: &NvidiaLook) -> Gpus {
    let silent = look.silent.iter().map(|gpu| (gpu.index, Err(gpu)));
    let well = look.gpus.iter().map(|gpu| (gpu.index, Ok(gpu)));
    let in_order: BTreeMap<u32, Result<&NvidiaGpu, &SilentGpu>> = silent.chain(well).collect();
    let mut devices: Vec<Located> = Vec::new();
    let mut index_of = Vec::new();
    for (number, gpu) in in_order {
        let index = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        match gpu {
            Err(gpu) => devices.push((silent_device(index, gpu), None)),
            Ok(gpu) => match &gpu.instances {
                None => {
                    index_of.push((number, index));
                    devices.push(located(root, index, gpu, None));
                }
                Some(parts) if parts.is_empty() => devices.push(empty(root, index, gpu)),
                Some(parts) => devices.extend(
                    (index..)
                        .zip(parts)
                        .map(|(index, part)| located(root, index, gpu, Some(part))),
                ),
            },
        }
    }
    Gpus {
        devices,
        nvlink: nvidia::groups(&index_of, &look.links),
    }
}

/// A GPU that the driver counts but does not answer for.
fn silent_device(index: u32, gpu: &SilentGpu) -> Device {
    Device {
        id: DeviceId(format!("gpu-{}", gpu.index)),
        index,
        model: "unknown".to_owned(),
        memory_mb: 0,
        paths: Vec::new(),
        fault: Some(format!("the driver does not answer for it: {}", gpu.reason)),
        simulated: false,
    }
}

/// A card in MIG mode without instances, which nothing can use.
fn empty(root: &Path, index: u32, gpu: &NvidiaGpu) -> Located {
    let (device, bus) = located(root, index, gpu, None);
    let fault = Some("it is in MIG mode and has no instances".to_owned());
    (Device { fault, ..device }, bus)
}

fn located(root: &Path, index: u32, gpu: &NvidiaGpu, part: Option<&MigInstance>) -> Located {
    let files = files(root, gpu, part);
    let (id, model, memory_mb) = match part {
        Some(part) => (&part.uuid, &part.model, part.memory_mb),
        None => (&gpu.uuid, &gpu.model, gpu.memory_mb),
    };
    let device = Device {
        id: DeviceId(id.clone()),
        index,
        model: model.clone(),
        memory_mb,
        paths: files.paths,
        fault: files.fault,
        simulated: false,
    };
    (device, gpu.pci.as_deref().and_then(bus_id))
}

/// Of `0000:1a:00.0` its numbers.
fn bus_id(pci: &str) -> Option<BusId> {
    let (address, _function) = pci.split_once('.')?;
    let mut numbers = address
        .split(':')
        .map(|number| u32::from_str_radix(number, 16).ok());
    Some(BusId {
        domain: numbers.next()??,
        bus: numbers.next()??,
        device: numbers.next()??,
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::FakeNvml;

    use super::*;

    fn gpus(root: &Path, text: &str) -> Gpus {
        for file in ["nvidia0", "nvidiactl", "nvidia-uvm"] {
            std::fs::create_dir_all(root.join("dev")).unwrap();
            std::fs::write(root.join("dev").join(file), "").unwrap();
        }
        let driver = FakeNvml::new(root, text).unwrap();
        probe(root, Some(driver.library())).unwrap()
    }

    #[test]
    fn every_gpu_is_listed_with_its_files_or_its_fault() {
        let root = tempfile::tempdir().unwrap();
        // The second sits in another slot than its index says, and its place on the bus is not
        // known; the third has fallen off the bus.
        let text = "devices = 3\n\
            gpu.0.uuid = GPU-aaaa\ngpu.0.name = Tesla V100-SXM2-16GB\ngpu.0.minor = 0\n\
            gpu.0.memory = 16384\ngpu.0.pci = 00000000:1A:00.0\n\
            gpu.1.uuid = GPU-bbbb\ngpu.1.name = Tesla V100-SXM2-16GB\ngpu.1.minor = 5\n\
            error.nvmlDeviceGetHandleByIndex_v2.2 = 15\n";
        let gpus = gpus(root.path(), text).devices;
        let [(healthy, bus), (fileless, unknown), (lost, none)] = &gpus[..] else {
            panic!("{gpus:?}")
        };
        assert_eq!(bus.unwrap().to_string(), "0000:1a:00.0");
        assert_eq!((unknown, none), (&None, &None));
        assert_eq!(healthy.id, DeviceId("GPU-aaaa".to_owned()));
        assert_eq!(healthy.model, "Tesla V100-SXM2-16GB");
        assert_eq!((healthy.index, healthy.memory_mb), (0, 16_384));
        assert_eq!(
            healthy.paths,
            ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"]
        );
        assert_eq!(healthy.fault, None);
        assert_eq!(
            fileless.fault.as_deref(),
            Some("/dev/nvidia5 does not exist")
        );
        let fault = lost.fault.as_deref().unwrap();
        assert!(
            fault.starts_with("the driver does not answer for it"),
            "{fault}"
        );
        assert_eq!((lost.index, &*lost.id.0), (2, "gpu-2"));
    }

    #[test]
    fn instances_are_granted_instead_of_their_card() {
        let root = tempfile::tempdir().unwrap();
        let text = "devices = 3\ngpu.0.uuid = GPU-a\ngpu.0.name = A100\ngpu.0.minor = 0\n\
            gpu.0.mig = 1\ngpu.0.pci = 00000000:01:00.0\n\
            gpu.0.mig.0.uuid = MIG-a\ngpu.0.mig.0.name = A100 MIG 3g.40gb\n\
            gpu.0.mig.0.memory = 40192\ngpu.0.mig.0.gi = 1\ngpu.0.mig.0.ci = 0\n\
            gpu.0.mig.1.uuid = MIG-b\ngpu.0.mig.1.gi = 2\ngpu.0.mig.1.ci = 0\n\
            gpu.1.uuid = GPU-b\ngpu.1.name = A100\ngpu.1.nvlink = 2\n\
            gpu.2.uuid = GPU-c\ngpu.2.name = A100\ngpu.2.nvlink = 1\n";
        let gpus = gpus(root.path(), text);
        let shown = |(device, bus): &Located| {
            let bus = bus.map(|bus| bus.to_string()).unwrap_or_default();
            let Device {
                index,
                id,
                model,
                memory_mb,
                ..
            } = device;
            format!("{index} {} {model} {memory_mb} {bus}", id.0)
        };
        let shown: Vec<String> = gpus.devices.iter().map(shown).collect();
        let expect = [
            "0 MIG-a A100 MIG 3g.40gb 40192 0000:01:00.0",
            "1 MIG-b A100 MIG 0 0000:01:00.0",
            "2 GPU-b A100 0 ",
            "3 GPU-c A100 0 ",
        ];
        assert_eq!(shown, expect);
        assert_eq!(gpus.nvlink, [[2, 3]]);
        // No access without the files of its own.
        assert_eq!(gpus.devices[0].0.paths[0], "/dev/nvidia0");
        assert!(gpus.devices[0].0.fault.is_some());
    }
    #[test]
    fn a_card_in_mig_mode_without_instances_is_faulty_and_keeps_its_place() {
        let root = tempfile::tempdir().unwrap();
        let text = "devices = 2\n\
            gpu.0.uuid = GPU-a\ngpu.0.name = A100\ngpu.0.minor = 0\ngpu.0.mig = 1\n\
            gpu.1.uuid = GPU-b\ngpu.1.name = A100\ngpu.1.minor = 0\ngpu.1.mig = 0\n";
        let devices = gpus(root.path(), text).devices;
        let shown = devices.iter().map(|(device, _)| {
            let Device {
                index, id, fault, ..
            } = device;
            (*index, &*id.0, fault.as_deref())
        });
        let fault = Some("it is in MIG mode and has no instances");
        let expect = [(0, "GPU-a", fault), (1, "GPU-b", None)];
        assert_eq!(shown.collect::<Vec<_>>(), expect);
    }
}
