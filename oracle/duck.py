"""Answers SQL with DuckDB: one JSON object per line in, one per line out.

{"reset": true} removes all tables; {"sql": "..."} runs a statement. The answer is {"rows": [[cell, ...], ...]}, {"error": class,
"message": text} or {"too_much": true}. A cell is null, or a text whose first letter is its class: i integer or decimal, d double,
t text, s time, b boolean.
"""

import datetime
import decimal
import json
import sys
import threading

import duckdb

SECONDS_MAX = 8
ROWS_MAX = 50_000


def connect():
    connection = duckdb.connect(":memory:")
    for setting in (
        "SET threads = 1",
        "SET integer_division = true",
        "SET default_null_order = 'nulls_last_on_asc_first_on_desc'",
    ):
        connection.execute(setting)
    return connection


def cell(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return "btrue" if value else "bfalse"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, decimal.Decimal):
        return f"i{value:f}"
    if isinstance(value, float):
        return f"d{value!r}"
    if isinstance(value, datetime.datetime):
        return "s" + value.isoformat(sep=" ")
    if isinstance(value, (datetime.date, datetime.time)):
        return "s" + value.isoformat()
    return f"t{value}"


def run(connection, sql):
    timer = threading.Timer(SECONDS_MAX, connection.interrupt)
    timer.start()
    try:
        cursor = connection.execute(sql)
        rows = cursor.fetchmany(ROWS_MAX + 1) if cursor.description else []
    except duckdb.InterruptException:
        return {"too_much": True}
    except Exception as error:  # Every refusal is an answer, so we must not stop.
        return {"error": type(error).__name__, "message": str(error)}
    finally:
        timer.cancel()
    if len(rows) > ROWS_MAX:
        return {"too_much": True}
    return {"rows": [[cell(value) for value in row] for row in rows]}


def main():
    connection = connect()
    for line in sys.stdin:
        request = json.loads(line)
        if "reset" in request:
            connection.close()
            connection = connect()
            answer = {"rows": []}
        else:
            answer = run(connection, request["sql"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
