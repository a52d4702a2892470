//! Who watches one member: a short list, by ring.

use std::ops::Deref;

use super::RINGS;
use crate::member::MemberId;

/// Who watches one member, at most [`RINGS`], by ring. In place: it is put together for thousands
/// of members at a time.
#[derive(Clone, Copy)]
pub struct Watchers {
    members: [MemberId; RINGS],
    len: u8,
}

impl Watchers {
    /// Nobody.
    pub const NOBODY: Self = Self {
        members: [MemberId(0); RINGS],
        len: 0,
    };

    /// One more. There is none after the last ring.
    pub(super) fn push(&mut self, member: MemberId) {
        if let Some(place) = self.members.get_mut(usize::from(self.len)) {
            *place = member;
            self.len += 1;
        }
    }
}

impl Deref for Watchers {
    type Target = [MemberId];

    fn deref(&self) -> &[MemberId] {
        &self.members[..usize::from(self.len)]
    }
}

impl PartialEq for Watchers {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Watchers {}

impl std::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
