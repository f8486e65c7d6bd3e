use crate::functions::result_limit::with_result_limit;
use crate::functions::signatures::{BIGINT, BLOB, BOOLEAN, DOUBLE, TEXT};
use crate::functions::test_call::*;
use arrow::array::{BinaryViewArray, UInt64Array};
use rowmill_base::ErrorKind;

/// Returns texts that are NULL, empty, ASCII, and other.
fn words() -> rowmill_plan::Operand {
    text([None, Some(""), Some("Row mill"), Some("мир"), Some("a long text of more than twelve bytes"), Some("😀é")])
}

#[test]
fn lengths_count_characters_bytes_and_bits() {
    assert_eq!(shown("length", &[words()]), ["NULL", "0", "8", "3", "37", "2"]);
    assert_eq!(shown("octet_length", &[words()]), ["NULL", "0", "8", "6", "37", "6"]);
    assert_eq!(shown("bit_length", &[words()]), ["NULL", "0", "64", "48", "296", "48"]);
    let blob = column(BinaryViewArray::from(vec![Some(&[0_u8, 0xff][..]), None, Some(&[])]));
    assert_eq!(shown("length", std::slice::from_ref(&blob)), ["2", "NULL", "0"]);
    assert_eq!(shown("strlen", &[blob]), ["2", "NULL", "0"]);
    assert_eq!(shown("char_length", &[null(&TEXT)]), ["NULL"]);
    assert_eq!(show(&call_rows("length", &[constant("мир")], 2).unwrap()), ["3", "3"]);
    assert_eq!(show(&call_rows("octet_length", &[constant("мир")], 2).unwrap()), ["6", "6"]);
    assert!(kinds("length", &[bigint([Some(1)])]).is_none());
}

#[test]
fn cases_follow_unicode() {
    let words = || text([None, Some(""), Some("Row mill"), Some("Straße É"), Some("ΟΔΟΣ"), Some("it's o'CLOCK x1y")]);
    assert_eq!(shown("upper", &[words()]), ["NULL", "", "ROW MILL", "STRASSE É", "ΟΔΟΣ", "IT'S O'CLOCK X1Y"]);
    assert_eq!(shown("lower", &[words()]), ["NULL", "", "row mill", "straße é", "οδος", "it's o'clock x1y"]);
    assert_eq!(shown("initcap", &[words()])[2..], ["Row Mill", "Straße É", "Οδοσ", "It'S O'Clock X1y"]);
    assert_eq!(shown("reverse", &[words()])[1..4], ["", "llim woR", "É eßartS"]);
}

#[test]
fn concatenation_is_strict_as_operator_and_skips_null_as_function() {
    let (a, b) = (text([Some("a"), None, Some("")]), text([Some("b"), Some("b"), None]));
    assert_eq!(shown("text_concat", &[a.clone(), constant("-"), b.clone()]), ["a-b", "NULL", "NULL"]);
    assert_eq!(shown("text_concat", &[a.clone(), null(&TEXT)]), ["NULL"; 3]);
    assert_eq!(shown("concat", &[a.clone(), b.clone(), null(&TEXT)]), ["ab", "b", ""]);
    assert_eq!(shown("concat_ws", &[constant(", "), a.clone(), b.clone(), constant("c")]), ["a, b, c", "b, c", ", c"]);
    assert_eq!(shown("concat_ws", &[a, b.clone(), b.clone()]), ["bab", "NULL", ""]);
    assert_eq!(shown("concat_ws", &[null(&TEXT), b]), ["NULL"; 3]);
    let blob = column(BinaryViewArray::from(vec![Some(&[1_u8][..]), None]));
    assert_eq!(shown("blob_concat", &[blob.clone(), blob]), ["0101", "NULL"]);
    assert!(kinds("concat", &[]).is_none());
    assert!(kinds("blob_concat", &[null(&BLOB), constant("a")]).is_none());
}

