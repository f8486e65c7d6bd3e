//! The unit of a length.

/// The unit of the length of a text or a BLOB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LengthUnit {
    /// Bytes.
    Bytes,
    /// The UTF-8 characters of a text.
    Characters,
}
