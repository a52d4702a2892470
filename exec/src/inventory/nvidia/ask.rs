//! What the library tells of one GPU.

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::PciInfo;

/// A GPU that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvidiaGpu {
    /// The driver's number.
    pub index: u32,
    /// The driver's lasting name, `GPU-...`.
    pub uuid: String,
    /// Of its file `/dev/nvidia0` 0. It need not be the index.
    pub minor: u32,
    /// As the driver names it.
    pub model: String,
    /// Memory of its own, MiB. 0 if the driver tells none, as where it is the machine's.
    pub memory_mb: u64,
    /// Its address on the bus. None if the driver does not tell it.
    pub pci: Option<String>,
    /// Its instances in MIG mode. None if it is not in that mode.
    pub instances: Option<Vec<MigInstance>>,
}

/// A part of a GPU in MIG mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigInstance {
    /// The driver's lasting name, `MIG-...`.
    pub uuid: String,
    /// As the driver names it.
    pub model: String,
    /// Its part of the memory, MiB.
    pub memory_mb: u64,
    /// Number of the part of the memory on the GPU.
    pub gpu_instance: u32,
    /// Number of the part of the processors in that.
    pub compute_instance: u32,
}

/// A GPU and its instances.
pub(super) fn gpu(index: u32, device: &Device<'_>) -> Result<NvidiaGpu, NvmlError> {
    let model = device.name()?;
    Ok(NvidiaGpu {
        index,
        uuid: device.uuid()?,
        // Drivers that know no minor number count as the files do.
        minor: device.minor_number().unwrap_or(index),
        memory_mb: memory_mb(device),
        pci: device.pci_info().ok().map(|place| address(&place)),
        instances: instances(device, &model)?,
        model,
    })
}

/// An address as the kernel writes it.
pub(super) fn address(place: &PciInfo) -> String {
    let PciInfo {
        domain,
        bus,
        device,
        ..
    } = place;
    format!("{domain:04x}:{bus:02x}:{device:02x}.0")
}

fn instances(device: &Device<'_>, model: &str) -> Result<Option<Vec<MigInstance>>, NvmlError> {
    // Most GPUs do not have the mode, and old drivers do not have the call.
    let is_on = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    if !is_on {
        return Ok(None);
    }
    let parts = parts(device)?;
    let found: Result<Vec<_>, _> = parts.iter().map(|part| instance(part, model)).collect();
    found.map(Some)
}

/// The instances of a GPU in MIG mode.
pub(super) fn parts<'nvml>(device: &Device<'nvml>) -> Result<Vec<Device<'nvml>>, NvmlError> {
    let mut found = Vec::new();
    for slot in 0..device.mig_device_count()? {
        match device.mig_device_by_index(slot) {
            Ok(part) => found.push(part),
            // Slots may be empty between others.
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// What the library tells of an instance.
pub(super) fn instance(part: &Device<'_>, model: &str) -> Result<MigInstance, NvmlError> {
    Ok(MigInstance {
        uuid: part.uuid()?,
        model: part.name().unwrap_or_else(|_| format!("{model} MIG")),
        memory_mb: memory_mb(part),
        gpu_instance: raw::gpu_instance(part)?,
        compute_instance: raw::compute_instance(part)?,
    })
}

/// 0 if the driver does not tell.
fn memory_mb(device: &Device<'_>) -> u64 {
    let total = device.memory_info().map(|memory| memory.total);
    // Drivers up to 470 have the older call only.
    total.or_else(|_| raw::memory_total(device)).unwrap_or(0) >> 20
}

/// Calls that the wrapper does not have.
#[allow(
    unsafe_code,
    reason = "each writes to a place of ours, of the type that the library's header names"
)]
mod raw {
    use nvml_wrapper::Device;
    use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};

    pub(super) fn gpu_instance(part: &Device<'_>) -> Result<u32, NvmlError> {
        let call = nvml_sym(part.nvml().lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
        let mut number = 0;
        // SAFETY: the handle is of this library, and `number` outlives the call.
        nvml_try(unsafe { call(part.handle(), &raw mut number) })?;
        Ok(number)
    }

    pub(super) fn compute_instance(part: &Device<'_>) -> Result<u32, NvmlError> {
        let call = nvml_sym(part.nvml().lib().nvmlDeviceGetComputeInstanceId.as_ref())?;
        let mut number = 0;
        // SAFETY: the handle is of this library, and `number` outlives the call.
        nvml_try(unsafe { call(part.handle(), &raw mut number) })?;
        Ok(number)
    }

    pub(super) fn memory_total(device: &Device<'_>) -> Result<u64, NvmlError> {
        let call = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
        // SAFETY: the structure has numbers only, for which zero is a value.
        let mut memory = unsafe { std::mem::zeroed() };
        // SAFETY: the handle is of this library, and `memory` outlives the call.
        nvml_try(unsafe { call(device.handle(), &raw mut memory) })?;
        Ok(memory.total)
    }
}
