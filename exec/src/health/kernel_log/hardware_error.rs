//! Reports of the firmware, in UEFI's common form of records (CPER): some lines each, with a
//! number in braces.

use muster_model::health::HealthSubject;
use serde::{Deserialize, Serialize};

use super::{KernelFact, kernel_form};

const MARK: &str = "[Hardware Error]:";

/// What has been read of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HardwareErrorReport {
    /// The number in braces: `{1}`.
    number: String,
    /// The code that its severity makes.
    code: String,
    /// Of which part it is: `PCIe error`, `memory error`.
    section: Option<String>,
}

/// Takes a line into the report. A report of memory is an event as soon as its part is known,
/// one of the bus as soon as the device is.
pub(super) fn take(report: &mut Option<HardwareErrorReport>, line: &str) -> Option<KernelFact> {
    let (number, rest) = line.split_once(MARK)?;
    let rest = rest.trim();
    if let Some(severity) = rest.strip_prefix("event severity: ") {
        *report = Some(HardwareErrorReport {
            number: number.to_owned(),
            code: format!("cper-{}", word(severity)?),
            section: None,
        });
        return None;
    }
    let open = report.as_mut().filter(|open| open.number == number)?;
    if let Some(section) = rest.strip_prefix("section_type: ") {
        open.section = Some(section.to_owned());
        let is_of_bus = section.starts_with("PCIe");
        let fact = KernelFact::new(HealthSubject::Machine, &*open.code);
        return (!is_of_bus).then(|| fact.at_place(Some(section.to_owned())));
    }
    let address = kernel_form(rest.strip_prefix("device_id: ")?)?;
    let section = open.section.take()?;
    let fact = KernelFact::new(HealthSubject::at(address), &*open.code);
    Some(fact.at_place(Some(section)))
}

fn word(severity: &str) -> Option<&'static str> {
    ["fatal", "recoverable", "corrected"]
        .into_iter()
        .find(|word| severity.starts_with(word))
}
