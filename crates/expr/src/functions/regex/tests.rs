use arrow::array::Array;
use rowmill_base::ErrorKind;
use rowmill_plan::Operand;

use crate::functions::result_limit::with_result_limit;
use crate::functions::signatures::TEXT;
use crate::functions::test_call::*;

fn one(name: &str, arguments: &[&str]) -> String {
    let arguments: Vec<Operand> = arguments.iter().map(|&argument| constant(argument)).collect();
    shown(name, &arguments).remove(0)
}

#[test]
fn regexp_like_takes_flags() {
    let texts = || text([Some("Rowmill"), Some("мир"), Some(""), None]);
    assert_eq!(shown("regexp_like", &[texts(), constant("^row")]), ["false", "false", "false", "NULL"]);
    assert_eq!(shown("regexp_like", &[texts(), constant("^row"), constant("i")])[0], "true");
    assert_eq!(shown("regexp_like", &[texts(), constant("^row"), constant("ic")])[0], "true");
    assert_eq!(shown("regexp_like", &[texts(), constant(""), constant("")]), ["true", "true", "true", "NULL"]);
    assert_eq!(shown("regexp_like", &[texts(), null(&TEXT)]), ["NULL"; 4]);
    let patterns = text([Some("mill$"), Some("ир"), None, Some("(")]);
    assert_eq!(shown("regexp_like", &[texts(), patterns]), ["true", "true", "NULL", "NULL"]);
    assert_eq!(shown("regexp_like", &[constant("a\nb"), text([Some("^b")]), constant("n")]), ["true"]);
    for flags in ["g", "zz"] {
        let error = refused("regexp_like", &[texts(), constant("a"), constant(flags)]);
        assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    }
    let error = refused("regexp_like", &[texts(), constant("(")]);
    assert!(error.message().contains("is not a regular expression"), "{error}");
    let error = refused("regexp_like", &[constant("a"), constant("((a{100}){100}){100}")]);
    assert_eq!(error.kind(), ErrorKind::ResultTooLarge);
}

#[test]
fn first_matches_are_lists_of_groups() {
    assert_eq!(one("regexp_match", &["Köln", "[a-z]ö[a-z]{2}", "i"]), "[Köln]");
    assert_eq!(one("regexp_match", &["2013-07-31", r"(\d+)-(\d+)"]), "[2013, 07]");
    let made = call("regexp_match", &[text([Some("b"), None, Some("x")]), constant("(a)?(b)")]).unwrap();
    assert_eq!((made.is_null(0), made.is_null(1), made.is_null(2)), (false, true, true));
    assert_eq!(show(&made)[0], "[, b]");
    assert_eq!(
        refused("regexp_match", &[constant("a"), constant("a"), constant("g")]).kind(),
        ErrorKind::InvalidParameter
    );
}

#[test]
fn replacements_take_the_first_match_unless_asked_for_all() {
    assert_eq!(
        one("regexp_replace", &["http://a.b/c http://d.e/f", "http://([^/]+)/", r"<\1>"]),
        "<a.b>c http://d.e/f"
    );
    assert_eq!(one("regexp_replace", &["abab", "b", "-"]), "a-ab");
    assert_eq!(one("regexp_replace", &["abab", "b", "-", "g"]), "a-a-");
    assert_eq!(one("regexp_replace", &["abAB", "b", "-", "gi"]), "a-A-");
    assert_eq!(one("regexp_replace", &["abab", "b", "-", ""]), "a-ab");
    assert_eq!(one("regexp_replace", &["2013-07-31", r"(\d+)-(\d+)-(\d+)", r"\3.\2.\1"]), "31.07.2013");
    assert_eq!(one("regexp_replace", &["abc", "", "-"]), "-abc");
    assert_eq!(one("regexp_replace", &["abc", "b", r"[\&\0\2]"]), "a[bb]c");
}

