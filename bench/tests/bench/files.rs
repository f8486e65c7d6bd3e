//! Tests of the files that the generators write.

use std::fs;

use arrow::datatypes::DataType;
use rowmill_bench::hits::World;
use rowmill_bench::{parquet_file, tpch};

use crate::table::Table;

#[test]
fn bytes_depend_on_rows_and_seed_only() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = |seed, threads| {
        let path = folder.path().join("hits.parquet");
        parquet_file::write(&World::new(30_000, seed), &path, threads, &|_| ()).unwrap();
        fs::read(path).unwrap()
    };
    let one = bytes(1, 1);
    assert!(one == bytes(1, 3), "the number of threads changed the file");
    assert!(one != bytes(2, 1), "the seed did not change the file");
}

#[test]
fn small_tables_have_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    for rows in [1, 2, 999] {
        let path = folder.path().join("hits.parquet");
        parquet_file::write(&World::new(rows, 1), &path, 2, &|_| ()).unwrap();
        assert_eq!(Table::read(&path).rows() as u64, rows);
    }
}

#[test]
fn a_failed_write_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/hits.parquet");
    let error = parquet_file::write(&World::new(10, 1), &path, 1, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn tpch_tables_have_their_rows_and_types() {
    let folder = tempfile::tempdir().unwrap();
    tpch::write(0.01, folder.path(), 2, &|_| ()).unwrap();
    for (name, rows) in [
        ("region", 5),
        ("nation", 25),
        ("supplier", 100),
        ("part", 2_000),
        ("partsupp", 8_000),
        ("customer", 1_500),
        ("orders", 15_000),
        ("lineitem", 60_175),
    ] {
        assert_eq!(Table::read(&folder.path().join(format!("{name}.parquet"))).rows(), rows, "{name}");
    }
    let lineitem = Table::read(&folder.path().join("lineitem.parquet"));
    assert_eq!(lineitem.column("l_extendedprice").data_type(), &DataType::Decimal128(15, 2));
    assert_eq!(lineitem.column("l_shipdate").data_type(), &DataType::Date32);
}
