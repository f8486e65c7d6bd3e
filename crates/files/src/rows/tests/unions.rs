//! Which parts of files are skipped where several files are one union.

use super::*;
use crate::{FileUnion, UnionOptions};

/// Two folders of Parquet files: `year=2025` with the ids 0 to 1999, and `year=2026` with 2000 to 3999 and the columns
/// in another order.
fn years() -> (TempDir, Arc<FileUnion>) {
    let folder = folder();
    for (year, ids, order) in [(2025, 0..2_000, [0, 1, 2]), (2026, 2_000..4_000, [2, 0, 1])] {
        std::fs::create_dir(folder.path().join(format!("year={year}"))).expect("made");
        let batch = rows(ids).project(&order).expect("a projection");
        write_parquet(&path(&folder, &format!("year={year}/a.parquet")), &batch, small_pages());
    }
    let union = UnionOptions { by_name: true, filename: None, hive_partitioning: true };
    let (source, _) =
        FileUnion::open(&[path(&folder, "*/*.parquet")], &ReadOptions::default(), &union).expect("opened");
    (folder, source)
}

fn ids(source: &FileUnion, predicates: &[Predicate]) -> Vec<i64> {
    numbers(&read(source, &[0], predicates, 2).expect("read"), 0)
}

#[test]
fn statistics_skip_parts_of_files_with_other_orders_of_columns() {
    let (_folder, source) = years();
    let names: Vec<&str> = source.schema().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["Id", "Name", "Flag", "year"]);
    assert_eq!(ids(&source, &[number(0, CompareOp::Equal, 3_142)]), (3_100..3_200).collect::<Vec<_>>());
    assert_eq!(ids(&source, &[number(0, CompareOp::Less, 150)]), (0..200).collect::<Vec<_>>());
    let either = Predicate::Or(vec![number(0, CompareOp::Less, 50), number(0, CompareOp::GreaterOrEqual, 3_950)]);
    assert_eq!(ids(&source, &[either]), (0..100).chain(3_900..4_000).collect::<Vec<_>>());
}

#[test]
fn conditions_on_the_path_skip_whole_files() {
    let (_folder, source) = years();
    assert_eq!(ids(&source, &[number(3, CompareOp::Equal, 2_026)]), (2_000..4_000).collect::<Vec<_>>());
    let both = Predicate::And(vec![number(3, CompareOp::Less, 2_026), number(0, CompareOp::Less, 50)]);
    assert_eq!(ids(&source, &[both]), (0..100).collect::<Vec<_>>());
    let values = Arc::new(Int64Array::from(vec![2_024, 2_025]));
    let listed = Predicate::In { column: 3, values, negated: false };
    assert_eq!(ids(&source, &[listed]), (0..2_000).collect::<Vec<_>>());
    assert!(ids(&source, &[number(3, CompareOp::Greater, 2_026)]).is_empty());
    // A condition that only a part of can be translated reads more, but never less.
    let mixed = Predicate::Or(vec![number(3, CompareOp::Equal, 2_025), number(0, CompareOp::Equal, 3_142)]);
    assert_eq!(ids(&source, &[mixed]).len(), 4_000);
    let negated = Predicate::Not(Box::new(number(3, CompareOp::Equal, 2_025)));
    assert_eq!(ids(&source, &[negated]).len(), 4_000);
}
