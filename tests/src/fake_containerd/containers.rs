//! Records of containers, and what stands for their processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_init::task_dir::TaskDir;
use prost::Message as _;
use tokio::sync::watch;

use super::answer::{CallRefusal, CallResult, of};
use super::stand_in;
use super::wire::{
    ContainerRecord, CreateProcess, Kill, Made, Named, Number, OneRecord, Records, Shown, Status,
    WireProcesses,
};

/// How a process ended; `None` while it has not.
pub(super) type Exit = watch::Sender<Option<u32>>;

/// Where the query of a logger's URI names the directory.
const LOG_DIR: &str = "?log-dir=";
/// The exit status of a process that a signal ended, less the signal.
const SIGNALLED: u32 = 128;

/// All containers of one engine.
#[derive(Debug, Default)]
pub(super) struct Containers {
    records: Mutex<BTreeMap<String, ContainerRecord>>,
    processes: Mutex<BTreeMap<String, FakeProcess>>,
}

#[derive(Debug)]
struct FakeProcess {
    ctl: PathBuf,
    is_started: bool,
    exit: Exit,
}

impl FakeProcess {
    fn shown(&self, id: &str) -> Shown {
        let exit = *self.exit.borrow();
        let status = match exit {
            Some(_) => Status::Stopped,
            None if self.is_started => Status::Running,
            None => Status::Created,
        };
        Shown {
            id: id.to_owned(),
            pid: std::process::id(),
            status: status.into(),
            exit_status: exit.unwrap_or(0),
        }
    }
}

fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one insertion or removal, so a panic elsewhere left no half of one.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Containers {
    /// Answers a call about a record.
    pub(super) fn record(&self, name: &str, message: &[u8]) -> CallResult {
        let mut records = lock(&self.records);
        match name {
            "Create" => {
                let made = OneRecord::decode(message)?;
                let record = made.record.clone().ok_or(CallRefusal::Malformed)?;
                records.insert(record.id.clone(), record);
                of(&made)
            }
            "Get" => {
                let record = records.get(&Named::decode(message)?.name).cloned();
                let record = Some(record.ok_or(CallRefusal::Absent)?);
                of(&OneRecord { record })
            }
            "List" => of(&Records {
                records: records.values().cloned().collect(),
            }),
            "Delete" => {
                let gone = records.remove(&Named::decode(message)?.name);
                gone.ok_or(CallRefusal::Absent).map(|_| Vec::new())
            }
            _ => Err(CallRefusal::Unknown),
        }
    }

    /// Answers a call about a process that is answered at once.
    pub(super) fn process(&self, name: &str, message: &[u8]) -> CallResult {
        let mut processes = lock(&self.processes);
        match name {
            "Create" => create(&mut processes, CreateProcess::decode(message)?),
            "Start" => start(&mut processes, &Named::decode(message)?.name),
            "Kill" => {
                let Kill { container, signal } = Kill::decode(message)?;
                let process = processes.get(&container).ok_or(CallRefusal::Absent)?;
                process.exit.send_replace(Some(SIGNALLED + signal));
                Ok(Vec::new())
            }
            "Delete" => delete(&mut processes, &Named::decode(message)?.name),
            "Get" => {
                let id = Named::decode(message)?.name;
                let process = processes.get(&id).ok_or(CallRefusal::Absent)?;
                let processes = vec![process.shown(&id)];
                of(&WireProcesses { processes })
            }
            "List" => {
                let shown = processes.iter().map(|(id, one)| one.shown(id));
                let processes = shown.collect();
                of(&WireProcesses { processes })
            }
            _ => Err(CallRefusal::Unknown),
        }
    }

    /// Answers when a process has ended.
    pub(super) async fn wait(&self, message: &[u8]) -> CallResult {
        let id = Named::decode(message)?.name;
        let exit = lock(&self.processes).get(&id).map(|p| p.exit.subscribe());
        let mut exit = exit.ok_or(CallRefusal::Absent)?;
        let ended = exit.wait_for(Option::is_some).await;
        let number = ended.map_err(|_| CallRefusal::Absent)?.unwrap_or(0);
        of(&Number { number })
    }
}

fn create(processes: &mut BTreeMap<String, FakeProcess>, request: CreateProcess) -> CallResult {
    let id = request.container;
    if processes.contains_key(&id) {
        return Err(CallRefusal::Exists);
    }
    // A logger would be started there; beside it is the socket of muster-init.
    let (_, log) = request
        .stdout
        .split_once(LOG_DIR)
        .ok_or(CallRefusal::Malformed)?;
    let process = FakeProcess {
        ctl: TaskDir::of_log(Path::new(log)).ctl(),
        is_started: false,
        exit: Exit::new(None),
    };
    processes.insert(id.clone(), process);
    of(&Made {
        container: id,
        pid: std::process::id(),
        exit_status: 0,
    })
}

fn start(processes: &mut BTreeMap<String, FakeProcess>, id: &str) -> CallResult {
    let process = processes.get_mut(id).ok_or(CallRefusal::Absent)?;
    if !process.is_started {
        process.is_started = true;
        stand_in::spawn(process.ctl.clone(), process.exit.clone());
    }
    // The agent listens to nobody else.
    let number = std::process::id();
    of(&Number { number })
}

fn delete(processes: &mut BTreeMap<String, FakeProcess>, id: &str) -> CallResult {
    let process = processes.get(id).ok_or(CallRefusal::Absent)?;
    let code = *process.exit.borrow();
    if process.is_started && code.is_none() {
        return Err(CallRefusal::Runs);
    }
    processes.remove(id);
    of(&Made {
        container: id.to_owned(),
        pid: std::process::id(),
        exit_status: code.unwrap_or(0),
    })
}
