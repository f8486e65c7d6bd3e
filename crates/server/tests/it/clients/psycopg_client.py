"""psycopg 3 beside a server: values of all types, pipelines, cursors, COPY and errors."""
import datetime as d
import decimal
import sys
import uuid

import psycopg
from psycopg.types import TypeInfo

c = psycopg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="tester", dbname="any", autocommit=True)
c.execute(
    "CREATE TABLE t (id INT PRIMARY KEY, s TEXT, b BYTEA, f DOUBLE PRECISION, n NUMERIC(10,2), d DATE, t TIME, "
    "ts TIMESTAMP, tz TIMESTAMPTZ, u UUID, i INTERVAL, bo BOOLEAN, a INT[], ta TEXT[], bi BIGINT)"
)
zone = d.timezone.utc
row = (
    1, "x", b"\0\1", 1.5, decimal.Decimal("12.34"), d.date(2020, 1, 2), d.time(1, 2, 3, 4),
    d.datetime(2020, 1, 2, 3, 4, 5), d.datetime(2020, 1, 2, 3, 4, 5, tzinfo=zone), uuid.UUID(int=5),
    d.timedelta(days=3, seconds=4), True, [1, 2, None], ["a", 'b,"c'], 2**40,
)
for place in ("%s", "%b", "%t"):
    c.execute("DELETE FROM t")
    c.execute(f"INSERT INTO t VALUES ({','.join([place] * len(row))})", row)
    for binary in (False, True):
        assert c.execute("SELECT * FROM t", binary=binary).fetchone() == row, (place, binary)
    # The place of a parameter decides nothing here, so the type that the client gives must.
    for value in (*row, None, [1.5], [uuid.UUID(int=1)], [d.date(2020, 1, 1)], 10**20, 2**31):
        if isinstance(value, list) and isinstance(value[0], str) and place != "%b":
            continue  # psycopg sends such a list without a type.
        assert c.execute(f"SELECT {place}", [value]).fetchone()[0] == value, (place, value)
assert c.execute("SELECT %s - %s", [d.date(2020, 1, 3), d.date(2020, 1, 1)]).fetchone()[0] in (2, d.timedelta(2))

cursor = c.cursor()
cursor.executemany("INSERT INTO t (id, s) VALUES (%s, %s)", [(n, str(n)) for n in range(100, 200)])
assert cursor.rowcount == 100
with c.pipeline() as pipeline:
    first, second = c.execute("SELECT 1"), c.execute("SELECT %s::int", [2])
    pipeline.sync()
    assert (first.fetchone(), second.fetchone()) == ((1,), (2,))
with c.transaction(), c.cursor(name="rows") as named:
    named.itersize = 10
    assert len(list(named.execute("SELECT id FROM t ORDER BY id"))) == 101

for form in ("", " (FORMAT binary)"):
    with cursor.copy("COPY t (id, s, n) FROM STDIN" + form) as copy:
        copy.set_types(["int4", "text", "numeric"])
        start = 1000 + len(form)
        copy.write_row((start, "a\tb", decimal.Decimal("1.5")))
        copy.write_row((start + 1, None, None))
    with cursor.copy(f"COPY (SELECT id, s, n FROM t WHERE id >= {start} ORDER BY id) TO STDOUT{form}") as copy:
        copy.set_types(["int4", "text", "numeric"])
        assert list(copy.rows())[0] == (start, "a\tb", decimal.Decimal("1.50")), form

try:
    c.execute("INSERT INTO t (id) VALUES (1)")
except psycopg.errors.UniqueViolation as error:
    assert (error.diag.table_name, error.diag.constraint_name) == ("t", "t_pkey")
try:
    c.execute("INSERT INTO t (id) VALUES (NULL)")
except psycopg.errors.NotNullViolation as error:
    assert (error.diag.table_name, error.diag.column_name) == ("t", "id")
info = TypeInfo.fetch(c, "timestamptz")
assert (info.oid, info.array_oid) == (1184, 1185)
c.autocommit = False
c.isolation_level, c.read_only, c.deferrable = psycopg.IsolationLevel.SERIALIZABLE, True, True
assert c.execute("SELECT 1").fetchone() == (1,)
