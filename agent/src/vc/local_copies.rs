//! The copies of virtual clusters' logs that are here, with how old their word may be.

use muster_consensus::GroupId;
use muster_control::answers::vc::no_copy;
use muster_control::request::RequestFailure;

use super::AtCopy;
use super::marks::CommitMarks;
use crate::clock;
use crate::groups::Groups;

/// Answers by the copies here.
#[derive(Clone, Debug)]
pub(crate) struct LocalCopies {
    groups: Groups,
    marks: CommitMarks,
}

impl LocalCopies {
    pub(crate) fn new(groups: Groups) -> Self {
        Self {
            groups,
            marks: CommitMarks::default(),
        }
    }

    /// When the copies were known to be up to date.
    pub(crate) const fn marks(&self) -> &CommitMarks {
        &self.marks
    }

    /// How many milliseconds ago the copy of a group was known to be up to date, if that is known.
    ///
    /// # Errors
    /// When there is no copy here.
    pub(crate) async fn age(&self, group: GroupId) -> Result<Option<u64>, RequestFailure> {
        let applied = self.applied(group).await?;
        Ok(self.age_ms(group, applied))
    }

    /// The last entry that the copy of a group has taken.
    ///
    /// # Errors
    /// When there is no copy here.
    pub(crate) async fn applied(&self, group: GroupId) -> Result<u64, RequestFailure> {
        let look = self.groups.look(group, |local| local.standing.view.applied);
        look.await?.ok_or_else(no_copy)
    }

    /// The copy of a group.
    pub(crate) const fn at(&self, group: GroupId) -> AtCopy<'_> {
        AtCopy::new(&self.groups, group)
    }

    fn age_ms(&self, group: GroupId, applied: u64) -> Option<u64> {
        let known = self.marks.known_at(group, applied)?;
        Some(clock::since_boot().micros_since(known).div_ceil(1000))
    }
}
