//! The registry of scalar functions.
//!
//! Each family is a file with a static list of [`FunctionSpec`]s. To add a function, add an entry to the list of its
//! family. To add a family, add a file and name its list in [`FAMILIES`].

mod call_failure;
mod conditional;
mod enumeration;
mod hash;
mod interval;
mod json;
mod list;
mod math;
mod regex;
mod result_limit;
#[cfg(test)]
mod row_tests;
mod rowwise;
mod signatures;
mod sketch;
mod structure;
#[cfg(test)]
mod test_call;
mod text;
pub(crate) mod time;
mod uuid;

use std::collections::HashMap;
use std::sync::LazyLock;

use rowmill_plan::FunctionSpec;

pub(crate) use self::call_failure::call_can_fail;
pub use self::interval::{fixed_distance, moved_timestamp};
pub(crate) use self::list::keys::keys_of;
pub use self::math::SessionRandom;
pub(crate) use self::result_limit::FOLDED_BYTES_MAX;
pub use self::result_limit::{result_bytes_max, with_result_limit};
pub(crate) use self::rowwise::too_long;
pub use self::text::part_of_text;
pub use self::time::{MONTHS_ORIGIN_DAY, ORIGIN_DAY, time_zone, written_unit};

/// The families, in the order of the documentation. A new family should be added where its readers expect it.
pub static FAMILIES: &[&[FunctionSpec]] = &[
    text::TEXT_FUNCTIONS,
    text::UNICODE,
    text::GRAPHEMES,
    text::SIMILARITY,
    text::PATHS,
    text::SIZES,
    text::PRINTF,
    text::READERS,
    regex::REGEX,
    regex::REGEX_PARTS,
    math::MATH,
    math::SPECIAL,
    math::ANGLES,
    hash::HASH,
    hash::BASES,
    hash::BYTES,
    uuid::UUID,
    time::TIME,
    time::FIELDS,
    time::NAMES,
    time::DIFFERENCES,
    time::EPOCHS,
    time::FORMATS,
    time::CLOCK,
    interval::INTERVAL,
    interval::UNITS,
    list::LIST,
    list::PICKS,
    structure::STRUCTURE,
    structure::MAPS,
    structure::STRUCTS,
    json::JSON,
    sketch::SKETCH,
    enumeration::ENUM,
    conditional::CONDITIONAL,
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static FunctionSpec>> = LazyLock::new(|| {
    let mut by_name = HashMap::new();
    for function in all() {
        for name in std::iter::once(&function.name).chain(function.aliases) {
            let other = by_name.insert(*name, function);
            // Two functions with one name would hide each other, so this must fail at the first call.
            assert!(other.is_none(), "the name of a function is unique: {name}");
        }
    }
    by_name
});

/// Returns the function with this name or alias, which must be in lower case.
pub fn find(name: &str) -> Option<&'static FunctionSpec> {
    BY_NAME.get(name).copied()
}

/// Returns all functions.
pub fn all() -> impl Iterator<Item = &'static FunctionSpec> {
    FAMILIES.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples' results are tested in the crate `query`, which reads SQL.
    #[test]
    fn every_function_is_documented_and_found_by_all_its_names() {
        for function in all() {
            let (call, result) = function.example;
            let name = function.name;
            assert!(function.doc.ends_with('.') && !function.doc.contains('\n'), "the documentation of {name}");
            assert!(!call.is_empty() && !result.is_empty(), "the example of {name}");
            for name in std::iter::once(&name).chain(function.aliases) {
                assert_eq!(find(name), Some(function));
                assert_eq!(name.to_lowercase(), **name);
            }
        }
    }
}
