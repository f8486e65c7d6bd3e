"""Rows in and out without SQL: appenders, readers, NumPy, and the display of progress."""

import datetime as dt
import os
import signal
import sys
import threading

import pytest
import rowmill
from rowmill import progress


@pytest.fixture
def con():
    return rowmill.connect()


def test_an_appender_stores_all_rows_or_none(con):
    con.execute("CREATE TABLE t (n BIGINT NOT NULL, s TEXT DEFAULT 'none', d DATE)")
    with con.appender("t") as rows:
        rows.append(1, "x", dt.date(2024, 2, 29))
        rows.append_rows((n, None, None) for n in range(20_000))
        assert rows.rows == 20_001
    assert con.execute("SELECT count(*), min(d) FROM t").fetchone() == (20_001, dt.date(2024, 2, 29))
    rows = con.appender("t", ["n"])
    rows.append(5)
    assert rows.close() == 1 and con.execute("SELECT s FROM t WHERE n = 5 AND s = 'none'").fetchone() == ("none",)
    with pytest.raises(rowmill.InterfaceError, match="closed"):
        rows.append(6)
    for bad in [(None, "x", None), ("no number", "x", None), (1,)]:
        with pytest.raises(rowmill.Error), con.appender("t") as rows:
            rows.append(1, "x", None)
            rows.append(*bad)
    with pytest.raises(ValueError), con.appender("t") as rows:
        rows.append(1, "x", None)
        raise ValueError
    with pytest.raises(rowmill.ProgrammingError, match="nowhere"):
        con.appender("nowhere")
    assert not con.in_transaction
    assert con.execute("SELECT count(*) FROM t").fetchone() == (20_002,)


def test_an_appender_joins_a_transaction(con):
    con.execute("CREATE TABLE t (n BIGINT PRIMARY KEY)")
    con.begin()
    with con.appender("main.t") as rows:
        rows.append_rows([[1], [2]])
    assert con.in_transaction
    con.rollback()
    assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_batches_are_read_one_by_one(con):
    pa = pytest.importorskip("pyarrow")
    cursor = con.execute("SELECT value FROM generate_series(1, 200000)")
    assert cursor.fetchone() == (1,)
    reader = cursor.fetch_record_batch()
    assert isinstance(reader, pa.RecordBatchReader)
    assert sum(batch.num_rows for batch in reader) == 199_999
    with pytest.raises(pa.ArrowException, match="zero"):
        con.execute("SELECT 1 / (value - 150000) FROM generate_series(1, 200000)").fetch_record_batch().read_all()
    polars = pytest.importorskip("polars")
    assert con.execute("SELECT 1 AS one, 'x' AS s").pl().equals(polars.DataFrame({"one": [1], "s": ["x"]}))


def test_arrays_with_nulls_are_masked(con):
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    arrays = con.execute("SELECT * FROM (VALUES (1, 1.5::DOUBLE, 'a', true), (NULL, NULL, NULL, NULL)) AS t(n, d, s, b)").fetchnumpy()
    assert arrays["n"].tolist() == [1, None] and arrays["n"].dtype.kind == "i"
    assert arrays["b"].tolist() == [True, None] and arrays["d"].tolist() == [1.5, None]
    assert arrays["s"].tolist() == ["a", None] and isinstance(arrays["s"], numpy.ma.MaskedArray)


def test_values_of_numpy_and_pandas_are_parameters(con):
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    moment = dt.datetime(2024, 2, 29, 1, 2, 3)
    values = [numpy.float32(0.5), numpy.bool_(True), numpy.datetime64("2024-02-29T01:02:03", "ns"), pandas.Timestamp(moment), pandas.NaT, pandas.NA]
    assert con.execute("SELECT ?, ?, ?, ?, ?, ?", values).fetchone() == (0.5, True, moment, moment, None, None)
    row = con.execute("SELECT ?, ?", [{"a": 1, "b": [dt.date(2024, 2, 29)]}, [moment, None]]).fetchone()
    assert row == ({"a": 1, "b": [dt.date(2024, 2, 29)]}, [moment, None])
    with pytest.raises(TypeError, match="without keys"):
        con.execute("SELECT ?", [{}])


class Recorded:
    def __init__(self):
        self.shares, self.ends = [], 0

    def update(self, share, seconds):
        self.shares.append(share)

    def finish(self):
        self.ends += 1


LONG = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a.value + b.value = 7"


def test_progress_is_shown_and_may_end_a_statement(con):
    con.progress = shown = Recorded()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        con.execute(LONG).fetchall()
    assert shown.shares and shown.ends == 1

    def refuse(share, seconds):
        raise RuntimeError("enough")

    shown.update = refuse
    with pytest.raises(RuntimeError, match="enough"):
        con.execute(LONG).fetchall()
    con.progress = None
    assert con.progress is None and con.execute("SELECT 1").fetchone() == (1,)


def test_the_terminal_shows_one_line_and_removes_it(capsys):
    shown = progress.TerminalProgress(sys.stderr)
    shown.update(0.1, 1.0)
    assert capsys.readouterr().err == ""
    shown.update(0.5, 4.0)
    assert "50%" in (line := capsys.readouterr().err) and "about 4 s left" in line and line.startswith("\r")
    shown.update(None, 5.0)
    shown.finish()
    assert capsys.readouterr().err.endswith("\r\x1b[K")


def test_a_directory_is_one_database(tmp_path):
    one, two = rowmill.connect(tmp_path / "db", memory_limit="256MB"), rowmill.connect(str(tmp_path / "db"))
    one.execute("CREATE TABLE t AS SELECT 1 AS n")
    assert two.execute("SELECT n FROM t").fetchone() == (1,)
    with pytest.raises(rowmill.DataError, match="is open in this process, with other settings"):
        rowmill.connect(tmp_path / "db", memory_limit="512MB")
    rowmill.connect(tmp_path / "db", memory_limit="256MB").close()
    one.close()
    assert two.execute("SELECT n FROM t").fetchone() == (1,)
    two.close()
    rowmill.connect(tmp_path / "db", memory_limit="512MB").close()
