//! The virtual clusters that this node serves: its own while it is in no cluster, else the
//! cluster's. Each has a log and a leader of its own.
//!
//! Whoever asks holds a [`VcHandle`]. It puts a [`Question`] to the node that leads: to the
//! [`Desk`] here, or over the mesh to that of another member. What concerns them all is asked of each
//! at the same time (`everywhere`). `view` is what is looked at where one is led.

mod copies;
mod desk;
mod everywhere;
mod handle;
mod question;
mod silent;
mod view;

pub(crate) use copies::VcCopies;
pub(crate) use desk::Desk;
pub(crate) use handle::{Error, Seat, VcHandle, Vcs};
pub(crate) use question::{Answer, Question};
