//! Runs the SQL suite with each code path of groupings and joins forced in turn, and with all hashes equal. A forced
//! path applies to a whole process, so each run has a process of its own.

use std::process::Command;

use rowmill_exec::forced::{DistinctWay, Forced, GroupWay, JoinWay, force};

use crate::hostile_settings::{Hostility, plain};
use crate::sql_suite::run_half;

/// The environment variable with the index of the forced path, for the child process.
const WAY: &str = "ROWMILL_FORCED_WAY";

fn ways() -> Vec<Forced> {
    let plain = Forced::default();
    let small = Forced { rows_per_partition: Some(2), ..plain };
    let way = |group, distinct, join, others| Forced {
        group: Some(group),
        distinct: Some(distinct),
        join: Some(join),
        ..others
    };
    vec![
        Forced { equal_hashes: true, distinct: Some(DistinctWay::Ranges), spills: true, late_sorts: true, ..small },
        Forced { slices: true, ..way(GroupWay::Table, DistinctWay::Ranges, JoinWay::Direct, plain) },
        Forced { spills: true, ..way(GroupWay::SmallTable, DistinctWay::Steps, JoinWay::Ranked, small) },
        Forced {
            slices: true,
            late_sorts: true,
            ..way(GroupWay::PastTable, DistinctWay::Group, JoinWay::Hashed, small)
        },
        Forced { equal_hashes: true, ..way(GroupWay::PastTable, DistinctWay::Steps, JoinWay::Hashed, plain) },
    ]
}

#[test]
fn the_suite_passes_in_every_way() {
    let program = std::env::current_exe().expect("the test's own path");
    for (number, forced) in ways().into_iter().enumerate() {
        let output = Command::new(&program)
            .args(["--exact", "forced_ways::child", "--nocapture"])
            .env(WAY, number.to_string())
            .output()
            .expect("the test must be able to start itself");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{forced:?}: {}\n{text}\n{errors}", output.status);
    }
}

/// The process with the forced path. It does nothing in an ordinary run of the tests.
#[test]
fn child() {
    let Some(number) = std::env::var(WAY).ok().and_then(|number| number.parse::<usize>().ok()) else { return };
    force(ways()[number]);
    let blocks = Hostility { rows_per_block: 512, small_batches: true, ..plain() };
    // Tables need several blocks to have slices of time.
    let tiny = Hostility { rows_per_block: 3, ..plain() };
    let layouts = [plain(), blocks].into_iter().chain(ways()[number].slices.then_some(tiny));
    // A file meets each way under some of the layouts. The other files meet it under the others.
    let failures =
        layouts.enumerate().flat_map(|(place, layout)| run_half(&layout, !(number + place).is_multiple_of(2)));
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
