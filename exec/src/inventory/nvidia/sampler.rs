//! Samples of all GPUs, again and again, over a library that stays open.
//!
//! One thread alone calls the library for this. It keeps its handles between rounds, since opening the library
//! takes long, and lets go of all of them on request. A call that hangs keeps that thread and nothing else:
//! rounds that come later tell so at once, until the driver has come back.

mod asked;
mod gpm;
mod raw;
mod read;
mod session;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::look::{NvidiaError, SilentGpu};
use super::sample::{GpuRound, GpuSample};
use session::{SamplerRequest, SamplerStep};

/// How long the library may take to open, and for one GPU.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Samples the GPUs of a machine. A cheap clone shares the thread. Its methods block; the thread ends with the last
/// clone.
#[derive(Clone, Debug)]
pub struct GpuSampler {
    shared: Arc<Mutex<SamplerState>>,
}

#[derive(Debug)]
struct SamplerState {
    root: PathBuf,
    library: Option<PathBuf>,
    limit: Duration,
    /// None before the first round, and where no thread could be started.
    thread: Option<Sender<SamplerRequest>>,
    /// What the thread has not answered in time: its answers, and what it was asked.
    overdue: Option<(Receiver<SamplerStep>, &'static str)>,
    pauses: u32,
}

/// As long as it lives, no round asks the driver, and nothing here has the GPUs open.
#[derive(Debug)]
pub struct SamplerPause {
    shared: Arc<Mutex<SamplerState>>,
}

impl Drop for SamplerPause {
    fn drop(&mut self) {
        lock(&self.shared).pauses -= 1;
    }
}

impl GpuSampler {
    /// A sampler for the machine whose file tree is at `root`. `library` is the driver's library, if it is not
    /// where the loader finds it. Nothing is opened yet.
    pub fn new(root: &Path, library: Option<&Path>) -> Self {
        Self::with_limit(root, library, ANSWER_LIMIT)
    }

    /// `limit` is for each answer.
    pub(super) fn with_limit(root: &Path, library: Option<&Path>, limit: Duration) -> Self {
        let state = SamplerState {
            root: root.to_owned(),
            library: library.map(Path::to_owned),
            limit,
            thread: None,
            overdue: None,
            pauses: 0,
        };
        Self {
            shared: Arc::new(Mutex::new(state)),
        }
    }

    /// Reads every GPU once. None where nothing is asked: there is no driver, or sampling is paused. Blocks for as
    /// long as the driver takes, and no longer than 30 s for each GPU.
    ///
    /// # Errors
    /// When the library is there and cannot be used, or does not come back.
    pub fn round(&self) -> Result<Option<GpuRound>, NvidiaError> {
        let mut state = lock(&self.shared);
        if state.pauses > 0 {
            return Ok(None);
        }
        let told = state.ask(SamplerRequest::Round)?;
        let round = gather(&told, state.limit);
        let unanswered = match &round {
            Err(NvidiaError::NoAnswer { call }) => Some(*call),
            Ok(Some(round)) => round.hangs.as_ref().and_then(NvidiaError::unanswered),
            _ => None,
        };
        state.overdue = unanswered.map(|call| (told, call));
        round
    }

    /// Drops all handles, closes the library, and asks nothing more until the pause is dropped: a GPU can be reset
    /// then, or taken from its driver. Blocks for as long as the round that is under way takes.
    ///
    /// # Errors
    /// When the driver hangs, so that its GPUs stay open.
    pub fn pause(&self) -> Result<SamplerPause, NvidiaError> {
        const CLOSE: &str = "close its library";
        let mut state = lock(&self.shared);
        if state.thread.is_some() {
            let told = state.ask(SamplerRequest::Release)?;
            match told.recv_timeout(state.limit) {
                Ok(SamplerStep::End) => {}
                _ => {
                    state.overdue = Some((told, CLOSE));
                    return Err(NvidiaError::NoAnswer { call: CLOSE });
                }
            }
        }
        state.pauses += 1;
        Ok(SamplerPause {
            shared: Arc::clone(&self.shared),
        })
    }
}

fn lock(state: &Mutex<SamplerState>) -> MutexGuard<'_, SamplerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SamplerState {
    /// Has the thread answer. Fails at once while it has not answered what came before.
    fn ask(
        &mut self,
        request: fn(Sender<SamplerStep>) -> SamplerRequest,
    ) -> Result<Receiver<SamplerStep>, NvidiaError> {
        self.wait_for_overdue()?;
        let (sender, told) = mpsc::channel();
        if let Some(thread) = &self.thread
            && thread.send(request(sender.clone())).is_ok()
        {
            return Ok(told);
        }
        // The first request, or the thread has panicked.
        let thread = self.start();
        // Without a thread the channel ends at once, which is no answer.
        let _ = thread.send(request(sender));
        self.thread = Some(thread);
        Ok(told)
    }

    fn start(&self) -> Sender<SamplerRequest> {
        let (requests, asked) = mpsc::channel();
        let (root, library) = (self.root.clone(), self.library.clone());
        let spawned = thread::Builder::new()
            .name("nvml-samples".to_owned())
            .spawn(move || session::run(&root, library.as_deref(), &asked));
        // The channel of a thread that was not started is closed: the next request tries again.
        drop(spawned);
        requests
    }

    fn wait_for_overdue(&mut self) -> Result<(), NvidiaError> {
        while let Some((told, call)) = &self.overdue {
            match told.try_recv() {
                Err(TryRecvError::Empty) => return Err(NvidiaError::NoAnswer { call }),
                Ok(SamplerStep::End) | Err(TryRecvError::Disconnected) => self.overdue = None,
                // It has come back, and goes on with the round that it was late with.
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// Puts together what the thread tells of a round.
fn gather(told: &Receiver<SamplerStep>, limit: Duration) -> Result<Option<GpuRound>, NvidiaError> {
    let no_answer = |call| NvidiaError::NoAnswer { call };
    let count = match told.recv_timeout(limit) {
        Ok(SamplerStep::Count(count)) => count,
        Ok(SamplerStep::End) => return Ok(None),
        Ok(SamplerStep::Failed(error)) => {
            // Only its end follows.
            let _ = told.recv_timeout(limit);
            return Err(error);
        }
        _ => return Err(no_answer("open its library")),
    };
    let mut round = GpuRound::default();
    for index in 0..count {
        match told.recv_timeout(limit) {
            Ok(SamplerStep::Gpu(gpu)) => take(&mut round, *gpu),
            answer => {
                let is_late = matches!(answer, Err(RecvTimeoutError::Timeout));
                round.silent.extend(silent(index..count, is_late, limit));
                round.hangs = Some(no_answer("sample its GPUs"));
                return Ok(Some(round));
            }
        }
    }
    if let Err(RecvTimeoutError::Timeout) = told.recv_timeout(limit) {
        round.hangs = Some(no_answer("end a round of samples"));
    }
    Ok(Some(round))
}

fn take(round: &mut GpuRound, gpu: Result<GpuSample, SilentGpu>) {
    match gpu {
        Ok(sample) => round.gpus.push(sample),
        Err(silent) => round.silent.push(silent),
    }
}

/// The GPUs that a thread tells nothing of.
fn silent(
    gpus: std::ops::Range<u32>,
    is_late: bool,
    limit: Duration,
) -> impl Iterator<Item = SilentGpu> {
    gpus.map(move |index| SilentGpu {
        index,
        reason: match is_late {
            true => format!("no answer within {} s", limit.as_secs_f32()),
            false => "the thread that reads it has ended".to_owned(),
        },
    })
}
