//! Backups through the server while its clients write.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rowmill::Database;
use rowmill_server::ServerLimits;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use crate::http::ask;
use crate::support::{TestServer, runtime};

async fn connect(server: &TestServer, user: &str) -> Client {
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.address().port()).user(user).password("x");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[test]
fn a_backup_is_one_state_while_others_write_and_is_restored_through_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let database = Database::open(path("db")).unwrap();
    let tables = "CREATE TABLE events (n BIGINT); CREATE TABLE counts (id BIGINT PRIMARY KEY, n BIGINT);
        INSERT INTO counts VALUES (1, 0); CREATE USER root PASSWORD 'x' SUPERUSER; CREATE USER ann PASSWORD 'x'";
    database.connect().unwrap().execute_batch(tables).unwrap();
    let server = TestServer::over(database, ServerLimits::default());
    let is_done = AtomicBool::new(false);
    let written = runtime().block_on(async {
        let (root, writer, ann) =
            tokio::join!(connect(&server, "root"), connect(&server, "root"), connect(&server, "ann"));
        let write = async {
            let mut written = 0;
            while !is_done.load(Ordering::Relaxed) {
                let both = "BEGIN; INSERT INTO events VALUES (1); UPDATE counts SET n = n + 1 WHERE id = 1; COMMIT";
                writer.batch_execute(both).await.unwrap();
                written += 1;
            }
            written
        };
        let back_up = async {
            for number in 0..3 {
                root.batch_execute(&format!("BACKUP DATABASE TO '{}'", path(&format!("backup{number}"))))
                    .await
                    .unwrap();
            }
            for sql in ["BACKUP DATABASE TO '/tmp/any'", "RESTORE DATABASE FROM '/tmp/any' TO '/tmp/other'"] {
                let error = ann.batch_execute(sql).await.unwrap_err();
                assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}");
            }
            let (from, to) = (path("backup2"), path("restored"));
            root.batch_execute(&format!("RESTORE DATABASE FROM '{from}' TO '{to}'")).await.unwrap();
            let again = root.batch_execute(&format!("BACKUP DATABASE TO '{from}'")).await;
            assert!(again.is_err(), "a backup goes to a new folder");
            is_done.store(true, Ordering::Relaxed);
        };
        tokio::join!(write, back_up).0
    });
    let restored = Database::open(path("restored")).unwrap();
    let mut connection = restored.connect().unwrap();
    let rows =
        connection.query("SELECT (SELECT count(*) FROM events), (SELECT n FROM counts)").unwrap().rows().unwrap();
    let (events, count) = (rows[0].get::<i64>(0).unwrap(), rows[0].get::<i64>(1).unwrap());
    assert!(events == count && (0..=written).contains(&events), "{events} rows, counted {count}, written {written}");
}

#[test]
fn a_backup_over_http_is_a_tar_file_that_can_be_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let database = Database::open(path("db")).unwrap();
    let tables = "CREATE TABLE t (a BIGINT); INSERT INTO t SELECT * FROM range(100000);
        CREATE USER root PASSWORD 'x' SUPERUSER; CREATE USER ann PASSWORD 'x'";
    database.connect().unwrap().execute_batch(tables).unwrap();
    let server = TestServer::over(database, ServerLimits::default());
    let of = |login: &str| ask(&server, "GET", "/backup", &[("Authorization", login)], b"");
    let refused = of("Basic YW5uOng=");
    assert_eq!((refused.status, refused.json()["sqlstate"].as_str()), (403, Some("42501")));
    let answer = of("Basic cm9vdDp4");
    assert_eq!(answer.status, 200, "{}", answer.text());
    std::fs::write(path("backup.tar"), &answer.body).unwrap();
    std::fs::create_dir(path("unpacked")).unwrap();
    let tar = Command::new("tar").arg("xf").arg(path("backup.tar")).arg("-C").arg(path("unpacked")).output().unwrap();
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    let (from, to) = (path("unpacked"), path("restored"));
    let restore = format!("RESTORE DATABASE FROM '{}' TO '{}'", from.display(), to.display());
    Database::memory().unwrap().connect().unwrap().execute_batch(&restore).unwrap();
    let rows = Database::open(to)
        .unwrap()
        .connect()
        .unwrap()
        .query("SELECT CAST(sum(a) AS BIGINT) FROM t")
        .unwrap()
        .rows()
        .unwrap();
    assert_eq!(rows[0].get::<i64>(0).unwrap(), 4_999_950_000);
    // The folder from which it was sent is gone.
    let left = || {
        std::fs::read_dir(folder.path())
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with('.'))
    };
    let started = Instant::now();
    while left() {
        assert!(started.elapsed() < Duration::from_secs(10), "the folder is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}
