//! The one error type of the engine.
//!
//! An error has a kind. Kinds differ by the thing that a caller can do about the failure. Each kind has an SQLSTATE,
//! so that drivers and scripts never need to parse the text. The message says what was asked and what was found. The
//! hint says what helps. The place of damage and the error below ours are fields, for the same reason.

use std::fmt;
use std::sync::Arc;

use crate::BlockId;

/// The result of an operation that can fail for an external reason, not because of a bug.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $sqlstate:literal,)*) => {
        /// The reason of an error, as far as a caller can act on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $name,)* }

        impl ErrorKind {
            /// The five-character SQLSTATE of this kind.
            pub fn sqlstate(self) -> &'static str {
                match self { $(ErrorKind::$name => $sqlstate,)* }
            }
        }
    };
}

kinds! {
    /// The statement's text cannot be parsed.
    Syntax = "42601",
    /// No table or view has this name.
    UndefinedTable = "42P01",
    /// No column has this name.
    UndefinedColumn = "42703",
    /// A name fits more than one column.
    AmbiguousColumn = "42702",
    /// A column is used outside of GROUP BY and aggregates, or an aggregate where none is allowed.
    Grouping = "42803",
    /// No function has this name, or none accepts these arguments.
    UndefinedFunction = "42883",
    /// No schema has this name.
    UndefinedSchema = "3F000",
    /// No attached database has this name.
    UndefinedDatabase = "3D000",
    /// A database with this name is attached already.
    DuplicateDatabase = "42P04",
    /// No setting, parameter or other object has this name.
    UndefinedObject = "42704",
    /// A file that a statement names does not exist or cannot be read.
    UndefinedFile = "58P01",
    /// The table or view already exists.
    DuplicateTable = "42P07",
    /// The column already exists.
    DuplicateColumn = "42701",
    /// The index or constraint already exists.
    DuplicateObject = "42710",
    /// The schema already exists.
    DuplicateSchema = "42P06",
    /// Something else depends on the object.
    DependentObjects = "2BP01",
    /// The object exists but has another kind, for example a view where a table is needed.
    WrongObject = "42809",
    /// Two types are not compatible.
    DatatypeMismatch = "42804",
    /// The definition of a table cannot be used.
    InvalidDefinition = "42P16",
    /// A number of values, names or columns does not match.
    CardinalityViolation = "21000",
    /// A text is not a value of the type asked for.
    InvalidText = "22P02",
    /// A line of a file does not follow the file's format.
    BadFileFormat = "22P04",
    /// A date or time cannot be read.
    InvalidDatetime = "22007",
    /// An argument is outside of the range that the function accepts.
    InvalidParameter = "22023",
    /// A number does not fit its type.
    NumericOutOfRange = "22003",
    /// A sequence has no values left.
    SequenceLimit = "2200H",
    /// A connection asks for the last number of a sequence and has not taken one.
    NoSequenceNumber = "55000",
    /// A statement gives a value for a column whose values only its sequence or expression may give.
    GeneratedAlways = "428C9",
    /// Division by zero.
    DivisionByZero = "22012",
    /// A text is longer than its column allows.
    StringTooLong = "22001",
    /// A NOT NULL column got NULL.
    NotNullViolation = "23502",
    /// Two rows have the same key where keys must be unique.
    UniqueViolation = "23505",
    /// A CHECK constraint is false for a row.
    CheckViolation = "23514",
    /// A row refers to a row that does not exist, or a row that other rows refer to would disappear.
    ForeignKeyViolation = "23503",
    /// The role that runs the statement lacks a right, or is not the owner of the object.
    InsufficientPrivilege = "42501",
    /// The client must log in first, or its role no longer exists.
    InvalidAuthorization = "28000",
    /// BEGIN inside a transaction.
    ActiveTransaction = "25001",
    /// COMMIT or ROLLBACK outside of a transaction.
    NoActiveTransaction = "25P01",
    /// An earlier statement of the transaction failed.
    FailedTransaction = "25P02",
    /// A write where only reads are allowed.
    ReadOnly = "25006",
    /// Another transaction committed first. The caller should run this transaction again.
    SerializationFailure = "40001",
    /// NOWAIT asks for a row that another transaction has locked.
    NotAvailable = "55P03",
    /// Two transactions wait for each other. The caller should run this transaction again.
    Deadlock = "40P01",
    /// The statement is valid SQL that this version does not run.
    Unsupported = "0A000",
    /// The statement is longer or deeper than the limits allow.
    StatementTooComplex = "54001",
    /// A result would be larger than the limits allow.
    ResultTooLarge = "54000",
    /// A key has more bytes than the ordered base can store.
    KeyTooLong = "54000",
    /// The memory limit was reached.
    MemoryLimit = "53200",
    /// The quota for temporary files, or the disk itself, is full.
    DiskFull = "53100",
    /// A server runs, and lets wait, as many statements as it may.
    TooManyStatements = "53400",
    /// The process or the system cannot open more files.
    OpenFiles = "53000",
    /// Another process holds the directory.
    Locked = "55006",
    /// The caller cancelled the statement.
    Cancelled = "57014",
    /// The statement's deadline passed.
    Deadline = "57P05",
    /// The operating system refused an I/O call.
    Io = "58030",
    /// The directory was written by a newer version.
    NewerFormat = "58000",
    /// Stored bytes are not what was written.
    Corrupt = "XX001",
    /// A bug: a statement panicked or broke an invariant. The database stays usable.
    Internal = "XX000",
}

