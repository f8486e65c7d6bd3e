//! Random numbers and texts according to clauses 2.1.6, 4.3.2 and 4.3.3.

/// A stream of random numbers (SplitMix64, Steele, Lea and Flood 2014).
#[derive(Debug)]
pub struct Random(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The characters of random alphanumeric strings.
pub const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// A last name consists of three of these syllables.
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// The word in the data of a tenth of all items and stock.
pub const ORIGINAL: &str = "ORIGINAL";

impl Random {
    /// Makes stream number `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random(mix(mix(seed) ^ stream.wrapping_mul(GOLDEN)))
    }

    /// Draws 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Draws a number uniformly from `low` to `high`, both included.
    #[inline]
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let count = high.abs_diff(low) + 1;
        low + ((u128::from(self.bits()) * u128::from(count)) >> 64) as i64
    }

    /// Returns true in `percent` percent of the calls.
    pub fn percent(&mut self, percent: i64) -> bool {
        self.between(1, 100) <= percent
    }

    /// NURand(A, x, y): draws a number from `low` to `high`. Some numbers are much more frequent than others;
    /// `constant` decides which.
    pub fn skewed(&mut self, a: i64, constant: i64, low: i64, high: i64) -> i64 {
        ((self.between(0, a) | self.between(low, high)) + constant) % (high - low + 1) + low
    }

    /// Appends a random a-string of `low` to `high` characters.
    pub fn letters(&mut self, out: &mut String, low: i64, high: i64) {
        self.characters(out, low, high, ALPHANUMERIC);
    }

    /// Appends a random n-string of `low` to `high` digits.
    pub fn digits(&mut self, out: &mut String, low: i64, high: i64) {
        self.characters(out, low, high, &ALPHANUMERIC[..10]);
    }

    fn characters(&mut self, out: &mut String, low: i64, high: i64, of: &[u8]) {
        for _ in 0..self.between(low, high) {
            out.push(char::from(of[self.between(0, of.len() as i64 - 1) as usize]));
        }
    }

    /// Appends a zip code: four digits followed by 11111.
    pub fn zip(&mut self, out: &mut String) {
        self.digits(out, 4, 4);
        out.push_str("11111");
    }

    /// Appends data of 26 to 50 characters. A tenth of them contain ORIGINAL at a random place.
    pub fn data(&mut self, out: &mut String) {
        let start = out.len();
        self.letters(out, 26, 50);
        if self.percent(10) {
            // The data has at least 26 characters, so ORIGINAL always fits.
            let at = start + self.between(0, (out.len() - start - ORIGINAL.len()) as i64) as usize;
            out.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
    }

    /// Shuffles the values.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        // This is the Fisher-Yates shuffle: each value is exchanged with one at or before its place.
        for last in (1..values.len()).rev() {
            values.swap(last, self.between(0, last as i64) as usize);
        }
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Appends the last name with a number from 0 to 999: one syllable for each digit.
pub fn last_name(out: &mut String, number: i64) {
    for digit in [number / 100, number / 10 % 10, number % 10] {
        out.push_str(SYLLABLES[digit as usize]);
    }
}

/// The constants of NURand for last names, customers and items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// From 0 to 255.
    pub last_name: i64,
    /// From 0 to 1023.
    pub customer: i64,
    /// From 0 to 8191.
    pub item: i64,
}

impl Constants {
    /// The constants of the load. They are always the same, because the constants of a run must keep a distance from
    /// them.
    pub const LOAD: Constants = Constants { last_name: 100, customer: 259, item: 7_911 };

    /// Draws the constants of a run. The one for last names must differ from the load's by 65 to 119, but not by 96 or
    /// 112 (clause 2.1.6.1).
    pub fn of_run(random: &mut Random) -> Constants {
        let distance = loop {
            match random.between(65, 119) {
                96 | 112 => {}
                distance => break distance,
            }
        };
        let last_name = Constants::LOAD.last_name + distance;
        Constants { last_name, customer: random.between(0, 1_023), item: random.between(0, 8_191) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_reach_both_ends_and_no_further() {
        let mut random = Random::new(1, 1);
        let mut seen = [0; 7];
        (0..1_000).for_each(|_| seen[random.between(0, 6) as usize] += 1);
        assert!(seen.iter().all(|&times| times > 100), "{seen:?}");
    }

    #[test]
    fn skewed_numbers_keep_their_range_and_are_skewed() {
        let mut random = Random::new(1, 2);
        for (a, low, high) in [(255, 0, 999), (1_023, 1, 3_000), (8_191, 1, 100_000), (8_191, 1, 200)] {
            let numbers: Vec<i64> = (0..20_000).map(|_| random.skewed(a, 77, low, high)).collect();
            assert!(numbers.iter().all(|number| (low..=high).contains(number)), "{a} {low} {high}");
        }
        // The function ORs two random numbers, so three quarters of the ten bits are set. In uniform numbers it is
        // half.
        let bits: u32 = (0..1_000).map(|_| (random.skewed(1_023, 0, 0, 1_023) as u64).count_ones()).sum();
        assert!((7_200..7_800).contains(&bits), "{bits}");
    }

    #[test]
    fn last_names_are_three_syllables() {
        let name = |number| {
            let mut out = String::new();
            last_name(&mut out, number);
            out
        };
        assert_eq!(name(0), "BARBARBAR");
        assert_eq!(name(371), "PRICALLYOUGHT");
        assert_eq!(name(999), "EINGEINGEING");
    }

    #[test]
    fn texts_have_their_lengths() {
        let (mut random, mut originals) = (Random::new(1, 3), 0);
        for _ in 0..2_000 {
            let mut text = String::new();
            random.data(&mut text);
            assert!((26..=50).contains(&text.len()));
            originals += i32::from(text.contains(ORIGINAL));
            text.clear();
            random.zip(&mut text);
            assert!(text.len() == 9 && text.ends_with("11111"));
        }
        assert!((140..260).contains(&originals), "{originals}");
    }

    #[test]
    fn constants_of_runs_keep_their_distance() {
        for seed in 0..1_000 {
            let run = Constants::of_run(&mut Random::new(seed, 0));
            let distance = run.last_name - Constants::LOAD.last_name;
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112);
            assert!((0..=255).contains(&run.last_name));
        }
    }
}
