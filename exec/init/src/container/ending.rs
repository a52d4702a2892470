//! From the stop of a task to the end of its last process.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::processes::ProcessStatus;

/// How long a filter at the end of a pipe may take to write the rest when all else has ended.
const SPARED_PATIENCE: Duration = Duration::from_secs(1);

/// What dies of the polite signal ends with this.
const TERMINATED: ProcessStatus = ProcessStatus::signaled(Signal::SIGTERM);

/// A stop under way, and what has ended since.
///
/// The shell mostly dies of the SIGTERM that all processes get, at once, while the program that it
/// ran saves its work. The program is what the user asked for, so its exit status counts then, and
/// of several that of the last to fail, as in a pipe with `pipefail`. A shell that handles the signal
/// speaks for itself.
#[derive(Clone, Debug)]
pub(super) struct StopUnderWay {
    /// When to kill what is left.
    kill_at: Instant,
    /// Somebody outside the task asked for it.
    from_outside: bool,
    shell: Option<ProcessStatus>,
    /// What the other processes that have ended say together.
    others: Option<ProcessStatus>,
    /// Processes that have not been told to end yet.
    spared: Vec<Pid>,
    /// When to tell them, once all else has ended.
    spared_until: Option<Instant>,
}

impl StopUnderWay {
    pub(super) const fn new(kill_at: Instant, from_outside: bool) -> Self {
        Self {
            kill_at,
            from_outside,
            shell: None,
            others: None,
            spared: Vec::new(),
            spared_until: None,
        }
    }

    /// These are told to end when all others have ended.
    pub(super) fn spare(&mut self, processes: Vec<Pid>) {
        self.spared = processes;
    }

    /// Whether those that were spared are to be told now. `are_left_besides` says whether other
    /// processes are left.
    pub(super) fn is_time_for_spared(
        &mut self,
        now: Instant,
        are_left_besides: impl FnOnce(&[Pid]) -> bool,
    ) -> bool {
        if self.spared.is_empty() || are_left_besides(&self.spared) {
            return false;
        }
        let until = *self.spared_until.get_or_insert(now + SPARED_PATIENCE);
        let is_time = until <= now;
        if is_time {
            self.spared.clear();
            self.spared_until = None;
        }
        is_time
    }

    /// Takes a repeated stop, which may shorten the grace and never lengthens it.
    pub(super) fn ask_again(&mut self, kill_at: Instant, from_outside: bool) {
        self.kill_at = self.kill_at.min(kill_at);
        self.from_outside |= from_outside;
    }

    /// When to look again, whatever happens.
    pub(super) fn deadline(&self) -> Instant {
        self.spared_until
            .map_or(self.kill_at, |at| at.min(self.kill_at))
    }

    pub(super) const fn kill_at(&self) -> Instant {
        self.kill_at
    }

    pub(super) const fn kill_again_at(&mut self, at: Instant) {
        self.kill_at = at;
    }

    pub(super) const fn is_from_outside(&self) -> bool {
        self.from_outside
    }

    pub(super) const fn shell_ended(&mut self, status: ProcessStatus) {
        self.shell = Some(status);
    }

    pub(super) fn other_ended(&mut self, status: ProcessStatus) {
        let weight = |status: ProcessStatus| match status {
            _ if status == TERMINATED => 0,
            ProcessStatus { code: 0, .. } => 1,
            _ => 2,
        };
        let before = self.others.map_or(0, weight);
        if weight(status) >= before {
            self.others = Some(status);
        }
    }

    /// What to report as the commands' exit status. `are_killed`: processes are left and are
    /// killed now.
    pub(super) fn status(&self, are_killed: bool) -> ProcessStatus {
        match (self.shell, self.others) {
            (Some(shell), _) if shell != TERMINATED => shell,
            (Some(_), _) if are_killed => ProcessStatus::signaled(Signal::SIGKILL),
            (_, others) => others.unwrap_or(TERMINATED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_speak_where_the_shell_died_of_the_signal() {
        let (died, killed) = (TERMINATED, ProcessStatus::signaled(Signal::SIGKILL));
        let exited = ProcessStatus::exited;
        for (shell, others, are_killed, expect) in [
            (died, &[][..], false, died),
            (died, &[died, exited(0)], false, exited(0)),
            (died, &[exited(0), died], false, exited(0)),
            (died, &[exited(3), exited(0), died], false, exited(3)),
            (died, &[exited(3), exited(4)], false, exited(4)),
            (died, &[exited(0), killed], false, killed),
            (died, &[exited(0)], true, killed),
            (exited(5), &[exited(0)], false, exited(5)),
            (exited(5), &[exited(0)], true, exited(5)),
            (killed, &[exited(0)], false, killed),
        ] {
            let mut ending = StopUnderWay::new(Instant::now(), true);
            ending.shell_ended(shell);
            for other in others {
                ending.other_ended(*other);
            }
            assert_eq!(ending.status(are_killed), expect, "{shell:?} {others:?}");
        }
    }

    #[test]
    fn what_was_spared_is_told_when_all_else_has_ended() {
        let now = Instant::now();
        let mut ending = StopUnderWay::new(now + 10 * SPARED_PATIENCE, true);
        let later = now + SPARED_PATIENCE;
        assert!(
            !ending.is_time_for_spared(later, |_| false),
            "there is none"
        );
        ending.spare(vec![Pid::from_raw(7)]);
        assert!(!ending.is_time_for_spared(now, |_| true));
        assert_eq!(ending.deadline(), ending.kill_at());
        assert!(!ending.is_time_for_spared(now, |spared| spared.len() != 1));
        assert_eq!(ending.deadline(), later);
        assert!(ending.is_time_for_spared(later, |_| false));
        assert!(!ending.is_time_for_spared(later, |_| false), "told once");
    }
}
