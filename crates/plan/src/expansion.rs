//! Functions that are short forms of other expressions. For example, `ago(i)` is `now() - i`.
//!
//! The binder replaces a call by the expression, so that these functions need no kernels and work wherever the
//! expression does.

/// A function that stands for an expression.
#[derive(Clone, Copy, Debug)]
pub struct ExpansionSpec {
    /// The name in lower case.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// The family that the documentation lists it under.
    pub family: &'static str,
    /// The number of arguments.
    pub arguments: usize,
    /// The expression. `arg1`, `arg2` and so on stand for the arguments.
    pub body: &'static str,
    /// Whether the expression has an aggregate, to which FILTER and OVER of the call belong.
    pub is_aggregate: bool,
    /// The documentation, which should be one line.
    pub doc: &'static str,
    /// A call with its result; of an aggregate with its FROM.
    pub example: (&'static str, &'static str),
}

const fn scalar(
    family: &'static str,
    name: &'static str,
    arguments: usize,
    body: &'static str,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> ExpansionSpec {
    ExpansionSpec { name, aliases: &[], family, arguments, body, is_aggregate: false, doc, example }
}

const fn of_aggregates(
    name: &'static str,
    aliases: &'static [&'static str],
    arguments: usize,
    body: &'static str,
    doc: &'static str,
    example: (&'static str, &'static str),
) -> ExpansionSpec {
    ExpansionSpec { name, aliases, family: "aggregate", arguments, body, is_aggregate: true, doc, example }
}

/// Makes the function of a list that computes an aggregate of its items.
macro_rules! of_items {
    ($aggregate:literal, $call:literal gives $result:literal) => {
        ExpansionSpec {
            name: concat!("list_", $aggregate),
            aliases: &[concat!("array_", $aggregate)],
            family: "list",
            arguments: 1,
            body: concat!("(SELECT ", $aggregate, "(_item) FROM unnest(arg1) AS _items(_item))"),
            is_aggregate: false,
            doc: concat!("The aggregate ", $aggregate, " of the items of a list."),
            example: ($call, $result),
        }
    };
}

/// Makes an aggregate of the first values in an order.
macro_rules! largest {
    ($name:literal, $aliases:expr, $arguments:literal, $ordered:literal, $condition:literal, $count:literal,
        $doc:literal, $call:literal gives $result:literal) => {
        ExpansionSpec {
            name: $name,
            aliases: $aliases,
            family: "aggregate",
            arguments: $arguments,
            body: concat!("array_slice(array_agg(", $ordered, ") FILTER (WHERE ", $condition, "), 1, ", $count, ")"),
            is_aggregate: true,
            doc: $doc,
            example: ($call, $result),
        }
    };
}

