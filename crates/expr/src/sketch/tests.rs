//! Sketches beside those of other libraries, beside exact counts, in any order, and damaged.
//!
//! Bytes that other libraries wrote come from version 5.2 of DataSketches for C++.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, StringViewArray};
use datasketches::common::SearchCriteria;
use datasketches::kll::KllFloat;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rowmill_base::ErrorKind;
use sha2::{Digest as _, Sha256};

use super::*;

/// All ways to make sketches, each with a size.
const FUNCTIONS: [(&SketchFunction, i64); 9] = [
    (&HLL_SKETCH, 12),
    (&HLL_UNION, 0),
    (&THETA_SKETCH, 12),
    (&THETA_UNION, 12),
    (&THETA_INTERSECTION, 0),
    (&KLL_SKETCH, 200),
    (&KLL_MERGE, 0),
    (&FREQUENT_ITEMS, 10),
    (&FREQUENT_ITEMS_MERGE, 0),
];

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn floats(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(values))
}

/// The sketch of values, which are taken one after the other.
fn sketch(function: &SketchFunction, size: i64, values: &ArrayRef) -> Vec<u8> {
    let mut sketch = function.start(size).expect("a size in range");
    let items = function.items.expect("an aggregate of values")(values).expect("values of a type that is taken");
    for place in 0..items.len() {
        function.take(&mut *sketch, items.value(place), 1).expect("an item");
    }
    sketch.to_bytes().expect("a sketch")
}

