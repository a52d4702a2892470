//! Ordered maps of few entries.

/// Up to so many entries there is room for no more than there are.
const EXACT_MAX: usize = 8;

/// An ordered map that takes the room of what is in it. What is kept of a gang by node or by task has one
/// entry or two as a rule, where a `BTreeMap` makes room for eleven. With many entries it is as quick to
/// ask, and slow to fill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SmallMap<K, V = ()>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let place = self.place(key).ok()?;
        Some(&self.0[place].1)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key).ok()?;
        Some(&mut self.0[place].1)
    }

    /// Gives what was there before.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.make_room();
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    fn make_room(&mut self) {
        if self.0.len() < EXACT_MAX {
            self.0.reserve_exact(1);
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.place(key).ok()?;
        Some(self.0.remove(place).1)
    }

    /// Takes everything out, and gives the room back.
    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
        if self.0.is_empty() {
            self.clear();
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }
}

impl<K: Ord> SmallMap<K> {
    /// Puts it there; whether it was not.
    pub(crate) fn add(&mut self, key: K) -> bool {
        self.insert(key, ()).is_none()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SmallMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut few = Self::default();
        for (key, value) in entries {
            few.insert(key, value);
        }
        few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_an_ordered_map_of_the_size_of_what_is_in_it() {
        let mut few: SmallMap<u32, &str> = [(3, "c"), (1, "a"), (2, "?"), (2, "b")]
            .into_iter()
            .collect();
        assert_eq!(few.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(few.values().copied().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(few.0.capacity(), 3, "no more room than it takes");
        assert_eq!(few.insert(2, "B"), Some("b"));
        assert_eq!(few.insert(0, "x"), None);
        assert_eq!((few.get(&1), few.get(&9)), (Some(&"a"), None));
        assert_eq!((few.remove(&0), few.remove(&0)), (Some("x"), None));
        for (_, value) in few.iter_mut() {
            *value = "y";
        }
        few.retain(|key, value| *key > 2 && *value == "y");
        assert!(few.contains(&3) && !few.contains(&1) && !few.is_empty());
        few.retain(|_, _| false);
        assert_eq!((few.is_empty(), few.0.capacity()), (true, 0));
    }

    #[test]
    fn a_set_says_what_is_new() {
        let mut few: SmallMap<u32> = SmallMap::default();
        assert_eq!([few.add(1), few.add(1), few.add(0)], [true, false, true]);
    }
}
