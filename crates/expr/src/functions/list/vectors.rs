//! Functions that treat lists of numbers as vectors. All of them compute with doubles.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds};
use rowmill_plan::{FunctionSpec, Operand};

use super::maker::{ListRanges, item_kind, list_of, lists_of};
use crate::functions::signatures::ordinary;
use crate::functions::time::columns::{slots, strict_nulls};
use crate::kinds::is_number;

/// Makes a spec of this file: all are immutable and strict.
const fn vector_spec(
    (name, aliases): (&'static str, &'static [&'static str]),
    can_fail: bool,
    signature: fn(&[ArgumentKind<'_>]) -> Option<CallKinds>,
    kernel: rowmill_plan::function::Kernel,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> FunctionSpec {
    FunctionSpec { name, aliases, can_fail, signature, kernel, doc, example, ..ordinary("list") }
}

/// `array_sum(list)`
pub(super) const ARRAY_SUM: FunctionSpec = vector_spec(
    ("array_sum", &["list_sum"]),
    false,
    |arguments| vectors(arguments, 1, DataType::Float64),
    |arguments, _, rows| gather(arguments, rows, |values| Some(values.sum())),
    "The sum of the items as a DOUBLE; NULLs are ignored; NULL if no items are left.",
    ("array_sum([1, 2, 3])", "6.0"),
);

/// `array_avg(list)`
pub(super) const ARRAY_AVG: FunctionSpec = vector_spec(
    ("array_avg", &["list_avg"]),
    false,
    |arguments| vectors(arguments, 1, DataType::Float64),
    |arguments, _, rows| {
        gather(arguments, rows, |values| {
            let (count, sum) = values.fold((0_u64, 0.0), |(count, sum), value| (count + 1, sum + value));
            Some(sum / count as f64)
        })
    },
    "The mean of the items as a DOUBLE; NULLs are ignored; NULL if no items are left.",
    ("array_avg([1, 2, 3])", "2.0"),
);

/// `array_product(list)`
pub(super) const ARRAY_PRODUCT: FunctionSpec = vector_spec(
    ("array_product", &["list_product"]),
    false,
    |arguments| vectors(arguments, 1, DataType::Float64),
    |arguments, _, rows| gather(arguments, rows, |values| Some(values.product())),
    "The product of the items as a DOUBLE; NULLs are ignored; NULL if no items are left.",
    ("array_product([2, 3, 4])", "24.0"),
);

/// `array_add(list, list)`
pub(super) const ARRAY_ADD: FunctionSpec = vector_spec(
    ("array_add", &["list_add"]),
    true,
    |arguments| vectors(arguments, 2, list_of(DataType::Float64)),
    |arguments, kind, rows| pairwise("array_add", arguments, kind, rows, |a, b| a + b),
    "The sums of the items of two lists of one length.",
    ("array_add([1, 2], [10, 20])", "[11.0, 22.0]"),
);

/// `array_subtract(list, list)`
pub(super) const ARRAY_SUBTRACT: FunctionSpec = vector_spec(
    ("array_subtract", &["list_subtract"]),
    true,
    |arguments| vectors(arguments, 2, list_of(DataType::Float64)),
    |arguments, kind, rows| pairwise("array_subtract", arguments, kind, rows, |a, b| a - b),
    "The differences of the items of two lists of one length.",
    ("array_subtract([10, 20], [1, 2])", "[9.0, 18.0]"),
);

/// `array_scale(list, factor)`
pub(super) const ARRAY_SCALE: FunctionSpec = vector_spec(
    ("array_scale", &["list_scale"]),
    false,
    |arguments| match arguments {
        [list, factor] if is_vector(list) && (is_number(factor.kind) || *factor.kind == DataType::Null) => {
            let kind = list_of(DataType::Float64);
            Some(CallKinds { arguments: vec![kind.clone(), DataType::Float64], result: kind })
        }
        _ => None,
    },
    |arguments, kind, rows| {
        let factors = slots::<Float64Type>(&arguments[1]);
        each_vector(arguments, kind, rows, |row, values| {
            let factor = factors.at(row);
            Some(values.iter().map(|value| value.map(|value| value * factor)).collect())
        })
    },
    "The items, each times a number.",
    ("array_scale([1, 2], 2.5)", "[2.5, 5.0]"),
);

/// `array_normalize(list)`
pub(super) const ARRAY_NORMALIZE: FunctionSpec = vector_spec(
    ("array_normalize", &["list_normalize"]),
    false,
    |arguments| vectors(arguments, 1, list_of(DataType::Float64)),
    |arguments, kind, rows| {
        each_vector(arguments, kind, rows, |_, values| {
            let values: Option<Vec<f64>> = values.iter().copied().collect();
            let values = values?;
            let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
            // A vector of zeros has no direction.
            let is_vector = values.is_empty() || length != 0.0;
            is_vector.then(|| values.iter().map(|value| Some(value / length)).collect())
        })
    },
    "The vector of length 1 in the direction of a list; NULL if an item is NULL or all are zero.",
    ("array_normalize([3, 4])", "[0.6, 0.8]"),
);

/// `inner_product(list, list)`
pub(super) const INNER_PRODUCT: FunctionSpec = vector_spec(
    (
        "inner_product",
        &["dot_product", "list_inner_product", "list_dot_product", "array_inner_product", "array_dot_product"],
    ),
    true,
    |arguments| vectors(arguments, 2, DataType::Float64),
    |arguments, _, rows| {
        of_pairs("inner_product", arguments, rows, |pairs| Some(pairs.iter().map(|(a, b)| a * b).sum()))
    },
    "The sum of the products of the items of two lists of one length; NULL if an item is NULL.",
    ("inner_product([1, 2, 3], [4, 5, 6])", "32.0"),
);

/// `array_distance(list, list)`
pub(super) const ARRAY_DISTANCE: FunctionSpec = vector_spec(
    ("array_distance", &["list_distance"]),
    true,
    |arguments| vectors(arguments, 2, DataType::Float64),
    |arguments, _, rows| {
        of_pairs("array_distance", arguments, rows, |pairs| {
            Some(pairs.iter().map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt())
        })
    },
    "The Euclidean distance of two points, which are lists of one length; NULL if an item is NULL.",
    ("array_distance([1, 2], [1, 4])", "2.0"),
);

/// `cosine_distance(list, list)`
pub(super) const COSINE_DISTANCE: FunctionSpec = vector_spec(
    ("cosine_distance", &["list_cosine_distance", "array_cosine_distance"]),
    true,
    |arguments| vectors(arguments, 2, DataType::Float64),
    |arguments, _, rows| {
        of_pairs("cosine_distance", arguments, rows, |pairs| cosine_of(pairs).map(|cosine| 1.0 - cosine))
    },
    "One minus the cosine of the angle of two lists of one length; NULL if an item is NULL or all are zero.",
    ("cosine_distance([1, 0], [0, 1])", "1.0"),
);

/// `cosine_similarity(list, list)`
pub(super) const COSINE_SIMILARITY: FunctionSpec = vector_spec(
    ("cosine_similarity", &["list_cosine_similarity", "array_cosine_similarity"]),
    true,
    |arguments| vectors(arguments, 2, DataType::Float64),
    |arguments, _, rows| of_pairs("cosine_similarity", arguments, rows, cosine_of),
    "The cosine of the angle of two lists of one length; NULL if an item is NULL or all are zero.",
    ("cosine_similarity([3, 4], [6, 8])", "1.0"),
);

/// `negative_inner_product(list, list)`
pub(super) const NEGATIVE_INNER_PRODUCT: FunctionSpec = vector_spec(
    (
        "negative_inner_product",
        &[
            "list_negative_inner_product",
            "list_negative_dot_product",
            "array_negative_inner_product",
            "array_negative_dot_product",
        ],
    ),
    true,
    |arguments| vectors(arguments, 2, DataType::Float64),
    |arguments, _, rows| {
        of_pairs("negative_inner_product", arguments, rows, |pairs| {
            Some(-pairs.iter().map(|(a, b)| a * b).sum::<f64>())
        })
    },
    "The opposite of the sum of the products of the items of two lists of one length; NULL if an item is NULL.",
    ("negative_inner_product([1, 2], [3, 4])", "-11.0"),
);

/// `array_cross_product(list, list)`
pub(super) const CROSS_PRODUCT: FunctionSpec = vector_spec(
    ("array_cross_product", &["cross_product", "list_cross_product"]),
    true,
    |arguments| vectors(arguments, 2, list_of(DataType::Float64)),
    cross_products,
    "The vector that is perpendicular to two vectors of three numbers; NULL if an item is NULL.",
    ("array_cross_product([1, 2, 3], [2, 3, 4])", "[-1.0, 2.0, -1.0]"),
);

/// The cosine of the angle of two vectors, or `None` if one of them has no direction.
fn cosine_of(pairs: &[(f64, f64)]) -> Option<f64> {
    let product: f64 = pairs.iter().map(|(a, b)| a * b).sum();
    let left = pairs.iter().map(|(a, _)| a * a).sum::<f64>().sqrt();
    let right = pairs.iter().map(|(_, b)| b * b).sum::<f64>().sqrt();
    (left != 0.0 && right != 0.0).then(|| product / (left * right))
}

fn cross_products(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (left, right) = (ListRanges::of(&arguments[0]), ListRanges::of(&arguments[1]));
    let (first, second) = (left.items().as_primitive::<Float64Type>(), right.items().as_primitive::<Float64Type>());
    let (mut made, mut offsets, mut validity) = (Vec::new(), vec![0], Vec::with_capacity(rows));
    for row in 0..rows {
        let both = left.at(row).zip(right.at(row));
        if let Some((a, b)) = &both
            && (a.len() != 3 || b.len() != 3)
        {
            let message = format!(
                "array_cross_product takes lists of three numbers, but one has {} items and the other {}",
                a.len(),
                b.len()
            );
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        let both = both
            .filter(|(a, b)| a.clone().all(|item| first.is_valid(item)) && b.clone().all(|item| second.is_valid(item)));
        validity.push(both.is_some());
        if let Some((a, b)) = both {
            let [a, b] = [&first.values()[a], &second.values()[b]];
            made.extend((0..3).map(|axis| {
                let (next, last) = ((axis + 1) % 3, (axis + 2) % 3);
                a[next] * b[last] - a[last] * b[next]
            }));
        }
        offsets.push(made.len() as i32);
    }
    lists_of(kind, offsets, Arc::new(Float64Array::from(made)), Some(validity.into()))
}

fn is_vector(argument: &ArgumentKind<'_>) -> bool {
    item_kind(argument.kind).is_some_and(|item| is_number(&item) || item == DataType::Null)
}

fn vectors(arguments: &[ArgumentKind<'_>], count: usize, result: DataType) -> Option<CallKinds> {
    let fits = arguments.len() == count && arguments.iter().all(is_vector);
    fits.then(|| CallKinds { arguments: vec![list_of(DataType::Float64); count], result })
}

/// Computes a value of the items of each list that are not NULL. A list without such items gives NULL.
fn gather(
    arguments: &[Operand],
    rows: usize,
    of: impl Fn(&mut dyn Iterator<Item = f64>) -> Option<f64>,
) -> Result<ArrayRef> {
    let lists = ListRanges::of(&arguments[0]);
    let items = lists.items().as_primitive::<Float64Type>();
    let gathered: Float64Array = (0..rows)
        .map(|row| {
            let mut values =
                lists.at(row)?.filter(|item| items.is_valid(*item)).map(|item| items.value(item)).peekable();
            values.peek()?;
            of(&mut values)
        })
        .collect();
    Ok(Arc::new(gathered))
}

/// Makes a list from the items of each list, or NULL where `of` returns `None`.
fn each_vector(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    of: impl Fn(usize, &[Option<f64>]) -> Option<Vec<Option<f64>>>,
) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let lists = ListRanges::of(&arguments[0]);
    let items = lists.items().as_primitive::<Float64Type>();
    let (mut made, mut offsets, mut validity) = (Vec::new(), vec![0], Vec::with_capacity(rows));
    let mut values = Vec::new();
    for row in 0..rows {
        let list = lists.at(row).filter(|_| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
        let vector = list.and_then(|list| {
            values.clear();
            values.extend(list.map(|item| items.is_valid(item).then(|| items.value(item))));
            of(row, &values)
        });
        validity.push(vector.is_some());
        made.extend(vector.unwrap_or_default());
        offsets.push(made.len() as i32);
    }
    lists_of(kind, offsets, Arc::new(Float64Array::from(made)), Some(validity.into()))
}

/// Returns an error if two lists differ in length.
fn check_lengths(function: &str, left: usize, right: usize) -> Result<()> {
    if left == right {
        return Ok(());
    }
    let message = format!("{function} takes lists of one length, but one has {left} items and the other {right}");
    Err(Error::new(ErrorKind::InvalidParameter, message))
}

fn pairwise(
    function: &str,
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    of: impl Fn(f64, f64) -> f64,
) -> Result<ArrayRef> {
    let nulls = strict_nulls(arguments, rows);
    let (left, right) = (ListRanges::of(&arguments[0]), ListRanges::of(&arguments[1]));
    let (first, second) = (left.items().as_primitive::<Float64Type>(), right.items().as_primitive::<Float64Type>());
    let (mut made, mut offsets) = (Vec::new(), vec![0]);
    for row in 0..rows {
        if let (Some(a), Some(b)) = (left.at(row), right.at(row)) {
            check_lengths(function, a.len(), b.len())?;
            made.extend(a.zip(b).map(|(a, b)| {
                let are_valid = first.is_valid(a) && second.is_valid(b);
                are_valid.then(|| of(first.value(a), second.value(b)))
            }));
        }
        offsets.push(made.len() as i32);
    }
    lists_of(kind, offsets, Arc::new(Float64Array::from(made)), nulls)
}

fn of_pairs(
    function: &str,
    arguments: &[Operand],
    rows: usize,
    of: impl Fn(&[(f64, f64)]) -> Option<f64>,
) -> Result<ArrayRef> {
    let (left, right) = (ListRanges::of(&arguments[0]), ListRanges::of(&arguments[1]));
    let (first, second) = (left.items().as_primitive::<Float64Type>(), right.items().as_primitive::<Float64Type>());
    let mut values: Vec<Option<f64>> = Vec::with_capacity(rows);
    let mut pairs = Vec::new();
    for row in 0..rows {
        let (Some(a), Some(b)) = (left.at(row), right.at(row)) else {
            values.push(None);
            continue;
        };
        check_lengths(function, a.len(), b.len())?;
        let has_null = a.clone().any(|item| first.is_null(item)) || b.clone().any(|item| second.is_null(item));
        if has_null {
            values.push(None);
            continue;
        }
        pairs.clear();
        pairs.extend(a.zip(b).map(|(a, b)| (first.value(a), second.value(b))));
        values.push(of(&pairs));
    }
    Ok(Arc::new(Float64Array::from(values)))
}
