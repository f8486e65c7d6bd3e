//! Formats expressions as SQL text, for EXPLAIN and for the names of columns.

use std::fmt::Write;

use arrow::datatypes::DataType;
use rowmill_plan::program::ArithmeticOp;
use rowmill_plan::{Constant, ExprOp, ScalarExpr};

use crate::kinds::{is_number, type_name};
use crate::text;

/// How tightly an operator binds its operands. An operand that binds less tightly must be in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Or,
    And,
    Not,
    Is,
    Compare,
    Sum,
    Product,
    Sign,
    Whole,
}

/// Formats `expr` as SQL text. `name` returns the name of a column by its number.
pub fn sql_text(expr: &ScalarExpr, name: &dyn Fn(usize) -> String) -> String {
    let mut writer = ExprWriter { out: String::new(), name };
    writer.write(expr);
    writer.out
}

/// Formats a value as SQL text: `5`, `'it''s'`, `DATE '2013-07-31'`.
pub(crate) fn literal_text(value: &Constant) -> String {
    let Some(shown) = text::format(value.array(), 0).filter(|_| !value.is_null()) else {
        return "NULL".to_owned();
    };
    let kind = value.kind();
    match kind {
        // NaN and the infinities have no number literal.
        DataType::Float32 | DataType::Float64 if shown.ends_with(['N', 'y']) => quoted_as(kind, &shown),
        _ if is_number(kind) || *kind == DataType::Boolean => shown,
        DataType::List(_) | DataType::Struct(_) => shown,
        DataType::Utf8View => quoted(&shown),
        _ => quoted_as(kind, &shown),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn quoted_as(kind: &DataType, text: &str) -> String {
    format!("{} {}", type_name(kind), quoted(text))
}

struct ExprWriter<'a> {
    out: String,
    name: &'a dyn Fn(usize) -> String,
}

impl ExprWriter<'_> {
    /// Writes `expr`, in parentheses if it binds less tightly than `least`.
    fn operand(&mut self, expr: &ScalarExpr, least: Binding) {
        match binding(expr) < least {
            true => {
                self.out.push('(');
                self.write(expr);
                self.out.push(')');
            }
            false => self.write(expr),
        }
    }

    fn pair(&mut self, left: &ScalarExpr, op: impl std::fmt::Display, right: &ScalarExpr, least: Binding) {
        self.operand(left, least);
        self.push(format_args!(" {op} "));
        // Operators of one kind associate to the left, so the right operand must bind tighter.
        self.operand(right, tighter(least));
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn joined(&mut self, exprs: &[ScalarExpr], separator: &str, least: Binding) {
        for (i, expr) in exprs.iter().enumerate() {
            if i > 0 {
                self.out.push_str(separator);
            }
            self.operand(expr, least);
        }
    }

    fn call(&mut self, name: &str, arguments: &[ScalarExpr]) {
        self.push(format_args!("{name}("));
        self.joined(arguments, ", ", Binding::Or);
        self.out.push(')');
    }

    fn write(&mut self, expr: &ScalarExpr) {
        match &expr.op {
            ExprOp::Column(column) => {
                let name = (self.name)(*column);
                self.out.push_str(&name);
            }
            ExprOp::Parameter(number) => self.push(format_args!("${}", number + 1)),
            ExprOp::Literal(value) => self.out.push_str(&literal_text(value)),
            ExprOp::Arithmetic(op, pair) => self.pair(&pair[0], op, &pair[1], binding(expr)),
            ExprOp::Negate(value) => {
                self.out.push('-');
                // Two adjacent signs would begin a comment, so a signed operand must be in parentheses.
                self.operand(value, Binding::Whole);
            }
            ExprOp::Compare(op, pair) => {
                self.operand(&pair[0], Binding::Sum);
                self.push(format_args!(" {op} "));
                self.operand(&pair[1], Binding::Sum);
            }
            ExprOp::IsDistinct { operands, negated } => {
                self.operand(&operands[0], Binding::Compare);
                self.out.push_str(if *negated { " IS NOT DISTINCT FROM " } else { " IS DISTINCT FROM " });
                self.operand(&operands[1], Binding::Compare);
            }
            ExprOp::CompareRows(op, left, right) => {
                self.call("", left);
                self.push(format_args!(" {op} "));
                self.call("", right);
            }
            ExprOp::And(parts) => self.joined(parts, " AND ", Binding::Not),
            ExprOp::Or(parts) => self.joined(parts, " OR ", Binding::And),
            ExprOp::Not(value) => {
                self.out.push_str("NOT ");
                self.operand(value, Binding::Is);
            }
            ExprOp::IsNull { value, negated } => {
                self.operand(value, Binding::Compare);
                self.out.push_str(if *negated { " IS NOT NULL" } else { " IS NULL" });
            }
            ExprOp::Case { whens, otherwise } => {
                self.out.push_str("CASE");
                for (condition, value) in whens {
                    self.out.push_str(" WHEN ");
                    self.write(condition);
                    self.out.push_str(" THEN ");
                    self.write(value);
                }
                if let Some(otherwise) = otherwise {
                    self.out.push_str(" ELSE ");
                    self.write(otherwise);
                }
                self.out.push_str(" END");
            }
            ExprOp::Cast { value, or_null } => {
                self.out.push_str(if *or_null { "TRY_CAST(" } else { "CAST(" });
                self.write(value);
                self.push(format_args!(" AS {})", type_name(&expr.kind)));
            }
            ExprOp::InList { value, list, negated } => {
                self.operand(value, Binding::Sum);
                self.call(if *negated { " NOT IN " } else { " IN " }, list);
            }
            ExprOp::Like { value, pattern, escape, negated, ignore_case } => {
                self.operand(value, Binding::Sum);
                let not = if *negated { "NOT " } else { "" };
                self.push(format_args!(" {not}{} ", if *ignore_case { "ILIKE" } else { "LIKE" }));
                self.operand(pattern, Binding::Sum);
                match escape {
                    Some('\\') => {}
                    Some('\'') => self.out.push_str(" ESCAPE ''''"),
                    Some(escape) => self.push(format_args!(" ESCAPE '{escape}'")),
                    None => self.out.push_str(" ESCAPE ''"),
                }
            }
            ExprOp::Coalesce(values) => self.call("coalesce", values),
            ExprOp::Call(function, arguments) => match (operator_symbol(function.name), &arguments[..]) {
                (Some(symbol), [value]) => {
                    self.out.push_str(symbol);
                    self.operand(value, Binding::Whole);
                }
                (Some(symbol), [first, others @ ..]) => {
                    self.operand(first, binding(expr));
                    for other in others {
                        self.push(format_args!(" {symbol} "));
                        self.operand(other, tighter(binding(expr)));
                    }
                }
                _ => self.call(function.name, arguments),
            },
            ExprOp::Dynamic(function, arguments) => self.call(function.name(), arguments),
            ExprOp::EachItem { function, list, parameters, body } => {
                self.push(format_args!("{}(", function.name()));
                self.write(list);
                let names: Vec<String> = parameters.iter().map(|number| format!("item{number}")).collect();
                self.push(format_args!(", ({}) -> ", names.join(", ")));
                self.write(body);
                self.out.push(')');
            }
            ExprOp::ItemParameter(number) => self.push(format_args!("item{number}")),
            ExprOp::Subquery(_) => self.out.push_str("(subquery)"),
        }
    }
}

/// Returns the operator that a function implements.
fn operator_symbol(function: &str) -> Option<&'static str> {
    Some(match function {
        "date_plus_days" | "timestamp_plus_interval" | "interval_plus_interval" | "time_plus_interval" => "+",
        "date_minus_days"
        | "date_minus_date"
        | "timestamp_minus_interval"
        | "timestamp_minus_timestamp"
        | "interval_minus_interval"
        | "time_minus_interval"
        | "time_minus_time"
        | "negate_interval" => "-",
        "interval_times_number" => "*",
        "interval_divided_by_number" => "/",
        "list_concat" | "list_append" | "list_prepend" | "text_concat" | "blob_concat" => "||",
        _ => return None,
    })
}

