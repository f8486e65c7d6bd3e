//! The writer of an answer, and the compression that its client accepts.
//!
//! The thread of the statement compresses, because the network threads only move bytes. A middleware of the HTTP
//! library would compress on them, and one long answer would hold up all connections.

use std::io::{self, Write};
use std::sync::Arc;

use flate2::write::GzEncoder;
use parking_lot::Mutex;

use super::channel_writer::ChannelWriter;

/// The compression of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentCoding {
    Identity,
    Gzip,
    Zstd,
}

impl ContentCoding {
    /// Returns the coding with the highest weight in an `Accept-Encoding` header that we have; zstd if two are equal.
    pub(super) fn of_accept(accept: &str) -> ContentCoding {
        let mut best = (0.0, ContentCoding::Identity);
        for wanted in accept.split(',') {
            let (name, weight) = match wanted.split_once(';') {
                Some((name, rest)) => {
                    let weight = rest.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse().ok());
                    (name.trim(), weight.unwrap_or(0.0))
                }
                None => (wanted.trim(), 1.0),
            };
            let coding = match name.to_ascii_lowercase().as_str() {
                "zstd" => ContentCoding::Zstd,
                "gzip" | "x-gzip" => ContentCoding::Gzip,
                _ => continue,
            };
            if weight > best.0 || (weight == best.0 && weight > 0.0 && coding == ContentCoding::Zstd) {
                best = (weight, coding);
            }
        }
        best.1
    }

    /// The value of `Content-Encoding`. `None` for an answer that is not compressed.
    pub(super) fn header(self) -> Option<&'static str> {
        match self {
            ContentCoding::Identity => None,
            ContentCoding::Gzip => Some("gzip"),
            ContentCoding::Zstd => Some("zstd"),
        }
    }
}

/// Writes an answer. Clones write to the same answer, because the writers of formats take theirs by value.
#[derive(Clone)]
pub(super) struct AnswerWriter(Arc<Mutex<CodedOutput>>);

/// The stages of an answer on its way to the network threads.
enum CodedOutput {
    Plain(ChannelWriter),
    Gzip(GzEncoder<ChannelWriter>),
    Zstd(zstd::stream::write::Encoder<'static, ChannelWriter>),
    /// The answer has ended.
    Ended,
}

impl AnswerWriter {
    pub(super) fn new(out: ChannelWriter, coding: ContentCoding) -> io::Result<AnswerWriter> {
        let out = match coding {
            ContentCoding::Identity => CodedOutput::Plain(out),
            ContentCoding::Gzip => CodedOutput::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            // Level 0 stands for the library's default.
            ContentCoding::Zstd => CodedOutput::Zstd(zstd::stream::write::Encoder::new(out, 0)?),
        };
        Ok(AnswerWriter(Arc::new(Mutex::new(out))))
    }

    /// Writes the rest of the answer.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut out = match std::mem::replace(&mut *self.0.lock(), CodedOutput::Ended) {
            CodedOutput::Plain(out) => out,
            CodedOutput::Gzip(encoder) => encoder.finish()?,
            CodedOutput::Zstd(encoder) => encoder.finish()?,
            CodedOutput::Ended => return Ok(()),
        };
        out.flush()
    }

    /// Ends the answer in the middle, so that the client cannot take it for a whole one.
    pub(super) fn break_off(&self, error: &rowmill::Error) {
        let mut out = self.0.lock();
        match &mut *out {
            CodedOutput::Plain(channel) => channel.break_off(error),
            CodedOutput::Gzip(encoder) => encoder.get_mut().break_off(error),
            CodedOutput::Zstd(encoder) => encoder.get_mut().break_off(error),
            CodedOutput::Ended => {}
        }
    }
}

impl Write for AnswerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock() {
            CodedOutput::Plain(out) => out.write(bytes),
            CodedOutput::Gzip(out) => out.write(bytes),
            CodedOutput::Zstd(out) => out.write(bytes),
            CodedOutput::Ended => Err(io::Error::other("the answer has ended")),
        }
    }

    /// Does nothing: the writers of formats flush more often than is good for compression. [`AnswerWriter::finish`]
    /// writes the rest.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coding_with_the_highest_weight_is_taken() {
        for (accept, coding) in [
            ("", ContentCoding::Identity),
            ("br, deflate", ContentCoding::Identity),
            ("gzip, deflate, br, zstd", ContentCoding::Zstd),
            ("zstd;q=0.5, GZIP", ContentCoding::Gzip),
            ("gzip;q=0, zstd;q=0", ContentCoding::Identity),
            ("gzip;q=nonsense", ContentCoding::Identity),
            ("*", ContentCoding::Identity),
        ] {
            assert_eq!(ContentCoding::of_accept(accept), coding, "{accept}");
        }
    }
}
