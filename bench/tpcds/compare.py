#!/usr/bin/env python3
"""Compares Rowmill with DuckDB on the tables and the 99 queries of TPC-DS: the answers, and the times in turns.

    python3 bench/tpcds/compare.py FOLDER [--scale 1] [--runs 4] [--release target/release]

The tables and the queries come from the extension tpcds, which the Python module duckdb 1.0.0 contains. pip installs it
into FOLDER, because newer modules lack the extension. The module that the queries are compared with is the one that
this Python has.
"""

import argparse
import csv
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import time

import duckdb

GENERATOR = """
import sys
sys.path.insert(0, sys.argv[1])
import duckdb, json, pathlib
connection, folder = duckdb.connect(), pathlib.Path(sys.argv[2])
connection.execute("LOAD tpcds")
connection.execute(f"CALL dsdgen(sf={float(sys.argv[3])})")
for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
queries = connection.execute("SELECT query FROM tpcds_queries() ORDER BY query_nr").fetchall()
(folder / "queries.json").write_text(json.dumps([query for (query,) in queries]))
"""


def generate(folder, scale):
    """Writes the tables as Parquet and the queries, each on one line."""
    data = folder / "data"
    if (data / "queries.json").exists():
        return data
    data.mkdir(parents=True, exist_ok=True)
    modules = folder / "generator"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(modules), "duckdb==1.0.0"]
    subprocess.run(install, check=True)
    subprocess.run([sys.executable, "-c", GENERATOR, str(modules), str(data), str(scale)], check=True)
    return data


def one_line(query):
    """The query without comments. AT is the name of a table in one query and a keyword of newer versions of DuckDB."""
    query = re.sub(r"--.*", "", query).strip().rstrip(";")
    return re.sub(r"\)\s+AT,", ") at_,", re.sub(r"\s+", " ", query))


def normal(value):
    """A value in a form that both engines share: numbers with nine digits, NULL as an empty text."""
    if value is None:
        return ""
    try:
        return "%.9g" % (float(value) + 0.0)
    except (TypeError, ValueError):
        return str(value)


def answer(shell, database, query):
    command = [shell, database, "--read-only", "--format", "csv", "-c", query]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    return [tuple(map(normal, row)) for row in list(csv.reader(io.StringIO(done.stdout)))[1:]]


def best_times(connection, queries, runs):
    times = []
    for query in queries:
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            connection.execute(query).fetchall()
            seconds.append(time.perf_counter() - start)
        times.append(min(seconds[1:]))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="for the tables, the queries and both databases")
    parser.add_argument("--scale", type=float, default=1, help="the scale of the tables; 1 has 2.9 million sales in stores")
    parser.add_argument("--runs", type=int, default=4, help="runs of each query; the first one does not count")
    parser.add_argument("--release", type=pathlib.Path, default="target/release", help="the folder of our programs")
    arguments = parser.parse_args()
    folder, release = arguments.folder, arguments.release
    data = generate(folder, arguments.scale)
    queries = [one_line(query) for query in json.loads((data / "queries.json").read_text())]
    (folder / "queries.sql").write_text("".join(query + ";\n" for query in queries))
    ours, theirs = str(folder / "rowmill"), duckdb.connect(str(folder / "peer.duckdb"), config={"threads": 2})
    bench, shell = str(release / "rowmill-bench"), str(release / "rowmill")
    if not pathlib.Path(ours).exists():
        subprocess.run([bench, "load", ours, str(data), "--threads", "2", "--out", str(folder / "load.json")], check=True)
    for table in data.glob("*.parquet"):
        theirs.execute(f"CREATE TABLE IF NOT EXISTS {table.stem} AS FROM '{table}'")
    report = str(folder / "rowmill.json")
    run = [bench, "run", ours, "--queries", str(folder / "queries.sql"), "--runs", str(arguments.runs), "--out", report]
    subprocess.run([*run, "--threads", "2"], check=True)
    our_times = json.loads(pathlib.Path(report).read_text())["times"]
    their_times = best_times(theirs, queries, arguments.runs)
    ratios, wrong = [], 0
    for number, query in enumerate(queries):
        found = answer(shell, ours, query)
        expected = [tuple(map(normal, row)) for row in theirs.execute(query).fetchall()]
        # Rows that are equal in the order of the query may come in any order.
        is_right = isinstance(found, list) and sorted(found) == sorted(expected)
        wrong += not is_right
        seconds = our_times[number]
        best = min(seconds[1:]) if isinstance(seconds, list) else math.inf
        ratio = (best + 0.001) / (their_times[number] + 0.001)
        ratios.append(ratio)
        note = "" if is_right else f"  {found if isinstance(found, str) else 'another answer'}"
        print(f"{number + 1:3} {best * 1000:9.1f} ms {their_times[number] * 1000:9.1f} ms {ratio:6.2f}{note}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    slower = sum(ratio > 1.1 for ratio in ratios)
    print(f"geometric mean {mean:.2f}, {slower} slower by a tenth, {wrong} other answers")


if __name__ == "__main__":
    main()
