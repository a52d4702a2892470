//! Asks the container engine at a steady pace whether it still answers, so that a hung one is
//! seen before a job needs it.

use std::sync::Arc;
use std::time::Duration;

use muster_exec::engine::Engine;
use tokio::sync::watch;
use tokio::time::timeout;

use super::vc::full_text;
use crate::waits::Calls;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(5);
/// An engine that needs longer to say its version is of no use to a task either.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// What the engine answered last: its name and version, or why it does not answer.
pub(crate) type EngineState = watch::Receiver<Result<String, String>>;

/// Starts the loop.
pub(crate) fn watch(engine: Arc<dyn Engine>, calls: Calls) -> EngineState {
    let (sender, state) = watch::channel(Err("not asked yet".to_owned()));
    tokio::spawn(async move {
        let mut waits = None;
        while !sender.is_closed() {
            // A hung engine is asked again and again, but it is one wait.
            let call = waits.take().unwrap_or_else(|| calls.begin());
            let answer = match timeout(ANSWER_LIMIT, engine.version()).await {
                Ok(answer) => {
                    drop(call);
                    answer.map_err(|error| full_text(&error))
                }
                Err(_) => {
                    waits = Some(call);
                    Err(format!(
                        "it gave no answer within {} s",
                        ANSWER_LIMIT.as_secs()
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
            tokio::time::sleep(PAUSE).await;
        }
    });
    state
}
