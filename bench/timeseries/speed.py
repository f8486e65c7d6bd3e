"""Compares the speed of time-series queries with QuestDB and DuckDB, in one run.

usage: python3 bench/timeseries/speed.py ROWMILL FOLDER [--trades N] [--quotes N] [--symbols N] [--runs N]

Generates trades and quotes over a year in FOLDER (once), and prints for each query the least seconds of several runs, hot,
with two threads, and Rowmill with 1 GB of memory. QuestDB generates events of the same distribution itself. DuckDB reads what Rowmill exports.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

import questdb

# Name, ours and DuckDB's if it has one, QuestDB's if it differs.
QUERIES = [
    ("SAMPLE BY 1m, four aggregates per symbol",
     "SELECT count(*), sum(c) FROM (SELECT ts, symbol, first(price) AS f, max(price) AS a, sum(qty) AS c, avg(price) AS v "
     "FROM trades SAMPLE BY 1m) x",
     "SELECT count(*), sum(c) FROM (SELECT time_bucket(INTERVAL '1 minute', ts) AS b, symbol, arg_min(price, ts) AS f, "
     "max(price) AS a, sum(qty) AS c, avg(price) AS v FROM trades GROUP BY b, symbol) x"),
    ("with FILL(PREV)",
     "SELECT count(*), sum(c) FROM (SELECT ts, symbol, first(price) AS f, max(price) AS a, sum(qty) AS c, avg(price) AS v "
     "FROM trades SAMPLE BY 1m FILL(PREV)) x", None),
    ("a month with FILL(PREV)",
     "SELECT count(*), sum(c) FROM (SELECT ts, symbol, first(price) AS f, max(price) AS a, sum(qty) AS c, avg(price) AS v "
     "FROM trades WHERE ts IN '2025-03' SAMPLE BY 1m FILL(PREV)) x", None),
    ("LATEST ON over all symbols", "SELECT * FROM trades LATEST ON ts PARTITION BY symbol",
     "SELECT arg_max(t, ts) FROM trades t GROUP BY symbol"),
    ("ASOF JOIN of all trades",
     "SELECT count(*), sum(q.bid) FROM trades t ASOF JOIN quotes q ON (symbol)",
     "SELECT count(*), sum(q.bid) FROM trades t ASOF LEFT JOIN quotes q ON t.symbol = q.symbol AND t.ts >= q.ts"),
    ("WINDOW JOIN of 10 s before and after",
     "SELECT count(*), sum(a), sum(c) FROM (SELECT t.ts, avg(q.bid) AS a, count(q.bid) AS c FROM trades t WINDOW JOIN quotes q "
     "ON t.symbol = q.symbol RANGE BETWEEN 10 seconds PRECEDING AND 10 seconds FOLLOWING EXCLUDE PREVAILING) x", None),
    ("a day's OHLC per minute",
     "SELECT ts, first(price), max(price), min(price), last(price), sum(qty) FROM trades WHERE ts IN '2025-06-10' SAMPLE BY 1m",
     "SELECT time_bucket(INTERVAL '1 minute', ts) AS b, arg_min(price, ts), max(price), min(price), arg_max(price, ts), "
     "sum(qty) FROM trades WHERE ts >= '2025-06-10' AND ts < '2025-06-11' GROUP BY b ORDER BY b"),
]


def load_rowmill(program, folder, arguments):
    database = os.path.join(folder, "db")
    if os.path.exists(database):
        return database
    step = 365 * 86_400_000_000 // arguments.trades
    quote_step = 365 * 86_400_000_000 // arguments.quotes
    symbol = f"'S' || ((random() * {arguments.symbols})::BIGINT % {arguments.symbols})"
    script = f"""
        CREATE TABLE trades (ts TIMESTAMP, symbol TEXT, price DOUBLE, qty BIGINT) TIMESTAMP(ts) PARTITION BY DAY;
        INSERT INTO trades SELECT to_timestamp_micros(1735689600000000 + i * {step} + (random() * {step - 1})::BIGINT), {symbol},
            100 + random() * 50, (random() * 1000)::BIGINT FROM generate_series(0, {arguments.trades - 1}) g(i);
        CREATE TABLE quotes (ts TIMESTAMP, symbol TEXT, bid DOUBLE, ask DOUBLE) TIMESTAMP(ts) PARTITION BY DAY;
        INSERT INTO quotes SELECT to_timestamp_micros(1735689600000000 + i * {quote_step} + (random() * {quote_step - 1})::BIGINT),
            {symbol}, 100 + random() * 50, 100 + random() * 50 FROM generate_series(0, {arguments.quotes - 1}) g(i);
        COPY trades TO '{folder}/trades.parquet';
        COPY quotes TO '{folder}/quotes.parquet';
    """
    path = pathlib.Path(folder, "load.sql")
    path.write_text(script)
    start = time.time()
    subprocess.run([program, database, "-f", str(path)], check=True)
    print(f"loaded and exported in {time.time() - start:.0f} s", flush=True)
    return database


def ask_rowmill(program, database, sql, runs):
    """The least seconds of several runs in one process, by the shell's own clock."""
    script = "SET threads = 2;\nSET memory_limit = '1GB';\n\\timing\n" + f"{sql};\n" * runs
    done = subprocess.run([program, database], input=script, capture_output=True, text=True, check=False)
    times = [float(line.split()[1]) for line in (done.stdout + done.stderr).splitlines() if line.startswith("Time:")]
    return min(times) if len(times) == runs else done.stderr.strip()[:120]


