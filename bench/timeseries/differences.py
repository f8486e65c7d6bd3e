"""Compares Rowmill's time clauses with QuestDB's, and ASOF JOIN and time_bucket with DuckDB's, on generated events.

usage: python3 bench/timeseries/differences.py ROWMILL [--seeds N]

The events have gaps, ties, duplicates and NULLs. Differences that are intended are listed in INTENDED with the reason;
every other difference is a finding, and the exit code is 1. Engines that the machine lacks are skipped with a message.
"""

import argparse
import collections
import csv
import datetime
import io
import math
import os
import random
import subprocess
import sys
import tempfile

import questdb

# The start of the first seeds' events: a clock change in Berlin is within reach.
START = datetime.datetime(2026, 3, 28, 20)

# The same statement for both engines, or a pair (ours, theirs).
QUESTDB = [
    "SELECT ts, count(*) FROM trades SAMPLE BY 1h",
    "SELECT ts, sym, avg(px), sum(qty), count(*) FROM trades SAMPLE BY 1h",
    "SELECT ts, sym, avg(px), sum(qty), count(*) FROM trades SAMPLE BY 1h FILL(PREV)",
    "SELECT ts, sym, avg(px), sum(qty), count(*) FROM trades SAMPLE BY 1h FILL(NULL)",
    "SELECT ts, sym, avg(px), max(px) FROM trades SAMPLE BY 1h FILL(1.5, 2.5)",
    *[f"SELECT ts, sym, avg(px), sum(qty) FROM trades WHERE sym = 'A' SAMPLE BY 1h FILL({fill})"
      for fill in ("PREV, PREV", "NULL, NULL", "7, 8")],
    "SELECT ts, avg(px), max(px) FROM trades SAMPLE BY 15m FILL(LINEAR)",
    "SELECT ts, avg(px), sum(qty), max(px) FROM trades SAMPLE BY 15m FILL(PREV, NULL, 7.5)",
    "SELECT ts, first(px), max(px), min(px), last(px) FROM trades SAMPLE BY 30m",
    "SELECT ts, sym, first(px), last(qty) FROM trades SAMPLE BY 7h",
    *[f"SELECT ts, count(*) FROM trades SAMPLE BY {stride}" for stride in "90s 3d 1d 1w 2w 1M 2M 5M 1y".split()],
    "SELECT ts, count(*) FROM trades SAMPLE BY 1h ALIGN TO FIRST OBSERVATION",
    "SELECT ts, avg(px) FROM trades SAMPLE BY 7m FILL(PREV) ALIGN TO FIRST OBSERVATION",
    "SELECT ts, count(*) FROM trades SAMPLE BY 1d ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin'",
    "SELECT ts, count(*) FROM trades SAMPLE BY 1h ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin'",
    "SELECT ts, count(*) FROM trades SAMPLE BY 1d ALIGN TO CALENDAR WITH OFFSET '02:30'",
    "SELECT ts, count(*) FROM trades SAMPLE BY 1h ALIGN TO CALENDAR WITH OFFSET '00:15'",
    "SELECT ts, count(*) AS c FROM trades SAMPLE BY 1h FROM '2026-03-28' TO '2026-03-31' FILL(NULL)",
    "SELECT ts, count(*) AS c FROM trades SAMPLE BY 5h FROM '2026-03-28T01:00:00' TO '2026-03-31' FILL(0)",
    "SELECT ts, count(*) AS c FROM trades SAMPLE BY 1h FROM '2026-03-29' FILL(NULL)",
    "SELECT * FROM trades LATEST ON ts PARTITION BY sym",
    "SELECT * FROM trades WHERE px > 50 LATEST ON ts PARTITION BY sym",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF JOIN quotes q ON (sym)",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF JOIN quotes q",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t LT JOIN quotes q ON (sym)",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF JOIN quotes q ON (sym) TOLERANCE 5m",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t LT JOIN quotes q ON (sym) TOLERANCE 2m",
    "SELECT t.ts, t.px, q.bid, r.n FROM trades t ASOF JOIN quotes q ON (sym) ASOF JOIN quotes r ON (sym)",
    "SELECT t.ts, t.px, q.ts, q.bid FROM trades t SPLICE JOIN quotes q",
    "SELECT h.offset, count(q.bid), sum(q.n) FROM trades t HORIZON JOIN quotes q ON (sym) RANGE FROM -2m TO 2m STEP 1m AS h GROUP BY h.offset",
    "SELECT h.offset, count(q.bid) FROM trades t HORIZON JOIN quotes q ON (sym) LIST (-1h, 0s, 90s) AS h GROUP BY h.offset",
    "SELECT t.ts, t.px, q.ts, q.bid FROM trades t SPLICE JOIN quotes q ON (sym)",
    "SELECT ts, sum(qty) FROM trades SAMPLE BY 15m FILL(LINEAR)",
    "SELECT ts, sum(qty) AS c FROM trades SAMPLE BY 1h TO '2026-03-29T12:00:00' FILL(PREV)",
    "SELECT ts, avg(px), max(px) FROM trades SAMPLE BY 1h FILL(0)",
    *[
        f"SELECT t.ts, t.sym, t.px, {calls} FROM trades t WINDOW JOIN quotes q ON (t.sym = q.sym) RANGE BETWEEN {range_}"
        for calls in ("count(q.bid), avg(q.bid), sum(q.n)", "min(q.bid), max(q.bid), first(q.bid), last(q.bid)")
        for range_ in (
            "10 minutes PRECEDING AND 10 minutes FOLLOWING EXCLUDE PREVAILING",
            "10 minutes PRECEDING AND 10 minutes FOLLOWING INCLUDE PREVAILING",
            "30 minutes PRECEDING AND 5 minutes PRECEDING EXCLUDE PREVAILING",
            "1 minutes FOLLOWING AND 20 minutes FOLLOWING",
        )
    ],
    *[
        f"SELECT count(*) FROM trades WHERE ts IN '{interval}'"
        for interval in ("2026-03-29", "2026-03", "2026", "2026-03-29T01", "2026-03-29T01:30", "2026-03-29T01;2h",
                         "2026-03-29;1h;1d;2")
    ],
]