#[test]
fn substrings_count_from_one_and_positions_before_it_are_empty() {
    let sub =
        |start: i64, length: i64| shown("substring", &[constant("мир"), constant(start), constant(length)])[0].clone();
    let found =
        [(2, 1), (1, 2), (2, 100), (0, 2), (-1, 3), (1, 0), (5, 1), (-5, 2)].map(|(start, length)| sub(start, length));
    assert_eq!(found, ["и", "ми", "ир", "м", "м", "", "", ""]);
    assert_eq!(sub(2, i64::MAX), "ир");
    assert_eq!(sub(i64::MIN, i64::MAX), "");
    assert_eq!(sub(i64::MAX, i64::MAX), "");
    assert_eq!(
        shown("substr", &[words(), constant(3)])[2..],
        ["w mill", "р", "long text of more than twelve bytes", ""]
    );
    assert_eq!(shown("substr", &[words(), constant(i64::MIN)])[2], "Row mill");
    let error = refused("substring", &[text([Some("a")]), constant(1), constant(-1)]);
    assert!(error.message().contains("negative"), "{error}");
    assert_eq!(shown("substring", &[text([None]), constant(1), constant(-1)]), ["NULL"]);
}

#[test]
fn left_and_right_take_or_drop_characters() {
    assert_eq!(shown("left", &[words(), constant(2)]), ["NULL", "", "Ro", "ми", "a ", "😀é"]);
    assert_eq!(shown("right", &[words(), constant(2)]), ["NULL", "", "ll", "ир", "es", "😀é"]);
    assert_eq!(shown("left", &[words(), constant(-1)])[..4], ["NULL", "", "Row mil", "ми"]);
    assert_eq!(shown("right", &[words(), constant(-1)])[..4], ["NULL", "", "ow mill", "ир"]);
    assert_eq!(shown("right", &[words(), constant(0)])[2..4], ["", ""]);
    assert_eq!(shown("left", &[words(), constant(i64::MIN)])[2], "");
    assert_eq!(shown("right", &[words(), constant(i64::MIN)])[3], "");
    assert_eq!(shown("left", &[constant("abc"), bigint([Some(1), None, Some(i64::MAX)])]), ["a", "NULL", "abc"]);
}

#[test]
fn overlay_puts_one_text_into_another() {
    let over = |start: i64, more: &[i64]| {
        let more = more.iter().map(|&count| constant(count));
        let arguments: Vec<_> =
            [constant("Txxxxas"), constant("hom"), constant(start)].into_iter().chain(more).collect();
        shown("overlay", &arguments)[0].clone()
    };
    assert_eq!(over(2, &[4]), "Thomas");
    assert_eq!(over(2, &[]), "Thomxas");
    assert_eq!(over(2, &[0]), "Thomxxxxas");
    assert_eq!(over(100, &[]), "Txxxxashom");
    assert_eq!(over(1, &[i64::MAX]), "hom");
    let error = refused("overlay", &[constant("a"), constant("b"), constant(0)]);
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
}

#[test]
fn padding_fills_or_cuts() {
    assert_eq!(shown("lpad", &[constant("м"), constant(3), constant("x")]), ["xxм"]);
    assert_eq!(shown("lpad", &[constant("м"), constant(6), constant("aя")]), ["aяaяaм"]);
    assert_eq!(shown("rpad", &[words(), constant(4)]), ["NULL", "    ", "Row ", "мир ", "a lo", "😀é  "]);
    assert_eq!(shown("rpad", &[constant("ab"), bigint([Some(-1), Some(1), None]), constant("")]), ["", "a", "NULL"]);
    assert_eq!(shown("lpad", &[constant("ab"), constant(5), constant("")]), ["ab"]);
    assert_eq!(shown("repeat", &[words(), constant(2)])[1..4], ["", "Row millRow mill", "мирмир"]);
    assert_eq!(shown("repeat", &[constant("ab"), bigint([Some(-1), Some(0), None])]), ["", "", "NULL"]);
    assert_eq!(shown("repeat", &[constant(""), constant(i64::MAX)]), [""]);
}

