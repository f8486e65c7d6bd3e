//! Sketches in the formats of Apache DataSketches: small summaries of many values, which can be stored and merged.
//!
//! A sketch that leaves a query is a BLOB in the format that the libraries of DataSketches for Java, C++ and Python
//! write and read. Equal values give equal sketches in all of them, because values are hashed alike (`hashing.rs`).
//!
//! A [`SketchFunction`] says how an aggregate makes a sketch, and a [`Sketch`] takes values and other sketches. The
//! engine knows nothing else about them, so a new kind of sketch needs a file here, an entry in the list of aggregates,
//! and the functions that read it (`functions/sketch.rs`).
//!
//! Bytes come from outside, so they may be damaged. Every decoder must check what the library does not: the library
//! may panic or allocate without bound for lengths and weights that no writer makes.

mod frequent;
mod hashing;
mod hll;
mod kll;
#[cfg(test)]
mod tests;
mod theta;

use std::fmt;

use arrow::array::{ArrayRef, BinaryViewArray};
use arrow::buffer::ScalarBuffer;
use rowmill_base::{Error, ErrorKind, Result};

pub(crate) use self::frequent::frequent_items_of;
pub use self::frequent::{FREQUENT_ITEMS, FREQUENT_ITEMS_MERGE};
pub(crate) use self::hll::decode as decode_hll;
pub use self::hll::{HLL_SKETCH, HLL_UNION};
pub(crate) use self::kll::decode as decode_kll;
pub use self::kll::{KLL_MERGE, KLL_SKETCH};
pub use self::theta::{LG_K_OF_THETA, LG_K_OF_THETA_DEFAULT, THETA_INTERSECTION, THETA_SKETCH, THETA_UNION};
pub(crate) use self::theta::{decode as decode_theta, in_lg_k_of_theta};

/// A summary of values that is being made.
pub trait Sketch: fmt::Debug + Send + Sync {
    /// Adds a value `times` times. The value has the form that [`SketchFunction::items`] gives it.
    fn add(&mut self, item: &[u8], times: u64) -> Result<()>;

    /// Adds all values of another sketch, given by its bytes.
    fn merge(&mut self, sketch: &[u8]) -> Result<()>;

    /// The bytes of the sketch in the format of DataSketches.
    fn to_bytes(&mut self) -> Result<Vec<u8>>;

    /// The bytes of memory that the sketch takes, including those that it needs to grow the next time.
    fn memory_bytes(&self) -> u64;
}

/// The way in which an aggregate makes sketches.
pub struct SketchFunction {
    /// The name, which errors show and by which functions are compared.
    pub name: &'static str,
    /// Computes the items of values, each marked with [`VALUE_MARK`]. `None` if the values are sketches.
    pub items: Option<fn(&ArrayRef) -> Result<BinaryViewArray>>,
    /// Whether repeated values change nothing.
    pub ignores_duplicates: bool,
    /// Makes a sketch without values. `size` is the parameter of the aggregate, which the binder has checked.
    pub(crate) start: fn(size: i64) -> Result<Box<dyn Sketch>>,
}

/// The first byte of an item.
const VALUE_MARK: u8 = 0;
/// The first byte of a sketch among items.
const SKETCH_MARK: u8 = 1;

impl SketchFunction {
    /// Makes a sketch without values.
    pub fn start(&self, size: i64) -> Result<Box<dyn Sketch>> {
        (self.start)(size)
    }

    /// Adds an item, or the result of [`SketchFunction::part`], to a sketch.
    #[inline]
    pub fn take(&self, sketch: &mut dyn Sketch, item: &[u8], times: u64) -> Result<()> {
        match (self.items, item.split_first()) {
            (None, _) => sketch.merge(item),
            (Some(_), Some((&VALUE_MARK, value))) => sketch.add(value, times),
            (Some(_), Some((&SKETCH_MARK, bytes))) => sketch.merge(bytes),
            (Some(_), _) => Err(Error::internal(format!("{}: an item has no mark", self.name))),
        }
    }

    /// The sketch in the form of an item, so that it can be kept among items and taken later.
    pub fn part(&self, sketch: &mut dyn Sketch) -> Result<Vec<u8>> {
        let mut bytes = sketch.to_bytes()?;
        if self.items.is_some() {
            bytes.insert(0, SKETCH_MARK);
        }
        Ok(bytes)
    }
}

impl PartialEq for SketchFunction {
    fn eq(&self, other: &SketchFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for SketchFunction {}

impl fmt::Debug for SketchFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// The views of items of up to eleven bytes, which are stored in the views themselves.
#[derive(Debug, Default)]
struct ShortItems(Vec<u128>);

impl ShortItems {
    /// Appends an item of `len` bytes, the low ones of `value`.
    #[inline]
    fn push(&mut self, value: u64, len: u32) {
        // An Arrow view has the length, followed by the bytes: here the mark and those of the value.
        self.0.push(u128::from(len + 1) | u128::from(VALUE_MARK) << 32 | u128::from(value) << 40);
    }

    /// Appends an item that no sketch takes.
    #[inline]
    fn push_nothing(&mut self) {
        self.push(0, 0);
    }

    fn finish(self) -> Result<BinaryViewArray> {
        BinaryViewArray::try_new(ScalarBuffer::from(self.0), Vec::new(), None)
            .map_err(|error| Error::internal(format!("the items of a sketch: {error}")))
    }
}

/// The error for bytes that are not a sketch of the kind that `what` names.
fn damaged(what: &str, detail: impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("the BLOB is not {what} of Apache DataSketches: {detail}"))
}

/// The error of a sketch that the library cannot make.
fn failed(error: datasketches::error::Error) -> Error {
    Error::internal(format!("a sketch: {error}"))
}

/// The bytes of an item that must have a fixed length.
fn fixed<const LEN: usize>(item: &[u8]) -> Result<[u8; LEN]> {
    item.try_into().map_err(|_| Error::internal(format!("an item of a sketch has {} bytes, not {LEN}", item.len())))
}
