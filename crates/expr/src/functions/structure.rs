//! Structs, and maps, which are lists of structs of a key and a value.

mod map_parts;
mod maps;
mod struct_parts;
mod structs;

use rowmill_plan::FunctionSpec;

pub(super) use map_parts::MAPS;
pub(super) use struct_parts::STRUCTS;

/// The functions of the family.
pub(super) static STRUCTURE: &[FunctionSpec] = &[
    structs::NAMED_STRUCT,
    structs::STRUCT,
    structs::GET_FIELD,
    maps::MAP,
    maps::MAP_KEYS,
    maps::MAP_VALUES,
    maps::MAP_ENTRIES,
    maps::MAP_EXTRACT,
];

#[cfg(test)]
mod tests;
