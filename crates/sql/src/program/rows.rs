//! What an analysed plan reads, while it is made a program: tables, conditions, and expressions over the columns of the tables.
//!
//! Projections, aliases and filters between are put into what stands above them, so that in the end every expression is over the
//! columns of stored tables. Those are called by the number of their table: `#0.name`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, NullEquality, TableReference};
use datafusion::logical_expr::logical_plan::TableScan;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, LogicalPlan};
use rowmill_base::SqlType;
use rowmill_plan::program::{LookupKind, Scalar};
use rowmill_storage::TableDef;

use super::scalar::base_column;
use super::spread::Spread;
use crate::names::lower;
use crate::substitution::substitute;
use crate::table_scan::SnapshotTable;

/// What expressions are over: the columns of the tables of a statement, or what was computed of all their rows.
#[derive(Clone, Debug)]
pub(super) struct BaseColumns {
    pub(super) tables: Vec<Arc<TableDef>>,
    /// What is known of their values.
    pub(super) spreads: Vec<Option<Arc<Spread>>>,
    /// Types of aggregates, which are called by their numbers.
    aggregates: Vec<SqlType>,
    schema: DFSchema,
}

impl BaseColumns {
    pub(super) fn none() -> BaseColumns {
        BaseColumns { tables: Vec::new(), spreads: Vec::new(), aggregates: Vec::new(), schema: DFSchema::empty() }
    }

    fn new(joined: &[JoinedTable]) -> Option<BaseColumns> {
        let tables: Vec<Arc<TableDef>> = joined.iter().map(|table| Arc::clone(&table.def)).collect();
        let spreads = joined.iter().map(|table| table.spread.clone()).collect();
        let mut schema = DFSchema::empty();
        for (number, table) in tables.iter().enumerate() {
            let name = TableReference::bare(format!("#{number}"));
            let stored = table.arrow_schema();
            let fields = stored.fields().iter().map(|field| Field::clone(field).with_name(lower(field.name())));
            let fields = Schema::new(fields.collect::<Vec<_>>());
            schema.merge(&DFSchema::try_from_qualified_schema(name, &fields).ok()?);
        }
        Some(BaseColumns { tables, spreads, aggregates: Vec::new(), schema })
    }

    pub(super) fn of_aggregates(kinds: Vec<SqlType>) -> Option<BaseColumns> {
        let field = |(number, kind): (usize, &SqlType)| Field::new(number.to_string(), kind.arrow(), true);
        let fields: Vec<Field> = kinds.iter().enumerate().map(field).collect();
        let schema = DFSchema::try_from_qualified_schema(TableReference::bare("#0"), &Schema::new(fields)).ok()?;
        Some(BaseColumns { tables: Vec::new(), spreads: Vec::new(), aggregates: kinds, schema })
    }

    pub(super) fn schema(&self) -> &DFSchema {
        &self.schema
    }

    /// The number of the table and the place of the column in it.
    pub(super) fn place(&self, column: &Column) -> Option<(usize, usize)> {
        let table: usize = column.relation.as_ref()?.table().strip_prefix('#')?.parse().ok()?;
        Some((table, self.tables.get(table)?.column_index(&column.name)?))
    }

    /// A column as a scalar.
    pub(super) fn scalar(&self, column: &Column) -> Option<Scalar> {
        if !self.aggregates.is_empty() {
            let number: usize = column.name.parse().ok()?;
            return Some(Scalar::column(self.aggregates.get(number)?.clone(), 0, number));
        }
        let (table, place) = self.place(column)?;
        Some(Scalar::column(self.tables[table].columns[place].kind.clone(), table, place))
    }
}

/// Rows of tables, joined from left to right.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) tables: Vec<JoinedTable>,
    /// What has to be true of a row of all tables.
    pub(super) conditions: Vec<Expr>,
    /// The columns of the plan.
    pub(super) exprs: Vec<Expr>,
    schema: DFSchemaRef,
}

/// One of the tables.
#[derive(Clone, Debug)]
pub(super) struct JoinedTable {
    pub(super) def: Arc<TableDef>,
    /// What is known of its values.
    spread: Option<Arc<Spread>>,
    pub(super) kind: LookupKind,
    /// Of an outer join, what makes a match.
    pub(super) on: Vec<Expr>,
}

