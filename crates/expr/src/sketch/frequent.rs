//! Sketches of frequent items, which keep the most frequent texts with bounds of their counts.
//!
//! A sketch counts texts in a table. When the table is full, it takes the median of some counts from all of them,
//! drops the texts that have none left, and adds the median to the possible error of every count.
//!
//! Anderson, Bevan, Lang, Liberty, Rhodes, Thaler: A high-performance algorithm for identifying frequent items in data
//! streams (2017). The format of the texts is that of Java's `ArrayOfStringsSerDe`.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder};
use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use rowmill_base::{Error, ErrorKind, Result};

use super::{Sketch, SketchFunction, VALUE_MARK, damaged, failed};

/// The aggregate `frequent_items_agg`.
pub static FREQUENT_ITEMS: SketchFunction = SketchFunction {
    name: "frequent_items_agg",
    items: Some(marked),
    ignores_duplicates: false,
    start: |lg_size| Ok(Box::new(FrequentState::new(FrequentItemsSketch::new(1 << lg_size).map_err(failed)?))),
};

/// The aggregate `frequent_items_merge_agg`. The result has the largest table of all sketches.
pub static FREQUENT_ITEMS_MERGE: SketchFunction = SketchFunction {
    name: "frequent_items_merge_agg",
    items: None,
    ignores_duplicates: false,
    start: |_| Ok(Box::new(FrequentState::new(FrequentItemsSketch::new(1 << LG_SLOTS_MIN).map_err(failed)?))),
};

/// The least size of a table, as a power of two.
const LG_SLOTS_MIN: u32 = 3;

/// The texts, each after its mark.
fn marked(values: &ArrayRef) -> Result<BinaryViewArray> {
    let Some(texts) = values.as_string_view_opt() else {
        return Err(Error::internal(format!("a sketch of frequent items got values of {}", values.data_type())));
    };
    let mut items = BinaryViewBuilder::with_capacity(texts.len());
    let mut item = vec![VALUE_MARK];
    for row in 0..texts.len() {
        item.truncate(1);
        item.extend_from_slice(texts.value(row).as_bytes());
        items.try_append_value(&item).map_err(|error| Error::internal(format!("frequent items: {error}")))?;
    }
    Ok(items.finish())
}

/// A sketch that is being made.
#[derive(Debug)]
struct FrequentState {
    sketch: FrequentItemsSketch<String>,
    /// The bytes of the texts in the sketch.
    text_bytes: usize,
}

impl FrequentState {
    fn new(sketch: FrequentItemsSketch<String>) -> FrequentState {
        let text_bytes = bytes_of_texts(&sketch);
        FrequentState { sketch, text_bytes }
    }
}

fn bytes_of_texts(sketch: &FrequentItemsSketch<String>) -> usize {
    sketch.frequent_items(ErrorType::NoFalseNegatives).iter().map(|row| row.item().len()).sum()
}

impl Sketch for FrequentState {
    fn add(&mut self, item: &[u8], times: u64) -> Result<()> {
        let text = std::str::from_utf8(item).map_err(|_| Error::internal("a frequent item is no text"))?;
        check_total(self.sketch.total_weight(), times)?;
        let (items, error) = (self.sketch.num_active_items(), self.sketch.maximum_error());
        self.sketch.update_with_count_ref(text, times);
        if self.sketch.maximum_error() != error {
            // Texts were dropped. That happens once for many new ones, so all may be looked at.
            self.text_bytes = bytes_of_texts(&self.sketch);
        } else if self.sketch.num_active_items() > items {
            self.text_bytes += text.len();
        }
        Ok(())
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let mut other = decode(sketch)?;
        check_total(self.sketch.total_weight(), other.total_weight())?;
        // The largest table wins, whatever the order of the sketches, because it drops the fewest texts.
        if other.lg_max_map_size() > self.sketch.lg_max_map_size() {
            std::mem::swap(&mut self.sketch, &mut other);
        }
        self.sketch.merge(&other);
        self.text_bytes = bytes_of_texts(&self.sketch);
        Ok(())
    }

    fn to_bytes(&mut self) -> Result<Vec<u8>> {
        Ok(self.sketch.serialize())
    }

    fn memory_bytes(&self) -> u64 {
        // While the table grows, a new one of twice the size is beside it.
        (size_of::<FrequentState>() + 3 * self.sketch.estimated_size() + self.text_bytes) as u64
    }
}

/// Refuses a total of counts that is no BIGINT.
fn check_total(held: u64, more: u64) -> Result<()> {
    match held.checked_add(more).is_some_and(|total| i64::try_from(total).is_ok()) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::NumericOutOfRange, "frequent items would have counts that no BIGINT holds")),
    }
}

/// Reads a sketch of texts.
fn decode(bytes: &[u8]) -> Result<FrequentItemsSketch<String>> {
    const WHAT: &str = "a sketch of frequent texts";
    /// The place of the size of the table, as a power of two.
    const LG_SLOTS_AT: usize = 4;
    /// The place of the number of texts.
    const ITEMS_AT: usize = 8;
    let mut image = bytes.to_vec();
    // The library makes a table of the size that the bytes name. A table for the texts that there are is enough.
    if let Some((items, _)) = bytes.get(ITEMS_AT..).and_then(|rest| rest.split_first_chunk()) {
        let items = u32::from_le_bytes(*items) as usize;
        if items > bytes.len() {
            return Err(damaged(WHAT, format!("it has {} bytes for {items} texts", bytes.len())));
        }
        let lg_slots = (items * 4 / 3 + 1).next_power_of_two().ilog2().max(LG_SLOTS_MIN);
        image[LG_SLOTS_AT] = image[LG_SLOTS_AT].min(lg_slots as u8);
    }
    let sketch = FrequentItemsSketch::<String>::deserialize(&image).map_err(|error| damaged(WHAT, error.message()))?;
    check_total(sketch.total_weight(), 0)?;
    if sketch.maximum_error() > sketch.total_weight() {
        return Err(damaged(WHAT, "the possible error is greater than the sum of all counts"));
    }
    Ok(sketch)
}

/// A text of a sketch with its count.
#[derive(Debug)]
pub(crate) struct FrequentItem {
    pub(crate) text: String,
    pub(crate) estimate: i64,
    pub(crate) lower_bound: i64,
    pub(crate) upper_bound: i64,
}

/// The texts of a sketch, the most frequent one first. Of equally frequent texts, the one that sorts first comes first.
pub(crate) fn frequent_items_of(sketch: &[u8]) -> Result<Vec<FrequentItem>> {
    let rows = decode(sketch)?.frequent_items(ErrorType::NoFalseNegatives);
    let item = |row: &datasketches::frequencies::Row<String>| FrequentItem {
        text: row.item().clone(),
        estimate: bigint(row.estimate()),
        lower_bound: bigint(row.lower_bound()),
        upper_bound: bigint(row.upper_bound()),
    };
    let mut items: Vec<FrequentItem> = rows.iter().map(item).collect();
    items.sort_by(|left, right| right.estimate.cmp(&left.estimate).then_with(|| left.text.cmp(&right.text)));
    Ok(items)
}

/// A count as a BIGINT. Only a damaged sketch has counts that do not fit.
fn bigint(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