fn binding(expr: &ScalarExpr) -> Binding {
    match &expr.op {
        ExprOp::Or(_) => Binding::Or,
        ExprOp::And(_) => Binding::And,
        ExprOp::Not(_) => Binding::Not,
        ExprOp::IsDistinct { .. } | ExprOp::IsNull { .. } => Binding::Is,
        ExprOp::Compare(..) | ExprOp::CompareRows(..) | ExprOp::InList { .. } | ExprOp::Like { .. } => Binding::Compare,
        ExprOp::Arithmetic(ArithmeticOp::Plus | ArithmeticOp::Minus, _) => Binding::Sum,
        ExprOp::Arithmetic(..) => Binding::Product,
        ExprOp::Negate(_) => Binding::Sign,
        // A negative literal binds like a sign, so `-1` as an operand may need parentheses.
        ExprOp::Literal(value) if literal_text(value).starts_with('-') => Binding::Sign,
        ExprOp::Call(function, arguments) => match (operator_symbol(function.name), arguments.len()) {
            (Some(_), 1) => Binding::Sign,
            (Some("*" | "/"), _) => Binding::Product,
            (Some(_), _) => Binding::Sum,
            (None, _) => Binding::Whole,
        },
        _ => Binding::Whole,
    }
}

/// Returns the binding at which a right operand needs no parentheses.
fn tighter(binding: Binding) -> Binding {
    match binding {
        Binding::Sum => Binding::Product,
        _ => Binding::Sign,
    }
}

