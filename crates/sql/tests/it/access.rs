//! Roles, rights and who may use files.

use std::sync::Arc;

use rowmill_base::{ErrorKind, Result, Settings};
use rowmill_sql::files::FileFolders;
use rowmill_sql::{Actor, AttachedDatabases, Authority, IdleStatements, Outcome, Session, query_threads};
use rowmill_txn::Engine;

use crate::support::text;

/// A database, whose sessions act for roles by their names.
struct RoleTest {
    engine: Arc<Engine>,
    idle: Arc<IdleStatements>,
    host: Session,
}

impl RoleTest {
    fn new(sql: &str) -> RoleTest {
        let engine = Engine::memory(Settings::default()).unwrap();
        let host = Session::new(Arc::clone(&engine), query_threads()).unwrap();
        let mut test = RoleTest { engine, idle: Arc::default(), host };
        test.host(sql);
        test
    }

    fn host(&mut self, sql: &str) {
        self.host.run_all(sql, |_, _| Ok(())).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    fn session(&self, actor: Actor, folders: FileFolders) -> Session {
        let session = Session::new(Arc::clone(&self.engine), query_threads()).unwrap();
        session.acting_for(Authority { actor, folders }).reusing(&self.idle)
    }

    fn role(&self, name: &str) -> Session {
        let role = self.engine.snapshot().unwrap().catalog().role(name).unwrap().id;
        self.session(Actor::Role(role), FileFolders::only(&[]).unwrap())
    }

    fn guest(&self) -> Session {
        self.session(Actor::Guest, FileFolders::default())
    }
}

fn run(session: &mut Session, sql: &str) -> Result<()> {
    session.run_all(sql, |outcome, _| match outcome {
        Outcome::Rows(mut rows) => rows.try_for_each(|batch| batch.map(|_| ())),
        _ => Ok(()),
    })
}

#[track_caller]
fn allowed(session: &mut Session, sql: &str) {
    run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// Checks that a statement is refused, with each of the words in the message.
#[track_caller]
fn refused(session: &mut Session, sql: &str, words: &[&str]) {
    let error = run(session, sql).expect_err(sql);
    assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege, "{sql}: {error:?}");
    words.iter().for_each(|word| assert!(error.message().contains(word), "{sql}: {word}: {error}"));
}

#[track_caller]
fn value(session: &mut Session, sql: &str) -> String {
    text(session.run_text(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"))).remove(1)
}

const TABLES: &str = "CREATE TABLE t (a BIGINT, b TEXT); INSERT INTO t VALUES (1, 'x'); \
    CREATE TABLE k (id BIGINT PRIMARY KEY, v TEXT, secret TEXT); INSERT INTO k VALUES (1, 'v', 's'); \
    CREATE ROLE ann; CREATE ROLE bob; CREATE ROLE readers;";

#[test]
fn without_a_right_every_access_to_rows_is_refused() {
    let test = RoleTest::new(TABLES);
    let mut ann = test.role("ann");
    for (sql, right) in [
        ("SELECT * FROM t", "SELECT"),
        ("SELECT count(*) FROM t", "SELECT"),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM k)", "SELECT"),
        ("WITH w AS (SELECT * FROM t) SELECT * FROM w", "SELECT"),
        ("SELECT v FROM k WHERE id = 1", "SELECT"),
        ("SELECT v FROM k WHERE id = 1", "SELECT"),
        ("EXPLAIN SELECT * FROM k", "SELECT"),
        ("EXPLAIN ANALYZE SELECT * FROM k", "SELECT"),
        ("SELECT * FROM rowmill_storage('t')", "SELECT"),
        ("INSERT INTO t VALUES (1, 'y')", "INSERT"),
        ("INSERT INTO k VALUES (2, 'y', 'z')", "INSERT"),
        ("UPDATE k SET v = 'w'", "UPDATE"),
        ("DELETE FROM k", "DELETE"),
        ("TRUNCATE t", "TRUNCATE"),
        ("MERGE INTO k USING (SELECT 1 AS id) s ON k.id = s.id WHEN MATCHED THEN DELETE", "k"),
    ] {
        refused(&mut ann, sql, &["role \"ann\"", right]);
    }
    allowed(&mut ann, "SELECT 1");
    allowed(&mut ann, "SHOW TABLES");
}

#[test]
fn rights_allow_what_they_name_and_no_more() {
    let mut test = RoleTest::new(TABLES);
    test.host("GRANT SELECT, INSERT ON t TO ann");
    let mut ann = test.role("ann");
    allowed(&mut ann, "SELECT * FROM t");
    allowed(&mut ann, "INSERT INTO t SELECT a + 1, b FROM t");
    refused(&mut ann, "UPDATE t SET a = 2", &["UPDATE on table \"t\""]);
    refused(&mut ann, "DELETE FROM t", &["DELETE on table \"t\""]);
    test.host("REVOKE INSERT ON t FROM ann");
    refused(&mut ann, "INSERT INTO t VALUES (1, 'x')", &["INSERT"]);
    allowed(&mut ann, "SELECT * FROM t");
}

#[test]
fn a_program_and_a_cached_plan_end_with_the_right() {
    let mut test = RoleTest::new(TABLES);
    test.host("GRANT SELECT, UPDATE ON k TO ann");
    let mut ann = test.role("ann");
    for _ in 0..4 {
        allowed(&mut ann, "SELECT v FROM k WHERE id = 1");
        allowed(&mut ann, "UPDATE k SET v = 'w' WHERE id = 1");
        allowed(&mut ann, "SELECT count(*) FROM k");
    }
    test.host("REVOKE SELECT ON k FROM ann");
    refused(&mut ann, "SELECT v FROM k WHERE id = 1", &["SELECT"]);
    refused(&mut ann, "SELECT count(*) FROM k", &["SELECT"]);
    // The statements of a closed session go to no other role.
    test.host("GRANT SELECT ON k TO ann");
    allowed(&mut ann, "SELECT v FROM k WHERE id = 1");
    drop(ann);
    refused(&mut test.role("bob"), "SELECT v FROM k WHERE id = 1", &["bob"]);
}

#[test]
fn rights_on_columns_hold_for_these_columns() {
    let mut test = RoleTest::new(TABLES);
    test.host("GRANT SELECT (id, v), UPDATE (v) ON k TO ann");
    let mut ann = test.role("ann");
    for sql in [
        "SELECT id, v FROM k WHERE v <> 'q' ORDER BY id",
        "SELECT count(*) FROM k",
        "UPDATE k SET v = 'n' WHERE id = 1",
        "SELECT x.v FROM k AS x JOIN k AS y USING (id)",
    ] {
        allowed(&mut ann, sql);
    }
    for sql in [
        "SELECT * FROM k",
        "SELECT id FROM k WHERE secret = 's'",
        "SELECT id FROM k ORDER BY secret",
        "SELECT max(secret) FROM k",
        "SELECT id FROM (SELECT DISTINCT id, secret FROM k) q",
        "SELECT id FROM k UNION SELECT length(secret) FROM k",
        "SELECT (SELECT secret FROM k LIMIT 1)",
        "SELECT id FROM k NATURAL JOIN (SELECT 's' AS secret) q",
        "UPDATE k SET secret = 'n' WHERE id = 1",
        "UPDATE k SET v = secret",
        "UPDATE k SET v = 'x' WHERE id = 1 RETURNING *",
        "INSERT INTO k (id, v) VALUES (3, 'a') ON CONFLICT (id) DO UPDATE SET v = k.secret",
    ] {
        refused(&mut ann, sql, &["ann"]);
    }
}

#[test]
fn a_view_reads_with_the_rights_of_its_owner() {
    let mut test = RoleTest::new(TABLES);
    test.host("CREATE VIEW v AS SELECT id, v FROM k; GRANT SELECT ON v TO ann");
    let mut ann = test.role("ann");
    allowed(&mut ann, "SELECT * FROM v");
    refused(&mut ann, "SELECT * FROM k", &["k"]);
    refused(&mut test.role("bob"), "SELECT * FROM v", &["SELECT on view \"v\""]);
    // An owner that may not read the table cannot give others what it does not have.
    test.host("ALTER VIEW v OWNER TO bob");
    refused(&mut ann, "SELECT * FROM v", &["view \"v\"", "bob", "SELECT on table \"k\""]);
    test.host("GRANT CREATE ON SCHEMA main TO ann");
    refused(&mut ann, "CREATE VIEW mine AS SELECT * FROM k", &["k"]);
}

#[test]
fn definitions_belong_to_the_role_that_makes_them() {
    let mut test = RoleTest::new(TABLES);
    let mut ann = test.role("ann");
    refused(&mut ann, "CREATE TABLE mine (a BIGINT)", &["CREATE on schema \"main\""]);
    test.host("GRANT CREATE ON SCHEMA main TO ann, bob");
    allowed(&mut ann, "CREATE TABLE mine (id BIGINT PRIMARY KEY); INSERT INTO mine VALUES (1)");
    allowed(&mut ann, "ALTER TABLE mine ADD COLUMN b TEXT; CREATE INDEX by_b ON mine (b)");
    assert_eq!(value(&mut ann, "SELECT tableowner FROM pg_tables WHERE tablename = 'mine'"), "ann");
    let mut bob = test.role("bob");
    for sql in [
        "ALTER TABLE mine ADD COLUMN c TEXT",
        "DROP TABLE mine",
        "DROP INDEX by_b",
        "CREATE INDEX by_id ON mine (id)",
        "CREATE OR REPLACE TABLE mine (a BIGINT)",
        "ANALYZE mine",
        "VACUUM ANALYZE mine",
        "GRANT SELECT ON mine TO bob",
        "ALTER TABLE mine OWNER TO bob",
    ] {
        refused(&mut bob, sql, &["bob"]);
    }
    refused(&mut bob, "CREATE TABLE child (id BIGINT PRIMARY KEY REFERENCES mine)", &["REFERENCES on table \"mine\""]);
    refused(&mut ann, "ALTER TABLE mine OWNER TO bob", &["superuser"]);
    allowed(&mut ann, "GRANT ALL ON mine TO bob");
    allowed(&mut bob, "SELECT * FROM mine");
    assert!(run(&mut test.host, "DROP ROLE ann").is_err());
    allowed(&mut ann, "DROP TABLE mine");
}

#[test]
fn only_superusers_change_roles_and_the_whole_database() {
    let mut test = RoleTest::new(TABLES);
    let mut ann = test.role("ann");
    for sql in [
        "CREATE ROLE eve",
        "CREATE USER eve PASSWORD 'x' SUPERUSER",
        "ALTER ROLE bob PASSWORD 'x'",
        "ALTER ROLE ann SUPERUSER",
        "DROP ROLE bob",
        "GRANT readers TO ann",
        "CREATE TOKEN t FOR ann",
        "CREATE SCHEMA s",
        "CHECKPOINT",
        "VACUUM",
        "CHECK DATABASE",
        "BACKUP DATABASE TO '/tmp/x'",
        "ANALYZE",
        "SET memory_limit = '1GB'",
        "SELECT * FROM rowmill_memory()",
    ] {
        refused(&mut ann, sql, &["superuser"]);
    }
    allowed(&mut ann, "ALTER ROLE ann PASSWORD 'mine'");
    allowed(&mut ann, "SET threads = 1");
    test.host("ALTER ROLE ann SUPERUSER");
    allowed(&mut ann, "CREATE ROLE eve; SELECT * FROM k; CHECKPOINT");
}

#[test]
fn members_and_schemas_pass_rights_on() {
    let mut test = RoleTest::new(TABLES);
    test.host("CREATE SCHEMA s; CREATE TABLE s.one (a BIGINT); CREATE SEQUENCE s.seq");
    test.host("GRANT SELECT ON ALL TABLES IN SCHEMA s TO readers; GRANT readers TO ann");
    let mut ann = test.role("ann");
    refused(&mut ann, "SELECT * FROM s.one", &["USAGE on schema \"s\""]);
    test.host("GRANT USAGE ON SCHEMA s TO readers");
    allowed(&mut ann, "SELECT * FROM s.one");
    refused(&mut ann, "SELECT nextval('s.seq')", &["sequence"]);
    test.host("GRANT USAGE ON SEQUENCE s.seq TO PUBLIC");
    allowed(&mut ann, "SELECT nextval('s.seq')");
    refused(&mut ann, "SELECT setval('s.seq', 1)", &["UPDATE"]);
    // Rights on all tables are those of this moment; rights on the schema hold for later tables too.
    test.host("CREATE TABLE s.two (a BIGINT)");
    refused(&mut ann, "SELECT * FROM s.two", &["SELECT"]);
    test.host("GRANT SELECT ON SCHEMA s TO readers");
    allowed(&mut ann, "SELECT * FROM s.two");
    test.host("REVOKE readers FROM ann");
    refused(&mut ann, "SELECT * FROM s.one", &["ann"]);
    assert!(run(&mut test.host, "GRANT ann TO readers; GRANT readers TO ann").is_err());
}

#[test]
fn guests_may_do_everything_until_there_are_users() {
    let mut test = RoleTest::new(TABLES);
    let mut guest = test.guest();
    allowed(&mut guest, "SELECT * FROM t; CREATE TABLE g (a BIGINT)");
    allowed(&mut guest, "BEGIN; CREATE USER root PASSWORD 'x' SUPERUSER; GRANT SELECT ON t TO ann; COMMIT");
    let error = run(&mut guest, "SELECT * FROM t").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidAuthorization);
    let mut root = test.role("root");
    allowed(&mut root, "SELECT * FROM t");
    test.host("DROP ROLE root");
    assert_eq!(run(&mut root, "SELECT 1").unwrap_err().kind(), ErrorKind::InvalidAuthorization);
}

#[test]
fn files_are_for_superusers_or_in_given_folders() {
    let mut test = RoleTest::new(TABLES);
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("in");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("a.csv"), "a,b\n1,x\n").unwrap();
    std::fs::write(inside.join("a.csv"), "a,b\n1,x\n").unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    test.host("GRANT SELECT, INSERT ON t TO ann");
    let statements = |file: &str| {
        [format!("SELECT * FROM '{file}'"), format!("COPY t FROM '{file}'"), format!("EXPLAIN COPY t FROM '{file}'")]
    };
    let mut ann = test.role("ann");
    for sql in statements(&path("a.csv")).iter().chain(&[format!("COPY t TO '{}'", path("in/b.csv"))]) {
        refused(&mut ann, sql, &["folder"]);
    }
    let role = test.engine.snapshot().unwrap().catalog().role("ann").unwrap().id;
    let mut ann = test.session(Actor::Role(role), FileFolders::only(&[inside]).unwrap());
    for sql in statements(&path("in/a.csv")).iter().chain(&[format!("COPY t TO '{}'", path("in/b.csv"))]) {
        allowed(&mut ann, sql);
    }
    for sql in statements(&path("in/../a.csv")).iter().chain(&[format!("COPY t TO '{}'", path("in/../b.csv"))]) {
        refused(&mut ann, sql, &["folder"]);
    }
    test.host("ALTER ROLE ann SUPERUSER");
    allowed(&mut ann, &format!("SELECT * FROM '{}'", path("a.csv")));
}

