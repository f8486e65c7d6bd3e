//! Messages to a client, gathered in one buffer until there is a reason to send them.

use bytes::BytesMut;
use pgwire::messages::Message;

/// The most bytes of answers that a session gathers before it sends them. A client that does not read holds no more
/// than this and one row.
pub(crate) const OUTPUT_BYTES: usize = 64 << 10;

/// Appends a message.
pub(crate) fn put(out: &mut BytesMut, message: &impl Message) {
    let start = out.len();
    // Encoding fails only for messages that are longer than the protocol allows. We bound the texts of all messages, so
    // this cannot happen; but half a message would make the rest unreadable.
    if message.encode(out).is_err() {
        debug_assert!(false, "a message is longer than its type allows");
        out.truncate(start);
    }
}
