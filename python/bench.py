"""Measures the module beside DuckDB's, in turns, and prints the median of each figure: python bench.py [rounds]."""

import statistics
import sys
import tempfile
import time

import duckdb
import pyarrow as pa
import rowmill

ROWS = 10_000_000
CALLS = 2_000
INSERTS = 20_000


def connect(module, folder):
    con = module.connect(f"{folder}/{module.__name__}")
    con.execute("SET threads = 2")
    con.execute("CREATE TABLE points (id BIGINT PRIMARY KEY, v TEXT)")
    con.execute("INSERT INTO points SELECT i, 'value ' || i FROM generate_series(1, 100000) s(i)")
    con.execute(
        f"CREATE TABLE wide AS SELECT i AS id, i % 1000 AS k, i / 7.0::DOUBLE AS d, 'text ' || (i % 5000) AS s "
        f"FROM generate_series(1, {ROWS}) s(i)"
    )
    return con


def seconds(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def point_query(con):
    def run():
        for n in range(CALLS):
            con.execute("SELECT v FROM points WHERE id = ?", [n * 37 % 100_000 + 1]).fetchone()

    return seconds(run) / CALLS * 1e6


def smallest_query(con):
    def run():
        for _ in range(CALLS):
            con.execute("SELECT 1").fetchone()

    return seconds(run) / CALLS * 1e6


def arrow_table(con):
    def run():
        found = con.execute("SELECT * FROM wide").to_arrow_reader().read_all()
        assert found.num_rows == ROWS

    return seconds(run) * 1e3


def fetched_rows(con):
    return ROWS / 10 / seconds(lambda: con.execute(f"SELECT * FROM wide WHERE id <= {ROWS // 10}").fetchall()) / 1e3


def executed_rows(con):
    con.execute("CREATE OR REPLACE TABLE target (id BIGINT, d DOUBLE, s TEXT)")
    rows = [(n, n / 3, f"text {n}") for n in range(INSERTS)]
    con.execute("BEGIN")
    taken = seconds(lambda: con.executemany("INSERT INTO target VALUES (?, ?, ?)", rows))
    con.execute("COMMIT")
    return INSERTS / taken / 1e3


def appended_frame(con):
    con.execute("CREATE OR REPLACE TABLE target (id BIGINT, d DOUBLE, s TEXT)")
    frame = pa.table({"id": range(2_000_000), "d": [n / 3 for n in range(2_000_000)], "s": ["some text"] * 2_000_000})  # noqa: F841
    return 2_000_000 / seconds(lambda: con.execute("INSERT INTO target SELECT * FROM frame")) / 1e3


def rows_of_appender(con):
    if not hasattr(con, "appender"):
        return float("nan")
    con.execute("CREATE OR REPLACE TABLE target (id BIGINT, d DOUBLE, s TEXT)")
    rows = [(n, n / 3, f"text {n}") for n in range(200_000)]

    def run():
        with con.appender("target") as appender:
            appender.append_rows(rows)

    return 200_000 / seconds(run) / 1e3


FIGURES = [
    ("point query by key, execute and fetchone", "µs", point_query),
    ("SELECT 1, execute and fetchone", "µs", smallest_query),
    ("10 million rows of 4 columns as Arrow", "ms", arrow_table),
    ("fetchall of 1 million rows", "thousand rows/s", fetched_rows),
    ("executemany in a transaction", "thousand rows/s", executed_rows),
    ("INSERT FROM a table of pyarrow", "thousand rows/s", appended_frame),
    ("appender, rows of Python values", "thousand rows/s", rows_of_appender),
]


def main(rounds):
    with tempfile.TemporaryDirectory() as folder:
        connections = [connect(module, folder) for module in (rowmill, duckdb)]
        taken = {name: ([], []) for name, _, _ in FIGURES}
        for _ in range(rounds):
            for name, _, measure in FIGURES:
                for place, con in enumerate(connections):
                    taken[name][place].append(measure(con))
        print(f"{'':45} {'rowmill':>10} {'duckdb':>10}")
        for name, unit, _ in FIGURES:
            ours, theirs = (statistics.median(values) for values in taken[name])
            print(f"{name:45} {ours:10.1f} {theirs:10.1f} {unit}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