# The reason for each difference that is intended, by the statement.
INTENDED = {
    "SELECT t.ts, t.px, q.ts, q.bid FROM trades t SPLICE JOIN quotes q ON (sym)":
        "with several keys, QuestDB pairs left rows with right rows of later times",
    "SELECT ts, sum(qty) FROM trades SAMPLE BY 15m FILL(LINEAR)":
        "whole numbers on a line are rounded to the nearest; QuestDB cuts them",
    "SELECT ts, sum(qty) AS c FROM trades SAMPLE BY 1h TO '2026-03-29T12:00:00' FILL(PREV)":
        "TO alone fills up to its bound; QuestDB ends with the last row",
    "SELECT ts, avg(px), max(px) FROM trades SAMPLE BY 1h FILL(0)":
        "one value fills all columns; QuestDB takes that of PREV, NULL and LINEAR only",
    **{
        f"SELECT ts, sym, avg(px), {calls} FROM trades SAMPLE BY 1h FILL({fill})":
            "a key is filled up to its own last bucket; QuestDB fills all keys up to the last bucket of any"
        for calls, fill in (("sum(qty), count(*)", "PREV"), ("sum(qty), count(*)", "NULL"), ("max(px)", "1.5, 2.5"))
    },
    **{
        f"SELECT time_bucket(INTERVAL '{stride}', ts, TIMESTAMP '2026-03-01 00:10:00') AS b, count(*) FROM trades GROUP BY b":
            "months are counted from the origin; DuckDB cuts it to its month"
        for stride in ("1 month", "5 months", "3 years")
    },
}

DUCKDB = [
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND t.ts >= q.ts",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF LEFT JOIN quotes q ON t.sym = q.sym AND t.ts >= q.ts",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND t.ts > q.ts",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND t.ts <= q.ts",
    "SELECT t.ts, t.sym, t.px, q.ts, q.bid FROM trades t ASOF LEFT JOIN quotes q ON t.sym = q.sym AND t.ts < q.ts",
    "SELECT t.ts, sym, t.px, q.bid FROM trades t ASOF JOIN quotes q USING (sym, ts)",
    "SELECT t.ts, t.px, q.n FROM trades t ASOF JOIN quotes q ON t.qty >= q.n AND t.sym = q.sym",
    *[
        f"SELECT time_bucket(INTERVAL '{stride}', ts{more}) AS b, count(*) FROM trades GROUP BY b"
        for stride in ("7 minutes", "1 hour", "5 hours", "1 day", "9 days", "1 month", "5 months", "3 years")
        for more in ("", ", INTERVAL '30 minutes'", ", TIMESTAMP '2026-03-01 00:10:00'")
    ],
    "SELECT time_bucket(INTERVAL '1 month', ts::DATE) AS b, count(*) FROM trades GROUP BY b",
    "SELECT sym, arg_max(ts, px), arg_min(ts, px) FROM trades GROUP BY sym",
]


class Rowmill:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def ask(self, sql):
        command = [self.program, "--format", "csv", self.folder, "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None, done.stderr.strip()
        return [tuple(map(plain, row)) for row in list(csv.reader(io.StringIO(done.stdout)))[1:]], None


def plain(value):
    """A value in the form in which engines are compared."""
    if value is None or value == "":
        return None
    if isinstance(value, (datetime.datetime, datetime.date)):
        value = value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()
    if isinstance(value, str):
        text = value.replace("T", " ").replace("Z", "").removesuffix("+00")
        if len(text) > 19 and text[4] == "-":
            text = text.rstrip("0").rstrip(".")
        try:
            value = float(text)
        except ValueError:
            return text
    return float(value)


def same_rows(mine, other):
    """Whether both lists have the same rows, in any order. Engines add numbers in different orders."""
    def texts_first(row):
        return [str(value) for value in row if not isinstance(value, float)], [
            float(f"{value:.6g}") for value in row if isinstance(value, float)]

    def same(one, two):
        both = isinstance(one, float) and isinstance(two, float)
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9) if both else one == two

    rows = zip(sorted(mine, key=texts_first), sorted(other, key=texts_first))
    return len(mine) == len(other) and all(all(map(same, *pair)) for pair in rows)


