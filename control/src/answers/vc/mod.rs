//! What a virtual cluster answers: where it is led ([`AtLeader`]), and where there is only a copy of its log
//! ([`AtCopy`]). [`VcLeaderView`] is what is looked at where it is led.

mod at_copy;
mod at_leader;
mod led;
mod view;

pub use at_copy::{AtCopy, no_copy};
pub use at_leader::AtLeader;
pub use led::{committed, give_up, renew_all};
pub use view::VcLeaderView;
