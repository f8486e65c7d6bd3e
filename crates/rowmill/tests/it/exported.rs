//! `EXPORT DATABASE` and `IMPORT DATABASE` between two databases.

use rowmill::{Connection, Database, ErrorKind};

/// Objects of every kind that is exported.
const OBJECTS: &str = "
    CREATE SCHEMA s;
    CREATE SEQUENCE counter START WITH 5;
    CREATE TABLE s.child (id BIGINT PRIMARY KEY, parent INTEGER);
    CREATE TABLE parent (id SERIAL PRIMARY KEY, name TEXT UNIQUE, price DECIMAL(9, 2) CHECK (price > 0));
    CREATE INDEX by_price ON parent (price DESC, id);
    ALTER TABLE s.child ADD CONSTRAINT owned FOREIGN KEY (parent) REFERENCES parent ON DELETE CASCADE;
    CREATE TABLE \"Odd Name\" (\"a b\" TEXT DEFAULT 'it''s', n INTEGER GENERATED ALWAYS AS IDENTITY, tags TEXT[]);
    CREATE TABLE times (ts TIMESTAMP, v DOUBLE) TIMESTAMP(ts) PARTITION BY DAY;
    CREATE VIEW z AS SELECT name FROM parent WHERE price > 1;
    CREATE VIEW a (n) AS SELECT upper(name) FROM z;
    CREATE OR REPLACE VIEW z AS SELECT name FROM parent WHERE price > 2;
    INSERT INTO parent (name, price) VALUES ('one', 1.50), ('two', 2.50), ('', 3.50);
    INSERT INTO s.child VALUES (10, 1), (11, NULL);
    INSERT INTO \"Odd Name\" (\"a b\", tags) VALUES ('x,\"y\"', ['p', NULL]), (NULL, NULL), ('', []);
    INSERT INTO times VALUES ('2026-01-01 10:00', 0.1), ('2026-01-02', 'NaN');
    CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM parent;
    CREATE MACRO dearer(x, \"by how much\" := 1 + 1) AS x + \"by how much\";
    CREATE FUNCTION half(x DOUBLE) RETURNS DECIMAL(9, 2) LANGUAGE SQL AS 'SELECT x / 2';
    CREATE FUNCTION greeting() RETURNS TEXT RETURN 'with ''quotes''';
    CREATE MACRO parting() AS ('with a word');
    CREATE MACRO cheap(most) AS TABLE SELECT name FROM parent WHERE price < most;
    CREATE VIEW dear AS SELECT dearer(price, 3) AS price FROM parent;
    COMMENT ON TABLE parent IS 'it''s a table';
    COMMENT ON COLUMN parent.name IS 'a name';
    COMMENT ON SEQUENCE counter IS 'it counts';
    COMMENT ON VIEW z IS 'a view';
    COMMENT ON MACRO dearer IS 'a macro';
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    COMMENT ON TYPE mood IS 'a type';
    SELECT nextval('counter');
    CREATE TEMP TABLE scratch AS SELECT 1 AS one;
";

fn texts(connection: &mut Connection, sql: &str) -> Vec<String> {
    let rows = connection.query(sql).and_then(|rows| rows.rows()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.get(0).unwrap_or_else(|error| panic!("{sql}: {error}"))).collect()
}

/// Everything that must be equal in the two databases.
fn contents(connection: &mut Connection) -> Vec<Vec<String>> {
    [
        "SELECT table_schema || '.' || table_name FROM information_schema.tables \
         WHERE table_schema IN ('main', 's') ORDER BY 1",
        "SELECT constraint_name FROM information_schema.table_constraints ORDER BY 1",
        "SELECT index_name FROM information_schema.indexes WHERE table_schema IN ('main', 's') ORDER BY 1",
        "SELECT CAST(struct(id, name, price) AS TEXT) FROM parent ORDER BY id",
        "SELECT CAST(struct(id, parent) AS TEXT) FROM s.child ORDER BY id",
        "SELECT CAST(struct(\"a b\", n, tags) AS TEXT) FROM \"Odd Name\" ORDER BY n",
        "SELECT CAST(struct(ts, v) AS TEXT) FROM times ORDER BY ts",
        "SELECT n FROM a ORDER BY n",
        "SELECT CAST(n AS TEXT) FROM total",
        "SELECT description FROM pg_description ORDER BY 1",
        "SELECT greeting() || parting() || CAST(half(5) AS TEXT) || CAST(dearer(1) AS TEXT)",
        "SELECT name FROM cheap(3) ORDER BY 1",
        "SELECT CAST(price AS TEXT) FROM dear ORDER BY 1",
    ]
    .iter()
    .map(|sql| texts(connection, sql))
    .collect()
}

#[test]
fn an_imported_export_is_an_equal_database() {
    for format in ["", " (FORMAT csv)"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (out, moved) = (folder.path().join("out"), folder.path().join("moved"));
        let mut from = Database::memory().expect("opens").connect().expect("connects");
        from.execute_batch(OBJECTS).expect("made");
        from.execute_batch(&format!("EXPORT DATABASE '{}'{format}", out.display())).expect("exported");
        let before = contents(&mut from);
        // The folder may move.
        std::fs::rename(&out, &moved).expect("moved");
        let mut to = Database::memory().expect("opens").connect().expect("connects");
        to.execute_batch(&format!("IMPORT DATABASE '{}'", moved.display())).expect("imported");
        assert_eq!(contents(&mut to), before, "{format}");
        // Sequences go on.
        for connection in [&mut from, &mut to] {
            let id =
                texts(connection, "INSERT INTO parent (name, price) VALUES ('next', 1) RETURNING CAST(id AS TEXT)");
            assert!(id[0].parse::<i64>().expect("a number") > 3, "{id:?}");
            let id = texts(connection, "INSERT INTO \"Odd Name\" (\"a b\") VALUES ('q') RETURNING CAST(n AS TEXT)");
            assert!(id[0].parse::<i64>().expect("a number") > 3, "{id:?}");
            let next = texts(connection, "SELECT CAST(nextval('counter') AS TEXT)");
            assert!(next[0].parse::<i64>().expect("a number") > 5, "{next:?}");
            let error = connection.execute("DELETE FROM z", ()).expect_err("a view");
            assert_eq!(error.kind(), ErrorKind::WrongObject);
        }
    }
}

#[test]
fn an_import_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let mut from = Database::memory().expect("opens").connect().expect("connects");
    from.execute_batch("CREATE TABLE a (n INTEGER); CREATE TABLE b (n INTEGER)").expect("made");
    from.execute_batch(&format!("EXPORT DATABASE '{}'", out.display())).expect("exported");
    std::fs::remove_file(out.join("b.parquet")).expect("removed");
    let mut to = Database::memory().expect("opens").connect().expect("connects");
    let error = to.execute_batch(&format!("IMPORT DATABASE '{}'", out.display())).expect_err("a file is gone");
    assert!(error.message().contains("IMPORT DATABASE: COPY b"), "{error}");
    assert!(texts(&mut to, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'").is_empty());
}
