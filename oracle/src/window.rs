//! Generates window calls: all functions and all modes of frames.

use crate::generator::Generator;
use crate::kind::Kind;
use crate::scope::Scope;

const LOW: [&str; 4] = ["UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW", "1 FOLLOWING"];
const HIGH: [&str; 4] = ["1 PRECEDING", "CURRENT ROW", "2 FOLLOWING", "UNBOUNDED FOLLOWING"];

impl Generator<'_> {
    /// Makes a window call of `kind` over the rows of `scope`. `named` is a window of the SELECT that only partitions;
    /// the call may extend it.
    pub fn window_call(&mut self, kind: Kind, scope: &Scope, named: Option<&str>) -> String {
        let call = self.plain_window_call(kind, scope, named);
        // A union of DECIMAL(38, 2) and DECIMAL(18, 4) loses digits in DuckDB, so we cast back to few digits.
        match kind == Kind::Decimal && call.starts_with("sum") {
            true => format!("CAST({call} AS DECIMAL(18, 4))"),
            false => call,
        }
    }

    fn plain_window_call(&mut self, kind: Kind, scope: &Scope, named: Option<&str>) -> String {
        let unique = scope.unique.clone().filter(|_| self.random.chance(70));
        let partition = match (named, self.random.below(3)) {
            (Some(name), 0 | 1) => format!("{name} "),
            (_, 0) => String::new(),
            _ => {
                let of = self.kind_of(scope);
                format!("PARTITION BY {} ", self.window_term(of, scope))
            }
        };
        if let Some(unique) = unique {
            let order = self.total_order(scope, &unique);
            let (call, framed) = self.call_in_total_order(kind, scope);
            let frame = if framed { self.rows_frame() } else { String::new() };
            return format!("{call} OVER ({partition}ORDER BY {order}{frame})");
        }
        self.call_among_peers(kind, scope, &partition)
    }

    /// Makes a term of `scope`. Other expressions in windows are computed below the window.
    fn window_term(&mut self, kind: Kind, scope: &Scope) -> String {
        self.flat(|this| {
            if this.random.chance(75) {
                this.leaf(kind, &scope.alone())
            } else {
                this.expression(kind, &scope.alone(), 1)
            }
        })
    }

    /// Makes a call whose answer depends on the order of rows. Also returns whether a frame may follow.
    fn call_in_total_order(&mut self, kind: Kind, scope: &Scope) -> (String, bool) {
        let value = self.window_term(kind, scope);
        let nulls = self.random.pick(&["", "", "", " IGNORE NULLS", " RESPECT NULLS"]);
        match self.random.below(10) {
            0 | 1 if kind == Kind::Int => {
                let call = self.random.pick(&["row_number()", "ntile(3)", "rank()", "dense_rank()"]);
                (call.to_owned(), false)
            }
            2 | 3 => (format!("{}({value}{nulls})", self.random.pick(&["first_value", "last_value"])), true),
            4 => (format!("nth_value({value}, {})", 1 + self.random.below(3)), true),
            5 => {
                let name = self.random.pick(&["lag", "lead"]);
                (format!("{name}({value}{nulls})"), false)
            }
            6 => {
                let name = self.random.pick(&["lag", "lead"]);
                // DuckDB casts the default to the type of the value. Rowmill and PostgreSQL give both a common type.
                let default = match kind {
                    Kind::Decimal => "1".to_owned(),
                    kind => kind.literal(&mut self.random),
                };
                (format!("{name}({value}, {}, {default})", self.random.below(4)), false)
            }
            _ => (self.plain_aggregate(kind, scope), true),
        }
    }

    /// Makes a call that has one answer, no matter how rows with equal keys are ordered.
    fn call_among_peers(&mut self, kind: Kind, scope: &Scope, partition: &str) -> String {
        let of = self.kind_of(scope);
        let key = self.window_term(of, scope);
        let order = format!("ORDER BY {key}{}", self.direction());
        if kind == Kind::Int && self.random.chance(40) {
            let call = self.random.pick(&["rank()", "dense_rank()"]);
            return format!("{call} OVER ({partition}{order})");
        }
        if kind == Kind::Double && self.random.chance(40) {
            let call = self.random.pick(&["percent_rank()", "cume_dist()"]);
            return format!("{call} OVER ({partition}{order})");
        }
        let call = self.plain_aggregate(kind, scope);
        match self.random.below(4) {
            0 => format!("{call} OVER ({})", partition.trim_end()),
            1 => format!("{call} OVER ({partition}{order})"),
            2 => format!("{call} OVER ({partition}{order}{})", self.frame("GROUPS")),
            _ => {
                let number = self.range_key(scope);
                let direction = self.direction();
                format!("{call} OVER ({partition}ORDER BY {number}{direction}{})", self.frame("RANGE"))
            }
        }
    }

    /// Makes a number from which RANGE counts a frame's bounds. It is signed, because the engines differ for a bound
    /// below zero.
    fn range_key(&mut self, scope: &Scope) -> String {
        let kind = self.random.pick(&[Kind::Int, Kind::Int, Kind::Double, Kind::Decimal]);
        let key = self.window_term(kind, scope);
        match kind {
            Kind::Int => format!("CAST({key} AS BIGINT)"),
            _ => format!("CAST({key} AS {})", kind.type_name()),
        }
    }

    fn plain_aggregate(&mut self, kind: Kind, scope: &Scope) -> String {
        let value = self.window_term(kind, scope);
        let call = match (kind, self.random.below(6)) {
            (Kind::Int, 0) => "count(*)".to_owned(),
            (Kind::Int, 1) => {
                let of = self.kind_of(scope);
                format!("count({})", self.window_term(of, scope))
            }
            (Kind::Int | Kind::Decimal | Kind::Double, 2 | 3) => format!("sum({value})"),
            (Kind::Bool, 0) => format!("bool_and({value})"),
            (Kind::Bool, 1) => format!("bool_or({value})"),
            (_, number) => format!("{}({value})", if number % 2 == 0 { "min" } else { "max" }),
        };
        match self.random.chance(12) {
            true => {
                let condition = self.flat(|this| this.condition(&scope.alone(), 0));
                format!("{call} FILTER (WHERE {condition})")
            }
            false => call,
        }
    }

    fn rows_frame(&mut self) -> String {
        match self.random.below(3) {
            0 => String::new(),
            1 => self.frame("ROWS"),
            _ => self.frame("GROUPS"),
        }
    }

    fn frame(&mut self, mode: &str) -> String {
        if self.random.chance(15) {
            return format!(" {mode} {}", self.random.pick(&["UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW"]));
        }
        // A frame that ends before it begins is empty, but some engines refuse it if its words already show that.
        let low = self.random.below(LOW.len());
        let high = match low {
            3 => 2 + self.random.below(2),
            2 => 1 + self.random.below(3),
            _ => self.random.below(HIGH.len()),
        };
        format!(" {mode} BETWEEN {} AND {}", LOW[low], HIGH[high])
    }
}