#[test]
fn functions_and_tables_about_roles_tell_the_truth() {
    let mut test = RoleTest::new(TABLES);
    test.host("GRANT SELECT ON t TO readers; GRANT readers TO ann; GRANT UPDATE (v) ON k TO ann");
    let mut ann = test.role("ann");
    for (sql, wanted) in [
        ("current_user", "ann"),
        ("has_table_privilege('t', 'SELECT')", "true"),
        ("has_table_privilege('t', 'INSERT')", "false"),
        ("has_table_privilege('t', 'INSERT, SELECT')", "true"),
        ("has_table_privilege('bob', 't', 'SELECT')", "false"),
        ("has_column_privilege('k', 'v', 'UPDATE')", "true"),
        ("has_column_privilege('k', 'secret', 'UPDATE')", "false"),
        ("has_any_column_privilege('k', 'UPDATE')", "true"),
        ("has_schema_privilege('main', 'CREATE')", "false"),
        ("pg_has_role('readers', 'MEMBER')", "true"),
        ("pg_has_role('bob', 'readers', 'MEMBER')", "false"),
        ("(SELECT count(*) FROM pg_auth_members)", "1"),
        ("(SELECT rolcanlogin FROM pg_roles WHERE rolname = 'ann')", "false"),
    ] {
        assert_eq!(value(&mut ann, &format!("SELECT {sql}")), wanted, "{sql}");
    }
    assert_eq!(value(&mut test.host, "SELECT current_user"), "rowmill");
    assert_eq!(value(&mut test.host, "SELECT has_table_privilege('t', 'DELETE')"), "true");
}

