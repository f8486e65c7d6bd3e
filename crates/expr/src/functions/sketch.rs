//! Functions that read, merge and compare sketches.
//!
//! The aggregates that make sketches are in the engine's registry; `crate::sketch` has what both need.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StringViewBuilder, StructArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type};
use datasketches::common::SearchCriteria;
use datasketches::kll::KllFloat;
use datasketches::theta::ThetaANotB;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::{FunctionSpec, Operand};

use super::list::maker::list_of;
use super::result_limit::ResultLimit;
use super::rowwise::{BytesArgument, NumberArgument, bigints, blobs, numbers, valid_rows};
use super::signatures::{BIGINT, BLOB, DOUBLE, TEXT, exactly, optional, ordinary};
use super::time::columns::failed;
use crate::sketch::{
    FREQUENT_ITEMS_MERGE, HLL_UNION, KLL_MERGE, SketchFunction, THETA_INTERSECTION, THETA_UNION, decode_hll,
    decode_kll, decode_theta, frequent_items_of, in_lg_k_of_theta,
};

/// Makes the spec of a function of one sketch that gives a BIGINT.
const fn counting(name: &'static str) -> FunctionSpec {
    FunctionSpec {
        name,
        signature: |arguments| exactly(arguments, &[BLOB], BIGINT),
        can_fail: true,
        ..ordinary("sketch")
    }
}

/// Makes the spec of a function of two sketches that gives a sketch.
const fn combining(name: &'static str) -> FunctionSpec {
    FunctionSpec {
        name,
        signature: |arguments| exactly(arguments, &[BLOB, BLOB], BLOB),
        can_fail: true,
        ..ordinary("sketch")
    }
}

/// Makes the spec of a function of a sketch and a DOUBLE that gives a DOUBLE.
const fn measuring(name: &'static str) -> FunctionSpec {
    FunctionSpec {
        name,
        signature: |arguments| exactly(arguments, &[BLOB, DOUBLE], DOUBLE),
        can_fail: true,
        ..ordinary("sketch")
    }
}

