//! The scalar functions, by PostgreSQL's names.

use crate::error::SqlError;
use crate::sql_type::SqlType;
use crate::value::Value;

/// One overload of a scalar function.
pub struct Function {
    pub name: &'static str,
    pub args: &'static [SqlType],
    pub result: SqlType,
    /// NULL in, NULL out, without a call.
    pub strict: bool,
    pub eval: fn(&[Value]) -> Result<Value, SqlError>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
