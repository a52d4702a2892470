//! Randomness from a seed: the same numbers on every machine.

use std::convert::Infallible;

use rand_foca::rand_core::TryRng;

/// A stream of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream `stream` of a seed; streams of one seed have nothing to do with each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.next();
        Self(random.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// An index below `bound`.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }

    /// Whether something of this chance happens.
    pub(crate) fn happens(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.next() >> 32 < chance.0
    }

    /// How long until the next event of a process that has `per_second` of them, in µs.
    pub(crate) fn gap(&mut self, per_second: f64) -> u64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        micros(-(1.0 - uniform).ln() / per_second * 1e6)
    }

    /// `count` different indices below `bound`, in random order.
    pub(crate) fn sample(&mut self, bound: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        for at in 0..count.min(bound) {
            let other = at + self.index(bound - at);
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }

    /// Random bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let words = length.div_ceil(8);
        let mut bytes: Vec<u8> = (0..words).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(length);
        bytes
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn micros(value: f64) -> u64 {
    value as u64
}

/// How likely something is, in 2^-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const NEVER: Self = Self(0);

    /// So many percent of the time; 100 and more: always.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn percent(percent: f64) -> Self {
        Self((percent.clamp(0.0, 100.0) / 100.0 * 4_294_967_296.0) as u64)
    }
}

/// One-way delays: lognormal, drawn from a table of quantiles.
#[derive(Clone, Debug)]
pub(crate) struct Delays(Vec<u32>);

const QUANTILES: u32 = 4_096;

impl Delays {
    /// With this median in µs and this sigma of the logarithm.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn lognormal(median_us: f64, sigma: f64) -> Self {
        let quantile = |at: u32| (f64::from(at) + 0.5) / f64::from(QUANTILES);
        let delay = |at| median_us * (sigma * normal_quantile(quantile(at))).exp();
        Self((0..QUANTILES).map(|at| delay(at) as u32).collect())
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        u64::from(self.0[random.index(self.0.len())])
    }
}

/// The value below which a standard normal falls with chance `p`: by bisection over the
/// logistic-free error function series, exact enough for delays.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_below(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The chance that a standard normal is below `x` (Marsaglia's series).
fn normal_below(x: f64) -> f64 {
    let (mut sum, mut term, mut k) = (x, x, 1.0);
    while term.abs() > 1e-16 && k < 400.0 {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

impl TryRng for Random {
    type Error = Infallible;

    #[allow(clippy::cast_possible_truncation)]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
        into.copy_from_slice(&self.bytes(into.len()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_have_the_median_and_the_spread_asked_for() {
        let delays = Delays::lognormal(150.0, 0.6);
        let at = |index: usize| f64::from(delays.0[index]);
        let (median, above) = (at(2_048), at(3_446));
        assert!((median - 150.0).abs() < 1.0, "{median}");
        assert!((above / median - 1.82).abs() < 0.02, "{above}");
    }

    #[test]
    fn chances_are_kept() {
        let mut random = Random::new(1, 2);
        let fifth = Chance::percent(20.0);
        let times = (0..10_000).filter(|_| random.happens(fifth)).count();
        assert!((1_800..2_200).contains(&times), "{times}");
        assert!(!random.happens(Chance::NEVER));
        assert!((0..100).all(|_| random.happens(Chance::percent(100.0))));
    }

    #[test]
    fn samples_do_not_repeat() {
        let mut sample = Random::new(3, 0).sample(20, 10);
        sample.sort_unstable();
        sample.dedup();
        assert_eq!(sample.len(), 10);
    }
}
