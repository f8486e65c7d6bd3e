"""Runs the five queries of JSONBench on Rowmill and on chDB, and prints the best time of each in milliseconds.

    python3 make.py 1000000 events.ndjson
    python3 compare.py load events.ndjson WORK      # needs duckdb, which writes Parquet, and chdb
    python3 compare.py run WORK --runs 5

`WORK` gets a database of Rowmill with the documents as JSON and one with the documents as TEXT, and a table of chDB with
its JSON type. Rowmill runs as `rowmill-bench`, whose path is in ROWMILL_BENCH.
"""

import argparse
import json
import os
import pathlib
import subprocess
import time

HERE = pathlib.Path(__file__).parent
BENCH = os.environ.get("ROWMILL_BENCH", "target/release/rowmill-bench")
CHDB = [
    "SELECT data.commit.collection AS event, count() AS n FROM events GROUP BY event ORDER BY n DESC",
    "SELECT data.commit.collection AS event, count() AS n, uniqExact(data.did) AS users FROM events WHERE data.kind = 'commit' "
    "AND data.commit.operation = 'create' GROUP BY event ORDER BY n DESC",
    "SELECT data.commit.collection AS event, toHour(fromUnixTimestamp64Micro(data.time_us)) AS hour, count() AS n FROM events "
    "WHERE data.kind = 'commit' AND data.commit.operation = 'create' AND data.commit.collection IN ('app.bsky.feed.post', "
    "'app.bsky.feed.repost', 'app.bsky.feed.like') GROUP BY event, hour ORDER BY hour, event",
    "SELECT data.did::String AS user, min(fromUnixTimestamp64Micro(data.time_us)) AS first FROM events WHERE data.kind = 'commit' "
    "AND data.commit.operation = 'create' AND data.commit.collection = 'app.bsky.feed.post' GROUP BY user ORDER BY first LIMIT 3",
    "SELECT data.did::String AS user, date_diff('milliseconds', min(fromUnixTimestamp64Micro(data.time_us)), "
    "max(fromUnixTimestamp64Micro(data.time_us))) AS span FROM events WHERE data.kind = 'commit' AND data.commit.operation = "
    "'create' AND data.commit.collection = 'app.bsky.feed.post' GROUP BY user ORDER BY span DESC LIMIT 3",
]
# The five paths have declared types, as the best published results of chDB have.
TABLE = (
    "CREATE TABLE events (data JSON(kind LowCardinality(String), commit.operation LowCardinality(String), "
    "commit.collection LowCardinality(String), did String, time_us Int64)) ENGINE = MergeTree "
    "ORDER BY (data.kind, data.commit.operation, data.commit.collection, data.did)"
)


def rowmill_load(parquet, directory, kind):
    create = directory.with_suffix(".sql")
    create.write_text(f"CREATE TABLE events (doc {kind})")
    report = directory.with_suffix(".load.json")
    command = [BENCH, "load", directory, parquet, "--table", "events", "--create", create, "--threads", "2", "--out", report]
    started = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True)
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    print(f"rowmill {kind}: loaded in {time.perf_counter() - started:.1f} s, {size / 1e6:.0f} MB")


def chdb_session(work):
    from chdb import session

    opened = session.Session(str(work / "chdb"))
    opened.query("CREATE DATABASE IF NOT EXISTS bench")
    opened.query("USE bench")
    opened.query("SET max_threads = 2, max_insert_threads = 2")
    return opened


def load(events, work):
    work.mkdir(parents=True, exist_ok=True)
    parquet = work / "events.parquet"
    if not parquet.exists():
        import duckdb

        rows = f"SELECT json::VARCHAR AS doc FROM read_ndjson_objects('{events}')"
        duckdb.sql(f"COPY ({rows}) TO '{parquet}' (FORMAT parquet)")
    for kind in ["JSON", "TEXT"]:
        rowmill_load(parquet, work / kind.lower(), kind)
    opened = chdb_session(work)
    opened.query(TABLE)
    started = time.perf_counter()
    opened.query(f"INSERT INTO events SELECT doc::JSON FROM file('{parquet}', Parquet)")
    seconds = time.perf_counter() - started
    size = int(str(opened.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'bench'")).strip())
    print(f"chdb: loaded in {seconds:.1f} s, {size / 1e6:.0f} MB")


def best_of_rowmill(directory, runs):
    report = directory.with_suffix(".run.json")
    command = [BENCH, "run", directory, "--queries", HERE / "queries.sql", "--runs", runs, "--threads", 2, "--out", report]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    times = json.loads(report.read_text())["times"]
    return [min(time for time in query if time is not None) for query in times]


def best_of_chdb(work, runs):
    opened = chdb_session(work)
    best = []
    for query in CHDB:
        times = []
        for _ in range(runs):
            started = time.perf_counter()
            opened.query(query, "TabSeparated")
            times.append(time.perf_counter() - started)
        best.append(min(times))
    return best


def run(work, runs):
    engines = {
        "rowmill JSON": lambda: best_of_rowmill(work / "json", runs),
        "chdb": lambda: best_of_chdb(work, runs),
        "rowmill TEXT": lambda: best_of_rowmill(work / "text", min(runs, 2)),
    }
    for name, measure in engines.items():
        print(f"{name:14}" + "".join(f"{1000 * seconds:10.1f}" for seconds in measure()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["load", "run"])
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if options.step == "load":
        load(*options.paths)
    else:
        run(options.paths[0], options.runs)


main()