/// The functions of the family.
pub(super) static SKETCH: &[FunctionSpec] = &[
    FunctionSpec {
        kernel: |arguments, kind, rows| {
            count_of(arguments, kind, rows, |sketch| Ok(decode_hll(sketch)?.estimate().round() as i64))
        },
        doc: "The estimated number of distinct values in an HLL sketch.",
        example: ("hll_sketch_estimate(X'0201070c030801082f823b04')", "1"),
        ..counting("hll_sketch_estimate")
    },
    FunctionSpec {
        kernel: |arguments, _, rows| combined("hll_union", &HLL_UNION, arguments, rows, |_| Ok(0)),
        doc: "An HLL sketch of the values of both sketches, with the lesser lg_k.",
        example: ("hll_sketch_estimate(hll_union(X'0201070c030801082f823b04', X'0201070c030801080aff8004'))", "2"),
        ..combining("hll_union")
    },
    FunctionSpec {
        kernel: |arguments, kind, rows| {
            count_of(arguments, kind, rows, |sketch| Ok(decode_theta(sketch)?.estimate().round() as i64))
        },
        doc: "The estimated number of distinct values in a theta sketch.",
        example: ("theta_sketch_estimate(X'01030300001acc9317c11d528507017b')", "1"),
        ..counting("theta_sketch_estimate")
    },
    FunctionSpec {
        signature: |arguments| optional(arguments, 2, &[BLOB, BLOB, BIGINT], BLOB),
        kernel: |arguments, _, rows| {
            let lg_k = arguments.get(2).map(bigints);
            combined("theta_union", &THETA_UNION, arguments, rows, |row| {
                in_lg_k_of_theta(lg_k.map(|lg_k| lg_k.at(row)))
            })
        },
        doc: "A theta sketch of the values of either sketch, with up to 2^12 hashes, or 2^lg_k with a third argument.",
        example: (
            "theta_sketch_estimate(theta_union(X'01030300001acc9317c11d528507017b', \
             X'01030300001acc93857f40b689c7e534'))",
            "2",
        ),
        ..combining("theta_union")
    },
    FunctionSpec {
        kernel: |arguments, _, rows| combined("theta_intersection", &THETA_INTERSECTION, arguments, rows, |_| Ok(0)),
        doc: "A theta sketch of the values that both sketches have.",
        example: (
            "theta_sketch_estimate(theta_intersection(X'01030300001acc9317c11d528507017b', \
             X'01030300001acc93857f40b689c7e534'))",
            "0",
        ),
        ..combining("theta_intersection")
    },
    FunctionSpec {
        kernel: |arguments, _, rows| {
            let (left, right) = (BytesArgument::new(&arguments[0]), BytesArgument::new(&arguments[1]));
            sketches("theta_difference", arguments, rows, |row| {
                let (left, right) = (decode_theta(left.at(row))?, decode_theta(right.at(row))?);
                let difference = ThetaANotB::default().compute(&left, &right, true).map_err(failed)?;
                Ok(difference.serialize())
            })
        },
        doc: "A theta sketch of the values of the first sketch that the second one lacks.",
        example: (
            "theta_sketch_estimate(theta_difference(X'01030300001acc9317c11d528507017b', \
             X'01030300001acc93857f40b689c7e534'))",
            "1",
        ),
        ..combining("theta_difference")
    },
    FunctionSpec {
        aliases: &["kll_sketch_get_n_double"],
        kernel: |arguments, kind, rows| count_of(arguments, kind, rows, |sketch| Ok(decode_kll(sketch)?.n() as i64)),
        doc: "The number of values in a KLL sketch.",
        example: ("kll_sketch_count(X'02020f04c80008000000000000000040')", "1"),
        ..counting("kll_sketch_count")
    },
    FunctionSpec {
        aliases: &["kll_sketch_get_quantile_double"],
        kernel: |arguments, _, rows| {
            measured(arguments, rows, |sketch, rank| {
                if !(0.0..=1.0).contains(&rank) {
                    let message = format!("kll_sketch_quantile: the rank must be from 0 to 1, not {rank}");
                    return Err(Error::new(ErrorKind::InvalidParameter, message));
                }
                let quantile = decode_kll(sketch)?.quantile(rank, SearchCriteria::Inclusive).map_err(failed)?;
                Ok(quantile.map(KllFloat::into_inner))
            })
        },
        doc: "The estimated least value of a KLL sketch such that a share of all values, from 0 to 1, is not greater.",
        example: ("kll_sketch_quantile(X'02020f04c80008000000000000000040', 0.5)", "2.0"),
        ..measuring("kll_sketch_quantile")
    },
    FunctionSpec {
        aliases: &["kll_sketch_get_rank_double"],
        kernel: |arguments, _, rows| {
            measured(arguments, rows, |sketch, value| {
                let value = KllFloat::<f64>::new(value).map_err(|_| {
                    Error::new(ErrorKind::InvalidParameter, "kll_sketch_rank: NaN has no rank among other numbers")
                })?;
                Ok(decode_kll(sketch)?.rank(&value, SearchCriteria::Inclusive))
            })
        },
        doc: "The estimated share of the values of a KLL sketch that are not greater than a number.",
        example: ("kll_sketch_rank(X'02020f04c80008000000000000000040', 1.5)", "0.0"),
        ..measuring("kll_sketch_rank")
    },
    FunctionSpec {
        aliases: &["kll_sketch_merge_double"],
        kernel: |arguments, _, rows| combined("kll_merge", &KLL_MERGE, arguments, rows, |_| Ok(0)),
        doc: "A KLL sketch of the values of both sketches, with the lesser k.",
        example: (
            "kll_sketch_count(kll_merge(X'02020f04c80008000000000000000040', X'02020f04c80008000000000000000040'))",
            "2",
        ),
        ..combining("kll_merge")
    },
    FunctionSpec {
        kernel: |arguments, _, rows| {
            combined("frequent_items_merge", &FREQUENT_ITEMS_MERGE, arguments, rows, |_| Ok(0))
        },
        doc: "A sketch of the frequent items of both sketches, with the larger table.",
        example: (
            "frequent_items(frequent_items_merge(X'04010a0a03000000010000000000000002000000000000000000000000\
             000000020000000000000003000000727965', \
             X'04010a0a03000000010000000000000002000000000000000000000000\
             000000020000000000000003000000727965'))",
            "[{\"item\": \"rye\", \"estimate\": 4, \"lower_bound\": 4, \"upper_bound\": 4}]",
        ),
        ..combining("frequent_items_merge")
    },
    FunctionSpec {
        name: "frequent_items",
        signature: |arguments| optional(arguments, 1, &[BLOB, BIGINT], list_of(item_kind())),
        kernel: frequent_items,
        can_fail: true,
        doc: "The items of a sketch of frequent items, the most frequent first, with their estimated number and its \
              bounds; with a second argument at most that number.",
        example: (
            "frequent_items(X'04010a0a03000000010000000000000002000000000000000000000000\
             000000020000000000000003000000727965')",
            "[{\"item\": \"rye\", \"estimate\": 2, \"lower_bound\": 2, \"upper_bound\": 2}]",
        ),
        ..ordinary("sketch")
    },
];