def events(seed):
    """Trades and quotes: (microseconds, symbol, a number, a whole number)."""
    generator = random.Random(seed)

    def rows(count, step, symbols):
        at, made = 0, []
        for _ in range(count):
            at += 0 if generator.random() < 0.15 else int(generator.expovariate(1 / step))
            if generator.random() < 0.02:
                at += int(step * 200)
            symbol = generator.choice(symbols)
            price = None if generator.random() < 0.1 else round(generator.uniform(1, 100), 2)
            whole = None if generator.random() < 0.1 else generator.randint(1, 50)
            made.append((at, symbol, price, whole))
        return made

    # QuestDB's joins take NULL for equal to NULL, unlike SQL, so the quotes have no NULL.
    return rows(400, 180e6, ["A", "B", "C", "D", None]), rows(700, 120e6, ["A", "B", "C", "D"])


def values(rows):
    def literal(value):
        return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)

    for at, *others in rows:
        time = (START + datetime.timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        yield f"('{time}', {', '.join(map(literal, others))})"


def compare(name, ours, theirs, sql):
    """Prints a difference. Returns whether there is one that is not intended."""
    (mine, my_error), (other, other_error) = ours, theirs
    if my_error is None and other_error is None and same_rows(mine, other):
        return False
    if sql in INTENDED:
        return False
    print(f"{name} differs: {sql}")
    if my_error or other_error:
        print(f"  Rowmill: {my_error or 'rows'}\n  {name}: {other_error or 'rows'}")
    else:
        mine, other = collections.Counter(mine), collections.Counter(other)
        print(f"  only Rowmill: {list((mine - other).elements())[:3]}")
        print(f"  only {name}: {list((other - mine).elements())[:3]}")
    return True


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("rowmill")
    arguments.add_argument("--seeds", type=int, default=2)
    arguments = arguments.parse_args()
    server, reason = questdb.start()
    if server is None:
        print(f"skipped QuestDB: {reason}")
    try:
        import duckdb
    except ImportError:
        duckdb = None
        print("skipped DuckDB: no Python module duckdb (pip install -r bench/peers/requirements.txt)")
    compared = findings = 0
    try:
        for seed in range(arguments.seeds):
            with tempfile.TemporaryDirectory() as folder:
                compared_here, found = one_seed(arguments.rowmill, folder, seed, server, duckdb)
                compared, findings = compared + compared_here, findings + found
    finally:
        if server is not None:
            server.stop()
    print(f"{compared} comparisons, {findings} findings, {len(INTENDED)} intended differences")
    return 1 if findings else 0


def one_seed(program, folder, seed, server, duckdb):
    rowmill = Rowmill(os.path.abspath(program), os.path.join(folder, "db"))
    trades, quotes = events(seed)
    tables = {"trades": (trades, "px", "qty"), "quotes": (quotes, "bid", "n")}
    script = []
    for name, (rows, price, whole) in tables.items():
        script.append(f"CREATE TABLE {name} (ts TIMESTAMP, sym TEXT, {price} DOUBLE, {whole} BIGINT) TIMESTAMP(ts);")
        script.append(f"INSERT INTO {name} VALUES {', '.join(values(rows))};")
    path = os.path.join(folder, "load.sql")
    with open(path, "w") as file:
        file.write("\n".join(script))
    subprocess.run([rowmill.program, rowmill.folder, "-f", path], check=True, capture_output=True)
    compared = findings = 0
    if server is not None:
        for name, (rows, price, whole) in tables.items():
            server.ask(f"DROP TABLE {name}")
            columns = f"ts TIMESTAMP, sym SYMBOL, {price} DOUBLE, {whole} LONG"
            server.run(f"CREATE TABLE {name} ({columns}) TIMESTAMP(ts) PARTITION BY DAY BYPASS WAL")
            rows = list(values(rows))
            for start in range(0, len(rows), 50):
                server.run(f"INSERT INTO {name} VALUES {', '.join(rows[start:start + 50])}")
        for sql in QUESTDB:
            answer = server.ask(sql)
            rows = [tuple(map(plain, row)) for row in answer.get("dataset", [])]
            findings += compare("QuestDB", rowmill.ask(sql), (rows, answer.get("error")), sql)
            compared += 1
    if duckdb is not None:
        database = duckdb.connect()
        for name, (rows, price, whole) in tables.items():
            database.execute(f"CREATE TABLE {name} (ts TIMESTAMP, sym TEXT, {price} DOUBLE, {whole} BIGINT)")
            database.execute(f"INSERT INTO {name} VALUES {', '.join(values(rows))}".replace("Z'", "'"))
        for sql in DUCKDB:
            try:
                theirs = [tuple(map(plain, row)) for row in database.execute(sql).fetchall()], None
            except duckdb.Error as error:
                theirs = None, str(error)
            findings += compare("DuckDB", rowmill.ask(sql), theirs, sql)
            compared += 1
    return compared, findings


if __name__ == "__main__":
    sys.exit(main())
