//! A statement as text: the lexer, the parser, the binder, the optimizer and the lowering.

use std::cell::RefCell;

use rowmill::Connection;

/// Statements that EXPLAIN plans without running them.
const PLANNED: [&str; 7] = ["select", "with", "values", "insert", "update", "delete", "merge"];

thread_local! {
    static CONNECTION: RefCell<Connection> = RefCell::new(crate::connection());
}

/// Prepares the text, and explains it if that does not run it.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    CONNECTION.with_borrow_mut(|connection| {
        let is_prepared = connection.prepare(text).is_ok();
        let start = text.trim_start().to_ascii_lowercase();
        let is_planned = PLANNED.iter().any(|word| start.starts_with(word)) && !text.contains(['$', '?']);
        if is_prepared && is_planned {
            // The text was bound without an error, so that only a query of many statements may fail here.
            let _ = connection.query(&format!("EXPLAIN {text}")).map(|rows| rows.count());
        }
    });
}
