//! The SQL layer's one error: what a client sees as ErrorResponse.
//!
//! Invariants: every error carries a five-character SQLSTATE; positions are one-based character
//! positions in the statement's text, as the protocol has them. Kernel errors are mapped here and
//! nowhere else; a unique violation is completed by the caller, who knows the index's name.

use atoll_kernel::base::Error as KernelError;

/// What an SQL operation returns.
pub type SqlResult<T> = std::result::Result<T, SqlError>;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

macro_rules! states {
    ($($name:ident = $code:literal;)*) => {
        impl SqlState {
            $(#[doc = concat!("SQLSTATE `", $code, "`.")]
            pub const $name: SqlState = SqlState::new($code);)*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = "00000";
    WARNING = "01000";
    NO_DATA = "02000";
    CONNECTION_FAILURE = "08006";
    PROTOCOL_VIOLATION = "08P01";
    FEATURE_NOT_SUPPORTED = "0A000";
    CARDINALITY_VIOLATION = "21000";
    STRING_DATA_RIGHT_TRUNCATION = "22001";
    NULL_VALUE_NO_INDICATOR = "22002";
    DATA_EXCEPTION = "22000";
    NUMERIC_VALUE_OUT_OF_RANGE = "22003";
    NULL_VALUE_NOT_ALLOWED = "22004";
    INVALID_DATETIME_FORMAT = "22007";
    DATETIME_FIELD_OVERFLOW = "22008";
    INVALID_TIME_ZONE_DISPLACEMENT = "22009";
    ESCAPE_CHARACTER_CONFLICT = "2200B";
    INVALID_ESCAPE_CHARACTER = "22019";
    SUBSTRING_ERROR = "22011";
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H";
    DIVISION_BY_ZERO = "22012";
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = "22013";
    INTERVAL_FIELD_OVERFLOW = "22015";
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E";
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F";
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET = "2201G";
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = "2201W";
    INVALID_ROW_COUNT_IN_OFFSET_CLAUSE = "2201X";
    INVALID_REGULAR_EXPRESSION = "2201B";
    CHARACTER_NOT_IN_REPERTOIRE = "22021";
    INVALID_PARAMETER_VALUE = "22023";
    UNTERMINATED_C_STRING = "22024";
    INVALID_ESCAPE_SEQUENCE = "22025";
    STRING_DATA_LENGTH_MISMATCH = "22026";
    TRIM_ERROR = "22027";
    ARRAY_SUBSCRIPT_ERROR = "2202E";
    FLOATING_POINT_EXCEPTION = "22P01";
    INVALID_TEXT_REPRESENTATION = "22P02";
    INVALID_BINARY_REPRESENTATION = "22P03";
    BAD_COPY_FILE_FORMAT = "22P04";
    UNTRANSLATABLE_CHARACTER = "22P05";
    INTEGRITY_CONSTRAINT_VIOLATION = "23000";
    NOT_NULL_VIOLATION = "23502";
    FOREIGN_KEY_VIOLATION = "23503";
    UNIQUE_VIOLATION = "23505";
    CHECK_VIOLATION = "23514";
    INVALID_CURSOR_STATE = "24000";
    INVALID_TRANSACTION_STATE = "25000";
    ACTIVE_SQL_TRANSACTION = "25001";
    READ_ONLY_SQL_TRANSACTION = "25006";
    NO_ACTIVE_SQL_TRANSACTION = "25P01";
    IN_FAILED_SQL_TRANSACTION = "25P02";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03";
    INVALID_SQL_STATEMENT_NAME = "26000";
    INVALID_AUTHORIZATION_SPECIFICATION = "28000";
    INVALID_PASSWORD = "28P01";
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01";
    INVALID_CURSOR_NAME = "34000";
    INVALID_SAVEPOINT_SPECIFICATION = "3B001";
    INVALID_CATALOG_NAME = "3D000";
    INVALID_SCHEMA_NAME = "3F000";
    SERIALIZATION_FAILURE = "40001";
    STATEMENT_COMPLETION_UNKNOWN = "40003";
    DEADLOCK_DETECTED = "40P01";
    SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION = "42000";
    INSUFFICIENT_PRIVILEGE = "42501";
    SYNTAX_ERROR = "42601";
    INVALID_NAME = "42602";
    INVALID_COLUMN_DEFINITION = "42611";
    NAME_TOO_LONG = "42622";
    DUPLICATE_COLUMN = "42701";
    AMBIGUOUS_COLUMN = "42702";
    UNDEFINED_COLUMN = "42703";
    UNDEFINED_OBJECT = "42704";
    DUPLICATE_OBJECT = "42710";
    DUPLICATE_ALIAS = "42712";
    DUPLICATE_FUNCTION = "42723";
    AMBIGUOUS_FUNCTION = "42725";
    GROUPING_ERROR = "42803";
    DATATYPE_MISMATCH = "42804";
    WRONG_OBJECT_TYPE = "42809";
    INVALID_FOREIGN_KEY = "42830";
    CANNOT_COERCE = "42846";
    UNDEFINED_FUNCTION = "42883";
    GENERATED_ALWAYS = "428C9";
    RESERVED_NAME = "42939";
    UNDEFINED_TABLE = "42P01";
    UNDEFINED_PARAMETER = "42P02";
    DUPLICATE_CURSOR = "42P03";
    DUPLICATE_DATABASE = "42P04";
    DUPLICATE_PREPARED_STATEMENT = "42P05";
    DUPLICATE_SCHEMA = "42P06";
    DUPLICATE_TABLE = "42P07";
    AMBIGUOUS_PARAMETER = "42P08";
    AMBIGUOUS_ALIAS = "42P09";
    INVALID_COLUMN_REFERENCE = "42P10";
    INVALID_CURSOR_DEFINITION = "42P11";
    INVALID_DATABASE_DEFINITION = "42P12";
    INVALID_FUNCTION_DEFINITION = "42P13";
    INVALID_PREPARED_STATEMENT_DEFINITION = "42P14";
    INVALID_SCHEMA_DEFINITION = "42P15";
    INVALID_TABLE_DEFINITION = "42P16";
    INVALID_OBJECT_DEFINITION = "42P17";
    INDETERMINATE_DATATYPE = "42P18";
    INVALID_RECURSION = "42P19";
    WINDOWING_ERROR = "42P20";
    COLLATION_MISMATCH = "42P21";
    INDETERMINATE_COLLATION = "42P22";
    WITH_CHECK_OPTION_VIOLATION = "44000";
    INSUFFICIENT_RESOURCES = "53000";
    DISK_FULL = "53100";
    OUT_OF_MEMORY = "53200";
    TOO_MANY_CONNECTIONS = "53300";
    CONFIGURATION_LIMIT_EXCEEDED = "53400";
    PROGRAM_LIMIT_EXCEEDED = "54000";
    STATEMENT_TOO_COMPLEX = "54001";
    TOO_MANY_COLUMNS = "54011";
    TOO_MANY_ARGUMENTS = "54023";
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000";
    OBJECT_IN_USE = "55006";
    CANT_CHANGE_RUNTIME_PARAM = "55P02";
    LOCK_NOT_AVAILABLE = "55P03";
    QUERY_CANCELED = "57014";
    ADMIN_SHUTDOWN = "57P01";
    CRASH_SHUTDOWN = "57P02";
    CANNOT_CONNECT_NOW = "57P03";
    IO_ERROR = "58030";
    SNAPSHOT_TOO_OLD = "72000";
    UNDEFINED_FILE = "58P01";
    DUPLICATE_FILE = "58P02";
    INTERNAL_ERROR = "XX000";
    DATA_CORRUPTED = "XX001";
    INDEX_CORRUPTED = "XX002";
}

impl SqlState {
    /// The state with this code, which has five ASCII characters.
    pub const fn new(code: &str) -> SqlState {
        let bytes = code.as_bytes();
        assert!(bytes.len() == 5, "an SQLSTATE has five characters");
        SqlState([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]])
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// The class: the first two characters.
    pub fn class(&self) -> &str {
        &self.as_str()[..2]
    }
}

impl std::fmt::Debug for SqlState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Display for SqlState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The fields of an error or a notice; boxed inside [`SqlError`] so that results stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorFields {
    /// SQLSTATE.
    pub sqlstate: SqlState,
    /// The primary message, one line.
    pub message: String,
    /// More about what happened.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// One-based character position in the statement.
    pub position: Option<u32>,
    /// The schema of the object concerned.
    pub schema: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The constraint concerned.
    pub constraint: Option<String>,
    /// The data type concerned.
    pub datatype: Option<String>,
    /// Where it happened (CONTEXT lines).
    pub context: Option<String>,
}

/// An SQL error. One word wide; cheap to return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError(Box<ErrorFields>);

impl SqlError {
    /// An error with a state and a message.
    #[cold]
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(ErrorFields {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
            datatype: None,
            context: None,
        }))
    }

    /// A refusal: `what` is not supported (0A000).
    #[cold]
    pub fn not_supported(what: impl std::fmt::Display) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// A refusal in these words (0A000).
    #[cold]
    pub fn not_supported_message(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// A broken promise between modules (XX000).
    #[cold]
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// Adds DETAIL.
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds HINT.
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the one-based character position, unless one is known already.
    pub fn at(mut self, position: Option<u32>) -> SqlError {
        self.0.position = self.0.position.or(position);
        self
    }

    /// Adds a CONTEXT line.
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.0.context = Some(context.into());
        self
    }

    /// Names schema and table.
    pub fn table(mut self, schema: impl Into<String>, table: impl Into<String>) -> SqlError {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Names the column.
    pub fn column(mut self, column: impl Into<String>) -> SqlError {
        self.0.column = Some(column.into());
        self
    }

    /// Names the constraint.
    pub fn constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// Names the data type.
    pub fn datatype(mut self, datatype: impl Into<String>) -> SqlError {
        self.0.datatype = Some(datatype.into());
        self
    }

    /// The state.
    pub fn sqlstate(&self) -> SqlState {
        self.0.sqlstate
    }

    /// The primary message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// All fields.
    pub fn fields(&self) -> &ErrorFields {
        &self.0
    }

    /// All fields, to be changed.
    pub fn fields_mut(&mut self) -> &mut ErrorFields {
        &mut self.0
    }
}

impl std::fmt::Display for SqlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.sqlstate, self.0.message)
    }
}

