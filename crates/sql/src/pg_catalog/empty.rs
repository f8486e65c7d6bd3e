//! Tables about things that a database of ours does not have. They have the columns that tools ask for, and no rows.

use super::rows::PgColumn::{NoTexts, Number, Text, Truth};
use super::rows::{PgColumns, PgRows};

/// The tables, with their columns.
const TABLES: &[(&str, PgColumns)] = &[
    (
        "pg_collation",
        &[
            ("oid", Number),
            ("collname", Text),
            ("collnamespace", Number),
            ("collowner", Number),
            ("collprovider", Text),
        ],
    ),
    (
        "pg_depend",
        &[("classid", Number), ("objid", Number), ("refclassid", Number), ("refobjid", Number), ("deptype", Text)],
    ),
    ("pg_description", &[("objoid", Number), ("classoid", Number), ("objsubid", Number), ("description", Text)]),
    ("pg_enum", &[("oid", Number), ("enumtypid", Number), ("enumsortorder", Number), ("enumlabel", Text)]),
    ("pg_event_trigger", &[("oid", Number), ("evtname", Text)]),
    (
        "pg_extension",
        &[("oid", Number), ("extname", Text), ("extowner", Number), ("extnamespace", Number), ("extversion", Text)],
    ),
    ("pg_foreign_data_wrapper", &[("oid", Number), ("fdwname", Text), ("fdwoptions", NoTexts)]),
    ("pg_foreign_server", &[("oid", Number), ("srvname", Text), ("srvfdw", Number), ("srvoptions", NoTexts)]),
    ("pg_foreign_table", &[("ftrelid", Number), ("ftserver", Number), ("ftoptions", NoTexts)]),
    ("pg_inherits", &[("inhrelid", Number), ("inhparent", Number), ("inhseqno", Number), ("inhdetachpending", Truth)]),
    ("pg_language", &[("oid", Number), ("lanname", Text)]),
    ("pg_locks", &[("locktype", Text), ("relation", Number), ("pid", Number), ("mode", Text), ("granted", Truth)]),
    ("pg_matviews", &[("schemaname", Text), ("matviewname", Text), ("matviewowner", Text), ("definition", Text)]),
    (
        "pg_opclass",
        &[("oid", Number), ("opcmethod", Number), ("opcname", Text), ("opcintype", Number), ("opcdefault", Truth)],
    ),
    ("pg_partition_ancestors", &[("relid", Number), ("depth", Number)]),
    ("pg_partitioned_table", &[("partrelid", Number), ("partstrat", Text), ("partnatts", Number)]),
    (
        "pg_policy",
        &[
            ("oid", Number),
            ("polname", Text),
            ("polrelid", Number),
            ("polcmd", Text),
            ("polpermissive", Truth),
            ("polroles", super::rows::PgColumn::Numbers),
            ("polqual", Text),
            ("polwithcheck", Text),
        ],
    ),
    (
        "pg_publication",
        &[("oid", Number), ("pubname", Text), ("puballtables", Truth), ("pubinsert", Truth), ("pubviaroot", Truth)],
    ),
    ("pg_publication_namespace", &[("oid", Number), ("pnpubid", Number), ("pnnspid", Number)]),
    (
        "pg_publication_rel",
        &[
            ("oid", Number),
            ("prpubid", Number),
            ("prrelid", Number),
            ("prqual", Text),
            ("prattrs", super::rows::PgColumn::Numbers),
        ],
    ),
    ("pg_range", &[("rngtypid", Number), ("rngsubtype", Number), ("rngmultitypid", Number), ("rngcollation", Number)]),
    (
        "pg_rewrite",
        &[("oid", Number), ("rulename", Text), ("ev_class", Number), ("ev_type", Text), ("ev_enabled", Text)],
    ),
    (
        "pg_sequence",
        &[
            ("seqrelid", Number),
            ("seqtypid", Number),
            ("seqstart", Number),
            ("seqincrement", Number),
            ("seqmax", Number),
            ("seqmin", Number),
            ("seqcache", Number),
            ("seqcycle", Truth),
        ],
    ),
    ("pg_shdescription", &[("objoid", Number), ("classoid", Number), ("description", Text)]),
    (
        "pg_stat_activity",
        &[
            ("datid", Number),
            ("datname", Text),
            ("pid", Number),
            ("usename", Text),
            ("application_name", Text),
            ("state", Text),
            ("query", Text),
        ],
    ),
    (
        "pg_statistic_ext",
        &[
            ("oid", Number),
            ("stxrelid", Number),
            ("stxname", Text),
            ("stxnamespace", Number),
            ("stxstattarget", Number),
            ("stxkind", Text),
        ],
    ),
    (
        "pg_trigger",
        &[
            ("oid", Number),
            ("tgrelid", Number),
            ("tgparentid", Number),
            ("tgname", Text),
            ("tgenabled", Text),
            ("tgisinternal", Truth),
            ("tgconstraint", Number),
        ],
    ),
];

/// Returns the table with this name.
pub(super) fn table(name: &str) -> Option<PgRows> {
    let (_, columns) = TABLES.iter().find(|(own, _)| *own == name)?;
    Some(PgRows::new(columns))
}