/// The place of damage in stored data, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagePlace {
    /// The damaged file: a whole path, or a path within the directory of the database.
    pub file: Option<String>,
    /// The block of a table.
    pub block: Option<BlockId>,
    /// Where in the file the damaged chunk, page or record begins.
    pub offset: Option<u64>,
}

/// A place in the text of a statement. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// The rule of a table that a row would break, for programs that react to it. The message says it for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokenRule {
    /// The table.
    pub table: String,
    /// The constraint, if the rule has a name.
    pub constraint: Option<String>,
    /// The column that must not be NULL.
    pub column: Option<String>,
}

/// An error: its kind, the message that says what happened, and a hint if something helps.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    place: DamagePlace,
    position: Option<TextPosition>,
    broken: Option<BrokenRule>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error of `kind`. The message should say what was asked and what was found.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            place: DamagePlace::default(),
            position: None,
            broken: None,
            source: None,
        }))
    }

    /// Makes an error for a bug. The message should name the broken invariant.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message)
    }

    /// Makes an error for stored bytes that are not what was written. The code that knows the place should add it
    /// ([`Error::in_file`], [`Error::in_block`], [`Error::at_offset`]).
    pub fn corrupt(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corrupt, message)
    }

    /// Makes an error for an I/O call that failed on `what`, which should be the call and a path.
    pub fn io(what: impl fmt::Display, source: &std::io::Error) -> Self {
        let kind = match source.raw_os_error() {
            // ENOSPC and EDQUOT: the only failure that goes away by itself when space becomes free.
            Some(28 | 122) => ErrorKind::DiskFull,
            // ENFILE and EMFILE.
            Some(23 | 24) => ErrorKind::OpenFiles,
            _ => ErrorKind::Io,
        };
        // `io::Error` cannot be cloned.
        let copy = match source.raw_os_error() {
            Some(code) => std::io::Error::from_raw_os_error(code),
            None => std::io::Error::new(source.kind(), source.to_string()),
        };
        let error = Error::new(kind, format!("{what}: {source}")).caused_by(copy);
        match kind {
            ErrorKind::OpenFiles => {
                error.hint("the limit of open files is reached: raise it (ulimit -n), or close some files")
            }
            _ => error,
        }
    }

    /// Makes an error for a directory whose format is newer than this program can read.
    pub fn newer_format(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NewerFormat, message)
            .hint("a newer version of Rowmill wrote this directory; open it with that version")
    }

    /// Adds a hint, which should be one sentence that says what helps.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Puts `context: ` in front of the message. The context should say where the error happened.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Sets the error below this one, for [`source`](std::error::Error::source). The message should contain its text.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Sets the place in the statement's text where the error is. The message should name it too, because most callers
    /// show only the message.
    #[must_use]
    pub fn at_position(mut self, position: TextPosition) -> Self {
        self.0.position = Some(position);
        self
    }

    /// Sets the constraint that a row would break.
    #[must_use]
    pub fn breaks(mut self, table: impl Into<String>, constraint: impl Into<String>) -> Self {
        let constraint = Some(constraint.into());
        self.0.broken = Some(BrokenRule { table: table.into(), constraint, column: None });
        self
    }

    /// Sets the column that would be NULL and must not be.
    #[must_use]
    pub fn breaks_not_null(mut self, table: impl Into<String>, column: impl Into<String>) -> Self {
        let column = Some(column.into());
        self.0.broken = Some(BrokenRule { table: table.into(), constraint: None, column });
        self
    }

    /// The rule that a row would break, if the error is about one.
    pub fn broken_rule(&self) -> Option<&BrokenRule> {
        self.0.broken.as_ref()
    }

    /// Sets the file of the damage, unless code that is closer to it has set one.
    #[must_use]
    pub fn in_file(mut self, file: impl fmt::Display) -> Self {
        self.0.place.file.get_or_insert_with(|| file.to_string());
        self
    }

    /// Sets the block of the damage, unless code that is closer to it has set one.
    #[must_use]
    pub fn in_block(mut self, block: BlockId) -> Self {
        self.0.place.block.get_or_insert(block);
        self
    }

    /// Sets the place of the damage in its file, unless code that is closer to it has set one.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.place.offset.get_or_insert(offset);
        self
    }

    /// Removes the place in the statement's text, also from the message. An error about another text, for example that
    /// of a view, must not point into the statement.
    #[must_use]
    pub fn without_position(mut self) -> Self {
        if let Some(TextPosition { line, column }) = self.0.position.take() {
            self.0.message = self.0.message.replace(&format!(" (line {line}, column {column})"), "");
        }
        self
    }

    /// The place of the damage. `None` unless the kind is [`ErrorKind::Corrupt`].
    pub fn damage(&self) -> Option<&DamagePlace> {
        (self.0.kind == ErrorKind::Corrupt).then_some(&self.0.place)
    }

    /// The place in the statement's text where the error is, if it is known.
    pub fn position(&self) -> Option<TextPosition> {
        self.0.position
    }

    /// The kind, which tells a caller how to react.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The SQLSTATE of the kind.
    pub fn sqlstate(&self) -> &'static str {
        self.0.kind.sqlstate()
    }

    /// The message without the hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The hint, if there is one.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl PartialEq for Error {
    /// Whether two errors say the same. Their sources need not be equal, because most errors of the system cannot be
    /// compared.
    fn eq(&self, other: &Self) -> bool {
        let (own, other) = (&self.0, &other.0);
        (own.kind, &own.message, &own.hint, &own.place) == (other.kind, &other.message, &other.hint, &other.place)
    }
}

impl Eq for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.hint {
            Some(hint) => write!(f, "\nHINT: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {self}", self.kind(), self.sqlstate())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_io_error_keeps_the_error_of_the_system_as_its_source() {
        let error = Error::io("write f", &std::io::Error::from_raw_os_error(28)).context("commit");
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>()).expect("a source");
        assert_eq!(source.raw_os_error(), Some(28));
        assert!(error.damage().is_none());
    }

    #[test]
    fn the_place_of_damage_is_the_one_that_was_set_first() {
        let error = Error::corrupt("x").at_offset(8).in_file("a").in_file("b").at_offset(9).in_block(BlockId(3));
        let place = DamagePlace { file: Some("a".into()), block: Some(BlockId(3)), offset: Some(8) };
        assert_eq!(error.damage(), Some(&place));
    }
}
