//! `pg_proc`: the functions and aggregates that queries may call.

use rowmill_exec::aggregate;

use super::oids::{PG_CATALOG_OID, ROLE_OID};
use super::rows::PgColumn::{NoTexts, Number, Text, Truth};
use super::rows::{PgColumns, PgRows};

const PG_PROC: PgColumns = &[
    ("oid", Number),
    ("proname", Text),
    ("pronamespace", Number),
    ("proowner", Number),
    ("prolang", Number),
    ("procost", Number),
    ("prorows", Number),
    ("provariadic", Number),
    ("prokind", Text),
    ("prosecdef", Truth),
    ("proleakproof", Truth),
    ("proisstrict", Truth),
    ("proretset", Truth),
    ("provolatile", Text),
    ("proparallel", Text),
    ("pronargs", Number),
    ("prorettype", Number),
    ("proargtypes", Text),
    ("proargnames", NoTexts),
    ("prosrc", Text),
    ("proacl", NoTexts),
];

/// The first number of a function. Numbers follow the order of names, so they may change with a version.
const FIRST_OID: u32 = 20_000;

/// The names of all functions with the letters of their kinds, in order.
fn names() -> Vec<(&'static str, &'static str)> {
    let scalar = rowmill_expr::functions::all().map(|function| (function.name, "f"));
    let mut names: Vec<_> = scalar.chain(aggregate::all().map(|aggregate| (aggregate.name, "a"))).collect();
    names.sort_unstable();
    names
}

pub(super) fn pg_proc() -> PgRows {
    let mut rows = PgRows::new(PG_PROC);
    for (place, (name, kind)) in names().into_iter().enumerate() {
        rows.push([
            ("oid", (FIRST_OID + place as u32).into()),
            ("proname", name.into()),
            ("pronamespace", PG_CATALOG_OID.into()),
            ("proowner", ROLE_OID.into()),
            ("prolang", 12_i64.into()),
            ("procost", 1_i64.into()),
            ("prorows", 0_i64.into()),
            ("provariadic", 0_i64.into()),
            ("prokind", kind.into()),
            ("prosecdef", false.into()),
            ("proleakproof", false.into()),
            ("proisstrict", false.into()),
            ("proretset", false.into()),
            ("provolatile", "v".into()),
            ("proparallel", "s".into()),
            ("pronargs", 0_i64.into()),
            ("prorettype", 0_i64.into()),
            ("prosrc", name.into()),
        ]);
    }
    rows
}