/// All functions of this kind.
pub static EXPANSIONS: &[ExpansionSpec] = &[
    of_aggregates(
        "count_if",
        &["countif"],
        1,
        "count(CASE WHEN arg1 THEN 1 END)",
        "The number of rows for which a condition is true.",
        ("count_if(x > 1) FROM (VALUES (1), (2), (3)) AS t(x)", "2"),
    ),
    of_aggregates(
        "geomean",
        &["geometric_mean"],
        1,
        "exp(avg(ln(arg1)))",
        "The geometric mean of the values.",
        ("round(geomean(x), 6) FROM (VALUES (1), (2), (4)) AS t(x)", "2.0"),
    ),
    of_aggregates(
        "weighted_avg",
        &["wavg"],
        2,
        "sum(arg1 * CAST(arg2 AS DOUBLE)) / sum(CASE WHEN arg1 IS NOT NULL THEN CAST(arg2 AS DOUBLE) END)",
        "The mean of the values of the first argument, weighted by the second one.",
        ("weighted_avg(x, w) FROM (VALUES (1, 3), (5, 1)) AS t(x, w)", "2.0"),
    ),
    largest!("max", &[], 2, "arg1 ORDER BY arg1 DESC", "arg1 IS NOT NULL", "arg2",
        "The n greatest values as a list, the greatest one first. With one argument, \
         the greatest value.",
        "max(x, 2) FROM (VALUES (1), (3), (2)) AS t(x)" gives "[3, 2]"),
    largest!("min", &[], 2, "arg1 ORDER BY arg1", "arg1 IS NOT NULL", "arg2",
        "The n least values as a list, the least one first. With one argument, the \
         least value.",
        "min(x, 2) FROM (VALUES (1), (3), (2)) AS t(x)" gives "[1, 2]"),
    largest!("arg_max", &["argmax", "max_by"], 3, "arg1 ORDER BY arg2 DESC", "arg1 IS NOT NULL AND arg2 IS NOT NULL",
        "arg3",
        "The values of the n rows with the greatest second argument as a list. With two \
         arguments, the value of the row with the greatest.",
        "arg_max(x, y, 2) FROM (VALUES ('a', 1), ('b', 3), ('c', 2)) AS t(x, y)" gives "[\"b\", \"c\"]"),
    largest!("arg_min", &["argmin", "min_by"], 3, "arg1 ORDER BY arg2", "arg1 IS NOT NULL AND arg2 IS NOT NULL",
        "arg3",
        "The values of the n rows with the least second argument as a list. With two \
         arguments, the value of the row with the least.",
        "arg_min(x, y, 2) FROM (VALUES ('a', 1), ('b', 3), ('c', 2)) AS t(x, y)" gives "[\"a\", \"c\"]"),
    of_items!("median", "list_median([1, 2, 9])" gives "2.0"),
    of_items!("mode", "list_mode([3, 1, 3])" gives "3"),
    of_items!("stddev_pop", "list_stddev_pop([1, 3])" gives "1.0"),
    of_items!("stddev_samp", "list_stddev_samp([1, 5, 9])" gives "4.0"),
    of_items!("var_pop", "list_var_pop([1, 3])" gives "1.0"),
    of_items!("var_samp", "list_var_samp([1, 3])" gives "2.0"),
    of_items!("skewness", "list_skewness([1, 2, 3])" gives "0.0"),
    of_items!("kurtosis", "round(list_kurtosis([1, 2, 3, 9]), 4)" gives "3.0144"),
    of_items!("kurtosis_pop", "round(list_kurtosis_pop([1, 2, 3, 9]), 4)" gives "-0.7981"),
    of_items!("entropy", "list_entropy([1, 1, 2, 2])" gives "1.0"),
    of_items!("mad", "list_mad([1, 2, 9])" gives "1.0"),
    of_items!("sem", "list_sem([1, 3, 1, 3])" gives "0.5"),
    of_items!("histogram", "list_histogram([3, 1, 3])" gives
        "{1=1, 3=2}"),
    of_items!("bit_and", "list_bit_and([6, 3])" gives "2"),
    of_items!("bit_or", "list_bit_or([6, 3])" gives "7"),
    of_items!("bit_xor", "list_bit_xor([6, 3])" gives "5"),
    of_items!("bool_and", "list_bool_and([true, false])" gives "false"),
    of_items!("bool_or", "list_bool_or([true, false])" gives "true"),
    of_items!("approx_count_distinct", "list_approx_count_distinct([3, 1, 3])" gives "2"),
    scalar(
        "list",
        "list_string_agg",
        1,
        "array_to_string(arg1, ',')",
        "The items of a list as text with commas between them, without those that are NULL.",
        ("list_string_agg(['a', 'b'])", "a,b"),
    ),
    ExpansionSpec {
        name: "array_last",
        aliases: &["list_last"],
        family: "list",
        arguments: 1,
        body: "array_element(arg1, -1)",
        is_aggregate: false,
        doc: "The last item of a list.",
        example: ("array_last([1, 2, 3])", "3"),
    },
    scalar(
        "time",
        "age",
        1,
        "age(CAST(current_date AS TIMESTAMP), arg1)",
        "The time from a timestamp to the midnight of today. With two arguments, the time from the second \
         to the first.",
        ("age(CAST(current_date AS TIMESTAMP))", "00:00:00"),
    ),
    scalar(
        "time",
        "ago",
        1,
        "now() - arg1",
        "The instant an interval before now.",
        ("ago(INTERVAL '1 day') < now()", "true"),
    ),
    scalar(
        "time",
        "pg_sleep_for",
        1,
        "pg_sleep(epoch(arg1))",
        "Waits for an interval.",
        ("pg_sleep_for(INTERVAL '1 millisecond')", ""),
    ),
    scalar(
        "time",
        "pg_sleep_until",
        1,
        "pg_sleep(epoch(arg1) - epoch(clock_timestamp()))",
        "Waits until an instant.",
        ("pg_sleep_until(now())", ""),
    ),
    scalar("time", "sleep_ms", 1, "pg_sleep(arg1 / 1000.0)", "Waits for milliseconds.", ("sleep_ms(1)", "")),
    scalar("math", "add", 2, "arg1 + arg2", "The operator +.", ("add(1, 2)", "3")),
    scalar("math", "subtract", 2, "arg1 - arg2", "The operator - of two values.", ("subtract(3, 2)", "1")),
    scalar("math", "multiply", 2, "arg1 * arg2", "The operator *.", ("multiply(3, 2)", "6")),
    scalar("math", "divide", 2, "arg1 / arg2", "The operator /.", ("divide(7, 2)", "3")),
    scalar("math", "mod", 2, "arg1 % arg2", "The operator %: the remainder of a division.", ("mod(-7, 2)", "-1")),
    scalar(
        "conditional",
        "assert_true",
        1,
        "CASE WHEN arg1 THEN NULL ELSE error('an assertion failed') END",
        "NULL if the condition is true, otherwise an error, which a second argument words.",
        ("assert_true(1 < 2) IS NULL", "true"),
    ),
    scalar(
        "conditional",
        "assert_true",
        2,
        "CASE WHEN arg1 THEN NULL ELSE error(arg2) END",
        "NULL if the condition is true, otherwise an error with the text of the second argument.",
        ("assert_true(1 < 2, 'order') IS NULL", "true"),
    ),
];

/// Finds the function with this name or alias and this number of arguments.
pub fn find(name: &str, arguments: usize) -> Option<&'static ExpansionSpec> {
    EXPANSIONS.iter().find(|spec| spec.arguments == arguments && spec.is_called(name))
}

/// Whether a function of this kind has this name, whatever its arguments are.
pub fn is_name(name: &str) -> bool {
    EXPANSIONS.iter().any(|spec| spec.is_called(name))
}

impl ExpansionSpec {
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}
