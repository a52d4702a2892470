//! How long a command that waits puts up with an agent that does not answer.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::CliError;

/// An agent is restarted or upgraded within this; its tasks run on meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);

/// Bears failures that pass until they have lasted too long.
#[derive(Debug, Default)]
pub(super) struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// `Some` for a success; `None`, after a pause, to ask again; an error when it does not pass.
    pub(super) async fn bear<T>(
        &mut self,
        result: Result<T, CliError>,
    ) -> Result<Option<T>, CliError> {
        match result {
            Ok(value) => {
                self.since = None;
                Ok(Some(value))
            }
            Err(error) if error.is_passing() => {
                let since = *self.since.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    return Err(error);
                }
                sleep(PAUSE).await;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