#[test]
fn roles_and_rights_survive_a_crash_and_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let engine = Engine::open(folder.path(), rowmill_txn::OpenOptions::default()).unwrap();
        Session::new(engine, query_threads()).unwrap()
    };
    let mut session = open();
    allowed(&mut session, TABLES);
    allowed(&mut session, "CREATE USER root PASSWORD 'x' SUPERUSER VALID UNTIL '2030-01-01'; GRANT readers TO ann");
    allowed(&mut session, "GRANT SELECT ON t TO readers; CHECKPOINT; GRANT UPDATE (v) ON k TO ann; DROP ROLE bob");
    drop(session);
    let mut session = open();
    for sql in [
        "has_table_privilege('ann', 't', 'SELECT')",
        "has_column_privilege('ann', 'k', 'v', 'UPDATE')",
        "NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'bob')",
        "EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'root' AND rolsuper AND rolvaliduntil LIKE '2030%')",
    ] {
        assert_eq!(value(&mut session, &format!("SELECT {sql}")), "true", "{sql}");
    }
    let catalog = session.engine().snapshot().unwrap();
    let verifier = catalog.catalog().role("root").unwrap().verifier.clone().unwrap();
    assert!(verifier.starts_with("SCRAM-SHA-256$4096:"), "{verifier}");
    allowed(&mut session, "DROP TABLE t; CHECK DATABASE");
}

