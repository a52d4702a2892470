//! What is kept of a sample for a device that can be granted: the same of all vendors.

use crate::inventory::amd::AmdSample;
use crate::inventory::nvidia::{GpuSample, MigSample};

/// How busy a device is: a whole GPU, or an instance of one in MIG mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceLoad {
    /// Its lasting name, by which it is granted.
    pub id: String,
    /// The number of its device file, as job exporter's label has it. None of an instance, whose card has it.
    pub minor: Option<u32>,
    /// What files for other exporters call it: the driver's number, with that of the instance behind a dot.
    pub number: String,
    /// Percent of time in which it was busy. None of an instance.
    pub utilization: Option<u32>,
    /// Memory that is used, bytes.
    pub memory_used: Option<u64>,
    /// All of its memory, bytes.
    pub memory_total: Option<u64>,
    /// Power that it draws, milliwatts. None of an instance.
    pub power_mw: Option<u32>,
    /// Degrees Celsius. None of an instance.
    pub temperature: Option<u32>,
}

/// The loads of all devices. A card in MIG mode is not among them, its instances are.
pub fn loads(nvidia: &[GpuSample], amd: &[AmdSample]) -> Vec<DeviceLoad> {
    let mut loads = Vec::new();
    for gpu in nvidia {
        match &gpu.instances {
            None => loads.push(whole(gpu)),
            Some(instances) => loads.extend(instances.iter().map(|part| instance(gpu, part))),
        }
    }
    loads.extend(amd.iter().map(of_amd));
    loads
}

fn whole(gpu: &GpuSample) -> DeviceLoad {
    DeviceLoad {
        id: gpu.identity.uuid.clone(),
        minor: Some(gpu.identity.minor),
        number: gpu.identity.index.to_string(),
        utilization: gpu.utilization,
        memory_used: gpu.memory.map(|memory| memory.used),
        memory_total: gpu.memory.map(|memory| memory.total),
        power_mw: gpu.power.milliwatts,
        temperature: gpu.temperature.gpu,
    }
}

fn instance(gpu: &GpuSample, part: &MigSample) -> DeviceLoad {
    DeviceLoad {
        id: part.uuid.clone(),
        number: format!("{}.{}", gpu.identity.index, part.gpu_instance),
        memory_used: part.memory.map(|memory| memory.used),
        memory_total: part.memory.map(|memory| memory.total),
        ..DeviceLoad::default()
    }
}

fn of_amd(gpu: &AmdSample) -> DeviceLoad {
    let milliwatts = gpu.power_microwatts.map(|micro| micro / 1000);
    DeviceLoad {
        id: gpu.id.clone(),
        minor: Some(gpu.index),
        number: gpu.index.to_string(),
        utilization: gpu.busy_percent,
        memory_used: gpu.memory_used,
        memory_total: gpu.memory_total,
        power_mw: milliwatts.and_then(|milli| milli.try_into().ok()),
        temperature: gpu.temperature_milli.map(|milli| milli / 1000),
    }
}
