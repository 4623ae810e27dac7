//! The one source of chance in a simulation: SplitMix64, seeded.
//!
//! Written here so that a seed means the same run for ever, whatever a library does. Rates are per mille.

/// A stream of numbers that follows from its seed.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut chance = Self(seed ^ 0x5DEE_CE66_D1CE_4E5B);
        chance.draw();
        chance
    }

    /// A stream of its own for one thing: what happens to others does not change it.
    #[must_use]
    pub fn of(seed: u64, parts: &[u64]) -> Self {
        let mut mixed = Self::new(seed);
        for part in parts {
            mixed.0 ^= part.wrapping_mul(0xD6E8_FEB8_6659_FD93);
            mixed.draw();
        }
        mixed
    }

    /// Draws the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high.saturating_sub(low) + 1)
    }

    /// True in so many of a thousand cases.
    pub fn likely(&mut self, per_mille: u64) -> bool {
        self.draw() % 1000 < per_mille
    }

    /// One of the things; there must be one.
    pub fn pick<T: Clone>(&mut self, things: &[T]) -> T {
        let at = self.between(0, things.len() as u64 - 1) as usize;
        things[at].clone()
    }

    /// Milliseconds until something that happens once in `mean_ms` on average: even between half and one and a half.
    pub fn around(&mut self, mean_ms: u64) -> u64 {
        self.between(mean_ms / 2, mean_ms + mean_ms / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64 of state 0 gives 0xE220A8397B1DCDAF first (Vigna's reference); a changed generator would change every seed.
    #[test]
    fn the_generator_is_splitmix64() {
        assert_eq!(Chance(0).draw(), 0xE220_A839_7B1D_CDAF);
    }

    /// Bounds are included, and a range of one number is that number.
    #[test]
    fn ranges_include_their_ends() {
        let mut chance = Chance::new(1);
        let seen: std::collections::BTreeSet<u64> =
            (0..200).map(|_| chance.between(3, 5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(chance.between(7, 7), 7);
    }
}
