"""The driver for ADBC, through `adbc_driver_manager`."""

import datetime as dt
import decimal
import uuid

import pytest
import rowmill

pa = pytest.importorskip("pyarrow")
manager = pytest.importorskip("adbc_driver_manager")

import adbc_driver_manager.dbapi as dbapi  # noqa: E402
import rowmill.adbc  # noqa: E402


@pytest.fixture
def con():
    with rowmill.adbc.connect() as connection:
        yield connection


def rows_of(con, sql, parameters=None):
    with con.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def test_statements_have_parameters_and_rows(con):
    with con.cursor() as cursor:
        cursor.execute("CREATE TABLE t (n BIGINT PRIMARY KEY, s TEXT, d DECIMAL(10, 2), day DATE)")
        rows = [(1, "a", decimal.Decimal("1.50"), dt.date(2024, 2, 29)), (2, None, None, None)]
        cursor.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        assert cursor.rowcount == 2
        cursor.execute("SELECT * FROM t WHERE n >= ? ORDER BY n", (1,))
        assert [column[0] for column in cursor.description] == ["n", "s", "d", "day"]
        table = cursor.fetch_arrow_table()
        assert table.to_pylist()[0] == {"n": 1, "s": "a", "d": decimal.Decimal("1.50"), "day": dt.date(2024, 2, 29)}
        assert table.schema.types == [pa.int64(), pa.string(), pa.decimal128(10, 2), pa.date32()]
        cursor.execute("SELECT * FROM t WHERE s = $1", ("nothing",))
        assert cursor.fetchall() == []
        cursor.execute("SELECT ?, ?, ?", (b"\x00", dt.datetime(2024, 1, 1), [1, 2]))
        assert cursor.fetchone() == (b"\x00", dt.datetime(2024, 1, 1), [1, 2])
        schema = cursor.adbc_execute_schema("SELECT n, s FROM t")
        assert schema == pa.schema([("n", pa.int64()), ("s", pa.string())])
        assert cursor.adbc_prepare("SELECT s FROM t WHERE n = ?").types == [pa.int64()]


def test_data_is_ingested_in_every_mode(con):
    table = pa.table({"n": [1, 2], "s": ["a", None], "l": [[1], None]})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches() * 3)
    with con.cursor() as cursor:
        assert cursor.adbc_ingest("t", table, mode="create") == 2
        assert cursor.adbc_ingest("t", reader, mode="append") == 6
        assert rows_of(con, "SELECT count(*), count(s), max(l) FROM t") == [(8, 4, [1])]
        with pytest.raises(dbapi.Error, match="already") as raised:
            cursor.adbc_ingest("t", table, mode="create")
        assert raised.value.sqlstate == "42P07"
        assert cursor.adbc_ingest("t", table.to_batches()[0], mode="replace") == 2
        assert cursor.adbc_ingest("t", table, mode="create_append") == 2
        assert cursor.adbc_ingest("u", table, mode="create_append") == 2
        with pytest.raises(dbapi.ProgrammingError):
            cursor.adbc_ingest("nowhere", table, mode="append")
        with pytest.raises(dbapi.Error, match="other"):
            cursor.adbc_ingest("t", pa.table({"other": [1]}), mode="append")
        cursor.execute("CREATE SCHEMA apart")
    with con.cursor() as cursor:
        cursor.adbc_ingest("Odd name", table, mode="create", db_schema_name="apart")
        assert rows_of(con, 'SELECT count(*) FROM apart."Odd name"') == [(2,)]
    with con.cursor() as cursor:
        cursor.adbc_ingest("passing", table, mode="create", temporary=True)
        assert rows_of(con, "SELECT count(*) FROM passing") == [(2,)]
    con.rollback()
    with pytest.raises(dbapi.ProgrammingError, match="there is no table"):
        rows_of(con, "SELECT * FROM t")


