//! The virtual clusters that this node serves: those of its cluster. Each has a log and a leader of
//! its own.
//!
//! Others hold a [`VcHandle`], which asks the leader of each: this node ([`Desk`]), or another member.
//! What concerns them all is asked of each at the same time (`everywhere`). What is only to be shown is
//! had from a copy of the log where the leader cannot be asked (`reading`): of this node ([`CopyDesk`])
//! or another member; [`Marks`](marks::Marks) tell how old that is. What each answers is in
//! [`muster_control::answers::vc`].

mod copy_desk;
mod desk;
mod everywhere;
mod handle;
mod marks;
mod reading;
mod silent;

use muster_control::answers;

use crate::groups::Groups;

pub(crate) use copy_desk::CopyDesk;
pub(crate) use desk::Desk;
pub(crate) use handle::{Error, Seat, VcHandle, Vcs};
pub(crate) use marks::Mark;

/// A virtual cluster, where it is led here.
pub(crate) type AtLeader<'a> = answers::vc::AtLeader<'a, Groups>;
/// A virtual cluster, by the copy of its log that is here.
pub(crate) type AtCopy<'a> = answers::vc::AtCopy<'a, Groups>;
