//! Filters of a query as predicates that the scan evaluates.
//!
//! A filter is taken over whole or not at all: what is translated the scan evaluates exactly, so the plan above it has
//! no filter left to run. Translated are comparisons of a column with a value of the column's own type, `IN`,
//! `BETWEEN`, `IS NULL`, `LIKE`, a boolean column by itself, and what `AND`, `OR` and `NOT` make of these. None of them
//! can fail, so it does not matter in which order the scan evaluates them.

use arrow::array::ArrayRef;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, Like};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use rowmill_plan::{CompareOp, Predicate};
use rowmill_storage::TableDef;

/// `filter` as a predicate over the columns of `table`, if it has only parts that a scan evaluates.
pub(crate) fn translate(filter: &Expr, table: &TableDef) -> Option<Predicate> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Some(Predicate::And(vec![translate(left, table)?, translate(right, table)?]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Some(Predicate::Or(vec![translate(left, table)?, translate(right, table)?]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => comparison(left, *op, right, table),
        Expr::Not(inner) => Some(Predicate::Not(Box::new(translate(inner, table)?))),
        Expr::IsNull(inner) => Some(Predicate::IsNull { column: column(inner, table)?, negated: false }),
        Expr::IsNotNull(inner) => Some(Predicate::IsNull { column: column(inner, table)?, negated: true }),
        Expr::Between(between) => range(between, table),
        Expr::InList(list) => in_list(list, table),
        Expr::Like(like) => pattern(like, table),
        Expr::Column(_) => truth(filter, table),
        _ => None,
    }
}

/// Whether a filter that a scan has taken was found true for all rows since: that a NOT NULL column is not NULL.
pub(crate) fn is_settled(filter: &Expr) -> bool {
    matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}

/// The place in the table of the column that `expr` is.
fn column(expr: &Expr, table: &TableDef) -> Option<usize> {
    match expr {
        Expr::Column(column) => table.column_index(&column.name),
        _ => None,
    }
}

/// The value that `expr` is, as one row of the type of column `column`. NULL compares to nothing and is left alone.
fn value(expr: &Expr, column: usize, table: &TableDef) -> Option<ArrayRef> {
    let Expr::Literal(scalar, _) = expr else { return None };
    if scalar.is_null() {
        return None;
    }
    let wanted = table.columns[column].kind.arrow();
    let scalar = same_type(scalar, &wanted)?;
    scalar.to_array().ok()
}

/// `scalar` as `wanted`, where that is the same value in another layout.
fn same_type(scalar: &ScalarValue, wanted: &DataType) -> Option<ScalarValue> {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_bytes = |kind: &DataType| matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let found = scalar.data_type();
    if found == *wanted {
        return Some(scalar.clone());
    }
    let same = (is_text(&found) && is_text(wanted)) || (is_bytes(&found) && is_bytes(wanted));
    if same { scalar.cast_to(wanted).ok() } else { None }
}

fn comparison(left: &Expr, op: Operator, right: &Expr, table: &TableDef) -> Option<Predicate> {
    let compare = |column_side: &Expr, op: Operator, value_side: &Expr| {
        let column = column(column_side, table)?;
        if !table.columns[column].kind.is_ordered() {
            return None;
        }
        let op = compare_op(op)?;
        Some(Predicate::Compare { column, op, value: value(value_side, column, table)? })
    };
    compare(left, op, right).or_else(|| compare(right, op.swap()?, left))
}

/// The comparison that `op` is, if it is one.
pub(crate) fn compare_op(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Equal,
        Operator::NotEq => CompareOp::NotEqual,
        Operator::Lt => CompareOp::Less,
        Operator::LtEq => CompareOp::LessOrEqual,
        Operator::Gt => CompareOp::Greater,
        Operator::GtEq => CompareOp::GreaterOrEqual,
        _ => return None,
    })
}

fn range(between: &Between, table: &TableDef) -> Option<Predicate> {
    let lower = comparison(&between.expr, Operator::GtEq, &between.low, table)?;
    let upper = comparison(&between.expr, Operator::LtEq, &between.high, table)?;
    let both = Predicate::And(vec![lower, upper]);
    Some(if between.negated { Predicate::Not(Box::new(both)) } else { both })
}

