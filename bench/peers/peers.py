#!/usr/bin/env python3
"""Runs the same queries on other engines, and prints times side by side.

    peers.py run --engine duckdb --data hits.parquet --create create.sql --queries queries.sql --out duckdb.json
    peers.py compare rowmill.json duckdb.json hyper.json

`run` loads Parquet into the engine's own storage (DataFusion reads the file itself), runs every line of the file of
queries several times, and writes

    {"engine", "version", "threads", "load_s", "load_cpu_s", "bytes", "times": [[s, ...] | {"error": ...}, ...],
     "peak_rss_mb", "load_peak_rss_mb"}

`--data` is one file, which becomes the table `hits` (or `--table`), or a folder in which every file `NAME.parquet`
becomes the table NAME. `--directory` keeps the loaded data, so that a later run with the same directory does not load
it again.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time

import comparison
import dialects
import engines
import processes


def main():
    parser = argparse.ArgumentParser(prog="peers.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run_parser = commands.add_parser("run", help="load and run queries on one engine")
    run_parser.add_argument("--engine", required=True, choices=sorted(engines.ENGINES))
    run_parser.add_argument("--data", required=True, type=pathlib.Path, help="a Parquet file or a folder of them")
    run_parser.add_argument("--table", default="hits", help="the name of the table if --data is a file (hits)")
    run_parser.add_argument("--create", type=pathlib.Path, help="a file with CREATE TABLE; else the columns of the file")
    run_parser.add_argument("--queries", type=pathlib.Path, help="a file with one statement per line")
    run_parser.add_argument("--runs", type=int, default=3)
    run_parser.add_argument("--threads", type=int, default=2)
    run_parser.add_argument("--directory", type=pathlib.Path, help="the folder of its data; else a temporary one")
    run_parser.add_argument("--out", type=pathlib.Path, help="the file to write; without it, standard output")
    compare_parser = commands.add_parser("compare", help="times of several runs side by side")
    compare_parser.add_argument("files", nargs="+", type=pathlib.Path, help="ours first")
    arguments = parser.parse_args()
    if arguments.command == "compare":
        comparison.print_table([json.loads(file.read_text()) for file in arguments.files])
    else:
        run(arguments)


def run(arguments):
    directory = arguments.directory or pathlib.Path(tempfile.mkdtemp(prefix="peers-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        engine = engines.start(arguments.engine, directory, arguments.threads)
        result = {"engine": engine.name, "version": engine.version(), "threads": arguments.threads}
        result |= load(engine, arguments, directory / "loaded.json")
        processes.forget_peak()
        result["times"] = [times(engine, statement, arguments.runs) for statement in statements(arguments.queries)]
        result["peak_rss_mb"] = processes.peak_mb()
        engine.close()
    finally:
        if not arguments.directory:
            shutil.rmtree(directory, ignore_errors=True)
    text = json.dumps(result, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    else:
        print(text)


def load(engine, arguments, done):
    """Loads the tables, or attaches them if an earlier run has loaded them. Adds the facts of the load to `done`."""
    if done.exists() and engine.keeps_data:
        engine.attach()
        return json.loads(done.read_text())
    start, cpu = time.perf_counter(), processes.cpu_s()
    for table, file in tables(arguments).items():
        say(f"{engine.name}: loading {table}")
        engine.load(table, file.resolve(), arguments.create.read_text() if arguments.create else None)
    engine.finish_load()
    loaded = {
        "load_s": round(time.perf_counter() - start, 3),
        "load_cpu_s": round(processes.cpu_s() - cpu, 3),
        "bytes": engine.bytes(),
        "load_peak_rss_mb": processes.peak_mb(),
    }
    done.write_text(json.dumps(loaded))
    return loaded


def tables(arguments):
    if arguments.data.is_dir():
        return {file.stem: file for file in sorted(arguments.data.glob("*.parquet"))}
    if not arguments.data.exists():
        sys.exit(f"{arguments.data}: no such file or folder")
    return {arguments.table: arguments.data}


def statements(file):
    lines = file.read_text().splitlines() if file else []
    return [line.strip().rstrip(";") for line in lines if line.strip()]


def times(engine, statement, runs):
    """Returns the seconds of each run of a statement, or its error."""
    statement = dialects.rewrite(engine.name, statement)
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        try:
            engine.execute(statement)
        except Exception as error:  # Each engine has its own exceptions.
            say(f"{engine.name}: {statement[:100]}: {error}")
            return {"error": str(error)}
        seconds.append(round(time.perf_counter() - start, 6))
    say(f"{engine.name}: {min(seconds):9.3f} s  {statement[:100]}")
    return seconds


def say(text):
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