impl Rows {
    /// The rows that `plan` gives, if it is made of tables, joins, filters and projections alone.
    pub(super) fn of(plan: &LogicalPlan) -> Option<Rows> {
        Rows::numbered(plan, 0)
    }

    /// The same, with tables numbered from `first`.
    fn numbered(plan: &LogicalPlan, first: usize) -> Option<Rows> {
        match plan {
            LogicalPlan::TableScan(scan) => Rows::of_table(scan, first),
            LogicalPlan::SubqueryAlias(alias) => {
                let rows = Rows::numbered(&alias.input, first)?;
                Some(Rows { schema: Arc::clone(&alias.schema), ..rows })
            }
            LogicalPlan::Projection(projection) => {
                let rows = Rows::numbered(&projection.input, first)?;
                let exprs = projection.expr.iter().map(|expr| rows.resolve(expr)).collect::<Option<_>>()?;
                Some(Rows { exprs, schema: Arc::clone(&projection.schema), ..rows })
            }
            LogicalPlan::Filter(filter) => {
                let mut rows = Rows::numbered(&filter.input, first)?;
                let condition = rows.resolve(&filter.predicate)?;
                rows.conditions.extend(split_conjunction_owned(condition));
                Some(rows)
            }
            LogicalPlan::Join(join) => {
                let left = Rows::numbered(&join.left, first)?;
                let right = Rows::numbered(&join.right, first + left.tables.len())?;
                if join.null_equality == NullEquality::NullEqualsNull {
                    return None;
                }
                if join.join_type == JoinType::Left && right.tables.len() != 1 {
                    return None;
                }
                let mut on = Vec::new();
                for (one, other) in &join.on {
                    on.push(left.resolve(one)?.eq(right.resolve(other)?));
                }
                let rows = left.beside(right, &join.schema);
                if let Some(filter) = &join.filter {
                    on.extend(split_conjunction_owned(rows.resolve(filter)?));
                }
                rows.join(join.join_type, on, first)
            }
            _ => None,
        }
    }

    fn of_table(scan: &TableScan, number: usize) -> Option<Rows> {
        let provider = source_as_provider(&scan.source).ok()?;
        let table = (&*provider as &dyn std::any::Any).downcast_ref::<SnapshotTable>()?;
        let def = Arc::clone(table.source().table());
        def.keyed.as_ref()?;
        if scan.fetch.is_some() {
            return None;
        }
        let schema = Arc::clone(&scan.projected_schema);
        let exprs = schema.columns().iter().map(|column| Expr::Column(base_column(number, &column.name))).collect();
        let spread = Spread::of(&**table.source()).map(Arc::new);
        let tables = vec![JoinedTable { def, spread, kind: LookupKind::Inner, on: Vec::new() }];
        let mut rows = Rows { tables, conditions: Vec::new(), exprs, schema };
        for filter in &scan.filters {
            let condition = rows.resolve(filter)?;
            rows.conditions.extend(split_conjunction_owned(condition));
        }
        Some(rows)
    }

    /// Rows of both, side by side.
    fn beside(self, right: Rows, schema: &DFSchemaRef) -> Rows {
        let mut rows = self;
        rows.tables.extend(right.tables);
        rows.exprs.extend(right.exprs);
        // Of an outer join the right side's conditions come before the join: it is not taken then.
        rows.conditions.extend(right.conditions);
        rows.schema = Arc::clone(schema);
        rows
    }

    fn join(mut self, kind: JoinType, on: Vec<Expr>, first: usize) -> Option<Rows> {
        match kind {
            JoinType::Inner => self.conditions.extend(on),
            JoinType::Left => {
                let number = format!("#{}", first + self.tables.len() - 1);
                let is_of_last = |expr: &Expr| {
                    let columns = expr.column_refs();
                    columns.iter().any(|column| column.relation.as_ref().is_some_and(|table| table.table() == number))
                };
                if self.conditions.iter().any(is_of_last) {
                    return None;
                }
                let last = self.tables.last_mut()?;
                last.kind = LookupKind::Left;
                last.on = on;
            }
            _ => return None,
        }
        Some(self)
    }

    /// `expr`, which is over the columns of the plan, over those of the tables.
    pub(super) fn resolve(&self, expr: &Expr) -> Option<Expr> {
        substitute(expr.clone(), &self.schema, &self.exprs).ok()
    }

    /// The columns of the tables.
    pub(super) fn columns(&self) -> Option<BaseColumns> {
        BaseColumns::new(&self.tables)
    }
}
