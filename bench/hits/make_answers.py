#!/usr/bin/env python3
"""Makes the golden answers of queries.sql with DuckDB.

    rowmill-bench hits --rows 100k --seed 1 --out hits_100k.parquet
    python make_answers.py hits_100k.parquet [QUERIES [ANSWERS]]

Answer NN.csv belongs to line NN of queries.sql, counted from 01. It has no header, as engines name columns each in their
way; text is quoted only where it must be; averages have all their digits and are to be compared with a tolerance.
"""

import csv
import pathlib
import sys

import duckdb

HERE = pathlib.Path(__file__).parent


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    defaults = [None, HERE / "queries.sql", HERE / "answers"]
    data, queries, answers = sys.argv[1:] + defaults[len(sys.argv) - 1 :]
    answers = pathlib.Path(answers)
    answers.mkdir(exist_ok=True)
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW hits AS SELECT * FROM '{data}'")
    for number, statement in enumerate(pathlib.Path(queries).read_text().splitlines(), start=1):
        result = connection.execute(statement)
        with open(answers / f"{number:02}.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(result.fetchall())


main()
