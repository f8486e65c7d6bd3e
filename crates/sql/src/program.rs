//! Statements on keyed tables as programs, which run without a planner.
//!
//! ```text
//! syntax tree -> bound, as every statement is, with parameters of the types of the values given
//!             -> analysed under our rules, so that each operator has its types
//!             -> tables, conditions and expressions over their columns
//!             -> which key is read by (access.rs), what is computed (scalar.rs): rowmill_plan::program
//! ```
//!
//! A parameter has the type of the value that it is given, as a literal in its place has, so that a program answers as the same
//! statement with literals does. There is one program for each list of types; a NULL is a literal in it.
//!
//! What a program cannot do is not an error: there is none, and the statement runs as every other one.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use rowmill_base::{Result, SqlType, TimeUnit};
use rowmill_plan::program::Program;
use rowmill_txn::Snapshot;
use sqlparser::ast;

use crate::session::Work;

/// What a parameter is given, as far as a program depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterKind {
    /// NULL
    Null,
    /// A truth value.
    Boolean,
    /// A BIGINT.
    Integer,
    /// A DOUBLE.
    Double,
    /// A TEXT.
    Text,
    /// A BLOB.
    Blob,
    /// A DECIMAL of any digits with so many behind the point.
    Decimal(u8),
    /// A TIMESTAMP of microseconds.
    Timestamp,
}

impl ParameterKind {
    /// The type of a value that is not NULL.
    pub(crate) fn sql_type(self) -> Option<SqlType> {
        Some(match self {
            ParameterKind::Null => return None,
            ParameterKind::Boolean => SqlType::Boolean,
            ParameterKind::Integer => SqlType::Int64,
            ParameterKind::Double => SqlType::Float64,
            ParameterKind::Text => SqlType::TEXT,
            ParameterKind::Blob => SqlType::Blob,
            ParameterKind::Decimal(scale) => SqlType::Decimal { precision: 38, scale },
            ParameterKind::Timestamp => SqlType::Timestamp { unit: TimeUnit::Microsecond, zoned: false },
        })
    }
}

/// A statement as a program.
#[derive(Clone, Debug)]
pub struct StatementProgram {
    /// What it does.
    pub program: Program,
    /// The columns of its result, named as spelled; none if it gives no rows.
    pub schema: Option<SchemaRef>,
    /// What the statement is, as drivers show it: `INSERT`, `UPDATE`, `DELETE`, `SELECT`.
    pub tag: &'static str,
}

impl Work<'_> {
    /// The statement as a program for the definitions of `snapshot`, if it is one.
    pub(crate) fn program(
        &self,
        _snapshot: &Arc<Snapshot>,
        _parameters: &[ParameterKind],
    ) -> Result<Option<StatementProgram>> {
        Ok(None)
    }

    /// An `INSERT` that this statement makes for itself as a program, with parameters of these types.
    pub(crate) fn insert_program(
        &self,
        _snapshot: &Arc<Snapshot>,
        _insert: &ast::Insert,
        _parameters: &[Option<SqlType>],
    ) -> Result<Option<StatementProgram>> {
        Ok(None)
    }
}