/// The sketch of other sketches.
fn merged(function: &SketchFunction, size: i64, sketches: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut sketch = function.start(size)?;
    sketches.iter().try_for_each(|other| sketch.merge(other))?;
    sketch.to_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().map(|digit| (digit as char).to_digit(16).expect("a digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))[..32].to_owned()
}

#[test]
fn few_values_give_the_bytes_of_other_libraries() {
    let hll = |values| hex(&sketch(&HLL_SKETCH, 12, &values));
    assert_eq!(hll(ints([1, 2, -7])), "0201070c03080308f16b95052bf2fb06862ff90d");
    let fruits = ["apple", "banana", "a rather long text, longer than sixteen bytes"];
    assert_eq!(hll(texts(fruits)), "0201070c030803084b51fc068414b608be4fd70a");
    assert_eq!(hll(floats([1.5, -0.0])), "0201070c03080208cbd7c20422822a14");
    assert_eq!(hll(ints([])), "0201070c030c0008");
    let theta = |values| hex(&sketch(&THETA_SKETCH, 12, &values));
    assert_eq!(
        theta(ints([1, 2, -7])),
        "02030300001acc93030000000000000015f97dcbbd86a105c397fc1281709d1ef8b5cad2a1d0a125"
    );
    assert_eq!(theta(texts(["apple", "banana"])), "02030300001acc930200000000000000dfa76b755f6e3d67420a5b1693f0aa79");
    assert_eq!(theta(texts(["apple"])), "01030300001acc93420a5b1693f0aa79");
    assert_eq!(theta(texts([""; 0])), "01030300001e0000", "as Java writes it");
    let kll = hex(&sketch(&KLL_SKETCH, 200, &floats([3.0, 1.0, 2.5])));
    let (head, values) = kll.split_at(48);
    assert_eq!(head, "05010f00c80008000300000000000000c8000100c5000000");
    assert_eq!(values, "000000000000f03f00000000000008400000000000000440000000000000f03f0000000000000840");
}

#[test]
fn many_values_give_the_registers_and_hashes_of_other_libraries() {
    let halves = |lg_k| [0..5_000, 4_000..9_000].map(|range| sketch(&HLL_SKETCH, lg_k, &ints(range)));
    for (lg_k, registers, estimate) in [
        (4, "0840b62d17e3e8c21fdd809ba506d9f7", 9196.067087988347),
        (10, "f985bc801aa069b21df48eb24c7064dd", 9668.311195998554),
        (12, "b603744cd9e626b497d8d650cb6f8520", 8958.377885149483),
    ] {
        let union = merged(&HLL_UNION, 0, &halves(lg_k)).expect("sketches");
        assert_eq!(digest(&union[40..]), registers, "lg_k {lg_k}");
        let found = decode_hll(&union).expect("a sketch").estimate();
        assert!((found - estimate).abs() < 1e-6, "lg_k {lg_k}: {found}");
        assert_eq!(union, sketch(&HLL_SKETCH, lg_k, &ints(0..9_000)), "lg_k {lg_k}");
    }
    let theta = sketch(&THETA_SKETCH, 5, &ints(0..1_000));
    assert_eq!(digest(&theta), "406e904ba381ab604757211812aaa89c");
    assert!((decode_theta(&theta).expect("a sketch").estimate() - 841.7736718846904).abs() < 1e-6);
}

#[test]
fn sketches_of_other_libraries_are_read() {
    for image in [
        "0a0107040008020215eb1dc787f15440000000000000fb3f000000000000000003000000000000000251214121031025",
        "0a0107040000020215eb1dc787f15440000000000000fb3f000000000000000003000000000000000251214121031025000000000000\
         00000000000000000000",
        "0a0107040008000615eb1dc787f15440000000000000fb3f0000000000000000000000000000000084301c033118035108c2701000",
        "0a0107040000000a15eb1dc787f15440000000000000fb3f0000000000000000000000000000000004020307030403060304050202\
         030704",
    ] {
        let image = bytes(&image.replace([' ', '\n'], ""));
        let found = decode_hll(&image).expect("a sketch").estimate();
        assert!((found - 83.77391221925457).abs() < 1e-9, "{found}");
        let more = sketch(&HLL_SKETCH, 4, &ints(50..100));
        let union = merged(&HLL_UNION, 0, &[image, more]).expect("sketches");
        assert_eq!(hex(&union[40..]), "04020307030403060304050202030704");
    }
    let set = bytes("0301070c08080001010000000222b404");
    assert!(decode_hll(&set).is_ok());
    let kll = "05010f00c80008000300000000000000c8000100c5000000000000000000f03f00000000000008400000000000000440000000\
               000000f03f0000000000000840";
    let kll = decode_kll(&bytes(&kll.replace(' ', ""))).expect("a sketch");
    let of = |rank| kll.quantile(rank, SearchCriteria::Inclusive).expect("a rank").map(KllFloat::into_inner);
    assert_eq!((kll.n(), of(0.5), of(1.0)), (3, Some(2.5), Some(3.0)));
    let frequent = "04010a05030000000300000000000000060000000000000000000000000000000200000000000000010000000000000003\
                    00000000000000060000006261726c6579030000006f617403000000727965";
    let frequent = frequent_items_of(&bytes(&frequent.replace(' ', ""))).expect("a sketch");
    let counts: Vec<(&str, i64)> = frequent.iter().map(|item| (item.text.as_str(), item.estimate)).collect();
    assert_eq!(counts, [("rye", 3), ("barley", 2), ("oat", 1)]);
}

/// Values in random pieces, some of them in several pieces.
fn pieces(random: &mut SmallRng, count: i64) -> Vec<Vec<i64>> {
    let mut values: Vec<i64> = (0..count).collect();
    values.shuffle(random);
    let repeated: Vec<i64> = values.iter().copied().filter(|_| random.random_ratio(1, 4)).collect();
    values.extend(repeated);
    let pieces = random.random_range(1..6);
    values.chunks(values.len() / pieces + 1).map(<[i64]>::to_vec).collect()
}

#[test]
fn sketches_of_distinct_values_depend_on_the_values_alone() {
    let mut random = SmallRng::seed_from_u64(7);
    for (function, sizes) in [(&HLL_SKETCH, [4, 8, 12, 21]), (&THETA_SKETCH, [5, 8, 12, 20])] {
        for size in sizes {
            for count in [1, 7, 8, 31, 33, 100, 384, 385, 2_000, 20_000] {
                let whole = sketch(function, size, &ints(0..count));
                for _ in 0..3 {
                    let pieces = pieces(&mut random, count);
                    let parts: Vec<Vec<u8>> =
                        pieces.into_iter().map(|piece| sketch(function, size, &ints(piece))).collect();
                    let found = merged(function, size, &parts).expect("sketches");
                    assert!(found == whole, "{} of {count} values with size {size}", function.name);
                }
            }
        }
    }
}

#[test]
fn estimates_are_within_four_standard_errors() {
    let mut random = SmallRng::seed_from_u64(8);
    for count in [0, 10, 1_000, 100_000, 300_000] {
        let first: i64 = random.random_range(0..1 << 40);
        let values = ints(first..first + count);
        let hll = decode_hll(&sketch(&HLL_SKETCH, 12, &values)).expect("a sketch").estimate();
        let theta = decode_theta(&sketch(&THETA_SKETCH, 12, &values)).expect("a sketch").estimate();
        let error_max = 4.0 * 1.04 / f64::from(1 << 12).sqrt() * count as f64;
        assert!((hll - count as f64).abs() <= error_max.min(count as f64), "{hll} of {count}");
        assert!((theta - count as f64).abs() <= error_max.min(count as f64), "{theta} of {count}");
    }
}

#[test]
fn a_union_has_the_least_lg_k() {
    for (many, few) in [(10, 10), (10, 100_000), (100_000, 10), (100_000, 100_000)] {
        let large = sketch(&HLL_SKETCH, 14, &ints(0..many));
        let small = sketch(&HLL_SKETCH, 10, &ints(0..few));
        let union = merged(&HLL_UNION, 0, &[large.clone(), small.clone()]).expect("sketches");
        assert_eq!(union, merged(&HLL_UNION, 0, &[small, large]).expect("sketches"));
        assert_eq!(union, sketch(&HLL_SKETCH, 10, &ints(0..many.max(few))), "{many} and {few} values");
    }
}

#[test]
fn intersections_count_common_values() {
    let [left, right] = [0..20_000, 15_000..40_000].map(|range| sketch(&THETA_SKETCH, 12, &ints(range)));
    let both = merged(&THETA_INTERSECTION, 0, &[left, right]).expect("sketches");
    let estimate = decode_theta(&both).expect("a sketch").estimate();
    assert!((estimate - 5_000.0).abs() < 1_000.0, "{estimate}");
}

#[test]
fn merged_quantiles_are_within_the_error_of_a_sketch() {
    let mut random = SmallRng::seed_from_u64(9);
    for k in [50, 200] {
        let parts: Vec<Vec<u8>> = pieces(&mut random, 50_000)
            .into_iter()
            .map(|piece| sketch(&KLL_SKETCH, k, &floats(piece.into_iter().map(|value| value as f64))))
            .collect();
        let found = decode_kll(&merged(&KLL_MERGE, 0, &parts).expect("sketches")).expect("a sketch");
        let error_max = 3.0 * found.normalized_rank_error();
        for rank in [0.01, 0.1, 0.5, 0.9, 0.99] {
            let value = KllFloat::<f64>::new(rank * 50_000.0).expect("a number");
            let found = found.rank(&value, SearchCriteria::Inclusive).expect("values");
            // A quarter of the values are there twice, chosen at random.
            assert!((found - rank).abs() < error_max + 0.01, "k {k}: {found} instead of {rank}");
        }
    }
}

#[test]
fn merged_counts_are_between_their_bounds() {
    let mut random = SmallRng::seed_from_u64(10);
    for lg_size in [3, 6, 10] {
        let mut counts: HashMap<String, i64> = HashMap::new();
        let mut parts = Vec::new();
        for _ in 0..4 {
            let texts_of_part: Vec<String> = (0..20_000)
                .map(|_| format!("a text of number {}", (1.0 / (random.random::<f64>() + 1e-4)) as i64))
                .collect();
            texts_of_part.iter().for_each(|text| *counts.entry(text.clone()).or_default() += 1);
            parts.push(sketch(&FREQUENT_ITEMS, lg_size, &texts(texts_of_part)));
        }
        let merged = merged(&FREQUENT_ITEMS_MERGE, 0, &parts).expect("sketches");
        let items = frequent_items_of(&merged).expect("a sketch");
        assert!(!items.is_empty() && items.is_sorted_by(|left, right| left.estimate >= right.estimate));
        for item in &items {
            let count = counts[&item.text];
            assert!(item.lower_bound <= count && count <= item.upper_bound, "{item:?}: {count}");
        }
        let error = items[0].upper_bound - items[0].lower_bound;
        let found: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
        let missing = counts.iter().find(|(text, count)| **count > error && !found.contains(&text.as_str()));
        assert_eq!(missing, None, "size {lg_size}");
    }
}

#[test]
fn values_without_a_hash_or_a_rank_are_dropped() {
    let estimate = |values| decode_hll(&sketch(&HLL_SKETCH, 12, &values)).expect("a sketch").estimate().round();
    assert_eq!(estimate(texts(["", "a", ""])), 1.0);
    assert_eq!(estimate(texts([""])), 0.0);
    let kll = decode_kll(&sketch(&KLL_SKETCH, 200, &floats([f64::NAN, 1.0]))).expect("a sketch");
    assert_eq!(kll.n(), 1);
}

#[test]
fn weights_that_no_bigint_holds_are_refused() {
    let mut image = sketch(&FREQUENT_ITEMS, 10, &texts(["a"]));
    image[16..24].copy_from_slice(&(i64::MAX as u64).to_le_bytes());
    image[32..40].copy_from_slice(&(i64::MAX as u64).to_le_bytes());
    let error = merged(&FREQUENT_ITEMS_MERGE, 0, &[image.clone(), image.clone()]).expect_err("too much");
    assert_eq!(error.kind(), ErrorKind::NumericOutOfRange);
    image[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(frequent_items_of(&image).expect_err("too much").kind(), ErrorKind::NumericOutOfRange);
}

/// Sketches in all forms.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for count in [0, 1, 5, 20, 300, 3_000] {
        for (function, size) in [(&HLL_SKETCH, 4), (&HLL_SKETCH, 10), (&THETA_SKETCH, 5), (&THETA_SKETCH, 12)] {
            samples.push(sketch(function, size, &ints(0..count)));
        }
        samples.push(sketch(&KLL_SKETCH, 8, &floats((0..count).map(|value| value as f64))));
        let values = texts((0..count).map(|value| value.to_string()));
        samples.push(sketch(&FREQUENT_ITEMS, 6, &values));
    }
    for image in [
        "0a0107040008020215eb1dc787f15440000000000000fb3f000000000000000003000000000000000251214121031025",
        "0a0107040008000615eb1dc787f15440000000000000fb3f0000000000000000000000000000000084301c033118035108c2701000",
    ] {
        samples.push(bytes(image));
    }
    let theta = decode_theta(&sketch(&THETA_SKETCH, 5, &ints(0..3_000))).expect("a sketch");
    samples.push(theta.serialize_compressed());
    samples
}

/// Does everything with a sketch that functions and aggregates do.
fn use_sketch(sketch: &[u8], healthy: &[u8]) {
    for (function, size) in FUNCTIONS.iter().filter(|(function, _)| function.items.is_none()) {
        for parts in [[sketch, healthy], [healthy, sketch], [sketch, sketch]] {
            // The result of damaged sketches must be one that can be read again.
            if let Ok(union) = merged(function, *size, &parts.map(<[u8]>::to_vec)) {
                let again = merged(function, *size, &[union]);
                assert!(again.is_ok(), "{}: {:?} after {}", function.name, again.err(), hex(sketch));
            }
        }
    }
    let _ = decode_hll(sketch).map(|sketch| sketch.estimate());
    let _ = decode_theta(sketch).map(|sketch| sketch.estimate());
    if let Ok(sketch) = decode_kll(sketch) {
        let _ = sketch.quantile(0.5, SearchCriteria::Inclusive);
        let _ = sketch.rank(&KllFloat::<f64>::new(3.0).expect("a number"), SearchCriteria::Inclusive);
    }
    let _ = frequent_items_of(sketch);
}

#[test]
fn damaged_sketches_give_errors_and_never_panics() {
    let mut random = SmallRng::seed_from_u64(11);
    let long = std::env::var_os("ROWMILL_LONG").is_some();
    for healthy in samples() {
        use_sketch(&healthy, &healthy);
        for end in 0..healthy.len().min(64) {
            use_sketch(&healthy[..end], &healthy);
        }
        for _ in 0..if long { 20_000 } else { 200 } {
            let mut damaged = healthy.clone();
            for _ in 0..random.random_range(1..4) {
                // Most fields that matter are among the first bytes.
                let end = if random.random() { damaged.len().min(40) } else { damaged.len() };
                let at = random.random_range(0..end);
                damaged[at] = match random.random_range(0..4) {
                    0 => 0xff,
                    1 => 0,
                    2 => damaged[at] ^ 1 << random.random_range(0..8),
                    _ => random.random(),
                };
            }
            if random.random_ratio(1, 8) {
                damaged.truncate(random.random_range(0..=healthy.len()));
            }
            use_sketch(&damaged, &healthy);
        }
    }
}

#[test]
fn a_sketch_that_claims_a_large_table_gets_a_small_one() {
    let mut image = sketch(&FREQUENT_ITEMS, 10, &texts(["a"]));
    // Both sizes of the table are 2^30.
    (image[3], image[4]) = (30, 30);
    let mut state = FREQUENT_ITEMS_MERGE.start(0).expect("a size");
    state.merge(&image).expect("a sketch");
    assert!(state.memory_bytes() < 1 << 12, "{}", state.memory_bytes());
}
