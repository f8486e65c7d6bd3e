//! The least and the greatest value of a table's column, from what the parts of the table know.

use arrow::array::ArrayRef;
use rowmill_base::Result;
use rowmill_storage::TableSource;

use crate::group::integers;

/// The least and the greatest value of a column of integers or decimals; decimals are taken without their point.
/// `None` if a part of the table does not know its bounds, or if there are no values. Deleted rows count too.
pub(crate) fn column_bounds(source: &dyn TableSource, column: usize) -> Result<Option<(i128, i128)>> {
    let table = source.table();
    let mut bounds: Option<(i128, i128)> = None;
    let mut add = |values: &ArrayRef| -> Result<bool> {
        let Some(numbers) = integers(values)? else { return Ok(false) };
        for number in numbers {
            let (least, greatest) = bounds.get_or_insert((number, number));
            (*least, *greatest) = (number.min(*least), number.max(*greatest));
        }
        Ok(true)
    };
    for block in source.blocks() {
        let Some(head) = block.chunk_head(table, column)? else { return Ok(None) };
        // A block with NULLs only has no zone.
        if head.null_count() == head.rows() {
            continue;
        }
        let Some(zone) = head.zone() else { return Ok(None) };
        let Some(greatest) = zone.max else { return Ok(None) };
        if !add(&zone.min.value)? || !add(&greatest.value)? {
            return Ok(None);
        }
    }
    for run in source.runs() {
        if !add(&run.values(table, column)?)? {
            return Ok(None);
        }
    }
    Ok(bounds)
}
