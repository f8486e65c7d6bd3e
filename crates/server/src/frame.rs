//! Messages of a client: cut from the bytes that have arrived, checked, and only then decoded by pgwire.
//!
//! pgwire's decoders trust the lengths inside of a message: a wrong one makes them panic or read into the next message.
//! So every message is cut off as a frame of its own, and [`check_body`] walks over it first. It also says what was
//! wrong, which a decoder cannot.
//!
//! ```text
//! type │ length, with itself │ body
//!  1            4
//! ```

use bytes::{Buf, BytesMut};
use pgwire::messages::{DecodeContext, PgWireFrontendMessage, ProtocolVersion};

/// The most bytes of messages that carry only names and numbers.
const SMALL_BYTES_MAX: usize = 10_000;

/// Bytes that do not follow the protocol. The connection must end, because the next message cannot be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokenFrame(pub(crate) String);

/// The types of messages that a client may send after the start, with their names. `true` marks messages of any size.
const MESSAGES: [(u8, &str, bool); 14] = [
    (b'B', "Bind", true),
    (b'C', "Close", false),
    (b'c', "CopyDone", false),
    (b'd', "CopyData", true),
    (b'D', "Describe", false),
    (b'E', "Execute", false),
    (b'f', "CopyFail", true),
    (b'H', "Flush", false),
    (b'P', "Parse", true),
    (b'p', "password", false),
    (b'Q', "Query", true),
    (b'S', "Sync", false),
    (b'X', "Terminate", false),
    (b'F', "FunctionCall", true),
];

/// Cuts the next message off `input` and decodes it. `None` if it has not arrived completely.
pub(crate) fn next_message(
    input: &mut BytesMut,
    bytes_max: usize,
) -> Result<Option<PgWireFrontendMessage>, BrokenFrame> {
    let Some(frame) = next_frame(input, bytes_max)? else { return Ok(None) };
    decode(frame).map(Some)
}

/// Whether the next message has arrived completely and is a Sync.
pub(crate) fn is_sync_next(input: &[u8]) -> bool {
    input.starts_with(b"S\0\0\0\x04")
}

/// Cuts the next message off `input`, with its type and length.
fn next_frame(input: &mut BytesMut, bytes_max: usize) -> Result<Option<BytesMut>, BrokenFrame> {
    let Some(&kind) = input.first() else { return Ok(None) };
    let (_, name, is_large) = known(kind)?;
    let Some(length) = input.get(1..5) else { return Ok(None) };
    let length = u32::from_be_bytes(length.try_into().expect("4 bytes")) as usize;
    let max = if is_large { bytes_max } else { SMALL_BYTES_MAX.min(bytes_max) };
    if length < 4 || length > max {
        return Err(BrokenFrame(format!("a {name} message has the length {length}; 4 to {max} are allowed")));
    }
    if input.len() < 1 + length {
        return Ok(None);
    }
    Ok(Some(input.split_to(1 + length)))
}

fn known(kind: u8) -> Result<(u8, &'static str, bool), BrokenFrame> {
    let found = MESSAGES.into_iter().find(|(own, ..)| *own == kind);
    found.ok_or_else(|| BrokenFrame(format!("a message has the unknown type {:?}", char::from(kind))))
}

/// Decodes a whole message.
fn decode(mut frame: BytesMut) -> Result<PgWireFrontendMessage, BrokenFrame> {
    let kind = frame[0];
    let (_, name, _) = known(kind)?;
    check_body(kind, &frame[5..]).map_err(|what| BrokenFrame(format!("a {name} message is malformed: {what}")))?;
    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, false);
    match PgWireFrontendMessage::decode(&mut frame, &context) {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(BrokenFrame(format!("a {name} message is incomplete"))),
        Err(error) => Err(BrokenFrame(format!("a {name} message cannot be read: {error}"))),
    }
}

/// Checks that every part of a body is inside of it, and that nothing follows.
fn check_body(kind: u8, body: &[u8]) -> Result<(), &'static str> {
    let mut body = BodyCursor(body);
    match kind {
        b'Q' => body.text()?,
        b'P' => {
            body.text()?;
            body.text()?;
            body.skip_each(4)?;
        }
        b'B' => {
            body.text()?;
            body.text()?;
            body.skip_each(2)?;
            for _ in 0..body.count()? {
                match body.length()? {
                    -1 => {}
                    length => body.skip(usize::try_from(length).map_err(|_| "a length is negative")?)?,
                }
            }
            body.skip_each(2)?;
        }
        b'D' | b'C' => {
            if !matches!(body.0.first(), Some(b'S' | b'P')) {
                return Err("it names neither a statement (S) nor a portal (P)");
            }
            body.skip(1)?;
            body.text()?;
        }
        b'E' => {
            body.text()?;
            body.length()?;
        }
        b'f' => body.text()?,
        b'S' | b'H' | b'c' | b'X' => {}
        b'd' | b'p' => return Ok(()),
        b'F' => return Err("function calls of the protocol are not supported, use SELECT"),
        _ => return Err("its type is unknown"),
    }
    if body.0.is_empty() { Ok(()) } else { Err("bytes follow its end") }
}

