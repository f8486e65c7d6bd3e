//! EXPLAIN's text of ordered joins.

use arrow::datatypes::{DataType, Field, Schema};

use super::*;
use crate::{AggregateSpec, Foreign, Names};

struct NoNames;

impl Names for NoNames {
    fn table(&self, _: usize) -> &str {
        ""
    }

    fn column(&self, _: usize, _: usize) -> &str {
        ""
    }

    fn size(&self, _: usize) -> (usize, u64) {
        (0, 0)
    }

    fn function(&self, _: usize) -> &str {
        ""
    }
}

fn schema(names: &[&str]) -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::Int64, false);
    Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
}

fn join(choice: OrderedChoice, result: OrderedResult, output: Vec<usize>, names: &[&str]) -> Node {
    let rows = |names: &[&str]| Arc::new(Node::Foreign(Foreign { plan: 0, rows: 1, schema: schema(names) }));
    Node::OrderedJoin(OrderedJoin {
        left: rows(&["sym", "since", "ts"]),
        right: rows(&["symbol", "at", "seq", "price"]),
        on: vec![(0, 0)],
        nulls_equal: false,
        position: 1,
        tie: Some(2),
        lower: Some(OrderBound { column: 1, inclusive: false, origin: None }),
        upper: Some(OrderBound { column: 2, inclusive: true, origin: None }),
        choice,
        result,
        output,
        schema: schema(names),
    })
}

#[test]
fn explain_shows_kind_keys_bounds_and_choice() {
    let last = join(OrderedChoice::Last, OrderedResult::Rows { inner: false }, vec![2, 6], &["ts", "price"]);
    assert_eq!(
        last.line(&NoNames),
        "Ordered join: outer (first), on [sym = symbol], where since < at <= ts, last by [at, seq]"
    );
    assert_eq!(last.column_names(&NoNames), ["ts", "price"]);
    assert_eq!([0, 1].map(|column| last.is_nullable(column)), [false, true]);
    let nearest = join(OrderedChoice::Nearest { to: 2 }, OrderedResult::Rows { inner: true }, vec![6], &["price"]);
    assert_eq!(
        nearest.line(&NoNames),
        "Ordered join: inner, on [sym = symbol], where since < at <= ts, nearest to ts by [at, seq]"
    );
    assert!(!nearest.is_nullable(0));
}

#[test]
fn explain_shows_aggregates_with_filter_and_order() {
    static SUM: AggregateSpec = AggregateSpec::new("sum", |_| None);
    let mut sum = Aggregate::new(&SUM, Some((Expr::Column(3), DataType::Int64)), DataType::Int64);
    sum.filter = Some(Expr::Column(2));
    let window =
        join(OrderedChoice::AllWithPrevailing, OrderedResult::Aggregates(vec![sum]), vec![0], &["sym", "total"]);
    assert_eq!(
        window.line(&NoNames),
        "Ordered join: sum(price) FILTER (WHERE seq), on [sym = symbol], where since < at <= ts, all and the \
         prevailing one by [at, seq]"
    );
    assert_eq!(window.column_names(&NoNames), ["sym", "sum(price) FILTER (WHERE seq)"]);
    assert_eq!([0, 1].map(|column| window.is_nullable(column)), [false, true]);
    assert_eq!(window.inputs().len(), 2);
}
