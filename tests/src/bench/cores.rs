//! Which cores processes and threads run on.

use anyhow::Result;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Where what asks runs, and what answers: on a core each, where there are two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApartCores {
    asking: usize,
    answering: usize,
}

impl ApartCores {
    /// None on a machine with one core, where nothing can be kept apart.
    pub(crate) fn apart() -> Result<Option<Self>> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let mut allowed =
            (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
        Ok(allowed
            .next()
            .zip(allowed.next())
            .map(|(asking, answering)| Self { asking, answering }))
    }

    /// Keeps this thread where what asks runs.
    pub(crate) fn keep_this_thread(self) -> Result<()> {
        keep(0, self.asking)
    }

    /// Keeps all threads of a process, and those that they start, where what answers runs.
    pub(crate) fn keep_process(self, pid: u32) -> Result<()> {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let name = thread?.file_name();
            keep(name.to_string_lossy().parse()?, self.answering)?;
        }
        Ok(())
    }
}

fn keep(thread: i32, core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(thread), &set)?;
    Ok(())
}
