//! Lines of the PCI bus and of NVIDIA's network adapters: fatal errors, firmware, power, cables.

use muster_model::health::HealthSubject;

use super::{KernelFact, driver_line, kernel_form, leading_number};

/// What a line says of the bus or of a network adapter. `device` is the device that the kernel
/// notes beside the line.
pub(super) fn fact(line: &str, device: Option<&str>) -> Option<KernelFact> {
    bus_error(line)
        .or_else(|| received(line))
        .or_else(|| adapter(line, device))
}

/// `nvidia 0000:19:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer`.
/// Newer kernels write Uncorrectable.
fn bus_error(line: &str) -> Option<KernelFact> {
    let (before, rest) = line.split_once("PCIe Bus Error: severity=")?;
    let code = code(rest)?;
    let address = before.split([' ', ':', ',']).next()?;
    let (subject, _) = driver_line(line, address)?;
    Some(KernelFact::new(subject, code))
}

/// `pcieport 0000:17:00.0: AER: Uncorrected (Fatal) error received: 0000:19:00.0`. It is the
/// only line if the device does not answer any more.
fn received(line: &str) -> Option<KernelFact> {
    let (_, rest) = line.split_once("AER: ")?;
    let rest = rest.strip_prefix("Multiple ").unwrap_or(rest);
    let code = code(rest)?;
    rest.contains(" received").then_some(())?;
    let address = rest.split_whitespace().find_map(kernel_form_of_word)?;
    Some(KernelFact::new(HealthSubject::at(address), code))
}

fn kernel_form_of_word(word: &str) -> Option<String> {
    kernel_form(word.trim_matches(['(', ')', ',']))
}

fn code(text: &str) -> Option<&'static str> {
    let kind = text
        .strip_prefix("Uncorrected (")
        .or_else(|| text.strip_prefix("Uncorrectable ("))?;
    if kind.starts_with("Fatal)") {
        Some("aer-fatal")
    } else {
        Some("aer-nonfatal")
    }
}

/// Words of mlx5's lines, and their codes.
const ADAPTER_CODES: [(&str, &str); 7] = [
    ("insufficient power on the PCIe slot", "mlx5-slot-power"),
    ("device's health compromised", "mlx5-health"),
    ("Fatal error", "mlx5-health"),
    ("firmware internal error", "mlx5-health"),
    ("ACCESS_REG", "mlx5-command"),
    ("High Temperature", "mlx5-module-hot"),
    ("Cable error", "mlx5-cable"),
];

fn adapter(line: &str, device: Option<&str>) -> Option<KernelFact> {
    if !line.starts_with("mlx5_") {
        return None;
    }
    let by_line = driver_line(line, "mlx5_core").map(|(subject, _)| subject);
    let by_note = || device.map(HealthSubject::at);
    let subject = by_line.or_else(by_note).unwrap_or(HealthSubject::Machine);
    let (_, code) = ADAPTER_CODES
        .into_iter()
        .find(|(word, _)| line.contains(word))?;
    let module = line.split_once(": module ");
    let module = module.and_then(|(_, rest)| leading_number(rest));
    let place = module.map(|module| format!("module {module}"));
    Some(KernelFact::new(subject, code).at_place(place))
}
