//! Lists of things, one for each member.

use crate::member::MemberId;

/// Things of members, in the order of the members, and where those of each begin: looked into for
/// every member whenever the view is put together.
pub(super) struct ByMember<T> {
    things: Vec<T>,
    /// By member, and one more: the end of the last list.
    starts: Vec<usize>,
}

impl<T: Copy> ByMember<T> {
    /// Sorts by member. What belongs to one member keeps its order.
    pub(super) fn new(unsorted: &[T], member: impl Fn(&T) -> MemberId) -> Self {
        let index = |thing| member(thing).index();
        let members = unsorted.iter().map(index).max().map_or(0, |last| last + 1);
        // Each list's length, then its end, which goes down to its start as it is filled.
        let mut starts = vec![0; members + 1];
        unsorted.iter().for_each(|thing| starts[index(thing)] += 1);
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        let mut things = unsorted.to_vec();
        for thing in unsorted.iter().rev() {
            let start = &mut starts[index(thing)];
            *start -= 1;
            things[*start] = *thing;
        }
        Self { things, starts }
    }

    /// What belongs to this member.
    pub(super) fn of(&self, member: MemberId) -> &[T] {
        let ends = self.starts.get(member.index()..member.index() + 2);
        ends.map_or(&[], |ends| &self.things[ends[0]..ends[1]])
    }

    /// Members that something belongs to, ascending, and what.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MemberId, &[T])> {
        let lists = (0..).map(MemberId).zip(self.starts.windows(2));
        let filled = lists.filter(|(_, ends)| ends[0] < ends[1]);
        filled.map(|(member, ends)| (member, &self.things[ends[0]..ends[1]]))
    }

    /// All things.
    pub(super) fn all(&self) -> &[T] {
        &self.things
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_with_its_member_in_order() {
        let things = [(3, 'a'), (1, 'b'), (3, 'c'), (0, 'd'), (3, 'e')];
        let sorted = ByMember::new(&things, |(member, _)| MemberId(*member));
        assert_eq!(sorted.of(MemberId(3)), [(3, 'a'), (3, 'c'), (3, 'e')]);
        assert_eq!(sorted.of(MemberId(0)), [(0, 'd')]);
        assert!(sorted.of(MemberId(2)).is_empty() && sorted.of(MemberId(4)).is_empty());
        let members: Vec<_> = sorted.iter().map(|(member, _)| member.0).collect();
        assert_eq!(members, [0, 1, 3]);
        assert_eq!(sorted.all().len(), 5);
        let none = ByMember::new(&[], |()| MemberId(0));
        assert!(none.of(MemberId(0)).is_empty() && none.iter().next().is_none());
    }
}
