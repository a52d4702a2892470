//! Threads with a runtime of their own, for what is woken many times a second.
//!
//! What comes in by the network goes through four tasks of the mesh: the socket, the link, the
//! core, the link again. Among several threads each of these steps wakes another one, which costs
//! more than the step; on one thread it costs nothing. And signs of life wait behind no user's
//! request. The groups, which most of what comes in is for, are another such thread: a plan of
//! theirs may take long, and holds up no sign of life of the mesh; and who wakes them wakes one
//! thread, where a pool of threads wakes a second one to look for more.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// What a thread's tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// The network, time, and other tasks.
    Network,
    /// Time and other tasks only, which costs less to be woken for.
    Time,
}

/// Runs its tasks, one at a time. None of them may block: disks and rules are for
/// `spawn_blocking`.
#[derive(Debug)]
pub(crate) struct OwnThread {
    handle: Handle,
    stop: oneshot::Sender<Duration>,
    ended: mpsc::Receiver<()>,
}

impl OwnThread {
    /// Starts one of this name, with so many bytes of stack.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(crate) fn start(name: &str, stack_bytes: usize, waiting: WaitKind) -> io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        builder.thread_stack_size(stack_bytes).enable_time();
        if waiting == WaitKind::Network {
            builder.enable_io();
        }
        let runtime = builder.build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = mpsc::channel();
        let work = move || {
            let limit = runtime.block_on(stopped).unwrap_or_default();
            runtime.shutdown_timeout(limit);
            // Whoever waited may have gone.
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name(name.to_owned());
        thread.stack_size(stack_bytes).spawn(work)?;
        Ok(Self {
            handle,
            stop,
            ended,
        })
    }

    /// For putting tasks there.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends its tasks, and waits for what blocks until `limit`.
    pub(crate) fn end(self, limit: Duration) {
        if self.stop.send(limit).is_ok() {
            // A thread that hangs is left behind.
            let _ = self.ended.recv_timeout(limit);
        }
    }
}