#[test]
fn tokens_are_shown_once_and_stored_as_hashes() {
    let mut test = RoleTest::new("CREATE USER app PASSWORD 'x'");
    let token = value(&mut test.host, "CREATE TOKEN ci FOR app VALID UNTIL '2030-01-01'");
    assert!(token.starts_with("rmt_") && token.len() > 40, "{token}");
    let snapshot = test.engine.snapshot().unwrap();
    let (role, found) = snapshot.catalog().role_of_token(&rowmill_sql::token_hash(&token)).unwrap();
    assert_eq!((role.name.as_str(), found.valid_until_us), ("app", Some(1_893_456_000_000_000)));
    assert!(run(&mut test.host, "CREATE TOKEN ci FOR app").is_err());
    test.host("DROP TOKEN ci FOR app; DROP TOKEN IF EXISTS ci FOR app; CREATE TOKEN ci FOR app");
}

#[test]
fn wrong_definitions_of_roles_are_refused() {
    let mut test = RoleTest::new(TABLES);
    for sql in [
        "CREATE ROLE ann",
        "CREATE ROLE public",
        "CREATE ROLE pg_x",
        "CREATE ROLE x PASSWORD ''",
        "CREATE ROLE x VALID UNTIL 'soon'",
        "ALTER ROLE missing LOGIN",
        "DROP ROLE missing",
        "GRANT SELECT ON t TO missing",
        "GRANT SELECT ON missing TO ann",
        "GRANT USAGE ON t TO ann",
        "GRANT DELETE (a) ON t TO ann",
        "GRANT SELECT (missing) ON t TO ann",
        "CREATE TOKEN x FOR ann",
    ] {
        assert!(run(&mut test.host, sql).is_err(), "{sql}");
    }
}

#[test]
fn only_superusers_see_the_names_in_attached_databases() {
    let folder = tempfile::tempdir().unwrap();
    let test = RoleTest::new(TABLES);
    let attached = Arc::new(AttachedDatabases::default());
    let host = Session::new(Arc::clone(&test.engine), query_threads()).unwrap();
    let mut host = host.sharing(&attached);
    allowed(&mut host, &format!("ATTACH '{}' AS other", folder.path().join("other").display()));
    allowed(&mut host, "CREATE TABLE other.hidden (a INTEGER); CREATE VIEW other.seen AS SELECT a FROM hidden");
    let mut ann = test.role("ann").sharing(&attached);
    for (table, all) in [("tables", "2"), ("views", "1"), ("columns", "2")] {
        let count = format!(
            "SELECT count(*) FROM information_schema.{table} WHERE table_catalog = 'other' AND table_schema = 'main'"
        );
        assert_eq!(value(&mut host, &count), all, "{table}");
        assert_eq!(value(&mut ann, &count), "0", "{table}");
    }
    let own = "SELECT count(*) FROM information_schema.tables WHERE table_name = 't'";
    assert_eq!(value(&mut ann, own), "1");
}
