//! Conditions on the columns of one table that a scan can check itself.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{Decimal128Type, Decimal256Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rowmill_base::{NumberedNative, NumberedType, Result};

/// A comparison of a column with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl CompareOp {
    /// The operator with its sides exchanged.
    #[must_use]
    pub fn flipped(self) -> Self {
        match self {
            CompareOp::Less => CompareOp::Greater,
            CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
            CompareOp::Greater => CompareOp::Less,
            CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
            same => same,
        }
    }

    /// Whether two values that are in the order `order` meet the operator.
    #[inline]
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            CompareOp::Equal => order.is_eq(),
            CompareOp::NotEqual => order.is_ne(),
            CompareOp::Less => order.is_lt(),
            CompareOp::LessOrEqual => order.is_le(),
            CompareOp::Greater => order.is_gt(),
            CompareOp::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl fmt::Display for CompareOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "<>",
            CompareOp::Less => "<",
            CompareOp::LessOrEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterOrEqual => ">=",
        })
    }
}

/// A condition in SQL's three-valued logic. A row meets it only if it is true. Columns are positions in the table's
/// definition. Values are arrays of the column's Arrow type and must not contain NULL.
#[derive(Clone, Debug)]
pub enum Predicate {
    /// `column op value`
    Compare {
        /// The column.
        column: usize,
        /// The operator.
        op: CompareOp,
        /// The value, as an array of one row.
        value: ArrayRef,
    },
    /// `column [NOT] IN (values)`
    In {
        /// The column.
        column: usize,
        /// The values.
        values: ArrayRef,
        /// `NOT IN`
        negated: bool,
    },
    /// `column IS [NOT] NULL`
    IsNull {
        /// The column.
        column: usize,
        /// `IS NOT NULL`
        negated: bool,
    },
    /// `column [NOT] LIKE pattern`, with `\` as the escape.
    Like {
        /// The column, a text.
        column: usize,
        /// The pattern.
        pattern: String,
        /// `NOT LIKE`
        negated: bool,
        /// `ILIKE`
        ignore_case: bool,
    },
    /// True if all parts are.
    And(Vec<Predicate>),
    /// True if any part is.
    Or(Vec<Predicate>),
    /// The negation.
    Not(Box<Predicate>),
    /// Any other condition.
    Computed(Arc<dyn ComputedCondition>),
}

/// A condition that must be computed from the values of its columns. Its result depends on these values alone, so a
/// scan may compute it for any values, in any order and any number of times.
pub trait ComputedCondition: fmt::Debug + Send + Sync {
    /// The columns that the condition reads, at least one, as ascending positions in the table's definition.
    fn columns(&self) -> &[usize];

    /// Whether the condition can fail while each integer column has only values of its range. `of_column` gives the
    /// least and the greatest value of a column, or `None` if they are unknown. An error counts only if a row for which
    /// it is returned meets all other conditions of the scan.
    fn can_fail(&self, of_column: &dyn Fn(usize) -> Option<(i128, i128)>) -> bool;

    /// Whether the condition is true for no row while each integer column has only values of its range. `of_column` is
    /// that of [`ComputedCondition::can_fail`].
    fn is_never_true(&self, of_column: &dyn Fn(usize) -> Option<(i128, i128)>) -> bool;

    /// Computes the condition for the `rows` rows of `input`. The result is NULL where the condition is unknown.
    fn evaluate(&self, input: &mut dyn ConditionInput, rows: usize) -> Result<BooleanArray>;

    /// The estimated share of rows that meet the condition.
    fn share(&self) -> f64;

    /// The condition as SQL, with `name` naming the columns.
    fn text(&self, name: &dyn Fn(usize) -> String) -> String;
}

/// The rows that a condition is computed for.
pub trait ConditionInput {
    /// The values of a column, one for each row.
    fn values(&mut self, column: usize) -> Result<ArrayRef>;

    /// The values of a column, each once, and for each row the place of its value among these. `None` if they are not
    /// known, or if there are nearly as many values as rows. Some values may belong to no row. `for_costly` says that
    /// computing with a value costs more than finding its place.
    fn listed(&mut self, column: usize, for_costly: bool) -> Result<Option<(ArrayRef, Vec<u32>)>>;
}

impl Predicate {
    /// Whether computing the condition can fail. `of_column` gives the range of an integer column, as for
    /// [`ComputedCondition::can_fail`].
    pub fn can_fail(&self, of_column: &dyn Fn(usize) -> Option<(i128, i128)>) -> bool {
        match self {
            Predicate::Compare { .. } | Predicate::In { .. } | Predicate::IsNull { .. } | Predicate::Like { .. } => {
                false
            }
            Predicate::Computed(condition) => condition.can_fail(of_column),
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(|part| part.can_fail(of_column)),
            Predicate::Not(part) => part.can_fail(of_column),
        }
    }

