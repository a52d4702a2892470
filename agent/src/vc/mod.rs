//! The virtual clusters that this node serves: those of its cluster. Each has a log and a leader of
//! its own.
//!
//! Others hold a [`VcHandle`], which asks the leader of each: this node ([`Desk`]), or another member.
//! What concerns them all is asked of each at the same time (`everywhere`). What is only to be shown is
//! had from a copy of the log where the leader cannot be asked (`reading`): of this node ([`CopyDesk`])
//! or another member; [`Marks`](marks::Marks) tell how old that is. `view` is what is looked at where a
//! virtual cluster is led.

mod at_copy;
mod at_leader;
mod copy_desk;
mod desk;
mod everywhere;
mod handle;
mod marks;
mod reading;
mod silent;
mod view;

pub(crate) use at_copy::AtCopy;
pub(crate) use at_leader::AtLeader;
pub(crate) use copy_desk::CopyDesk;
pub(crate) use desk::Desk;
pub(crate) use handle::{Error, Seat, VcHandle, Vcs};
pub(crate) use marks::Mark;
