//! Stored values with a checksum, for bases that do not check their pages: RocksDB's, and LMDB's of earlier versions.
//!
//! ```text
//! value (any length) | CRC-32 of key and value (4 bytes, little endian)
//! ```
//!
//! The checksum covers the key too, so that a value under the wrong key is also found. Such a base reserves keys:
//!
//! ```text
//! 00 'c'    the last commit (u64)
//! 00 'v'    the version of the base's layout (u32)
//! ```

use std::fmt::Write;
use std::path::Path;

use rowmill_base::{Error, Result};

pub(super) const VERSION_KEY: &[u8] = b"\0v";
pub(super) const LAST_COMMIT_KEY: &[u8] = b"\0c";

const CHECKSUM_LEN: usize = size_of::<u32>();

/// Clears `stored`, then writes `value` and its checksum to it.
#[cfg(any(test, feature = "rocksdb"))]
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

/// Returns the number of `LEN` bytes in `stored`, the value of a reserved key.
pub(super) fn unseal_number<const LEN: usize>(key: &[u8], stored: &[u8], file: &Path) -> Result<[u8; LEN]> {
    let value = unseal(key, stored, file)?;
    value.try_into().map_err(|_| {
        Error::corrupt(format!("{}: a number must have {LEN} bytes and has {}", file.display(), value.len()))
    })
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
