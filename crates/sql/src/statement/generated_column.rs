//! Generated columns: `c INTEGER GENERATED ALWAYS AS (a + b) STORED`, `c INTEGER AS (a + b)` and `c AS (a + b)`.
//!
//! The catalog keeps the text of the expression. Every statement that writes a row computes the column from the others
//! and stores it, also if it is declared as `VIRTUAL`. So reads, indexes and zone maps treat it as any other column.
//!
//! A stored value must stay the value of its expression. So an expression reads no generated column, no other row, no
//! clock and no session. It sees instants in UTC, whatever the time zone of the session is.

use std::sync::Arc;

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::session_zone::with_session_zone;
use rowmill_plan::{ExprOp, ScalarExpr, Volatility};
use rowmill_query::binder::{self, BoundExprs, ExprColumn};
use rowmill_query::syntax_walk::has_query;
use rowmill_storage::TableDef;
use rowmill_txn::{ColumnSpec, Snapshot};
use sqlparser::ast::{self, Expr, Ident, ObjectName, ObjectNamePart};

use super::clause::unsupported;
use super::create_table::type_of_field;
use super::on_conflict::give_type;
use super::sql_text::{self, name_text};
use crate::assign::check_pair;
use crate::names::lower;
use crate::parse::UNTYPED;
use crate::query_catalog::ContextCatalog;
use crate::session::Work;

/// The name of the clause in errors.
const CLAUSE: &str = "GENERATED ALWAYS AS";

/// The expression of a column that a statement defines as generated.
pub(super) fn expression(column: &ast::ColumnDef) -> Option<&Expr> {
    column.options.iter().find_map(|option| match &option.option {
        ast::ColumnOption::Generated { generation_expr: Some(expr), .. } => Some(expr),
        _ => None,
    })
}

/// Whether a type stands for that of the column's expression, because the statement names none.
pub(super) fn is_untyped(kind: &ast::DataType) -> bool {
    matches!(kind, ast::DataType::Custom(ObjectName(parts), _)
        if matches!(&parts[..], [ObjectNamePart::Identifier(name)] if name.value == UNTYPED))
}

/// The generated columns of one table, by their places, with their expressions over the columns of the table.
pub(in crate::statement) struct GeneratedExprs(Vec<(usize, ScalarExpr)>);

impl GeneratedExprs {
    /// Binds the expressions of a table.
    pub(in crate::statement) fn of(
        work: &Work<'_>,
        snapshot: &Arc<Snapshot>,
        table: &TableDef,
    ) -> Result<GeneratedExprs> {
        if table.rules.generated.is_empty() {
            return Ok(GeneratedExprs(Vec::new()));
        }
        let scope = scope_of(&table.name, table.columns.iter().map(|column| (&*column.name, &column.kind)));
        let defs = table.rules.generated.iter().filter_map(|def| Some((table.column_by_id(def.column)?, &def.sql)));
        let bound = defs.map(|(place, sql)| {
            let expr = sql_text::expr(sql, work.settings())?;
            let (mut value, _) = bind(work, snapshot, &expr, &scope)?;
            give_type(&mut value, &table.columns[place].kind.arrow());
            Ok((place, value))
        });
        bound.collect::<Result<_>>().map(GeneratedExprs)
    }

    /// The expression of the column at a place, if it is generated.
    pub(in crate::statement) fn at(&self, place: usize) -> Option<&ScalarExpr> {
        self.0.iter().find(|(other, _)| *other == place).map(|(_, expr)| expr)
    }

    /// The places of the generated columns that read a column.
    pub(super) fn readers(&self, column: usize) -> impl Iterator<Item = usize> {
        self.0.iter().filter(move |(_, expr)| reads(expr, column)).map(|(place, _)| *place)
    }
}

/// Whether an expression reads the column at a place.
pub(super) fn reads(expr: &ScalarExpr, column: usize) -> bool {
    expr.any(&|part| matches!(part.op, ExprOp::Column(other) if other == column))
}

fn scope_of<'c>(table: &str, columns: impl Iterator<Item = (&'c str, &'c SqlType)>) -> Vec<ExprColumn> {
    let column = |(name, kind): (&str, &SqlType)| ExprColumn {
        schema: None,
        table: Some(lower(table)),
        name: name.to_owned(),
        kind: kind.arrow(),
    };
    columns.map(column).collect()
}

/// Binds an expression. Also returns whether it contains the time of the transaction.
fn bind(work: &Work<'_>, snapshot: &Arc<Snapshot>, expr: &Expr, scope: &[ExprColumn]) -> Result<(ScalarExpr, bool)> {
    let catalog = ContextCatalog::new(work.context(Arc::clone(snapshot)));
    let spelling = |ident: &Ident| ident.value.clone();
    let bind = || binder::bind_expr(expr, scope, CLAUSE, &catalog, &spelling, &[]);
    let BoundExprs { mut exprs, reads_clock, .. } = with_session_zone(None, || work.with_planning_room(bind))?;
    let expr = exprs.pop().ok_or_else(|| Error::internal("one expression was bound"))?;
    Ok((expr, reads_clock))
}

/// A generated column that a statement defines.
pub(super) struct NewGenerated<'a> {
    /// Its place among the columns of the table.
    pub(super) place: usize,
    pub(super) expr: &'a Expr,
    /// Whether the column gets the type of the expression.
    pub(super) is_untyped: bool,
}

