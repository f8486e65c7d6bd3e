//! Hashes of texts and BLOBs.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use blake2::{Blake2b512, Blake2s256, Digest as _};
use md5::Md5;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_plan::Operand;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use super::encoding::push_hex;
use crate::functions::rowwise::{BytesArgument, TextArgument, blobs, texts};

pub(super) fn md5(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let values = BytesArgument::new(&arguments[0]);
    texts("md5", arguments, rows, |row, made| {
        push_hex(&Md5::digest(values.at(row)), made.text());
        Ok(())
    })
}

pub(super) fn sha224(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    hashed(arguments, rows, Method::Sha224)
}

pub(super) fn sha256(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    hashed(arguments, rows, Method::Sha256)
}

pub(super) fn sha384(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    hashed(arguments, rows, Method::Sha384)
}

pub(super) fn sha512(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    hashed(arguments, rows, Method::Sha512)
}

fn hashed(arguments: &[Operand], rows: usize, method: Method) -> Result<ArrayRef> {
    let values = BytesArgument::new(&arguments[0]);
    blobs(arguments, rows, |row, made| {
        method.hash(values.at(row), made);
        Ok(())
    })
}

pub(super) fn digest(arguments: &[Operand], _kind: &DataType, rows: usize) -> Result<ArrayRef> {
    let (values, methods) = (BytesArgument::new(&arguments[0]), TextArgument::new(&arguments[1]));
    let constant = methods.constant().map(Method::named).transpose()?;
    blobs(arguments, rows, |row, made| {
        let method = constant.map_or_else(|| Method::named(methods.at(row)), Ok)?;
        method.hash(values.at(row), made);
        Ok(())
    })
}

#[derive(Clone, Copy, Debug)]
enum Method {
    Md5,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Blake2s,
    Blake2b,
    Blake3,
}

impl Method {
    fn named(name: &str) -> Result<Method> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "md5" => Method::Md5,
            "sha224" => Method::Sha224,
            "sha256" => Method::Sha256,
            "sha384" => Method::Sha384,
            "sha512" => Method::Sha512,
            "blake2s" => Method::Blake2s,
            "blake2b" => Method::Blake2b,
            "blake3" => Method::Blake3,
            _ => {
                let name: String = name.chars().take(60).collect();
                let error = Error::new(ErrorKind::InvalidParameter, format!("digest has no method '{name}'"));
                return Err(error.hint("it has md5, sha224, sha256, sha384, sha512, blake2s, blake2b and blake3"));
            }
        })
    }

    fn hash(self, bytes: &[u8], made: &mut Vec<u8>) {
        match self {
            Method::Md5 => made.extend_from_slice(&Md5::digest(bytes)),
            Method::Sha224 => made.extend_from_slice(&Sha224::digest(bytes)),
            Method::Sha256 => made.extend_from_slice(&Sha256::digest(bytes)),
            Method::Sha384 => made.extend_from_slice(&Sha384::digest(bytes)),
            Method::Sha512 => made.extend_from_slice(&Sha512::digest(bytes)),
            Method::Blake2s => made.extend_from_slice(&Blake2s256::digest(bytes)),
            Method::Blake2b => made.extend_from_slice(&Blake2b512::digest(bytes)),
            Method::Blake3 => made.extend_from_slice(blake3::hash(bytes).as_bytes()),
        }
    }
}
