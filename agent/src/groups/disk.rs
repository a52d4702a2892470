//! The log store, written beside the loop: while the disk syncs, signs of life go on.

use std::time::Duration;

use muster_consensus::{LogStore, StoreError, StoreId, Write};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::causes::causes;

/// Pause before a write is offered again to a disk that refused it.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

const PANICKED: &str = "a write of the log store has panicked";

type WriteResult = (LogStore, Write, Result<(), StoreError>);

/// What the store does.
#[derive(Debug)]
enum LogDiskState {
    Idle(LogStore),
    Writing(JoinHandle<WriteResult>),
    /// It refused this write, which is offered again then.
    Refused(LogStore, Write, Instant),
    /// Nothing can be written any more, for this reason.
    Broken(String),
}

/// The log store. One write at a time.
#[derive(Debug)]
pub(crate) struct LogDisk {
    id: StoreId,
    state: LogDiskState,
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Done {
    /// The write of this number is durable.
    Written(u64),
    /// The disk refused, for this reason. The write is tried again.
    Refused(String),
}

impl LogDisk {
    pub(crate) const fn new(store: LogStore) -> Self {
        Self {
            id: store.id(),
            state: LogDiskState::Idle(store),
        }
    }

    /// Which store this is.
    pub(crate) const fn id(&self) -> StoreId {
        self.id
    }

    /// Begins a write. The one before is done.
    pub(crate) fn write(&mut self, write: Write) {
        self.state = match self.take_state() {
            LogDiskState::Idle(store) => begin(store, write),
            other => {
                debug_assert!(false, "two writes at a time");
                other
            }
        };
    }

    /// Waits until a write is done, or refused; for ever when there is none.
    ///
    /// # Panics
    /// When the write has panicked, or the file is damaged. The agent ends then, and begins with whatever can be
    /// read of it.
    pub(crate) async fn done(&mut self) -> Done {
        loop {
            match &mut self.state {
                LogDiskState::Idle(_) => return std::future::pending().await,
                LogDiskState::Broken(problem) => panic!("{problem}"),
                LogDiskState::Refused(_, _, at) => {
                    tokio::time::sleep_until(*at).await;
                    self.again();
                }
                LogDiskState::Writing(task) => {
                    let Ok((store, write, result)) = task.await else {
                        self.state = LogDiskState::Broken(PANICKED.to_owned());
                        continue;
                    };
                    if let Err(error @ (StoreError::Damaged { .. } | StoreError::Doubtful { .. })) =
                        &result
                    {
                        self.state = LogDiskState::Broken(causes(error));
                        continue;
                    }
                    return self.take(store, write, result);
                }
            }
        }
    }

    fn take(&mut self, store: LogStore, write: Write, result: Result<(), StoreError>) -> Done {
        match result {
            Ok(()) => {
                let number = write.number;
                self.state = LogDiskState::Idle(store);
                Done::Written(number)
            }
            Err(error) => {
                self.state = LogDiskState::Refused(store, write, Instant::now() + RETRY_PAUSE);
                Done::Refused(causes(&error))
            }
        }
    }

    fn take_state(&mut self) -> LogDiskState {
        std::mem::replace(&mut self.state, LogDiskState::Broken(PANICKED.to_owned()))
    }

    fn again(&mut self) {
        self.state = match self.take_state() {
            LogDiskState::Refused(store, write, _) => begin(store, write),
            other => other,
        };
    }
}

fn begin(mut store: LogStore, write: Write) -> LogDiskState {
    LogDiskState::Writing(tokio::task::spawn_blocking(move || {
        let result = store.write(&write);
        (store, write, result)
    }))
}
