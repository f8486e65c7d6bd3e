//! Queries that tools send to learn about a database, as they send them, and the rows that they need.

use crate::catalog::{TABLES, rows};
use crate::support::with_client;

/// Checks that queries give these rows, values separated by bars.
fn answers(pairs: &'static [(&'static str, &'static [&'static str])]) {
    with_client(|client| async move {
        client.batch_execute(TABLES).await.unwrap();
        client.batch_execute("COMMENT ON TABLE child IS 'kids'; COMMENT ON COLUMN child.n IS 'price'").await.unwrap();
        for (sql, expected) in pairs {
            assert_eq!(rows(&client, sql).await, *expected, "{sql}");
        }
    });
}

/// Npgsql, and so Power BI, reads all types when it connects.
#[test]
fn npgsql_loads_types() {
    const TYPES: &str = "
        SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid
        FROM (
            SELECT
                typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind,
                elemtyp.oid AS elemtypoid, elemtyp.typname AS elemtypname, elemcls.relkind AS elemrelkind,
                CASE WHEN elemproc.proname='array_recv' THEN 'a' ELSE elemtyp.typtype END AS elemtyptype
            FROM (
                SELECT typ.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem AS elemoid,
                    CASE WHEN proc.proname='array_recv' THEN 'a' ELSE typ.typtype END AS typtype,
                    CASE
                        WHEN proc.proname='array_recv' THEN typ.typelem
                        WHEN typ.typtype='r' THEN rngsubtype
                        WHEN typ.typtype='m' THEN (SELECT rngtypid FROM pg_range WHERE rngmultitypid = typ.oid)
                        WHEN typ.typtype='d' THEN typ.typbasetype
                    END AS elemtypoid
                FROM pg_type AS typ
                LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid)
                LEFT JOIN pg_proc AS proc ON proc.oid = typ.typreceive
                LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)
            ) AS typ
            LEFT JOIN pg_type AS elemtyp ON elemtyp.oid = elemtypoid
            LEFT JOIN pg_class AS elemcls ON (elemcls.oid = elemtyp.typrelid)
            LEFT JOIN pg_proc AS elemproc ON elemproc.oid = elemtyp.typreceive
        ) AS t
        JOIN pg_namespace AS ns ON (ns.oid = typnamespace)
        WHERE
            typtype IN ('b', 'r', 'm', 'e', 'd') OR
            (typtype = 'c' AND relkind='c') OR
            (typtype = 'p' AND typname IN ('record', 'void', 'unknown')) OR
            (typtype = 'a' AND (
                elemtyptype IN ('b', 'r', 'm', 'e', 'd') OR
                (elemtyptype = 'p' AND elemtypname IN ('record', 'void')) OR
                (elemtyptype = 'c' AND elemrelkind='c')
            ))
        ORDER BY CASE
               WHEN typtype IN ('b', 'e', 'p') THEN 0
               WHEN typtype = 'c' THEN 1
               WHEN typtype = 'r' THEN 2
               WHEN typtype = 'm' THEN 3
               WHEN typtype = 'd' AND elemtyptype <> 'a' THEN 4
               WHEN typtype = 'a' THEN 5
               WHEN typtype = 'd' AND elemtyptype = 'a' THEN 6
        END";
    with_client(|client| async move {
        let types = rows(&client, TYPES).await;
        for expected in
            ["pg_catalog|23|int4|b|f|NULL", "pg_catalog|1007|_int4|a|f|23", "pg_catalog|1043|varchar|b|f|NULL"]
        {
            assert!(types.iter().any(|row| row == expected), "{expected}: {types:?}");
        }
    });
}

#[test]
fn dbeaver_lists_objects() {
    answers(&[
        (
            "SELECT c.relname, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr
                FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d
                ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
                WHERE c.relnamespace=2200 AND c.relkind not in ('i','I','c','S') ORDER BY 1",
            &["child|kids|NULL", "events|NULL|NULL", "parent|NULL|NULL", "v|NULL|NULL"],
        ),
        (
            "SELECT a.attname, a.atttypid, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,
                dsc.description
                FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
                LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
                LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
                LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i'
                and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid
                WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid='child'::regclass
                ORDER BY a.attnum",
            &["id|20|NULL|NULL", "p|20|NULL|NULL", "n|1700|1.5|price", "tags|1009|NULL|NULL"],
        ),
        (
            "SELECT i.indkey as keys, c.relname, tc.relname as tabrelname, i.indisunique FROM pg_catalog.pg_index i
                INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid
                INNER JOIN pg_catalog.pg_class tc ON tc.oid=i.indrelid
                LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid
                WHERE i.indrelid='child'::regclass AND c.relname IN ('by_n', 'child_pkey') ORDER BY 2",
            &["3 2|by_n|child|f", "1|child_pkey|child|t"],
        ),
        (
            "select string_agg(word, ',' ORDER BY word) from pg_catalog.pg_get_keywords()
                where word <> ALL ('{select,from}'::text[]) AND catcode = 'R' AND word LIKE 'w%'",
            &["when,where,window,with"],
        ),
    ]);
}

