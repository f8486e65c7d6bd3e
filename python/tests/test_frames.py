"""Variables of Python as tables, and relations."""

import pytest
import rowmill

pa = pytest.importorskip("pyarrow")

of_module = pa.table({"n": [1, 2, 3]})


@pytest.fixture
def con():
    return rowmill.connect()


def test_a_variable_is_a_table(con):
    local = pa.table({"n": [1, 2], "s": ["a", None]})
    assert con.execute("SELECT sum(n), count(s) FROM local").fetchone() == (3, 1)
    assert con.execute("SELECT count(*) FROM of_module JOIN local USING (n)").fetchone() == (2,)
    assert con.execute('SELECT n FROM "local" AS l WHERE l.n > ?', [1]).fetchall() == [(2,)]
    assert con.execute("WITH x AS (SELECT n FROM local)\nSELECT (SELECT max(n) FROM of_module) FROM x").fetchall() == [(3,)] * 2
    # The variable is read again by each statement.
    local = pa.table({"n": [7]})
    assert con.cursor().execute("SELECT * FROM local").fetchall() == [(7,)]
    local = local.slice(0, 0)
    assert con.execute("SELECT count(*) FROM local").fetchone() == (0,)


def test_frames_of_each_library_are_tables(con):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame({"n": [1, 2], "t": pandas.to_timedelta([1, 2], "h")}, index=["x", "y"])
    assert con.execute("SELECT * FROM frame").df().columns.tolist() == ["n", "t"]
    frame = polars.DataFrame({"n": [1, 2]})
    lazy = frame.lazy().filter(polars.col("n") > 1)
    reader = pa.RecordBatchReader.from_batches(of_module.schema, of_module.to_batches())
    batch = of_module.to_batches()[0]
    for name in ["frame", "lazy", "reader", "batch"]:
        assert con.execute(f"SELECT max(n) - count(*) FROM {name}").fetchone()[0] in (0, 1)


def test_tables_come_first_and_errors_stay(con):
    con.execute("CREATE TABLE stored (n BIGINT)")
    stored = pa.table({"n": [1]})  # noqa: F841
    number = 5  # noqa: F841
    assert con.execute("SELECT count(*) FROM stored").fetchone() == (0,)
    with pytest.raises(rowmill.ProgrammingError, match="the variable number is no table either: a int has no Arrow data"):
        con.execute("SELECT * FROM number")
    for sql in ["SELECT * FROM nowhere", "SELECT * FROM main.of_module", "SELECT nowhere FROM of_module"]:
        with pytest.raises(rowmill.ProgrammingError, match="nowhere|of_module"):
            con.execute(sql)
    # A statement leaves no table.
    assert con.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = 'of_module'").fetchone() == (0,)
    assert not con.unregister("of_module")


def test_a_setting_turns_variables_off(con):
    con.frames_by_name = False
    with pytest.raises(rowmill.ProgrammingError, match="there is no table"):
        con.execute("SELECT * FROM of_module")
    assert not con.duplicate().frames_by_name
    assert not rowmill.connect(frames_by_name=False).frames_by_name


def test_variables_are_sources_of_tables(con):
    con.execute("CREATE TABLE t AS SELECT * FROM of_module")
    assert con.execute("INSERT INTO t SELECT n + 10 FROM of_module").rowcount == 3
    with con:
        con.execute("INSERT INTO t SELECT n FROM of_module")
    assert con.execute("SELECT count(*), sum(n) FROM t").fetchone() == (9, 48)


def test_relations_are_made_in_steps(con):
    local = pa.table({"n": list(range(10)), "s": ["a", "b"] * 5})
    rel = con.sql("SELECT * FROM local -- all rows")
    assert (rel.columns, rel.types, rel.shape) == (["n", "s"], ["BIGINT", "TEXT"], (10, 2))
    top = rel.filter("n > 4").order("n DESC").limit(2, 1).select("n", "n * 2 AS twice")
    assert top.fetchall() == [(8, 16), (7, 14)] and top.fetchall() == [(8, 16), (7, 14)]
    assert rel.aggregate("s, sum(n) AS total", "s").order("s").fetchall() == [("a", 20), ("b", 25)]
    assert rel.select("s").distinct().order("s").df()["s"].tolist() == ["a", "b"]
    # The relation keeps the data that it was made over.
    local = pa.table({"n": [0]})
    assert len(rel) == 10 and rel.arrow().num_rows == 10
    # A relation is a table by its name, too.
    assert con.sql("SELECT count(*) FROM rel JOIN top USING (n)").fetchone() == (2,)
    assert (rel.fetchone(), rel.fetchmany(2), len(rel.fetchall()), rel.fetchone()) == ((0, "a"), [(1, "b"), (2, "a")], 7, (0, "a"))
    rel.create("stored")
    assert rel.filter("n = 3").insert_into("stored") == 1
    assert con.sql("SELECT count(*) FROM stored").fetchall() == [(11,)]


def test_statements_run_at_once(con):
    assert con.sql("CREATE TABLE t (n BIGINT PRIMARY KEY)") is None
    added = con.sql("INSERT INTO t VALUES (1), (2) RETURNING n")
    assert added.fetchall() == [(1,), (2,)] and added.fetchall() == [(1,), (2,)]
    assert con.sql("SELECT * FROM t WHERE n = ?", [2]).filter("n > 0").fetchall() == [(2,)]
    assert con.sql("SELECT * FROM t WHERE n = :n", {"n": 1}).fetchall() == [(1,)]
    with pytest.raises(rowmill.ProgrammingError, match='"m"'):
        con.sql("SELECT m FROM t")
    text = str(con.sql("SELECT n, NULL AS nothing FROM t"))
    assert text.splitlines()[0].split() == ["n", "nothing"] and "NULL" in text
    assert "<td>2</td>" in con.sql("SELECT * FROM t")._repr_html_()
