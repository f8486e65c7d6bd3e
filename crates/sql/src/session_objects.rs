//! Tables and functions that a program adds to its connection: batches of Arrow under a name, scalar functions and
//! table functions.
//!
//! They belong to one connection, like temporary tables, and end with it. A registered table hides a stored table or
//! view of the same name. Functions of SQL cannot be replaced, so that views and defaults keep their meaning.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rowmill_base::{Error, ErrorKind, Result, SqlType};
use rowmill_expr::functions;
use rowmill_expr::kernels::cast::cast;
use rowmill_files::convert::{NotConverted, convert};
use rowmill_plan::{Constant, DynamicFunction, Volatility};
use rowmill_query::catalog::RowSource;
use rowmill_query::memory_rows::MemoryRows;

use crate::names::lower;
use crate::session::Session;

/// Computes a scalar function for a number of rows. The arguments are arrays of that length with the declared types;
/// the result must be one, too.
pub type ScalarBody = Box<dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync>;

/// Computes the rows of a table function. Each argument is a constant, an array of one row.
pub type TableBody = Box<dyn Fn(&[ArrayRef]) -> Result<Vec<RecordBatch>> + Send + Sync>;

/// A scalar function of the program that uses the database.
pub struct HostFunction {
    /// The name, in any case.
    pub name: String,
    /// The types that arguments are cast to.
    pub arguments: Vec<SqlType>,
    /// The type of the result.
    pub result: SqlType,
    /// For how long the function gives the same value for the same arguments.
    pub volatility: Volatility,
    /// Computes the values.
    pub body: ScalarBody,
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl DynamicFunction for HostFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn volatility(&self) -> Volatility {
        self.volatility
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let arguments = arguments.iter().zip(&self.arguments).map(|(values, kind)| cast(values, &kind.arrow(), false));
        let arguments = arguments.collect::<Result<Vec<_>>>().map_err(|error| error.context(&self.name))?;
        let values = (self.body)(&arguments, rows).map_err(|error| error.context(&self.name))?;
        if values.len() == rows && *values.data_type() == self.result.arrow() {
            return Ok(values);
        }
        let found = format!("{} values of the type {}", values.len(), values.data_type());
        let what =
            format!("the function {} must give {rows} values of the type {}, not {found}", self.name, self.result);
        Err(Error::new(ErrorKind::DatatypeMismatch, what))
    }
}

#[derive(Clone)]
struct TableFunction(Arc<TableBody>);

/// The tables and functions of one connection, by name in lower case.
#[derive(Clone, Default)]
pub(crate) struct SessionObjects {
    tables: HashMap<String, Arc<MemoryRows>>,
    functions: HashMap<String, Arc<HostFunction>>,
    table_functions: HashMap<String, TableFunction>,
    /// The parts of the statement that change rows and return none.
    hidden_parts: HashSet<String>,
    /// The values of `SET VARIABLE`.
    variables: HashMap<String, Constant>,
}

/// `getvariable('x')`: the value of a variable.
#[derive(Debug)]
struct VariableFunction(Constant);

impl DynamicFunction for VariableFunction {
    fn name(&self) -> &str {
        VARIABLE_FUNCTION
    }

    fn volatility(&self) -> Volatility {
        Volatility::Stable
    }

    fn evaluate(&self, _arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        take(self.0.array(), &UInt32Array::from(vec![0; rows]), None)
            .map_err(|error| Error::internal(format!("the value of a variable is repeated: {error}")))
    }
}

/// The name of the function that gives the value of a variable.
pub(crate) const VARIABLE_FUNCTION: &str = "getvariable";

impl Session {
    /// Sets a variable, or removes it. Plans hold no values of variables, so cached ones stay.
    pub(crate) fn set_variable(&mut self, name: &str, value: Option<Constant>) {
        let objects = Arc::make_mut(&mut self.objects);
        match value {
            Some(value) => drop(objects.variables.insert(name.to_owned(), value)),
            None => drop(objects.variables.remove(name)),
        }
    }

    /// Removes all variables.
    pub(crate) fn forget_variables(&mut self) {
        Arc::make_mut(&mut self.objects).variables.clear();
    }
}

impl SessionObjects {
    /// Returns the registered table with this name.
    pub(crate) fn table(&self, name: &str) -> Result<Option<Arc<dyn RowSource>>> {
        if self.hidden_parts.contains(name) {
            let what = format!("WITH query \"{name}\" changes rows and returns none");
            return Err(Error::new(ErrorKind::Unsupported, what).hint("give it a RETURNING clause: RETURNING *"));
        }
        Ok(self.tables.get(name).map(|rows| Arc::clone(rows) as Arc<dyn RowSource>))
    }

    /// Adds the rows of a part of the statement.
    pub(crate) fn show_part(&mut self, name: &str, rows: Arc<MemoryRows>) {
        self.hidden_parts.remove(name);
        self.tables.insert(name.to_owned(), rows);
    }

    /// Adds a part of the statement that returns no rows.
    pub(crate) fn hide_part(&mut self, name: &str) {
        self.hidden_parts.insert(name.to_owned());
    }

