"""The same calls on DuckDB's module and on this one give the same Python values of the same types."""

import datetime as dt
import decimal
import math
import uuid

import pytest
import rowmill
from differences import REASONS

duckdb = pytest.importorskip("duckdb")

#: Expressions by the name of the case; both modules run the same text.
EXPRESSIONS = {
    "null": "NULL",
    "boolean": "true",
    "tinyint": "(-128)::TINYINT",
    "smallint": "32767::SMALLINT",
    "integer": "(-2147483648)::INTEGER",
    "bigint": "9223372036854775807::BIGINT",
    "real": "1.5::REAL",
    "double": "0.1::DOUBLE",
    "infinity": "'infinity'::DOUBLE",
    "not a number": "'nan'::DOUBLE",
    "decimal": "12.50::DECIMAL(9, 2)",
    "negative decimal": "-0.001::DECIMAL(18, 3)",
    "decimal of 38 digits": "99999999999999999999999999999999999999::DECIMAL(38, 0)",
    "decimal without value": "NULL::DECIMAL(9, 2)",
    "literal": "1.25",
    "text": "'a''é😀'",
    "empty text": "''",
    "varchar": "'abc'::VARCHAR(5)",
    "blob": "from_hex('00FF6162')",
    "empty blob": "''::BLOB",
    "date": "DATE '2024-02-29'",
    "first date": "DATE '0001-01-01'",
    "last date": "DATE '9999-12-31'",
    "old date": "DATE '1969-12-31'",
    "time": "TIME '23:59:59.999999'",
    "timestamp": "TIMESTAMP '2024-02-29 12:30:00.000001'",
    "old timestamp": "TIMESTAMP '1969-12-31 23:59:59.999999'",
    "first timestamp": "TIMESTAMP '0001-01-01 00:00:00'",
    "timestamp with zone": "TIMESTAMPTZ '2024-02-29 12:30:00+02'",
    "interval": "INTERVAL '1 day 2 hours 3.000004 seconds'",
    "negative interval": "INTERVAL '-5 seconds'",
    "interval of months": "INTERVAL '1 month'",
    "interval of years": "INTERVAL '2 years'",
    "uuid": "'00000000-0000-0000-0000-00000000002a'::UUID",
    "json": "'{\"a\": [1, 2]}'::JSON",
    "list": "[1, 2, NULL]",
    "empty list": "[]::INTEGER[]",
    "list of lists": "[[1], NULL, []]",
    "list of dates": "[DATE '2024-02-29', NULL]",
    "list of texts": "['a', NULL]",
    "struct": "{'a': 1, 'b': 'x', 'c': NULL}",
    "struct of structs": "{'a': {'b': [1.5::DOUBLE]}}",
    "list of structs": "[{'a': 1}, {'a': NULL}]",
    "struct without value": "NULL::STRUCT(a INTEGER)",
    "map": "MAP {'a': 1, 'b': NULL}",
    "empty map": "NULL::MAP(VARCHAR, INTEGER)",
    "sum of integers": "(SELECT sum(x) FROM (VALUES (1), (2)) t(x))",
    "count": "(SELECT count(*) FROM (VALUES (1), (2)) t(x))",
    "average": "(SELECT avg(x) FROM (VALUES (1), (2)) t(x))",
    "division": "7 / 2",
    "comparison": "1 < 2",
    "concatenation": "'a' || 1",
}

