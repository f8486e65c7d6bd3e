//! Reads what a Parquet file states about the values of a column: least value, greatest value and number of NULLs, by
//! row group and by page.
//!
//! A scan skips zones that cannot have a matching row, so a bound that we misread loses rows. We use bounds only if all
//! of the following holds. Otherwise any value may be in the zone.
//!
//! - The order of the file must be SQL's order of the type that the column is read as. Unsigned integers are compared
//!   as unsigned, and texts by their bytes. INT96 and intervals have no order. Decimals in byte arrays of variable
//!   length are excluded, because writers cut long bounds and half of a number is another number.
//! - Bounds in the old fields, or without a column order, were found by comparing signed numbers, and are used only for
//!   these.
//! - Bounds become values by the same conversion as the column's values ([`convert`]), which keeps their order.
//! - The least value must not be above the greatest, and neither may be NaN.
//!
//! Bounds ignore NaN, but in our order it is the greatest number, so any zone of a float column may have one. A missing
//! number of NULLs does not mean zero.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, new_null_array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use parquet::arrow::arrow_reader::RowSelection;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::schema::types::{SchemaDescriptor, Type};
use rowmill_base::SqlType;
use rowmill_storage::chunk::ValueSet;

use crate::convert::convert;
use crate::guard::guarded;
use crate::parquet_file::ParquetFile;

/// Consecutive rows of a row group, divided into zones, with the file's statements about one column in each zone.
#[derive(Debug)]
pub(crate) struct Zones {
    /// The first row of each zone within the row group, ascending from 0.
    first_rows: Vec<usize>,
    /// The number of rows of the row group.
    rows: usize,
    kind: SqlType,
    /// The bounds of each zone in the Arrow type of `kind`. NULL means unknown.
    least: ArrayRef,
    greatest: ArrayRef,
    null_counts: Vec<Option<usize>>,
}

/// The least and the greatest value of each zone, as the file states them.
type Bounds = (ArrayRef, ArrayRef);

impl Zones {
    fn new(
        first_rows: Vec<usize>,
        rows: usize,
        kind: &SqlType,
        bounds: Option<Bounds>,
        null_counts: Vec<Option<usize>>,
    ) -> Zones {
        let zones = first_rows.len();
        let usable = |(least, greatest): &Bounds| least.len() == zones && greatest.len() == zones;
        let (least, greatest) = bounds.filter(usable).unwrap_or_else(|| {
            let unknown = new_null_array(&kind.arrow(), zones);
            (Arc::clone(&unknown), unknown)
        });
        let (least, greatest) = (without_nan(least), without_nan(greatest));
        Zones { first_rows, rows, kind: kind.clone(), least, greatest, null_counts }
    }

    /// Selects the rows of the zones that may have one of `values`.
    pub(crate) fn selection(&self, values: &ValueSet) -> RowSelection {
        let may_be_nan = self.may_be_nan(values);
        let meets = values.meets(&self.kind, &self.least, &self.greatest);
        let ends = self.first_rows.iter().skip(1).chain([&self.rows]);
        let zones = self.first_rows.iter().zip(ends).zip(&self.null_counts).zip(meets);
        let held = zones.filter_map(|(((first, end), null_count), meets)| {
            // An unknown number of NULLs may be any number.
            let has_null = values.has_null() && *null_count != Some(0);
            let has_value = (meets || may_be_nan) && *null_count != Some(end - first);
            (has_null || has_value).then_some(*first..*end)
        });
        RowSelection::from_consecutive_ranges(held, self.rows)
    }

    fn may_be_nan(&self, values: &ValueSet) -> bool {
        let nan: ArrayRef = match self.kind {
            SqlType::Float32 => Arc::new(Float32Array::from(vec![f32::NAN])),
            SqlType::Float64 => Arc::new(Float64Array::from(vec![f64::NAN])),
            _ => return false,
        };
        values.contains(&self.kind, &nan)
    }
}

/// Replaces NaN by NULL, because NaN is not a bound.
fn without_nan(bounds: ArrayRef) -> ArrayRef {
    match bounds.data_type() {
        DataType::Float32 => {
            Arc::new(bounds.as_primitive::<Float32Type>().unary_opt::<_, Float32Type>(|x| (!x.is_nan()).then_some(x)))
        }
        DataType::Float64 => {
            Arc::new(bounds.as_primitive::<Float64Type>().unary_opt::<_, Float64Type>(|x| (!x.is_nan()).then_some(x)))
        }
        _ => bounds,
    }
}

