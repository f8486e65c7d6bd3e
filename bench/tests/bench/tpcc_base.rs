//! Tests of the option `--base`.

use rowmill::BaseKind;
use rowmill_base::ErrorKind;
use rowmill_bench::tpcc::rowmill_client::Rowmill;

#[test]
fn a_database_keeps_the_base_that_it_was_made_with() {
    let folder = tempfile::tempdir().unwrap();
    for base in [Some(BaseKind::Tree), Some(BaseKind::Tree), None] {
        drop(Rowmill::open(folder.path(), false, base).unwrap());
        assert_eq!(BaseKind::of(folder.path()).unwrap(), Some(BaseKind::Tree));
    }
    let error = Rowmill::open(folder.path(), false, Some(BaseKind::RocksDb)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParameter);
    assert!(error.to_string().contains("--base"), "{error}");
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_build_without_rocksdb_names_the_feature_that_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rowmill");
    let error = Rowmill::open(&path, false, Some(BaseKind::RocksDb)).unwrap_err();
    assert_eq!(error.sqlstate(), "0A000");
    assert!(error.to_string().contains("--features rocksdb"), "{error}");
    assert!(!path.exists(), "a refused database must leave no directory");
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_database_created_over_rocksdb_reports_rocksdb() {
    let folder = tempfile::tempdir().unwrap();
    for base in [Some(BaseKind::RocksDb), Some(BaseKind::RocksDb), None] {
        drop(Rowmill::open(folder.path(), false, base).unwrap());
        assert_eq!(BaseKind::of(folder.path()).unwrap(), Some(BaseKind::RocksDb));
    }
}
