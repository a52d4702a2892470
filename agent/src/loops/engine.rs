//! Asks the container engine at a steady pace whether it still answers, so that a hung one is
//! seen before a job needs it.

use std::sync::Arc;
use std::time::Duration;

use muster_exec::engine::Engine;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::causes::causes;
use crate::waits::Calls;

/// How often it is asked, and how long it may take.
#[derive(Clone, Copy, Debug)]
struct PollPace {
    /// Between two questions.
    pause: Duration,
    /// An engine that needs longer to say its version is of no use to a task either.
    answer: Duration,
}

const PACE: PollPace = PollPace {
    pause: Duration::from_secs(5),
    answer: Duration::from_secs(5),
};

/// What the engine answered last: its name and version, or why it does not answer.
pub(crate) type EngineState = watch::Receiver<Result<String, String>>;

/// Starts the loop.
pub(crate) fn watch(engine: Arc<dyn Engine>, calls: Calls) -> EngineState {
    watch_at(PACE, engine, calls)
}

fn watch_at(pace: PollPace, engine: Arc<dyn Engine>, calls: Calls) -> EngineState {
    let (sender, state) = watch::channel(Err("not asked yet".to_owned()));
    tokio::spawn(async move {
        let mut waits = None;
        while !sender.is_closed() {
            // A hung engine is asked again and again, but it is one wait.
            let call = waits.take().unwrap_or_else(|| calls.begin());
            let answer = match timeout(pace.answer, engine.version()).await {
                Ok(answer) => {
                    drop(call);
                    answer.map_err(|error| causes(&error))
                }
                Err(_) => {
                    waits = Some(call);
                    Err(format!(
                        "it gave no answer within {} s",
                        pace.answer.as_secs()
                    ))
                }
            };
            sender.send_if_modified(|known| {
                let changed = *known != answer;
                if changed {
                    match &answer {
                        Ok(version) => tracing::info!(version, "the container engine answers"),
                        Err(reason) => tracing::error!(reason, "the container engine is away"),
                    }
                    *known = answer;
                }
                changed
            });
            tokio::time::sleep(pace.pause).await;
        }
    });
    state
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use muster_exec::engine::fake::FakeEngine;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const QUICK: PollPace = PollPace {
        pause: Duration::from_millis(5),
        answer: Duration::from_millis(20),
    };

    async fn until(mut condition: impl FnMut() -> bool) {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("it comes true");
    }

    #[tokio::test]
    async fn an_engine_that_hangs_is_one_wait_however_often_it_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let (engine, calls) = (
            Arc::new(FakeEngine::new(dir.path().into(), [""; 0])),
            Calls::default(),
        );
        let state = watch_at(QUICK, engine.clone(), calls.clone());
        until(|| state.borrow().is_ok()).await;
        until(|| calls.age().is_zero()).await;
        engine.set_stuck(true);
        let before = engine.asked();
        until(|| engine.asked() > before).await;
        let stuck = Instant::now();
        until(|| engine.asked() > before + 4).await;
        // The first of these questions is as old as all of this.
        let (least, age) = (stuck.elapsed(), calls.age());
        assert!(age >= least, "{age:?} of {least:?}");
        assert!(
            state
                .borrow()
                .as_ref()
                .is_err_and(|why| why.contains("no answer"))
        );
        engine.set_stuck(false);
        until(|| state.borrow().is_ok()).await;
        until(|| calls.age().is_zero()).await;
    }
}
