//! What is wrong with a node's devices, ports and processes: readers of the kernel's log and
//! files, a table of rules, and a judge that is told what was seen.
//!
//! Nothing here acts: the agent quarantines, drains and resets. The readers are called by the
//! agent's loop; [`kernel_log`] gives events of the kernel's log.

pub mod kernel_log;
