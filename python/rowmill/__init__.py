"""Rowmill: one SQL database for events and for the tables around them.

    import rowmill

    con = rowmill.connect("mydata")
    con.execute("CREATE TABLE visits (page TEXT, ms INTEGER)")
    con.executemany("INSERT INTO visits VALUES (?, ?)", [("/", 3), ("/docs", 40)])
    con.execute("SELECT page, avg(ms) FROM visits WHERE ms > ? GROUP BY page", [2]).fetchall()
    con.execute("SELECT * FROM visits").df()
    con.sql("SELECT * FROM frame JOIN visits USING (page)")    # `frame` is a variable
"""

import datetime as _datetime

from ._rowmill import (
    Appender,
    Connection,
    Cursor,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    __version__,
    connect,
)

from .relation import Relation

apilevel = "2.0"
#: Threads may share connections. Statements of one connection run one after the other.
threadsafety = 2
paramstyle = "qmark"


class DBAPIType:
    """A group of SQL types, equal to the type of a column in `Cursor.description` if it belongs to the group."""

    def __init__(self, *names):
        self._names = names

    def __eq__(self, other):
        return isinstance(other, str) and other.split("(")[0].split(" ")[0] in self._names

    def __hash__(self):
        return hash(self._names)


STRING = DBAPIType("TEXT", "VARCHAR")
BINARY = DBAPIType("BLOB")
NUMBER = DBAPIType("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "DECIMAL")
DATETIME = DBAPIType("DATE", "TIME", "TIMESTAMP", "INTERVAL")
ROWID = DBAPIType()

Date = _datetime.date
Time = _datetime.time
Timestamp = _datetime.datetime
Binary = bytes


def DateFromTicks(ticks):
    return _datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks):
    return _datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks):
    return _datetime.datetime.fromtimestamp(ticks)
