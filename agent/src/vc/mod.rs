//! The virtual cluster that this node serves: its own while it is in no cluster, else the
//! cluster's.
//!
//! Whoever asks holds a [`VcHandle`]. It puts a [`Question`] to the node that leads: to the
//! [`Desk`] here, or over the mesh to that of another member. `view` is what is looked at there.

mod desk;
mod handle;
mod question;
mod view;

pub(crate) use desk::{Desk, VcCopies};
pub(crate) use handle::{Error, Seat, VcHandle};
pub(crate) use question::{Answer, Question};
