//! GPUs by NVIDIA's management library.

use std::path::Path;

use muster_model::node::{Device, DeviceId};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::HardwareError;
use super::near::{BusId, Located};

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
pub(super) fn probe(root: &Path, library: Option<&Path>) -> Result<Vec<Located>, HardwareError> {
    let failed = |call| move |source| HardwareError::Driver { call, source };
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

fn device(nvml: &Nvml, index: u32, root: &Path) -> Located {
    describe(nvml, index, root).unwrap_or_else(|error| (silent(index, &error), None))
}

/// A GPU that the driver counts but does not answer for.
fn silent(index: u32, error: &NvmlError) -> Device {
    Device {
        id: DeviceId(format!("gpu-{index}")),
        index,
        model: "unknown".to_owned(),
        memory_mb: 0,
        paths: Vec::new(),
        fault: Some(format!("the driver does not answer for it: {error}")),
        simulated: false,
    }
}

fn describe(nvml: &Nvml, index: u32, root: &Path) -> Result<Located, NvmlError> {
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
    let bus = gpu.pci_info().ok().map(|place| BusId {
        domain: place.domain,
        bus: place.bus,
        device: place.device,
    });
    let device = Device {
        id: DeviceId(gpu.uuid()?),
        index,
        model: gpu.name()?,
        memory_mb: gpu
            .memory_info()
            .map_or(0, |memory| memory.total / (1 << 20)),
        paths,
        fault,
        simulated: false,
    };
    Ok((device, bus))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// Builds the fake driver library. Every machine that builds this workspace has a C
    /// compiler, because its cryptography needs one.
    fn fake_library(dir: &Path) -> PathBuf {
        let library = dir.join("libnvidia-ml.so.1");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hardware/fake_nvml.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
            .args([&library, &source])
            .status();
        assert!(built.unwrap().success());
        library
    }

    #[test]
    fn every_gpu_is_listed_with_its_files_or_its_fault() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("dev")).unwrap();
        for file in ["nvidia0", "nvidiactl", "nvidia-uvm"] {
            std::fs::write(root.path().join("dev").join(file), "").unwrap();
        }
        let library = fake_library(root.path());
        let gpus = probe(root.path(), Some(&library)).unwrap();
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
        assert_eq!(lost.index, 2);
    }
}
