//! FSST: bytes as one-byte codes for the symbols of one to eight bytes that a list repeats most.
//!
//! After "FSST: Fast Random Access String Compression" (Boncz, Neumann, Leis, VLDB 2020). Code 255 says that the next
//! byte stands for itself. A code means the same wherever it stands, so values that were compressed one by one decode
//! in one go, and one of them decodes alone.
//!
//! Training and compressing are `fsst-rs`; decoding is here, because stored bytes may be hostile: that crate asserts
//! where this must return an error, and gives out its result through memory that only unsafe code can fill. The loop
//! below has no unsafe, and writes eight bytes for every symbol, however short, so it needs [`SLACK`] behind the end.
//!
//! ```text
//!   symbols u8 | length u8 of each | bytes of each, one behind the other
//! ```

use fsst::{Compressor, Symbol};
use memchr::memchr;
use rowmill_base::{Error, Result};

use super::reader::Reader;

/// Bytes of a symbol at most.
pub(super) const SYMBOL_BYTES_MAX: usize = 8;

/// The code before a byte that stands for itself.
const ESCAPE: u8 = 255;

/// Bytes that a buffer must have behind what is decoded into it.
pub(super) const SLACK: usize = 72;

/// Input that is compressed at a time: room for its worst case, twice its size, is allocated in between.
const SLAB_BYTES_MAX: usize = 16 << 20;

/// Makes a compressor for strings like `values`.
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

/// Appends the codes of all `values` to `out` and where each ends to `ends`.
pub(super) fn compress(compressor: &Compressor, values: &[&[u8]], out: &mut Vec<u8>, ends: &mut Vec<u64>) {
    let mut rest = values;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|value| {
            bytes += value.len();
            bytes <= SLAB_BYTES_MAX
        });
        let (slab, behind) = rest.split_at(fitting.count().max(1));
        compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(slab, out, ends);
        rest = behind;
    }
}

/// What each code stands for.
#[derive(Clone)]
pub(super) struct SymbolTable {
    /// The bytes of each symbol, the first in the lowest bits; zeros behind its end.
    words: [u64; 256],
    /// Bytes of each symbol; 0 for a code without one.
    lengths: [u8; 256],
}

impl std::fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SymbolTable({} symbols)", self.lengths.iter().filter(|&&length| length > 0).count())
    }
}

impl SymbolTable {
    /// The next symbol table of a section.
    pub(super) fn read(section: &mut Reader<'_>) -> Result<SymbolTable> {
        let mut table = SymbolTable { words: [0; 256], lengths: [0; 256] };
        let symbols = usize::from(section.u8()?);
        table.lengths[..symbols].copy_from_slice(section.bytes(symbols)?);
        for (word, &length) in table.words.iter_mut().zip(&table.lengths[..symbols]) {
            let length = usize::from(length);
            if length == 0 || length > SYMBOL_BYTES_MAX {
                return Err(Error::corrupt(format!("a symbol of {length} bytes")));
            }
            let mut bytes = [0; SYMBOL_BYTES_MAX];
            bytes[..length].copy_from_slice(section.bytes(length)?);
            *word = u64::from_le_bytes(bytes);
        }
        Ok(table)
    }

    /// Decodes all of `codes` into `out`, which is [`SLACK`] longer than what comes out. `None` if the codes say
    /// something else than that.
    pub(super) fn decode(&self, codes: &[u8], out: &mut [u8]) -> Option<()> {
        let end = out.len().checked_sub(SLACK)?;
        (self.fill(codes, out)? == (codes.len(), end)).then_some(())
    }

    /// Decodes from the front of `codes` until `out` is full but for [`SLACK`] bytes. `None` if there are too few codes.
    pub(super) fn decode_front(&self, codes: &[u8], out: &mut [u8]) -> Option<()> {
        let end = out.len().checked_sub(SLACK)?;
        (self.fill(codes, out)?.1 >= end).then_some(())
    }

    /// Decodes until `out` is full but for [`SLACK`] bytes, or no codes are left. Says how many codes that took and how many
    /// bytes they gave, which may be some more. `None` if the last code is half of an escape.
    fn fill(&self, codes: &[u8], out: &mut [u8]) -> Option<(usize, usize)> {
        let end = out.len().checked_sub(SLACK)?;
        let (mut at, mut position) = (0, 0);
        // Eight codes without an escape, the common case, need one look at the input and one at the room left.
        while let (Some(eight), true) = (codes.get(at..at + 8), position < end) {
            let eight: [u8; 8] = eight.try_into().expect("the slice is eight bytes long");
            let window: &mut [u8; SLACK] = (&mut out[position..position + SLACK]).try_into().expect("it is that long");
            let escape = first_escape(u64::from_le_bytes(eight));
            if escape == 8 {
                position += self.decode_eight(eight, window);
                at += 8;
                continue;
            }
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

    /// Eight symbols, none an escape. At most 56 bytes lie before the last one, so the mask never changes anything but
    /// what the compiler knows: that no write can leave the window.
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

    /// Bytes that one value's `codes` decode to, and how many codes those are: as many as give `length` bytes.
    pub(super) fn skip(&self, codes: &[u8], length: usize) -> Option<usize> {
        let (mut at, mut decoded) = (0, 0);
        while decoded < length {
            let code = *codes.get(at)?;
            at += if code == ESCAPE { 2 } else { 1 };
            decoded += if code == ESCAPE { 1 } else { usize::from(self.lengths[usize::from(code)]) };
        }
        (decoded == length && at <= codes.len()).then_some(at)
    }

    /// Decodes one value of `length` bytes behind the end of `out`, from the front of `codes`; says how many codes
    /// that took.
    pub(super) fn decode_value(&self, codes: &[u8], length: usize, out: &mut Vec<u8>) -> Option<usize> {
        let codes = &codes[..self.skip(codes, length)?];
        let start = out.len();
        out.resize(start + length + SLACK, 0);
        let decoded = self.decode(codes, &mut out[start..]);
        out.truncate(start + length);
        decoded.map(|()| codes.len())
    }
}

/// Which codes stand for nothing but ASCII.
pub(super) struct AsciiCodes {
    is_ascii: [bool; 256],
    /// All are but for escapes.
    all: bool,
}

impl AsciiCodes {
    /// Those of a symbol table.
    pub(super) fn of(symbols: &SymbolTable) -> AsciiCodes {
        let is_ascii = symbols.words.map(|word| word & 0x8080_8080_8080_8080 == 0);
        AsciiCodes { is_ascii, all: is_ascii.iter().all(|is_ascii| *is_ascii) }
    }

    /// Whether all that `codes` stand for is ASCII.
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

/// Whether each byte that stands for itself is ASCII.
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

/// The position of the first byte of `codes` that is an escape; 8 if none is.
#[inline]
fn first_escape(codes: u64) -> usize {
    // The classic test for a zero byte, on the complement: its lowest set bit is exact.
    let inverse = !codes;
    let zeros = inverse.wrapping_sub(0x0101_0101_0101_0101) & !inverse & 0x8080_8080_8080_8080;
    (zeros.trailing_zeros() / 8) as usize
}
