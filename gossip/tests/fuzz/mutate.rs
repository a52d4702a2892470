//! Inputs: the seeds as they are, then changed ones, and now and then plain noise.

use super::FuzzTarget;

/// Longest input that changes may make.
const INPUT_BYTES_MAX: usize = 300 << 10;

/// Makes inputs for one target, the same ones for the same seed.
pub(crate) struct Source<'a> {
    target: &'a FuzzTarget,
    random: Random,
    unchanged: usize,
    input: Vec<u8>,
}

impl<'a> Source<'a> {
    /// Starts with the target's seeds.
    pub(crate) fn new(target: &'a FuzzTarget, seed: u64) -> Self {
        Self {
            target,
            random: Random(seed),
            unchanged: 0,
            input: Vec::new(),
        }
    }

    /// The next input.
    pub(crate) fn input(&mut self) -> &[u8] {
        match self.target.seeds.get(self.unchanged) {
            Some(seed) => {
                self.unchanged += 1;
                self.input.clone_from(seed);
            }
            None if self.random.below(16) == 0 => self.noise(),
            None => self.changed(),
        }
        &self.input
    }

    fn noise(&mut self) {
        self.input.clear();
        for _ in 0..self.random.below(200) {
            self.input.push(self.random.byte());
        }
        self.mend();
    }

    fn changed(&mut self) {
        let seeds = &self.target.seeds;
        self.input
            .clone_from(&seeds[self.random.below(seeds.len())]);
        for _ in 0..=self.random.below(6) {
            self.change();
        }
        self.input.truncate(INPUT_BYTES_MAX);
        self.mend();
    }

    /// Most inputs shall get past checksums.
    fn mend(&mut self) {
        if self.random.below(8) > 0 {
            (self.target.mend)(&mut self.input);
        }
    }

    fn change(&mut self) {
        let at = self.random.below(self.input.len() + 1);
        let end = (at + self.random.below(16)).min(self.input.len());
        match self.random.below(8) {
            0 => self.input.truncate(at),
            1 => drop(self.input.drain(at..end)),
            2 => self.input.extend_from_within(at..end),
            3 => {
                let noise = [self.random.byte(), self.random.byte(), self.random.byte()];
                self.insert(at, &noise);
            }
            4 => self.number(at),
            5 => self.splice(at),
            6 => self.at(at, |byte, random| *byte ^= 1 << random.below(8)),
            _ => self.at(at, |byte, random| *byte = random.byte()),
        }
    }

    fn at(&mut self, at: usize, change: impl FnOnce(&mut u8, &mut Random)) {
        if let Some(byte) = self.input.get_mut(at) {
            change(byte, &mut self.random);
        }
    }

    fn insert(&mut self, at: usize, bytes: &[u8]) {
        self.input.splice(at..at, bytes.iter().copied());
    }

    /// A length that is larger than most, in place of a byte.
    fn number(&mut self, at: usize) {
        const NUMBERS: [&[u8]; 6] = [
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x80, 0x80, 0x80, 0x80, 0x04],
            &[0xff, 0xff, 0x03],
            &[0x80, 0x80, 0x10],
            &[0xff, 0x01],
            &[0x80],
        ];
        let number = NUMBERS[self.random.below(NUMBERS.len())];
        let end = (at + 1).min(self.input.len());
        self.input.splice(at..end, number.iter().copied());
    }

    /// From here on another seed.
    fn splice(&mut self, at: usize) {
        let other = &self.target.seeds[self.random.below(self.target.seeds.len())];
        let from = self.random.below(other.len() + 1);
        self.input.truncate(at);
        self.input.extend_from_slice(&other[from..]);
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// Below `bound`, which is above 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }
}
