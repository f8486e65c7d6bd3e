//! The parts of Arrow that Rowmill uses, under the paths that the crate `arrow` gives them.
//!
//! We do not use that crate, because it also brings arithmetic and string kernels that `rowmill-expr` has its own
//! versions of. Leaving them out saves a twentieth of a build.

pub use arrow_buffer::buffer;
pub use arrow_ipc as ipc;
pub use arrow_row as row;

/// Arrays, their builders, and comparators of their values.
pub mod array {
    pub use arrow_array::builder::*;
    pub use arrow_array::cast::*;
    pub use arrow_array::iterator::*;
    pub use arrow_array::*;
    pub use arrow_data::transform::{Capacities, MutableArrayData};
    pub use arrow_data::{ArrayData, ArrayDataBuilder, ByteView, MAX_INLINE_VIEW_LEN, layout};
    pub use arrow_ord::ord::{DynComparator, make_comparator};
}

/// Kernels that select, convert and compare.
pub mod compute {
    pub use arrow_cast::cast::*;
    pub use arrow_ord::partition::*;
    pub use arrow_ord::sort::*;
    pub use arrow_schema::SortOptions;
    pub use arrow_select::coalesce::*;
    pub use arrow_select::concat::*;
    pub use arrow_select::filter::*;
    pub use arrow_select::interleave::*;
    pub use arrow_select::nullif::*;
    pub use arrow_select::take::*;

    /// Kernels by the module that contains them.
    pub mod kernels {
        pub use arrow_ord::cmp;
        pub use arrow_select::zip;
    }
}

/// Types.
pub mod datatypes {
    pub use arrow_array::types::*;
    pub use arrow_array::{ArrowNativeTypeOp, ArrowNumericType, ArrowPrimitiveType};
    pub use arrow_buffer::{ArrowNativeType, ToByteSlice, i256};
    pub use arrow_data::decimal::*;
    pub use arrow_schema::{
        DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaBuilder, SchemaRef, TimeUnit, UnionFields,
        UnionMode,
    };
}

/// Errors.
pub mod error {
    pub use arrow_schema::ArrowError;

    /// A result of Arrow.
    pub type Result<T> = std::result::Result<T, ArrowError>;
}

/// Batches.
pub mod record_batch {
    pub use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, RecordBatchWriter};
}

/// Values as text.
pub mod util {
    pub use arrow_cast::display;
}