impl std::error::Error for SqlError {}

impl From<KernelError> for SqlError {
    #[cold]
    fn from(error: KernelError) -> SqlError {
        let message = error.to_string();
        let (state, detail) = match error {
            KernelError::SerializationFailure { detail } => {
                (SqlState::SERIALIZATION_FAILURE, Some(detail))
            }
            KernelError::SnapshotTooOld => (SqlState::SNAPSHOT_TOO_OLD, None),
            KernelError::CheckpointGivenUp => (SqlState::CONFIGURATION_LIMIT_EXCEEDED, None),
            KernelError::Deadlock { detail, .. } => (SqlState::DEADLOCK_DETECTED, Some(detail)),
            KernelError::UniqueViolation { .. } => (SqlState::UNIQUE_VIOLATION, None),
            KernelError::KeyTooLong { .. }
            | KernelError::TooLarge { .. }
            | KernelError::Limit { .. } => (SqlState::PROGRAM_LIMIT_EXCEEDED, None),
            KernelError::OutOfMemory { .. } => (SqlState::OUT_OF_MEMORY, None),
            KernelError::DiskFull { .. } => (SqlState::DISK_FULL, None),
            KernelError::Io { .. } => (SqlState::IO_ERROR, None),
            KernelError::Corrupt { .. } => (SqlState::DATA_CORRUPTED, None),
            KernelError::Unusable { .. } => (SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, None),
            KernelError::AlreadyExists { .. } => (SqlState::DUPLICATE_TABLE, None),
            KernelError::NotEmpty { .. } => (SqlState::DUPLICATE_FILE, None),
            KernelError::NotFound { .. } => (SqlState::UNDEFINED_TABLE, None),
            KernelError::Cancelled => (SqlState::QUERY_CANCELED, None),
            KernelError::ShuttingDown => (SqlState::ADMIN_SHUTDOWN, None),
            KernelError::ReadOnly => (SqlState::READ_ONLY_SQL_TRANSACTION, None),
            KernelError::CatalogChanged | KernelError::Internal { .. } => {
                (SqlState::INTERNAL_ERROR, None)
            }
        };
        let mapped = SqlError::new(state, message);
        match detail {
            Some(detail) if !detail.is_empty() => mapped.detail(detail),
            _ => mapped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: KernelError, code: &str, message: &str) {
        let mapped = SqlError::from(error);
        assert_eq!((mapped.sqlstate().as_str(), mapped.message()), (code, message));
    }

    #[test]
    fn kernel_errors_get_their_states() {
        let cancelled = "canceling statement due to user request";
        check(KernelError::Cancelled, "57014", cancelled);
        let taken = "directory \"/d\" exists but is not empty";
        check(KernelError::NotEmpty { path: "/d".into() }, "58P02", taken);
        check(KernelError::SnapshotTooOld, "72000", "snapshot too old");
        let given_up =
            "the checkpoint was given up: checkpoints that are read or copied keep too many pages";
        check(KernelError::CheckpointGivenUp, "53400", given_up);
        check(KernelError::OutOfMemory { what: "pool" }, "53200", "out of memory: pool is full");
        let serialization = "could not serialize access due to concurrent update";
        check(KernelError::SerializationFailure { detail: "x".into() }, "40001", serialization);
        check(
            KernelError::DiskFull { path: "l".into() },
            "53100",
            "could not extend \"l\": no space left",
        );
        check(KernelError::Corrupt { page: None, detail: "d".into() }, "XX001", "damaged: d");
    }

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<SqlError>(), size_of::<usize>());
        assert_eq!(SqlState::DEADLOCK_DETECTED.class(), "40");
    }
}
