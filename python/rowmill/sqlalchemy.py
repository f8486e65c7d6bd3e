"""The dialect of SQLAlchemy: `create_engine("rowmill:///mydata")`, or `rowmill://` for a database in memory.

Rowmill speaks the SQL of PostgreSQL and has its catalog, so the dialect is that of PostgreSQL with another driver. The
query of the URL has settings: `rowmill:///mydata?memory_limit=2GB`. All connections of an engine share one database.
"""

import threading

from sqlalchemy import pool, types
from sqlalchemy.dialects.postgresql.base import INTERVAL, PGCompiler, PGDialect, PGTypeCompiler

_ISOLATION_LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
#: Arguments of `rowmill.connect` that are flags and not settings of the database.
_FLAGS = ("read_only", "frames_by_name")


class RowmillCompiler(PGCompiler):
    """The statements of PostgreSQL, with LIMIT for a FETCH that has no ties."""

    def fetch_clause(self, select, fetch_clause=None, require_offset=False, use_literal_execute_for_simple_int=False, **kw):
        if fetch_clause is None:
            fetch_clause = select._fetch_clause
        options = select._fetch_clause_options or {}
        text = ""
        if fetch_clause is not None and not options.get("with_ties") and not options.get("percent"):
            text += f"\n LIMIT {self.process(fetch_clause, **kw)}"
            fetch_clause = None
        if select._offset_clause is not None:
            text += f"\n OFFSET {self.process(select._offset_clause, **kw)}"
        if fetch_clause is not None:
            percent = " PERCENT" if options["percent"] else ""
            # The number is written without the parentheses of PostgreSQL.
            text += f"\n FETCH FIRST {self.process(fetch_clause, **kw)}{percent} ROWS WITH TIES"
        return text


class RowmillTypeCompiler(PGTypeCompiler):
    """The types of PostgreSQL. An INTERVAL has nanoseconds, whatever precision is asked for."""

    def visit_INTERVAL(self, type_, **kw):
        return "INTERVAL" + (f" {type_.fields}" if type_.fields is not None else "")


class RowmillInterval(INTERVAL):
    """A timedelta goes to the database as a text, so its placeholder has a cast."""

    render_bind_cast = True


class RowmillJSONPath(types.JSON.JSONPathType):
    """A path goes to the database as a list of texts."""

    def bind_processor(self, dialect):
        return lambda path: None if path is None else [str(step) for step in path]


def _without_comments(reflect):
    """A method that reflects constraints, which have no comments here."""

    def reflected(self, *arguments, **options):
        for key, found in reflect(self, *arguments, **options):
            for constraint in [found] if isinstance(found, dict) else found:
                constraint.pop("comment", None)
            yield key, found

    return reflected


class RowmillDialect(PGDialect):
    name = "rowmill"
    driver = "rowmill"
    default_paramstyle = "qmark"
    statement_compiler = RowmillCompiler
    type_compiler_cls = RowmillTypeCompiler
    supports_statement_cache = True
    supports_native_enum = False
    supports_native_uuid = True
    supports_native_decimal = True
    supports_constraint_comments = False
    _supports_drop_index_concurrently = False
    _supports_create_index_concurrently = False
    # CREATE TYPE has no ENUM, so an Enum is a VARCHAR with a check.
    colspecs = {kind: adapted for kind, adapted in PGDialect.colspecs.items() if kind is not types.Enum} | {
        types.Interval: RowmillInterval,
        INTERVAL: RowmillInterval,
        types.JSON.JSONPathType: RowmillJSONPath,
    }

    def __init__(self, **options):
        super().__init__(**options)
        self._memory = None
        self._lock = threading.Lock()

    @classmethod
    def import_dbapi(cls):
        import rowmill

        return rowmill

    @classmethod
    def get_pool_class(cls, url):
        return pool.QueuePool

    def create_connect_args(self, url):
        options = dict(url.query)
        for flag in _FLAGS:
            if flag in options:
                options[flag] = options[flag].lower() in ("1", "true", "yes", "on")
        return [url.database or ":memory:"], options

    def connect(self, path, **options):
        if path != ":memory:":
            return self.loaded_dbapi.connect(path, autocommit=False, **options)
        with self._lock:
            if self._memory is None:
                self._memory = self.loaded_dbapi.connect(autocommit=False, **options)
            return self._memory.duplicate()

    def on_connect(self):
        return None

    def _set_backslash_escapes(self, connection):
        # The initialization of PostgreSQL's dialect asks for a setting of its server.
        self._backslash_escapes = False

    get_multi_pk_constraint = _without_comments(PGDialect.get_multi_pk_constraint)
    get_multi_foreign_keys = _without_comments(PGDialect.get_multi_foreign_keys)
    get_multi_unique_constraints = _without_comments(PGDialect.get_multi_unique_constraints)
    get_multi_check_constraints = _without_comments(PGDialect.get_multi_check_constraints)

    def get_isolation_level_values(self, dbapi_connection):
        return ("AUTOCOMMIT", *_ISOLATION_LEVELS)

    def set_isolation_level(self, dbapi_connection, level):
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            self._set(dbapi_connection, "default_transaction_isolation", level.lower())

    def get_isolation_level(self, dbapi_connection):
        if dbapi_connection.autocommit:
            return "AUTOCOMMIT"
        with dbapi_connection.cursor() as cursor:
            return cursor.execute("SHOW default_transaction_isolation").fetchone()[0].upper()

    def get_default_isolation_level(self, dbapi_connection):
        return self.get_isolation_level(dbapi_connection)

    @staticmethod
    def _set(dbapi_connection, name, value):
        with dbapi_connection.cursor() as cursor:
            cursor.execute(f"SET {name} = '{value}'")

    def is_disconnect(self, error, connection, cursor):
        return isinstance(error, self.loaded_dbapi.InterfaceError) and "the connection is closed" in str(error)

    def do_ping(self, dbapi_connection):
        with dbapi_connection.cursor() as cursor:
            cursor.execute("SELECT 1").fetchone()
        return True


dialect = RowmillDialect
