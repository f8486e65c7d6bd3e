"""Functions of Python as functions of SQL."""

import datetime as dt
import decimal
import threading
import uuid

import pytest
import rowmill


@pytest.fixture
def con():
    return rowmill.connect()


def test_a_function_is_called_for_each_row(con):
    con.create_function("add_tax", lambda price, percent: price * (100 + percent) / 100, ["DOUBLE", "BIGINT"], "DOUBLE")
    assert con.execute("SELECT add_tax(200, 19)").fetchone() == (238.0,)
    con.execute("CREATE TABLE t AS SELECT value AS n, value % 3 AS k FROM generate_series(1, 100000)")
    total = con.execute("SELECT k, count(*), max(add_tax(n, k)) FROM t WHERE add_tax(n, 0) > 10 GROUP BY k ORDER BY k").fetchall()
    assert [row[1] for row in total] == [33330, 33330, 33330] and total[0][2] == 99999.0
    # Another function of the name takes its place.
    con.create_function("add_tax", lambda price, percent: 0.0, ["DOUBLE", "BIGINT"], "DOUBLE")
    assert con.execute("SELECT add_tax(200, 19)").fetchone() == (0.0,)


def test_annotations_give_the_types(con):
    def twice(text: str, times: int) -> str:
        return text * times

    con.create_function("twice", twice)
    assert con.execute("SELECT twice('ab', 2), typeof(twice('ab', 2))").fetchone() == ("abab", "TEXT")
    with pytest.raises(TypeError, match="annotate"):
        con.create_function("unknown", lambda x: x)


def test_values_of_every_type_go_in_and_out(con):
    values = {
        "BOOLEAN": True, "SMALLINT": -7, "BIGINT": 2**62, "DOUBLE": 0.5, "TEXT": "é", "BLOB": b"\x00\xff",
        "DECIMAL(9, 2)": decimal.Decimal("1.50"), "DATE": dt.date(1969, 12, 31), "TIME": dt.time(1, 2, 3, 4),
        "TIMESTAMP": dt.datetime(1960, 1, 1, 0, 0, 0, 5), "UUID": uuid.UUID(int=7), "INTERVAL": dt.timedelta(days=-1, seconds=5),
        "TIMESTAMPTZ": dt.datetime(2024, 2, 29, 12, tzinfo=dt.timezone.utc), "BIGINT[]": [1, None], "TEXT[]": ["a"],
    }  # fmt: skip
    for place, (kind, value) in enumerate(values.items()):
        seen = []
        con.create_function(f"same{place}", lambda given, seen=seen: seen.append(given) or given, [kind], kind)
        assert con.execute(f"SELECT same{place}(CAST(? AS {kind}))", [value]).fetchone() == (value,), kind
        assert seen[0] == value and type(seen[0]) is type(value), kind


def test_null_gives_null_unless_the_function_takes_it(con):
    con.create_function("known", lambda x: "known", ["BIGINT"], "TEXT")
    con.create_function("any", lambda x: "none" if x is None else None, ["BIGINT"], "TEXT", null_handling="special")
    assert con.execute("SELECT known(1), known(NULL), any(1), any(NULL)").fetchone() == ("known", None, None, "none")


def test_functions_of_columns_get_arrays(con):
    pa = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    sizes = []

    def add(a, b):
        sizes.append(len(a))
        return compute.add(a, b)

    con.create_function("plus", add, ["BIGINT", "BIGINT"], "BIGINT", type="arrow")
    con.execute("CREATE TABLE t AS SELECT CASE WHEN value <> 5 THEN value END AS n FROM generate_series(1, 10000)")
    assert con.execute("SELECT sum(plus(n, 1)), count(plus(n, n)) FROM t").fetchone() == (50015000 - 6, 9999)
    assert max(sizes) > 100
    con.create_function("texts", lambda a: pa.array([f"n{x}" for x in a.to_pylist()]), ["BIGINT"], "TEXT", type="arrow")
    assert con.execute("SELECT texts(n) FROM t WHERE n < 3 ORDER BY n").fetchall() == [("n1",), ("n2",)]
    con.create_function("short", lambda a: a.slice(0, 0), ["BIGINT"], "BIGINT", type="arrow")
    with pytest.raises(rowmill.DataError, match="0 values for"):
        con.execute("SELECT short(n) FROM t").fetchall()


def test_an_exception_is_the_error_of_the_statement(con):
    def fails(x: int) -> int:
        raise ValueError(f"no {x}")

    con.create_function("fails", fails)
    with pytest.raises(rowmill.DataError, match="function fails: ValueError: no 7"):
        con.execute("SELECT fails(7)").fetchall()
    con.create_function("wrong", lambda x: "text", ["BIGINT"], "BIGINT")
    with pytest.raises(rowmill.Error, match="wrong"):
        con.execute("SELECT wrong(7)").fetchall()
    assert con.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(rowmill.Error, match="sum"):
        con.create_function("sum", lambda x: x, ["BIGINT"], "BIGINT")
    with pytest.raises(rowmill.Error, match="(?i)nothing"):
        con.create_function("f", lambda x: x, ["NOTHING"], "BIGINT")


def test_streams_and_threads_can_call_functions(con):
    polars, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    con.create_function("half", lambda x: x // 2, ["BIGINT"], "BIGINT")
    con.execute("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 200000)")
    sql = "SELECT half(n) AS h FROM t"
    assert polars.DataFrame(con.execute(sql)).height == 200000
    assert pa.table(con.execute(sql)).num_rows == 200000
    assert con.sql(sql).pl()["h"].max() == 100000
    found = []
    threads = [threading.Thread(target=lambda: found.append(con.execute(sql).arrow().num_rows)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [200000] * 3


def test_side_effects_are_repeated(con):
    calls = []
    con.create_function("count_up", lambda: calls.append(1) or len(calls), [], "BIGINT", side_effects=True)
    rows = con.execute("SELECT count_up() FROM generate_series(1, 5)").fetchall()
    assert sorted(rows) == [(1,), (2,), (3,), (4,), (5,)]
