//! Rows as messages of a COPY to a client.

use weir_sql::bound::OutputColumn;
use weir_types::binary::write_field;
use weir_types::datetime::style::IntervalStyle;
use weir_types::{SqlError, Value};

use super::SIGNATURE;
use super::options::{Format, Header, Options};
use crate::answer::styled_text;

/// Makes the messages of a COPY TO: one for each row, and what is around them.
pub struct CopyOut {
    options: Options,
    /// Goes with the next message.
    head: Vec<u8>,
}

impl CopyOut {
    pub fn new(options: Options) -> CopyOut {
        let head = match options.format {
            Format::Binary => SIGNATURE.iter().copied().chain([0; 8]).collect(),
            _ => Vec::new(),
        };
        CopyOut { options, head }
    }

    pub fn is_binary(&self) -> bool {
        self.options.is_binary()
    }

    /// The message before the rows, if there is one.
    pub fn head(&self, columns: &[OutputColumn]) -> Option<Vec<u8>> {
        let is_line = !self.is_binary() && self.options.header != Header::None;
        is_line.then(|| {
            let names = columns.iter().map(|column| (Some(column.name.clone()), false));
            line(names, &self.options)
        })
    }

    /// # Errors
    /// A value that its type's binary format cannot carry.
    pub fn row(
        &mut self,
        row: &[Value],
        columns: &[OutputColumn],
        style: IntervalStyle,
    ) -> Result<Vec<u8>, SqlError> {
        if !self.is_binary() {
            let fields = row.iter().zip(columns).map(|(value, column)| {
                let text = (!value.is_null()).then(|| styled_text(value, column, style));
                (text, self.options.force_quote.has(&column.name))
            });
            return Ok(line(fields, &self.options));
        }
        let mut message = std::mem::take(&mut self.head);
        message.extend((row.len() as i16).to_be_bytes());
        for (value, column) in row.iter().zip(columns) {
            match value.is_null() {
                true => message.extend((-1_i32).to_be_bytes()),
                false => match column.catalog {
                    Some(told) => told.write_field(value, &column.ty, &mut message)?,
                    None => write_field(value, &column.ty, &mut message)?,
                },
            }
        }
        Ok(message)
    }

    /// Another has made the messages of the head and of rows.
    pub fn skip_head(&mut self) {
        self.head.clear();
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

fn line(fields: impl ExactSizeIterator<Item = (Option<String>, bool)>, options: &Options) -> Vec<u8> {
    let is_single = fields.len() == 1;
    let mut line = Vec::with_capacity(16 * fields.len());
    for (at, (field, force)) in fields.enumerate() {
        if at > 0 {
            line.push(options.delimiter);
        }
        match field {
            None => line.extend(options.null.as_bytes()),
            Some(text) if options.format == Format::Csv => quote(&text, options, force, is_single, &mut line),
            Some(text) => escape(&text, options, &mut line),
        }
    }
    line.push(b'\n');
    line
}

fn escape(text: &str, options: &Options, line: &mut Vec<u8>) {
    for byte in text.bytes() {
        let short = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            byte if byte == b'\\' || byte == options.delimiter => byte,
            _ => {
                line.push(byte);
                continue;
            }
        };
        line.extend([b'\\', short]);
    }
}

fn quote(text: &str, options: &Options, force: bool, is_single: bool, line: &mut Vec<u8>) {
    let special =
        |byte: u8| byte == options.delimiter || byte == options.quote || byte == b'\n' || byte == b'\r';
    let wants = force || text == options.null || is_single && text == "\\." || text.bytes().any(special);
    if !wants {
        return line.extend(text.as_bytes());
    }
    line.push(options.quote);
    for byte in text.bytes() {
        if byte == options.quote || byte == options.escape {
            line.push(options.escape);
        }
        line.push(byte);
    }
    line.push(options.quote);
}
