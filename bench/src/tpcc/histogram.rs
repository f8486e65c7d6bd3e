//! Latencies: counts of nanoseconds in buckets. A bucket is at most a 64th of its values wide, so a percentile is right
//! to under two percent. Recording is one addition, and the histograms of several clients can be added.

use std::time::Duration;

/// The number of buckets for each power of two.
const PER_POWER: usize = 64;
const POWER_BITS: u32 = PER_POWER.trailing_zeros();

/// Counts of durations.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Histogram {
    /// Makes an empty histogram.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; (65 - POWER_BITS as usize) * PER_POWER], total: 0, longest: 0 }
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanos);
    }

    /// Adds all counts of `other`.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The duration that a share of all durations, from 0 to 1, does not exceed. Zero for an empty histogram.
    pub fn percentile(&self, share: f64) -> Duration {
        // We look for the first bucket up to which enough durations were counted.
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(highest(at).min(self.longest));
            }
        }
        Duration::ZERO
    }

    /// The longest duration.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

/// Returns the bucket of a value. Values below `PER_POWER` have a bucket each; after that each power of two has
/// `PER_POWER` buckets.
fn bucket(nanos: u64) -> usize {
    // We drop low bits until the rest is below 2 * PER_POWER. A larger value loses more bits, and each dropped
    // bit moves it up by one group of buckets.
    let power = (u64::BITS - nanos.leading_zeros()).saturating_sub(POWER_BITS + 1);
    power as usize * PER_POWER + (nanos >> power) as usize
}

/// Returns the highest value of a bucket.
fn highest(bucket: usize) -> u64 {
    let power = (bucket / PER_POWER).saturating_sub(1);
    let lowest = ((bucket - power * PER_POWER) as u64) << power;
    lowest + ((1 << power) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        assert!(bucket(u64::MAX) < Histogram::new().counts.len());
        for nanos in (0..200).chain((8..64).map(|power| (1 << power) + 12_345 % (1 << power))) {
            let high = highest(bucket(nanos));
            assert!(high >= nanos && high - nanos <= nanos / PER_POWER as u64, "{nanos} {high}");
            assert!(high == u64::MAX || bucket(high + 1) == bucket(nanos) + 1, "{nanos}");
        }
    }

    #[test]
    fn percentiles_of_two_histograms_together() {
        let (mut low, mut high) = (Histogram::new(), Histogram::new());
        (1..=900).for_each(|_| low.record(Duration::from_micros(10)));
        (1..=100).for_each(|_| high.record(Duration::from_millis(5)));
        low.add(&high);
        let near = |found: Duration, wanted: f64| (found.as_secs_f64() / wanted - 1.0).abs() < 0.02;
        assert!(low.count() == 1_000 && near(low.percentile(0.5), 1e-5) && near(low.percentile(0.9), 1e-5));
        assert!(near(low.percentile(0.99), 5e-3) && low.longest() == Duration::from_millis(5));
        assert_eq!(Histogram::new().percentile(0.5), Duration::ZERO);
    }
}
