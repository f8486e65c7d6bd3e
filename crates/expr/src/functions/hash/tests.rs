use arrow::array::BinaryViewArray;
use rowmill_base::ErrorKind;

use crate::functions::signatures::{BIGINT, BLOB, TEXT};
use crate::functions::test_call::*;

#[test]
fn hashes_match_the_values_of_their_standards() {
    let values = || text([Some("abc"), Some(""), None]);
    let md5 = ["900150983cd24fb0d6963f7d28e17f72", "d41d8cd98f00b204e9800998ecf8427e", "NULL"];
    assert_eq!(shown("md5", &[values()]), md5);
    assert_eq!(shown("digest", &[values(), constant("MD5")]), md5);
    assert_eq!(shown("sha224", &[values()])[0], "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7");
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(shown("sha256", &[values()])[0], sha256);
    let blobs = column(BinaryViewArray::from(vec![Some(&b"abc"[..]), None]));
    assert_eq!(shown("sha256", &[blobs]), [sha256, "NULL"]);
    assert_eq!(
        shown("sha384", &[values()])[0],
        "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"
    );
    assert!(shown("sha512", &[values()])[0].starts_with("ddaf35a193617abacc417349ae204131"));
    let methods = text([Some("blake2s"), Some("blake2b"), Some("blake3"), Some("sha256"), None]);
    let made = shown("digest", &[constant("abc"), methods]);
    assert!(made[0].starts_with("508c5e8c327c14e2e1a72ba34eeb452f"));
    assert!(made[1].starts_with("ba80a53f981c4d0d6a2797b69f12f6e9"));
    assert!(made[2].starts_with("6437b3ac38465133ffb63b75273a8db5"));
    assert_eq!(made[3..], [sha256, "NULL"]);
    assert_eq!(refused("digest", &[constant("a"), constant("sha1")]).kind(), ErrorKind::InvalidParameter);
    assert!(kinds("md5", &[null(&BIGINT)]).is_none());
}

#[test]
fn decode_reverses_encode() {
    let forms = || text([Some("hex"), Some("base64"), Some("base64pad"), Some("HEX"), None]);
    let blob = || {
        constant(rowmill_plan::Constant::new(std::sync::Arc::new(BinaryViewArray::from(vec![&[0, 0xff, 16, 1][..]]))))
    };
    let encoded = shown("encode", &[blob(), forms()]);
    assert_eq!(encoded, ["00ff1001", "AP8QAQ", "AP8QAQ==", "00ff1001", "NULL"]);
    for (text, form) in [("00fF1001", "hex"), ("AP8QAQ", "base64"), ("AP8QAQ==", "base64"), ("AP8QAQ", "base64pad")] {
        assert_eq!(shown("decode", &[constant(text), constant(form)]), ["00ff1001"], "{text}");
    }
    assert_eq!(shown("decode", &[text([Some(""), None]), constant("hex")]), ["", "NULL"]);
    assert_eq!(shown("encode", &[text([Some("м"), None]), constant("hex")]), ["d0bc", "NULL"]);
    assert_eq!(shown("decode", &[null(&BLOB), constant("hex")]), ["NULL"]);
    for (text, form) in [("0", "hex"), ("0g", "hex"), ("мм", "hex"), ("A", "base64"), ("?!", "base64pad")] {
        assert_eq!(refused("decode", &[constant(text), constant(form)]).kind(), ErrorKind::InvalidText, "{text}");
    }
    assert_eq!(refused("encode", &[constant("a"), constant("utf9")]).kind(), ErrorKind::InvalidParameter);
    assert_eq!(shown("encode", &[constant("a"), null(&TEXT)]), ["NULL"]);
}
