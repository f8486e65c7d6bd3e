//! Documents stored by path: the scalars at frequent paths as columns of their own, and the rest as skeletons.
//!
//! ```text
//!   document    {"kind": "commit", "seq": 7, "tags": ["a"]}
//!   skeleton    {"kind": ⌀0, "seq": ⌀1, "tags": ["a"]}
//!   parts       0 = $.kind: TEXT 'commit'     1 = $.seq: BIGINT 7
//! ```
//!
//! [`cut::cut`] takes the scalars of a column of documents out, and [`restore::DocumentParts`] puts the documents
//! together again, byte for byte. A skeleton keeps everything that was not taken out: white space, the order of keys,
//! keys that occur twice, and values that are not written as we would write them. Documents of one shape have equal
//! skeletons, so the value list of the skeletons is short.
//!
//! A hole is the byte 0, which valid JSON does not contain, and then the number of the part as a character. A byte 0 of
//! the document itself, which no cast lets in, is a hole with the number [`HOLES_MAX`].
//!
//! - `path_tree`: the paths of a column of documents. `walk`: visits the values of one document.
//! - `scalar`: which scalars can be taken out, and their text.
//! - `choice`: which paths are taken out. `cut` and `restore`: the two directions.
//! - `directory`: the section with the paths.

pub(crate) mod choice;
pub(crate) mod cut;
pub(crate) mod directory;
mod path_tree;
pub(crate) mod restore;
pub(crate) mod scalar;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use directory::PartAnswer;
pub(crate) use directory::PathDirectory;
pub use scalar::PartType;

/// Most parts of a column of documents.
pub(crate) const HOLES_MAX: usize = 256;

/// The byte that begins a hole.
pub(crate) const HOLE: u8 = 0;
