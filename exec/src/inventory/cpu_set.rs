//! Sets of CPUs, and of NUMA nodes, in the two forms in which the kernel writes them.

use std::collections::BTreeSet;
use std::fmt;

/// No kernel is built for more CPUs. A file that names a larger number is not one of these.
const NUMBERS_MAX: u32 = 1 << 16;

/// A set of the kernel's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CpuSet(pub(super) BTreeSet<u32>);

impl CpuSet {
    /// Reads `0-3,8-11`. An empty text is the empty set. None if it is not of this form.
    pub(super) fn from_list(text: &str) -> Option<Self> {
        let mut set = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if last >= NUMBERS_MAX {
                return None;
            }
            set.extend(first..=last);
        }
        Some(Self(set))
    }

    /// Reads `00ff00ff,00000000`: words of 32 bits, the highest first. None if it is not of
    /// this form.
    pub(super) fn from_map(text: &str) -> Option<Self> {
        let mut set = BTreeSet::new();
        for (word, digits) in (0_u32..).zip(text.rsplit(',')) {
            let bits = u32::from_str_radix(digits.trim(), 16).ok()?;
            if word.checked_mul(32)? >= NUMBERS_MAX {
                return None;
            }
            set.extend(
                (0..32)
                    .filter(|bit| (bits >> bit) & 1 == 1)
                    .map(|bit| word * 32 + bit),
            );
        }
        Some(Self(set))
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for CpuSet {
    /// The form `0-3,8-11`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        for (list, map) in [
            ("0-3,8", "0000010f"),
            ("", "0"),
            ("32-33,64", "1,00000003,00000000"),
            ("5", "0,00000000,00000020"),
        ] {
            let set = CpuSet::from_list(list).unwrap();
            assert_eq!(set, CpuSet::from_map(map).unwrap(), "{list}");
            assert_eq!(set.to_string(), list);
        }
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for list in ["a", "1-", "3,x", "0-4294967295", "4294967296"] {
            assert_eq!(CpuSet::from_list(list), None, "{list}");
        }
        let long = format!("1{}", ",0".repeat(3_000));
        for map in ["", "0x1", "123456789", &long] {
            assert_eq!(CpuSet::from_map(map), None, "{map}");
        }
    }
}