def test_transactions_and_settings(tmp_path):
    path = tmp_path / "db"
    with rowmill.adbc.connect(path, memory_limit="256MB") as con:
        rows_of(con, "CREATE TABLE t AS SELECT 1 AS n")
        con.commit()
        rows_of(con, "DELETE FROM t")
        con.rollback()
        # The directory is one database in this process, and other processes read it.
        assert rowmill.connect(path).execute("SELECT n FROM t").fetchall() == [(1,)]
        with rowmill.adbc.connect(path, autocommit=True) as other:
            assert rows_of(other, "SELECT n FROM t") == [(1,)]
    with rowmill.adbc.connect(path, read_only=True) as con:
        with pytest.raises(dbapi.Error):
            rows_of(con, "DELETE FROM t")
    with pytest.raises(dbapi.Error, match="no_such_setting"):
        rowmill.adbc.connect(no_such_setting=1)


def test_the_catalog_is_shown(con):
    rows_of(con, "CREATE TABLE a (id BIGINT PRIMARY KEY, s VARCHAR(9) NOT NULL DEFAULT 'x')")
    rows_of(con, "CREATE TABLE b (id BIGINT PRIMARY KEY, a_id BIGINT REFERENCES a (id))")
    rows_of(con, "CREATE VIEW v AS SELECT id FROM a")
    assert con.adbc_get_table_schema("a") == pa.schema([("id", pa.int64()), ("s", pa.string())])
    with pytest.raises(dbapi.Error, match="nowhere"):
        con.adbc_get_table_schema("nowhere")
    assert con.adbc_get_table_types() == ["BASE TABLE", "VIEW"]
    [catalog] = con.adbc_get_objects(db_schema_filter="main").read_all().to_pylist()
    [schema] = catalog["catalog_db_schemas"]
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert sorted(tables) == ["a", "b", "v"] and tables["v"]["table_type"] == "VIEW"
    name = tables["a"]["table_columns"][1]
    assert (name["column_name"], name["ordinal_position"], name["xdbc_is_nullable"]) == ("s", 2, "NO")
    keys = {constraint["constraint_type"]: constraint for constraint in tables["b"]["table_constraints"]}
    assert keys["PRIMARY KEY"]["constraint_column_names"] == ["id"]
    [target] = keys["FOREIGN KEY"]["constraint_column_usage"]
    assert (target["fk_table"], target["fk_column_name"]) == ("a", "id")
    [catalog] = con.adbc_get_objects(depth="tables", table_name_filter="_", table_types_filter=["VIEW"]).read_all().to_pylist()
    found = [table for schema in catalog["catalog_db_schemas"] for table in schema["db_schema_tables"]]
    assert [(table["table_name"], table["table_columns"]) for table in found] == [("v", None)]
    assert con.adbc_get_objects(depth="catalogs").read_all().to_pylist()[0]["catalog_db_schemas"] is None
    info = con.adbc_get_info()
    assert info["vendor_name"] == "Rowmill" and info["driver_version"] == rowmill.__version__


def test_values_of_every_type_come_back(con):
    values = {
        "BOOLEAN": True, "TINYINT": -5, "BIGINT UNSIGNED": 2**63 - 1, "REAL": 0.5, "TEXT": "é", "BLOB": b"\x00",
        "DECIMAL(38, 3)": decimal.Decimal("-1.250"), "TIME": dt.time(1, 2, 3, 4), "JSON": '{"a": 1}',
        "TIMESTAMP": dt.datetime(1969, 12, 31, 1), "BIGINT[]": [1, None], "STRUCT(a BIGINT)": {"a": 1},
    }  # fmt: skip
    for kind, value in values.items():
        if isinstance(value, dict):
            sql, parameters = "SELECT {'a': 1}", None
        else:
            sql, parameters = f"SELECT CAST(? AS {kind})", (value,)
        assert rows_of(con, sql, parameters) == [(value,)], kind
        rows_of(con, f"CREATE TABLE one (v {kind})")
        with con.cursor() as cursor:
            cursor.execute(f"SELECT CAST(NULL AS {kind}) AS v")
            cursor.adbc_ingest("one", cursor.fetch_arrow_table(), mode="append")
        assert rows_of(con, "SELECT * FROM one") == [(None,)], kind
        rows_of(con, "DROP TABLE one")
    key = uuid.uuid4()
    assert rows_of(con, "SELECT CAST(CAST(? AS UUID) AS TEXT)", (str(key),)) == [(str(key),)]
