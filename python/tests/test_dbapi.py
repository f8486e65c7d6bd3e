"""DB-API 2.0: statements, values, transactions, errors."""

import datetime as dt
import decimal
import uuid

import pytest
import rowmill


@pytest.fixture
def con():
    connection = rowmill.connect()
    yield connection
    connection.close()


def test_the_module_says_what_it_is():
    assert (rowmill.apilevel, rowmill.threadsafety, rowmill.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(rowmill.IntegrityError, rowmill.DatabaseError) and issubclass(rowmill.DatabaseError, rowmill.Error)


def test_rows_are_fetched_in_every_way(con):
    con.execute("CREATE TABLE t (n BIGINT, s TEXT)")
    cursor = con.executemany("INSERT INTO t VALUES (?, ?)", ((n, f"n{n}") for n in range(10_000)))
    assert cursor.rowcount == 10_000
    cursor = con.cursor().execute("SELECT * FROM t ORDER BY n")
    assert [column[:2] for column in cursor.description] == [("n", "BIGINT"), ("s", "TEXT")]
    assert cursor.description[0][1] == rowmill.NUMBER and cursor.description[1][1] == rowmill.STRING
    assert cursor.rowcount == -1
    assert cursor.fetchone() == (0, "n0")
    assert cursor.fetchmany(2) == [(1, "n1"), (2, "n2")]
    assert cursor.fetchmany() == [(3, "n3")]
    assert next(cursor) == (4, "n4")
    assert len(cursor.fetchall()) == 9_995
    assert cursor.fetchone() is None and cursor.fetchall() == []
    assert [row for row in con.execute("SELECT 1 UNION ALL SELECT 2")] == [(1,), (2,)]
    assert con.execute("SELECT 1 WHERE false").fetchall() == []


def test_values_go_in_and_out(con):
    zone = dt.timezone(dt.timedelta(hours=2))
    values = [
        None, True, -5, 2**63, 0.5, "text", b"\x00\xff", decimal.Decimal("-12.50"), decimal.Decimal("1E+2"),
        dt.date(1969, 12, 31), dt.time(23, 59, 59, 999_999), dt.datetime(1969, 12, 31, 23, 59, 59, 5),
        dt.datetime(2024, 2, 29, 12, 30, tzinfo=zone), uuid.UUID(int=7), [1, 2, None],
    ]  # fmt: skip
    row = con.execute(f"SELECT {', '.join('?' for _ in values)}", values).fetchone()
    assert list(row) == values
    assert type(row[3]) is decimal.Decimal and row[12].tzinfo is dt.timezone.utc
    sql = "SELECT CAST(? AS INTERVAL), INTERVAL '1 month', {'a': 1, 'b': [DATE '2024-02-29']}, TIMESTAMP(0) '2024-01-01'"
    row = con.execute(sql, [dt.timedelta(days=1, microseconds=5)]).fetchone()
    assert row == (
        dt.timedelta(days=1, microseconds=5), "1 mon", {"a": 1, "b": [dt.date(2024, 2, 29)]}, dt.datetime(2024, 1, 1)
    )  # fmt: skip


def test_instants_have_the_zone_of_the_session(con):
    con.execute("SET TIME ZONE 'Europe/Berlin'")
    [moment] = con.execute("SELECT TIMESTAMPTZ '2024-07-01 12:00:00+00'").fetchone()
    assert moment == dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone.utc)
    assert (moment.hour, moment.utcoffset()) == (14, dt.timedelta(hours=2))


def test_parameters_have_names_or_an_order(con):
    assert con.execute("SELECT :a + :b, :a", {"a": 40, "b": 2}).fetchone() == (42, 40)
    assert con.execute("SELECT $2, $1", ("x", "y")).fetchone() == ("y", "x")
    assert con.execute("SELECT count(*) FROM generate_series(1, 9) WHERE value = ANY(?)", [[1, 5, 99]]).fetchone() == (2,)
    with pytest.raises(rowmill.ProgrammingError, match='"b"'):
        con.execute("SELECT :a", {"b": 1})
    with pytest.raises(rowmill.ProgrammingError):
        con.execute("SELECT ?", [])
    with pytest.raises(TypeError):
        con.execute("SELECT ?", "x")
    with pytest.raises(TypeError, match="object"):
        con.execute("SELECT ?", [object()])


def test_errors_have_their_class_and_sqlstate(con):
    con.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, n SMALLINT CHECK (n > 0))")
    con.execute("INSERT INTO t VALUES (1, 1)")
    for sql, kind, sqlstate in [
        ("INSERT INTO t VALUES (1, 1)", rowmill.IntegrityError, "23505"),
        ("INSERT INTO t VALUES (2, 0)", rowmill.IntegrityError, "23514"),
        ("INSERT INTO t VALUES (2, 70000)", rowmill.DataError, "22003"),
        ("SELECT 1 / 0", rowmill.DataError, "22012"),
        ("SELECT * FROM missing", rowmill.ProgrammingError, "42P01"),
        ("SELEC 1", rowmill.ProgrammingError, "42601"),
    ]:
        with pytest.raises(kind) as raised:
            con.execute(sql).fetchall()
        assert raised.value.sqlstate == sqlstate
    with pytest.raises(rowmill.InterfaceError):
        con.execute("CREATE TABLE u (x INT)").fetchone()


def test_transactions(con):
    con.execute("CREATE TABLE t (n BIGINT)")
    with con:
        con.execute("INSERT INTO t VALUES (?)", [1])
        assert con.in_transaction
    with pytest.raises(ValueError), con:
        con.execute("INSERT INTO t VALUES (?)", [2])
        raise ValueError
    con.begin()
    con.execute("INSERT INTO t VALUES (3)")
    con.rollback()
    con.autocommit = False
    con.execute("INSERT INTO t VALUES (4)")
    assert con.in_transaction
    con.commit()
    con.execute("INSERT INTO t VALUES (5)")
    con.rollback()
    con.commit()
    assert con.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (4,)]
    with pytest.raises(rowmill.DatabaseError):
        con.executemany("INSERT INTO t VALUES (?)", [(6,), ("no number",)])


def test_a_directory_keeps_its_rows(tmp_path):
    path = tmp_path / "db"
    con = rowmill.connect(path, memory_limit="256MB")
    con.executescript("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (1), (2)")
    con.close()
    with pytest.raises(rowmill.InterfaceError, match="closed"):
        con.execute("SELECT 1")
    reader = rowmill.connect(str(path), read_only=True)
    assert reader.execute("SELECT sum(n) FROM t").fetchone() == (3,)
    with pytest.raises(rowmill.Error):
        reader.execute("INSERT INTO t VALUES (3)")
    with pytest.raises(rowmill.Error):
        rowmill.connect(no_such_setting=1)
