//! What members answer, and what the leader of the cluster does on its own: code that reads and proposes, asks
//! others and waits, and so is async, over two ports.
//!
//! - [`cluster`]: what the leader of the cluster answers, and each member for its part in that.
//! - [`vc`]: of a virtual cluster. What its leader answers, and what a copy of its log answers where none does.
//! - [`port`]: what that needs of the node. The agent has it over its loops, its disk and its mesh, and the
//!   simulator over machines of its own, so that both run the same answers.
//! - [`together`]: several things asked at a time, and what is waited for only so long.
//!
//! Nothing else of this crate knows of this folder. There is no runtime here: the caller that polls a future decides
//! what happens next, so that one list of events is one behaviour.

pub mod cluster;
pub mod event;
pub mod port;
pub mod together;
pub mod vc;

pub use event::Event;
pub use port::{CopiesPort, MemberPort};
