"""The backend of Ibis over a connection."""

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import ibis
import ibis.common.exceptions as com
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import rowmill
import sqlglot as sg
import sqlglot.expressions as sge
from ibis import util
from ibis.backends import (
    CanCreateDatabase,
    CanListCatalog,
    DirectExampleLoader,
    HasCurrentCatalog,
    HasCurrentDatabase,
    SupportsTempTables,
    UrlFromPath,
)
from ibis.backends.sql import SQLBackend
from ibis.backends.sql.compilers.base import C
from ibis.expr.operations.udf import InputType

from .compiler import compiler
from .results import as_expected, pandas_frame

#: The SQLSTATE of a table that does not exist.
_NO_TABLE = "42P01"
#: The beginning of the names of schemas of temporary tables.
_TEMPORARY = "pg_temp_"


class Backend(
    SupportsTempTables,
    SQLBackend,
    CanListCatalog,
    CanCreateDatabase,
    HasCurrentCatalog,
    HasCurrentDatabase,
    UrlFromPath,
    DirectExampleLoader,
):
    name = "rowmill"
    compiler = compiler
    supports_temporary_tables = True

    # The connection.

    def do_connect(self, database=":memory:", *, read_only=False, **settings):
        """Opens a database for Ibis.

        Parameters
        ----------
        database
            The path of a folder. Without one the database is in memory.
        read_only
            Whether the database is only read, for example beside the process that writes it.
        settings
            Settings of the database: `memory_limit="2GB"`.
        """
        path = None if str(database) == ":memory:" else database
        self._use(rowmill.connect(path, read_only=read_only, **settings))

    @classmethod
    def from_connection(cls, con, /):
        """Makes a backend over a connection of the module `rowmill`."""
        backend = cls()
        backend._can_reconnect = False
        backend._use(con)
        return backend

    def _use(self, con):
        self.con = con
        # Names of expressions are those of tables. Ibis says by itself which data it has.
        con.frames_by_name = False

    @staticmethod
    def _convert_kwargs(kwargs):
        if "read_only" in kwargs:
            kwargs["read_only"] = str(kwargs["read_only"]).lower() in ("1", "true", "yes", "on")

    @property
    def version(self):
        return rowmill.__version__

    # Statements.

    def raw_sql(self, query, **parameters):
        """Runs a statement. Returns a cursor with its rows."""
        if isinstance(query, sge.Expression):
            query = query.sql(dialect=self.dialect)
        return self.con.execute(query, **parameters)

    @contextlib.contextmanager
    def _safe_raw_sql(self, query, **parameters):
        yield self.raw_sql(query, **parameters)

    @contextlib.contextmanager
    def _transaction(self):
        """All statements of the block take effect, or none. They belong to the open transaction if there is one."""
        if self.con.in_transaction:
            yield
        else:
            with self.con:
                yield

    def _quoted(self, name, catalog=None, database=None):
        return sg.table(name, catalog=catalog, db=database, quoted=self.compiler.quoted)

    # Names.

    def _value(self, function):
        return self.con.execute(f"SELECT {function}()").fetchone()[0]

    @property
    def current_catalog(self):
        return self._value("current_database")

    @property
    def current_database(self):
        return self._value("current_schema")

    def list_catalogs(self, *, like=None):
        rows = self.con.execute("SHOW DATABASES").fetchall()
        return self._filter_with_like([row[0] for row in rows], like)

    def _schemata(self, catalog, table):
        """The name of a table of the information schema of a database."""
        return sg.table(table, db="information_schema", catalog=catalog if catalog != self.current_catalog else None)

    def list_databases(self, *, like=None, catalog=None):
        query = sg.select("schema_name").from_(self._schemata(catalog, "schemata"))
        rows = self.raw_sql(query).fetchall()
        return self._filter_with_like([name for (name,) in rows if not name.startswith(_TEMPORARY)], like)

    def create_database(self, name, /, *, catalog=None, force=False):
        self.raw_sql(sge.Create(this=self._quoted(name, None, catalog), kind="SCHEMA", exists=force))

    def drop_database(self, name, /, *, catalog=None, force=False):
        self._drop("SCHEMA", self._quoted(name, None, catalog), force)

    def list_tables(self, *, like=None, database=None):
        place = self._to_sqlglot_table(database)
        schema = C.table_schema.eq(sge.convert(place.db or self.current_database))
        source = self._schemata(place.catalog or None, "tables")
        found = self.raw_sql(sg.select("table_name").from_(source).where(schema)).fetchall()
        names = {name for (name,) in found}
        if not place.db:
            names |= self._temporary_tables()
        return self._filter_with_like(sorted(names), like)

    def _temporary_tables(self):
        """The temporary tables and views of this connection, among those of all connections."""
        rows = self.con.execute(
            f"SELECT DISTINCT table_name FROM information_schema.tables WHERE table_schema LIKE '{_TEMPORARY}%'"
        )
        own = set()
        for (name,) in rows.fetchall():
            with contextlib.suppress(rowmill.ProgrammingError):
                self.con._describe(f"SELECT * FROM {self._quoted(name, database='pg_temp').sql(self.dialect)}")
                own.add(name)
        return own

    # Schemas.

    def get_schema(self, table_name, *, catalog=None, database=None):
        table = self._quoted(table_name, catalog, database).sql(self.dialect)
        try:
            rows = self.con.execute(f"DESCRIBE {table}").fetchall()
        except rowmill.ProgrammingError as error:
            if error.sqlstate == _NO_TABLE:
                raise com.TableNotFound(table_name) from error
            raise
        from_string = self.compiler.type_mapper.from_string
        return sch.Schema({name: from_string(kind, nullable=null == "YES") for name, kind, null, *_ in rows})

    def _get_schema_using_query(self, query):
        columns, _ = self.con._describe(query)
        from_string = self.compiler.type_mapper.from_string
        return sch.Schema({column[0]: from_string(column[1], nullable=True) for column in columns or []})

    # Tables and views.

    def create_table(self, name, /, obj=None, *, schema=None, database=None, temp=False, overwrite=False):
        """Makes a table of a schema, of an expression or of data: a frame of pandas or polars, Arrow, a list of dicts.

        Parameters
        ----------
        name
            The name of the table.
        obj
            The rows of the table.
        schema
            The columns of the table; without it, those of `obj`.
        database
            The schema of the table, or `"catalog.schema"`.
        temp
            Whether the table ends with the connection.
        overwrite
            Whether the table replaces another one of its name.
        """
        if obj is None and schema is None:
            raise ValueError("Either `obj` or `schema` must be specified")
        place = self._to_sqlglot_table(database)
        catalog, database = self._to_catalog_db_tuple(place)
        if temp and (catalog or database):
            raise com.UnsupportedArgumentError("a temporary table belongs to its connection, so it has no database")
        rows = None
        if obj is not None:
            rows = obj if isinstance(obj, ir.Expr) else ibis.memtable(_in_memory(obj))
            self._run_pre_execute_hooks(rows)
        schema = ibis.schema(schema) if schema is not None else rows.schema()
        if schema.null_fields:
            raise com.IbisTypeError(f"a column needs a type that is not NULL; these have none: {schema.null_fields}")

        target = self._quoted(name, catalog, database)
        # The rows may come from the table that is replaced.
        made = self._quoted(util.gen_name("rowmill_table"), catalog, database) if overwrite else target
        definition = sge.Create(
            kind="TABLE",
            this=sge.Schema(this=made, expressions=schema.to_sqlglot_column_defs(self.dialect)),
            properties=sge.Properties(expressions=[sge.TemporaryProperty()] if temp else []),
        )
        with self._transaction():
            self.raw_sql(definition)
            if rows is not None:
                columns = [sg.to_identifier(column, quoted=True) for column in schema.names]
                self.raw_sql(sge.insert(self.compiler.to_sqlglot(rows), into=made, columns=columns))
            if overwrite:
                self._drop("TABLE", target, True)
                old, new = made.sql(self.dialect), sg.to_identifier(name, quoted=True).sql(self.dialect)
                self.raw_sql(f"ALTER TABLE {old} RENAME TO {new}")
        return self.table(name, database=(catalog, database) if catalog or database else None)

    # sqlglot 30 has other arguments for DROP than the versions before it, so the text is written here.

    def _drop(self, kind, name, force):
        self.raw_sql(f"DROP {kind} {'IF EXISTS ' if force else ''}{name.sql(self.dialect)}")

    def drop_table(self, name, /, *, database=None, force=False):
        """Removes a table. With `force` it need not exist."""
        self._drop("TABLE", self._quoted(name, *self._to_catalog_db_tuple(self._to_sqlglot_table(database))), force)

    def drop_view(self, name, /, *, database=None, force=False):
        """Removes a view. With `force` it need not exist."""
        self._drop("VIEW", self._quoted(name, *self._to_catalog_db_tuple(self._to_sqlglot_table(database))), force)

    def _create_temp_view(self, name, source):
        view = sge.Create(
            this=sg.to_identifier(name, quoted=self.compiler.quoted),
            kind="VIEW",
            expression=source,
            replace=True,
            properties=sge.Properties(expressions=[sge.TemporaryProperty()]),
        )
        self.raw_sql(view)

    # Files.

    def _read(self, function, paths, table_name, options):
        name = table_name or util.gen_name(function)
        named = [f"{key} = {sge.convert(value).sql(self.dialect)}" for key, value in options.items()]
        files = sge.convert(list(util.normalize_filenames(paths))).sql(self.dialect)
        self._create_temp_view(name, sg.parse_one(f"SELECT * FROM {function}({', '.join([files, *named])})", read=self.dialect))
        return self.table(name)

    def read_parquet(self, path: str | Path, /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """Reads files of Parquet as a table. The other arguments are the options of `read_parquet` in SQL."""
        return self._read("read_parquet", path, table_name, kwargs)

    def read_csv(self, path: str | Path, /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """Reads files of CSV as a table. The other arguments are the options of `read_csv` in SQL."""
        return self._read("read_csv", path, table_name, {"header": True} | kwargs)

    def read_json(self, path: str | Path, /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """Reads files of JSON as a table. The other arguments are the options of `read_json` in SQL."""
        return self._read("read_json", path, table_name, kwargs)

    def to_parquet(self, expr, /, path, *, params=None, **options):
        """Writes the rows of an expression to a file of Parquet. `options` are those of COPY."""
        self._write(expr, path, params, {"format": "parquet"} | options)

    def to_csv(self, expr, /, path, *, params=None, header=True, **options):
        """Writes the rows of an expression to a file of CSV. `options` are those of COPY."""
        self._write(expr, path, params, {"format": "csv", "header": header} | options)

    def to_json(self, expr, /, path, **options):
        """Writes the rows of an expression to a file with an array of JSON objects. `options` are those of COPY."""
        with tempfile.NamedTemporaryFile("r", suffix=".json") as lines, open(path, "w") as file:
            self._write(expr, lines.name, None, {"format": "json"} | options)
            file.write("[")
            for place, line in enumerate(lines):
                file.write(("," if place else "") + "\n" + line.rstrip("\n"))
            file.write("\n]\n")

    def _write(self, expr, path, params, options):
        self._run_pre_execute_hooks(expr)
        named = ", ".join(f"{key} {sge.convert(value).sql(self.dialect)}" for key, value in options.items())
        target = sge.convert(str(path)).sql(self.dialect)
        self.raw_sql(f"COPY ({self.compile(expr, params=params)}) TO {target} ({named})")

    # Functions and data of the process.

    def _register_udfs(self, expr):
        for node in expr.op().find(ops.ScalarUDF):
            kind = node.__input_type__
            if kind == InputType.BUILTIN:
                continue
            if kind not in (InputType.PYTHON, InputType.PYARROW):
                raise NotImplementedError(f"{kind.name} UDFs are not supported in the {self.name} backend")
            to_string = self.compiler.type_mapper.to_string
            parameters = [to_string(one.annotation.pattern.dtype) for one in node.__signature__.parameters.values()]
            self.con.create_function(
                type(node).__name__,
                node.__func__,
                parameters,
                to_string(node.dtype),
                type="arrow" if kind == InputType.PYARROW else "native",
                **node.__config__,
            )

    def _register_in_memory_table(self, op):
        data = op.data
        if hasattr(data, "to_pyarrow_dataset"):
            data = data.to_pyarrow_dataset(op.schema).to_table()
        else:
            data = data.to_pyarrow(op.schema)
        self.con.register(op.name, data)

    # Results.

    def _arrow(self, expr, params, limit, options):
        self._run_pre_execute_hooks(expr)
        table = expr.as_table()
        return self.raw_sql(self.compile(table, params=params, limit=limit, **options)), table.schema()

    def to_pyarrow(self, expr, /, *, params=None, limit=None, **options):
        cursor, schema = self._arrow(expr, params, limit, options)
        return expr.__pyarrow_result__(as_expected(cursor.arrow(), schema))

    def to_pyarrow_batches(self, expr, /, *, params=None, limit=None, chunk_size=1_000_000, **_):
        import pyarrow as pa

        cursor, schema = self._arrow(expr, params, limit, {})

        def batches():
            for batch in cursor.fetch_record_batch():
                yield from as_expected(pa.Table.from_batches([batch]), schema).to_batches(max_chunksize=chunk_size)

        return pa.RecordBatchReader.from_batches(schema.to_pyarrow(), batches())

    def execute(self, expr, /, *, params=None, limit=None, **options):
        cursor, schema = self._arrow(expr, params, limit, options)
        return expr.__pandas_result__(pandas_frame(cursor.arrow(), schema))


def _in_memory(data):
    """The data, of which a data set or a reader of pyarrow is read to its end."""
    if hasattr(data, "read_all"):
        return data.read_all()
    if hasattr(data, "to_table") and hasattr(data, "scanner"):
        return data.to_table()
    return data
