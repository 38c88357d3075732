//! Rows, errors and parameters between what a session means and what the wire has.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use futures::stream;
use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldFormat, FieldInfo, QueryResponse, Response, Tag};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::data::DataRow;
use pgwire::messages::response::NoticeResponse;
use weir_sql::bound::OutputColumn;
use weir_types::binary::{parse_binary, type_number, type_of_number, write_field};
use weir_types::text::{parse_text, text_of, to_text};
use weir_types::{SqlError, SqlType, Value};

use crate::session::{Done, Failure, Statement, Turn};

fn info(severity: &str, error: &SqlError, position: Option<usize>) -> ErrorInfo {
    let fields = error.fields();
    let mut info =
        ErrorInfo::new(severity.to_owned(), error.state().as_str().to_owned(), error.message().to_owned());
    info.detail = fields.detail.clone();
    info.hint = fields.hint.clone();
    info.constraint = fields.constraint.clone();
    info.position = position.map(|position| position.to_string());
    info.severity_nonlocalized = Some(severity.to_owned());
    info
}

pub fn failed(failure: &Failure) -> ErrorInfo {
    info("ERROR", &failure.error, failure.position)
}

pub fn wire_error(failure: Failure) -> PgWireError {
    PgWireError::UserError(Box::new(failed(&failure)))
}

pub fn notice(error: &SqlError) -> NoticeResponse {
    info("WARNING", error, None).into()
}

pub fn wire_type(ty: &SqlType) -> Type {
    Type::from_oid(type_number(ty)).unwrap_or(Type::TEXT)
}

/// The types that a client gives its parameters; those that Weir does not have are to infer.
pub fn parameter_types(types: &[Option<Type>]) -> Vec<SqlType> {
    let of =
        |ty: &Option<Type>| ty.as_ref().and_then(|ty| type_of_number(ty.oid())).unwrap_or(SqlType::Unknown);
    types.iter().map(of).collect()
}

pub fn fields(columns: &[OutputColumn], format: &Format) -> Vec<FieldInfo> {
    let of = |(at, column): (usize, &OutputColumn)| {
        FieldInfo::new(column.name.clone(), None, None, wire_type(&column.ty), format_at(format, at))
            .with_type_size(size_of_type(&column.ty))
            .with_type_modifier(modifier(&column.ty))
    };
    columns.iter().enumerate().map(of).collect()
}

/// A client may name fewer formats than there are columns; that is its mistake, not a crash.
pub fn format_at(format: &Format, at: usize) -> FieldFormat {
    match format {
        Format::UnifiedText => FieldFormat::Text,
        Format::UnifiedBinary => FieldFormat::Binary,
        Format::Individual(codes) => FieldFormat::from(codes.get(at).copied().unwrap_or(0)),
    }
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

fn data_row(row: &[Value], columns: &[OutputColumn], format: &Format) -> Result<DataRow, SqlError> {
    let mut data = BytesMut::with_capacity(32 * row.len());
    let mut binary = Vec::new();
    for (at, (value, column)) in row.iter().zip(columns).enumerate() {
        if value.is_null() {
            data.put_i32(-1);
        } else if format_at(format, at) == FieldFormat::Binary {
            binary.clear();
            write_field(value, &column.ty, &mut binary)?;
            data.put_slice(&binary);
        } else {
            let text = to_text(value, &column.ty);
            data.put_i32(text.len() as i32);
            data.put_slice(text.as_bytes());
        }
    }
    Ok(DataRow::new(data, row.len() as i16))
}

/// What goes to the client; none of rows where the statement gives none.
pub fn response(statement: &Statement, done: Done, format: &Format) -> PgWireResult<Response> {
    if statement.columns.is_empty() {
        let tag = Tag::new(&done.tag);
        let count = done.count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let tag = count.into_iter().fold(tag, Tag::with_rows);
        return Ok(match done.turn {
            Turn::Stays => Response::Execution(tag),
            Turn::Begins => Response::TransactionStart(tag),
            Turn::Ends => Response::TransactionEnd(tag),
        });
    }
    let rows: Vec<PgWireResult<DataRow>> = done
        .rows
        .iter()
        .map(|row| data_row(row, &statement.columns, format).map_err(|error| wire_error(error.into())))
        .collect();
    let mut response = QueryResponse::new(Arc::new(fields(&statement.columns, format)), stream::iter(rows));
    response.set_command_tag(&done.tag);
    Ok(Response::Query(response))
}

/// A parameter as it was bound.
///
/// # Errors
/// It is no value of the type.
pub fn parameter(bytes: Option<&[u8]>, format: FieldFormat, ty: &SqlType) -> Result<Value, Failure> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    if format == FieldFormat::Binary {
        return Ok(parse_binary(bytes, ty)?);
    }
    Ok(parse_text(text_of(bytes)?, ty)?)
}
