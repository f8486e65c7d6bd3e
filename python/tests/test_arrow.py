"""Results as Arrow, pandas and NumPy, and Arrow data as tables."""

import datetime as dt

import pytest
import rowmill

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def con():
    return rowmill.connect()


SQL = """SELECT value AS n, 'n' || value AS s, value / 2.0::DOUBLE AS d, CASE WHEN value > 1 THEN DATE '2024-02-29' END AS day,
    ['a', NULL] AS l FROM generate_series(1, 3)"""


def test_results_are_tables_of_pyarrow(con):
    table = con.execute(SQL).arrow()
    assert table.column_names == ["n", "s", "d", "day", "l"]
    assert table.schema.field("s").type == pa.string() and table.schema.field("l").type == pa.list_(pa.string())
    assert table.column("n").to_pylist() == [1, 2, 3]
    assert table.column("day").to_pylist() == [None, dt.date(2024, 2, 29), dt.date(2024, 2, 29)]
    assert table.column("l").to_pylist()[0] == ["a", None]
    assert pa.table(con.execute("SELECT 1 AS x WHERE false")).schema == pa.schema([("x", pa.int64())])


def test_results_are_frames_and_arrays(con):
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    frame = con.execute(SQL).df()
    assert isinstance(frame, pandas.DataFrame) and frame["s"].tolist() == ["n1", "n2", "n3"]
    arrays = con.execute(SQL).fetchnumpy()
    assert isinstance(arrays["d"], numpy.ndarray) and arrays["d"].tolist() == [0.5, 1.0, 1.5]
    assert con.execute("SELECT ? + 1", [numpy.int64(41)]).fetchone() == (42,)


def test_arrow_data_is_a_table(con):
    table = pa.table({"n": [1, 2, None], "s": pa.array(["a", "b", "a"]).dictionary_encode()})
    con.register("numbers", table)
    assert con.execute("SELECT s, sum(n), count(*) FROM numbers GROUP BY s ORDER BY s").fetchall() == [
        ("a", 1, 2),
        ("b", 2, 1),
    ]
    con.register("numbers", table.slice(0, 0))
    assert con.execute("SELECT count(*) FROM numbers").fetchone() == (0,)
    assert con.unregister("numbers") and not con.unregister("numbers")
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        con.register("numbers", [1, 2])
    with pytest.raises(rowmill.Error):
        con.register("numbers", pa.table({"u": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])}))
    entries = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    con.register("maps", pa.table({"m": entries}))
    assert con.execute("SELECT m FROM maps").fetchone() == ({"a": 1},)
    assert con.execute("SELECT m FROM maps").arrow()["m"].combine_chunks() == entries
    # A result is Arrow data, too.
    con.register("again", con.execute("SELECT 7 AS seven"))
    assert con.execute("SELECT seven FROM again").fetchone() == (7,)


def test_arrow_data_is_appended(con):
    con.execute("CREATE TABLE t (n BIGINT NOT NULL, s TEXT)")
    table = pa.table({"n": list(range(1000)), "s": ["x"] * 1000})
    assert con.append("t", table) == 1000
    with pytest.raises(rowmill.IntegrityError), con:
        con.append("t", table)
        con.append("t", pa.table({"n": pa.array([None], pa.int64()), "s": ["y"]}))
    assert con.execute("SELECT count(*) FROM t").fetchone() == (1000,)
    pandas = pytest.importorskip("pandas")
    assert con.append("t", pandas.DataFrame({"n": [7], "s": ["z"]})) == 1