/// Computes a number from each sketch.
fn count_of(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    count: impl Fn(&[u8]) -> Result<i64>,
) -> Result<ArrayRef> {
    let sketches = BytesArgument::new(&arguments[0]);
    numbers::<Int64Type>(arguments, kind, rows, |row| count(sketches.at(row)))
}

/// Computes the sketches of a strict function within the limit on results. One large constant sketch in each row of a
/// batch can pass it.
fn sketches(
    function: &'static str,
    arguments: &[Operand],
    rows: usize,
    mut sketch: impl FnMut(usize) -> Result<Vec<u8>>,
) -> Result<ArrayRef> {
    let (limit, mut bytes) = (ResultLimit::of(function), 0);
    blobs(arguments, rows, |row, made| {
        *made = sketch(row)?;
        bytes += made.len() as u128;
        limit.check(bytes)
    })
}

/// Merges two sketches in each row as an aggregate does. `size` gives the parameter of the aggregate.
fn combined(
    name: &'static str,
    function: &SketchFunction,
    arguments: &[Operand],
    rows: usize,
    size: impl Fn(usize) -> Result<i64>,
) -> Result<ArrayRef> {
    let (left, right) = (BytesArgument::new(&arguments[0]), BytesArgument::new(&arguments[1]));
    sketches(name, arguments, rows, |row| {
        let mut sketch = function.start(size(row)?)?;
        sketch.merge(left.at(row))?;
        sketch.merge(right.at(row))?;
        sketch.to_bytes()
    })
}

/// Computes a DOUBLE from a sketch and a DOUBLE in each row. `measure` gives NULL for a sketch without values.
fn measured(
    arguments: &[Operand],
    rows: usize,
    measure: impl Fn(&[u8], f64) -> Result<Option<f64>>,
) -> Result<ArrayRef> {
    let Some(valid) = valid_rows(arguments) else { return Ok(new_null_array(&DOUBLE, rows)) };
    let sketches = BytesArgument::new(&arguments[0]);
    let values = NumberArgument::new::<Float64Type>(&arguments[1]);
    let of = |row: usize| match valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
        true => measure(sketches.at(row), values.at(row)),
        false => Ok(None),
    };
    Ok(Arc::new((0..rows).map(of).collect::<Result<Float64Array>>()?))
}

/// The bytes of an item besides its text: a view and three counts.
const ITEM_BYTES: usize = size_of::<u128>() + 3 * size_of::<i64>();

/// The fields of an item.
fn item_fields() -> Fields {
    let count = |name: &str| Field::new(name, BIGINT, true);
    Fields::from(vec![Field::new("item", TEXT, true), count("estimate"), count("lower_bound"), count("upper_bound")])
}