    /// Returns the function of the variable that `arguments` name, and the type of its value. A variable that is not
    /// set is NULL.
    pub(crate) fn variable(&self, arguments: &[Option<Constant>]) -> Result<(Arc<dyn DynamicFunction>, SqlType)> {
        let [Some(name)] = arguments else {
            let what = format!("{VARIABLE_FUNCTION} takes the name of a variable as a text: {VARIABLE_FUNCTION}('x')");
            return Err(Error::new(ErrorKind::UndefinedFunction, what));
        };
        let value = name.as_text().and_then(|name| self.variables.get(&lower(name)));
        let value = value.filter(|value| *value.kind() != DataType::Null).cloned();
        let value = value.unwrap_or_else(|| Constant::null(&SqlType::TEXT.arrow()));
        let kind = SqlType::from_arrow(value.kind());
        let kind = kind.ok_or_else(|| Error::internal("a variable has a value of an SQL type"))?;
        Ok((Arc::new(VariableFunction(value)), kind))
    }

    /// Returns the scalar function with this name and the type of its result.
    pub(crate) fn scalar_function(
        &self,
        name: &str,
        arguments: usize,
    ) -> Result<Option<(Arc<dyn DynamicFunction>, SqlType)>> {
        let Some(function) = self.functions.get(name) else { return Ok(None) };
        let wanted = function.arguments.len();
        if arguments != wanted {
            let what = format!("the function {} takes {wanted} arguments, but {arguments} are given", function.name);
            return Err(Error::new(ErrorKind::UndefinedFunction, what));
        }
        Ok(Some((Arc::clone(function) as Arc<dyn DynamicFunction>, function.result.clone())))
    }

    /// Returns the rows of a call of the table function with this name.
    pub(crate) fn call_table_function(&self, name: &str, arguments: &[Constant]) -> Result<Option<Arc<dyn RowSource>>> {
        let Some(TableFunction(body)) = self.table_functions.get(name) else { return Ok(None) };
        let arguments: Vec<ArrayRef> = arguments.iter().map(|argument| Arc::clone(argument.array())).collect();
        let batches = body(&arguments).map_err(|error| error.context(name))?;
        let schema = batches.first().map(RecordBatch::schema).ok_or_else(|| {
            let what = format!("the table function {name} gave no batch, so its columns are not known");
            Error::new(ErrorKind::InvalidParameter, what).hint("give a batch without rows")
        })?;
        Ok(Some(converted_rows(format!("{name}()"), &schema, &batches)?))
    }
}

impl fmt::Debug for SessionObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionObjects").field("tables", &self.tables.keys()).finish_non_exhaustive()
    }
}

/// Returns batches of Arrow as rows of queries, in the types of the engine. Columns that have these types are shared,
/// not copied.
pub(crate) fn converted_rows(name: String, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Arc<MemoryRows>> {
    let kinds = schema.fields().iter().map(|field| {
        SqlType::from_arrow(field.data_type()).ok_or_else(|| {
            let what = format!("column {} of {name} has the type {}", field.name(), field.data_type());
            Error::new(ErrorKind::Unsupported, format!("{what}, which SQL does not have"))
        })
    });
    let kinds = kinds.collect::<Result<Vec<SqlType>>>()?;
    let fields = schema.fields().iter().zip(&kinds).map(|(field, kind)| Field::new(field.name(), kind.arrow(), true));
    let own = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches = batches.iter().map(|batch| {
        if batch.schema_ref().fields() != schema.fields() {
            let what = format!("the batches of {name} have different columns");
            return Err(Error::new(ErrorKind::DatatypeMismatch, what));
        }
        let columns = batch.columns().iter().zip(&kinds).zip(schema.fields()).map(|((values, kind), field)| {
            convert(values, kind).map_err(|error| {
                let found = match error {
                    NotConverted::Value(misfit) => format!("the value {}", misfit.text),
                    NotConverted::Types => format!("values of the type {}", values.data_type()),
                };
                let what = format!("column {} of {name} has {found}, which is not {kind}", field.name());
                Error::new(ErrorKind::DatatypeMismatch, what)
            })
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&own), columns, &options)
            .map_err(|error| Error::internal(format!("columns of {name}: {error}")))
    });
    let batches = batches.collect::<Result<Vec<_>>>()?;
    Ok(MemoryRows::of_batches(name, own, batches))
}

impl Session {
    /// Adds batches as a table of this connection, under a name in any case. A table of that name is replaced.
    pub fn register_batches(&mut self, name: &str, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<()> {
        let rows = converted_rows(name.to_owned(), schema, batches)?;
        self.change_objects(|objects| objects.tables.insert(lower(name), rows));
        Ok(())
    }

    /// Removes a table that was registered. Returns whether there was one.
    pub fn unregister(&mut self, name: &str) -> bool {
        self.change_objects(|objects| objects.tables.remove(&lower(name)).is_some())
    }

    /// Adds a scalar function. A registered function of that name is replaced.
    pub fn register_function(&mut self, function: HostFunction) -> Result<()> {
        let name = lower(&function.name);
        if functions::find(&name).is_some() || rowmill_exec::aggregate::find(&name).is_some() {
            let what = format!("SQL has a function {name}, which cannot be replaced");
            return Err(Error::new(ErrorKind::DuplicateObject, what).hint("choose another name"));
        }
        self.change_objects(|objects| objects.functions.insert(name, Arc::new(function)));
        Ok(())
    }

    /// Adds a table function. A registered table function of that name is replaced.
    pub fn register_table_function(&mut self, name: &str, body: TableBody) {
        let function = TableFunction(Arc::new(body));
        self.change_objects(|objects| objects.table_functions.insert(lower(name), function));
    }
}
