//! Unsigned numbers of 256 bits, for hashes and keys.

use std::fmt::Write;

use super::{NumberedTexts, NumberedType, UnsignedNumber};

/// `LONG256`. Texts are `0x` and 1 to 64 hexadecimal digits, or decimal digits. They are written as `0x` and whole
/// bytes in lower case, without bytes of zeros in front.
pub(super) static LONG256: NumberedType = NumberedType {
    code: 3,
    name: "LONG256",
    aliases: &["UINT256"],
    bytes: 32,
    texts: NumberedTexts::Rule { read, write },
    hint: "a LONG256 is written 0x01ff, with up to 64 hexadecimal digits, or as a whole number up to 2^256 - 1",
};

fn read(text: &str) -> Option<UnsignedNumber> {
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        digits => (digits, 10),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(UnsignedNumber::default(), |number, digit| {
        times_plus(number, base, char::from(*digit).to_digit(base)?.into())
    })
}

/// Returns `number * factor + digit`, or `None` if it has more than 256 bits.
fn times_plus(number: UnsignedNumber, factor: u32, digit: u128) -> Option<UnsignedNumber> {
    // The factor is small, so the product of 64 bits with it, and a carry, fit 128 bits.
    let (mut carry, mut words) = (digit, [0; 4]);
    let of_number = [number.low, number.low >> 64, number.high, number.high >> 64];
    for (word, made) in of_number.into_iter().zip(&mut words) {
        let product = u128::from(word as u64) * u128::from(factor) + carry;
        (*made, carry) = (u128::from(product as u64), product >> 64);
    }
    let [a, b, c, d] = words;
    (carry == 0).then_some(UnsignedNumber { high: d << 64 | c, low: b << 64 | a })
}

fn write(number: UnsignedNumber, out: &mut String) {
    let bytes = number.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len() - 1);
    out.push_str("0x");
    for byte in &bytes[zeros..] {
        write!(out, "{byte:02x}").expect("a String takes every text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        let mut out = String::new();
        LONG256.write(LONG256.read(text)?, &mut out);
        Some(out)
    }

    #[test]
    fn texts_become_whole_bytes_in_lower_case() {
        let greatest = format!("0x{}", "f".repeat(64));
        for (text, canonical) in [
            ("0x0", "0x00"),
            ("0", "0x00"),
            ("0x000000000000000000000000000000000000000000000000000000000000000000000001", "0x01"),
            ("0X1fF", "0x01ff"),
            ("255", "0xff"),
            ("340282366920938463463374607431768211456", "0x0100000000000000000000000000000000"),
            ("115792089237316195423570985008687907853269984665640564039457584007913129639935", &greatest),
            (&greatest, &greatest),
        ] {
            assert_eq!(rewritten(text).as_deref(), Some(canonical), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "0x",
            "x1",
            "-1",
            "+1",
            "1.0",
            " 1",
            "0xg",
            "1f",
            "0x 1",
            "0x10000000000000000000000000000000000000000000000000000000000000000",
            "115792089237316195423570985008687907853269984665640564039457584007913129639936",
        ] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }
}