#: Parameters by the name of the case. Both modules return what they were given.
PARAMETERS = {
    "None": None,
    "bool": False,
    "int": -7,
    "large int": 2**63 - 1,
    "int beyond BIGINT": 2**64,
    "float": 0.1,
    "str": "é",
    "bytes": b"\x00a",
    "Decimal": decimal.Decimal("1.50"),
    "date": dt.date(2024, 2, 29),
    "time": dt.time(1, 2, 3, 4),
    "datetime": dt.datetime(1969, 1, 1, 0, 0, 0, 1),
    "datetime with zone": dt.datetime(2024, 2, 29, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    "timedelta": dt.timedelta(days=-1, microseconds=1),
    "UUID": uuid.UUID(int=42),
    "list": [1, None, 3],
    "list of str": ["a", None],
    "list of datetime": [dt.datetime(2024, 1, 1)],
    "empty list": [],
    "dict": {"a": 1, "b": [1.5]},
    "list of dict": [{"a": 1}, {"a": 2}],
}


def ours(sql, *parameters):
    return rowmill.connect().execute(sql, *parameters).fetchone()[0]


def theirs(sql, *parameters):
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    return con.execute(sql, *parameters).fetchone()[0]


def same(one, other):
    """Whether two values are equal and of one type, down to the items."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return one == other and (not isinstance(one, dt.datetime) or one.utcoffset() == other.utcoffset())


def check(case, one, other):
    if case in REASONS:
        assert not same(one, other), f"{case} gives {one!r} in both modules now: it is no difference any more"
    else:
        assert same(one, other), f"{case}: {one!r} here, {other!r} in DuckDB"


@pytest.mark.parametrize("case", EXPRESSIONS)
def test_expressions_give_the_same_values(case):
    sql = f"SELECT {EXPRESSIONS[case]}"
    check(case, ours(sql), theirs(sql))


@pytest.mark.parametrize("case", PARAMETERS)
def test_parameters_come_back_the_same(case):
    name = f"parameter {case}"
    check(name, ours("SELECT ?", [PARAMETERS[case]]), theirs("SELECT ?", [PARAMETERS[case]]))


#: Calls on a cursor or relation by the name of the case.
SQL = "SELECT * FROM (VALUES (1::BIGINT, 'a', 0.5::DOUBLE), (2, NULL, NULL), (3, 'c', 1.5::DOUBLE)) t(n, s, d) ORDER BY n"
COLUMNS = """SELECT 1.5::DECIMAL(9, 2) AS d, DATE '2024-02-29' AS day, INTERVAL '1 day 2 seconds' AS i, true AS b,
    TIMESTAMP '2024-01-01 01:02:03' AS t, '00000000-0000-0000-0000-00000000002a'::UUID AS u, TIME '01:02:03' AS tm,
    [1::BIGINT] AS l, {'a': 1::BIGINT} AS s, 'x' AS tx, sum(x) AS total FROM (VALUES (1)) AS v(x)"""
CALLS = {
    "fetchone": lambda con: [con.execute(SQL).fetchone()],
    "fetchmany": lambda con: con.execute(SQL).fetchmany(2),
    "fetchmany of one": lambda con: con.execute(SQL).fetchmany(),
    "fetchall": lambda con: con.execute(SQL).fetchall(),
    "fetchall of nothing": lambda con: con.execute("SELECT 1 WHERE false").fetchall(),
    "fetchone of nothing": lambda con: [con.execute("SELECT 1 WHERE false").fetchone()],
    "names": lambda con: [column[0] for column in con.execute(SQL).description],
    "parameters in order": lambda con: con.execute("SELECT ? + 1, ?", [1, "x"]).fetchall(),
    "numbered parameters": lambda con: con.execute("SELECT $2, $1", [1, "x"]).fetchall(),
    "relation": lambda con: con.sql(SQL).fetchall(),
    "relation in steps": lambda con: con.sql(SQL).filter("n > 1").order("n DESC").limit(1).fetchall(),
    "columns of a relation": lambda con: con.sql(SQL).columns,
    "shape of a relation": lambda con: list(con.sql(SQL).shape),
    "statement as a relation": lambda con: [con.sql("CREATE TABLE t (n INTEGER)")],
    "frame": lambda con: con.execute(SQL).df().to_dict("list"),
    "types of a frame": lambda con: [str(kind) for kind in con.execute(SQL).df().dtypes],
    "arrow": lambda con: pytest.importorskip("pyarrow").table(con.sql(SQL).to_arrow_reader()).to_pylist(),
    "blobs of a frame": lambda con: con.execute("SELECT from_hex('00') AS b").df()["b"].tolist(),
    "polars": lambda con: pytest.importorskip("polars") and con.sql(SQL).pl().to_dicts(),
    "columns of a frame": lambda con: [str(kind) for kind in con.execute(COLUMNS).df().dtypes],
    "values of a frame": lambda con: con.execute(COLUMNS).df().astype(str).to_dict("list"),
    "arrays": lambda con: {name: array.tolist() for name, array in con.execute(SQL).fetchnumpy().items()},
    "types of arrays": lambda con: {name: str(array.dtype) for name, array in con.execute(SQL).fetchnumpy().items()},
}


@pytest.mark.parametrize("case", CALLS)
def test_calls_give_the_same_results(case):
    def plain(value):
        return repr(value).replace("<NA>", "nan")

    one, other = plain(CALLS[case](rowmill.connect())), plain(CALLS[case](duckdb.connect()))
    if case in REASONS:
        assert one != other, f"{case} gives {one} in both modules now: it is no difference any more"
    else:
        assert one == other


def test_frames_by_name_are_found_alike():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    columns = {"n": [1, 2], "s": ["a", None]}
    frames = [pandas.DataFrame(columns), polars.DataFrame(columns), polars.DataFrame(columns).lazy(), arrow.table(columns)]
    for frame in frames:
        for con in (rowmill.connect(), duckdb.connect()):
            assert con.execute("SELECT n, s FROM frame ORDER BY n").fetchall() == [(1, "a"), (2, None)], type(frame)
            relation = con.sql("SELECT * FROM frame")
            assert con.sql("SELECT count(s) FROM relation").fetchall() == [(1,)]
