"""The engines: how we start, load, query and measure each of them.

`load` and `execute` are timed. They must not return before the work is done and the whole answer has been fetched. The
other methods are not timed.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent


def start(name, directory, threads):
    """Returns the engine called `name`. Ends the program if it is not installed."""
    try:
        return ENGINES[name](directory, threads)
    except ModuleNotFoundError as error:
        sys.exit(f"{name} needs the Python module {error.name}: pip install -r {HERE / 'requirements.txt'}")


def size(path):
    """Returns the bytes of a file, or of all files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


class Engine:
    name = None
    # Whether a later run can attach the loaded data again.
    keeps_data = True

    def finish_load(self):
        pass

    def attach(self):
        pass

    def close(self):
        pass


class DuckDB(Engine):
    name = "duckdb"

    def __init__(self, directory, threads):
        import duckdb

        self.file = directory / "data.duckdb"
        self.module = duckdb
        self.connection = duckdb.connect(str(self.file), config={"threads": threads})

    def version(self):
        return self.module.__version__

    def load(self, table, file, create):
        if create:
            self.connection.execute(create)
            self.connection.execute(f"INSERT INTO {table} SELECT * FROM '{file}'")
        else:
            self.connection.execute(f"CREATE TABLE {table} AS SELECT * FROM '{file}'")

    def finish_load(self):
        self.connection.execute("CHECKPOINT")

    def bytes(self):
        return size(self.file)

    def execute(self, statement):
        return self.connection.execute(statement).fetchall()

    def close(self):
        self.connection.close()


class Hyper(Engine):
    name = "hyper"

    def __init__(self, directory, threads):
        import tableauhyperapi as api

        self.api = api
        self.file = directory / "data.hyper"
        limits = {"hard_concurrent_query_thread_limit": str(threads), "soft_concurrent_query_thread_limit": str(threads)}
        self.process = api.HyperProcess(
            api.Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters={"log_config": "", **limits}
        )
        self.connection = api.Connection(self.process.endpoint, str(self.file), api.CreateMode.CREATE_IF_NOT_EXISTS)

    def version(self):
        return self.api.__version__

    def load(self, table, file, create):
        source = f"external('{file}', FORMAT => 'parquet')"
        if create:
            self.connection.execute_command(create)
            self.connection.execute_command(f"INSERT INTO {table} SELECT * FROM {source}")
        else:
            self.connection.execute_command(f"CREATE TABLE {table} AS (SELECT * FROM {source})")

    def finish_load(self):
        # The database writes everything to its file when it is closed.
        self.connection.close()
        self.connection = self.api.Connection(self.process.endpoint, str(self.file))

    def bytes(self):
        return size(self.file)

    def execute(self, statement):
        return self.connection.execute_list_query(statement)

    def close(self):
        self.connection.close()
        self.process.close()


class ChDB(Engine):
    name = "chdb"

    def __init__(self, directory, threads):
        from chdb import session

        self.session = session.Session(str(directory / "chdb"))
        self.threads = threads
        self.session.query("CREATE DATABASE IF NOT EXISTS bench")
        self.session.query("USE bench")
        self.session.query(f"SET max_threads = {threads}, max_insert_threads = {threads}")

    def version(self):
        import chdb

        return str(self.session.query("SELECT version()", "TabSeparated")).strip() + f" (chdb {chdb.__version__})"

    def load(self, table, file, create):
        source = f"SELECT * FROM file('{file}', Parquet)"
        if create:
            # We use the engine and order of ClickBench. It understands types and NOT NULL unchanged.
            order = "CounterID, EventDate, UserID, EventTime, WatchID" if "CounterID" in create else "tuple()"
            create = re.sub(r"\)\s*;?\s*$", f") ENGINE = MergeTree ORDER BY ({order})", create.strip())
            self.session.query(create)
            self.session.query(f"INSERT INTO {table} {source}")
        else:
            self.session.query(f"CREATE TABLE {table} ENGINE = MergeTree ORDER BY tuple() AS {source}")

    def bytes(self):
        query = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'bench'"
        return int(str(self.session.query(query, "TabSeparated")).strip())

    def execute(self, statement):
        return self.session.query(statement, "TabSeparated")

    def close(self):
        self.session.close()


class DataFusion(Engine):
    name = "datafusion"
    # The Parquet files themselves are its storage, so loading copies nothing.
    keeps_data = False

    def __init__(self, directory, threads):
        import datafusion

        self.module = datafusion
        self.size = 0
        # Names keep their case, because the other engines ignore case.
        settings = datafusion.SessionConfig({"datafusion.sql_parser.enable_ident_normalization": "false"})
        self.context = datafusion.SessionContext(settings.with_target_partitions(threads))

    def version(self):
        return self.module.__version__

    def load(self, table, file, create):
        self.context.register_parquet(table, str(file))
        self.size += size(file)

    def bytes(self):
        return self.size

    def execute(self, statement):
        return self.context.sql(statement).collect()


ENGINES = {engine.name: engine for engine in (DuckDB, Hyper, ChDB, DataFusion)}
