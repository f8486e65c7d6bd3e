//! Hashes, and bytes as text.

mod bases;
mod bytes;
mod digest;
mod encoding;

#[cfg(test)]
mod tests;

use rowmill_plan::FunctionSpec;

use super::signatures::{BLOB, TEXT, bytes, exactly, ordinary};

pub(super) use bases::BASES;
pub(super) use bytes::BYTES;

/// Makes the spec of a hash of a text or a BLOB.
const fn hash_function(name: &'static str) -> FunctionSpec {
    FunctionSpec { name, signature: |arguments| bytes(arguments, &[], BLOB), ..ordinary("hash") }
}

/// The functions of the family.
pub(super) static HASH: &[FunctionSpec] = &[
    FunctionSpec {
        name: "md5",
        signature: |arguments| bytes(arguments, &[], TEXT),
        kernel: digest::md5,
        doc: "The MD5 hash of a text or a BLOB, in hexadecimal digits.",
        example: ("md5('mill')", "a90794a1d591a78fb8905e7870116ea1"),
        ..ordinary("hash")
    },
    FunctionSpec {
        kernel: digest::sha224,
        doc: "The SHA-224 hash of a text or a BLOB.",
        example: ("octet_length(sha224('mill'))", "28"),
        ..hash_function("sha224")
    },
    FunctionSpec {
        kernel: digest::sha256,
        doc: "The SHA-256 hash of a text or a BLOB.",
        example: ("octet_length(sha256('mill'))", "32"),
        ..hash_function("sha256")
    },
    FunctionSpec {
        kernel: digest::sha384,
        doc: "The SHA-384 hash of a text or a BLOB.",
        example: ("octet_length(sha384('mill'))", "48"),
        ..hash_function("sha384")
    },
    FunctionSpec {
        kernel: digest::sha512,
        doc: "The SHA-512 hash of a text or a BLOB.",
        example: ("octet_length(sha512('mill'))", "64"),
        ..hash_function("sha512")
    },
    FunctionSpec {
        name: "digest",
        signature: |arguments| bytes(arguments, &[TEXT], BLOB),
        kernel: digest::digest,
        can_fail: true,
        doc: "The hash of a text or a BLOB by the method that the second argument names: md5, sha224, sha256, sha384, \
            sha512, \
              blake2s, blake2b or blake3.",
        example: ("octet_length(digest('mill', 'blake3'))", "32"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "encode",
        signature: |arguments| match arguments {
            [_] => exactly(arguments, &[TEXT], BLOB),
            _ => bytes(arguments, &[TEXT], TEXT),
        },
        kernel: encoding::encode,
        can_fail: true,
        doc: "A text or a BLOB as text in the form that the second argument names: hex, base64, or base64pad, which \
              fills up with =. With one argument, the bytes of a text.",
        example: ("encode('mill', 'hex')", "6d696c6c"),
        ..ordinary("hash")
    },
    FunctionSpec {
        name: "decode",
        signature: |arguments| match arguments {
            [_] => exactly(arguments, &[BLOB], TEXT),
            _ => bytes(arguments, &[TEXT], BLOB),
        },
        kernel: encoding::decode,
        can_fail: true,
        doc: "The bytes of a text in the form that the second argument names: hex, base64 or base64pad. With one \
              argument, the text of bytes in UTF-8.",
        example: ("decode('6d696c6c', 'hex')", "\\x6d696c6c"),
        ..ordinary("hash")
    },
];