impl ParquetFile {
    /// A row group as a single zone of a column that is read as `kind`. `None` if the file states nothing about it.
    pub(crate) fn row_group_zone(&self, group: usize, column: usize, kind: &SqlType) -> Option<Zones> {
        let leaf = self.columns[column].leaf?;
        let group = self.metadata().row_group(group);
        let statistics = group.column(leaf).statistics()?;
        let rows = usize::try_from(group.num_rows()).ok()?;
        let null_count = match self.metadata().file_metadata().schema_descr().column(leaf).max_def_level() {
            0 => Some(0),
            // A column without definition levels cannot have NULLs.
            _ => {
                statistics.null_count_opt().and_then(|nulls| usize::try_from(nulls).ok()).filter(|nulls| *nulls <= rows)
            }
        };
        let is_whole = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| self.is_whole_bound(leaf, bytes.len()));
        let usable = self.is_ordered_as_read(leaf, column, statistics.is_min_max_deprecated())
            && is_whole(statistics.min_bytes_opt())
            && is_whole(statistics.max_bytes_opt());
        let bounds = usable.then(|| {
            self.bounds(column, kind, || {
                let schema = self.metadata().file_metadata().schema_descr();
                let converter = StatisticsConverter::from_column_index(leaf, self.read_schema().field(column), schema)?;
                Ok((converter.row_group_mins([group])?, converter.row_group_maxes([group])?))
            })
        });
        Some(Zones::new(vec![0], rows, kind, bounds.flatten(), vec![null_count]))
    }

    /// The pages of a column in a row group as zones, read as `kind`. `None` if the file has no page index that we can
    /// trust.
    pub(crate) fn page_zones(&self, group: usize, column: usize, kind: &SqlType) -> Option<Zones> {
        let leaf = self.columns[column].leaf?;
        let metadata = self.metadata().row_group(group);
        let rows = usize::try_from(metadata.num_rows()).ok()?;
        let index = guarded(&self.source.name, || self.load_page_index(metadata, leaf)).ok()??;
        let locations = index.places.page_locations();
        let first_rows: Vec<usize> =
            locations.iter().map(|page| usize::try_from(page.first_row_index).ok()).collect::<Option<_>>()?;
        let pages = first_rows.len();
        let in_order = first_rows.first() == Some(&0)
            && first_rows.windows(2).all(|pair| pair[0] < pair[1])
            && first_rows.last().is_some_and(|last| *last < rows);
        // A damaged index could exclude rows that match, so we ignore it.
        if !in_order || index.values.num_pages() != pages as u64 {
            return None;
        }
        let is_nullable = index.schema.column(0).max_def_level() > 0;
        let null_counts = (0..pages).map(|page| {
            let page_rows = first_rows.get(page + 1).copied().unwrap_or(rows) - first_rows[page];
            match (is_nullable, index.values.is_null_page(page)) {
                (false, _) => Some(0),
                (true, true) => Some(page_rows),
                (true, false) => {
                    let nulls = index.values.null_count(page).and_then(|nulls| usize::try_from(nulls).ok());
                    nulls.filter(|nulls| *nulls <= page_rows)
                }
            }
        });
        let null_counts = null_counts.collect();
        let usable = self.is_ordered_as_read(leaf, column, false) && self.has_whole_bounds(leaf, &index.values);
        let bounds = usable.then(|| {
            self.bounds(column, kind, || {
                let field = self.read_schema().field(column);
                let converter = StatisticsConverter::from_column_index(0, field, &index.schema)?;
                let (values, places) = (vec![vec![index.values]], vec![vec![index.places]]);
                Ok((
                    converter.data_page_mins(&values, &places, [&0])?,
                    converter.data_page_maxes(&values, &places, [&0])?,
                ))
            })
        });
        Some(Zones::new(first_rows, rows, kind, bounds.flatten(), null_counts))
    }

    /// Converts the bounds that `read` returns to `kind`. `None` if one of them cannot be converted.
    fn bounds(
        &self,
        column: usize,
        kind: &SqlType,
        read: impl FnOnce() -> Result<Bounds, ParquetError>,
    ) -> Option<Bounds> {
        let (least, greatest) = guarded(&self.source.name, read).ok()?;
        debug_assert_eq!(*least.data_type(), self.columns[column].arrow, "bounds must have the type of the column");
        Some((convert(&least, kind).ok()?, convert(&greatest, kind).ok()?))
    }

    /// Whether the order of a leaf's bounds is SQL's order of the values that are read from it.
    fn is_ordered_as_read(&self, leaf: usize, column: usize, in_old_fields: bool) -> bool {
        let file = self.metadata().file_metadata();
        let descriptor = file.schema_descr().column(leaf);
        let is_integer = matches!(descriptor.physical_type(), Physical::INT32 | Physical::INT64);
        let is_float = matches!(descriptor.physical_type(), Physical::FLOAT | Physical::DOUBLE);
        let is_fixed = descriptor.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY;
        let order = match &self.columns[column].arrow {
            DataType::Boolean => SortOrder::UNSIGNED,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 if is_integer => SortOrder::SIGNED,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 if is_integer => {
                SortOrder::UNSIGNED
            }
            DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..)
                if is_integer =>
            {
                SortOrder::SIGNED
            }
            DataType::Float32 | DataType::Float64 if is_float => SortOrder::SIGNED,
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale)
                if (is_integer || is_fixed) && descriptor.type_scale() == i32::from(*scale) =>
            {
                SortOrder::SIGNED
            }
            DataType::Utf8View | DataType::BinaryView if descriptor.physical_type() == Physical::BYTE_ARRAY => {
                SortOrder::UNSIGNED
            }
            DataType::FixedSizeBinary(_) if is_fixed => SortOrder::UNSIGNED,
            _ => return false,
        };
        // Old writers always compared signed, so their bounds are right only for these types.
        let is_signed_number = order == SortOrder::SIGNED && (is_integer || is_float);
        match file.column_order(leaf) {
            ColumnOrder::TYPE_DEFINED_ORDER(stated) => stated == order && (!in_old_fields || is_signed_number),
            ColumnOrder::UNDEFINED => is_signed_number,
            ColumnOrder::UNKNOWN => false,
        }
    }

    /// Whether a bound of `bytes` bytes is a whole value. A bound of a fixed-length type must not be cut.
    fn is_whole_bound(&self, leaf: usize, bytes: usize) -> bool {
        let descriptor = self.metadata().file_metadata().schema_descr().column(leaf);
        descriptor.physical_type() != Physical::FIXED_LEN_BYTE_ARRAY
            || usize::try_from(descriptor.type_length()).is_ok_and(|length| length == bytes)
    }

    fn has_whole_bounds(&self, leaf: usize, index: &ColumnIndexMetaData) -> bool {
        let ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) = index else { return true };
        let mut bounds = index.min_values_iter().chain(index.max_values_iter()).flatten();
        bounds.all(|bound| self.is_whole_bound(leaf, bound.len()))
    }

    /// Reads only the page index of one column chunk.
    ///
    /// The metadata reader reads the indexes of all columns and row groups in its metadata, including everything
    /// between them. So we give it metadata with one column and one row group, once for each of the two indexes.
    fn load_page_index(&self, group: &RowGroupMetaData, leaf: usize) -> Result<Option<PageIndex>, ParquetError> {
        let chunk = group.column(leaf);
        if chunk.column_index_offset().is_none() || chunk.offset_index_offset().is_none() {
            return Ok(None);
        }
        let file = self.metadata().file_metadata();
        let root = file.schema_descr().get_column_root_ptr(leaf);
        let schema = Type::group_type_builder("schema").with_fields(vec![root]).build()?;
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
        let read = |values: PageIndexPolicy, places: PageIndexPolicy| {
            let group = RowGroupMetaData::builder(Arc::clone(&schema))
                .set_num_rows(group.num_rows())
                .add_column_metadata(chunk.clone())
                .build()?;
            let file = FileMetaData::new(file.version(), group.num_rows(), None, None, Arc::clone(&schema), None);
            let mut reader = ParquetMetaDataReader::new_with_metadata(ParquetMetaData::new(file, vec![group]))
                .with_column_index_policy(values)
                .with_offset_index_policy(places);
            reader.read_page_indexes(self.bytes())?;
            reader.finish()
        };
        let values = read(PageIndexPolicy::Required, PageIndexPolicy::Skip)?.column_index().cloned();
        let places = read(PageIndexPolicy::Skip, PageIndexPolicy::Required)?.offset_index().cloned();
        let values = values.and_then(|mut groups| groups.pop()?.pop());
        let places = places.and_then(|mut groups| groups.pop()?.pop());
        Ok(values.zip(places).and_then(|(values, places)| match values {
            ColumnIndexMetaData::NONE => None,
            values => Some(PageIndex { schema, values, places }),
        }))
    }
}

/// The page index of one column chunk.
struct PageIndex {
    /// A schema with only this column.
    schema: Arc<SchemaDescriptor>,
    /// The bounds and NULL counts of the pages.
    values: ColumnIndexMetaData,
    /// The locations of the pages.
    places: OffsetIndexMetaData,
}
