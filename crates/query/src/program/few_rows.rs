//! The first rows of an order, when conditions and order have different keys.
//!
//! ```text
//! WHERE status = $1 ORDER BY created DESC LIMIT 20     with an index on status and an index on created
//! ```
//!
//! A search by `created` is short if many rows match, a read by `status` if few do. Only the values of the parameters
//! tell, so the program must have both reads, and counts the rows by `status` before it chooses. It should not count
//! if statistics say that few rows match any value.
//!
//! The condition and the order may belong to different tables of a join. Then a search by the order looks up the other
//! table for each row:
//!
//! ```text
//! orders JOIN users ... WHERE users.country = $1 ORDER BY orders.created DESC LIMIT 20
//!
//! few users of the country      those users, the orders of each of them, sort
//! many users of the country     orders by created, the user of each of them, until 20 are of the country
//! ```

use rowmill_base::SqlType;
use rowmill_plan::logical::{LogicalScan, LogicalSortKey};
use rowmill_plan::program::{
    Access, FewRows, LookupKind, LookupSource, NestedLookup, ReadOutput, ReadPlan, Scalar, ScalarValue,
};
use rowmill_plan::{ColumnId, ScalarExpr};

use super::ProgramBuilder;
use super::access::{KeyChoice, choices};
use super::key_condition::OwnColumns;
use super::lookups::{Lookups, SEARCHED_ROWS, Wanted};
use super::output::ROWS_OF_A_PAGE;
use super::relation::RelationSource;
use super::scalar::Scope;
use super::spread::ValueSpread;
use super::stage::{Grouping, Stage};

/// We do not trust an estimate of a smaller share, and use this share instead.
const LEAST_SHARE: f64 = 1e-4;

/// By this factor, fewer rows than the limit must be expected for a read by the conditions alone.
const CERTAINLY_FEW: f64 = 10.0;

impl<'p> ProgramBuilder<'p> {
    /// Two reads in place of `read`, if the stage can be read both by its conditions and in its order. `order`
    /// is the order of the stage over the columns of its scan, and `is_ordered` says whether `read` follows it.
    pub(super) fn with_few_rows(
        &self,
        stage: &Stage<'p>,
        (order, is_ordered): (&[LogicalSortKey], bool),
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
        read: &ReadPlan,
    ) -> Option<ReadPlan> {
        let (scan, needed) = (stage.only_scan()?, stage.cut()?);
        let [NestedLookup { source: LookupSource::Table(_), .. }] = &read.lookups[..] else { return None };
        // A read by a key that gives both conditions and order needs no second one.
        if order.is_empty() || is_ordered && read.rows_max != Some(SEARCHED_ROWS) {
            return None;
        }
        let source = &*self.tables[scan.table];
        let own = OwnColumns { def: source.table(), columns: &scan.columns, known: outer };
        let known = |id: usize| scan.columns.iter().any(|(own, _)| own.0 == id) || outer.has(id);
        let conditions = stage.conditions_of(scan).map(|expr| self.definitions.resolve(expr, &known));
        let conditions: Vec<ScalarExpr> = conditions.collect();
        let facts = ValueSpread::of(source);
        let choices = choices(&own, &conditions.iter().collect::<Vec<_>>(), &facts);
        let by_conditions = choices.iter().find(|choice| choice.narrows())?;
        let by_order = choices.iter().find(|choice| !choice.narrows() && choice.gives(order, &own).is_some())?;
        let by_key = self.read_by(stage, scan, &conditions, by_conditions.clone(), false, outer, first_row, ids)?;
        let late = self.with_late_rows(stage, outer, first_row, ids, &by_key);
        // Rows of the key that do not meet the other conditions make a search longer, as if the table had more rows.
        let shares = self.known_shares(scan, &conditions, outer);
        let others = shares.iter().enumerate().filter(|(at, _)| !by_conditions.answered.contains(at));
        let others: f64 = others.filter_map(|(_, share)| *share).product();
        let few = FewRows {
            counted: vec![by_conditions.access.clone()],
            needed,
            table_rows: (source.row_count() as f64 / others.max(LEAST_SHARE)) as u64,
            read: late.unwrap_or(by_key),
        };
        let few_max = few.rows_max(ROWS_OF_A_PAGE as u64, SEARCHED_ROWS) as f64;
        let are_few = facts.is_known() && by_conditions.rows * CERTAINLY_FEW < few_max;
        if by_conditions.is_point || !is_ordered && are_few {
            return None;
        }
        let mut by_order = by_order.clone();
        by_order.access.backward = by_order.gives(order, &own)?;
        let searched = self.read_by(stage, scan, &conditions, by_order, true, outer, first_row, ids)?;
        Some(ReadPlan { rows_max: Some(SEARCHED_ROWS), few: Some(Box::new(few)), ..searched })
    }