fn in_list(list: &InList, table: &TableDef) -> Option<Predicate> {
    let column = column(&list.expr, table)?;
    if !table.columns[column].kind.is_ordered() {
        return None;
    }
    let values = list.list.iter().map(|item| value(item, column, table)).collect::<Option<Vec<_>>>()?;
    let values = concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok()?;
    Some(Predicate::In { column, values, negated: list.negated })
}

fn pattern(like: &Like, table: &TableDef) -> Option<Predicate> {
    let column = column(&like.expr, table)?;
    let Expr::Literal(scalar, _) = &*like.pattern else { return None };
    let pattern = scalar.try_as_str()??.to_string();
    // The scan escapes with a backslash only.
    let plain_escape = like.escape_char.is_none_or(|escape| escape == '\\');
    (plain_escape && table.columns[column].kind.arrow() == DataType::Utf8View).then_some(Predicate::Like {
        column,
        pattern,
        negated: like.negated,
        ignore_case: like.case_insensitive,
    })
}

/// A boolean column as a condition.
fn truth(expr: &Expr, table: &TableDef) -> Option<Predicate> {
    let column = column(expr, table)?;
    let value = value(&Expr::Literal(ScalarValue::Boolean(Some(true)), None), column, table)?;
    Some(Predicate::Compare { column, op: CompareOp::Equal, value })
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};
    use rowmill_base::{ColumnId, SchemaId, SqlType, TableId};
    use rowmill_storage::ColumnDef;

    use super::*;

    fn table() -> TableDef {
        let column = |id, name: &str, kind| ColumnDef {
            id: ColumnId(id),
            name: name.into(),
            kind,
            nullable: true,
            default: None,
            missing: None,
        };
        TableDef {
            id: TableId(1),
            schema: SchemaId(0),
            name: "T".into(),
            version: 0,
            columns: vec![
                column(0, "A", SqlType::Int16),
                column(1, "S", SqlType::TEXT),
                column(2, "B", SqlType::Boolean),
                column(3, "I", SqlType::Interval),
            ],
            next_column: ColumnId(4),
            keyed: None,
        }
    }

    fn translated(filter: &Expr) -> String {
        format!("{:?}", translate(filter, &table()))
    }

    #[test]
    fn comparisons_are_taken_from_both_sides() {
        let Some(Predicate::Compare { column: 0, op: CompareOp::Less, .. }) =
            translate(&lit(7_i16).gt(col("a")), &table())
        else {
            panic!("7 > a is a < 7")
        };
        assert!(translated(&col("s").eq(lit("x"))).contains("Equal"));
    }

    #[test]
    fn values_of_other_types_and_null_are_left_to_the_plan_above() {
        assert_eq!(translated(&col("a").eq(lit(7_i64))), "None");
        assert_eq!(translated(&col("a").eq(lit(ScalarValue::Int16(None)))), "None");
        assert_eq!(translated(&col("i").eq(lit(ScalarValue::new_interval_mdn(0, 1, 0)))), "None");
        assert_eq!(translated(&col("a").eq(col("b"))), "None");
    }

    #[test]
    fn a_conjunction_is_taken_whole_or_not_at_all() {
        let whole = col("b").and(col("s").like(lit("%x%"))).or(col("a").is_null());
        assert!(translate(&whole, &table()).is_some());
        assert!(translate(&whole.and(col("a").eq(col("a") + lit(1_i16))), &table()).is_none());
    }

    #[test]
    fn lists_have_one_type() {
        let list = col("a").in_list(vec![lit(1_i16), lit(-1_i16)], true);
        let Some(Predicate::In { values, negated: true, .. }) = translate(&list, &table()) else { panic!("a list") };
        assert_eq!(values.len(), 2);
        assert!(
            translate(&col("a").in_list(vec![lit(1_i16), lit(ScalarValue::Int16(None))], false), &table()).is_none()
        );
    }
}