fn item_kind() -> DataType {
    DataType::Struct(item_fields())
}

fn frequent_items(arguments: &[Operand], kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (Some(valid), DataType::List(field)) = (valid_rows(arguments), kind) else {
        return Ok(new_null_array(kind, rows));
    };
    let (sketches, counts) = (BytesArgument::new(&arguments[0]), arguments.get(1).map(bigints));
    let mut texts = StringViewBuilder::new();
    let [mut estimates, mut lower_bounds, mut upper_bounds] = [const { Vec::<i64>::new() }; 3];
    let mut offsets = vec![0];
    // A list repeats the texts of its sketch, and one constant sketch can have many.
    let (limit, mut bytes) = (ResultLimit::of("frequent_items"), 0);
    for row in 0..rows {
        if valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
            let count = counts.map_or(i64::MAX, |counts| counts.at(row));
            let count = usize::try_from(count).map_err(|_| {
                Error::new(ErrorKind::InvalidParameter, "frequent_items: the number of items must not be negative")
            })?;
            for item in frequent_items_of(sketches.at(row))?.into_iter().take(count) {
                bytes += (item.text.len() + ITEM_BYTES) as u128;
                limit.check(bytes)?;
                texts.try_append_value(item.text).map_err(failed)?;
                estimates.push(item.estimate);
                lower_bounds.push(item.lower_bound);
                upper_bounds.push(item.upper_bound);
            }
        }
        let end = i32::try_from(estimates.len());
        offsets.push(end.map_err(|_| failed("more items in a batch than a list can address"))?);
    }
    let column = |counts: Vec<i64>| Arc::new(Int64Array::from(counts)) as ArrayRef;
    let columns = vec![Arc::new(texts.finish()), column(estimates), column(lower_bounds), column(upper_bounds)];
    let items = StructArray::try_new(item_fields(), columns, None).map_err(failed)?;
    let lists = ListArray::try_new(Arc::clone(field), OffsetBuffer::new(offsets.into()), Arc::new(items), valid);
    Ok(Arc::new(lists.map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;

    use super::*;
    use crate::functions::find;
    use crate::functions::result_limit::with_result_limit;
    use crate::sketch::{FREQUENT_ITEMS, HLL_SKETCH};

    /// A sketch of many values, as a constant.
    fn large(function: &SketchFunction) -> Operand {
        let texts: ArrayRef =
            Arc::new(arrow::array::StringViewArray::from_iter_values((0..500).map(|value| format!("value {value}"))));
        let items = function.items.expect("an aggregate of values")(&texts).expect("texts");
        let mut sketch = function.start(10).expect("a size in range");
        items.iter().flatten().for_each(|item| function.take(&mut *sketch, item, 1).expect("an item"));
        let bytes = sketch.to_bytes().expect("a sketch");
        Operand::constant(Arc::new(BinaryViewArray::from_iter_values([bytes])))
    }

    #[test]
    fn one_large_sketch_in_each_row_passes_the_limit_on_results() {
        let result = |name: &str, arguments: &[Operand], kind: &DataType, rows| {
            let function = find(name).expect("a function");
            with_result_limit(100_000, || (function.kernel)(arguments, kind, rows)).map_err(|error| error.kind())
        };
        let hll = large(&HLL_SKETCH);
        let union = |rows| result("hll_union", &[hll.clone(), hll.clone()], &BLOB, rows);
        assert!(union(10).is_ok());
        assert_eq!(union(1_000).expect_err("too large"), ErrorKind::ResultTooLarge);
        let frequent = large(&FREQUENT_ITEMS);
        let items = |rows| result("frequent_items", std::slice::from_ref(&frequent), &list_of(item_kind()), rows);
        assert!(items(2).is_ok());
        assert_eq!(items(1_000).expect_err("too large"), ErrorKind::ResultTooLarge);
    }
}
