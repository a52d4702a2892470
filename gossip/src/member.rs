//! Members by number.

use serde::{Deserialize, Serialize};

/// Most members a cluster may ever admit: bounds bitmaps over them.
pub const MEMBERS_MAX: usize = 65_536;

/// A member's number: dense from 0, given at admission, never given twice in one cluster. Sets of
/// members are bitmaps over it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct MemberId(pub u32);

impl MemberId {
    /// The number as an index of tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Counts the starts of a node's agent; kept on its disk, so it never goes back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(pub u64);
