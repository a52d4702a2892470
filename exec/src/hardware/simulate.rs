//! Devices that do not exist, for trials on machines without any.

use muster_model::node::{Device, DeviceId};

use super::Error;

/// More per machine are refused.
const DEVICES_MAX: u32 = 256;

/// Reads `8xV100`, or several kinds separated by commas: `4xA100,4xT4`. Indices count on
/// over all kinds.
pub fn simulate(text: &str) -> Result<Vec<Device>, Error> {
    let wrong = |reason| Error::Simulate {
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
    Device {
        id: DeviceId(format!("sim-{model}-{index}")),
        index,
        model: model.to_owned(),
        memory_mb: 0,
        paths: Vec::new(),
        fault: None,
        simulated: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_and_mistakes_named() {
        let ids = |text: &str| match simulate(text) {
            Ok(devices) => devices
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
}
