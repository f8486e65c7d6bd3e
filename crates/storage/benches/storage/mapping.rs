//! Compares one long mapping of a column with the same bytes in segments that are mapped one by one.
//!
//! If a column is one slice, no lookup is needed to find a value: a scan is a loop over memory, and a string is never
//! in two pieces. With segments, the segment must be looked up for each value, or once for each run of values within a
//! segment. A string that crosses a border must be put together first.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rowmill_io::{Disk, Mapping, OpenMode, RealDisk};

use crate::size;

/// The bytes of a column in both forms. All pages are read before anything is measured.
struct Column<'m> {
    whole: &'m [u8],
    segments: Vec<&'m [u8]>,
    /// The size of a segment in bytes is two to the power of this.
    shift: u32,
}

impl Column<'_> {
    /// Reads `N` bytes at a multiple of `N` from their segment.
    #[inline]
    fn fixed<const N: usize>(&self, place: usize) -> [u8; N] {
        let at = place & ((1 << self.shift) - 1);
        *self.segments[place >> self.shift][at..].first_chunk().unwrap()
    }

    /// Reads the string at `start..end`. If it crosses a border, it is put together in `scratch`.
    #[inline]
    fn string<'s>(&'s self, start: usize, end: usize, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        let (first, at) = (start >> self.shift, start & ((1 << self.shift) - 1));
        let (segment, len) = (self.segments[first], end - start);
        match segment.get(at..at + len) {
            Some(string) => string,
            None => {
                let (head, tail) = (&segment[at..], len - (segment.len() - at));
                scratch.clear();
                scratch.extend_from_slice(head);
                scratch.extend_from_slice(&self.segments[first + 1][..tail]);
                scratch
            }
        }
    }
}

fn sum<const N: usize>(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<N>().0.iter().fold(0, |sum, value| sum + number(*value))
}

#[inline]
fn number<const N: usize>(value: [u8; N]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&value);
    u64::from_le_bytes(bytes)
}

fn read_values<const N: usize>(group: &mut BenchmarkGroup<'_, WallTime>, column: &Column<'_>) {
    let values = column.whole.len() / N;
    group.throughput(Throughput::Elements(values as u64));
    let mut bench = |how: &str, work: &dyn Fn() -> u64| {
        let expected = sum::<N>(column.whole);
        group.bench_function(format!("read {N} bytes, {how}"), |bencher| {
            bencher.iter(|| assert_eq!(black_box(work()), expected));
        });
    };
    bench("contiguous", &|| sum::<N>(column.whole));
    bench("segment per value", &|| (0..values).fold(0, |sum, value| sum + number(column.fixed::<N>(value * N))));
    bench("segment per run", &|| column.segments.iter().map(|segment| sum::<N>(segment)).sum());
    let rng = &mut SmallRng::seed_from_u64(3);
    let picked: Vec<usize> = (0..values / 16).map(|_| rng.random_range(0..values)).collect();
    group.throughput(Throughput::Elements(picked.len() as u64));
    let whole = column.whole.as_chunks::<N>().0;
    group.bench_function(format!("pick {N} bytes, contiguous"), |bencher| {
        bencher.iter(|| picked.iter().fold(0, |sum, value| sum + number(whole[*value])));
    });
    group.bench_function(format!("pick {N} bytes, segment per value"), |bencher| {
        bencher.iter(|| picked.iter().fold(0, |sum, value| sum + number(column.fixed::<N>(*value * N))));
    });
}

fn read_strings(group: &mut BenchmarkGroup<'_, WallTime>, column: &Column<'_>) {
    let rng = &mut SmallRng::seed_from_u64(4);
    let mut ends = vec![0];
    let mut end = rng.random_range(5..80);
    while end < column.whole.len() {
        ends.push(end);
        end += rng.random_range(5..80);
    }
    let strings = || ends.windows(2).map(|ends| (ends[0], ends[1]));
    // Looks at a string like a hash function: at both ends and the length.
    let look = |string: &[u8]| u64::from(string[0]) + u64::from(string[string.len() - 1]) + string.len() as u64;
    group.throughput(Throughput::Elements(ends.len() as u64));
    let expected: u64 = strings().map(|(start, end)| look(&column.whole[start..end])).sum();
    group.bench_function("read strings, contiguous", |bencher| {
        bencher.iter(|| strings().map(|(start, end)| look(&column.whole[start..end])).sum::<u64>());
    });
    group.bench_function("read strings, segment per value", |bencher| {
        let mut scratch = Vec::new();
        bencher.iter(|| {
            let sum: u64 = strings().map(|(start, end)| look(column.string(start, end, &mut scratch))).sum();
            assert_eq!(sum, expected);
        });
    });
}

/// Measures writing with calls, a run of values at a time. The segment is looked up for every call.
fn write(group: &mut BenchmarkGroup<'_, WallTime>, disk: &RealDisk, bytes: &[u8], shift: u32) {
    let open = |name: &str| disk.open(name, OpenMode::Create).unwrap();
    let whole = open("written");
    let segments: Vec<_> = (0..bytes.len() >> shift).map(|number| open(&format!("written {number}"))).collect();
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    // A page of values, and many pages.
    for run in [4 << 10, 256 << 10] {
        let runs = || bytes.chunks(run).zip((0..).step_by(run));
        group.bench_function(format!("write {} KiB a call, contiguous", run >> 10), |bencher| {
            bencher.iter(|| runs().for_each(|(values, place)| whole.write_all_at(values, place as u64).unwrap()));
        });
        group.bench_function(format!("write {} KiB a call, segment per run", run >> 10), |bencher| {
            bencher.iter(|| {
                runs().for_each(|(values, place)| {
                    let at = (place & ((1 << shift) - 1)) as u64;
                    segments[place >> shift].write_all_at(values, at).unwrap();
                });
            });
        });
    }
}

/// The first bytes of a file that is no longer written.
#[allow(unsafe_code)]
fn bytes_of(mapping: &Mapping, len: usize) -> &[u8] {
    // SAFETY: `benches` writes each mapped file once, before it maps the file.
    unsafe { mapping.slice(0, len) }.unwrap()
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let shift = size(24, 18) as u32;
    let bytes = 8_usize << shift;
    let folder = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(folder.path());
    let map = |name: &str, bytes: &[u8]| -> Arc<Mapping> {
        disk.open(name, OpenMode::Create).unwrap().write_all_at(bytes, 0).unwrap();
        disk.map(name, bytes.len() as u64).unwrap()
    };
    let content: Vec<u8> = (0..bytes).map(|place| ((place * 37) >> 3) as u8).collect();
    let whole = map("whole", &content);
    let parts: Vec<Arc<Mapping>> =
        content.chunks(1 << shift).enumerate().map(|(number, part)| map(&format!("part {number}"), part)).collect();
    let column = Column {
        whole: bytes_of(&whole, bytes),
        segments: parts.iter().map(|part| bytes_of(part, 1 << shift)).collect(),
        shift,
    };
    let mut group = criterion.benchmark_group("mapping");
    read_values::<4>(&mut group, &column);
    read_values::<8>(&mut group, &column);
    read_strings(&mut group, &column);
    write(&mut group, &disk, &content[..bytes / 2], shift);
    group.finish();
}
