//! The thread that the mesh runs on.
//!
//! What comes in by the network goes through four tasks: the socket, the link, the core, the link
//! again. Among several threads each of these steps wakes another one, which costs more than the
//! step; on one thread it costs nothing. And signs of life wait behind no user's request.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// Runs the mesh's tasks, one at a time. Those that block hand the others to another thread for
/// so long.
#[derive(Debug)]
pub(crate) struct MeshThread(Runtime);

impl MeshThread {
    /// Starts it, with so many bytes of stack.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(crate) fn start(stack_bytes: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mesh")
            .thread_stack_size(stack_bytes)
            .enable_all()
            .build()?;
        Ok(Self(runtime))
    }

    /// For putting tasks there.
    pub(crate) fn handle(&self) -> Handle {
        self.0.handle().clone()
    }

    /// Ends its tasks, and waits for what blocks until `limit`.
    pub(crate) fn end(self, limit: Duration) {
        self.0.shutdown_timeout(limit);
    }
}
