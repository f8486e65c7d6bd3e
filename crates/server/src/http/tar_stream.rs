//! Writes a folder as a tar file, in the format `ustar` of POSIX.
//!
//! ```text
//! for each file and folder: a head of 512 bytes, the content, zeros up to a multiple of 512 bytes
//! at the end: two blocks of zeros
//! ```

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The bytes of a block.
const BLOCK: usize = 512;
/// The bytes of a name in a head.
const NAME_BYTES: usize = 100;
/// The greatest size that eleven octal digits have.
const OCTAL_MAX: u64 = 0o77_777_777_777;

/// Writes all files below `folder`, with their paths relative to it, and the end of the tar file.
pub(super) fn write_folder(folder: &Path, out: &mut dyn Write) -> io::Result<()> {
    write_entries(folder, "", out)?;
    out.write_all(&[0; 2 * BLOCK])
}

fn write_entries(folder: &Path, prefix: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            let name = format!("{name}/");
            out.write_all(&head(&name, 0, b'5')?)?;
            write_entries(&entry.path(), &name, out)?;
            continue;
        }
        let file = File::open(entry.path())?;
        let size = file.metadata()?.len();
        out.write_all(&head(&name, size, b'0')?)?;
        let copied = io::copy(&mut io::Read::take(file, size), out)?;
        if copied != size {
            return Err(io::Error::other(format!("{name} became shorter while it was read")));
        }
        let rest = size.next_multiple_of(BLOCK as u64) - size;
        out.write_all(&[0; BLOCK][..rest as usize])?;
    }
    Ok(())
}

/// The head of a file (`kind` is `0`) or a folder (`5`).
fn head(name: &str, size: u64, kind: u8) -> io::Result<[u8; BLOCK]> {
    if name.len() > NAME_BYTES {
        return Err(io::Error::other(format!("the name {name} is too long for a tar file")));
    }
    let mut head = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, if kind == b'5' { b"0000700\0" } else { b"0000600\0" });
    // The owner and the group are those who unpack the file.
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    match size <= OCTAL_MAX {
        true => put(124, format!("{size:011o}\0").as_bytes()),
        // Longer sizes are numbers of twelve bytes whose first bit is set.
        false => {
            put(124, &[0x80, 0, 0, 0]);
            put(128, &size.to_be_bytes());
        }
    }
    put(136, b"00000000000\0");
    // The checksum counts as blanks while it is computed.
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(head)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_and_names_have_their_limits() {
        let small = head("a", 513, b'0').unwrap();
        assert_eq!(&small[124..136], b"00000001001\0");
        let large = head("a", OCTAL_MAX + 1, b'0').unwrap();
        assert_eq!(large[124], 0x80);
        assert_eq!(large[128..136], (OCTAL_MAX + 1).to_be_bytes());
        assert!(head(&"x".repeat(NAME_BYTES), 0, b'5').is_ok() && head(&"x".repeat(NAME_BYTES + 1), 0, b'5').is_err());
    }
}
