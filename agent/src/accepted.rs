//! The inventory that was accepted last, on disk: what the machine should have.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_exec::inventory::AcceptedInventory;
use muster_model::health::HealthSubject;
use muster_model::inventory::{FabricPort, Inventory, InventoryProblem};

use crate::key_file::write_private;

/// What was accepted, and what was found last. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Accepted(Arc<Mutex<AcceptedState>>);

/// A machine as a person has accepted it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acceptance {
    /// What was missed until then.
    pub(crate) gone: Vec<InventoryProblem>,
    /// Its ports of the fabric; none if it was not looked at yet, and so nothing was accepted.
    pub(crate) ports: Option<Vec<HealthSubject>>,
}

#[derive(Debug)]
struct AcceptedState {
    path: PathBuf,
    /// None before the first look at the machine.
    accepted: Option<AcceptedInventory>,
    found: Option<Inventory>,
    /// Why the file is not as it should be.
    problem: Option<String>,
}

impl Accepted {
    /// The file at `path`. One that cannot be understood counts as none: what is there then is
    /// accepted, and that is told.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let read = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(serde_json::from_slice(&read?)),
        };
        let problem = match &read {
            Some(Err(error)) => Some(format!(
                "{} cannot be understood ({error}): what the machine has now is taken for all \
                 that it should have",
                path.display()
            )),
            _ => None,
        };
        Ok(Self(Arc::new(Mutex::new(AcceptedState {
            path,
            accepted: read.and_then(Result::ok),
            found: None,
            problem,
        }))))
    }

    /// Takes what a look found. What is new is accepted. Answers what is missing, and what is
    /// wrong with the file, as sentences.
    pub(crate) fn note(&self, found: Inventory) -> Vec<String> {
        let mut state = self.lock();
        let is_new = match &mut state.accepted {
            Some(accepted) => accepted.extend(&found),
            None => {
                state.accepted = Some(AcceptedInventory::of(&found));
                true
            }
        };
        if is_new {
            let written = state.write();
            state.problem = written.err().map(|error| {
                let path = state.path.display();
                format!("{path} cannot be written, so a loss may not be missed: {error}")
            });
        }
        let missing = state.missing(&found);
        state.found = Some(found);
        let missing = missing.iter().map(sentence);
        missing.chain(state.problem.clone()).collect()
    }

    /// Accepts what the last look found.
    ///
    /// # Errors
    /// When it cannot be written; then nothing has changed.
    pub(crate) fn accept(&self) -> io::Result<Acceptance> {
        let mut state = self.lock();
        let Some(found) = state.found.clone() else {
            return Ok(Acceptance::default());
        };
        let gone = state.missing(&found);
        let before = state.accepted.replace(AcceptedInventory::of(&found));
        if let Err(error) = state.write() {
            state.accepted = before;
            return Err(error);
        }
        let ports = found.fabric.iter().map(subject).collect();
        Ok(Acceptance {
            gone,
            ports: Some(ports),
        })
    }

    fn lock(&self) -> MutexGuard<'_, AcceptedState> {
        // A change is one assignment, so a panic elsewhere left no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptedState {
    fn missing(&self, found: &Inventory) -> Vec<InventoryProblem> {
        let accepted = self.accepted.as_ref();
        accepted.map_or_else(Vec::new, |accepted| accepted.missing(found))
    }

    fn write(&self) -> io::Result<()> {
        write_private(&self.path, &serde_json::to_vec(&self.accepted)?)
    }
}

/// A port as checks of its health name it.
fn subject(port: &FabricPort) -> HealthSubject {
    HealthSubject::FabricPort {
        device: port.device.clone(),
        port: port.port,
    }
}

fn sentence(problem: &InventoryProblem) -> String {
    let InventoryProblem {
        name,
        subject,
        evidence,
        remedy,
    } = problem;
    match subject {
        Some(subject) => format!("{name} {subject}: {evidence} {remedy}"),
        None => format!("{name}: {evidence} {remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::inventory::{Accelerator, AcceleratorKind};

    use super::*;

    fn machine(pci: &[&str]) -> Inventory {
        let device = |pci: &&str| Accelerator {
            kind: AcceleratorKind::Gpu,
            vendor: "nvidia".to_owned(),
            model: "H100".to_owned(),
            pci: Some((*pci).to_owned()),
            numa: None,
            memory_mb: 0,
            partition_of: None,
        };
        Inventory {
            cpus: 4,
            memory_mb: 8192,
            devices: pci.iter().map(device).collect(),
            ..Inventory::default()
        }
    }

    #[test]
    fn a_loss_is_missed_over_restarts_until_it_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("accepted.json");
        let open = || Accepted::open(path.clone()).unwrap();
        let unseen = open().accept().unwrap();
        assert_eq!(unseen, Acceptance::default(), "nothing was looked at");
        assert_eq!(open().note(machine(&["0000:1a:00.0"])), [] as [&str; 0]);
        // After a restart one is gone, and another one has come.
        let after = open();
        let told = after.note(machine(&["0000:3b:00.0"]));
        let [told] = &told[..] else {
            panic!("{told:?}")
        };
        let begin = "device-missing 0000:1a:00.0: The machine had nvidia H100. Look for";
        assert!(told.starts_with(begin), "{told}");
        let Acceptance { gone, ports } = after.accept().unwrap();
        assert_eq!(ports, Some(Vec::new()));
        assert_eq!(gone[0].subject.as_deref(), Some("0000:1a:00.0"));
        assert_eq!(open().note(machine(&["0000:3b:00.0"])), [] as [&str; 0]);
        assert_eq!(
            open().note(machine(&[])).len(),
            1,
            "the new one was accepted"
        );
    }

    #[test]
    fn a_file_that_cannot_be_understood_or_written_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("accepted.json");
        std::fs::write(&path, "[").unwrap();
        let told = Accepted::open(path.clone()).unwrap().problem();
        assert!(told.unwrap().contains("accepted.json cannot be understood"));
        let none = Accepted::open(dir.path().join("none/accepted.json")).unwrap();
        let told = none.note(machine(&[]));
        assert!(
            told[0].contains("accepted.json cannot be written"),
            "{told:?}"
        );
        assert!(none.accept().is_err());
    }

    impl Accepted {
        fn problem(&self) -> Option<String> {
            self.lock().problem.clone()
        }
    }
}
