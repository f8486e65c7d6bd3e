//! Generates aggregates by the kind of their result.

use crate::generator::Generator;
use crate::kind::Kind;
use crate::scope::Scope;

impl Generator<'_> {
    /// Makes an aggregate of `kind` over the rows of `scope`.
    pub fn aggregate(&mut self, kind: Kind, scope: &Scope) -> String {
        let call = self.aggregate_call(kind, scope);
        let filter = match self.random.chance(12) {
            true => format!(" FILTER (WHERE {})", self.flat_condition(scope)),
            false => String::new(),
        };
        if call.ends_with(']') {
            return call.strip_prefix("round ").map_or(call.clone(), |call| format!("round({call}, 6)"));
        }
        // The rounding must enclose the FILTER clause.
        match call.strip_prefix("round ") {
            Some(call) => format!("round({call}{filter}, 6)"),
            // A union of DECIMAL(38, 1) and DECIMAL(3, 2) loses digits in DuckDB, so we cast back to few digits.
            None if kind == Kind::Decimal && call.starts_with("sum") => {
                format!("CAST({call}{filter} AS DECIMAL(18, 4))")
            }
            None => format!("{call}{filter}"),
        }
    }

    /// Makes the call alone. It begins with `round ` if its last digits depend on the order of the rows.
    fn aggregate_call(&mut self, kind: Kind, scope: &Scope) -> String {
        let argument = self.flat_expression(kind, scope);
        let distinct = self.random.pick(&["", "", "", "DISTINCT "]);
        match (kind, self.random.below(10)) {
            (Kind::Int, 0..2) => "count(*)".to_owned(),
            (Kind::Int, 2..5) => {
                let of = self.kind_of(scope);
                format!("count({distinct}{})", self.flat_expression(of, scope))
            }
            (Kind::Int, 5..8) => format!("sum({distinct}{argument})"),
            (Kind::Decimal, 0..4) => format!("sum({distinct}{argument})"),
            (Kind::Double, 0..3) => format!("sum({distinct}{argument})"),
            (Kind::Double, 3..6) => {
                let of = self.random.pick(&[Kind::Int, Kind::Decimal, Kind::Double]);
                format!("round avg({distinct}{})", self.flat_expression(of, scope))
            }
            (Kind::Double, 6) => {
                let name = self.random.pick(&["stddev_pop", "var_pop", "stddev_samp", "var_samp", "stddev"]);
                format!("round {name}({argument})")
            }
            (Kind::Double, 7) => {
                let of = self.random.pick(&[Kind::Int, Kind::Double]);
                let share = self.random.pick(&["0.5", "0", "1", "0.25"]);
                let values = self.flat_expression(of, scope);
                format!("round percentile_cont({share}) WITHIN GROUP (ORDER BY {values})")
            }
            (Kind::Bool, 0..4) => format!("bool_and({argument})"),
            (Kind::Bool, 4..8) => format!("bool_or({argument})"),
            (Kind::Text, 0..3) => {
                let direction = self.random.pick(&["", " DESC"]);
                // Some engines do not accept a literal as an order.
                match argument.starts_with('\'') {
                    true => format!("string_agg({argument}, '-')"),
                    false => format!("string_agg({argument}, '-' ORDER BY {argument}{direction})"),
                }
            }
            (_, 8) if kind != Kind::Bool => match &scope.unique {
                Some(unique) => {
                    let order = self.total_order(scope, &unique.clone());
                    format!("(array_agg({argument} ORDER BY {order}))[1]")
                }
                None => format!("min({argument})"),
            },
            (_, number) => format!("{}({argument})", if number % 2 == 0 { "min" } else { "max" }),
        }
    }

    /// Makes an expression without subqueries as an argument of an aggregate.
    fn flat_expression(&mut self, kind: Kind, scope: &Scope) -> String {
        if self.may_nest() && self.random.chance(4) {
            return self.expression(kind, scope, 1);
        }
        self.flat(|this| this.expression(kind, scope, 1))
    }

    fn flat_condition(&mut self, scope: &Scope) -> String {
        self.flat(|this| this.condition(scope, 1))
    }
}