/// Walks over the parts of a body.
struct BodyCursor<'b>(&'b [u8]);

impl BodyCursor<'_> {
    fn skip(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.0 = self.0.get(bytes..).ok_or("it ends too early")?;
        Ok(())
    }

    /// Passes a text and the zero byte at its end.
    fn text(&mut self) -> Result<(), &'static str> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or("a text has no end")?;
        std::str::from_utf8(&self.0[..end]).map_err(|_| "a text is not UTF-8")?;
        self.skip(end + 1)
    }

    fn count(&mut self) -> Result<u16, &'static str> {
        let mut rest = self.0;
        self.skip(2)?;
        Ok(rest.get_u16())
    }

    fn length(&mut self) -> Result<i32, &'static str> {
        let mut rest = self.0;
        self.skip(4)?;
        Ok(rest.get_i32())
    }

    /// Passes a count and as many parts of `bytes` bytes.
    fn skip_each(&mut self, bytes: usize) -> Result<(), &'static str> {
        let count = usize::from(self.count()?);
        self.skip(count * bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    fn frame(kind: u8, body: &[u8]) -> BytesMut {
        let length = (body.len() as u32 + 4).to_be_bytes();
        BytesMut::from_iter([kind].into_iter().chain(length).chain(body.iter().copied()))
    }

    fn broken(kind: u8, body: &[u8]) -> String {
        next_message(&mut frame(kind, body), BYTES_MAX).expect_err("a broken message").0
    }

    #[test]
    fn messages_are_cut_one_by_one() {
        let mut input = frame(b'Q', b"SELECT 1\0");
        input.extend_from_slice(&frame(b'S', b""));
        assert!(matches!(next_message(&mut input, BYTES_MAX), Ok(Some(PgWireFrontendMessage::Query(_)))));
        assert!(is_sync_next(&input));
        assert!(matches!(next_message(&mut input, BYTES_MAX), Ok(Some(PgWireFrontendMessage::Sync(_)))));
        assert!(matches!(next_message(&mut input, BYTES_MAX), Ok(None)));
    }

    #[test]
    fn a_part_of_a_message_waits_for_the_rest() {
        let whole = frame(b'P', b"\0SELECT 1\0\0\0");
        for end in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..end]);
            assert!(matches!(next_message(&mut part, BYTES_MAX), Ok(None)), "{end}");
            assert_eq!(part.len(), end);
        }
    }

    #[test]
    fn lengths_inside_and_outside_are_checked() {
        assert!(broken(b'P', b"\0SELECT 1\0\0\x05\0\0\0\x01").contains("ends too early"));
        assert!(broken(b'B', b"\0\0\0\0\0\x01\0\0\0\x09abc").contains("ends too early"));
        assert!(broken(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\x00\0\0").contains("negative"));
        assert!(broken(b'Q', b"SELECT 1").contains("no end"));
        assert!(broken(b'Q', b"\xff\0").contains("UTF-8"));
        assert!(broken(b'D', b"Xname\0").contains("neither"));
        assert!(broken(b'S', b"x").contains("bytes follow"));
        assert!(broken(b'F', b"").contains("function calls"));
        assert!(broken(b'z', b"").contains("unknown type"));
        for length in [[0, 0, 0, 3], [255, 255, 255, 255], [0, 0, 0x40, 0]] {
            let mut input = BytesMut::from_iter([b'S'].into_iter().chain(length));
            assert!(next_message(&mut input, BYTES_MAX).expect_err("a wrong length").0.contains("length"));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut input = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = next_message(&mut input, BYTES_MAX) {}
        }

        #[test]
        fn any_body_is_read_without_a_panic(
            kind in proptest::sample::select(&b"BCcdDEfHPpQSXF"[..]),
            body in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..60),
        ) {
            let _ = next_message(&mut frame(kind, &body), BYTES_MAX);
        }
    }
}
