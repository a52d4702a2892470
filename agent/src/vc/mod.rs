//! The virtual clusters that this node serves: those of its cluster. Each has a log and a leader of
//! its own.
//!
//! Others hold a [`VcHandle`], which asks the leader of each: this node ([`LedVcs`]), or another member.
//! What concerns them all is asked of each at the same time (`everywhere`). What is only to be shown is
//! had from a copy of the log where the leader cannot be asked (`reading`): of this node ([`LocalCopies`])
//! or another member; [`Marks`](marks::CommitMarks) tell how old that is. What each answers is in
//! [`muster_control::answers::vc`].

mod everywhere;
mod handle;
mod led;
mod local_copies;
mod marks;
mod reading;
mod silent;

use muster_control::answers;

use crate::groups::Groups;

pub(crate) use handle::{Seat, VcError, VcHandle, Vcs};
pub(crate) use led::LedVcs;
pub(crate) use local_copies::LocalCopies;
pub(crate) use marks::CommitMark;
pub(crate) use reading::UnseenJob;

/// A virtual cluster, where it is led here.
pub(crate) type AtLeader<'a> = answers::vc::AtLeader<'a, Groups>;
/// A virtual cluster, by the copy of its log that is here.
pub(crate) type AtCopy<'a> = answers::vc::AtCopy<'a, Groups>;
