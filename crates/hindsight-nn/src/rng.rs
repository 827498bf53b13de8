//! Named random generators: one per purpose, none global.
//!
//! Two generators of the same seed but of different names are independent streams of one ChaCha key, so a
//! method that draws anchors leaves the replay draws of the same seed untouched. That is why HAL with
//! lambda = 0 is ER-Ring bit for bit.

use std::{convert::Infallible, sync::OnceLock};

use rand::{Rng as _, RngExt, SeedableRng, TryRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// A ChaCha generator that belongs to one purpose of one seed. Implements [`rand::Rng`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// The generator called `name` of `seed`.
    pub fn named(seed: u64, name: &str) -> Rng {
        // FNV-1a: a fixed function of the name, unlike the standard library's hashes.
        let stream = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Rng(rng)
    }

    /// How many 32-bit words have been drawn.
    pub fn position(&self) -> u128 {
        self.0.get_word_pos()
    }

    /// Goes to where so many words have been drawn.
    pub fn set_position(&mut self, position: u128) {
        self.0.set_word_pos(position);
    }

    /// Uniform in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Normal with standard deviation `std`, drawn again while beyond two standard deviations.
    pub fn truncated_normal(&mut self, std: f64) -> f64 {
        loop {
            let z = self.normal();
            if z.abs() <= 2.0 {
                return z * std;
            }
        }
    }

    /// Fills `out` with standard normals of 65,536 equally likely pairs: each is the sum of two of 256
    /// equally likely values of variance 1/2.
    ///
    /// Twenty times as fast as as many calls of [`Rng::normal`]: variational methods draw a value per weight
    /// and step, and that would otherwise be most of their time. The table of 256 values stays in the L1
    /// cache, which one of all 65,536 quantiles does not.
    pub fn fill_normal(&mut self, out: &mut [f32]) {
        static QUANTILES: OnceLock<[f32; 256]> = OnceLock::new();
        let quantiles = QUANTILES.get_or_init(half_normal_quantiles);
        let mut bytes = [0; 1024];
        for chunk in out.chunks_mut(bytes.len() / 2) {
            let bytes = &mut bytes[..2 * chunk.len()];
            self.0.fill_bytes(bytes);
            for (x, pair) in chunk.iter_mut().zip(bytes.chunks_exact(2)) {
                *x = quantiles[usize::from(pair[0])] + quantiles[usize::from(pair[1])];
            }
        }
    }

    /// A key for [`sample_gaussian`](crate::params::sample_gaussian).
    pub fn noise_key(&mut self) -> [u32; 2] {
        [self.0.next_u32(), self.0.next_u32()]
    }

    /// Uniform in `0..n`.
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n as u64) as usize
    }

    /// Brings `items` into a uniformly random order.
    pub fn shuffle<I>(&mut self, items: &mut [I]) {
        self.shuffle_front(items, items.len());
    }

    /// Makes the first `count` items a uniform draw without replacement, in random order.
    pub fn shuffle_front<I>(&mut self, items: &mut [I], count: usize) {
        for i in 0..count.min(items.len().saturating_sub(1)) {
            let j = i + self.below(items.len() - i);
            items.swap(i, j);
        }
    }
}

/// The values of the normal distribution at the middles of 256 equally likely intervals, scaled to variance
/// 1/2.
fn half_normal_quantiles() -> [f32; 256] {
    // The tail integral is summed from far outside inwards; a quantile is where it reaches its share. Only
    // the upper half is needed.
    const STEP: f64 = 1.0 / 4096.0;
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (mut x, mut tail, mut upper) = (8.0, 0.0, [0.0; 128]);
    for (i, quantile) in upper.iter_mut().enumerate() {
        let target = (i as f64 + 0.5) / 256.0;
        while tail < target {
            tail += STEP * density(x - 0.5 * STEP);
            x -= STEP;
        }
        *quantile = x + (tail - target) / density(x);
    }
    let variance = upper.iter().map(|x| x * x).sum::<f64>() / 128.0;
    let scale = (0.5 / variance).sqrt();
    std::array::from_fn(
        |i| if i < 128 { -(upper[i] * scale) as f32 } else { (upper[255 - i] * scale) as f32 },
    )
}

impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(mut rng: Rng) -> Vec<f64> {
        (0..8).map(|_| rng.uniform()).collect()
    }

    #[test]
    fn a_generator_is_its_seed_and_its_name() {
        assert_eq!(draws(Rng::named(1, "replay")), draws(Rng::named(1, "replay")));
        assert_ne!(draws(Rng::named(1, "replay")), draws(Rng::named(1, "anchors")));
        assert_ne!(draws(Rng::named(1, "replay")), draws(Rng::named(2, "replay")));
    }

    #[test]
    fn a_generator_goes_on_from_its_position() {
        let mut rng = Rng::named(7, "replay");
        for drawn in 0..200 {
            let mut again = Rng::named(7, "replay");
            again.set_position(rng.position());
            assert_eq!(draws(again), draws(rng.clone()), "after {drawn} draws");
            match drawn % 3 {
                0 => drop(rng.below(5)),
                1 => drop(rng.normal()),
                _ => rng.fill_normal(&mut [0.0; 7]),
            }
        }
    }

    #[test]
    fn truncated_normals_stay_within_two_deviations_and_spread_as_they_should() {
        let mut rng = Rng::named(3, "init");
        let draws: Vec<f64> = (0..20_000).map(|_| rng.truncated_normal(0.1)).collect();
        assert!(draws.iter().all(|x| x.abs() <= 0.2));
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        // The variance of a standard normal cut at two deviations is 0.7737.
        assert!((variance - 0.007737).abs() < 0.0003, "{variance}");
    }

    #[test]
    fn quick_normals_have_the_moments_and_quantiles_of_normals() {
        let mut draws = vec![0.0; 200_000];
        Rng::named(4, "weights").fill_normal(&mut draws);
        let mean =
            |power: i32| draws.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / draws.len() as f64;
        assert!(mean(1).abs() < 0.01 && (mean(2) - 1.0).abs() < 0.02, "{} {}", mean(1), mean(2));
        assert!(mean(3).abs() < 0.03 && (mean(4) - 3.0).abs() < 0.1, "{} {}", mean(3), mean(4));
        // Shares below Phi^-1 of some probabilities.
        for (share, quantile) in [(0.841_345, 1.0), (0.977_25, 2.0), (0.998_65, 3.0)] {
            let below =
                draws.iter().filter(|&&x| f64::from(x) < quantile).count() as f64 / draws.len() as f64;
            assert!((below - share).abs() < 0.003 * (1.0 - share).sqrt() + 0.0003, "{below} {share}");
        }
        let quantiles = half_normal_quantiles();
        assert!(quantiles.is_sorted() && quantiles.iter().zip(quantiles.iter().rev()).all(|(a, b)| *a == -b));
        assert!((4.0..4.2).contains(&(2.0 * quantiles[255])), "the largest value");
    }

    #[test]
    fn the_front_of_a_shuffle_is_uniform_and_distinct() {
        let mut rng = Rng::named(5, "replay");
        let mut seen = [0; 6];
        for _ in 0..6000 {
            let mut items = [0, 1, 2, 3, 4, 5];
            rng.shuffle_front(&mut items, 2);
            assert_ne!(items[0], items[1]);
            items[..2].iter().for_each(|&i| seen[i] += 1);
        }
        assert!(seen.iter().all(|&n| (1800..2200).contains(&n)), "{seen:?}");
    }
}
