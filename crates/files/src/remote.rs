//! Files over HTTP and of S3.
//!
//! A URL is read by the same readers as a path. They see an [`InputFile`](crate::input_file::InputFile) whose bytes
//! come from the network:
//!
//! ```text
//! URL, pattern ─► store ─► listing ─► file ─┬─ reader   one request for the text from front to back
//!                          (only S3)        ├─ ahead    the column chunks of a Parquet file, several at a time
//!                                           └─ read_at  footers, indexes and headers, in windows
//! COPY ... TO ─► upload: parts, several at a time, and the object appears when all are there
//! ```
//!
//! The engine blocks, and `object_store` is asynchronous. Its requests run on two threads of their own (`runtime`), and
//! the thread of the engine waits for them and looks at the cancel flag. `object_store` signs requests and
//! repeats them; `transport` sends them.
//!
//! A file must stay the same while a statement reads it. Every answer is compared with the first one: the tag of the
//! content where the server sends one, or else size and time of change.

mod ahead;
mod examine;
mod failure;
mod file;
mod listing;
mod reader;
mod runtime;
mod store;
mod transport;
mod upload;

pub(crate) use ahead::read_ahead;
pub(crate) use examine::examine;
pub(crate) use file::RemoteFile;
pub(crate) use listing::locate;
pub(crate) use upload::{Upload, UploadStream};
