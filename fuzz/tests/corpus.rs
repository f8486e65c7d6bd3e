//! Every seed of the corpus, and small random changes of each, on any toolchain. `ROWMILL_FUZZ_ROUNDS` sets how many
//! changes.

use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_fuzz::TARGETS;

const ROUNDS: usize = 200;

#[test]
fn every_target_survives_its_corpus_and_changes_of_it() {
    let rounds = std::env::var("ROWMILL_FUZZ_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut seeds: Vec<Vec<u8>> = std::fs::read_dir(folder)
            .expect("a folder for each target")
            .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a seed"))
            .collect();
        assert!(!seeds.is_empty(), "{name} has no seed");
        seeds.sort();
        let random = &mut SmallRng::seed_from_u64(7);
        for seed in &seeds {
            target(seed);
            for _ in 0..rounds {
                target(&changed(seed, &seeds, random));
            }
        }
    }
}

/// A seed with some bytes set, removed, repeated, or taken from another seed.
fn changed(seed: &[u8], seeds: &[Vec<u8>], random: &mut SmallRng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF, b'\'', b'(', b' '][random.random_range(0..8)],
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.random_range(1..16)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let other = &seeds[random.random_range(0..seeds.len())];
                let start = random.random_range(0..=other.len());
                let end = (start + random.random_range(0..24)).min(other.len());
                bytes.splice(at..at, other[start..end].iter().copied());
            }
        }
    }
    bytes
}
