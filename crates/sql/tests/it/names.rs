//! The spelling of names, and duplicate names.

use crate::support::{error, rows, small};

fn header(sql: &str) -> String {
    let (_, mut session) = small();
    rows(&mut session, sql).remove(0)
}

#[test]
fn stored_names_keep_their_spelling_in_every_query() {
    for sql in
        ["SELECT a, \"b B\" FROM t", "SELECT A, \"B b\" FROM T", "SELECT \"A\", \"b b\" FROM \"T\"", "SELECT * FROM t"]
    {
        assert_eq!(header(sql), "A|B b", "{sql}");
    }
    assert_eq!(header("SELECT x.a FROM t AS X"), "A");
    assert_eq!(header("SELECT a FROM (SELECT * FROM t) ORDER BY 1 LIMIT 1"), "A");
    assert_eq!(header("SELECT a FROM t UNION ALL SELECT 1"), "A");
    assert_eq!(header("SELECT a, count(*) FROM t GROUP BY a"), "A|count(*)");
    assert_eq!(header("SELECT l.a, r.a FROM t l JOIN t r ON l.a = r.a"), "A|A");
}

#[test]
fn aliases_keep_their_spelling() {
    assert_eq!(header("SELECT COUNT(*) AS PageViews FROM t"), "PageViews");
    assert_eq!(header("SELECT COUNT(*) AS \"Page views\" FROM t"), "Page views");
    assert_eq!(header("SELECT a AS a FROM t"), "a");
    assert_eq!(header("SELECT pageviews FROM (SELECT COUNT(*) AS PageViews FROM t)"), "PageViews");
    assert_eq!(header("WITH w (Foo) AS (SELECT 1) SELECT foo FROM w"), "Foo");
    assert_eq!(header("SELECT Größe FROM (VALUES (1)) AS v (\"GRÖßE\")"), "GRÖßE");
}

#[test]
fn computed_columns_are_named_by_their_text() {
    assert_eq!(header("SELECT COUNT(*), SUM(a), a + 1, 1.5 FROM t GROUP BY a"), "count(*)|sum(A)|A + 1|1.5");
    assert_eq!(header("SELECT COUNT(DISTINCT a), MIN(\"b b\") FROM t"), "count(DISTINCT A)|min(B b)");
}

#[test]
fn columns_may_share_a_name() {
    assert_eq!(header("SELECT a, a FROM t"), "A|A");
    assert_eq!(header("SELECT *, a FROM t"), "A|B b|A");
    assert_eq!(header("SELECT 1, 1"), "1|1");
    assert_eq!(header("SELECT a AS X, a AS x FROM t"), "X|x");
    assert_eq!(header("SELECT count(*), count(*) FROM t"), "count(*)|count(*)");
    assert_eq!(header("SELECT * FROM (SELECT a, a FROM t)"), "A|A");
    assert_eq!(header("SELECT a, a FROM t ORDER BY a LIMIT 1"), "A|A");
}

#[test]
fn errors_suggest_the_nearest_name() {
    let (_, mut session) = small();
    let undefined = error(&mut session, "SELECT bb FROM t");
    assert!(undefined.hint_text().unwrap_or("").contains("B b"), "{undefined:?}");
    let undefined = error(&mut session, "SELECT * FROM tt");
    assert_eq!(undefined.kind(), rowmill_base::ErrorKind::UndefinedTable);
    let undefined = error(&mut session, "SELECT lenght('x')");
    assert!(undefined.hint_text().unwrap_or("").contains("length"), "{undefined:?}");
}
