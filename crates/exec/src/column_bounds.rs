//! The least and the greatest value of a table's column, from what the parts of the table know.

use arrow::array::ArrayRef;
use rowmill_base::Result;
use rowmill_storage::{Block, TableDef, TableSource};

use crate::group::integers;

/// The least and the greatest value of a column of integers or decimals; decimals are taken without their point.
/// `None` if a part of the table does not know its bounds, or if there are no values. Deleted rows count too.
pub(crate) fn column_bounds(source: &dyn TableSource, column: usize) -> Result<Option<(i128, i128)>> {
    let table = source.table();
    let mut bounds = None;
    for block in source.blocks() {
        let Some(head) = block.chunk_head(table, column)? else { return Ok(None) };
        // A block with NULLs only has no zone.
        if head.null_count() == head.rows() {
            continue;
        }
        let Some((least, greatest)) = block_bounds(block, table, column)? else { return Ok(None) };
        widen(&mut bounds, least);
        widen(&mut bounds, greatest);
    }
    for run in source.runs() {
        let Some(numbers) = integers(&run.values(table, column)?)? else { return Ok(None) };
        numbers.into_iter().for_each(|number| widen(&mut bounds, number));
    }
    Ok(bounds)
}

/// The least and the greatest value of a column of integers or decimals in a block. `None` if they are not known.
pub(crate) fn block_bounds(block: &Block, table: &TableDef, column: usize) -> Result<Option<(i128, i128)>> {
    let Some(zone) = block.chunk_head(table, column)?.and_then(|head| head.zone()) else { return Ok(None) };
    let Some(greatest) = zone.max else { return Ok(None) };
    let number = |bound: &ArrayRef| Ok(integers(bound)?.and_then(|numbers| numbers.first().copied()));
    Ok(number(&zone.min.value)?.zip(number(&greatest.value)?))
}

fn widen(bounds: &mut Option<(i128, i128)>, number: i128) {
    let (least, greatest) = bounds.get_or_insert((number, number));
    (*least, *greatest) = (number.min(*least), number.max(*greatest));
}