#[cfg(test)]
mod tests {
    use rowmill_plan::CompareOp;

    use super::*;
    use crate::fold::fold;
    use crate::typing::{arithmetic, compare, concat, negate};

    fn column(number: usize) -> ScalarExpr {
        ScalarExpr::column(number, DataType::Int64)
    }

    fn shown(expr: &ScalarExpr) -> String {
        sql_text(expr, &|column| ["a", "b", "c"][column].to_owned())
    }

    #[test]
    fn parentheses_are_written_only_where_they_are_needed() {
        let sum = |l, r| arithmetic(ArithmeticOp::Plus, l, r).expect("numbers");
        let difference = |l, r| arithmetic(ArithmeticOp::Minus, l, r).expect("numbers");
        let product = |l, r| arithmetic(ArithmeticOp::Times, l, r).expect("numbers");
        assert_eq!(shown(&product(sum(column(0), column(1)), column(2))), "(a + b) * c");
        assert_eq!(shown(&sum(product(column(0), column(1)), column(2))), "a * b + c");
        assert_eq!(shown(&difference(column(0), difference(column(1), column(2)))), "a - (b - c)");
        assert_eq!(shown(&difference(difference(column(0), column(1)), column(2))), "a - b - c");
        assert_eq!(shown(&negate(negate(column(0)).expect("a number")).expect("a number")), "-(-a)");
        let text = |number| ScalarExpr::column(number, DataType::Utf8View);
        let mut chain = concat(concat(text(0), text(1)).expect("texts"), text(2)).expect("texts");
        assert_eq!(shown(&chain), "a || b || c");
        fold(&mut chain);
        assert_eq!(shown(&chain), "a || b || c");
        let equal = |l, r| compare(CompareOp::Equal, l, r).expect("numbers");
        let both = ScalarExpr::and(vec![equal(column(0), ScalarExpr::literal(-1)), equal(column(1), column(2))]);
        assert_eq!(shown(&both), "a = -1 AND b = c");
        assert_eq!(shown(&both.clone().negated()), "NOT (a = -1 AND b = c)");
        let either = ScalarExpr::or(vec![both.clone(), equal(column(0), column(0))]);
        assert_eq!(shown(&either), "a = -1 AND b = c OR a = a");
        assert_eq!(shown(&ScalarExpr::and(vec![either, both])), "(a = -1 AND b = c OR a = a) AND (a = -1 AND b = c)");
    }

    #[test]
    fn literals_are_written_with_their_type() {
        let text = |text: &str, kind: DataType| literal_text(&text::parse(text, &kind).expect("a value"));
        assert_eq!(text("it's", DataType::Utf8View), "'it''s'");
        assert_eq!(text("2013-07-31", DataType::Date32), "DATE '2013-07-31'");
        assert_eq!(text("1.50", DataType::Decimal128(5, 2)), "1.50");
        assert_eq!(text("NaN", DataType::Float64), "DOUBLE 'NaN'");
        assert_eq!(text("t", DataType::Boolean), "true");
        assert_eq!(literal_text(&Constant::null(&DataType::Int64)), "NULL");
    }
}
