//! GPUs by NVIDIA's management library.

use std::path::Path;

use muster_model::node::{Device, DeviceId};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::Error;

/// Where the loader finds the library on a machine with a driver.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Device files that every task with a GPU needs, where the machine has them.
const SHARED_PATHS: &[&str] = &[
    "dev/nvidiactl",
    "dev/nvidia-uvm",
    "dev/nvidia-uvm-tools",
    "dev/nvidia-modeset",
];

/// Every GPU of the machine, by index; one that does not answer is listed as faulty.
pub(super) fn probe(root: &Path, library: Option<&Path>) -> Result<Vec<Device>, Error> {
    let failed = |call| move |source| Error::Driver { call, source };
    let Some(nvml) = load(library).map_err(failed("load"))? else {
        return Ok(Vec::new());
    };
    let count = nvml.device_count().map_err(failed("count the GPUs"))?;
    Ok((0..count).map(|index| device(&nvml, index, root)).collect())
}

/// The library, if the machine has one with a driver below it.
fn load(library: Option<&Path>) -> Result<Option<Nvml>, NvmlError> {
    let path = library.unwrap_or_else(|| Path::new(LIBRARY));
    match Nvml::builder().lib_path(path.as_os_str()).init() {
        Ok(nvml) => Ok(Some(nvml)),
        // The loader does not tell "not there" from "unusable"; the file does.
        Err(NvmlError::LibloadingError(_)) if !path.exists() => Ok(None),
        Err(NvmlError::DriverNotLoaded) => Ok(None),
        Err(error) => Err(error),
    }
}

fn device(nvml: &Nvml, index: u32, root: &Path) -> Device {
    match describe(nvml, index, root) {
        Ok(device) => device,
        Err(error) => Device {
            id: DeviceId(format!("gpu-{index}")),
            index,
            model: "unknown".to_owned(),
            memory_mb: 0,
            paths: Vec::new(),
            fault: Some(format!("the driver does not answer for it: {error}")),
            simulated: false,
        },
    }
}

fn describe(nvml: &Nvml, index: u32, root: &Path) -> Result<Device, NvmlError> {
    let gpu = nvml.device_by_index(index)?;
    // The number in the file's name need not be the index: the driver numbers by bus order.
    let minor = gpu.minor_number().unwrap_or(index);
    let own = format!("dev/nvidia{minor}");
    let paths: Vec<String> = std::iter::once(own.as_str())
        .chain(SHARED_PATHS.iter().copied())
        .filter(|path| root.join(path).exists())
        .map(|path| format!("/{path}"))
        .collect();
    let fault = (!root.join(&own).exists()).then(|| format!("/{own} does not exist"));
    Ok(Device {
        id: DeviceId(gpu.uuid()?),
        index,
        model: gpu.name()?,
        memory_mb: gpu
            .memory_info()
            .map_or(0, |memory| memory.total / (1 << 20)),
        paths,
        fault,
        simulated: false,
    })
}
