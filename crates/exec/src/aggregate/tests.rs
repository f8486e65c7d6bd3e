//! The types and names of the registry.

use arrow::datatypes::DataType;

use super::*;

fn kinds(name: &str, arguments: &[DataType]) -> Option<(Vec<DataType>, DataType)> {
    named(name).kinds(arguments)
}

fn result(name: &str, kind: DataType) -> Option<DataType> {
    kinds(name, &[kind]).map(|(_, result)| result)
}

#[test]
fn names_are_lower_case_and_documented() {
    for spec in all() {
        assert!(std::iter::once(&spec.name).chain(spec.aliases).all(|name| *name == name.to_lowercase()));
        assert!(spec.doc.ends_with('.') && !spec.doc.contains('\n'), "{} lacks its documentation", spec.name);
        assert!(!spec.example.0.is_empty(), "{} lacks its example", spec.name);
    }
}

#[test]
fn names_are_found_in_any_case() {
    assert_eq!(find("Stddev_Samp"), find("stddev"));
    assert_eq!(find("bool_AND"), Some(named("every")));
    assert_eq!(find("upper"), None);
}

#[test]
fn sums_have_the_type_of_exact_totals() {
    assert_eq!(result("sum", DataType::UInt8), Some(DataType::Int64));
    assert_eq!(result("sum", DataType::Int64), Some(DataType::Decimal128(38, 0)));
    assert_eq!(result("sum", DataType::Decimal128(10, 2)), Some(DataType::Decimal128(38, 2)));
    assert_eq!(result("sum", DataType::Float32), Some(DataType::Float64));
    assert_eq!(result("sum", DataType::Null), Some(DataType::Int64));
    assert_eq!(result("sum", DataType::Utf8View), None);
}

#[test]
fn quantiles_and_medians_of_integers_are_floats() {
    assert_eq!(result("median", DataType::Int32), Some(DataType::Float64));
    assert_eq!(result("median", DataType::Decimal128(9, 2)), Some(DataType::Decimal128(9, 2)));
    assert_eq!(result("approx_median", DataType::Int32), Some(DataType::Float64));
    assert_eq!(result("percentile_cont", DataType::Decimal128(9, 2)), Some(DataType::Float64));
    assert_eq!(result("percentile_cont", DataType::Float32), Some(DataType::Float32));
    assert_eq!(result("percentile_disc", DataType::Date32), Some(DataType::Date32));
    assert_eq!(result("bool_or", DataType::Int32), None);
}

#[test]
fn a_wrong_number_of_arguments_is_refused() {
    assert_eq!(kinds("corr", &[DataType::Int64]), None);
    assert_eq!(kinds("sum", &[]), None);
    assert_eq!(kinds("sum", &[DataType::Int64, DataType::Int64]), None);
    assert_eq!(kinds("count", &[]), Some((vec![], DataType::Int64)));
}

#[test]
fn every_aggregate_takes_some_type() {
    let types = [DataType::Null, DataType::Boolean, DataType::Int16, DataType::Float32, DataType::Utf8View];
    for spec in all() {
        let taken = types.iter().filter_map(|kind| spec.kinds(&vec![kind.clone(); spec.arguments]));
        assert!(taken.count() > 0, "{} takes nothing", spec.name);
    }
}
