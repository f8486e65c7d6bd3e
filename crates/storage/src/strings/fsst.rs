//! FSST: replaces the most repeated byte sequences of a list by one-byte codes. These symbols have one to eight bytes.
//!
//! The method comes from "FSST: Fast Random Access String Compression" (Boncz, Neumann, Leis, VLDB 2020). Code 255 is
//! an escape: the next byte is taken literally. A code has the same meaning everywhere. So values that were compressed
//! one by one can be decoded together, and a single value can be decoded alone.
//!
//! `fsst-rs` trains and compresses. We decode here, because stored bytes may be hostile: that crate asserts where we
//! must return an error, and returns its result in memory that only unsafe code can fill. The loop below has no unsafe
//! code. It writes eight bytes for every symbol, however short, so the output must have [`SLACK`] bytes after its end.
//!
//! ```text
//!   symbols u8 | length u8 of each | bytes of each, one after another
//! ```

use fsst::{Compressor, Symbol};
use memchr::memchr;
use rowmill_base::{Error, Result};

use super::reader::SectionReader;

/// The maximum number of bytes of a symbol.
pub(super) const SYMBOL_BYTES_MAX: usize = 8;

/// The code before a literal byte.
const ESCAPE: u8 = 255;

/// The number of bytes that a buffer must have after the decoded bytes.
pub(super) const SLACK: usize = 72;

/// The input compressed at a time. The compressor allocates room for its worst case, twice this size.
const SLAB_BYTES_MAX: usize = 16 << 20;

/// Trains a compressor for strings like `values`.
pub(super) fn train(values: &Vec<&[u8]>) -> Compressor {
    Compressor::train(values)
}

/// Appends the symbol table of a compressor to `out`.
pub(super) fn write_table(compressor: &Compressor, out: &mut Vec<u8>) {
    let symbols: &[Symbol] = compressor.symbol_table();
    out.push(symbols.len() as u8);
    out.extend_from_slice(compressor.symbol_lengths());
    for (symbol, &length) in symbols.iter().zip(compressor.symbol_lengths()) {
        out.extend_from_slice(&symbol.to_u64().to_le_bytes()[..usize::from(length)]);
    }
}

/// Appends the codes of all `values` to `out`, and the end of each value's codes to `ends`.
pub(super) fn compress(compressor: &Compressor, values: &[&[u8]], out: &mut Vec<u8>, ends: &mut Vec<u64>) {
    let mut rest = values;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|value| {
            bytes += value.len();
            bytes <= SLAB_BYTES_MAX
        });
        // A single value may be larger than a slab. It is compressed alone.
        let (slab, behind) = rest.split_at(fitting.count().max(1));
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(slab, out, ends);
        rest = behind;
    }
}

/// The symbol of each code.
#[derive(Clone)]
pub(super) struct SymbolTable {
    /// The bytes of each symbol, the first in the lowest bits, with zeros after its end.
    words: [u64; 256],
    /// The length of each symbol in bytes; 0 for a code without a symbol.
    lengths: [u8; 256],
}

impl std::fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SymbolTable({} symbols)", self.lengths.iter().filter(|&&length| length > 0).count())
    }
}

impl SymbolTable {
    /// Reads the next symbol table of a section.
    pub(super) fn read(section: &mut SectionReader<'_>) -> Result<SymbolTable> {
        let mut table = SymbolTable { words: [0; 256], lengths: [0; 256] };
        let symbols = usize::from(section.u8()?);
        table.lengths[..symbols].copy_from_slice(section.bytes(symbols)?);
        for (word, &length) in table.words.iter_mut().zip(&table.lengths[..symbols]) {
            let length = usize::from(length);
            if length == 0 || length > SYMBOL_BYTES_MAX {
                return Err(Error::corrupt(format!("a symbol has {length} bytes instead of 1 to 8")));
            }
            // Each symbol is padded to a word, so that decoding can write it with one store.
            let mut bytes = [0; SYMBOL_BYTES_MAX];
            bytes[..length].copy_from_slice(section.bytes(length)?);
            *word = u64::from_le_bytes(bytes);
        }
        Ok(table)
    }

    /// Decodes all of `codes` into `out`, which must be [`SLACK`] bytes longer than the result. Returns `None` if the
    /// codes do not decode to exactly that length.
    pub(super) fn decode(&self, codes: &[u8], out: &mut [u8]) -> Option<()> {
        let end = out.len().checked_sub(SLACK)?;
        (self.fill(codes, out)? == (codes.len(), end)).then_some(())
    }

    /// Decodes from the front of `codes` until `out` is full except for [`SLACK`] bytes. Returns `None` if the codes
    /// end before.
    pub(super) fn decode_front(&self, codes: &[u8], out: &mut [u8]) -> Option<()> {
        let end = out.len().checked_sub(SLACK)?;
        (self.fill(codes, out)?.1 >= end).then_some(())
    }