impl<'a> NewGenerated<'a> {
    /// The generated columns among the columns of a CREATE TABLE.
    pub(super) fn of(columns: &'a [ast::ColumnDef]) -> Vec<NewGenerated<'a>> {
        let new = |(place, column): (usize, &'a ast::ColumnDef)| {
            Some(NewGenerated { place, expr: expression(column)?, is_untyped: is_untyped(&column.data_type) })
        };
        columns.iter().enumerate().filter_map(new).collect()
    }
}

/// Checks generated columns of a table with these columns. Some may be `known` as generated from before. A column
/// without a type gets that of its expression. Returns the places of the new ones and the texts to keep.
pub(super) fn check(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    table: &str,
    columns: &mut [ColumnSpec],
    new: &[NewGenerated<'_>],
    known: &[usize],
) -> Result<Vec<(usize, String)>> {
    let is_generated = |place: usize| known.contains(&place) || new.iter().any(|new| new.place == place);
    if !new.is_empty() && (0..columns.len()).all(is_generated) {
        let what = format!("all columns of table \"{table}\" are generated");
        return Err(Error::new(ErrorKind::InvalidDefinition, what).hint("a row needs a column that is given"));
    }
    let scope = scope_of(table, columns.iter().map(|column| (&*column.name, &column.kind)));
    let mut texts = Vec::with_capacity(new.len());
    for NewGenerated { place, expr, is_untyped } in new {
        let name = columns[*place].name.clone();
        let text = expr.to_string();
        let wrong = |what: &str| {
            Error::new(ErrorKind::InvalidDefinition, format!("generated column \"{name}\": {text} {what}"))
        };
        if work.statement.parameter_count() > 0 {
            return Err(unsupported(CLAUSE, "a parameter"));
        }
        if has_query(*expr) {
            return Err(wrong("has a subquery").hint("it can use the other columns of its row"));
        }
        let (bound, reads_clock) = bind(work, snapshot, expr, &scope)
            .map_err(|error| error.context(format!("generated column \"{name}\" AS ({text})")))?;
        if let Some(other) = (0..columns.len()).find(|other| is_generated(*other) && reads(&bound, *other)) {
            let what = format!("reads \"{}\", which is a generated column, too", columns[other].name);
            return Err(wrong(&what).hint("write the expression of that column in its place"));
        }
        if reads_clock || bound.volatility() != Volatility::Immutable {
            return Err(wrong("can give another value at another time").hint(
                "it must follow from the other columns of its row; a DEFAULT may use now(), random() or a sequence",
            ));
        }
        let column = &mut columns[*place];
        if *is_untyped {
            column.kind = type_of_field(&name, &bound.kind)?;
        }
        check_type(&bound.kind, &name, &column.kind)?;
        texts.push((*place, text));
    }
    Ok(texts)
}

/// Checks that values of an expression of the type `found` can be stored in a column. An assignment between instants
/// and other times would depend on the session, so it is refused.
fn check_type(found: &DataType, column: &str, kind: &SqlType) -> Result<()> {
    check_pair(found, kind, column)?;
    let is_zoned = |kind: &DataType| matches!(kind, DataType::Timestamp(_, Some(_)));
    if is_zoned(found) == is_zoned(&kind.arrow()) || *found == DataType::Null {
        return Ok(());
    }
    let found = SqlType::from_arrow(found).map_or_else(|| found.to_string(), |found| found.to_string());
    let what = format!("generated column \"{column}\" takes {kind}, and its expression is of type {found}");
    Err(Error::new(ErrorKind::DatatypeMismatch, what).hint(format!("CAST(... AS {kind}) converts in UTC")))
}

/// Checks that a column of a table may get the type `kind`: no generated column may read it, and the expression of a
/// generated column must fit.
pub(super) fn check_new_type(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    table: &TableDef,
    place: usize,
    kind: &SqlType,
) -> Result<()> {
    let generated = GeneratedExprs::of(work, snapshot, table)?;
    let column = &table.columns[place];
    if let Some(reader) = generated.readers(place).next() {
        return Err(is_read(table, place, reader, "so its type must stay"));
    }
    generated.at(place).map_or(Ok(()), |expr| check_type(&expr.kind, &column.name, kind))
}

/// Refuses to drop the column at a place if a generated column reads it that is not dropped, too.
pub(super) fn check_drop(
    work: &Work<'_>,
    snapshot: &Arc<Snapshot>,
    table: &TableDef,
    place: usize,
    is_dropped: impl Fn(usize) -> bool,
) -> Result<()> {
    let generated = GeneratedExprs::of(work, snapshot, table)?;
    let reader = generated.readers(place).find(|reader| !is_dropped(*reader));
    reader.map_or(Ok(()), |reader| Err(is_read(table, place, reader, "so it cannot be dropped")))
}

fn is_read(table: &TableDef, place: usize, reader: usize, end: &str) -> Error {
    let (column, reader) = (&table.columns[place].name, &table.columns[reader].name);
    let what = format!("the generated column \"{reader}\" of table \"{}\" reads \"{column}\", {end}", table.name);
    Error::new(ErrorKind::DependentObjects, what).hint(format!(
        "drop it first: ALTER TABLE {} DROP COLUMN {}",
        name_text(&table.name),
        name_text(reader)
    ))
}

/// Refuses a clause of ALTER COLUMN that a generated column cannot have.
pub(super) fn refuse_clause(table: &TableDef, column: &rowmill_storage::ColumnDef, clause: &str) -> Result<()> {
    match table.generated(column.id) {
        None => Ok(()),
        Some(_) => {
            let what =
                format!("column \"{}\" of table \"{}\" is generated, so it has no {clause}", column.name, table.name);
            Err(Error::new(ErrorKind::InvalidDefinition, what))
        }
    }
}
