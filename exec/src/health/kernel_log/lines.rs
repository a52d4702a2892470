//! From records to events. Some events take several lines: what is seen of them so far is kept
//! in the cursor.

use serde::{Deserialize, Serialize};

use super::hardware_error::{self, HardwareErrorReport};
use super::record::KmsgRecord;
use super::{KernelEvent, KernelFact, amd, bus, host, nvidia};

/// What is kept of a line to join it with what goes on, at most.
const LINE_BYTES_MAX: usize = 4096;
/// What is kept of a line in an event.
const TEXT_CHARS_MAX: usize = 1024;

/// What has been read of events that are not complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The last line, which the next record may go on with.
    line: String,
    /// How many events it has given.
    events: usize,
    /// The address and the lines of a GPU that may be reported as gone.
    gone: Option<(String, String)>,
    /// A report of the firmware.
    report: Option<HardwareErrorReport>,
}

impl Unfinished {
    /// The events of a record. `boot_ms` is the time of the boot.
    pub(super) fn take(&mut self, record: &KmsgRecord, boot_ms: u64) -> Vec<KernelEvent> {
        let mut events = Vec::new();
        for (number, text) in (0..).zip(record.text.split('\n')) {
            let goes_on = number == 0 && record.is_continuation;
            if let Some((fact, text)) = self.line(text, goes_on, record.device.as_deref()) {
                events.push(KernelEvent {
                    at_ms: boot_ms.saturating_add(record.at_us / 1000),
                    sequence: record.sequence,
                    line: number,
                    fact,
                    text: text.chars().take(TEXT_CHARS_MAX).collect(),
                });
            }
        }
        events
    }

    /// What a line says. A line that goes on is joined with the one before it; what that one
    /// said already is not said again.
    fn line(
        &mut self,
        text: &str,
        goes_on: bool,
        device: Option<&str>,
    ) -> Option<(KernelFact, String)> {
        let fits = self.line.len() + text.len() <= LINE_BYTES_MAX;
        if goes_on && !self.line.is_empty() && fits {
            self.line.push_str(text);
        } else {
            self.events = 0;
            text.clone_into(&mut self.line);
        }
        if self.events > 0 {
            return None;
        }
        let line = self.line.clone();
        let found = self.joined(&line).or_else(|| {
            let fact = fact(&line, device)?;
            Some((fact, line))
        });
        self.events = usize::from(found.is_some());
        found
    }

    /// Events that take several lines.
    fn joined(&mut self, line: &str) -> Option<(KernelFact, String)> {
        // Lines of others may stand between.
        let gone = line.contains("NVRM:").then(|| self.gone.take()).flatten();
        if let Some(address) = nvidia::named_gpu(line) {
            self.gone = Some((address, line.to_owned()));
            return None;
        }
        if let Some((address, so_far)) = gone {
            let text = format!("{so_far} {line}");
            if nvidia::says_gone(line) {
                return Some((nvidia::gone(&address), text));
            }
            if nvidia::numbers_gpu(line) {
                self.gone = Some((address, text));
                return None;
            }
        }
        hardware_error::take(&mut self.report, line).map(|fact| (fact, line.to_owned()))
    }
}

/// What a line says on its own.
fn fact(line: &str, device: Option<&str>) -> Option<KernelFact> {
    nvidia::fact(line)
        .or_else(|| amd::fact(line))
        .or_else(|| bus::fact(line, device))
        .or_else(|| host::fact(line))
}
