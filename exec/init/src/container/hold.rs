//! The container of a task that has failed, kept so that a person can look into it.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::lease::LeaseDue;
use super::{InitProcess, KILL_PATIENCE};
use crate::exit_report::{ExitReport, TaskPhase};
use crate::message::{HeldMessage, ToAgent, ToInit};

/// The mode of the process that keeps variables.
pub const KEEP: &str = "keep";

/// Waits to be killed.
pub fn keep() -> ExitCode {
    loop {
        nix::unistd::pause();
    }
}

impl InitProcess {
    /// For how long the container is kept after this end; none: it ends now. Only what failed by itself, in its
    /// commands, is worth a look.
    pub(super) fn hold_after(&self, report: &ExitReport) -> Option<Duration> {
        let in_commands = matches!(
            report.phase,
            TaskPhase::PreCommands | TaskPhase::UserCommands | TaskPhase::PostCommands
        );
        let failed = report.code != 0 && report.failure.is_none();
        let by_itself = !report.stopped && !report.lease_ended;
        self.hold.filter(|_| in_commands && failed && by_itself)
    }

    /// Keeps the container until the time is over, its end is asked for, or its lease is over.
    pub(super) fn keep(&mut self, report: &ExitReport, hold: Duration) {
        let hold_ms = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        let held = ToAgent::Held(HeldMessage {
            report: report.clone(),
            until_ms: report.ended_ms.saturating_add(hold_ms),
        });
        self.logger
            .say(&format!("the container is kept for {} s", hold.as_secs()));
        // A stop from before, by the task itself, has been carried out.
        self.ending = None;
        let until = Instant::now() + hold;
        self.held_until = Some(until);
        self.agent.send(&held);
        self.keep_variables();
        while Instant::now() < until {
            if self.meet_agent() {
                self.agent.send(&held);
            }
            self.sleep();
            self.logger.exchange();
            let is_signalled = self.processes.news().stop.is_some();
            if is_signalled || self.is_told_to_end() || self.is_lease_over() {
                self.logger.say("the end of the container was asked for");
                break;
            }
        }
        self.held_until = None;
        self.processes.kill_all(KILL_PATIENCE);
    }

    /// Starts a process that has the variables of the commands, from which a person's command takes them
    /// ([`crate::enter`]). It does nothing, and ends with the container.
    fn keep_variables(&mut self) {
        let Some(plan) = &self.plan else { return };
        let variables = plan.around.environment.iter();
        let started = Command::new("/proc/self/exe")
            .arg(KEEP)
            .env_clear()
            .envs(variables.map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Err(error) = started {
            self.logger.say(&format!(
                "the variables of the commands are not kept: {error}"
            ));
        }
    }

    fn is_told_to_end(&mut self) -> bool {
        let mut is_told = false;
        for message in self.agent.receive() {
            match message {
                ToInit::Stop(_) => is_told = true,
                ToInit::Lease(renewal) => self.lease.renew(&renewal),
                ToInit::Setup(_) | ToInit::Go(_) | ToInit::Hold(_) => {}
            }
        }
        is_told
    }

    fn is_lease_over(&mut self) -> bool {
        matches!(self.lease.due(), Some(LeaseDue::Stop(_) | LeaseDue::Kill))
    }
}