#[test]
fn results_that_are_too_large_are_refused_before_they_are_made() {
    let kind = |name, arguments: &[_]| refused(name, arguments).kind();
    assert_eq!(kind("repeat", &[constant("x"), constant(2_000_000_000)]), ErrorKind::ResultTooLarge);
    assert_eq!(kind("repeat", &[constant("xx"), constant(i64::MAX)]), ErrorKind::ResultTooLarge);
    assert_eq!(kind("lpad", &[constant("x"), constant(i64::MAX)]), ErrorKind::ResultTooLarge);
    assert_eq!(kind("rpad", &[constant("x"), constant(i64::MAX), constant("я")]), ErrorKind::ResultTooLarge);
    with_result_limit(100, || {
        let many = constant("a".repeat(60).as_str());
        assert_eq!(kind("replace", &[many.clone(), constant("a"), constant("bb")]), ErrorKind::ResultTooLarge);
        assert_eq!(kind("text_concat", &[many.clone(), many.clone()]), ErrorKind::ResultTooLarge);
        assert_eq!(kind("concat_ws", &[many.clone(), many.clone(), constant("b")]), ErrorKind::ResultTooLarge);
        assert_eq!(kind("translate", &[many.clone(), constant("a"), constant("я")]), ErrorKind::ResultTooLarge);
        assert_eq!(kind("levenshtein", &[many.clone(), many.clone()]), ErrorKind::ResultTooLarge);
        let error = call_rows("upper", &[many], 2);
        assert!(error.is_ok(), "a result of the size of the argument is not bounded");
    });
    let error = refused("repeat", &[constant("x"), constant(2_000_000_000)]);
    assert!(error.message().starts_with("repeat asks for 2000000000 bytes in one batch, the limit is 268435456"));
}

#[test]
fn trimming_takes_spaces_or_a_set() {
    let words = || text([None, Some(""), Some("   "), Some("  мир "), Some("xyмирyx"), Some("\tx ")]);
    assert_eq!(shown("trim", &[words()]), ["NULL", "", "", "мир", "xyмирyx", "\tx"]);
    assert_eq!(shown("ltrim", &[words()])[3], "мир ");
    assert_eq!(shown("rtrim", &[words()])[3], "  мир");
    assert_eq!(shown("btrim", &[words(), constant("yx")])[3..], ["  мир ", "мир", "\tx "]);
    assert_eq!(shown("ltrim", &[words(), constant("yxм")])[4], "ирyx");
    assert_eq!(shown("btrim", &[words(), constant("")])[3], "  мир ");
    assert_eq!(shown("btrim", &[words(), null(&TEXT)]), ["NULL"; 6]);
}

#[test]
fn replacing_takes_every_occurrence_and_nothing_for_the_empty_text() {
    let words = || text([None, Some(""), Some("aaa"), Some("мама"), Some("b")]);
    assert_eq!(shown("replace", &[words(), constant("aa"), constant("b")]), ["NULL", "", "ba", "мама", "b"]);
    assert_eq!(shown("replace", &[words(), constant("ма"), constant("")]), ["NULL", "", "aaa", "", "b"]);
    assert_eq!(shown("replace", &[words(), constant(""), constant("x")])[2], "aaa");
    assert_eq!(shown("replace", &[constant("abc"), text([Some("b"), Some("")]), constant("-")]), ["a-c", "abc"]);
    assert_eq!(shown("translate", &[words(), constant("aма"), constant("xя")]), ["NULL", "", "xxx", "яя", "b"]);
    assert_eq!(
        shown("translate", &[constant("12345"), text([Some("143"), Some("11")]), constant("ax")]),
        ["a2x5", "a2345"]
    );
}

