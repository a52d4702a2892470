//! What is wrong with a node's devices, ports and processes: readers of the kernel's log and
//! files, a table of rules, and a judge that is told what was seen.
//!
//! Nothing here acts: the agent quarantines, drains and resets. The readers are called by the
//! agent's loop: [`kernel_log`] gives events, [`reading`] what files tell. Both go to the
//! [`HealthJudge`](judge::HealthJudge), a core that holds what stands. Start there.

pub mod judge;
pub mod kernel_log;
pub mod reading;
pub mod rules;