#[test]
fn only_a_backslash_is_special_in_a_replacement_and_two_are_one() {
    assert_eq!(one("regexp_replace", &["abc", "b", "$1"]), "a$1c");
    assert_eq!(one("regexp_replace", &["abc", "(b)", r"[$1|\1]"]), "a[$1|b]c");
    assert_eq!(one("regexp_replace", &["abc", "(b)", r"\\1"]), r"a\1c");
    assert_eq!(one("regexp_replace", &["abc", "(b)", r"\\\1"]), r"a\bc");
    assert_eq!(one("regexp_replace", &["abc", "(b)", r"\10\n\"]), r"ab0\n\c");
}

#[test]
fn replacements_of_columns_follow_each_row() {
    let texts = || text([Some("abc"), None, Some("a text that is long enough to be no view, b")]);
    let made = shown("regexp_replace", &[texts(), constant("b"), constant("[]")]);
    assert_eq!(made, ["a[]c", "NULL", "a text that is long enough to []e no view, b"]);
    let patterns = text([Some("a"), Some("b"), Some(" .*")]);
    assert_eq!(shown("regexp_replace", &[texts(), patterns, constant("")]), ["bc", "NULL", "a"]);
    assert_eq!(
        shown("regexp_replace", &[constant("abab"), constant("b"), text([Some("1"), Some("2")])]),
        ["a1ab", "a2ab"]
    );
    assert_eq!(shown("regexp_replace", &[texts(), null(&TEXT), constant("")]), ["NULL"; 3]);
    let error = refused("regexp_replace", &[texts(), constant("(b"), constant("x")]);
    assert!(error.message().contains("is not a regular expression"));
    with_result_limit(1000, || {
        let long = constant("b".repeat(500).as_str());
        for texts in [constant("a".repeat(10).as_str()), text([Some("aaaaaaaaaa")])] {
            let error = refused("regexp_replace", &[texts, constant("a"), long.clone(), constant("g")]);
            assert_eq!(error.kind(), ErrorKind::ResultTooLarge);
        }
    });
}

#[test]
fn matches_are_counted_and_located() {
    let texts = || text([Some("abcAbAbc"), Some("яabc"), Some(""), None]);
    assert_eq!(shown("regexp_count", &[texts(), constant("b")]), ["3", "1", "0", "NULL"]);
    assert_eq!(shown("regexp_count", &[texts(), constant("abc"), constant(2), constant("i")]), ["1", "1", "0", "NULL"]);
    assert_eq!(shown("regexp_count", &[texts(), constant(""), constant(5)]), ["5", "1", "0", "NULL"]);
    assert_eq!(shown("regexp_instr", &[texts(), constant("b")]), ["2", "3", "0", "NULL"]);
    let second = [texts(), constant("b(.)"), constant(1), constant(2), constant("i"), constant(1)];
    assert_eq!(shown("regexp_instr", &second), ["6", "0", "0", "NULL"]);
    assert_eq!(shown("regexp_substr", &second), ["A", "NULL", "NULL", "NULL"]);
    assert_eq!(shown("regexp_substr", &[texts(), constant("[bя]"), constant(2)]), ["b", "b", "NULL", "NULL"]);
    assert_eq!(shown("regexp_instr", &[constant("ab"), text([Some("b"), Some("x")])]), ["2", "0"]);
    for bad in [[0_i64, 1, 0], [1, 0, 0], [1, 1, -1]] {
        let [start, count, group] = bad.map(constant);
        let error = refused("regexp_instr", &[constant("a"), constant("a"), start, count, constant(""), group]);
        assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    }
    assert_eq!(shown("regexp_count", &[text([None]), constant("b"), constant(0)]), ["NULL"]);
}

#[test]
fn similar_texts_match_as_a_whole() {
    let similar = |text: &str, pattern: &str| one("similar_to", &[text, pattern]) == "true";
    assert!(similar("abc", "a%") && similar("abc", "(a|x)_c") && similar("a\nc", "a_c"));
    assert!(!similar("abc", "b") && !similar("abc", "ab"));
    assert!(similar("aab", "a{2}b?") && similar("a.c", "a.c") && !similar("abc", "a.c"));
    assert!(similar("a%", r"a\%") && !similar("ab", r"a\%") && similar(r"a\", r"a\\"));
    assert!(similar("x", "[xyz]") && similar("%", "[%]") && !similar("a", "[%]") && similar("q", "[^xyz]"));
    assert!(similar("&&", "[a&&b]+") && similar("]", "[]]") && similar("7", "[[:digit:]]"));
    assert_eq!(one("similar_to", &["a%", "a!%", "!"]), "true");
    assert_eq!(one("similar_to", &[r"a\b", r"a\b", ""]), "true");
    let columns = [text([Some("abc"), Some("b"), None]), text([Some("a%"), Some("(b"), Some("(")])];
    assert_eq!(refused("similar_to", &columns).kind(), ErrorKind::InvalidParameter);
    let columns = [text([Some("abc"), Some("b"), None]), text([Some("a%"), Some("c|d"), Some("(")])];
    assert_eq!(shown("similar_to", &columns), ["true", "false", "NULL"]);
    assert_eq!(shown("similar_to", &[text([Some("abc"), None]), constant("%c")]), ["true", "NULL"]);
    for bad in [["a", r"a\", r"\"], ["a", "a", "ab"]] {
        assert_eq!(refused("similar_to", &bad.map(constant)).kind(), ErrorKind::InvalidParameter);
    }
}
