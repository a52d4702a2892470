//! How busy AMD's GPUs are, from files that the kernel's driver answers at once. `pcie_bw` is not among them: reading
//! it takes a second, in which the driver counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::kfd::{KfdGpu, gpus};

const PCI_DEVICES: &str = "sys/bus/pci/devices";

/// One reading of a GPU. A figure that the driver does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmdSample {
    /// Its number in the order of KFD.
    pub index: u32,
    /// A name that lasts as long as the card.
    pub id: String,
    /// Its address on the bus.
    pub pci: String,
    /// Percent of time in which it was busy.
    pub busy_percent: Option<u32>,
    /// Memory that is used, bytes.
    pub memory_used: Option<u64>,
    /// All of its memory, bytes.
    pub memory_total: Option<u64>,
    /// Thousandths of a degree Celsius, at the edge of the chip or, without a sensor there, at its hottest place.
    pub temperature_milli: Option<u32>,
    /// Power that it draws, microwatts.
    pub power_microwatts: Option<u64>,
}

/// Reads the GPUs of the machine whose file tree is at `root`, in the order of KFD. The partitions of a card have one
/// set of files, which is told of the first of them.
pub fn samples(root: &Path) -> Vec<AmdSample> {
    let (gpus, _problems) = gpus(root);
    let whole = (0..)
        .zip(&gpus)
        .filter(|(_, gpu)| gpu.partition.is_none_or(|partition| partition == 0));
    whole.map(|(index, gpu)| sample(root, index, gpu)).collect()
}

fn sample(root: &Path, index: u32, gpu: &KfdGpu) -> AmdSample {
    let dir = root.join(PCI_DEVICES).join(gpu.card.to_string());
    let sensors = sensors(&dir);
    let first = |names: &[&str]| {
        let sensors = sensors.as_deref()?;
        names.iter().find_map(|name| number(&sensors.join(name)))
    };
    AmdSample {
        index,
        id: gpu.id(),
        pci: gpu.place.to_string(),
        busy_percent: number(&dir.join("gpu_busy_percent")),
        memory_used: number(&dir.join("mem_info_vram_used")),
        memory_total: number(&dir.join("mem_info_vram_total")),
        temperature_milli: first(&["temp1_input", "temp2_input"]),
        power_microwatts: first(&["power1_average", "power1_input"]).map(u64::from),
    }
}

/// The directory of the card's sensors: `hwmon/hwmon3`.
fn sensors(dir: &Path) -> Option<PathBuf> {
    let mut found = fs::read_dir(dir.join("hwmon")).ok()?.flatten();
    found.next().map(|entry| entry.path())
}

/// The number in a file. Drivers answer some files of a sleeping GPU with an error.
fn number<T: FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack_capture;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn figures_are_read_where_the_card_is() {
        let root = unpack_capture("amd-mi210-8-two-hives").unwrap();
        let before = samples(root.path());
        assert_eq!(before.len(), 8);
        let card = format!("{PCI_DEVICES}/{}", before[1].pci);
        for (file, text) in [
            ("gpu_busy_percent", "98\n"),
            ("mem_info_vram_used", "1073741824\n"),
            ("mem_info_vram_total", "206158430208\n"),
            ("hwmon/hwmon7/temp2_input", "61000\n"),
            ("hwmon/hwmon7/power1_average", "712000000\n"),
            // Reading it would take a second.
            ("pcie_bw", "no number\n"),
        ] {
            write(root.path(), &format!("{card}/{file}"), text);
        }
        let expect = AmdSample {
            busy_percent: Some(98),
            memory_used: Some(1 << 30),
            memory_total: Some(192 << 30),
            temperature_milli: Some(61_000),
            power_microwatts: Some(712_000_000),
            ..before[1].clone()
        };
        assert_eq!(samples(root.path())[1], expect);
    }

    #[test]
    fn partitions_of_a_card_are_told_once() {
        let root = unpack_capture("amd-mi300x-8-cpx").unwrap();
        assert_eq!(samples(root.path()).len(), 8);
        assert!(gpus(root.path()).0.len() > 8);
        assert_eq!(samples(tempfile::tempdir().unwrap().path()), []);
    }
}
