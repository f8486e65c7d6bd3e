//! Fuzz targets: each takes any bytes, and must return without a panic, a hang or a crash. An error is a fine answer.
//!
//! | target | bytes become |
//! | --- | --- |
//! | [`sql_text`] | a statement, which is prepared and explained |
//! | [`bound_values`] | values for the parameters of prepared statements |
//! | [`file_import`] | a CSV, JSON, Parquet or Arrow file, which is read |
//! | [`column_chunk`] | a chunk of a column file |
//! | [`keyed_row`] | a row and a key of a keyed table |
//! | [`log_record`] | the payload of a record of the log, which is replayed when the database opens |
//! | [`pg_session`] | a session of PostgreSQL's wire protocol, with a server |
//! | [`http_request`] | requests of HTTP, with a server |
//! | [`line_protocol`] | lines that a server stores, over HTTP and over TCP |

pub mod bound_values;
pub mod column_chunk;
pub mod file_import;
pub mod http_request;
pub mod keyed_row;
pub mod line_protocol;
pub mod log_record;
pub mod pg_session;
mod served;
pub mod sql_text;

use rowmill::{Connection, Database};

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, for the test that runs the corpus.
pub const TARGETS: [Target; 9] = [
    ("sql_text", sql_text::run),
    ("bound_values", bound_values::run),
    ("file_import", file_import::run),
    ("column_chunk", column_chunk::run),
    ("keyed_row", keyed_row::run),
    ("log_record", log_record::run),
    ("pg_session", pg_session::run),
    ("http_request", http_request::run),
    ("line_protocol", line_protocol::run),
];

/// Tables that statements can name.
const TABLES: &str = "
    CREATE TABLE hits
        (id BIGINT, at TIMESTAMP, url TEXT, price DECIMAL(10, 2), score DOUBLE, tags TEXT[], seen BOOLEAN);
    INSERT INTO hits VALUES (1, '2024-03-15 10:00:00', 'https://a.example/x', 1.50, 0.25, ['a', 'b'], true),
        (2, NULL, '', NULL, NULL, NULL, NULL), (3, '1969-12-31 23:59:59.999999', 'Ä%_\\', -0.01, -0.0, [], false);
    CREATE TABLE users (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, born DATE, balance DECIMAL(18, 4) DEFAULT 0);
    CREATE INDEX users_name ON users (name);
    INSERT INTO users VALUES (1, 'Ada', '1815-12-10', 1.5), (2, 'Alan', NULL, DEFAULT);
    CREATE VIEW v AS SELECT name, count(*) AS n FROM users GROUP BY name;
";

/// A connection to a new database in memory that has the tables.
fn connection() -> Connection {
    let database = Database::memory().expect("memory");
    let mut connection = database.connect().expect("a connection");
    connection.run(TABLES, |_| Ok(())).expect("the tables");
    // A statement that takes long is refused, not a finding.
    connection.execute("SET statement_timeout_ms = 2000", ()).expect("a setting");
    connection
}