    /// Two reads in place of `read`, which searches a table in the order of the stage, if an OR of its conditions can
    /// be read part by part: `sku = $1 OR category = $2`.
    pub(super) fn with_few_parts(
        &self,
        stage: &Stage<'p>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
        read: &ReadPlan,
    ) -> Option<ReadPlan> {
        let (scan, needed) = (stage.only_scan()?, stage.cut()?);
        if stage.order.is_empty() || read.rows_max != Some(SEARCHED_ROWS) || read.few.is_some() {
            return None;
        }
        let (parts, filter) = self.lookups(&stage.relation, outer, first_row, Wanted::default())?;
        let [NestedLookup { source: LookupSource::Reads(reads), .. }] = &parts.lookups[..] else { return None };
        let counted = reads.iter().map(|part| counted_access(part).cloned()).collect::<Option<Vec<Access>>>()?;
        let (output, _) = self.rows(stage, &parts.scope, ids, false)?;
        let (lookups, output) = (parts.lookups, ReadOutput::Rows(output));
        let of_parts = ReadPlan { lookups, filter, output, for_update: false, rows_max: parts.rows_max, few: None };
        let table_rows = self.tables[scan.table].row_count();
        let few = FewRows { counted, needed, table_rows, read: of_parts };
        Some(ReadPlan { few: Some(Box::new(few)), ..read.clone() })
    }

    /// Two reads in place of `read`, if the stage joins tables and can also be read in its order. `read` begins with a
    /// key that answers conditions, and gives about `rows_of_each` rows for each row of that key.
    pub(super) fn with_few_joined(
        &self,
        stage: &Stage<'p>,
        wanted: Wanted<'_>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
        (read, rows_of_each): (&ReadPlan, f64),
    ) -> Option<ReadPlan> {
        let changes =
            |source: &RelationSource<'_>| matches!(source, RelationSource::Scan(scan) if scan.row_number.is_some());
        if wanted.order.is_empty() || stage.relation.sources.iter().any(changes) {
            return None;
        }
        let few = self.few_rows(stage, read, rows_of_each)?;
        let wanted = Wanted { needs_order: true, ..wanted };
        let (searched, filter) = self.lookups(&stage.relation, outer, first_row, wanted)?;
        let (mut output, _) = self.rows(stage, &searched.scope, ids, searched.is_ordered)?;
        output.presorted = searched.presorted.keys.min(output.order.len());
        let (lookups, output) = (searched.lookups, ReadOutput::Rows(output));
        let few = Some(Box::new(few));
        Some(ReadPlan { lookups, filter, output, for_update: false, rows_max: Some(SEARCHED_ROWS), few })
    }

    /// `searched`, which finds the rows of a stage in its order, with `turned` in its place if few rows match. `turned`
    /// begins with the values of a semi join.
    pub(super) fn with_few_values(
        &self,
        stage: &Stage<'p>,
        searched: &ReadPlan,
        turned: &ReadPlan,
    ) -> Option<ReadPlan> {
        let ReadOutput::Rows(rows) = &searched.output else { return None };
        if searched.few.is_some() || stage.order.is_empty() || !rows.order.is_empty() {
            return None;
        }
        let few = self.few_rows(stage, turned, 1.0)?;
        Some(ReadPlan { few: Some(Box::new(few)), rows_max: Some(SEARCHED_ROWS), ..searched.clone() })
    }

