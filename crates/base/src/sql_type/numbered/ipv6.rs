//! Addresses of the Internet Protocol, version 6.

use std::fmt::Write;
use std::net::Ipv6Addr;

use super::{NumberedTexts, NumberedType};

/// `IPV6`. Texts have every form of RFC 4291 without a zone, and are written as RFC 5952 says.
pub(super) static IPV6: NumberedType = NumberedType {
    code: 1,
    name: "IPV6",
    aliases: &["INET6"],
    bytes: 16,
    texts: NumberedTexts::Rule {
        read: |text| text.parse::<Ipv6Addr>().ok().map(|address| address.to_bits().into()),
        write: |number, out| write!(out, "{}", Ipv6Addr::from_bits(number.low)).expect("a String takes every text"),
    },
    hint: "an IPV6 is written 2001:db8::1 or ::ffff:192.0.2.1",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        let mut out = String::new();
        IPV6.write(IPV6.read(text)?, &mut out);
        Some(out)
    }

    #[test]
    fn texts_become_those_of_rfc_5952() {
        for (text, canonical) in [
            ("::", "::"),
            ("::1", "::1"),
            ("2001:0DB8:0:0:0:0:0:1", "2001:db8::1"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
            ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
            ("::ffff:c000:201", "::ffff:192.0.2.1"),
            ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            assert_eq!(rewritten(text).as_deref(), Some(canonical), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", ":", "1.2.3.4", "::1%eth0", "2001:db8::1/64", "1::2::3", "12345::", "[::1]", " ::1", "::g"] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }
}
