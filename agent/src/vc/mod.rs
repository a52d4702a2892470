//! The virtual clusters that this node serves: its own while it is in no cluster, else the
//! cluster's. Each has a log and a leader of its own.
//!
//! Whoever asks holds a [`VcHandle`]. It puts a [`Question`] to the node that leads: to the
//! [`Desk`] here, or over the mesh to that of another member. What concerns them all is asked of each
//! at the same time (`everywhere`). `view` is what is looked at where one is led. What is only to be shown
//! is had from a copy of the log, of any member's [`CopyDesk`], where the leader cannot be asked
//! (`reading`); [`Marks`](marks::Marks) tell how old that is.

mod copies;
mod copy_desk;
mod desk;
mod everywhere;
mod handle;
mod marks;
mod question;
mod reading;
mod silent;
mod view;

pub(crate) use copies::VcCopies;
pub(crate) use copy_desk::CopyDesk;
pub(crate) use desk::Desk;
pub(crate) use handle::{Error, Seat, VcHandle, Vcs};
pub(crate) use marks::Mark;
pub(crate) use question::{Answer, Question};
