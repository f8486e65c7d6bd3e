//! Three-valued logic, a word of bits at a time.
//!
//! NULL means either value, so `false AND NULL` is false and `true OR NULL` is true.

use arrow::array::{Array, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};

/// Computes AND of two arrays, which must have the same length.
pub fn and(left: &BooleanArray, right: &BooleanArray) -> BooleanArray {
    combined(left, right, &(left.values() & right.values()), |value| !value)
}

/// Computes OR of two arrays, which must have the same length.
pub fn or(left: &BooleanArray, right: &BooleanArray) -> BooleanArray {
    combined(left, right, &(left.values() | right.values()), Clone::clone)
}

/// Computes NOT of each value. NULL stays NULL.
pub fn not(truth: &BooleanArray) -> BooleanArray {
    BooleanArray::new(!truth.values(), truth.nulls().cloned())
}

/// Whether each value is NULL.
pub fn is_null(values: &dyn Array) -> BooleanArray {
    BooleanArray::new(
        values.logical_nulls().map_or_else(|| BooleanBuffer::new_unset(values.len()), |nulls| !nulls.inner()),
        None,
    )
}

/// Whether each value is not NULL.
pub fn is_not_null(values: &dyn Array) -> BooleanArray {
    BooleanArray::new(
        values.logical_nulls().map_or_else(|| BooleanBuffer::new_set(values.len()), |nulls| nulls.into_inner()),
        None,
    )
}

/// Returns `values` with the NULLs of both sides, except where one side alone decides: where it is not NULL and
/// `decides` of its values is set.
fn combined(
    left: &BooleanArray,
    right: &BooleanArray,
    values: &BooleanBuffer,
    decides: impl Fn(&BooleanBuffer) -> BooleanBuffer,
) -> BooleanArray {
    assert_eq!(left.len(), right.len(), "both sides have the same length");
    let known = match (left.nulls(), right.nulls()) {
        (None, None) => return BooleanArray::new(values.clone(), None),
        (Some(of_left), None) => of_left.inner() | &decides(right.values()),
        (None, Some(of_right)) => of_right.inner() | &decides(left.values()),
        (Some(of_left), Some(of_right)) => {
            let both = of_left.inner() & of_right.inner();
            let by_left = of_left.inner() & &decides(left.values());
            let by_right = of_right.inner() & &decides(right.values());
            &(&both | &by_left) | &by_right
        }
    };
    // Under a NULL, a bit is arbitrary. But where the other side decides, its bit alone fixes the result in `values`.
    BooleanArray::new(values.clone(), Some(NullBuffer::new(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all pairs of three values, as arrays with a set bit under each NULL. The first result lists the left
    /// values.
    fn sides() -> (Vec<Option<bool>>, BooleanArray, BooleanArray) {
        let values = [Some(false), Some(true), None];
        let left: Vec<Option<bool>> = values.iter().flat_map(|value| [*value; 3]).collect();
        let right = values.repeat(3);
        let array = |values: &[Option<bool>]| {
            let bits = values.iter().map(|value| value.unwrap_or(true)).collect();
            let known: Vec<bool> = values.iter().map(Option::is_some).collect();
            BooleanArray::new(bits, Some(known.into()))
        };
        let (of_left, of_right) = (array(&left), array(&right));
        (left, of_left, of_right)
    }

    #[test]
    fn null_means_either_value() {
        let (known, left, right) = sides();
        let found = |truth: &BooleanArray| truth.iter().collect::<Vec<_>>();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(found(&and(&left, &right)), [no, no, no, no, yes, None, no, None, None]);
        assert_eq!(found(&or(&left, &right)), [no, yes, None, yes, yes, yes, None, yes, None]);
        let all_known = BooleanArray::from(known.iter().map(|value| value.unwrap_or(true)).collect::<Vec<_>>());
        assert_eq!(found(&and(&all_known, &right)), [no, no, no, no, yes, None, no, yes, None]);
        assert_eq!(found(&and(&right, &all_known)), found(&and(&all_known, &right)));
        assert_eq!(found(&or(&right, &all_known)), found(&or(&all_known, &right)));
        assert_eq!(found(&not(&left)), known.iter().map(|value| value.map(|value| !value)).collect::<Vec<_>>());
        assert_eq!(found(&is_null(&left)), known.iter().map(|value| Some(value.is_none())).collect::<Vec<_>>());
        assert_eq!(found(&not(&is_null(&left))), found(&is_not_null(&left)));
        assert_eq!(found(&is_null(&all_known)), vec![Some(false); 9]);
    }
}
