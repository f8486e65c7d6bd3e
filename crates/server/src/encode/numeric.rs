//! PostgreSQL's binary form of decimals: digits of base 10,000.
//!
//! ```text
//! digits │ weight │ sign │ scale │ digit ...       value = sum of digit[i] * 10000^(weight - i)
//!    2       2       2       2       2 each        sign: 0 is +, 0x4000 is -
//! ```

use bytes::BufMut;

/// The mark of a negative value.
pub(crate) const NEGATIVE: u16 = 0x4000;

/// Appends the binary form of a decimal that is given as text: a sign, digits, a point, digits.
pub(super) fn put_numeric(text: &str, out: &mut Vec<u8>) {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (NEGATIVE, digits),
        None => (0, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let start = out.len();
    out.put_u64(0);
    let mut weight = whole.len().div_ceil(4) as i16 - 1;
    // The first group of the whole part may be short; the last group of the fraction is filled with zeros.
    let (head, rest) = whole.split_at(whole.len() % 4);
    let groups = std::iter::once(head).chain(pieces(rest)).chain(pieces(fraction)).filter(|group| !group.is_empty());
    let fraction_groups = fraction.len().div_ceil(4);
    let whole_groups = whole.len().div_ceil(4);
    for (index, group) in groups.enumerate() {
        let is_fraction = index >= whole_groups;
        let value = group.bytes().fold(0_u16, |value, digit| value * 10 + u16::from(digit - b'0'));
        let fill = if is_fraction { 10_u16.pow(4 - group.len() as u32) } else { 1 };
        out.put_u16(value * fill);
    }
    debug_assert_eq!((out.len() - start - 8) / 2, whole_groups + fraction_groups);
    // Zeros at both ends are left out.
    while out.len() > start + 8 && out.ends_with(&[0, 0]) {
        out.truncate(out.len() - 2);
    }
    let zeros = out[start + 8..].chunks_exact(2).take_while(|digit| *digit == [0, 0]).count();
    if zeros > 0 {
        out.drain(start + 8..start + 8 + 2 * zeros);
        weight -= zeros as i16;
    }
    let count = ((out.len() - start - 8) / 2) as u16;
    let sign = if count == 0 { 0 } else { sign };
    let mut head = &mut out[start..start + 8];
    head.put_u16(count);
    head.put_i16(if count == 0 { 0 } else { weight });
    head.put_u16(sign);
    head.put_u16(fraction.len() as u16);
}

/// The text in pieces of four digits; the last may be shorter.
fn pieces(digits: &str) -> impl Iterator<Item = &str> {
    (0..digits.len()).step_by(4).map(|start| &digits[start..digits.len().min(start + 4)])
}
