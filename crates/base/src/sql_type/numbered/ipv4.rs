//! Addresses of the Internet Protocol, version 4.

use std::fmt::Write;
use std::net::Ipv4Addr;

use super::{NumberedTexts, NumberedType};

/// `IPV4`. Texts are four decimal numbers without leading zeros.
pub(super) static IPV4: NumberedType = NumberedType {
    code: 2,
    name: "IPV4",
    aliases: &["INET4"],
    bytes: 4,
    texts: NumberedTexts::Rule {
        read: |text| text.parse::<Ipv4Addr>().ok().map(|address| u128::from(address.to_bits()).into()),
        write: |number, out| {
            let bits = u32::try_from(number.low).expect("a value has at most four bytes");
            write!(out, "{}", Ipv4Addr::from_bits(bits)).expect("a String takes every text");
        },
    },
    hint: "an IPV4 is written 192.0.2.1",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        let mut out = String::new();
        IPV4.write(IPV4.read(text)?, &mut out);
        Some(out)
    }

    #[test]
    fn texts_are_read_and_written() {
        for text in ["0.0.0.0", "192.0.2.1", "255.255.255.255", "10.0.0.255"] {
            assert_eq!(rewritten(text).as_deref(), Some(text));
        }
        for text in ["", "1.2.3", "1.2.3.4.5", "256.0.0.1", "01.2.3.4", "1.2.3.4/8", " 1.2.3.4", "::1", "a.b.c.d"] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }
}
