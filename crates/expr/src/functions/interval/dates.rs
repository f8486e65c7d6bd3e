//! Dates plus and minus days.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Date32Type, Int64Type};
use rowmill_base::Result;
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use crate::functions::signatures::ordinary;
use crate::functions::time::calendar::{FIRST_DAY, LAST_DAY};
use crate::functions::time::columns::{each_row, is_literal_text, out_of_range, primitive, slots, strict_nulls};

/// The function of `date + days`.
pub(super) const DATE_PLUS_DAYS: FunctionSpec = FunctionSpec {
    name: "date_plus_days",
    can_fail: true,
    only_overflows: true,
    signature: date_and_days,
    kernel: |arguments, _, rows| shift_dates(arguments, rows, |date, days| date.checked_add(days)),
    doc: "The date a number of days after another, as `+` computes it.",
    example: ("date_plus_days(DATE '2012-02-28', 1)", "2012-02-29"),
    ..ordinary("interval")
};

/// The function of `date - days`.
pub(super) const DATE_MINUS_DAYS: FunctionSpec = FunctionSpec {
    name: "date_minus_days",
    can_fail: true,
    only_overflows: true,
    signature: date_and_days,
    kernel: |arguments, _, rows| shift_dates(arguments, rows, |date, days| date.checked_sub(days)),
    doc: "The date a number of days before another, as `-` computes it.",
    example: ("date_minus_days(DATE '2013-07-31', 31)", "2013-06-30"),
    ..ordinary("interval")
};

/// The function of `date - date`.
pub(super) const DATE_MINUS_DATE: FunctionSpec = FunctionSpec {
    name: "date_minus_date",
    signature: |arguments| match arguments {
        [a, b] if is_date(a) && is_date(b) => {
            Some(CallKinds { arguments: vec![DataType::Date32, DataType::Date32], result: DataType::Int64 })
        }
        _ => None,
    },
    kernel: subtract_dates,
    doc: "The number of days from the second date to the first.",
    example: ("date_minus_date(DATE '2013-03-01', DATE '2012-03-01')", "365"),
    ..ordinary("interval")
};

fn is_date(argument: &ArgumentKind<'_>) -> bool {
    matches!(argument.kind, DataType::Date32 | DataType::Null) || is_literal_text(argument)
}

fn date_and_days(arguments: &[ArgumentKind<'_>]) -> Option<CallKinds> {
    let [date, days] = arguments else { return None };
    let fits = is_date(date) && (days.kind.is_integer() || *days.kind == DataType::Null);
    fits.then(|| CallKinds { arguments: vec![DataType::Date32, DataType::Int64], result: DataType::Date32 })
}

fn shift_dates(arguments: &[Operand], rows: usize, shift: impl Fn(i64, i64) -> Option<i64>) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let (dates, days) = (slots::<Date32Type>(&arguments[0]), slots::<Int64Type>(&arguments[1]));
    let moved = each_row(rows, nulls.as_ref(), |row| {
        let to = shift(i64::from(dates.at(row)), days.at(row));
        // Results outside of the supported calendar are errors, although a DATE could hold some of them.
        let to = to.filter(|to| (FIRST_DAY..=LAST_DAY).contains(to)).ok_or_else(|| out_of_range("the date"))?;
        Ok(to as i32)
    })?;
    primitive(&DataType::Date32, moved, nulls)
}

fn subtract_dates(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let (left, right) = (slots::<Date32Type>(&arguments[0]), slots::<Date32Type>(&arguments[1]));
    let days: Vec<i64> = (0..rows).map(|row| i64::from(left.at(row)) - i64::from(right.at(row))).collect();
    primitive(&DataType::Int64, days, nulls)
}