    /// Decodes until `out` is full except for [`SLACK`] bytes, or no codes are left. Returns the number of codes read
    /// and of bytes written, which may exceed that end by a few. Returns `None` if the last code is an escape without
    /// its byte.
    fn fill(&self, codes: &[u8], out: &mut [u8]) -> Option<(usize, usize)> {
        let end = out.len().checked_sub(SLACK)?;
        let (mut at, mut position) = (0, 0);
        // Eight codes without an escape are the common case. They need one check of the input and one of the remaining
        // room.
        while let (Some(eight), true) = (codes.get(at..at + 8), position < end) {
            let eight: [u8; 8] = eight.try_into().expect("the slice has eight bytes");
            let window: &mut [u8; SLACK] = (&mut out[position..position + SLACK]).try_into().expect("it is that long");
            let escape = first_escape(u64::from_le_bytes(eight));
            if escape == 8 {
                position += self.decode_eight(eight, window);
                at += 8;
                continue;
            }
            // Decode the codes before the escape, and then its literal byte.
            let mut written = 0;
            for &code in &eight[..escape] {
                written += self.put(code, &mut window[written & 63..]);
            }
            position += written;
            out[position] = *codes.get(at + escape + 1)?;
            position += 1;
            at += escape + 2;
        }
        while at < codes.len() && position < end {
            if codes[at] == ESCAPE {
                out[position] = *codes.get(at + 1)?;
                position += 1;
                at += 2;
            } else {
                position += self.put(codes[at], &mut out[position..]);
                at += 1;
            }
        }
        Some((at, position))
    }

    /// Decodes eight codes without an escape. At most 56 bytes precede the last symbol, so the mask changes nothing. It
    /// only shows the compiler that no write can leave the window, so that it needs no bounds checks.
    #[inline]
    fn decode_eight(&self, codes: [u8; 8], window: &mut [u8; SLACK]) -> usize {
        let mut written = 0;
        for code in codes {
            written += self.put(code, &mut window[written & 63..]);
        }
        written
    }

    #[inline]
    fn put(&self, code: u8, out: &mut [u8]) -> usize {
        out[..8].copy_from_slice(&self.words[usize::from(code)].to_le_bytes());
        usize::from(self.lengths[usize::from(code)])
    }

    /// The number of bytes of `codes` that decode to exactly `length` bytes. `None` if none do.
    pub(super) fn skip(&self, codes: &[u8], length: usize) -> Option<usize> {
        let (mut at, mut decoded) = (0, 0);
        while decoded < length {
            let code = *codes.get(at)?;
            at += if code == ESCAPE { 2 } else { 1 };
            decoded += if code == ESCAPE { 1 } else { usize::from(self.lengths[usize::from(code)]) };
        }
        (decoded == length && at <= codes.len()).then_some(at)
    }

    /// Decodes one value of `length` bytes from the front of `codes` and appends it to `out`. Returns the number of
    /// codes read.
    pub(super) fn decode_value(&self, codes: &[u8], length: usize, out: &mut Vec<u8>) -> Option<usize> {
        // The number of codes follows from the decoded length, because a value's codes have no length of their own.
        let codes = &codes[..self.skip(codes, length)?];
        let start = out.len();
        out.resize(start + length + SLACK, 0);
        let decoded = self.decode(codes, &mut out[start..]);
        out.truncate(start + length);
        decoded.map(|()| codes.len())
    }
}

/// Whether each code stands for ASCII only.
pub(super) struct AsciiCodes {
    is_ascii: [bool; 256],
    /// Whether all codes except escapes stand for ASCII.
    all: bool,
}

impl AsciiCodes {
    /// Examines the codes of a symbol table.
    pub(super) fn of(symbols: &SymbolTable) -> AsciiCodes {
        let is_ascii = symbols.words.map(|word| word & 0x8080_8080_8080_8080 == 0);
        AsciiCodes { is_ascii, all: is_ascii.iter().all(|is_ascii| *is_ascii) }
    }

    /// Whether `codes` decode to ASCII only.
    pub(super) fn are_all_of(&self, codes: &[u8]) -> bool {
        match self.all {
            true => escapes_are_ascii(codes),
            false => {
                let mut codes = codes.iter();
                while let Some(code) = codes.next() {
                    let is_ascii = match *code {
                        ESCAPE => codes.next().is_some_and(u8::is_ascii),
                        code => self.is_ascii[usize::from(code)],
                    };
                    if !is_ascii {
                        return false;
                    }
                }
                true
            }
        }
    }
}

/// Whether each literal byte is ASCII.
fn escapes_are_ascii(codes: &[u8]) -> bool {
    let mut rest = codes;
    while let Some(escape) = memchr(ESCAPE, rest) {
        match &rest[escape + 1..] {
            [byte, behind @ ..] if byte.is_ascii() => rest = behind,
            _ => return false,
        }
    }
    true
}

/// The position of the first escape among the eight bytes of `codes`, or 8 if there is none.
#[inline]
fn first_escape(codes: u64) -> usize {
    // This is the classic test for a zero byte, applied to the complement. Its lowest set bit is exact.
    let inverse = !codes;
    let zeros = inverse.wrapping_sub(0x0101_0101_0101_0101) & !inverse & 0x8080_8080_8080_8080;
    (zeros.trailing_zeros() / 8) as usize
}
