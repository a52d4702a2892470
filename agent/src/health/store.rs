//! What the health of a node's parts has to be kept of over restarts, in one file.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use muster_exec::health::judge::HealthMemory;
use muster_exec::health::kernel_log::KernelLogCursor;
use muster_model::health::DeviceEvent;
use serde::{Deserialize, Serialize};

use super::BreakerWords;
use crate::key_file::write_private;

/// Events that are kept for the ends of tasks. A driver that reports thousands in a second
/// pushes only its own out.
const EVENTS_MAX: usize = 1000;

/// What is kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct KeptHealth {
    /// Up to where the kernel's log was read.
    pub(crate) cursor: Option<KernelLogCursor>,
    /// What the judge goes on from.
    pub(crate) memory: HealthMemory,
    /// What was reported last, the oldest first.
    pub(crate) events: VecDeque<DeviceEvent>,
    /// What the cluster's breaker said.
    #[serde(default)]
    pub(crate) breaker: BreakerWords,
}

impl KeptHealth {
    /// Adds an event, and drops the oldest if there are too many.
    pub(crate) fn note(&mut self, event: DeviceEvent) {
        self.events.push_back(event);
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
    }

    /// The number of the last Xid of each device that has had one, by PCI address.
    pub(crate) fn last_xids(&self) -> BTreeMap<String, u32> {
        let xids = self.events.iter().filter_map(|event| {
            let number = event.code.strip_prefix("xid ")?.parse().ok()?;
            Some((event.subject.pci()?.to_owned(), number))
        });
        xids.collect()
    }
}

/// The file.
#[derive(Clone, Debug)]
pub(crate) struct HealthStore {
    path: PathBuf,
}

impl HealthStore {
    /// The file at `path`, with what it has. A file that cannot be understood is put aside, and
    /// its name is told: faults that still are there are seen again.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(path: PathBuf) -> io::Result<(Self, KeptHealth, Option<String>)> {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok((Self { path }, KeptHealth::default(), None));
            }
            Err(error) => return Err(error),
        };
        let (kept, problem) = match serde_json::from_slice(&text) {
            Ok(kept) => (kept, None),
            Err(error) => {
                let aside = path.with_extension("json.damaged");
                fs::rename(&path, &aside)?;
                let (path, aside) = (path.display(), aside.display());
                let problem = format!(
                    "{path} cannot be understood ({error}) and is now {aside}: faults of devices \
                     that only the kernel's log told are not known any more"
                );
                (KeptHealth::default(), Some(problem))
            }
        };
        Ok((Self { path }, kept, problem))
    }

    /// Replaces the file, in one step.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write(&self, kept: &KeptHealth) -> io::Result<()> {
        write_private(&self.path, &serde_json::to_vec(kept)?)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
