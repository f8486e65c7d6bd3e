//! Functions that read files: `read_csv('events-*.csv', header = true)`.

use arrow::datatypes::DataType;
use rowmill_base::{Error, ErrorKind, Result};
use rowmill_expr::kernels::cast::cast;
use rowmill_plan::Constant;
use sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, Ident, TableAlias};

use super::Binder;
use super::from::FromPart;
use super::place::{start_of, unsupported};
use super::scope::ScopeRelation;
use crate::catalog::{FileCall, FileOption};

impl Binder<'_> {
    /// Binds a call of a function that reads files.
    pub(super) fn file_function(
        &mut self,
        ident: &Ident,
        args: &[FunctionArg],
        ordinality: bool,
        alias: Option<&TableAlias>,
    ) -> Result<FromPart> {
        if ordinality {
            return Err(unsupported(format!("WITH ORDINALITY of {}", ident.value)));
        }
        let mut call = FileCall { function: ident.value.clone(), files: Vec::new(), options: Vec::new() };
        for arg in args {
            match named_argument(arg) {
                (Some(name), Some(value)) => {
                    let value = self.file_option(value)?;
                    call.options.push((name.value.clone(), value));
                }
                (None, Some(files)) if call.files.is_empty() => {
                    call.files = match self.file_option(files)? {
                        FileOption::Text(file) => vec![file],
                        FileOption::List(files) => files,
                        FileOption::Pairs(_) => Vec::new(),
                    };
                }
                _ => {
                    let message = format!("{} takes a path or a list of paths, then name = value", ident.value);
                    return Err(self.at(Error::new(ErrorKind::Syntax, message), ident.span));
                }
            }
        }
        if call.files.is_empty() {
            let error = Error::new(ErrorKind::Syntax, format!("{} takes the path of a file", ident.value));
            return Err(self.at(error.hint(format!("for example {}('folder/*.csv')", ident.value)), ident.span));
        }
        let source = self.catalog.file_rows(&call).map_err(|error| self.at(error, ident.span))?;
        self.sources.push(source);
        let (plan, columns) = self.source(self.sources.len() - 1);
        let relation = ScopeRelation::new(Some(&ident.value), columns);
        self.aliased(plan, relation, alias)
    }

    /// The value of an option: a constant, a list of constants, or `{'name': constant}`.
    fn file_option(&mut self, value: &Expr) -> Result<FileOption> {
        Ok(match value {
            Expr::Dictionary(fields) => {
                let mut pairs = Vec::with_capacity(fields.len());
                for field in fields {
                    pairs.push((self.spelled(&field.key), self.text_option(&field.value)?));
                }
                FileOption::Pairs(pairs)
            }
            Expr::Array(list) => {
                FileOption::List(list.elem.iter().map(|item| self.text_option(item)).collect::<Result<_>>()?)
            }
            one => FileOption::Text(self.text_option(one)?),
        })
    }

    fn text_option(&mut self, value: &Expr) -> Result<String> {
        // A bare word is the name of a column and not a text.
        if let Expr::Identifier(name) = value {
            let message =
                format!("the arguments of a function that reads files must be constants, but {name} is a name");
            return Err(self.at(Error::new(ErrorKind::Unsupported, message).hint("write a text in quotes"), name.span));
        }
        let constant = self.constant_argument(value)?;
        let text = Constant::new(cast(constant.array(), &DataType::Utf8View, false)?);
        text.as_text().map(str::to_owned).ok_or_else(|| {
            self.at(Error::new(ErrorKind::InvalidParameter, "an option of a file cannot be NULL"), start_of(value))
        })
    }
}

/// The name and the value of `name = value`, `name := value` and `name => value`, or the value alone.
fn named_argument(arg: &FunctionArg) -> (Option<&Ident>, Option<&Expr>) {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
            match &**left {
                Expr::Identifier(name) => (Some(name), Some(right)),
                _ => (None, None),
            }
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (None, Some(value)),
        FunctionArg::Named {
            name,
            arg: FunctionArgExpr::Expr(value),
            operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
        } => (Some(name), Some(value)),
        _ => (None, None),
    }
}
