//! A small random number generator, so that a seed is a run on every machine.

/// splitmix64.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        let next = self.next();
        if limit == 0 { 0 } else { next % limit }
    }

    /// One of a list; none of an empty one.
    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(list.len() as u64)).ok()?;
        list.get(at)
    }

    /// Whether something happens that happens so often in a hundred times.
    pub const fn percent(&mut self, often: u64) -> bool {
        self.below(100) < often
    }
}
