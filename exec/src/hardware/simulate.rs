//! Devices that do not exist, for trials on machines without any.

use std::collections::BTreeMap;

use muster_model::cluster_spec::Level;
use muster_model::node::{Device, DeviceLevel};

use super::HardwareError;

/// More per machine are refused.
const DEVICES_MAX: u32 = 256;

/// What a machine would have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// The devices.
    pub devices: Vec<Device>,
    /// Which of them would lie near each other.
    pub levels: Vec<DeviceLevel>,
}

/// Reads `8xV100`, or several kinds separated by commas: `4xA100,4xT4`. Indices count on
/// over all kinds. More than two of a kind sit in pairs on PCIe switches, more than four on two
/// sockets, where their number can be divided so.
///
/// # Errors
/// What of the text cannot be read.
pub fn simulate(text: &str) -> Result<Simulated, HardwareError> {
    let devices = devices(text)?;
    let levels = levels(&devices);
    Ok(Simulated { devices, levels })
}

fn levels(devices: &[Device]) -> Vec<DeviceLevel> {
    let mut models: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for device in devices {
        models.entry(&device.model).or_default().push(device.index);
    }
    let (mut sockets, mut switches) = (Vec::new(), Vec::new());
    for indices in models.values() {
        let count = indices.len();
        if count > 4 && count.is_multiple_of(4) {
            sockets.extend(indices.chunks(count / 2).map(<[u32]>::to_vec));
        }
        if count > 2 && count.is_multiple_of(2) {
            switches.extend(indices.chunks(2).map(<[u32]>::to_vec));
        }
    }
    let levels = [(Level::Numa, sockets), (Level::Pcie, switches)].into_iter();
    let levels = levels.filter(|(_, groups)| !groups.is_empty());
    levels
        .map(|(level, groups)| DeviceLevel { level, groups })
        .collect()
}

fn devices(text: &str) -> Result<Vec<Device>, HardwareError> {
    let wrong = |reason| HardwareError::Simulate {
        text: text.to_owned(),
        reason,
    };
    let mut devices = Vec::new();
    for part in text.split(',') {
        let (count, model) = part
            .trim()
            .split_once('x')
            .ok_or_else(|| wrong("write COUNTxMODEL, as in 8xV100"))?;
        let count: u32 = count
            .parse()
            .map_err(|_| wrong("the count before 'x' is no number"))?;
        if !is_model(model) {
            return Err(wrong(
                "a model's name has letters, digits, '-', '_' and '.' only",
            ));
        }
        let first = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        if count == 0 || count > DEVICES_MAX - first {
            return Err(wrong("there can be 1 to 256 devices"));
        }
        devices.extend((first..first + count).map(|index| device(model, index)));
    }
    Ok(devices)
}

fn is_model(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    !text.is_empty() && text.bytes().all(plain)
}

fn device(model: &str, index: u32) -> Device {
    Device::simulated(format!("sim-{model}-{index}"), index, model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_and_mistakes_named() {
        let ids = |text: &str| match simulate(text) {
            Ok(found) => found
                .devices
                .into_iter()
                .map(|d| d.id.0)
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        };
        for (text, expect) in [
            ("2xV100", "sim-V100-0 sim-V100-1"),
            ("1xA100, 1xT4", "sim-A100-0 sim-T4-1"),
            ("1xRTX-3090x", "sim-RTX-3090x-0"),
            (
                "V100",
                "simulated devices \"V100\": write COUNTxMODEL, as in 8xV100",
            ),
            (
                "ax9",
                "simulated devices \"ax9\": the count before 'x' is no number",
            ),
            (
                "0xV100",
                "simulated devices \"0xV100\": there can be 1 to 256 devices",
            ),
            (
                "200xA,200xB",
                "simulated devices \"200xA,200xB\": there can be 1 to 256 devices",
            ),
            (
                "2xTesla V100",
                "simulated devices \"2xTesla V100\": \
                 a model's name has letters, digits, '-', '_' and '.' only",
            ),
        ] {
            assert_eq!(ids(text), expect);
        }
    }

    #[test]
    fn more_than_two_of_a_kind_sit_on_switches_and_more_than_four_on_sockets() {
        for (text, numa, pcie) in [
            ("1xA", vec![], vec![]),
            ("2xA", vec![], vec![]),
            ("3xA", vec![], vec![]),
            ("4xA", vec![], vec![vec![0, 1], vec![2, 3]]),
            ("6xA", vec![], vec![vec![0, 1], vec![2, 3], vec![4, 5]]),
            (
                "8xA",
                vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]],
                vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]],
            ),
            // Each kind for itself, also where its devices do not follow each other.
            ("2xA,3xB,2xA", vec![], vec![vec![0, 1], vec![5, 6]]),
        ] {
            let levels = simulate(text).unwrap().levels;
            let of = |level: Level| {
                let levels = levels.iter().filter(|found| found.level == level);
                let groups: Vec<Vec<u32>> = levels.flat_map(|l| l.groups.clone()).collect();
                groups
            };
            assert_eq!((of(Level::Numa), of(Level::Pcie)), (numa, pcie), "{text}");
        }
    }
}
