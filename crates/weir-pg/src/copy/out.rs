//! Rows as messages of a COPY to a client.

use weir_sql::bound::OutputColumn;
use weir_types::binary::write_field;
use weir_types::datetime::style::IntervalStyle;
use weir_types::{SqlError, SqlType, Value};

use super::SIGNATURE;
use super::options::{Format, Header, Options};
use crate::answer::push_text;

/// Makes the messages of a COPY TO: one for each row, and what is around them.
pub struct CopyOut {
    options: Options,
    /// Goes with the next message.
    head: Vec<u8>,
    /// Text of the field that is written.
    field: Vec<u8>,
}

impl CopyOut {
    pub fn new(options: Options) -> CopyOut {
        let head = match options.format {
            Format::Binary => SIGNATURE.iter().copied().chain([0; 8]).collect(),
            _ => Vec::new(),
        };
        CopyOut { options, head, field: Vec::new() }
    }

    pub fn is_binary(&self) -> bool {
        self.options.is_binary()
    }

    /// The message before the rows, if there is one.
    pub fn head(&self, columns: &[OutputColumn]) -> Option<Vec<u8>> {
        let is_line = !self.is_binary() && self.options.header != Header::None;
        is_line.then(|| {
            let mut line = Vec::new();
            for (at, column) in columns.iter().enumerate() {
                let name = Some(column.name.as_bytes());
                if at > 0 {
                    line.push(self.options.delimiter);
                }
                push_field(name, columns.len() == 1, false, &self.options, &mut line);
            }
            line.push(b'\n');
            line
        })
    }

    /// Appends a row as the data of one message.
    ///
    /// # Errors
    /// A value that its type's binary format cannot carry.
    pub fn push_row(
        &mut self,
        row: &[Value],
        columns: &[OutputColumn],
        style: IntervalStyle,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        if !self.is_binary() {
            for (at, (value, column)) in row.iter().zip(columns).enumerate() {
                if at > 0 {
                    out.push(self.options.delimiter);
                }
                self.push_value(value, (column, row.len() == 1), style, out);
            }
            out.push(b'\n');
            return Ok(());
        }
        out.append(&mut self.head);
        out.extend((row.len() as i16).to_be_bytes());
        for (value, column) in row.iter().zip(columns) {
            match value.is_null() {
                true => out.extend((-1_i32).to_be_bytes()),
                false => match column.catalog {
                    Some(told) => told.write_field(value, &column.ty, out)?,
                    None => write_field(value, &column.ty, out)?,
                },
            }
        }
        Ok(())
    }

    /// `is_single`: it is the only field of its row.
    fn push_value(
        &mut self,
        value: &Value,
        (column, is_single): (&OutputColumn, bool),
        style: IntervalStyle,
        out: &mut Vec<u8>,
    ) {
        if self.options.format != Format::Csv {
            match value {
                value if self.is_plain(value) => return push_text(value, column, style, out),
                Value::Text(text) if column.catalog.is_none() && !matches!(column.ty, SqlType::Char(_)) => {
                    return escape(text.as_bytes(), &self.options, out);
                }
                _ => {}
            }
        }
        self.field.clear();
        push_text(value, column, style, &mut self.field);
        let text = Some(&self.field[..]).filter(|_| !value.is_null());
        let force = self.options.force_quote.has(&column.name);
        push_field(text, is_single, force, &self.options, out);
    }

    /// Returns whether nothing in its text is escaped in the text format: it has digits, letters and signs alone.
    fn is_plain(&self, value: &Value) -> bool {
        let is_number = matches!(
            value,
            Value::Int(_) | Value::Numeric(_) | Value::Date(_) | Value::Timestamp(_) | Value::Bool(_)
        );
        is_number && matches!(self.options.delimiter, b'\t' | b'|' | b',' | b';')
    }

    /// The message behind the rows, if there is one.
    pub fn end(mut self) -> Option<Vec<u8>> {
        self.is_binary().then(|| {
            let mut message = std::mem::take(&mut self.head);
            message.extend((-1_i16).to_be_bytes());
            message
        })
    }
}

/// Appends a field; none: NULL. `is_single`: it is the only one of its row.
fn push_field(text: Option<&[u8]>, is_single: bool, force: bool, options: &Options, line: &mut Vec<u8>) {
    match text {
        None => line.extend(options.null.as_bytes()),
        Some(text) if options.format == Format::Csv => quote(text, options, force, is_single, line),
        Some(text) => escape(text, options, line),
    }
}

fn escape(text: &[u8], options: &Options, line: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(*byte, 8..=13 | b'\\') || *byte == options.delimiter;
    let mut rest = text;
    while let Some(at) = rest.iter().position(is_special) {
        line.extend_from_slice(&rest[..at]);
        let short = match rest[at] {
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            byte => byte,
        };
        line.extend([b'\\', short]);
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
}

fn quote(text: &[u8], options: &Options, force: bool, is_single: bool, line: &mut Vec<u8>) {
    let special =
        |byte: &u8| *byte == options.delimiter || *byte == options.quote || *byte == b'\n' || *byte == b'\r';
    let wants =
        force || text == options.null.as_bytes() || is_single && text == b"\\." || text.iter().any(special);
    if !wants {
        return line.extend_from_slice(text);
    }
    line.push(options.quote);
    for byte in text {
        if *byte == options.quote || *byte == options.escape {
            line.push(options.escape);
        }
        line.push(*byte);
    }
    line.push(options.quote);
}
