//! Functions that evaluate an expression for each item of a list. For example, `array_transform(list, x -> x + 1)`.

/// A function that is applied to the values of the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemFunction {
    /// The list of the values.
    Transform,
    /// The list of the items for which the expression is true.
    Filter,
    /// Whether the expression is true for one item. False for an empty list; NULL if it is true for none and NULL for
    /// one.
    AnyMatch,
    /// Whether the expression is true for all items. True for an empty list; NULL if it is false for none and NULL for
    /// one.
    AllMatch,
    /// The first item for which the expression is true; NULL if there is none.
    First,
    /// The last value of an expression of the value so far, which begins with the first item, and the next item.
    Reduce,
}

/// The documentation of an item function.
#[derive(Clone, Copy, Debug)]
pub struct ItemFunctionSpec {
    /// The function.
    pub function: ItemFunction,
    /// The name.
    pub name: &'static str,
    /// Other names for the same function.
    pub aliases: &'static [&'static str],
    /// The text for the reference, which should be one line.
    pub doc: &'static str,
    /// An expression and its value as text.
    pub example: (&'static str, &'static str),
}

/// All item functions.
pub static ITEM_FUNCTIONS: &[ItemFunctionSpec] = &[
    ItemFunctionSpec {
        function: ItemFunction::Transform,
        name: "array_transform",
        aliases: &["list_transform", "array_apply", "list_apply", "apply"],
        doc: "The list of the values that an expression has for the items of a list.",
        example: ("array_transform([1, 2, 3], x -> x * 10)", "[10, 20, 30]"),
    },
    ItemFunctionSpec {
        function: ItemFunction::Filter,
        name: "array_filter",
        aliases: &["list_filter", "filter"],
        doc: "The items of a list for which a condition is true.",
        example: ("array_filter([1, 2, 3], x -> x > 1)", "[2, 3]"),
    },
    ItemFunctionSpec {
        function: ItemFunction::AnyMatch,
        name: "array_any_match",
        aliases: &["list_any_match", "any_match"],
        doc: "Whether a condition is true for an item of a list.",
        example: ("array_any_match([1, 2, 3], x -> x > 2)", "true"),
    },
    ItemFunctionSpec {
        function: ItemFunction::AllMatch,
        name: "array_all_match",
        aliases: &["list_all_match", "all_match"],
        doc: "Whether a condition is true for all items of a list.",
        example: ("array_all_match([1, 2, 3], x -> x > 2)", "false"),
    },
    ItemFunctionSpec {
        function: ItemFunction::First,
        name: "array_first",
        aliases: &["list_first"],
        doc: "The first item of a list for which a condition is true.",
        example: ("array_first([1, 2, 3], x -> x > 1)", "2"),
    },
    ItemFunctionSpec {
        function: ItemFunction::Reduce,
        name: "array_reduce",
        aliases: &["list_reduce", "reduce"],
        doc: "The items of a list combined one after another by an expression of the value so far and the next item, \
              from the first item or a given value on.",
        example: ("array_reduce([1, 2, 3], (sum, x) -> sum + x)", "6"),
    },
];

/// Finds a function by its name or one of its aliases.
pub fn find(name: &str) -> Option<&'static ItemFunctionSpec> {
    ITEM_FUNCTIONS.iter().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

impl ItemFunction {
    /// The name of the function.
    pub fn name(self) -> &'static str {
        let spec = ITEM_FUNCTIONS.iter().find(|spec| spec.function == self);
        spec.expect("every function has its documentation").name
    }
}
