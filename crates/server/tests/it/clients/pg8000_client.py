"""pg8000 beside a server: a driver in pure Python that asks for text values."""
import datetime as d
import decimal
import sys
import uuid

import pg8000.native

c = pg8000.native.Connection("tester", host="127.0.0.1", port=int(sys.argv[1]), database="any")
c.run("CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC(10,2), d DATE, ts TIMESTAMP, u UUID, a INT[])")
row = [1, decimal.Decimal("1.25"), d.date(2020, 1, 2), d.datetime(2020, 1, 2, 3), uuid.UUID(int=5), [1, None]]
c.run("INSERT INTO t VALUES (:a, :b, :c, :d, :e, :f)", **dict(zip("abcdef", row)))
assert c.run("SELECT * FROM t") == [row]
assert c.run("SELECT CAST(:x AS DATE) + 1", x=d.date(2020, 1, 1)) == [[d.date(2020, 1, 2)]]
assert [column["name"] for column in c.columns] and c.run("SELECT id FROM t WHERE id = ANY(:ids)", ids=[1, 2]) == [[1]]
