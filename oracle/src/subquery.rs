//! Generates subqueries in expressions: scalar, IN, EXISTS, and comparisons with ANY and ALL, correlated or not.

use crate::generator::Generator;
use crate::kind::Kind;
use crate::scope::Scope;

impl Generator<'_> {
    /// Makes a subquery of one value of `kind`: an aggregate, or the first row in a total order.
    pub fn scalar_subquery(&mut self, kind: Kind, scope: &Scope) -> String {
        self.nested(|this| {
            let outer = this.outer_of(scope);
            let (from, inner) = this.from(&outer, 1);
            let condition = this.where_clause(&inner, 60);
            if let Some(unique) = inner.unique.clone().filter(|_| this.random.chance(30)) {
                let item = this.expression(kind, &inner, 1);
                let order = this.total_order(&inner, &unique);
                let offset = this.random.pick(&["", "", " OFFSET 1"]);
                return format!("(SELECT {item} FROM {from}{condition} ORDER BY {order} LIMIT 1{offset})");
            }
            let item = this.aggregate(kind, &inner.alone());
            format!("(SELECT {item} FROM {from}{condition})")
        })
    }

    /// Makes a condition with a subquery.
    pub fn subquery_condition(&mut self, scope: &Scope) -> String {
        self.nested(|this| {
            let outer = this.outer_of(scope);
            let choice = this.random.below(10);
            if choice < 4 {
                let (from, inner) = this.from(&outer, 1);
                let condition = this.where_clause(&inner, 85);
                let tail = match this.random.below(12) {
                    0 => " LIMIT 1",
                    1 => " LIMIT 0",
                    _ => "",
                };
                let not = this.random.pick(&["", "NOT "]);
                return format!("({not}EXISTS (SELECT 1 FROM {from}{condition}{tail}))");
            }
            let kind = this.kind_of(scope);
            let operand = this.expression(kind, scope, 1);
            let query = match this.random.chance(30) {
                true => this.query(&[kind], &outer, 1).text,
                false => {
                    let (from, inner) = this.from(&outer, 1);
                    let item = this.expression(kind, &inner, 1);
                    let condition = this.where_clause(&inner, 60);
                    format!("SELECT {item} FROM {from}{condition}")
                }
            };
            if choice < 8 {
                return format!("({operand} {}IN ({query}))", this.random.pick(&["", "NOT "]));
            }
            let operator = this.random.pick(&["=", "<>", "<", "<=", ">", ">="]);
            format!("({operand} {operator} {} ({query}))", this.random.pick(&["ANY", "ALL"]))
        })
    }

    /// Chooses the outer columns that a subquery within `scope` may name: usually all, sometimes none.
    fn outer_of(&mut self, scope: &Scope) -> Vec<crate::scope::Term> {
        if self.random.chance(25) { Vec::new() } else { scope.around() }
    }
}
