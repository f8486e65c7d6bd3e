"""A program that `mypy --strict` accepts: `test_types.py` checks it, and that it runs."""

import datetime
from pathlib import Path

import pandas
import polars
import pyarrow
import rowmill
import rowmill.adbc
from rowmill.progress import TerminalProgress


def run(folder: Path) -> list[tuple[int, str]]:
    con = rowmill.connect(folder / "db", memory_limit="256MB", frames_by_name=True)
    con.progress = TerminalProgress()
    con.execute("CREATE TABLE t (n BIGINT, s TEXT, d DATE)")
    with con.appender("t", ["n", "s"]) as rows:
        rows.append(1, "x")
        rows.append_rows([(2, "y"), (3, "z")])
    cursor: rowmill.Cursor = con.executemany("INSERT INTO t VALUES (?, ?, ?)", [(4, "w", datetime.date(2024, 2, 29))])
    changed: int = cursor.rowcount
    names: list[str] = [column[0] for column in con.execute("SELECT * FROM t").description or []]
    frame: pandas.DataFrame = con.execute("SELECT * FROM t WHERE n > :n", {"n": 1}).df()
    other: polars.DataFrame = con.execute("SELECT * FROM t").pl()
    found: pyarrow.Table = con.execute("SELECT * FROM t").arrow()
    relation: rowmill.Relation = con.sql("SELECT * FROM found")
    counts: tuple[int, int] = relation.filter("n > 1").order("n").shape
    assert (changed, names, len(frame), len(other), counts) == (1, ["n", "s", "d"], 3, 4, (3, 3))
    try:
        with con:
            con.execute("SELECT nothing")
    except rowmill.ProgrammingError as error:
        assert error.sqlstate == "42703"
    with rowmill.adbc.connect() as adbc, adbc.cursor() as statement:
        statement.execute("SELECT 1")
    return [(n, s) for n, s, _ in con.execute("SELECT * FROM t ORDER BY n").fetchall()]
