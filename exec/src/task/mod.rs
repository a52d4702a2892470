//! One task of this node, from the order to run it until nothing of it is left.
//!
//! A [`TaskRunner`] is sequential IO over the container engine and the socket of the task's
//! muster-init. It decides nothing: it is told to create, to go and to stop, and it tells what
//! happened as [`TaskEvent`]s. It ends no task because the engine or the agent was away.
//!
//! Not here: who may run what (the ledger), what an exit means (the failure rules), retries.

mod attend;
mod dirs;
mod disk_watch;
mod end;
mod event;
mod evidence;
mod finish;
mod handle;
mod hosts;
mod init_link;
mod order;
mod runner;

pub use dirs::task_dir;
pub use event::TaskEvent;
pub use handle::Handle;
pub use hosts::HostEntry;
pub use muster_init::message::TaskSetup;
pub use order::{Adoption, RunnerConfig, TaskOrder};
pub use runner::TaskRunner;
