//! While a task runs: what muster-init says, what is wanted of it, what the engine sees.

use std::sync::Arc;
use std::time::Duration;

use muster_init::exit_report::TaskPhase;
use muster_init::message::{self, Go, HoldMessage, InitHello, ToAgent, ToInit};
use muster_model::exit::Cause;
use muster_model::id::AttemptUid;
use tokio::time::{Instant, sleep, sleep_until};

use super::disk_watch::over_limit;
use super::end::{StopCause, Witness};
use super::event::TaskEvent;
use super::handle::RenewedLease;
use super::init_link::InitLink;
use super::order::RunnerConfig;
use super::runner::TaskLife;
use crate::engine::{self, Engine, EngineExit};

const SIGTERM: i32 = libc::SIGTERM;
const SIGKILL: i32 = libc::SIGKILL;
/// How long the last words of an ended muster-init are waited for. They are in the socket
/// already.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Grace of a stop for an overfull disk: what runs on only makes it worse.
const DISK_GRACE: Duration = Duration::from_secs(5);

impl TaskLife {
    /// Serves muster-init until the task has ended.
    pub(super) async fn attend(&mut self, link: &mut InitLink) -> Witness {
        let (engine, config) = (
            Arc::clone(&self.runner.engine),
            Arc::clone(&self.runner.config),
        );
        let (uid, disk_mb) = (self.uid.clone(), self.disk_mb);
        let mut wanted = self.wanted.clone();
        wanted.mark_changed();
        let mut kill_at = None;
        let mut disk_full = false;
        let container_end = container_end(&*engine, &uid, &config);
        let disk = over_limit(&*engine, &uid, disk_mb, &config);
        tokio::pin!(container_end, disk);
        loop {
            tokio::select! {
                biased;
                message = link.next() => {
                    if let Some(witness) = self.heard(link, message).await {
                        return witness;
                    }
                }
                Ok(()) = wanted.changed() => {
                    let now = wanted.borrow_and_update().clone();
                    self.send_lease(link).await;
                    if let Some(stop) = &now.stop {
                        let asked = StopCause { cause: stop.cause, message: stop.message.clone() };
                        self.stop.get_or_insert(asked);
                        kill_at = sooner(kill_at, self.ask_stop(link, stop.grace).await);
                    } else if now.go {
                        self.send_go(link).await;
                    }
                }
                message = &mut disk, if !disk_full => {
                    disk_full = true;
                    let cause = Cause::DiskLimit;
                    self.stop.get_or_insert(StopCause { cause, message });
                    kill_at = sooner(kill_at, self.ask_stop(link, DISK_GRACE).await);
                }
                () = until(kill_at) => {
                    self.signal(SIGKILL).await;
                    kill_at = Some(Instant::now() + config.kill_margin);
                }
                end = &mut container_end => return self.last_words(link, end).await,
            }
        }
    }

    /// Takes a message; the last one is the end.
    async fn heard(&mut self, link: &mut InitLink, message: ToAgent) -> Option<Witness> {
        match message {
            ToAgent::Hello(hello) => self.greet(link, &hello).await,
            ToAgent::Ready(_) => self.ready(link).await,
            ToAgent::Progress(progress) => {
                if self.launched_ms == 0 {
                    self.launched_ms = progress.at_ms;
                }
                self.reached = self.reached.max(progress.phase);
                self.running().await;
            }
            // The report that follows says it all.
            ToAgent::SetupFailed(failure) => {
                tracing::info!(uid = %self.uid, message = failure.message, "a setup failed");
            }
            ToAgent::Held(held) => self.held(held).await,
            ToAgent::Exit(report) => return Some(Witness::Report(report)),
        }
        None
    }

    /// Answers a hello with whatever its sender may have missed.
    async fn greet(&mut self, link: &mut InitLink, hello: &InitHello) {
        if hello.phase < TaskPhase::Ended {
            self.reached = self.reached.max(hello.phase);
        }
        if hello.launched_ms != 0 {
            self.launched_ms = hello.launched_ms;
        }
        self.send_lease(link).await;
        match hello.phase {
            TaskPhase::Setup => match self.setup_with_lease() {
                Some(setup) => {
                    if let Some(hold) = self.hold {
                        let hold_ms = millis(hold);
                        link.send(&ToInit::Hold(HoldMessage { hold_ms })).await;
                    }
                    link.send(&ToInit::Setup(setup)).await;
                }
                None => {
                    self.stop.get_or_insert_with(|| StopCause {
                        cause: Cause::Lost,
                        message: "the agent restarted before it had told the task what to run"
                            .to_owned(),
                    });
                    link.send(&stop_message(Duration::ZERO)).await;
                }
            },
            TaskPhase::Ready => self.ready(link).await,
            TaskPhase::PreCommands | TaskPhase::UserCommands | TaskPhase::PostCommands => {
                self.running().await
            }
            TaskPhase::Ended => {}
        }
        let stop = self.wanted.borrow().stop.clone();
        if let Some(stop) = stop {
            link.send(&stop_message(stop.grace)).await;
        } else if self.stop.is_some() {
            link.send(&stop_message(DISK_GRACE)).await;
        }
    }

