//! Prints sizes and speeds of every layout: `cargo test --release -p rowmill-storage strings::speed -- --ignored
//! --nocapture`. Columns of an Arrow IPC file named by `ROWMILL_STRINGS` take the place of the samples.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, StringViewArray};

use super::*;

/// The fastest of a few runs.
fn fastest<T>(mut run: impl FnMut() -> T) -> Duration {
    let time = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed()
    };
    (0..9).map(time).min().unwrap()
}

fn columns() -> Vec<(String, ArrayRef)> {
    let Ok(path) = std::env::var("ROWMILL_STRINGS") else {
        let samples = [
            ("urls", samples::urls(VALUES_MAX)),
            ("titles", samples::titles(VALUES_MAX)),
            ("search phrases", samples::search_phrases(VALUES_MAX)),
            ("tokens", samples::tokens(VALUES_MAX)),
        ];
        let array = |strings| -> ArrayRef { std::sync::Arc::new(StringViewArray::from_iter_values(strings)) };
        return samples.map(|(name, strings): (&str, Vec<String>)| (name.to_string(), array(strings))).to_vec();
    };
    let file = std::fs::File::open(path).unwrap();
    let mut reader = arrow::ipc::reader::FileReader::try_new(file, None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let rows = batch.num_rows().min(VALUES_MAX);
    let named = |(field, column): (&std::sync::Arc<arrow::datatypes::Field>, &ArrayRef)| {
        (field.name().clone(), column.slice(0, rows))
    };
    batch.schema().fields().iter().zip(batch.columns()).map(named).collect()
}

#[test]
#[ignore = "a measurement"]
fn every_layout() {
    for (name, array) in columns() {
        let strings = ByteStrings::new(&array).unwrap();
        let raw: usize = (0..strings.len()).map(|row| strings.value(row).len()).sum();
        let build = fastest(|| Dictionary::build(&strings));
        let dictionary = Dictionary::build(&strings);
        let mut found = dictionary.values.clone();
        found.sort_by_key(|value| rapidhash::v3::rapidhash_v3(value));
        let shuffled = fastest(|| sort::order(&found));
        let values = &dictionary.values;
        let bytes = dictionary.value_bytes();
        println!(
            "{name}: {} rows of {raw} bytes, {} values of {bytes} bytes; dictionary {:.1} ms, sorting random order {:.1} ms",
            strings.len(),
            values.len(),
            build.as_secs_f64() * 1e3,
            shuffled.as_secs_f64() * 1e3,
        );
        let chosen = encode_list(values).unwrap();
        println!("  chosen: {:?}", StringList::open(&chosen, values.len()).unwrap().layout());
        for layout in ListLayout::ALL {
            let encode = fastest(|| encode_list_as(values, layout).unwrap());
            let stored = encode_list_as(values, layout).unwrap();
            let list = StringList::open(&stored, values.len()).unwrap();
            let binary = fastest(|| list.decode(StringKind::Binary).unwrap());
            let decode = fastest(|| list.decode(StringKind::Text).unwrap());
            let decoded = list.decode(StringKind::Text).unwrap();
            assert!(values.iter().enumerate().all(|(index, &value)| decoded.value(index) == value));
            let arrow = fastest(|| list.decode(StringKind::Text).unwrap().array().len()).saturating_sub(decode);
            let gather = fastest(|| decoded.views(&dictionary.codes).unwrap());
            let get = fastest(|| {
                let mut out = Vec::new();
                let numbers = (0..1000usize).map(|i| i * 7919 % values.len());
                numbers.for_each(|index| list.get(index, &mut out).unwrap());
                out
            });
            let find = fastest(|| {
                let numbers = (0..1000usize).map(|i| i * 7919 % values.len());
                numbers.map(|index| list.lower_bound(values[index]).unwrap()).sum::<usize>()
            });
            println!(
                "  {layout:?}: {} bytes ({:.2}x) | encode {:.1} ms | decode {:.2} ms, as text {:.2} ms ({:.0} MB/s) | to Arrow {:.2} ms | views of all rows {:.2} ms | get {:.2} us | lower_bound {:.2} us",
                stored.len(),
                bytes as f64 / stored.len() as f64,
                encode.as_secs_f64() * 1e3,
                binary.as_secs_f64() * 1e3,
                decode.as_secs_f64() * 1e3,
                bytes as f64 / decode.as_secs_f64() / 1e6,
                arrow.as_secs_f64() * 1e3,
                gather.as_secs_f64() * 1e3,
                get.as_secs_f64() * 1e3,
                find.as_secs_f64() * 1e3,
            );
        }
    }
}
