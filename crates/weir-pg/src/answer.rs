//! Rows, errors and parameters between what a session means and what the wire has.

use bytes::{BufMut, Bytes, BytesMut};
use pgwire::error::{ErrorInfo, PgWireError};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::messages::response::{CommandComplete, NoticeResponse};
use weir_sql::bound::OutputColumn;
use weir_types::binary::{parse_binary, type_number, type_of_number, write_field};
use weir_types::datetime::style::IntervalStyle;
use weir_types::text::{parse_text, push_styled_text, text_of};
use weir_types::{CatalogType, Notice, SqlError, SqlState, SqlType, Value};

use crate::portals::Formats;
use crate::statement::{CALL, Failure};

/// Clients know none of Weir's own codes: a transaction that met a change of the schema is to be tried again.
fn state_told(error: &SqlError) -> SqlState {
    match error.state() {
        SqlState::SCHEMA_HAS_CHANGED => SqlState::SERIALIZATION_FAILURE,
        state => state,
    }
}

fn info(severity: &str, error: &SqlError, position: Option<usize>) -> ErrorInfo {
    let fields = error.fields();
    let mut info = ErrorInfo::new(
        severity.to_owned(),
        state_told(error).as_str().to_owned(),
        error.message().to_owned(),
    );
    info.detail = fields.detail.clone();
    info.hint = fields.hint.clone();
    info.constraint = fields.constraint.clone();
    info.position = position.map(|position| position.to_string());
    info.severity_nonlocalized = Some(severity.to_owned());
    info
}

pub fn failed(failure: &Failure) -> ErrorInfo {
    let mut info = info("ERROR", &failure.error, failure.position);
    info.where_context = failure.context.clone();
    info
}

/// Final message before a connection ends.
pub fn fatal(error: &SqlError) -> ErrorInfo {
    info("FATAL", error, None)
}

pub fn wire_error(failure: Failure) -> PgWireError {
    PgWireError::UserError(Box::new(failed(&failure)))
}

pub fn notice(notice: &Notice) -> NoticeResponse {
    info(notice.severity.name(), &notice.said, None).into()
}

/// The types that a client gives its parameters; those that Weir does not have are to infer.
pub fn parameter_types(numbers: &[u32]) -> Vec<SqlType> {
    numbers.iter().map(|number| type_of_number(*number).unwrap_or(SqlType::Unknown)).collect()
}

pub fn row_description(columns: &[OutputColumn], formats: &Formats) -> RowDescription {
    let of = |(at, column): (usize, &OutputColumn)| {
        FieldDescription::new(
            column.name.clone(),
            0,
            0,
            column.catalog.map_or_else(|| type_number(&column.ty), |told| told.0),
            told_length(column),
            modifier(&column.ty),
            i16::from(formats.is_binary(at)),
        )
    };
    RowDescription::new(columns.iter().enumerate().map(of).collect())
}

fn told_length(column: &OutputColumn) -> i16 {
    let of_catalog = |told: CatalogType| match type_of_number(told.0) {
        Some(ty) => size_of_type(&ty),
        None => told.length().unwrap_or(-1),
    };
    column.catalog.map_or_else(|| size_of_type(&column.ty), of_catalog)
}

/// `pg_type.typlen`.
fn size_of_type(ty: &SqlType) -> i16 {
    match ty {
        SqlType::Bool => 1,
        SqlType::Int2 => 2,
        SqlType::Int4 | SqlType::Float4 | SqlType::Date => 4,
        SqlType::Int8 | SqlType::Float8 | SqlType::Timestamp | SqlType::Timestamptz => 8,
        SqlType::Interval | SqlType::Uuid => 16,
        _ => -1,
    }
}

/// `pg_attribute.atttypmod`.
fn modifier(ty: &SqlType) -> i32 {
    match ty {
        SqlType::Varchar(Some(length)) => *length as i32 + 4,
        SqlType::Char(length) if *length > 0 => *length as i32 + 4,
        SqlType::Numeric(Some((precision, scale))) => {
            (i32::from(*precision) << 16 | (i32::from(*scale) & 0x7ff)) + 4
        }
        _ => -1,
    }
}

/// # Errors
/// A value that its type's binary format cannot carry.
pub fn data_row(
    row: &[Value],
    columns: &[OutputColumn],
    formats: &Formats,
    style: IntervalStyle,
) -> Result<DataRow, SqlError> {
    let mut data = Vec::with_capacity(32 * row.len());
    push_fields(row, columns, (formats, style), &mut data)?;
    Ok(DataRow::new(BytesMut::from(Bytes::from(data)), row.len() as i16))
}

/// Appends the fields of a DataRow, each behind its length.
///
/// # Errors
/// A value that its type's binary format cannot carry.
pub fn push_fields(
    row: &[Value],
    columns: &[OutputColumn],
    (formats, style): (&Formats, IntervalStyle),
    data: &mut Vec<u8>,
) -> Result<(), SqlError> {
    for (at, (value, column)) in row.iter().zip(columns).enumerate() {
        if value.is_null() {
            data.put_i32(-1);
        } else if formats.is_binary(at) {
            match column.catalog {
                Some(told) => told.write_field(value, &column.ty, data)?,
                None => write_field(value, &column.ty, data)?,
            }
        } else {
            let start = data.len();
            data.put_i32(0);
            push_text(value, column, style, data);
            let length = (data.len() - start - 4) as i32;
            data[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    Ok(())
}

/// Appends a value as the text format has it.
pub fn push_text(value: &Value, column: &OutputColumn, style: IntervalStyle, out: &mut Vec<u8>) {
    match column.catalog.and_then(|told| told.text(value)) {
        Some(text) => out.extend_from_slice(text.as_bytes()),
        None => push_styled_text(value, &column.ty, style, out),
    }
}

/// Commands that return rows without a row count.
const UNCOUNTED: [&str; 3] = [CALL, "SHOW", "EXPLAIN"];

/// `count`: of rows given or written, where there is one to tell.
pub fn complete(tag: &str, count: Option<u64>) -> CommandComplete {
    match count {
        Some(count) if !UNCOUNTED.contains(&tag) => CommandComplete::new(format!("{tag} {count}")),
        _ => CommandComplete::new(tag.to_owned()),
    }
}

/// A parameter as it was bound.
///
/// # Errors
/// It is no value of the type.
pub fn parameter(
    bytes: Option<&[u8]>,
    is_binary: bool,
    (ty, told): (&SqlType, Option<CatalogType>),
) -> Result<Value, SqlError> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    if is_binary {
        return match told {
            Some(told) => told.parse(bytes, ty),
            None => parse_binary(bytes, ty),
        };
    }
    parse_text(text_of(bytes)?, ty)
}