    async fn ready(&mut self, link: &mut InitLink) {
        self.reached = self.reached.max(TaskPhase::Ready);
        // It holds secrets, and is not needed any more.
        self.setup = None;
        if !self.told_ready {
            self.told_ready = true;
            self.tell(TaskEvent::Ready {
                uid: self.uid.clone(),
            })
            .await;
        }
        self.send_go(link).await;
    }

    async fn send_go(&mut self, link: &mut InitLink) {
        let go = {
            let wanted = self.wanted.borrow();
            wanted.go && wanted.stop.is_none()
        };
        if go && self.stop.is_none() && self.reached == TaskPhase::Ready {
            link.send(&ToInit::Go(Go {})).await;
        }
    }

    /// What to run, under the lease as it is now: nothing that holds by one is run without.
    fn setup_with_lease(&self) -> Option<message::TaskSetup> {
        let lease = self.wanted.borrow().lease.map(lease_message);
        let setup = self.setup.clone()?;
        Some(message::TaskSetup { lease, ..setup })
    }

    async fn send_lease(&self, link: &mut InitLink) {
        let lease = self.wanted.borrow().lease;
        if let Some(lease) = lease {
            link.send(&ToInit::Lease(lease_message(lease))).await;
        }
    }

    async fn running(&mut self) {
        self.setup = None;
        if !self.told_running {
            self.told_running = true;
            self.tell(TaskEvent::Running {
                uid: self.uid.clone(),
                launched_ms: self.launched_ms,
            })
            .await;
        }
    }

    /// Asks for the end and says when it must have come.
    async fn ask_stop(&mut self, link: &mut InitLink, grace: Duration) -> Instant {
        if link.is_connected() {
            link.send(&stop_message(grace)).await;
        } else {
            self.signal(SIGTERM).await;
        }
        Instant::now() + grace + self.runner.config.kill_margin
    }

    /// An engine that does not answer is no reason to fail: the signal is repeated.
    async fn signal(&self, signal: i32) {
        if let Err(error) = self.runner.engine.signal(&self.uid, signal).await {
            tracing::warn!(uid = %self.uid, signal, %error, "cannot signal a task");
        }
    }

    /// The container ended; its report may be on its way or on disk.
    async fn last_words(&mut self, link: &mut InitLink, end: ContainerEnd) -> Witness {
        while let Some(message) = link.next_left(LAST_WORDS).await {
            if let Some(witness) = self.heard(link, message).await {
                return witness;
            }
        }
        self.witness(end).await
    }
}

/// The end of a container as the engine tells it.
#[derive(Debug)]
pub(super) enum ContainerEnd {
    Exit(EngineExit),
    Missing(Cause, String),
}

/// Waits for a container's end, over any absence of the engine.
pub(super) async fn container_end(
    engine: &dyn Engine,
    uid: &AttemptUid,
    config: &RunnerConfig,
) -> ContainerEnd {
    let mut wait = config.engine_wait;
    loop {
        match engine.wait(uid).await {
            Ok(exit) => return ContainerEnd::Exit(exit),
            Err(
                error @ (engine::EngineError::NoContainer(_) | engine::EngineError::NoProcess(_)),
            ) => {
                return ContainerEnd::Missing(Cause::Lost, error.to_string());
            }
            Err(error) => {
                tracing::warn!(%uid, %error, "cannot wait for a task; it runs on");
                sleep(wait).await;
                wait = (wait * 2).min(config.engine_wait_max);
            }
        }
    }
}

fn stop_message(grace: Duration) -> ToInit {
    let grace_ms = millis(grace);
    ToInit::Stop(message::StopMessage { grace_ms })
}

fn lease_message(RenewedLease { ends, grace }: RenewedLease) -> message::LeaseMessage {
    message::LeaseMessage {
        ends_ms: millis(ends),
        grace_ms: millis(grace),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn sooner(a: Option<Instant>, b: Instant) -> Option<Instant> {
    Some(a.map_or(b, |a| a.min(b)))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
