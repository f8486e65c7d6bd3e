//! Forms of PostgreSQL's tools.

use rowmill_base::ErrorKind;

use crate::support::{small, text};

#[test]
fn the_collation_c_is_the_order_by_bytes() {
    let (_, mut session) = small();
    let numbers = "SELECT id FROM (VALUES (1, 'b'), (2, 'B'), (3, 'é'), (4, 'a')) AS v(id, s) ORDER BY s COLLATE";
    for collation in ["\"C\"", "\"POSIX\"", "pg_catalog.\"default\""] {
        let prepared = session.prepare(&format!("{numbers} {collation}")).unwrap();
        assert_eq!(text(session.run_prepared(&prepared, &[]).unwrap()), ["id", "2", "4", "1", "3"], "{collation}");
    }
    let error = session.prepare(&format!("{numbers} \"de_DE\"")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
