//! `pg_catalog`, as tools ask for it.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::psql::psql;
use crate::support::{TestServer, with_client};

pub(crate) const TABLES: &str = "
    CREATE TABLE parent (id BIGINT PRIMARY KEY, code VARCHAR(10) NOT NULL UNIQUE);
    CREATE TABLE child (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        p BIGINT REFERENCES parent (id) ON DELETE CASCADE, n DECIMAL(10, 2) DEFAULT 1.5, tags TEXT[], CHECK (n > 0));
    CREATE INDEX by_n ON child (n DESC, p);
    CREATE TABLE events (at TIMESTAMP, v DOUBLE);
    CREATE VIEW v AS SELECT id, code FROM parent;
    CREATE SCHEMA archive;
    CREATE TABLE archive.old (a INTEGER)";

/// Returns the rows of a query of the simple protocol, values separated by bars.
pub(crate) async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).unwrap_or("NULL")).collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

#[test]
fn commands_of_psql_describe_the_database() {
    let server = TestServer::start();
    let Some(created) = psql(&server, &["-c", TABLES]) else { return };
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    psql(&server, &["-c", "CREATE TABLE doubled (a INTEGER, b INTEGER GENERATED ALWAYS AS (a * 2) STORED)"]);
    for (command, lines) in [
        ("\\d doubled", &["a|integer|||", "b|integer|||generated always as (a * 2) stored"][..]),
        ("\\d", &["main|child|table|rowmill", "main|child_id_seq|sequence|rowmill", "main|v|view|rowmill"][..]),
        ("\\dt+", &["main|child|table|rowmill|permanent|row||", "main|events|table|rowmill|permanent|column||"]),
        ("\\dt archive.*", &["archive|old|table|rowmill"]),
        (
            "\\d child",
            &[
                "id|bigint||not null|generated always as identity",
                "n|numeric(10,2)|||1.5",
                "tags|text[]|||",
                "    \"by_n\" btree (n DESC, p)",
                "    \"child_check\" CHECK (n > 0)",
                "    \"child_p_fkey\" FOREIGN KEY (p) REFERENCES parent(id) ON DELETE CASCADE",
            ],
        ),
        (
            "\\d parent",
            &[
                "code|character varying(10)||not null|",
                "    \"parent_code_key\" UNIQUE CONSTRAINT, btree (code)",
                "    TABLE \"child\" CONSTRAINT \"child_p_fkey\" FOREIGN KEY (p) \
                    REFERENCES parent(id) ON DELETE CASCADE",
            ],
        ),
        ("\\d+ events", &["at|timestamp without time zone||||plain|||", "Access method: column"]),
        ("\\d v", &["id|bigint|||", "code|text|||"]),
        ("\\d by_n", &["n|numeric(10,2)|yes|n"]),
        ("\\di", &["main|by_n|index|rowmill|child", "main|parent_pkey|index|rowmill|parent"]),
        ("\\dv", &["main|v|view|rowmill"]),
        ("\\dn", &["archive|rowmill", "main|rowmill"]),
        ("\\l", &["rowmill|rowmill|UTF8|C|C.UTF-8||libc|"]),
        ("\\du", &["rowmill|Superuser, Create role, Bypass RLS|{}"]),
        ("\\dfS upper", &["pg_catalog|upper|||func"]),
        ("\\df", &[]),
        ("\\sv v", &["SELECT id, code FROM parent"]),
    ] {
        let output = psql(&server, &["-P", "tuples_only=off", "-c", command]).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{command}: {errors}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in lines {
            assert!(text.lines().any(|found| found.trim_end() == line.trim_end()), "{command}: {line}\n{text}");
        }
    }
}

#[test]
fn names_and_numbers_of_objects_belong_together() {
    with_client(|client| async move {
        client.batch_execute(TABLES).await.unwrap();
        for (sql, expected) in [
            ("SELECT relname FROM pg_class WHERE oid = 'child'::regclass", "child"),
            ("SELECT relname FROM pg_class WHERE oid = 'archive.old'::regclass", "old"),
            ("SELECT oid::regclass FROM pg_class WHERE relname = 'old'", "archive.old"),
            ("SELECT to_regclass('nothing') IS NULL", "t"),
            (
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'n' AND attnum = 3",
                "numeric(10,2)",
            ),
            ("SELECT 'integer'::regtype, 23::regtype::text", "23|integer"),
            ("SELECT typname FROM pg_type WHERE oid = ANY(ARRAY[1007])", "_int4"),
            ("SELECT nspname FROM pg_namespace WHERE oid = 2200", "main"),
            ("SELECT current_database(), current_schema()", "rowmill|main"),
            ("SELECT current_schemas(true), current_schemas(false)", "{pg_catalog,main}|{main}"),
            ("SELECT current_setting('jit'), set_config('jit', 'off', false)", "off|off"),
            ("SELECT current_user", "rowmill"),
            ("SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef", "1.5"),
            ("SELECT pg_size_pretty(20971520)", "20 MB"),
            ("SELECT count(*) FROM pg_description", "0"),
            ("SELECT setting FROM pg_settings WHERE name = 'threads' AND false UNION ALL SELECT 'none'", "none"),
        ] {
            assert_eq!(rows(&client, sql).await, [expected], "{sql}");
        }
        let version = rows(&client, "SELECT pg_catalog.version()").await;
        assert!(version[0].starts_with("PostgreSQL 14.0 (Rowmill "), "{version:?}");
        let numbers = rows(&client, "SELECT oid FROM pg_class ORDER BY oid").await;
        client.batch_execute("CREATE TABLE another (a INTEGER)").await.unwrap();
        let again = rows(&client, "SELECT oid FROM pg_class WHERE relname <> 'another' ORDER BY oid").await;
        assert_eq!(numbers, again);
    });
}

/// Queries as the drivers send them.
#[test]
fn queries_of_drivers_are_answered() {
    with_client(|client| async move {
        client.batch_execute(TABLES).await.unwrap();
        // tokio-postgres, for a type that it does not know.
        let sql = "SELECT t.typname, t.typtype, t.typelem, r.rngsubtype, t.typbasetype, n.nspname, t.typrelid
            FROM pg_catalog.pg_type t
            LEFT OUTER JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
            INNER JOIN pg_catalog.pg_namespace n ON t.typnamespace = n.oid
            WHERE t.oid = $1";
        let row = client.query_one(sql, &[&2950_i64]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "uuid");
        // psycopg, for the numbers of a type.
        let sql =
            "SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, typdelim AS delimiter
            FROM pg_type t WHERE t.oid = to_regtype('numeric') ORDER BY t.oid";
        assert_eq!(rows(&client, sql).await, ["numeric|1700|1231|numeric|,"]);
        // SQLAlchemy, for the tables of a schema and whether one is there.
        let sql = "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace
            ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
            WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p']) AND pg_catalog.pg_class.relpersistence != 't'
            AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid)
            AND pg_catalog.pg_namespace.nspname != 'pg_catalog' ORDER BY 1";
        assert_eq!(rows(&client, sql).await, ["child", "events", "parent"]);
        // JDBC, for the primary key of a table.
        let sql = "SELECT a.attname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
            ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
            WHERE i.indrelid = 'parent'::regclass AND i.indisprimary";
        assert_eq!(rows(&client, sql).await, ["id"]);
    });
}
