//! The interface between the binder and the database that runs a statement.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Cancel, Error, ErrorKind, Result, SqlType, ViewId};
use rowmill_exec::batch::BatchSource;
use rowmill_plan::{Constant, DynamicFunction, Predicate};
use rowmill_storage::TableSource;
use sqlparser::ast;

use crate::binder::RelationRead;

/// A name in lower case, with its schema if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelationName {
    /// The database, if it is another one than that of the statement.
    pub database: Option<String>,
    /// The schema; none for a bare name.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
}

/// The relation that a name refers to.
#[derive(Clone, Debug)]
pub enum CatalogRelation {
    /// A stored table in the snapshot of the statement.
    Table(Arc<dyn TableSource>),
    /// A view.
    View(CatalogView),
    /// Rows of another source: a file or a system view.
    Source(Arc<dyn RowSource>),
}

/// A view: its text, parsed.
#[derive(Clone, Debug)]
pub struct CatalogView {
    /// Identifies the view.
    pub id: ViewId,
    /// The name as spelled.
    pub name: String,
    /// The query.
    pub query: Box<ast::Query>,
    /// The names of its columns as spelled. If there are fewer than columns, the query names the rest.
    pub columns: Vec<String>,
    /// How its text spells names.
    pub spelling: ViewSpelling,
}

/// How the text of a view spells names.
#[derive(Clone)]
pub struct ViewSpelling(Arc<dyn Fn(&ast::Ident) -> String + Send + Sync>);

impl ViewSpelling {
    /// Spells the names of a view's query with `spell`.
    pub fn new(spell: impl Fn(&ast::Ident) -> String + Send + Sync + 'static) -> ViewSpelling {
        ViewSpelling(Arc::new(spell))
    }

    /// The name as the text of the view spells it.
    pub fn of(&self, ident: &ast::Ident) -> String {
        (self.0)(ident)
    }
}

impl fmt::Debug for ViewSpelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ViewSpelling")
    }
}

/// A source of rows that is not a stored table.
pub trait RowSource: Send + Sync + fmt::Debug {
    /// The columns, with names as spelled.
    fn schema(&self) -> &SchemaRef;

    /// The text that EXPLAIN shows, for example the name of the file.
    fn name(&self) -> &str;

    /// The number of rows, if it is known.
    fn row_count(&self) -> Option<u64> {
        None
    }

    /// Opens the rows with the columns at `columns`, in that order. The source may leave out rows for which a predicate
    /// is not true, but it need not: the caller must check all predicates again. A batch must have at most `batch_rows`
    /// rows.
    fn open(
        &self,
        columns: &[usize],
        predicates: &[Predicate],
        batch_rows: usize,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Arc<dyn BatchSource>>;
}

/// A macro: an expression or query with parameters, parsed.
#[derive(Clone, Debug)]
pub struct CatalogMacro {
    /// The name as spelled.
    pub name: String,
    /// The parameters in the order of a call.
    pub parameters: Vec<CatalogParameter>,
    /// The type that the value is cast to.
    pub result: Option<ast::DataType>,
    /// The expression or query.
    pub body: MacroBody,
}

/// A parameter of a macro.
#[derive(Clone, Debug)]
pub struct CatalogParameter {
    /// The name in lower case.
    pub name: String,
    /// The type that arguments are cast to.
    pub kind: Option<ast::DataType>,
    /// The value if a call gives none.
    pub default: Option<ast::Expr>,
}

/// What a call of a macro stands for.
#[derive(Clone, Debug)]
pub enum MacroBody {
    /// A value.
    Expr(Box<ast::Expr>),
    /// Rows, for a call in FROM.
    Query(Box<ast::Query>),
}

/// A call of a function that reads files.
#[derive(Clone, Debug)]
pub struct FileCall {
    /// The name of the function.
    pub function: String,
    /// The paths or patterns of the files.
    pub files: Vec<String>,
    /// The options by name, in the order of the call.
    pub options: Vec<(String, FileOption)>,
}

/// The value of an option of a function that reads files, as texts.
#[derive(Clone, Debug)]
pub enum FileOption {
    /// A constant.
    Text(String),
    /// A list of constants.
    List(Vec<String>),
    /// Constants with names, for example the types of columns.
    Pairs(Vec<(String, String)>),
}

/// Levels of an expression at most, by default.
pub(crate) const EXPRESSION_DEPTH_DEFAULT: usize = 1_000;

/// The database that runs a statement.
pub trait QueryCatalog {
    /// Finds a relation by name. Returns an error if the schema does not exist or a file cannot be read.
    fn relation(&self, name: &RelationName) -> Result<Option<CatalogRelation>>;

    /// The name of the database that names without a database mean.
    fn database_name(&self) -> &str {
        "rowmill"
    }

    /// The relation names that a message about an unknown name may suggest.
    fn relation_names(&self) -> Vec<String>;

    /// Finds a table function of the database, such as `rowmill_storage('hits')`, by name.
    fn table_function(&self, name: &str, arguments: &[Constant]) -> Result<Option<Arc<dyn RowSource>>>;

    /// Finds a macro by its name in lower case.
    fn macro_named(&self, _name: &str) -> Result<Option<CatalogMacro>> {
        Ok(None)
    }

    /// Finds a type that a statement has made, by its name in any case.
    fn type_named(&self, _name: &str) -> Result<Option<SqlType>> {
        Ok(None)
    }

    /// Whether a table function reads files: see [`QueryCatalog::file_rows`].
    fn reads_files(&self, _function: &str) -> bool {
        false
    }

    /// Opens the files of a call such as `read_csv('events-*.csv', header = true)`.
    fn file_rows(&self, call: &FileCall) -> Result<Arc<dyn RowSource>> {
        Err(Error::new(ErrorKind::Unsupported, format!("{} is not supported here", call.function)))
    }

    /// Runs a query of one column while another one is bound, and returns its values as texts. PIVOT needs it to name
    /// its columns.
    fn texts_now(&self, _query: &ast::Query) -> Result<Vec<String>> {
        Err(Error::new(ErrorKind::Unsupported, "PIVOT without IN is not supported here")
            .hint("list the values with IN"))
    }

    /// Finds a scalar function that belongs to the statement or its database, such as `nextval`, with its result type.
    /// Returns `None` if no function has that name for these arguments.
    fn dynamic_function(
        &self,
        name: &str,
        arguments: &[Option<Constant>],
    ) -> Result<Option<(Arc<dyn DynamicFunction>, SqlType)>>;

    /// Levels of an expression at most (`expression_depth_max`). The stack of the caller must be large enough for them.
    fn expression_depth_max(&self) -> usize {
        EXPRESSION_DEPTH_DEFAULT
    }

    /// Whether [`QueryCatalog::check_reads`] must see what statements read.
    fn checks_reads(&self) -> bool {
        false
    }

    /// Checks what a statement reads, after it was bound. Returns an error if the statement may not read it.
    fn check_reads(&self, _reads: &[RelationRead]) -> Result<()> {
        Ok(())
    }

    /// The result of `now()` in microseconds since 1970-01-01 UTC: the time when the transaction began.
    fn now_us(&self) -> i64;

    /// The number of the parameter that each run sets to the result of `now()`, as a TIMESTAMP WITH TIME ZONE. A plan
    /// with this parameter serves all transactions. Returns `None` if the plan should contain [`QueryCatalog::now_us`].
    fn clock_parameter(&self) -> Option<usize> {
        None
    }
}
