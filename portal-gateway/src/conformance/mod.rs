//! What every implementation of a port does: a list for each port. The fake passes all of them, the agent
//! those that need neither containerd nor another machine (`agent/src/service/tests.rs`).
//!
//! They are for tests, and panic where something is not so.
#![allow(clippy::unwrap_used, reason = "test code")]

/// Checks that what is asked for is refused, and so.
macro_rules! refused {
    ($asked:expr, $error:pat) => {{
        let error = $asked.await.err();
        assert!(matches!(error, Some($error)), "{error:?}");
    }};
}

mod documents;
mod figures;
mod identity;
mod images;
mod jobs;
mod logs;
mod membership;
mod nodes;
mod people;
mod sessions;
mod storages;
mod users;
mod uses;

pub use documents::documents;
pub use figures::figures;
pub use identity::{identity, without_devices};
pub use images::images;
pub use jobs::jobs;
pub use logs::logs;
pub use membership::{alone, membership};
pub use nodes::nodes;
pub use sessions::sessions;
pub use storages::{storage_files, storages};
pub use users::users;
pub use uses::uses;

/// What nothing is called.
const NOBODY: &str = "nobody";
