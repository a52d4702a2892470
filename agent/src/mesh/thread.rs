//! The thread that the mesh runs on.
//!
//! What comes in by the network goes through four tasks: the socket, the link, the core, the link
//! again. Among several threads each of these steps wakes another one, which costs more than the
//! step; on one thread it costs nothing. And signs of life wait behind no user's request.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Runs the mesh's tasks, one at a time. None of them may block: disks and rules are for
/// `spawn_blocking`.
#[derive(Debug)]
pub(crate) struct MeshThread {
    handle: Handle,
    stop: oneshot::Sender<Duration>,
    ended: mpsc::Receiver<()>,
}

impl MeshThread {
    /// Starts it, with so many bytes of stack.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(crate) fn start(stack_bytes: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .thread_stack_size(stack_bytes)
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = mpsc::channel();
        let work = move || {
            let limit = runtime.block_on(stopped).unwrap_or_default();
            runtime.shutdown_timeout(limit);
            // Whoever waited may have gone.
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name("mesh".to_owned());
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
