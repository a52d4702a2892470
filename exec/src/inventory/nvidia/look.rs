//! One look at all GPUs, in a thread that alone calls the library: a driver that hangs keeps
//! that thread, and nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::ask::{self, NvidiaGpu};
use super::{library, links};

/// How long the library may take for one GPU, and to load. Without persistence mode the driver
/// initialises each GPU at the first call, which takes seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Threads that the driver has not given back. While there is one, nothing more is asked.
static HANGING: Mutex<Vec<HangingThread>> = Mutex::new(Vec::new());

/// A thread that the driver has not given back.
struct HangingThread {
    library: Option<PathBuf>,
    /// What the driver was asked.
    call: &'static str,
    thread: JoinHandle<()>,
}

/// Why nothing is known of NVIDIA's GPUs.
#[derive(Debug, thiserror::Error)]
pub enum NvidiaError {
    /// The library is there, and it refuses.
    #[error("the GPU driver cannot {call}")]
    Call {
        /// What it was asked.
        call: &'static str,
        /// Its answer.
        source: NvmlError,
    },
    /// The library does not come back.
    #[error("the GPU driver gives no answer when asked to {call}")]
    NoAnswer {
        /// What it was asked.
        call: &'static str,
    },
}

impl NvidiaError {
    /// What the library was asked and does not come back from; none if it answered.
    pub(super) fn unanswered(&self) -> Option<&'static str> {
        match self {
            Self::Call { .. } => None,
            Self::NoAnswer { call } => Some(call),
        }
    }
}

/// What a look gave. All is empty on a machine without a driver.
#[derive(Debug, Default)]
pub struct NvidiaLook {
    /// The GPUs that answer, by index.
    pub gpus: Vec<NvidiaGpu>,
    /// Those that the driver counts and does not answer for.
    pub silent: Vec<SilentGpu>,
    /// Pairs of indices that NVLink links, the lower first.
    pub links: BTreeSet<(u32, u32)>,
    /// That the driver hangs: the rest is not known.
    pub hangs: Option<NvidiaError>,
}

/// A GPU that the driver counts and does not answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SilentGpu {
    /// The driver's number.
    pub index: u32,
    /// The driver's error, or that it hangs.
    pub reason: String,
}

/// What the thread tells, in this order.
enum LookStep {
    /// There is a driver with so many GPUs; without one there are 0.
    Count(u32),
    Gpu(Box<Result<NvidiaGpu, SilentGpu>>),
    Links(BTreeSet<(u32, u32)>),
    Failed(NvidiaError),
}

/// Looks at the GPUs of the machine whose file tree is at `root`. `library` is the driver's
/// library, if it is not where the loader finds it.
///
/// # Errors
/// When the library is there and cannot be used, or does not come back.
pub fn look(root: &Path, library: Option<&Path>) -> Result<NvidiaLook, NvidiaError> {
    look_within(root, library, ANSWER_LIMIT)
}

/// `limit` is for each answer.
pub(super) fn look_within(
    root: &Path,
    library: Option<&Path>,
    limit: Duration,
) -> Result<NvidiaLook, NvidiaError> {
    let library = library.map(Path::to_owned);
    if let Some(call) = hanging_call(&library) {
        return Err(NvidiaError::NoAnswer { call });
    }
    let (sender, told) = mpsc::channel();
    let (root, path) = (root.to_owned(), library.clone());
    let thread = thread::Builder::new()
        .name("nvml".to_owned())
        .spawn(move || {
            // The error is that nothing is waited for any more.
            let _ = ask_all(&root, path.as_deref(), &sender);
        });
    // Without a thread the channel ends at once, which is no answer.
    let look = gather(&told, limit);
    let unanswered = match &look {
        Err(error) => Some(error),
        Ok(look) => look.hangs.as_ref(),
    };
    match (thread, unanswered) {
        (Ok(thread), Some(NvidiaError::NoAnswer { call })) => hanging().push(HangingThread {
            library,
            call,
            thread,
        }),
        (Ok(thread), _) => {
            // A thread that panicked has told so in the log, and its answers are missing.
            let _ = thread.join();
        }
        (Err(_), _) => {}
    }
    look
}

fn hanging() -> MutexGuard<'static, Vec<HangingThread>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a driver was asked that has not come back yet.
fn hanging_call(library: &Option<PathBuf>) -> Option<&'static str> {
    let mut hanging = hanging();
    hanging.retain(|one| !one.thread.is_finished());
    let mut of_library = hanging.iter().filter(|one| one.library == *library);
    of_library.next().map(|one| one.call)
}

/// Puts together what the thread tells.
fn gather(told: &Receiver<LookStep>, limit: Duration) -> Result<NvidiaLook, NvidiaError> {
    let no_answer = |call| NvidiaError::NoAnswer { call };
    let count = match told.recv_timeout(limit) {
        Ok(LookStep::Count(count)) => count,
        Ok(LookStep::Failed(error)) => return Err(error),
        _ => return Err(no_answer("count the GPUs")),
    };
    let mut look = NvidiaLook::default();
    for index in 0..count {
        match told.recv_timeout(limit) {
            Ok(LookStep::Gpu(gpu)) => match *gpu {
                Ok(gpu) => look.gpus.push(gpu),
                Err(silent) => look.silent.push(silent),
            },
            // It hangs at this one, and tells nothing of the others.
            _ => {
                look.silent.extend((index..count).map(|index| SilentGpu {
                    index,
                    reason: format!("no answer within {} s", limit.as_secs_f32()),
                }));
                look.hangs = Some(no_answer("describe its GPUs"));
                return Ok(look);
            }
        }
    }
    match told.recv_timeout(limit) {
        Ok(LookStep::Links(links)) => look.links = links,
        Err(RecvTimeoutError::Timeout) => look.hangs = Some(no_answer("tell its links")),
        _ => {}
    }
    Ok(look)
}

/// The thread. Its error is that the other end of the channel is gone.
fn ask_all(
    root: &Path,
    library: Option<&Path>,
    sender: &Sender<LookStep>,
) -> Result<(), mpsc::SendError<LookStep>> {
    let failed = |call, source| LookStep::Failed(NvidiaError::Call { call, source });
    let nvml = match library::load(root, library) {
        Ok(Some(nvml)) => nvml,
        Ok(None) => return sender.send(LookStep::Count(0)),
        Err(error) => return sender.send(failed("load", error)),
    };
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => return sender.send(failed("count the GPUs", error)),
    };
    sender.send(LookStep::Count(count))?;
    let mut whole = Vec::new();
    for index in 0..count {
        let gpu = ask_one(&nvml, index);
        let is_whole = gpu.as_ref().is_ok_and(|gpu| gpu.instances.is_none());
        if let (true, Ok(device)) = (is_whole, nvml.device_by_index(index)) {
            whole.push((index, device));
        }
        sender.send(LookStep::Gpu(Box::new(gpu)))?;
    }
    sender.send(LookStep::Links(links::linked(&whole)))
}

fn ask_one(nvml: &Nvml, index: u32) -> Result<NvidiaGpu, SilentGpu> {
    let answer = nvml.device_by_index(index);
    let answer = answer.and_then(|device| ask::gpu(index, &device));
    answer.map_err(|error| SilentGpu {
        index,
        reason: error.to_string(),
    })
}
