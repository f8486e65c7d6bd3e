#!/usr/bin/env python3
"""Makes golden answers with DuckDB.

    python make_answers.py QUERIES ANSWERS TABLE=FILE.parquet ...

QUERIES has one statement per line; the answer of line N goes to ANSWERS/NN.csv, counted from 01. It has no header,
because each engine names columns in its own way. Text is quoted only where it must be. Averages have all their digits
and should be compared with a tolerance. README.md says how the answers of this folder were made.
"""

import csv
import pathlib
import sys

import duckdb


def main():
    if len(sys.argv) < 4 or not all("=" in table for table in sys.argv[3:]):
        sys.exit(__doc__)
    queries, answers = map(pathlib.Path, sys.argv[1:3])
    answers.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    for table in sys.argv[3:]:
        name, file = table.split("=", 1)
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{file}'")
    for number, statement in enumerate(queries.read_text().splitlines(), start=1):
        result = connection.execute(statement)
        with open(answers / f"{number:02}.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(result.fetchall())


main()
