//! UUIDs.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::Volatility;
use rowmill_plan::{FunctionSpec, Operand};

use super::signatures::{exactly, ordinary};

const UUID_BYTES: i32 = 16;

/// The functions of the family.
pub(super) static UUID: &[FunctionSpec] = &[FunctionSpec {
    name: "uuid",
    aliases: &["gen_random_uuid"],
    volatility: Volatility::Volatile,
    signature: |arguments| exactly(arguments, &[], DataType::FixedSizeBinary(UUID_BYTES)),
    kernel: random_uuids,
    doc: "A random UUID, of version 4.",
    example: ("uuid() = uuid()", "false"),
    ..ordinary("uuid")
}];

fn random_uuids(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let mut bytes = vec![0; rows * UUID_BYTES as usize];
    // One system call fills all of them. We use the system's generator because UUIDs serve as names that an attacker
    // must not guess.
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Io, format!("the system gives no random numbers: {error}")))?;
    for uuid in bytes.as_chunks_mut::<{ UUID_BYTES as usize }>().0 {
        // Set the version and the variant of RFC 9562.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
    }
    Ok(Arc::new(FixedSizeBinaryArray::new(UUID_BYTES, Buffer::from_vec(bytes), None)))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};

    use crate::functions::test_call::call_rows;

    #[test]
    fn uuids_differ_and_have_their_version() {
        let made = call_rows("uuid", &[], 1000).unwrap();
        let made: Vec<&[u8]> = made.as_fixed_size_binary().iter().flatten().collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|uuid| uuid[6] >> 4 == 4 && uuid[8] >> 6 == 2));
        let mut unique = made.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 1000);
        assert_eq!(call_rows("gen_random_uuid", &[], 0).unwrap().len(), 0);
    }
}
