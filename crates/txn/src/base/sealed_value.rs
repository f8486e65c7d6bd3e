//! Stored values with a checksum.
//!
//! ```text
//! value (any length) | CRC-32 of key and value (4 bytes, little endian)
//! ```
//!
//! LMDB does not check what it reads. The checksum covers the key too, so that a value under the wrong key is also
//! found.

use std::fmt::Write;
use std::path::Path;

use rowmill_base::{Error, Result};

const CHECKSUM_LEN: usize = size_of::<u32>();

/// Clears `stored`, then writes `value` and its checksum to it.
pub(super) fn seal(key: &[u8], value: &[u8], stored: &mut Vec<u8>) {
    stored.clear();
    stored.reserve(value.len() + CHECKSUM_LEN);
    stored.extend_from_slice(value);
    stored.extend_from_slice(&checksum(key, value).to_le_bytes());
}

/// Returns the value in `stored`. Returns `Corrupt` if it differs from the value that was written under `key`.
pub(super) fn unseal<'a>(key: &[u8], stored: &'a [u8], file: &Path) -> Result<&'a [u8]> {
    // A value that is shorter than a checksum is damaged too.
    if let Some((value, sum)) = stored.split_last_chunk::<CHECKSUM_LEN>()
        && checksum(key, value) == u32::from_le_bytes(*sum)
    {
        return Ok(value);
    }
    Err(Error::corrupt(format!(
        "{}: the value of key {} ({} bytes) does not match its checksum",
        file.display(),
        hex(key),
        stored.len()
    ))
    .in_file(file.display()))
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

fn hex(key: &[u8]) -> String {
    key.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_flipped_byte_and_a_wrong_key_are_detected() {
        let (file, mut stored) = (Path::new("base"), Vec::new());
        seal(b"key", b"value", &mut stored);
        assert_eq!(unseal(b"key", &stored, file).unwrap(), b"value");
        for position in 0..stored.len() {
            stored[position] ^= 1;
            unseal(b"key", &stored, file).unwrap_err();
            stored[position] ^= 1;
        }
        let message = unseal(b"kez", &stored, file).unwrap_err().to_string();
        assert!(message.contains("key 6b657a"), "{message}");
        for len in 0..stored.len() {
            unseal(b"key", &stored[..len], file).unwrap_err();
        }
    }
}
