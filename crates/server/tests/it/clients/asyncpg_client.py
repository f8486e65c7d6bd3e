"""asyncpg beside a server: introspection of types, values, cursors, COPY and pools."""
import asyncio
import datetime as d
import decimal
import io
import sys
import uuid

import asyncpg


async def main():
    where = dict(host="127.0.0.1", port=int(sys.argv[1]), user="tester", database="any")
    c = await asyncpg.connect(**where)
    await c.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, s TEXT, b BYTEA, n NUMERIC(10,2), d DATE, ts TIMESTAMPTZ, u UUID, "
        "i INTERVAL, a INT[], ta TEXT[])"
    )
    zone = d.timezone.utc
    row = (
        1, "x", b"\0\1", decimal.Decimal("12.34"), d.date(2020, 1, 2), d.datetime(2020, 1, 2, 3, tzinfo=zone),
        uuid.UUID(int=5), d.timedelta(days=3), [1, 2, None], ["a", 'b,"c'],
    )
    await c.execute("INSERT INTO t VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)", *row)
    assert tuple(await c.fetchrow("SELECT * FROM t")) == row
    await c.executemany("INSERT INTO t (id, s) VALUES ($1, $2)", [(n, str(n)) for n in range(10, 500)])
    assert len(await c.fetch("SELECT id FROM t WHERE id = ANY($1::int[])", [1, 11, 12])) == 3
    assert [tuple(r) for r in await c.fetch("SELECT * FROM unnest($1::int[], $2::text[]) AS t(a, b)", [1], ["x"])] == [
        (1, "x")
    ]
    async with c.transaction():
        count = 0
        async for _ in c.cursor("SELECT id FROM t ORDER BY id", prefetch=100):
            count += 1
        assert count == 491
        cursor = await c.cursor("SELECT id FROM t ORDER BY id")
        assert await cursor.forward(10) == 10
        assert (await cursor.fetchrow())["id"] == 19
    assert await c.copy_records_to_table("t", records=[(5000, "s"), (5001, None)], columns=["id", "s"]) == "COPY 2"
    out = io.BytesIO()
    await c.copy_from_query("SELECT id, s FROM t WHERE id >= $1 ORDER BY id", 5000, output=out, format="csv")
    assert out.getvalue() == b"5000,s\n5001,\n", out.getvalue()
    types = (await c.prepare("SELECT $1::int4, $2::numeric, $3::timestamptz, $4::uuid[], $5::oid[]")).get_parameters()
    assert [kind.oid for kind in types] == [23, 1700, 1184, 2951, 1028]
    kind = await c.fetchrow("SELECT oid, typname, typtype FROM pg_type WHERE typname = 'int4'")
    assert tuple(kind) == (23, "int4", b"b")
    async with c.transaction():
        try:
            async with c.transaction():
                await c.execute("INSERT INTO t (id) VALUES (1)")
        except asyncpg.UniqueViolationError as error:
            assert (error.constraint_name, error.table_name) == ("t_pkey", "t")
        assert await c.fetchval("SELECT count(*) FROM t WHERE id = 1") == 1
    try:
        await c.fetchval("SELECT pg_sleep(5)", timeout=0.2)
        raise AssertionError("the statement was not cancelled")
    except asyncio.TimeoutError:
        assert await c.fetchval("SELECT 5") == 5
    assert c.get_settings().client_encoding == "UTF8"
    await c.close()
    async with asyncpg.create_pool(**where, min_size=2, max_size=4) as pool:
        assert await pool.fetchval("SELECT 1") == 1
        assert await pool.fetchval("SELECT 2") == 2


asyncio.run(main())
