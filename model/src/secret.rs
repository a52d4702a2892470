//! What no log may show.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A password, a hash of one, a token, a key: [`Debug`](fmt::Debug) does not show it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden<T>(pub T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(..)")
    }
}
