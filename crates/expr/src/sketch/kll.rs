//! KLL sketches of DOUBLEs, which estimate quantiles and ranks.
//!
//! A sketch keeps a sample of the values in levels, in which each value stands for 2^level others. Which values stay
//! depends on random bits of the library, so a sketch of more values than it holds differs from run to run.
//!
//! Karnin, Lang, Liberty: Optimal quantile approximation in streams (2016).

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::datatypes::Float64Type;
use datasketches::kll::{KllFloat, KllSketch};
use rowmill_base::{Error, ErrorKind, Result};

use super::{ShortItems, Sketch, SketchFunction, damaged, failed, fixed};

/// The aggregate `kll_sketch_agg`.
pub static KLL_SKETCH: SketchFunction = SketchFunction {
    name: "kll_sketch_agg",
    items: Some(floats),
    ignores_duplicates: false,
    start: |k| Ok(Box::new(KllState(Some(KllSketch::new(k as u16).map_err(failed)?)))),
};

/// The aggregate `kll_merge_agg`. The result has the least k of all sketches.
pub static KLL_MERGE: SketchFunction = SketchFunction {
    name: "kll_merge_agg",
    items: None,
    ignores_duplicates: false,
    start: |_| Ok(Box::new(KllState(None))),
};

/// The values. A NaN has no rank and is dropped, as Java does it.
fn floats(values: &ArrayRef) -> Result<BinaryViewArray> {
    let Some(floats) = values.as_primitive_opt::<Float64Type>() else {
        return Err(Error::internal(format!("a sketch of quantiles got values of {}", values.data_type())));
    };
    let mut items = ShortItems::default();
    for value in floats.values() {
        match value.is_nan() {
            true => items.push_nothing(),
            false => items.push((value + 0.0).to_bits(), u64::BITS / 8),
        }
    }
    items.finish()
}

/// A sketch that is being made; `None` before the first sketch of a merge.
#[derive(Debug)]
struct KllState(Option<KllSketch<KllFloat<f64>>>);

impl Sketch for KllState {
    fn add(&mut self, item: &[u8], times: u64) -> Result<()> {
        let (false, Some(sketch)) = (item.is_empty(), &mut self.0) else { return Ok(()) };
        let value = KllFloat::<f64>::new(f64::from_le_bytes(fixed(item)?)).map_err(failed)?;
        check_count(sketch.n().checked_add(times))?;
        (0..times).for_each(|_| sketch.update(value));
        Ok(())
    }

    fn merge(&mut self, sketch: &[u8]) -> Result<()> {
        let mut other = decode(sketch)?;
        let Some(sketch) = &mut self.0 else {
            self.0 = Some(other);
            return Ok(());
        };
        check_count(sketch.n().checked_add(other.n()))?;
        // The least k wins, whatever the order of the sketches.
        if other.k() < sketch.k() {
            std::mem::swap(sketch, &mut other);
        }
        sketch.merge(&other).map_err(failed)
    }

    fn to_bytes(&mut self) -> Result<Vec<u8>> {
        let sketch = self.0.as_ref();
        Ok(sketch.ok_or_else(|| Error::internal("a merge of no sketches"))?.serialize())
    }

    fn memory_bytes(&self) -> u64 {
        // Levels double as they grow, and a merge of levels makes copies of them.
        let values = self.0.as_ref().map_or(0, |sketch| 3 * sketch.num_retained());
        (size_of::<KllState>() + values * size_of::<f64>()) as u64
    }
}

/// Refuses a number of values that is no BIGINT.
fn check_count(count: Option<u64>) -> Result<()> {
    match count.is_some_and(|count| i64::try_from(count).is_ok()) {
        true => Ok(()),
        false => {
            Err(Error::new(ErrorKind::NumericOutOfRange, "a KLL sketch would have more values than a BIGINT holds"))
        }
    }
}

/// Reads a sketch of doubles.
pub(crate) fn decode(bytes: &[u8]) -> Result<KllSketch<KllFloat<f64>>> {
    let sketch = KllSketch::deserialize(bytes).map_err(|error| damaged("a KLL sketch of doubles", error.message()))?;
    check_count(Some(sketch.n()))?;
    Ok(sketch)
}
