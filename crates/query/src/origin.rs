//! The stored columns that the columns of a result show unchanged.

use rowmill_base::TableId;
use rowmill_plan::Logical;

use crate::binder::BoundQuery;
use crate::optimizer::walk::each_operator;

impl BoundQuery {
    /// For each column of the result: the table and the place of the stored column whose values it shows, if there is
    /// one.
    pub fn origins(&self) -> Vec<Option<(TableId, usize)>> {
        let mut origins = vec![None; self.query.output.len()];
        each_operator(&self.query.root, &mut |operator| {
            let Logical::Scan(scan) = operator else { return };
            let definition = self.tables[scan.table].table();
            let table = definition.id;
            if table.is_attached() {
                return;
            }
            // A part of a column is not stored under a name of its own.
            let is_whole = |place: usize| definition.columns[place].part.is_none();
            for (id, place) in scan.columns.iter().filter(|(_, place)| is_whole(*place)) {
                let shown = self.query.output.iter().zip(&mut origins).filter(|((shown, _), _)| shown == id);
                shown.for_each(|(_, origin)| *origin = Some((table, *place)));
            }
        });
        origins
    }
}
