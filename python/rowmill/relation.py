"""Relations: queries that are made in steps and run when their rows are fetched."""

from ._rowmill import Error

#: The rows and characters of a relation that are shown.
_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 40
#: The name of the rows of a statement that is no query. A table should not have it, because tables come first.
_STORED = "rows of a statement"


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
        return Relation(connection, f'SELECT * FROM "{_STORED}"', None, columns, {_STORED: cursor._batches()})
    return Relation(connection, sql, parameters, columns, frames)


class Relation:
    """A query. Each method that makes another relation leaves this one as it is.

    Each call that fetches all rows runs the query. `fetchone` and `fetchmany` go on with the rows of one run.
    """

    def __init__(self, connection, sql, parameters, columns, frames):
        self._connection = connection
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

    @property
    def shape(self):
        return len(self), len(self._columns)

    def __len__(self):
        return self._step("count(*)").execute().fetchone()[0]

    def execute(self):
        """Runs the query and returns a cursor."""
        return self._connection._execute(self._sql, self._parameters, self._frames)

    # Steps.

    def _step(self, outputs="*", clauses=""):
        # The query ends on its own line, because it may end with a comment.
        sql = f"SELECT {outputs} FROM (\n{self._sql}\n) AS relation {clauses}"
        columns, _ = self._connection._describe(sql, self._frames)
        return Relation(self._connection, sql, self._parameters, columns, self._frames)

    def select(self, *outputs):
        """The relation with these expressions as columns."""
        return self._step(", ".join(outputs) or "*")

    def filter(self, condition):
        """The rows for which a condition is true."""
        return self._step(clauses=f"WHERE {condition}")

    def aggregate(self, outputs, group_by=""):
        """The aggregates of the groups, or of all rows."""
        return self._step(outputs, f"GROUP BY {group_by}" if group_by else "")

    def order(self, keys):
        """The rows in an order."""
        return self._step(clauses=f"ORDER BY {keys}")

    def limit(self, rows, offset=0):
        """The first rows, after some that are skipped."""
        return self._step(clauses=f"LIMIT {int(rows)} OFFSET {int(offset)}")

    def distinct(self):
        """The rows without repetitions."""
        return self._step("DISTINCT *")

    # Effects.

    def create(self, table):
        """Stores the rows as a new table."""
        self._connection._execute(f"CREATE TABLE {table} AS\n{self._sql}", self._parameters, self._frames)

    def insert_into(self, table):
        """Adds the rows to a table. Returns their number."""
        return self._connection._execute(f"INSERT INTO {table}\n{self._sql}", self._parameters, self._frames).rowcount

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
    fetchdf = df

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


def _shown(value):
    text = "NULL" if value is None else str(value).replace("\n", "\\n")
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
