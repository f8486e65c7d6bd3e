//! Groupings over the results of groupings, with several sets of keys.

use super::*;
use crate::expand::Expand;
use rowmill_plan::KeySet;

/// Aggregates that can be computed from the aggregates of parts.
const FUNCTIONS: &[&str] = &["count", "sum", "avg", "min", "max", "bit_and", "bit_or", "bit_xor"];

fn random_aggregate(data: &Data, random: &mut StdRng) -> Aggregate {
    let expr = Expr::Column(random.random_range(0..data.columns.len()));
    let (function, kind) = (named(FUNCTIONS[random.random_range(0..FUNCTIONS.len())]), data.kind(expr));
    let filter = (random.random_range(0..4) == 0).then_some(Expr::Function(FILTER));
    let of = match function {
        function if function.is_count() && random.random() => aggregate(function, None),
        function if !takes(function, &kind) => aggregate(named("max"), Some((expr, kind))),
        function => aggregate(function, Some((expr, kind))),
    };
    Aggregate { filter, ..of }
}

/// The aggregate that joins the aggregates of parts. Adds those to `parts`, whose columns follow `keys` key columns.
fn of_parts(whole: &Aggregate, keys: usize, parts: &mut Vec<Aggregate>) -> Aggregate {
    let mut add = |part: Aggregate| {
        parts.push(Aggregate { filter: whole.filter, ..part });
        Expr::Column(keys + parts.len() - 1)
    };
    let (argument, of_parts) = match (whole.function.name, &whole.argument) {
        ("count", argument) => (None, Some(add(aggregate(named("count"), argument.clone())))),
        ("avg", Some(argument)) => {
            let total = aggregate(named("sum"), Some(argument.clone()));
            let argument = (total.kind.clone(), argument.clone());
            let total = (add(total), argument.0);
            (Some(total), Some(add(aggregate(named("count"), Some(argument.1)))))
        }
        (_, argument) => (Some((add(aggregate(whole.function, argument.clone())), whole.kind.clone())), None),
    };
    Aggregate { argument, of_parts, filter: None, ..whole.clone() }
}

/// Random sets of `keys` keys. Some are empty, and some occur twice.
fn random_sets(keys: usize, random: &mut StdRng) -> Vec<KeySet> {
    let set = |number| KeySet { columns: (0..keys).map(|_| random.random()).collect(), number };
    let mut sets: Vec<KeySet> = (0..5).map(set).collect();
    sets[4].columns.fill(false);
    sets.truncate(random.random_range(1..6));
    sets
}

#[test]
fn grouping_sets_have_the_groups_of_each_set() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed + 5_000);
        let data = Data::random(&mut random);
        let functions = functions_of(&data, &mut random);
        let keys: Vec<GroupKey> = (0..data.columns.len().min(3))
            .map(Expr::Column)
            .map(|expr| GroupKey { expr, kind: data.kind(expr), nullable: true })
            .collect();
        let wholes: Vec<Aggregate> =
            (0..random.random_range(0..4)).map(|_| random_aggregate(&data, &mut random)).collect();
        let sets = random_sets(keys.len(), &mut random);
        let mut expected = Vec::new();
        for set in &sets {
            let of_set =
                keys.iter().zip(&set.columns).filter(|(_, is_in)| **is_in).map(|(key, _)| key.clone()).collect();
            let group = Group { predicates: Vec::new(), keys: of_set, aggregates: wholes.clone(), always: Vec::new() };
            for row in model(&data.rows(), &data, &functions, &group) {
                let mut row = row.into_iter();
                let key = |is_in: &bool| if *is_in { row.next().expect("a key") } else { ModelValue::Null };
                let mut whole: Vec<ModelValue> = set.columns.iter().map(key).collect();
                whole.push(ModelValue::Number(set.number.into()));
                whole.extend(row);
                expected.push(whole);
            }
        }
        expected.sort();
        // The query as two groupings: the inner one by all keys, the outer one over the rows of each set.
        let mut parts = Vec::new();
        let merged: Vec<Aggregate> = wholes.iter().map(|whole| of_parts(whole, keys.len(), &mut parts)).collect();
        let inner = Group { predicates: Vec::new(), keys: keys.clone(), aggregates: parts, always: Vec::new() };
        let source = if random.random() { data.as_batches() } else { data.as_table(700, &[]) };
        let inner = GroupBy::new(source, request(inner, as_dyn(&functions))).expect("a grouping");
        let mut fields = inner.request.schema.fields().to_vec();
        fields.push(Arc::new(Field::new("set", DataType::UInt8, false)));
        let number = Expr::Column(fields.len() - 1);
        let expanded: Arc<dyn BatchSource> =
            Expand::new(inner, sets.clone(), &Arc::new(Schema::new(fields)), Cancel::new());
        let empty: Vec<u8> =
            sets.iter().filter(|set| !set.columns.contains(&true)).map(|set| set.number as u8).collect();
        let mut always: Vec<ArrayRef> =
            keys.iter().map(|key| arrow::array::new_null_array(&key.kind, empty.len())).collect();
        always.push(Arc::new(arrow::array::UInt8Array::from(empty.clone())));
        let of_outer = |(place, key): (usize, &GroupKey)| GroupKey { expr: Expr::Column(place), ..key.clone() };
        let mut outer_keys: Vec<GroupKey> = keys.iter().enumerate().map(of_outer).collect();
        outer_keys.push(GroupKey { expr: number, kind: DataType::UInt8, nullable: false });
        let always = if empty.is_empty() { Vec::new() } else { always };
        let outer = Group { predicates: Vec::new(), keys: outer_keys, aggregates: merged, always };
        // A grouping returns its result only once, so we keep the rows for all policies.
        let batches = crate::collect::collect(&expanded, 2).expect("rows");
        for policy in policies() {
            let request = request(outer.clone(), Vec::new());
            let broker = request.broker.clone();
            let batches = Mutex::new(batches.iter().cloned().map(Ok).collect());
            let source: Arc<dyn BatchSource> = Arc::new(Given { schema: Arc::clone(expanded.schema()), batches });
            let group_by = GroupBy::with_policy(source.into(), request, policy).expect("a grouping");
            let found = run(&group_by, random.random_range(1..4), false).expect("groups");
            assert_eq!(found, expected, "seed {seed}, {policy:?}: {wholes:?}");
            drop(group_by);
            assert_eq!(broker.used_bytes(), 0, "seed {seed}");
        }
    }
}
