"""Relations: queries that are made in steps and run when their rows are fetched."""

import itertools

from ._rowmill import Error

#: The rows and characters of a relation that are shown.
_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 40
#: The names of rows that a relation keeps. A table should not have one, because tables come first.
_STORED = (f"rows of relation {number}" for number in itertools.count(1))


def relation(connection, sql, parameters=None):
    """Makes a relation of a query. Another statement runs at once; its rows, if it has any, are the relation."""
    sql = sql.strip().rstrip(";")
    try:
        columns, frames = connection._describe(f"SELECT * FROM (\n{sql}\n) AS relation")
    except Error:
        cursor = connection.execute(sql, parameters)
        columns = cursor.description
        if columns is None:
            return None
        return _of_batches(connection, cursor._batches(), columns)
    return Relation(connection, sql, parameters, columns, frames)


def _of_batches(connection, batches, columns):
    name = next(_STORED)
    return Relation(connection, f'SELECT * FROM "{name}"', None, columns, {name: batches})


def _of_query(connection, sql, frames=None):
    columns, found = connection._describe(sql, frames)
    return Relation(connection, sql, None, columns, found)


def table(connection, name):
    """The relation of a table or view. The name may have a schema before it."""
    return _of_query(connection, f"SELECT * FROM {name}", {})


def of_data(connection, data):
    """The relation of a frame of pandas or polars, or of Arrow data."""
    name = next(_STORED)
    return _of_query(connection, f'SELECT * FROM "{name}"', {name: data})


def of_files(connection, function, paths, **options):
    """The relation of files that a function of SQL reads."""
    files = [str(path) for path in paths] if isinstance(paths, (list, tuple)) else str(paths)
    named = [f"{name} = {_literal(value)}" for name, value in options.items() if value is not None]
    return _of_query(connection, f"SELECT * FROM {function}({', '.join([_literal(files), *named])})", {})


