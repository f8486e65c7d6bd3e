//! Checks that a read-only transaction sees one state. The two statements of a pair must agree in every committed
//! state. We run all first statements and then all second ones, so that commits happen between the two of a pair.

use rowmill_base::Result;

use super::client::Reader;

/// Two statements that must have the same answer.
struct Pair {
    /// A description of the answer.
    about: &'static str,
    first: &'static str,
    second: &'static str,
}

/// The pairs follow conditions 1 to 5 and 8 of clause 3.3.2. The table `history` has no key, the other tables have one,
/// because both kinds of tables must show the same commits.
const PAIRS: [Pair; 5] = [
    Pair {
        about: "amounts received by warehouses and by their districts",
        first: "SELECT w_id, w_ytd FROM warehouse ORDER BY w_id",
        second: "SELECT d_w_id, SUM(d_ytd) FROM district GROUP BY d_w_id ORDER BY d_w_id",
    },
    Pair {
        about: "amounts paid by customers and received by warehouses",
        first: "SELECT h_w_id, SUM(h_amount) FROM history GROUP BY h_w_id ORDER BY h_w_id",
        second: "SELECT w_id, w_ytd FROM warehouse ORDER BY w_id",
    },
    Pair {
        about: "the last order of districts",
        first: "SELECT d_w_id, d_id, d_next_o_id - 1 FROM district ORDER BY d_w_id, d_id",
        second: "SELECT o_w_id, o_d_id, MAX(o_id) FROM orders GROUP BY o_w_id, o_d_id ORDER BY o_w_id, o_d_id",
    },
    Pair {
        about: "the lines that orders have",
        first: "SELECT o_w_id, o_d_id, SUM(o_ol_cnt) FROM orders GROUP BY o_w_id, o_d_id ORDER BY o_w_id, o_d_id",
        second: "SELECT ol_w_id, ol_d_id, COUNT(*) FROM order_line GROUP BY ol_w_id, ol_d_id ORDER BY ol_w_id, ol_d_id",
    },
    Pair {
        about: "orders that wait for delivery",
        first: "SELECT no_w_id, no_d_id, COUNT(*) FROM new_order GROUP BY no_w_id, no_d_id ORDER BY no_w_id, no_d_id",
        second: "SELECT o_w_id, o_d_id, COUNT(*) FROM orders WHERE o_carrier_id IS NULL GROUP BY o_w_id, o_d_id \
                 ORDER BY o_w_id, o_d_id",
    },
];

/// Returns the differences within one transaction. The list is empty if the transaction sees one state.
pub fn differences(reader: &mut dyn Reader) -> Result<Vec<String>> {
    reader.begin()?;
    let found = compare(reader);
    reader.end()?;
    found
}

fn compare(reader: &mut dyn Reader) -> Result<Vec<String>> {
    let mut first = Vec::new();
    for pair in &PAIRS {
        first.push(reader.rows(pair.first)?);
    }
    let mut found = Vec::new();
    for (pair, first) in PAIRS.iter().zip(first) {
        let second = reader.rows(pair.second)?;
        let same = first.len() == second.len();
        let row = first.iter().zip(&second).find(|(first, second)| first != second);
        match row {
            Some((first, second)) => found.push(format!("{}: first {first}, then {second}", pair.about)),
            None if same => {}
            None => found.push(format!("{}: first {} rows, then {}", pair.about, first.len(), second.len())),
        }
    }
    Ok(found)
}