    /// Adds every column that the condition reads to `columns`, each once.
    pub fn collect_columns(&self, columns: &mut Vec<usize>) {
        let mut add = |column: &usize| {
            if !columns.contains(column) {
                columns.push(*column);
            }
        };
        match self {
            Predicate::Compare { column, .. }
            | Predicate::In { column, .. }
            | Predicate::IsNull { column, .. }
            | Predicate::Like { column, .. } => add(column),
            Predicate::Computed(condition) => condition.columns().iter().for_each(add),
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|part| part.collect_columns(columns)),
            Predicate::Not(part) => part.collect_columns(columns),
        }
    }

    /// The condition as SQL, with `name` naming the columns.
    pub fn display<'a>(&'a self, name: &'a dyn Fn(usize) -> String) -> impl fmt::Display + 'a {
        Displayed { predicate: self, name }
    }
}

struct Displayed<'a> {
    predicate: &'a Predicate,
    name: &'a dyn Fn(usize) -> String,
}

impl fmt::Display for Displayed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Predicate], word: &str| {
            f.write_str("(")?;
            for (index, part) in parts.iter().enumerate() {
                write!(f, "{}{}", if index > 0 { word } else { "" }, part.display(self.name))?;
            }
            f.write_str(")")
        };
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match self.predicate {
            Predicate::Compare { column, op, value } => {
                write!(f, "{} {op} {}", (self.name)(*column), value_text(value, 0))
            }
            Predicate::In { column, values, negated } => {
                write!(f, "{} {}IN (", (self.name)(*column), not(*negated))?;
                // A list may have thousands of values, so we show only the first ones.
                const SHOWN: usize = 10;
                for row in 0..values.len().min(SHOWN) {
                    write!(f, "{}{}", if row > 0 { ", " } else { "" }, value_text(values, row))?;
                }
                f.write_str(if values.len() > SHOWN { ", ...)" } else { ")" })
            }
            Predicate::IsNull { column, negated } => write!(f, "{} IS {}NULL", (self.name)(*column), not(*negated)),
            Predicate::Like { column, pattern, negated, ignore_case } => {
                let word = if *ignore_case { "ILIKE" } else { "LIKE" };
                write!(f, "{} {}{word} '{}'", (self.name)(*column), not(*negated), pattern.replace('\'', "''"))
            }
            Predicate::And(parts) => list(f, parts, " AND "),
            Predicate::Or(parts) => list(f, parts, " OR "),
            Predicate::Not(part) => write!(f, "NOT {}", part.display(self.name)),
            Predicate::Computed(condition) => f.write_str(&condition.text(self.name)),
        }
    }
}

/// The text of a value of a numbered type, without quotes. Arrow does not know such types.
pub(crate) fn numbered_text(values: &ArrayRef, row: usize) -> Option<String> {
    let kind = NumberedType::of_arrow(values.data_type())?;
    let mut text = String::new();
    let number = match kind.is_wide() {
        true => values.as_primitive::<Decimal256Type>().value(row).to_number(),
        false => values.as_primitive::<Decimal128Type>().value(row).to_number(),
    };
    kind.write(number, &mut text);
    Some(text)
}

fn value_text(values: &ArrayRef, row: usize) -> String {
    if let Some(text) = numbered_text(values, row) {
        return format!("'{text}'");
    }
    let text = match ArrayFormatter::try_new(values, &FormatOptions::default()) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => "?".to_owned(),
    };
    match values.data_type().is_numeric() {
        true => text,
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn conditions_read_as_sql() {
        let predicate = Predicate::And(vec![
            Predicate::Compare { column: 0, op: CompareOp::GreaterOrEqual, value: Arc::new(Int64Array::from(vec![5])) },
            Predicate::Not(Box::new(Predicate::In {
                column: 1,
                values: Arc::new(StringViewArray::from(vec!["a", "it's"])),
                negated: false,
            })),
            Predicate::Like { column: 1, pattern: "%x%".into(), negated: true, ignore_case: false },
        ]);
        let name = |column: usize| ["n", "s"][column].to_owned();
        assert_eq!(predicate.display(&name).to_string(), "(n >= 5 AND NOT s IN ('a', 'it''s') AND s NOT LIKE '%x%')");
    }
}