    /// The read of all matching rows, for a stage whose minimum or maximum `searched` finds by a key that answers no
    /// condition. For example, the least id of a day is searched by id, or read from the entries of the day.
    pub(super) fn few_matches(
        &self,
        stage: &Stage<'p>,
        grouping: &Grouping<'p>,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
        searched: &Lookups,
    ) -> Option<FewRows> {
        let table = |lookups: &Lookups| match &lookups.lookups[..] {
            [NestedLookup { kind: LookupKind::Inner, source: LookupSource::Table(access), .. }] => Some(access.clone()),
            _ => None,
        };
        if table(searched)?.narrows() {
            return None;
        }
        let (lookups, filter) = self.lookups(&stage.relation, outer, first_row, Wanted::default())?;
        let counted = table(&lookups).filter(Access::narrows)?;
        let table_rows = self.table_rows(&counted)?;
        let output = ReadOutput::Groups(self.group_output(stage, grouping, &lookups.scope, ids, false)?);
        let (lookups, rows_max) = (lookups.lookups, lookups.rows_max);
        let read = ReadPlan { lookups, filter, output, for_update: false, rows_max, few: None };
        let needed = Scalar::literal(SqlType::Int64, ScalarValue::Int(1));
        Some(FewRows { counted: vec![counted], needed, table_rows, read })
    }

    /// `read` for few rows of the key with which it begins. It gives about `rows_of_each` rows for each of them.
    fn few_rows(&self, stage: &Stage<'p>, read: &ReadPlan, rows_of_each: f64) -> Option<FewRows> {
        let needed = stage.cut()?;
        let counted = counted_access(read)?;
        // The rows of the join count as if the table had fewer rows: each row of the key costs more.
        let table_rows = (self.table_rows(counted)? as f64 / rows_of_each.max(1.0)) as u64;
        // The entries of the key are counted, not groups of them.
        let counted = vec![Access { distinct: None, ..counted.clone() }];
        Some(FewRows { counted, needed, table_rows, read: read.clone() })
    }

    /// The number of rows of the table that `access` reads.
    fn table_rows(&self, access: &Access) -> Option<u64> {
        Some(self.tables.iter().find(|table| table.table().id == access.table)?.row_count())
    }

    /// The read of a stage by one key of its only table.
    #[expect(clippy::too_many_arguments, reason = "a stage, its key, and the rows around it")]
    fn read_by(
        &self,
        stage: &Stage<'p>,
        scan: &LogicalScan,
        conditions: &[ScalarExpr],
        key: KeyChoice,
        is_ordered: bool,
        outer: &Scope,
        first_row: usize,
        ids: &[ColumnId],
    ) -> Option<ReadPlan> {
        let mut scope = outer.clone();
        let lookups = vec![self.lookup_by(key, scan, conditions, first_row, &mut scope)?];
        let (output, _) = self.rows(stage, &scope, ids, is_ordered)?;
        let output = ReadOutput::Rows(output);
        Some(ReadPlan { lookups, filter: None, output, for_update: false, rows_max: None, few: None })
    }
}

/// The access with which a read begins, if its key answers conditions.
fn counted_access(read: &ReadPlan) -> Option<&Access> {
    let NestedLookup { kind: LookupKind::Inner, source, .. } = read.lookups.first()? else { return None };
    match source {
        LookupSource::Table(access) => (!access.equal.is_empty() || !access.alternatives.is_empty()).then_some(access),
        LookupSource::Reads(reads) => match &reads[..] {
            [read] => counted_access(read),
            _ => None,
        },
        _ => None,
    }
}
