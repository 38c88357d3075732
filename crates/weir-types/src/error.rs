//! The user's errors: a SQLSTATE, a message as PostgreSQL words it, and where it can be, a remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::notice::Notice;

/// The five characters that clients act on (PostgreSQL, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "[u8; 5]")]
pub struct SqlState(pub [u8; 5]);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl SqlState {
            $($(#[$doc])* pub const $name: SqlState = SqlState(*$code);)*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = b"00000";
    WARNING = b"01000";
    NO_DATA_FOUND = b"P0002";
    TOO_MANY_ROWS = b"P0003";
    RAISE_EXCEPTION = b"P0001";
    ASSERT_FAILURE = b"P0004";
    CASE_NOT_FOUND = b"20000";
    FEATURE_NOT_SUPPORTED = b"0A000";
    STRING_DATA_RIGHT_TRUNCATION = b"22001";
    ERROR_IN_ASSIGNMENT = b"22005";
    NULL_VALUE_NOT_ALLOWED = b"22004";
    NUMERIC_VALUE_OUT_OF_RANGE = b"22003";
    INVALID_DATETIME_FORMAT = b"22007";
    DATETIME_FIELD_OVERFLOW = b"22008";
    DIVISION_BY_ZERO = b"22012";
    INTERVAL_FIELD_OVERFLOW = b"22015";
    INVALID_ARGUMENT_FOR_LOGARITHM = b"2201E";
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = b"2201F";
    INVALID_ROW_COUNT_IN_LIMIT = b"2201W";
    INVALID_ROW_COUNT_IN_OFFSET = b"2201X";
    INVALID_PARAMETER_VALUE = b"22023";
    INVALID_ESCAPE_SEQUENCE = b"22025";
    SUBSTRING_ERROR = b"22011";
    INVALID_REGULAR_EXPRESSION = b"2201B";
    INVALID_TIME_ZONE_DISPLACEMENT = b"22009";
    CHARACTER_NOT_IN_REPERTOIRE = b"22021";
    INVALID_BINARY_REPRESENTATION = b"22P03";
    INTERNAL_ERROR = b"XX000";
    ARRAY_SUBSCRIPT_ERROR = b"2202E";
    INVALID_TEXT_REPRESENTATION = b"22P02";
    NOT_NULL_VIOLATION = b"23502";
    FOREIGN_KEY_VIOLATION = b"23503";
    UNIQUE_VIOLATION = b"23505";
    CHECK_VIOLATION = b"23514";
    FUNCTION_EXECUTED_NO_RETURN_STATEMENT = b"2F005";
    OBJECT_NOT_IN_PREREQUISITE_STATE = b"55000";
    SERIALIZATION_FAILURE = b"40001";
    SNAPSHOT_TOO_OLD = b"72000";
    DEADLOCK_DETECTED = b"40P01";
    CARDINALITY_VIOLATION = b"21000";
    SYNTAX_ERROR = b"42601";
    UNDEFINED_COLUMN = b"42703";
    UNDEFINED_TABLE = b"42P01";
    UNDEFINED_FUNCTION = b"42883";
    UNDEFINED_OBJECT = b"42704";
    UNDEFINED_PARAMETER = b"42P02";
    DUPLICATE_TABLE = b"42P07";
    DUPLICATE_COLUMN = b"42701";
    DUPLICATE_FUNCTION = b"42723";
    DUPLICATE_OBJECT = b"42710";
    DUPLICATE_ALIAS = b"42712";
    AMBIGUOUS_COLUMN = b"42702";
    AMBIGUOUS_FUNCTION = b"42725";
    DATATYPE_MISMATCH = b"42804";
    INDETERMINATE_DATATYPE = b"42P18";
    GROUPING_ERROR = b"42803";
    WINDOWING_ERROR = b"42P20";
    INVALID_RECURSION = b"42P19";
    INVALID_PRECEDING_OR_FOLLOWING_SIZE = b"22013";
    INVALID_ARGUMENT_FOR_NTILE = b"22014";
    INVALID_ARGUMENT_FOR_NTH_VALUE = b"22016";
    INVALID_FOREIGN_KEY = b"42830";
    INVALID_COLUMN_REFERENCE = b"42P10";
    INVALID_TABLE_DEFINITION = b"42P16";
    INVALID_FUNCTION_DEFINITION = b"42P13";
    WRONG_OBJECT_TYPE = b"42809";
    INVALID_NAME = b"42602";
    INVALID_SCHEMA_NAME = b"3F000";
    INVALID_SCHEMA_DEFINITION = b"42P15";
    RESERVED_NAME = b"42939";
    DUPLICATE_SCHEMA = b"42P06";
    DEPENDENT_OBJECTS_STILL_EXIST = b"2BP01";
    /// Ours: the schema has changed since the statement was bound. Of the class of those that may be tried again.
    SCHEMA_HAS_CHANGED = b"40W01";
    CANNOT_COERCE = b"42846";
    GENERATED_ALWAYS = b"428C9";
    INVALID_OBJECT_DEFINITION = b"42P17";
    /// The system gives no thread.
    INSUFFICIENT_RESOURCES = b"53000";
    DISK_FULL = b"53100";
    CONFIGURATION_LIMIT_EXCEEDED = b"53400";
    IO_ERROR = b"58030";
    OBJECT_IN_USE = b"55006";
    OUT_OF_MEMORY = b"53200";
    PROGRAM_LIMIT_EXCEEDED = b"54000";
    STATEMENT_TOO_COMPLEX = b"54001";
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = b"2200H";
    QUERY_CANCELED = b"57014";
    ADMIN_SHUTDOWN = b"57P01";
    CANNOT_CONNECT_NOW = b"57P03";
    CONNECTION_FAILURE = b"08006";
    CANT_CHANGE_RUNTIME_PARAM = b"55P02";
    INVALID_SQL_STATEMENT_NAME = b"26000";
    DUPLICATE_PREPARED_STATEMENT = b"42P05";
    INVALID_CURSOR_NAME = b"34000";
    DUPLICATE_CURSOR = b"42P03";
    BAD_COPY_FILE_FORMAT = b"22P04";
    NO_ACTIVE_SQL_TRANSACTION = b"25P01";
    READ_ONLY_SQL_TRANSACTION = b"25006";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = b"25P03";
    INVALID_SAVEPOINT_SPECIFICATION = b"3B001";
    LOCK_NOT_AVAILABLE = b"55P03";
    IN_FAILED_SQL_TRANSACTION = b"25P02";
    ACTIVE_SQL_TRANSACTION = b"25001";
    PROTOCOL_VIOLATION = b"08P01";
    TRANSACTION_RESOLUTION_UNKNOWN = b"08007";
}

impl SqlState {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a SQLSTATE is ASCII")
    }

    /// Accepts what `RAISE … USING ERRCODE = '…'` accepts as a code: five digits or capital letters.
    pub fn parse(code: &str) -> Option<SqlState> {
        let bytes: [u8; 5] = code.as_bytes().try_into().ok()?;
        bytes.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()).then_some(SqlState(bytes))
    }
}

impl TryFrom<[u8; 5]> for SqlState {
    type Error = &'static str;

    fn try_from(code: [u8; 5]) -> Result<SqlState, &'static str> {
        std::str::from_utf8(&code).ok().and_then(SqlState::parse).ok_or("not a SQLSTATE")
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error that the user's input caused. Boxed, so that `Result<Value, SqlError>` stays small.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlError(Box<SqlErrorFields>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlErrorFields {
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Name of the violated constraint, if one was.
    pub constraint: Option<String>,
    /// Notices raised before the error. Not serialised.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

impl SqlError {
    #[cold]
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(SqlErrorFields {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            constraint: None,
            notices: Vec::new(),
        }))
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    pub fn with_constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.0.constraint = Some(constraint.into());
        self
    }

    pub fn notices_mut(&mut self) -> &mut Vec<Notice> {
        &mut self.0.notices
    }

    pub fn state(&self) -> SqlState {
        self.0.state
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn fields(&self) -> &SqlErrorFields {
        &self.0
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.state, self.0.message)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.0.message, self.0.state)
    }
}

impl std::error::Error for SqlError {}
