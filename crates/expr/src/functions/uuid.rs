//! UUIDs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{ArrowNativeType, DataType, TimeUnit};
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::function::{ArgumentKind, CallKinds, Volatility};
use rowmill_plan::{FunctionSpec, Operand};

use super::signatures::{exactly, ordinary};
use super::time::columns::{instant_kind, is_literal_text, primitive, unary};

const UUID_BYTES: i32 = 16;

/// The functions of the family.
pub(super) static UUID: &[FunctionSpec] = &[
    FunctionSpec {
        name: "uuid",
        aliases: &["gen_random_uuid", "uuidv4", "uuid_generate_v4"],
        volatility: Volatility::Volatile,
        signature: |arguments| exactly(arguments, &[], UUID_KIND),
        kernel: random_uuids,
        doc: "A random UUID, of version 4.",
        example: ("uuid() = uuid()", "false"),
        ..ordinary("uuid")
    },
    FunctionSpec {
        name: "uuidv7",
        volatility: Volatility::Volatile,
        signature: |arguments| exactly(arguments, &[], UUID_KIND),
        kernel: uuids_in_order,
        doc: "A UUID of version 7: the milliseconds since 1970-01-01, and random bits. Later ones are greater.",
        example: ("uuid_extract_version(uuidv7())", "7"),
        ..ordinary("uuid")
    },
    FunctionSpec {
        name: "uuid_extract_version",
        signature: |arguments| of_uuid(arguments, DataType::Int32),
        kernel: |arguments, kind, rows| {
            of_uuids(arguments, kind, rows, |uuid| is_of_rfc(uuid).then_some(i32::from(uuid[6] >> 4)))
        },
        doc: "The version of a UUID; NULL if it is not one of RFC 9562.",
        example: ("uuid_extract_version(UUID '018c2e65-4b34-7c3f-8000-000000000000')", "7"),
        ..ordinary("uuid")
    },
    FunctionSpec {
        name: "uuid_extract_timestamp",
        signature: |arguments| of_uuid(arguments, instant_kind(TimeUnit::Microsecond)),
        kernel: |arguments, kind, rows| of_uuids(arguments, kind, rows, micros_of),
        doc: "The time of a UUID of version 1 or 7; NULL for others.",
        example: ("uuid_extract_timestamp(UUID '018c2e65-4b34-7c3f-8000-000000000000')", "2023-12-03 06:37:19.54+00"),
        ..ordinary("uuid")
    },
];

const UUID_KIND: DataType = DataType::FixedSizeBinary(UUID_BYTES);

/// Accepts a UUID.
fn of_uuid(arguments: &[ArgumentKind<'_>], result: DataType) -> Option<CallKinds> {
    let [uuid] = arguments else { return None };
    let is_taken = matches!(uuid.kind, DataType::FixedSizeBinary(UUID_BYTES) | DataType::Null) || is_literal_text(uuid);
    is_taken.then(|| CallKinds { arguments: vec![UUID_KIND], result })
}

/// Computes a number of each UUID, or NULL where `of` returns `None`.
fn of_uuids<N: ArrowNativeType>(
    arguments: &[Operand],
    kind: &DataType,
    rows: usize,
    of: impl Fn(&[u8]) -> Option<N>,
) -> Result<ArrayRef> {
    unary(&arguments[0], rows, |uuids| {
        let uuids = uuids.as_fixed_size_binary();
        let values: Vec<Option<N>> =
            (0..uuids.len()).map(|row| if uuids.is_valid(row) { of(uuids.value(row)) } else { None }).collect();
        let validity: Vec<bool> = values.iter().map(Option::is_some).collect();
        let values = values.into_iter().map(Option::unwrap_or_default).collect();
        primitive(kind, values, Some(validity.into()))
    })
}

/// Whether a UUID has the variant of RFC 9562.
fn is_of_rfc(uuid: &[u8]) -> bool {
    uuid[8] >> 6 == 0b10
}

/// Returns the microseconds since 1970-01-01 of a UUID of version 1 or 7.
fn micros_of(uuid: &[u8]) -> Option<i64> {
    /// The units of 100 ns from the begin of the Gregorian calendar to 1970-01-01.
    const GREGORIAN_TO_EPOCH: i64 = 0x01b2_1dd2_1381_4000;
    let number = |bytes: &[u8]| bytes.iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
    match uuid[6] >> 4 {
        _ if !is_of_rfc(uuid) => None,
        1 => {
            let ticks = (number(&uuid[6..8]) & 0x0fff) << 48 | number(&uuid[4..6]) << 32 | number(&uuid[..4]);
            Some((ticks - GREGORIAN_TO_EPOCH).div_euclid(10))
        }
        7 => Some(number(&uuid[..6]) * 1_000),
        _ => None,
    }
}

/// The last time that a UUID of version 7 has, in units of 1/4096 ms. Those of one process are in order.
static LAST_TICK: AtomicU64 = AtomicU64::new(0);

fn uuids_in_order(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let mut bytes = random_bytes(rows)?;
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = (elapsed.as_nanos() * 4_096 / 1_000_000) as u64;
    // We reserve a tick for each row, also if the clock went back.
    let reserve = |last: u64| now.max(last + 1) + rows as u64;
    let last = LAST_TICK.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(reserve(last)));
    let first = reserve(last.unwrap_or(now)) - rows as u64;
    for (uuid, tick) in bytes.as_chunks_mut::<{ UUID_BYTES as usize }>().0.iter_mut().zip(first..) {
        // The 12 bits after the milliseconds hold their fraction.
        let (millis, fraction) = (tick >> 12, tick & 0xfff);
        uuid[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        uuid[6] = 0x70 | (fraction >> 8) as u8;
        uuid[7] = fraction as u8;
        uuid[8] = uuid[8] & 0x3f | 0x80;
    }
    Ok(Arc::new(FixedSizeBinaryArray::new(UUID_BYTES, Buffer::from_vec(bytes), None)))
}

/// Returns the bytes of random UUIDs, one for each row.
fn random_bytes(rows: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; rows * UUID_BYTES as usize];
    // One system call fills all of them. We use the system's generator because UUIDs serve as names that an attacker
    // must not guess.
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(ErrorKind::Io, format!("the system gives no random numbers: {error}")))?;
    Ok(bytes)
}

fn random_uuids(_arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let mut bytes = random_bytes(rows)?;
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
