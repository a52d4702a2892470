//! The thread that samples: the library while it is open.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::super::library;
use super::super::look::{NvidiaError, SilentGpu};
use super::super::sample::GpuSample;
use super::read::SampledGpu;

/// Rounds between two openings of the library while a GPU does not answer: a minute.
const ROUNDS_WITH_LOSS: u32 = 6;

/// What the thread is asked. Each is answered with steps, of which the last one is [`SamplerStep::End`].
#[derive(Debug)]
pub(super) enum SamplerRequest {
    /// Read every GPU.
    Round(Sender<SamplerStep>),
    /// Close the library.
    Release(Sender<SamplerStep>),
}

/// What the thread tells.
pub(super) enum SamplerStep {
    /// There is a driver with so many GPUs. One of each follows.
    Count(u32),
    Gpu(Box<Result<GpuSample, SilentGpu>>),
    /// Nothing else is known.
    Failed(NvidiaError),
    End,
}

/// Why an open library is not used any more.
enum SamplingEnd {
    /// It does not know the GPUs that there are now. They are to be told to this one.
    Outdated(Sender<SamplerStep>),
    /// This one is to hear that it is closed.
    Released(Sender<SamplerStep>),
    /// Opened anew with the next round, or nothing is asked any more.
    Over,
}

/// Answers requests until nothing is asked any more.
pub(super) fn run(root: &Path, path: Option<&Path>, asked: &Receiver<SamplerRequest>) {
    while let Ok(request) = asked.recv() {
        match request {
            SamplerRequest::Round(reply) => sample(root, path, (reply, asked)),
            SamplerRequest::Release(reply) => tell(&reply, SamplerStep::End),
        }
    }
}

/// The receiver may be gone, which is told nothing then.
fn tell(reply: &Sender<SamplerStep>, step: SamplerStep) {
    let _ = reply.send(step);
}

/// Opens the library for a round, and for those that follow.
fn sample(
    root: &Path,
    path: Option<&Path>,
    (mut reply, asked): (Sender<SamplerStep>, &Receiver<SamplerRequest>),
) {
    loop {
        let nvml = match library::load(root, path) {
            Ok(Some(nvml)) => nvml,
            Ok(None) => return tell(&reply, SamplerStep::End),
            Err(error) => return failed(&reply, "load", error),
        };
        let end = session(&nvml, reply, asked);
        // Shuts the library down, which closes the GPUs.
        drop(nvml);
        match end {
            SamplingEnd::Outdated(next) => reply = next,
            SamplingEnd::Released(done) => return tell(&done, SamplerStep::End),
            SamplingEnd::Over => return,
        }
    }
}

fn failed(reply: &Sender<SamplerStep>, call: &'static str, source: NvmlError) {
    let error = NvidiaError::Call { call, source };
    tell(reply, SamplerStep::Failed(error));
    tell(reply, SamplerStep::End);
}

fn session(
    nvml: &Nvml,
    mut reply: Sender<SamplerStep>,
    asked: &Receiver<SamplerRequest>,
) -> SamplingEnd {
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => {
            failed(&reply, "count the GPUs", error);
            return SamplingEnd::Over;
        }
    };
    let mut gpus: Vec<SampledGpu<'_>> = Vec::new();
    let mut rounds = 0;
    loop {
        let are_well = round(nvml, &mut gpus, (count, &reply));
        rounds += 1;
        if !are_well && rounds >= ROUNDS_WITH_LOSS {
            return SamplingEnd::Over;
        }
        match asked.recv() {
            Ok(SamplerRequest::Round(next)) if is_outdated(nvml, count) => {
                return SamplingEnd::Outdated(next);
            }
            Ok(SamplerRequest::Round(next)) => reply = next,
            Ok(SamplerRequest::Release(done)) => return SamplingEnd::Released(done),
            Err(_) => return SamplingEnd::Over,
        }
    }
}

/// Whether the library has other GPUs than it had, or no driver any more.
fn is_outdated(nvml: &Nvml, count: u32) -> bool {
    nvml.device_count().ok() != Some(count)
}

/// Tells of every GPU. Those that were not opened yet are opened. Whether all answered.
fn round<'nvml>(
    nvml: &'nvml Nvml,
    gpus: &mut Vec<SampledGpu<'nvml>>,
    (count, reply): (u32, &Sender<SamplerStep>),
) -> bool {
    tell(reply, SamplerStep::Count(count));
    let mut are_well = true;
    for index in 0..count {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        if gpus.len() <= at {
            gpus.push(SampledGpu::open(nvml, index));
        }
        let gpu = gpus[at].sample(nvml);
        are_well &= gpu.is_ok();
        let gpu = gpu.map_err(|reason| SilentGpu { index, reason });
        tell(reply, SamplerStep::Gpu(Box::new(gpu)));
    }
    tell(reply, SamplerStep::End);
    are_well
}
