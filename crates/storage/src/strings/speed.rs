//! Prints the size and speed of every layout: `cargo test --release -p rowmill-storage strings::speed -- --ignored
//! --nocapture`. If `ROWMILL_STRINGS` names an Arrow IPC file, its columns are measured instead of the samples.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, StringViewArray};

use super::*;

/// The time that this thread has run, without waiting for a processor. On a system that does not report this, the
/// elapsed time.
fn thread_time(start: Instant) -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = said.and_then(|said| said.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// The average time of one run, over many runs.
fn time<T>(mut run: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    let (before, mut runs) = (thread_time(start), 0);
    while runs < 5 || start.elapsed() < Duration::from_millis(200) {
        black_box(run());
        runs += 1;
    }
    (thread_time(start) - before).as_secs_f64() * 1e3 / f64::from(runs)
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
        let dictionary = Dictionary::build(&strings);
        let build = time(|| Dictionary::build(&strings));
        let values = &dictionary.values;
        let (rows, bytes) = (strings.len(), dictionary.value_bytes());
        println!("{name}: {rows} rows, {} values of {bytes} bytes; dictionary {build:.1} ms", values.len());
        let chosen = encode_list(values).unwrap();
        let layout = StringList::open(&chosen, values.len()).unwrap().layout();
        println!("  {layout:?} is chosen: {} bytes, {:.1} ms", chosen.len(), time(|| encode_list(values).unwrap()));
        for layout in ListLayout::ALL {
            measure(layout, values, &dictionary.codes);
        }
        let stored = encode_rows(&strings).unwrap();
        let open = StringRows::open(&stored, rows).unwrap();
        let read = time(|| open.read(0..rows, StringKind::Text, None).unwrap());
        let encode = time(|| encode_rows(&strings).unwrap());
        let is = stored.len();
        println!("  in row order: {is} bytes, encode {encode:.1} ms, read all {read:.1} ms");
    }
}

fn measure(layout: ListLayout, values: &[&[u8]], codes: &[u32]) {
    let stored = encode_list_as(values, layout).unwrap();
    let list = StringList::open(&stored, values.len()).unwrap();
    let decoded = list.decode(StringKind::Text).unwrap();
    assert!(values.iter().enumerate().all(|(index, &value)| decoded.value(index) == value));
    let encode = time(|| encode_list_as(values, layout).unwrap());
    let binary = time(|| list.decode(StringKind::Binary).unwrap());
    let text = time(|| list.decode(StringKind::Text).unwrap());
    let gather = time(|| decoded.views(codes).unwrap());
    let some = || (0..1000usize).map(|number| number * 7919 % values.len());
    let get = time(|| some().for_each(|index| list.get(index, &mut Vec::new()).unwrap()));
    let find = time(|| some().map(|index| list.lower_bound(values[index]).unwrap()).sum::<usize>());
    let times = decoded.bytes().len() as f64 / stored.len() as f64;
    let speed = decoded.bytes().len() as f64 / text / 1e6;
    println!(
        "  {layout:?}: {} bytes ({times:.2}x) | encode {encode:.1} ms | decode {binary:.2} ms, text {text:.2} ms \
         ({speed:.1} GB/s) | views of all rows {gather:.2} ms | get {get:.2} us | lower_bound {find:.2} us",
        stored.len(),
    );
}