def _literal(value):
    """A value as SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(name)}: {_literal(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, (int, float)):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def _quoted(name):
    return '"' + name.replace('"', '""') + '"'


def _listed(expressions):
    """A list of expressions as one text."""
    return expressions if isinstance(expressions, str) else ", ".join(expressions)


class Relation:
    """A query. Each method that makes another relation leaves this one as it is.

    Each call that fetches all rows runs the query. `fetchone` and `fetchmany` go on with the rows of one run.
    """

    def __init__(self, connection, sql, parameters, columns, frames, alias="relation"):
        self._connection = connection
        self._alias = alias
        self._sql = sql
        self._parameters = parameters
        self._columns = columns
        self._frames = frames
        self._cursor = None

    @property
    def sql(self):
        return self._sql

    @property
    def description(self):
        return list(self._columns)

    @property
    def columns(self):
        return [column[0] for column in self._columns]

    @property
    def types(self):
        return [column[1] for column in self._columns]

    dtypes = types

    @property
    def alias(self):
        """The name of the relation in conditions of joins."""
        return self._alias

    @property
    def shape(self):
        return len(self), len(self._columns)

    def __len__(self):
        return self._step("count(*)").execute().fetchone()[0]

    def execute(self):
        """Runs the query and returns a cursor."""
        return self._connection._execute(self._sql, self._parameters, self._frames)

    # Steps.

    def _source(self):
        # The query ends on its own line, because it may end with a comment.
        return f"(\n{self._sql}\n) AS {_quoted(self._alias)}"

    def _made(self, sql, frames=None):
        frames = self._frames if frames is None else frames
        columns, _ = self._connection._describe(sql, frames)
        return Relation(self._connection, sql, self._parameters, columns, frames)

    def _step(self, outputs="*", clauses=""):
        return self._made(f"SELECT {outputs} FROM {self._source()} {clauses}")

    def set_alias(self, alias):
        """The same relation under another name, for the conditions of joins."""
        return Relation(self._connection, self._sql, self._parameters, self._columns, self._frames, alias)

    def select(self, *outputs):
        """The relation with these expressions as columns."""
        return self._step(", ".join(outputs) or "*")

    project = select

    def filter(self, condition):
        """The rows for which a condition is true."""
        return self._step(clauses=f"WHERE {condition}")

    def aggregate(self, outputs, group_by=""):
        """The aggregates of the groups, or of all rows."""
        return self._step(_listed(outputs), f"GROUP BY {_listed(group_by)}" if group_by else "")

    def order(self, keys):
        """The rows in an order."""
        return self._step(clauses=f"ORDER BY {keys}")

    def sort(self, *keys):
        """The rows in an order."""
        return self.order(", ".join(keys))

    def limit(self, rows, offset=0):
        """The first rows, after some that are skipped."""
        return self._step(clauses=f"LIMIT {int(rows)} OFFSET {int(offset)}")

    def head(self, rows=5):
        """The first rows."""
        return self.limit(rows)

    def offset(self, rows):
        """The rows after the first ones."""
        return self._step(clauses=f"OFFSET {int(rows)}")

    def distinct(self):
        """The rows without repetitions."""
        return self._step("DISTINCT *")

    def unique(self, columns):
        """The values of some columns without repetitions."""
        return self._step(f"DISTINCT {columns}")

    def describe(self):
        """Counts, bounds and quantiles of each column."""
        return self._made(f"SELECT * FROM (SUMMARIZE {self._sql}) AS summary")

    def query(self, name, sql):
        """A query that reads this relation as a table of that name."""
        return self._made(f"WITH {_quoted(name)} AS (\n{self._sql}\n) {sql}")

    # Relations of two.

    def _materialized(self):
        return _of_batches(self._connection, self.execute()._batches(), self._columns)

    def _beside(self, other):
        """The other relation, as it can stand in a query with this one, and the data of both."""
        is_other_data = any(self._frames.get(name, data) is not data for name, data in other._frames.items())
        if is_other_data or (other._parameters and self._parameters):
            other = other._materialized().set_alias(other._alias)
        if other._parameters:
            this = self._materialized().set_alias(self._alias)
            return this, other, this._frames | other._frames, other._parameters
        return self, other, self._frames | other._frames, self._parameters

    def _combined(self, other, text):
        this, other, frames, parameters = self._beside(other)
        sql = text(this, other)
        columns, _ = self._connection._describe(sql, frames)
        return Relation(self._connection, sql, parameters, columns, frames)

    def _set_operation(self, operator, other):
        return self._combined(
            other, lambda this, other: f"SELECT * FROM {this._source()} {operator} SELECT * FROM {other._source()}"
        )

    def union(self, other):
        """The rows of both, with repetitions."""
        return self._set_operation("UNION ALL", other)

    def union_by_name(self, other):
        """The rows of both, with repetitions. Columns are put together by their names."""
        return self._set_operation("UNION ALL BY NAME", other)

    def intersect(self, other):
        """The rows that both have, with repetitions."""
        return self._set_operation("INTERSECT ALL", other)

    def except_(self, other):
        """The rows of this one without those of the other one."""
        return self._set_operation("EXCEPT ALL", other)

    def join(self, other, condition, how="inner"):
        """A join: inner, left, right, outer, semi or anti. The condition names columns that both have, or is one of SQL
        with the aliases of the relations (`set_alias`).
        """
        kinds = {"outer": "FULL"}
        names = condition if isinstance(condition, (list, tuple)) else [name.strip() for name in condition.split(",")]
        if all(name.replace("_", "a").isalnum() for name in names):
            condition = f"USING ({', '.join(names)})"
        else:
            condition = f"ON {condition}"
        kind = kinds.get(how, how.upper())
        return self._combined(
            other, lambda this, other: f"SELECT * FROM {this._source()} {kind} JOIN {other._source()} {condition}"
        )

    def cross(self, other):
        """Each row of this one with each of the other one."""
        return self._combined(other, lambda this, other: f"SELECT * FROM {this._source()} CROSS JOIN {other._source()}")

    # Aggregates. `groups` are the keys, `projected_columns` come before the result, and `window_spec` (`over (...)`) makes
    # a window function.

    def _aggregated(self, call, groups, window_spec, projected_columns):
        outputs = ", ".join(part for part in [projected_columns, f"{call} {window_spec}".strip()] if part)
        return self._step(outputs, f"GROUP BY {groups}" if groups else "")

    def value_counts(self, column, groups=""):
        """The number of rows of each value."""
        return self._step(f"{column}, count({column})", f"GROUP BY {', '.join(filter(None, [column, groups]))}")

    def string_agg(self, column, sep=",", groups="", window_spec="", projected_columns=""):
        return self._aggregated(f"string_agg({column}, {_literal(sep)})", groups, window_spec, projected_columns)

    def quantile_cont(self, column, q=0.5, groups="", window_spec="", projected_columns=""):
        return self._aggregated(f"quantile_cont({column}, {_literal(q)})", groups, window_spec, projected_columns)

    def quantile_disc(self, column, q=0.5, groups="", window_spec="", projected_columns=""):
        return self._aggregated(f"quantile_disc({column}, {_literal(q)})", groups, window_spec, projected_columns)

    def arg_max(self, arg_column, value_column, groups="", window_spec="", projected_columns=""):
        return self._aggregated(f"arg_max({arg_column}, {value_column})", groups, window_spec, projected_columns)

    def arg_min(self, arg_column, value_column, groups="", window_spec="", projected_columns=""):
        return self._aggregated(f"arg_min({arg_column}, {value_column})", groups, window_spec, projected_columns)

    # Effects.

    def create(self, table):
        """Stores the rows as a new table."""
        self._connection._execute(f"CREATE TABLE {table} AS\n{self._sql}", self._parameters, self._frames)

    to_table = create

    def create_view(self, name, replace=True):
        """Makes a view that only this connection sees. It reads stored tables, not variables."""
        create = "CREATE OR REPLACE TEMP VIEW" if replace else "CREATE TEMP VIEW"
        self._connection._execute(f"{create} {name} AS\n{self._sql}", self._parameters, {})
        return table(self._connection, name)

    to_view = create_view

    def insert_into(self, table):
        """Adds the rows to a table. Returns their number."""
        return self._connection._execute(f"INSERT INTO {table}\n{self._sql}", self._parameters, self._frames).rowcount

    def _copy(self, path, options):
        named = ", ".join(f"{name} {_literal(value)}" for name, value in options.items() if value is not None)
        sql = f"COPY (\n{self._sql}\n) TO {_literal(str(path))} ({named})"
        return self._connection._execute(sql, self._parameters, self._frames).rowcount

    def to_parquet(self, path, **options):
        """Writes the rows to a file of Parquet. The options are those of COPY. Returns the number of rows."""
        return self._copy(path, {"format": "parquet"} | options)

    def to_csv(self, path, **options):
        """Writes the rows to a file of CSV. The options are those of COPY. Returns the number of rows."""
        return self._copy(path, {"format": "csv", "header": True} | options)

    write_parquet = to_parquet
    write_csv = to_csv

    def explain(self):
        """The plan of the query."""
        rows = self._connection._execute(f"EXPLAIN {self._sql}", self._parameters, self._frames).fetchall()
        return "\n".join(row[-1] for row in rows)

    # Rows.

    def _open(self):
        if self._cursor is None:
            self._cursor = self.execute()
        return self._cursor

    def fetchone(self):
        return self._open().fetchone()

    def fetchmany(self, size=1):
        return self._open().fetchmany(size)

    def fetchall(self):
        cursor, self._cursor = self._open(), None
        return cursor.fetchall()

    def __iter__(self):
        return iter(self.execute())

    def fetchnumpy(self):
        return self.execute().fetchnumpy()

    def arrow(self):
        return self.execute().arrow()

    def df(self):
        return self.execute().df()

    def pl(self):
        return self.execute().pl()

    to_arrow_table = arrow
    fetch_arrow_table = arrow
    fetchdf = df
    to_df = df

    def to_dicts(self):
        """The rows as dicts of values by column."""
        return [dict(zip(self.columns, row)) for row in self.execute().fetchall()]

    def to_arrow_reader(self):
        return self.fetch_record_batch()

    def fetch_record_batch(self):
        return self.execute().fetch_record_batch()

    def __arrow_c_stream__(self, requested_schema=None):
        return self.execute()._batches().__arrow_c_stream__(requested_schema)

    # Text.

    def _head(self):
        rows = self.execute().fetchmany(_SHOWN_ROWS + 1)
        shown = [[_shown(value) for value in row] for row in rows[:_SHOWN_ROWS]]
        return shown, len(rows) > _SHOWN_ROWS

    def show(self):
        """Prints the first rows."""
        print(self)

    def __repr__(self):
        rows, has_more = self._head()
        lines = [self.columns, self.types, *rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self._columns))]
        table = ["  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in lines]
        table.insert(2, "  ".join("-" * width for width in widths))
        if has_more:
            table.append("...")
        return "\n".join(table)

    def _repr_html_(self):
        from html import escape

        rows, has_more = self._head()
        head = "".join(f"<th>{escape(name)}<br><small>{escape(kind)}</small></th>" for name, kind, *_ in self._columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table>{'…' if has_more else ''}"


def _simple_aggregate(name):
    def aggregate(self, column, groups="", window_spec="", projected_columns=""):
        return self._aggregated(f"{name}({column})", groups, window_spec, projected_columns)

    aggregate.__name__ = name
    aggregate.__doc__ = f"The relation with the aggregate `{name}` of a column."
    return aggregate


for _name in [
    "any_value", "avg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "count", "first", "last", "list", "max",
    "mean", "median", "min", "mode", "product", "std", "stddev", "stddev_pop", "stddev_samp", "sum", "var", "var_pop",
    "var_samp", "variance",
]:  # fmt: skip
    setattr(Relation, _name, _simple_aggregate({"std": "stddev", "var": "variance", "mean": "avg"}.get(_name, _name)))


def _shown(value):
    text = "NULL" if value is None else str(value).replace("\n", "\\n")
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
