//! Generates random expressions by kind. They must not fail for any row, because engines differ in the rows for which
//! they evaluate an expression.

use crate::generator::Generator;
use crate::kind::Kind;
use crate::scope::Scope;

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

impl Generator<'_> {
    /// Makes an expression of `kind` over the terms of `scope`, at most `depth` levels deep.
    pub fn expression(&mut self, kind: Kind, scope: &Scope, depth: usize) -> String {
        if depth == 0 || self.random.chance(20) {
            return self.leaf(kind, scope);
        }
        if self.may_nest() && self.random.chance(6) {
            return self.scalar_subquery(kind, scope);
        }
        let depth = depth - 1;
        match self.random.below(12) {
            0 => return self.case(kind, scope, depth),
            1 => {
                let (first, second) = (self.expression(kind, scope, depth), self.expression(kind, scope, depth));
                return format!("coalesce({first}, {second})");
            }
            2 => {
                // DuckDB 2.0.0 drops nullif(x, x) from a condition although it is NULL, so the second argument is a
                // literal.
                let first = self.expression(kind, scope, depth);
                let second = kind.literal(&mut self.random);
                return format!("nullif({first}, {second})");
            }
            3 if kind != Kind::Bool => {
                let name = self.random.pick(&["least", "greatest"]);
                let (first, second) = (self.expression(kind, scope, depth), self.expression(kind, scope, depth));
                return format!("{name}({first}, {second})");
            }
            _ => {}
        }
        match kind {
            Kind::Bool => self.condition(scope, depth + 1),
            Kind::Int => self.integer(scope, depth),
            Kind::Decimal => self.decimal(scope, depth),
            Kind::Double => self.double(scope, depth),
            Kind::Text => self.text(scope, depth),
            Kind::Date => self.date(scope, depth),
            Kind::Timestamp => self.timestamp(scope, depth),
        }
    }

    /// Makes a term of `kind`, or a literal if the scope has none.
    pub fn leaf(&mut self, kind: Kind, scope: &Scope) -> String {
        let own = scope.of_kind(kind);
        let outer: Vec<_> = scope.outer.iter().filter(|term| term.kind == kind).collect();
        if !outer.is_empty() && self.random.chance(if own.is_empty() { 70 } else { 20 }) {
            return self.random.pick(&outer).text.clone();
        }
        if !own.is_empty() && self.random.chance(85) {
            return self.random.pick(&own).text.clone();
        }
        if !scope.own.is_empty() && self.random.chance(60) {
            let term = self.random.pick(&scope.own);
            if let Some(text) = converted(&term.text, term.kind, kind) {
                return text;
            }
        }
        if self.random.chance(4) {
            return format!("CAST(NULL AS {})", kind.type_name());
        }
        kind.literal(&mut self.random)
    }

    /// Draws a kind, usually the kind of one of the terms.
    pub fn kind_of(&mut self, scope: &Scope) -> Kind {
        match scope.own.is_empty() || self.random.chance(20) {
            true => Kind::random(&mut self.random),
            false => self.random.pick(&scope.own).kind,
        }
    }

    fn case(&mut self, kind: Kind, scope: &Scope, depth: usize) -> String {
        let result = self.expression(kind, scope, depth);
        let otherwise = match self.random.chance(70) {
            true => format!(" ELSE {}", self.expression(kind, scope, depth)),
            false => String::new(),
        };
        if self.random.chance(30) {
            let of = Kind::random(&mut self.random);
            let (operand, value) = (self.leaf(of, scope), of.literal(&mut self.random));
            let (second, more) = (of.literal(&mut self.random), self.leaf(kind, scope));
            return format!("CASE {operand} WHEN {value} THEN {result} WHEN {second} THEN {more}{otherwise} END");
        }
        let condition = self.condition(scope, depth);
        if self.random.chance(30) {
            let (second, more) = (self.condition(scope, depth), self.leaf(kind, scope));
            return format!("CASE WHEN {condition} THEN {result} WHEN {second} THEN {more}{otherwise} END");
        }
        format!("CASE WHEN {condition} THEN {result}{otherwise} END")
    }

    fn integer(&mut self, scope: &Scope, depth: usize) -> String {
        match self.random.below(16) {
            0..4 => {
                let (a, b) = (self.expression(Kind::Int, scope, depth), self.expression(Kind::Int, scope, depth));
                let operator = self.random.pick(&["+", "-"]);
                // We compute in 64 bits, because the engines differ in the width of a sum of narrow integers.
                format!("(CAST({a} AS BIGINT) {operator} {b})")
            }
            4 => {
                let a = self.expression(Kind::Int, scope, depth);
                let operator = self.random.pick(&["*", "/", "%"]);
                let number = self.random.pick(&["2", "3", "-2", "7"]);
                format!("(CAST({a} AS BIGINT) {operator} {number})")
            }
            5 => format!("length({})", self.expression(Kind::Text, scope, depth)),
            6 => {
                let field = self.random.pick(&["year", "month", "day", "dow", "doy", "quarter", "isodow", "week"]);
                let kind = self.random.pick(&[Kind::Date, Kind::Timestamp]);
                format!("CAST(extract({field} FROM {}) AS BIGINT)", self.expression(kind, scope, depth))
            }
            7 => {
                let field = self.random.pick(&["hour", "minute"]);
                format!("CAST(extract({field} FROM {}) AS BIGINT)", self.expression(Kind::Timestamp, scope, depth))
            }
            8 => format!("abs({})", self.expression(Kind::Int, scope, depth)),
            9 => {
                let needle = self.random.pick(&["'a'", "'b'", "' '", "'zz'"]);
                format!("strpos({}, {needle})", self.expression(Kind::Text, scope, depth))
            }
            10 => format!("CAST({} AS INTEGER)", self.expression(Kind::Bool, scope, depth)),
            11 => format!("(- CAST({} AS BIGINT))", self.expression(Kind::Int, scope, depth)),
            12 => {
                let (a, b) = (self.expression(Kind::Date, scope, depth), self.leaf(Kind::Date, scope));
                format!("CAST({a} - {b} AS BIGINT)")
            }
            13 => format!("CAST(floor({}) AS BIGINT)", self.expression(Kind::Double, scope, depth)),
            14 => format!("CAST(round({}) AS BIGINT)", self.expression(Kind::Decimal, scope, depth)),
            _ => format!("sign({})", self.expression(Kind::Int, scope, depth)),
        }
    }

    fn decimal(&mut self, scope: &Scope, depth: usize) -> String {
        let a = self.expression(Kind::Decimal, scope, depth);
        match self.random.below(8) {
            0..3 => {
                let operator = self.random.pick(&["+", "-"]);
                let b = self.expression(Kind::Decimal, scope, depth);
                format!("CAST({a} {operator} {b} AS DECIMAL(18, 4))")
            }
            3 => format!("CAST({a} * {} AS DECIMAL(18, 4))", self.random.pick(&["2", "0.5", "-1.25"])),
            4 => format!("CAST({} AS DECIMAL(18, 2))", self.expression(Kind::Int, scope, depth)),
            5 => format!("abs({a})"),
            6 => format!("CAST({a} AS DECIMAL(12, 1))"),
            _ => format!("round({a}, 1)"),
        }
    }

    fn double(&mut self, scope: &Scope, depth: usize) -> String {
        let a = self.expression(Kind::Double, scope, depth);
        match self.random.below(8) {
            0..3 => {
                let operator = self.random.pick(&["+", "-"]);
                format!("({a} {operator} {})", self.expression(Kind::Double, scope, depth))
            }
            3 => format!("({a} * {})", self.random.pick(&["2e0", "0.5e0", "-1e0"])),
            4 => format!("({a} / 4e0)"),
            5 => format!("CAST({} AS DOUBLE)", self.expression(Kind::Int, scope, depth)),
            6 => format!("floor({a})"),
            _ => format!("abs({a})"),
        }
    }

    fn text(&mut self, scope: &Scope, depth: usize) -> String {
        let a = self.expression(Kind::Text, scope, depth);
        let number = self.random.below(4);
        match self.random.below(16) {
            0..3 => format!("({a} || {})", self.expression(Kind::Text, scope, depth)),
            3 => format!("upper({a})"),
            4 => format!("lower({a})"),
            5 => format!("substr({a}, {}, {number})", 1 + self.random.below(3)),
            6 => format!("replace({a}, 'a', {})", self.leaf(Kind::Text, scope)),
            7 => format!("trim({a})"),
            8 => format!("reverse({a})"),
            9 => format!("{}({a}, {number})", self.random.pick(&["left", "right"])),
            10 => format!("{}({a}, {number}, 'xy')", self.random.pick(&["lpad", "rpad"])),
            11 => format!("concat({a}, {})", self.leaf(Kind::Text, scope)),
            12 => format!("CAST({} AS TEXT)", self.expression(Kind::Int, scope, depth)),
            13 => {
                let kind = self.random.pick(&[Kind::Bool, Kind::Date, Kind::Timestamp]);
                format!("CAST({} AS TEXT)", self.leaf(kind, scope))
            }
            14 => format!("split_part({a}, ',', {})", 1 + self.random.below(2)),
            _ => format!("substring({a} FROM {})", 1 + self.random.below(3)),
        }
    }

    fn date(&mut self, scope: &Scope, depth: usize) -> String {
        let a = self.expression(Kind::Date, scope, depth);
        match self.random.below(5) {
            0 | 1 => format!("({a} {} {})", self.random.pick(&["+", "-"]), self.random.below(40)),
            2 => format!("CAST({} AS DATE)", self.expression(Kind::Timestamp, scope, depth)),
            3 => {
                let unit = self.random.pick(&["month", "year", "week", "quarter"]);
                format!("CAST(date_trunc('{unit}', {a}) AS DATE)")
            }
            _ => format!("CAST({a} + INTERVAL '1 month' AS DATE)"),
        }
    }

    fn timestamp(&mut self, scope: &Scope, depth: usize) -> String {
        let a = self.expression(Kind::Timestamp, scope, depth);
        match self.random.below(4) {
            0 | 1 => {
                let interval = self.random.pick(&["1 hour", "2 days", "1 month", "90 minutes"]);
                format!("({a} {} INTERVAL '{interval}')", self.random.pick(&["+", "-"]))
            }
            2 => format!("CAST({} AS TIMESTAMP)", self.expression(Kind::Date, scope, depth)),
            _ => {
                let unit = self.random.pick(&["hour", "day", "month", "minute", "year"]);
                format!("date_trunc('{unit}', {a})")
            }
        }
    }

    /// Makes a condition over the terms of `scope`.
    pub fn condition(&mut self, scope: &Scope, depth: usize) -> String {
        if self.may_nest() && self.random.chance(14) {
            return self.subquery_condition(scope);
        }
        if depth == 0 {
            return self.comparison(scope, 0);
        }
        let depth = depth - 1;
        match self.random.below(22) {
            0..2 => format!("({} AND {})", self.condition(scope, depth), self.condition(scope, depth)),
            2..6 => format!("({} OR {})", self.condition(scope, depth), self.condition(scope, depth)),
            6 => format!("(NOT {})", self.condition(scope, depth)),
            7 | 8 => {
                let kind = self.kind_of(scope);
                let not = self.random.pick(&["", "NOT "]);
                format!("({} IS {not}NULL)", self.expression(kind, scope, depth))
            }
            9 => {
                let kind = self.kind_of(scope);
                let (a, b) = (self.expression(kind, scope, depth), self.expression(kind, scope, depth));
                format!("({a} IS {}DISTINCT FROM {b})", self.random.pick(&["", "NOT "]))
            }
            10 | 11 => {
                let kind = self.random.pick(&[Kind::Int, Kind::Text, Kind::Date, Kind::Decimal]);
                let a = self.expression(kind, scope, depth);
                let (low, high) = (self.leaf(kind, scope), self.leaf(kind, scope));
                format!("({a} {}BETWEEN {low} AND {high})", self.random.pick(&["", "NOT "]))
            }
            12..14 => {
                let kind = self.kind_of(scope);
                let a = self.expression(kind, scope, depth);
                let mut items: Vec<String> =
                    (0..1 + self.random.below(3)).map(|_| kind.literal(&mut self.random)).collect();
                match self.random.below(5) {
                    0 => items.push("NULL".to_owned()),
                    1 => items.push(self.leaf(kind, scope)),
                    _ => {}
                }
                format!("({a} {}IN ({}))", self.random.pick(&["", "NOT "]), items.join(", "))
            }
            14 | 15 => {
                let a = self.expression(Kind::Text, scope, depth);
                let pattern = self.random.pick(&["a%", "%b%", "_b%", "%", "a", "%c", "", "%é%"]);
                format!("({a} {} '{pattern}')", self.random.pick(&["LIKE", "NOT LIKE", "ILIKE"]))
            }
            16 => {
                let test = self.random.pick(&["TRUE", "NOT TRUE", "FALSE", "NOT FALSE"]);
                format!("({} IS {test})", self.condition(scope, depth))
            }
            17 => self.leaf(Kind::Bool, scope),
            18 => {
                let a = self.expression(Kind::Text, scope, depth);
                format!("starts_with({a}, {})", self.leaf(Kind::Text, scope))
            }
            _ => self.comparison(scope, depth),
        }
    }

    fn comparison(&mut self, scope: &Scope, depth: usize) -> String {
        let kind = self.kind_of(scope);
        let operator = self.random.pick(&COMPARISONS);
        let a = self.expression(kind, scope, depth);
        let other = match kind {
            Kind::Int | Kind::Decimal | Kind::Double if self.random.chance(20) => {
                self.random.pick(&[Kind::Int, Kind::Decimal])
            }
            _ => kind,
        };
        format!("({a} {operator} {})", self.expression(other, scope, depth))
    }
}