#[test]
fn metabase_and_grafana_list_tables_and_columns() {
    answers(&[
        (
            "SELECT c.column_name, c.udt_name, c.ordinal_position - 1, pk.column_name IS NOT NULL AS \"pk?\",
                col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text))
                AS regclass) AS oid), c.ordinal_position) AS \"field-comment\"
                FROM information_schema.columns AS c LEFT JOIN (
                    SELECT tc.table_schema, tc.table_name, kc.column_name
                    FROM information_schema.table_constraints AS tc
                    INNER JOIN information_schema.key_column_usage AS kc ON tc.constraint_name = kc.constraint_name
                    AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name
                    WHERE tc.constraint_type = 'PRIMARY KEY') AS pk
                ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
                WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_name = 'child'
                ORDER BY 3",
            &["id|int8|0|t|NULL", "p|int8|1|f|NULL", "n|numeric|2|f|price", "tags|_text|3|f|NULL"],
        ),
        (
            "SELECT n.nspname, c.relname, d.description, stat.n_live_tup FROM pg_catalog.pg_class AS c
                INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid
                LEFT JOIN pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0
                AND d.classoid = 'pg_class'::regclass
                LEFT JOIN pg_stat_user_tables AS stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
                WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind IN ('r', 'p', 'f', 'm')
                ORDER BY 1, 2",
            &["archive|old|NULL|0", "main|child|kids|0", "main|events|NULL|0", "main|parent|NULL|0"],
        ),
        (
            "SELECT quote_ident(column_name) AS \"column\", data_type AS \"type\" FROM information_schema.columns
                WHERE quote_ident(table_name) = 'parent' ORDER BY 1",
            &["code|VARCHAR(10)", "id|BIGINT"],
        ),
    ]);
}

#[test]
fn frameworks_and_odbc_read_keys_and_columns() {
    answers(&[
        // Django
        (
            "SELECT c.conname, array( SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx)
                JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx ),
                c.contype, (SELECT fkc.relname || '.' || fka.attname FROM pg_attribute AS fka
                JOIN pg_class AS fkc ON fka.attrelid = fkc.oid
                WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1])
                FROM pg_constraint AS c JOIN pg_class AS cl ON c.conrelid = cl.oid
                WHERE cl.relname = 'child' AND c.contype <> 'c' AND pg_catalog.pg_table_is_visible(cl.oid) ORDER BY 1",
            &["child_p_fkey|{p}|f|parent.id", "child_pkey|{id}|p|NULL"],
        ),
        (
            "SELECT indexname, array_agg(attname ORDER BY arridx), array_agg(ordering ORDER BY arridx) FROM (
                SELECT c2.relname as indexname, idx.*, attr.attname,
                CASE am.amname WHEN 'btree' THEN CASE (option & 1) WHEN 1 THEN 'DESC' ELSE 'ASC' END END as ordering
                FROM (SELECT * FROM pg_index i, unnest(i.indkey, i.indoption)
                WITH ORDINALITY koi(key, option, arridx)) idx
                LEFT JOIN pg_class c ON idx.indrelid = c.oid LEFT JOIN pg_class c2 ON idx.indexrelid = c2.oid
                LEFT JOIN pg_am am ON c2.relam = am.oid
                LEFT JOIN pg_attribute attr ON attr.attrelid = c.oid AND attr.attnum = idx.key
                WHERE c.relname = 'child') s2 WHERE indexname = 'by_n' GROUP BY indexname",
            &["by_n|{n,p}|{DESC,ASC}"],
        ),
        // Rails
        (
            "SELECT a.attname FROM ( SELECT indrelid, indkey, generate_subscripts(indkey, 1) idx FROM pg_index
                WHERE indrelid = '\"child\"'::regclass AND indisprimary ) i
                JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[i.idx] ORDER BY i.idx",
            &["id"],
        ),
        // psqlodbc, and so Tableau
        (
            "select n.nspname, c.relname, a.attname, t.typname, a.attnum, a.attlen, a.attnotnull, attidentity
                from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                and c.relname like 'child' and n.nspname like 'main') inner join pg_catalog.pg_attribute a
                on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid)
                inner join pg_catalog.pg_type t on t.oid = a.atttypid)
                left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum
                order by n.nspname, c.relname, attnum",
            &[
                "main|child|id|int8|1|8|t|a",
                "main|child|p|int8|2|8|f|",
                "main|child|n|numeric|3|-1|f|",
                "main|child|tags|_text|4|-1|f|",
            ],
        ),
        // pgAdmin
        (
            "SELECT db.oid as did, db.datname, pg_encoding_to_char(db.encoding) AS serverencoding,
                has_database_privilege(db.oid, 'CREATE') as cancreate FROM pg_catalog.pg_database db
                WHERE db.datname = current_database()",
            &["5|rowmill|UTF8|t"],
        ),
    ]);
}
