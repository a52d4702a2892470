//! A cluster under attack: real agents do jobs while a nemesis kills, stops, cuts off, fills and
//! misleads them. What clients were told meanwhile, and what was found when all was healed, must
//! hold together.
//!
//! Begin with [`run`]. The [`checker`] is pure and knows nothing of agents: a [`history`] in,
//! sentences about what is wrong out. One seed gives the same jobs and the same faults at the same
//! times; what comes of them depends on the machine, too.

pub mod checker;
mod clients;
mod draft;
pub mod faults;
mod findings;
pub mod history;
mod outputs;
mod peace;
pub mod report;
mod run;
mod traffic;

pub use self::faults::HarmKind;
pub use self::report::NemesisReport;
pub use self::run::{RunPlan, run};