/// Converts a term of another kind to `kind`, or returns `None` if we have no conversion.
fn converted(text: &str, from: Kind, kind: Kind) -> Option<String> {
    let converted = match (from, kind) {
        (Kind::Text, Kind::Int) => format!("length({text})"),
        (Kind::Date | Kind::Timestamp, Kind::Int) => format!("CAST(extract(day FROM {text}) AS BIGINT)"),
        (Kind::Bool, Kind::Int) => format!("CAST({text} AS INTEGER)"),
        (Kind::Double, Kind::Int) => format!("CAST(floor({text}) AS BIGINT)"),
        (Kind::Decimal, Kind::Int) => format!("CAST(round({text}) AS BIGINT)"),
        (Kind::Int | Kind::Bool | Kind::Date | Kind::Timestamp, Kind::Text) => format!("CAST({text} AS TEXT)"),
        (Kind::Int, Kind::Decimal) => format!("CAST({text} AS DECIMAL(18, 2))"),
        (Kind::Int | Kind::Decimal, Kind::Double) => format!("CAST({text} AS DOUBLE)"),
        (Kind::Timestamp, Kind::Date) => format!("CAST({text} AS DATE)"),
        (Kind::Date, Kind::Timestamp) => format!("CAST({text} AS TIMESTAMP)"),
        (Kind::Int, Kind::Date) => format!("(DATE '2020-01-01' + CAST({text} % 50 AS INTEGER))"),
        (_, Kind::Bool) => format!("({text} IS NULL)"),
        _ => return None,
    };
    Some(converted)
}
