//! When a task has ended: how, what it leaves in the logs, and its removal.

use std::time::Duration;

use muster_init::exit_report::{ExitReport, TaskPhase};
use muster_init::message::HeldMessage;
use muster_model::exit::RawExit;
use tokio::time::{sleep, timeout};

use super::attend::{ContainerEnd, container_end};
use super::end::{Witness, now_ms, raw_exit, report_of};
use super::event::TaskEvent;
use super::evidence::{gather, logger_done, logs_whole, reached_by_log};
use super::runner::{NotLaunched, TaskLife};
use crate::engine::Usage;

/// How long the container's own end may take after the task has ended.
const END_AFTER_REPORT: Duration = Duration::from_secs(2);

impl TaskLife {
    pub(super) async fn witness(&mut self, end: ContainerEnd) -> Witness {
        logs_whole(&self.dir).await;
        match (self.stored_report(), end) {
            (Some(report), _) => Witness::Report(report),
            (None, ContainerEnd::Exit(exit)) => Witness::Engine(exit),
            (None, ContainerEnd::Missing(cause, message)) => Witness::Nobody(cause, message),
        }
    }

    fn stored_report(&self) -> Option<ExitReport> {
        ExitReport::load(&self.dir.exit_report())
            .inspect_err(|error| tracing::warn!(uid = %self.uid, %error, "cannot read its exit"))
            .ok()
            .flatten()
    }

    pub(super) async fn ended(&mut self, witness: Witness) {
        if let Witness::Report(report) = &witness {
            self.reached = self.reached.max(report.phase);
            self.launched_ms = self.launched_ms.max(report.launched_ms);
        }
        let usage = self.usage().await;
        let exit = raw_exit(&witness, self.reached, self.stop.as_ref(), usage);
        let report = match witness {
            Witness::Report(report) => report,
            Witness::Engine(_) | Witness::Nobody(..) => {
                let report = report_of(&exit, self.reached, self.launched_ms);
                self.store(&report);
                report
            }
        };
        self.tell_end(exit, usage).await;
        self.keep(&report).await;
    }

    /// Its commands failed, and its container is kept.
    pub(super) async fn held(&mut self, held: HeldMessage) {
        let HeldMessage { report, until_ms } = held;
        self.reached = self.reached.max(report.phase);
        self.launched_ms = self.launched_ms.max(report.launched_ms);
        let usage = self.usage().await;
        let exit = raw_exit(&Witness::Report(report), self.reached, None, usage);
        let tail_bytes_max = self.runner.config.log_tail_bytes_max;
        let evidence = gather(&self.dir, exit, tail_bytes_max).await;
        self.tell(TaskEvent::Held {
            uid: self.uid.clone(),
            evidence: Box::new(evidence),
            launched_ms: self.launched_ms,
            infiniband: self.infiniband,
            until_ms,
        })
        .await;
    }

    /// The engine's copy of the exit goes with the container, so one must be on disk by then:
    /// whoever hears of the end may forget it. The logger stores it; where the disk was full,
    /// it is stored as soon as there is room.
    async fn keep(&self, report: &ExitReport) {
        logs_whole(&self.dir).await;
        let mut wait = self.runner.config.engine_wait;
        while self.dir.root().exists() && self.stored_report().is_none() && !self.store(report) {
            sleep(wait).await;
            wait = self.longer(wait);
        }
    }

    async fn tell_end(&self, exit: RawExit, usage: Usage) {
        let uid = self.uid.clone();
        let event = if self.reached <= TaskPhase::Ready {
            TaskEvent::LaunchFailed { uid, exit }
        } else {
            let tail_bytes_max = self.runner.config.log_tail_bytes_max;
            let evidence = gather(&self.dir, exit, tail_bytes_max).await;
            TaskEvent::Exited {
                uid,
                evidence: Box::new(evidence),
                launched_ms: self.launched_ms,
                infiniband: self.infiniband,
                usage,
            }
        };
        self.tell(event).await;
    }

    /// Readers of the log end where there is an exit. Says whether it is stored.
    fn store(&self, report: &ExitReport) -> bool {
        let stored = report.store(&self.dir.exit_report());
        if let Err(error) = &stored {
            tracing::warn!(uid = %self.uid, %error, "cannot store its exit");
        }
        stored.is_ok()
    }

    async fn usage(&self) -> Usage {
        self.runner
            .engine
            .usage(&self.uid)
            .await
            .unwrap_or_default()
    }

    pub(super) async fn not_launched(&mut self, failed: NotLaunched) {
        let exit = RawExit {
            code: 1,
            signal: None,
            oom_killed: false,
            own_doing: false,
            phase: muster_model::exit::ExitPhase::Launch,
            cause: Some(failed.cause),
            message: failed.message,
            ended_ms: now_ms(),
        };
        self.store(&report_of(&exit, self.reached, self.launched_ms));
        self.tell_end(exit, Usage::default()).await;
    }

    /// An adopted task that ended while no agent was there.
    pub(super) async fn ended_meanwhile(&mut self, end: ContainerEnd) {
        self.reached = reached_by_log(&self.dir);
        let witness = self.witness(end).await;
        self.ended(witness).await;
    }

    /// Its socket cannot be made: it can run to its end, but nobody can talk with it.
    pub(super) async fn unreachable(&mut self, error: &std::io::Error) {
        tracing::error!(uid = %self.uid, %error, "cannot listen for a task");
        let runner = self.runner.clone();
        let end = container_end(&*runner.engine, &self.uid, &runner.config).await;
        self.ended_meanwhile(end).await;
    }

    /// Removes the container, however long that takes. Its devices are free only then.
    pub(super) async fn remove(&self) {
        // muster-init reports just before its own end. To wait for that is cheaper than to have
        // the engine kill what ends by itself. What does not end is killed below.
        let _ = timeout(END_AFTER_REPORT, self.runner.engine.wait(&self.uid)).await;
        let mut wait = self.runner.config.engine_wait;
        while let Err(error) = self.runner.engine.remove(&self.uid).await {
            tracing::warn!(uid = %self.uid, %error, "cannot remove a container yet");
            sleep(wait).await;
            wait = self.longer(wait);
        }
        // Its logger may still be storing the exit.
        logger_done(&self.dir).await;
        // The sockets serve nobody any more; a leftover is removed with the logs.
        let _ = std::fs::remove_dir_all(self.dir.ctl());
        self.tell(TaskEvent::Gone {
            uid: self.uid.clone(),
        })
        .await;
    }
}
