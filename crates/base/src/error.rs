//! One error type for the whole engine.
//!
//! A kind exists per thing that a caller can do about the failure, and each kind has one SQLSTATE, so that drivers and
//! scripts never parse the text. The message says what was asked and what was found; the hint says what helps.

use std::fmt;

/// The result of everything that can fail because of the world rather than because of a bug.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $sqlstate:literal,)*) => {
        /// What went wrong, as far as a caller can act on it.
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
    /// No table or view of that name.
    UndefinedTable = "42P01",
    /// No column of that name.
    UndefinedColumn = "42703",
    /// A name that fits more than one column.
    AmbiguousColumn = "42702",
    /// A column outside GROUP BY and aggregates, or an aggregate where none may be.
    Grouping = "42803",
    /// No function of that name, or none for these arguments.
    UndefinedFunction = "42883",
    /// No schema of that name.
    UndefinedSchema = "3F000",
    /// No setting, parameter or other named thing of that name.
    UndefinedObject = "42704",
    /// A file that a statement names does not exist or cannot be read.
    UndefinedFile = "58P01",
    /// The table or view exists already.
    DuplicateTable = "42P07",
    /// The column exists already.
    DuplicateColumn = "42701",
    /// The index or constraint exists already.
    DuplicateObject = "42710",
    /// The schema exists already.
    DuplicateSchema = "42P06",
    /// Something else depends on the object.
    DependentObjects = "2BP01",
    /// The object exists but is of another kind (a view where a table is needed).
    WrongObject = "42809",
    /// Two types do not go together.
    DatatypeMismatch = "42804",
    /// The definition of a table cannot be used.
    InvalidDefinition = "42P16",
    /// A number of values, names or columns does not match.
    CardinalityViolation = "21000",
    /// A text is not a value of the type asked for.
    InvalidText = "22P02",
    /// A line of a file is not what its format asks for.
    BadFileFormat = "22P04",
    /// A date or time cannot be read.
    InvalidDatetime = "22007",
    /// An argument is outside of what the function takes.
    InvalidParameter = "22023",
    /// A number does not fit its type.
    NumericOutOfRange = "22003",
    /// A sequence has given all its values.
    SequenceLimit = "2200H",
    /// A value for a column that only its sequence gives values.
    GeneratedAlways = "428C9",
    /// Division by zero.
    DivisionByZero = "22012",
    /// A text is longer than its column allows.
    StringTooLong = "22001",
    /// NULL in a NOT NULL column.
    NotNullViolation = "23502",
    /// Two rows with one key where each has its own.
    UniqueViolation = "23505",
    /// A row for which a CHECK constraint is false.
    CheckViolation = "23514",
    /// A row that refers to one that is not there, or a row that others refer to.
    ForeignKeyViolation = "23503",
    /// BEGIN inside a transaction.
    ActiveTransaction = "25001",
    /// COMMIT or ROLLBACK without one.
    NoActiveTransaction = "25P01",
    /// An earlier statement of the transaction failed.
    FailedTransaction = "25P02",
    /// A write where only reads are allowed.
    ReadOnly = "25006",
    /// Another transaction committed first; run this one again.
    SerializationFailure = "40001",
    /// The statement is valid SQL that this version does not run.
    Unsupported = "0A000",
    /// The statement is longer or deeper than the limits allow.
    StatementTooComplex = "54001",
    /// A result would be larger than the limits allow.
    ResultTooLarge = "54000",
    /// A key has more bytes than the ordered base keeps.
    KeyTooLong = "54000",
    /// The memory limit was reached.
    MemoryLimit = "53200",
    /// The quota for temporary files, or the disk itself, is full.
    DiskFull = "53100",
    /// The process, or the system, may open no more files.
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

/// An error: its kind, what happened, and where there is one, what helps.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// An error of `kind` whose message says what was asked and what was found.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), hint: None }))
    }

    /// A bug rather than a failure of the world: the invariant that was broken.
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message)
    }

    /// Stored bytes that are not what was written. The message names file, block and offset.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corrupt, message)
    }

    /// An I/O call that failed on `what` (usually a path with the call).
    pub fn io(what: impl fmt::Display, source: &std::io::Error) -> Self {
        let kind = match source.raw_os_error() {
            // ENOSPC and EDQUOT: the one failure that heals by itself when space returns.
            Some(28 | 122) => ErrorKind::DiskFull,
            // ENFILE and EMFILE.
            Some(23 | 24) => ErrorKind::OpenFiles,
            _ => ErrorKind::Io,
        };
        let error = Error::new(kind, format!("{what}: {source}"));
        match kind {
            ErrorKind::OpenFiles => {
                error.hint("the limit of open files is reached: raise it (ulimit -n), or close some")
            }
            _ => error,
        }
    }

    /// What lies in a directory is of a version that this program does not read.
    pub fn newer_format(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NewerFormat, message)
            .hint("a newer version of Rowmill has written this directory; open it with that")
    }

    /// The same error with a sentence that says what helps.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same error behind `context: `, for the place where it happened.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The SQLSTATE of the kind.
    pub fn sqlstate(&self) -> &'static str {
        self.0.kind.sqlstate()
    }

    /// What happened, without the hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What helps, where something does.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

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

impl std::error::Error for Error {}
