//! Rules that a transaction adds to a table while others write rows that it has not checked.

use rowmill::{Database, ErrorKind, Result};

/// A columnar table and a keyed one.
const TABLES: [&str; 2] =
    ["CREATE TABLE t (id INTEGER, a INTEGER)", "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)"];

/// Statements that forbid values in `t`.
const RULES: [&str; 2] =
    ["ALTER TABLE t ALTER COLUMN a SET NOT NULL", "ALTER TABLE t ADD CONSTRAINT c CHECK (a IS NOT NULL)"];

#[test]
fn a_new_rule_loses_to_rows_that_it_has_not_checked() -> Result<()> {
    for table in TABLES {
        for rule in RULES {
            let database = Database::memory()?;
            let (mut one, mut two) = (database.connect()?, database.connect()?);
            one.execute_batch(&format!("{table}; INSERT INTO t VALUES (1, 1)"))?;
            one.execute_batch(&format!("BEGIN; {rule}"))?;
            two.execute_batch("INSERT INTO t VALUES (2, NULL)")?;
            let error = one.execute_batch("COMMIT").expect_err("a row that was not checked");
            assert_eq!(error.kind(), ErrorKind::SerializationFailure, "{table}, {rule}");
            two.execute_batch("DELETE FROM t WHERE a IS NULL")?;
            one.execute_batch(rule)?;
            two.execute_batch("INSERT INTO t VALUES (3, NULL)").expect_err("the rule holds");
        }
    }
    Ok(())
}

#[test]
fn a_new_rule_and_rows_of_another_table_do_not_meet() -> Result<()> {
    for table in TABLES {
        let database = Database::memory()?;
        let (mut one, mut two) = (database.connect()?, database.connect()?);
        one.execute_batch(&format!("{table}; CREATE TABLE other (a INTEGER); BEGIN"))?;
        one.execute_batch("ALTER TABLE t ALTER COLUMN a SET NOT NULL")?;
        two.execute_batch("INSERT INTO other VALUES (NULL)")?;
        one.execute_batch("COMMIT")?;
    }
    Ok(())
}