#[test]
fn parts_are_counted_from_either_end() {
    let part = |number: i64| shown("split_part", &[constant("a..b..я"), constant(".."), constant(number)])[0].clone();
    assert_eq!([1, 2, 3, 4, -1, -2, -3, -4].map(part), ["a", "b", "я", "", "я", "b", "a", ""]);
    assert_eq!(part(i64::MIN), "");
    assert_eq!(refused("split_part", &[constant("a"), constant("."), constant(0)]).kind(), ErrorKind::InvalidParameter);
    assert_eq!(shown("split_part", &[words(), constant(""), constant(1)])[2], "Row mill");
    assert_eq!(shown("split_part", &[words(), constant(" "), constant(2)]), ["NULL", "", "mill", "", "long", ""]);
    assert_eq!(shown("split_part", &[constant("a,b;c"), text([Some(","), Some(";")]), constant(2)]), ["b;c", "c"]);
    let before = |count: i64| shown("substr_index", &[constant("a.b.я"), constant("."), constant(count)])[0].clone();
    assert_eq!([1, 2, 3, 0, -1, -2, -3, i64::MIN].map(before), ["a", "a.b", "a.b.я", "", "я", "b.я", "a.b.я", "a.b.я"]);
    let found = shown("find_in_set", &[text([Some("b"), Some("x"), Some(""), None]), constant("a,b,,c")]);
    assert_eq!(found, ["2", "0", "3", "NULL"]);
    assert_eq!(shown("find_in_set", &[constant(""), constant("")]), ["0"]);
}

#[test]
fn searches_find_positions_of_characters() {
    assert_eq!(shown("strpos", &[words(), constant("ир")]), ["NULL", "0", "0", "2", "0", "0"]);
    assert_eq!(shown("instr", &[words(), constant("")])[1..4], ["1", "1", "1"]);
    assert_eq!(shown("position", &[words(), words()]), ["NULL", "1", "1", "1", "1", "1"]);
    assert_eq!(shown("contains", &[words(), constant("ил")]), ["NULL", "false", "false", "false", "false", "false"]);
    assert_eq!(shown("contains", &[words(), words()])[1..], ["true"; 5]);
    assert_eq!(shown("starts_with", &[words(), constant("ми")]), ["NULL", "false", "false", "true", "false", "false"]);
    assert_eq!(shown("ends_with", &[words(), constant("é")])[4..], ["false", "true"]);
    assert_eq!(shown("ends_with", &[words(), null(&TEXT)]), ["NULL"; 6]);
    assert_eq!(kinds("contains", &[words(), null(&BOOLEAN)]), None);
}

#[test]
fn characters_convert_to_numbers_and_back() {
    assert_eq!(shown("ascii", &[words()]), ["NULL", "0", "82", "1084", "97", "128512"]);
    assert_eq!(shown("chr", &[bigint([Some(65), Some(128_512), None])]), ["A", "😀", "NULL"]);
    for bad in [-1, 0xD800, 0x11_0000, i64::MAX] {
        assert_eq!(refused("chr", &[constant(bad)]).kind(), ErrorKind::InvalidParameter);
    }
    assert_eq!(
        shown("to_hex", &[bigint([Some(255), Some(-1), Some(0), None])]),
        ["ff", "ffffffffffffffff", "0", "NULL"]
    );
    assert_eq!(shown("to_hex", &[column(UInt64Array::from(vec![u64::MAX]))]), ["ffffffffffffffff"]);
    assert!(kinds("to_hex", &[null(&DOUBLE)]).is_none());
}

#[test]
fn distances_count_edits_of_characters() {
    let left = text([Some("kitten"), Some(""), Some("мир"), Some("abc"), None]);
    let right = text([Some("sitting"), Some("ab"), Some("мор"), Some(""), Some("a")]);
    assert_eq!(shown("levenshtein", &[left, right]), ["3", "2", "1", "3", "NULL"]);
}

#[test]
fn empty_batches_give_empty_columns() {
    for (name, arguments) in [
        ("upper", vec![text([])]),
        ("length", vec![text([])]),
        ("contains", vec![text([]), constant("a")]),
        ("left", vec![text([]), constant(1)]),
        ("repeat", vec![text([]), null(&BIGINT)]),
        ("concat", vec![text([]), null(&TEXT)]),
    ] {
        assert_eq!(call_rows(name, &arguments, 0).unwrap().len(), 0);
    }
}