def ask_duckdb(database, sql, runs):
    times = []
    for _ in range(runs):
        start = time.time()
        database.execute(sql).fetchall()
        times.append(time.time() - start)
    return min(times)


def ask_questdb(server, sql, runs):
    times = []
    for _ in range(runs):
        start = time.time()
        answer = server.ask(sql, limit="0,1000")
        if "error" in answer:
            return answer["error"][:120]
        times.append(time.time() - start)
    return min(times)


def start_duckdb(folder):
    try:
        import duckdb
    except ImportError:
        print("skipped DuckDB: no Python module duckdb (pip install -r bench/peers/requirements.txt)")
        return None
    database = duckdb.connect(os.path.join(folder, "duckdb.db"))
    database.execute("SET threads = 2")
    for table in ("trades", "quotes"):
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} AS SELECT * FROM '{folder}/{table}.parquet'")
    return database


def start_questdb(arguments):
    server, reason = questdb.start("6g")
    if server is None:
        print(f"skipped QuestDB: {reason}")
        return None
    for table, rows, columns in (
        ("trades", arguments.trades, "100 + rnd_double() * 50 price, rnd_long(0, 1000, 0) qty"),
        ("quotes", arguments.quotes, "100 + rnd_double() * 50 bid, 100 + rnd_double() * 50 ask"),
    ):
        step = 365 * 86_400_000_000 // rows
        times = f"timestamp_sequence('2025-01-01', rnd_long({step // 2}, {step + step // 2}, 0))"
        symbols = f"rnd_symbol({arguments.symbols}, 4, 4, 0)"
        server.run(f"CREATE TABLE {table} AS (SELECT {times} ts, {symbols} symbol, {columns} FROM long_sequence({rows})) "
                   "TIMESTAMP(ts) PARTITION BY DAY BYPASS WAL")
    return server


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rowmill")
    parser.add_argument("folder")
    parser.add_argument("--trades", type=int, default=50_000_000)
    parser.add_argument("--quotes", type=int, default=100_000_000)
    parser.add_argument("--symbols", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="only queries whose names contain this text")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.rowmill)
    os.makedirs(arguments.folder, exist_ok=True)
    database = load_rowmill(program, arguments.folder, arguments)
    duck, quest = start_duckdb(arguments.folder), start_questdb(arguments)
    try:
        print(f"{'query':45} {'Rowmill':>9} {'DuckDB':>9} {'QuestDB':>9}   Rowmill to the better peer")
        for name, ours, theirs in QUERIES:
            if arguments.only not in name:
                continue
            mine = ask_rowmill(program, database, ours, arguments.runs)
            peers = []
            if duck is not None and theirs is not None:
                peers.append(("DuckDB", ask_duckdb(duck, theirs, arguments.runs)))
            if quest is not None:
                peers.append(("QuestDB", ask_questdb(quest, ours, arguments.runs)))
            shown = dict(peers)
            row = [f"{seconds:9.3f}" if isinstance(seconds, float) else f"{'-':>9}"
                   for seconds in (mine, shown.get("DuckDB"), shown.get("QuestDB"))]
            times = [seconds for _, seconds in peers if isinstance(seconds, float)]
            ratio = f"{mine / min(times):.2f}" if times and isinstance(mine, float) else "-"
            print(f"{name:45} {' '.join(row)}   {ratio}", flush=True)
            for engine, answer in [("Rowmill", mine), *peers]:
                if isinstance(answer, str):
                    print(f"  {engine}: {answer}")
    finally:
        if quest is not None:
            quest.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
