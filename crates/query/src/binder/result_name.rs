//! The name of a column without an alias: the text of its expression in a normal form.
//!
//! A column is written without its table and in the spelling of its table. A cast has the name of its operand, and a
//! window function that of its call: `lag(price)`. Parentheses appear only if the operators need them.

use sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident};

/// The name of a column that is computed by `expr`. `spelling` gives the spelling of a column name.
pub(super) fn result_name(expr: &Expr, spelling: &dyn Fn(&str) -> Option<String>) -> String {
    let mut writer = NameWriter { out: String::new(), spelling };
    writer.expr(expr);
    writer.out
}

struct NameWriter<'s> {
    out: String,
    spelling: &'s dyn Fn(&str) -> Option<String>,
}

/// The precedence of an operator; higher binds tighter.
fn tightness(op: &BinaryOperator) -> u8 {
    match op {
        BinaryOperator::Or => 1,
        BinaryOperator::And => 2,
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq => 3,
        BinaryOperator::Plus | BinaryOperator::Minus => 5,
        BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => 6,
        _ => 4,
    }
}

impl NameWriter<'_> {
    fn name(&mut self, ident: &Ident) {
        match (self.spelling)(&ident.value) {
            Some(spelled) => self.out.push_str(&spelled),
            None => self.out.push_str(&ident.value),
        }
    }

    /// The right operand of an operator.
    fn operand(&mut self, expr: &Expr, own: u8) {
        let inner = strip(expr);
        let needs = matches!(inner, Expr::BinaryOp { op, .. } if tightness(op) <= own);
        if needs {
            self.out.push('(');
            self.expr(inner);
            self.out.push(')');
        } else {
            self.expr(inner);
        }
    }

    /// Writes binary operators. Long chains are nested on the left, so we follow them in a loop.
    fn chain(&mut self, expr: &Expr) {
        let mut rest = Vec::new();
        let mut at = expr;
        while let Expr::BinaryOp { left, op, right } = at {
            rest.push((op, &**right));
            at = strip(left);
        }
        let start = self.out.len();
        self.expr(at);
        let mut before = u8::MAX;
        while let Some((op, right)) = rest.pop() {
            if before < tightness(op) {
                self.out.insert(start, '(');
                self.out.push(')');
            }
            before = tightness(op);
            self.out.push_str(&format!(" {op} "));
            self.operand(right, before);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match strip(expr) {
            Expr::Identifier(ident) => self.name(ident),
            Expr::CompoundIdentifier(parts) => {
                if let Some(last) = parts.last() {
                    self.name(last);
                }
            }
            chain @ Expr::BinaryOp { .. } => self.chain(chain),
            Expr::Function(call) => self.call(call),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.out.push_str("CASE");
                if let Some(operand) = operand {
                    self.out.push(' ');
                    self.expr(operand);
                }
                for when in conditions {
                    self.out.push_str(" WHEN ");
                    self.expr(&when.condition);
                    self.out.push_str(" THEN ");
                    self.expr(&when.result);
                }
                if let Some(otherwise) = else_result {
                    self.out.push_str(" ELSE ");
                    self.expr(otherwise);
                }
                self.out.push_str(" END");
            }
            Expr::IsNull(value) => {
                self.expr(value);
                self.out.push_str(" IS NULL");
            }
            Expr::IsNotNull(value) => {
                self.expr(value);
                self.out.push_str(" IS NOT NULL");
            }
            Expr::Exists { negated, .. } => {
                self.out.push_str(if *negated { "NOT EXISTS (<subquery>)" } else { "EXISTS (<subquery>)" });
            }
            Expr::TypedString(typed) => self.out.push_str(&typed.value.value.to_string()),
            Expr::UnaryOp { op, expr } => {
                self.out.push_str(&op.to_string());
                if matches!(op, sqlparser::ast::UnaryOperator::Not) {
                    self.out.push(' ');
                }
                self.operand(expr, 7);
            }
            other => self.raw(&other.to_string()),
        }
    }

    /// Writes text in which column names outside of quotes get the spelling of their column and lose their table.
    fn raw(&mut self, text: &str) {
        let mut rest = text;
        let mut quoted = false;
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|ch: char| !ch.is_alphanumeric() && ch != '_').unwrap_or(rest.len());
            let (piece, after) = rest.split_at(word.max(first.len_utf8()));
            rest = after;
            quoted ^= first == '\'';
            let is_name = !quoted && (first.is_alphabetic() || first == '_');
            match after.strip_prefix('.') {
                Some(column) if is_name && column.starts_with(|ch: char| ch.is_alphabetic() || ch == '_') => {
                    rest = column;
                }
                _ if is_name && !after.starts_with('(') => match (self.spelling)(piece) {
                    Some(spelled) => self.out.push_str(&spelled),
                    None => self.out.push_str(piece),
                },
                _ => self.out.push_str(piece),
            }
        }
    }

    fn call(&mut self, call: &Function) {
        let FunctionArguments::List(list) = &call.args else {
            self.out.push_str(&call.to_string());
            return;
        };
        self.out.push_str(&call.name.to_string());
        self.out.push('(');
        if let Some(treatment) = &list.duplicate_treatment {
            self.out.push_str(&format!("{treatment} "));
        }
        for (place, arg) in list.args.iter().enumerate() {
            if place > 0 {
                self.out.push_str(", ");
            }
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr),
                other => self.out.push_str(&other.to_string()),
            }
        }
        for clause in &list.clauses {
            self.raw(&format!(" {clause}"));
        }
        self.out.push(')');
        if !call.within_group.is_empty() {
            let order: Vec<String> = call.within_group.iter().map(ToString::to_string).collect();
            self.raw(&format!(" WITHIN GROUP (ORDER BY {})", order.join(", ")));
        }
        if let Some(filter) = &call.filter {
            self.out.push_str(" FILTER (WHERE ");
            self.expr(filter);
            self.out.push(')');
        }
        if let Some(treatment) = &call.null_treatment {
            self.out.push_str(&format!(" {treatment}"));
        }
        // The window is left out: a name should be short, and the windows of most statements are alike.
    }
}

/// The expression without enclosing parentheses and casts.
fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => strip(inner),
        Expr::Cast { expr, .. } => strip(expr),
        other => other,
    }
}
