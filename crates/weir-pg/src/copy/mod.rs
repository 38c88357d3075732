//! COPY: rows of a client into a table, many at a time, and rows to a client. Framing is the connection's; formats are here.

mod options;
mod out;
mod records;

use std::borrow::Cow;
use std::sync::Arc;

use weir_client::{Batch, CallResult, Client, Load, Pending, noting};
use weir_types::binary::parse_binary;
use weir_types::text::parse_text;
use weir_types::{SqlError, SqlState, SqlType, Value};

use self::options::{Format, Header};
pub use self::options::{Named, Options};
pub use self::out::CopyOut;
use self::records::{Field, Record, Records, csv_fields, text_fields};
use crate::in_flight::{Copying, InFlight};
use crate::session::sql_error;
use crate::statement::Failure;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// A COPY FROM STDIN under way, within a transaction.
pub struct CopyIn {
    client: Arc<Client>,
    /// Knows what is on its way, to cancel it.
    told: Arc<InFlight>,
    /// Tells the watchdog that the client sends rows.
    _copying: Copying,
    transaction: u64,
    options: Options,
    load: Load,
    /// Batches of a statement that looks at its rows together have been sent.
    is_statement: bool,
    source: Source,
    /// The batch that is on its way, and the lines of its rows.
    in_flight: Option<(Pending<CallResult>, (u64, u64))>,
    rows: u64,
    /// The row that is being read.
    row: Vec<Value>,
}

enum Source {
    Records { records: Records, has_header: bool },
    Binary { buffer: Vec<u8>, at: usize, row: u64, state: BinaryState },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BinaryState {
    Head,
    Rows,
    Over,
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn quoted(text: &[u8]) -> String {
    const SHOWN: usize = 100;
    let text = String::from_utf8_lossy(text);
    if text.len() <= SHOWN {
        return format!("\"{text}\"");
    }
    let end = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("\"{}...\"", &text[..end])
}

impl CopyIn {
    pub fn new(
        (client, told): (Arc<Client>, Arc<InFlight>),
        transaction: u64,
        options: Options,
        load: Load,
    ) -> CopyIn {
        let source = match options.format {
            Format::Binary => Source::Binary { buffer: Vec::new(), at: 0, row: 0, state: BinaryState::Head },
            _ => Source::Records {
                records: Records::new(&options),
                has_header: options.header != Header::None,
            },
        };
        let (rows, row) = (0, Vec::new());
        let (is_statement, in_flight, _copying) = (false, None, Copying::begin(told.clone()));
        CopyIn {
            client,
            told,
            _copying,
            transaction,
            options,
            load,
            is_statement,
            source,
            in_flight,
            rows,
            row,
        }
    }

    pub fn columns(&self) -> usize {
        self.load.table.columns.len()
    }

    /// CONTEXT of what happens now: the line that was to come.
    pub fn context(&self) -> String {
        let read = match &self.source {
            Source::Records { records, .. } => records.number(),
            Source::Binary { row, .. } => *row,
        };
        format!("COPY {}, line {}", self.load.table.name, read + 1)
    }

    pub fn is_binary(&self) -> bool {
        self.options.format == Format::Binary
    }

    /// Takes what the client has sent.
    ///
    /// # Errors
    /// It is not of the format, no value of a column's type, or refused by the table.
    pub async fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.source {
            Source::Records { records, .. } => records.push(bytes),
            Source::Binary { buffer, at, .. } => {
                buffer.drain(..*at);
                *at = 0;
                buffer.extend_from_slice(bytes);
            }
        }
        self.go_on(false).await
    }

    /// Nothing more comes. Gives how many rows there were.
    ///
    /// # Errors
    /// As `take`.
    pub async fn finish(&mut self) -> Result<u64, Failure> {
        if let Source::Records { records, .. } = &mut self.source {
            records.finish();
        }
        self.go_on(true).await?;
        while let Some(batch) = self.load.rest() {
            self.send(batch).await?;
        }
        self.settle().await?;
        if self.is_statement {
            self.mark_statement(false).await?;
        }
        Ok(self.rows)
    }

    /// Waits for the answer to batches in flight.
    ///
    /// # Errors
    /// The table refuses it.
    pub async fn settle(&mut self) -> Result<(), Failure> {
        let Some((pending, (first, last))) = self.in_flight.take() else { return Ok(()) };
        let result = pending.await.map_err(sql_error).map(drop);
        result.map_err(|failure| {
            let lines =
                if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
            let context = format!("COPY {}, {lines}", self.load.table.name);
            Failure { context: Some(context), ..failure }
        })
    }

    async fn mark_statement(&mut self, begins: bool) -> Result<(), Failure> {
        let told = self.told.clone();
        let marked = noting(told, || self.client.begin_statement_of_batches(self.transaction, begins)).await;
        self.is_statement = begins;
        marked.map(drop).map_err(sql_error)
    }

    async fn send(&mut self, batch: Batch) -> Result<(), Failure> {
        self.settle().await?;
        if self.load.has_statement_checks() && !self.is_statement {
            self.mark_statement(true).await?;
        }
        let places = batch.places;
        let pending = noting(self.told.clone(), || self.client.begin_batch(self.transaction, batch));
        self.in_flight = Some((pending, places));
        Ok(())
    }

    async fn go_on(&mut self, is_last: bool) -> Result<(), Failure> {
        loop {
            let place = match self.next_row(is_last) {
                Ok(Some(place)) => place,
                Ok(None) => return Ok(()),
                Err(failure) => {
                    // Batches in flight are rolled back in any case.
                    let _ = self.settle().await;
                    return Err(failure);
                }
            };
            self.rows += 1;
            if let Some(batch) = self.load.push(&mut self.row, place) {
                self.send(batch).await?;
            }
        }
    }

    /// Reads a row; gives the number of its line.
    fn next_row(&mut self, is_last: bool) -> Result<Option<u64>, Failure> {
        let CopyIn { source, load, options, row: values, .. } = self;
        values.clear();
        let table = &load.table.name;
        match source {
            Source::Records { records, has_header } => loop {
                let record = match records.next() {
                    Ok(Some(record)) => record,
                    Ok(None) => return Ok(None),
                    Err(error) => {
                        let context = format!("COPY {table}, line {}", records.number());
                        return Err(Failure { context: Some(context), ..error.into() });
                    }
                };
                if std::mem::take(has_header) {
                    check_header(record, load, options)?;
                    continue;
                }
                read_record(record, load, options, values)?;
                return Ok(Some(record.number));
            },
            Source::Binary { buffer, at, row, state } => {
                let mut reader = BinaryReader { bytes: buffer, at: *at };
                let taken = reader.next_row(load, state, row, is_last)?;
                *at = reader.at;
                Ok(taken.map(|taken| {
                    *values = taken;
                    *row
                }))
            }
        }
    }
}

fn with_line(error: SqlError, table: &str, record: Record<'_>) -> Failure {
    let context = format!("COPY {table}, line {}: {}", record.number, quoted(record.line));
    Failure { context: Some(context), ..error.into() }
}

fn fields_of<'r>(record: Record<'r>, load: &Load, options: &Options) -> Result<Vec<Field<'r>>, Failure> {
    match options.format {
        Format::Csv => {
            csv_fields(record.line, options).map_err(|error| with_line(error, &load.table.name, record))
        }
        _ => Ok(text_fields(record.line, options)),
    }
}

fn check_header(record: Record<'_>, load: &Load, options: &Options) -> Result<(), Failure> {
    if options.header != Header::Matched {
        return Ok(());
    }
    let wrong = |message: String| {
        let context = format!("COPY {}, line {}: {}", load.table.name, record.number, quoted(record.line));
        Err(Failure { context: Some(context), ..bad(message).into() })
    };
    let fields = fields_of(record, load, options)?;
    let columns = &load.table.columns;
    if fields.len() != columns.len() {
        let (got, expected) = (fields.len(), columns.len());
        return wrong(format!("wrong number of fields in header line: got {got}, expected {expected}"));
    }
    for (at, ((field, _), (name, _))) in fields.iter().zip(columns).enumerate() {
        let got = field.as_deref().map(String::from_utf8_lossy);
        match got {
            None => {
                let message = format!(
                    "column name mismatch in header line field {}: got null value (\"{}\"), expected \"{name}\"",
                    at + 1,
                    options.null
                );
                return wrong(message);
            }
            Some(got) if got != *name => {
                let message = format!(
                    "column name mismatch in header line field {}: got \"{got}\", expected \"{name}\"",
                    at + 1
                );
                return wrong(message);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn read_record(
    record: Record<'_>,
    load: &Load,
    options: &Options,
    values: &mut Vec<Value>,
) -> Result<(), Failure> {
    let (columns, types) = (&load.table.columns, load.types());
    let failed = |error: SqlError| with_line(error, &load.table.name, record);
    let fields = fields_of(record, load, options)?;
    if fields.len() > columns.len() {
        return Err(failed(bad("extra data after last expected column")));
    }
    let mut fields = fields.into_iter();
    for ((name, _), ty) in columns.iter().zip(types) {
        let Some((field, is_quoted)) = fields.next() else {
            return Err(failed(bad(format!("missing data for column \"{name}\""))));
        };
        let field = match field {
            None if options.force_not_null.has(name) => Some(Cow::Borrowed(options.null.as_bytes())),
            Some(text) if is_quoted && *text == *options.null.as_bytes() && options.force_null.has(name) => {
                None
            }
            field => field,
        };
        values.push(match &field {
            None => Value::Null,
            Some(bytes) => value_of(bytes, ty).map_err(|error| {
                let (table, line) = (&load.table.name, record.number);
                let context = format!("COPY {table}, line {line}, column {name}: {}", quoted(bytes));
                Failure { context: Some(context), ..error.into() }
            })?,
        });
    }
    Ok(())
}

fn value_of(bytes: &[u8], ty: &SqlType) -> Result<Value, SqlError> {
    parse_text(weir_types::text::text_of(bytes)?, ty)
}

struct BinaryReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl BinaryReader<'_> {
    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    fn int2(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn int4(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// None, and nothing is taken: it is not whole.
    fn head(&mut self) -> Result<Option<()>, SqlError> {
        let start = self.at;
        let taken = self.take_head()?;
        if taken.is_none() {
            self.at = start;
        }
        Ok(taken)
    }

    fn take_head(&mut self) -> Result<Option<()>, SqlError> {
        let Some(signature) = self.take(SIGNATURE.len()) else { return Ok(None) };
        if signature != SIGNATURE {
            return Err(bad("COPY file signature not recognized"));
        }
        let (Some(flags), Some(more)) = (self.int4(), self.int4()) else { return Ok(None) };
        if flags >> 16 != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let Ok(more) = usize::try_from(more) else {
            return Err(bad("invalid COPY file header (missing length)"));
        };
        Ok(self.take(more).map(drop))
    }

    /// None: there is none that is whole, or all have come.
    fn next_row(
        &mut self,
        load: &Load,
        state: &mut BinaryState,
        row: &mut u64,
        is_last: bool,
    ) -> Result<Option<Vec<Value>>, Failure> {
        let table = &load.table.name;
        let failed = |error: SqlError, row: u64| Failure {
            context: Some(format!("COPY {table}, line {row}")),
            ..error.into()
        };
        if *state == BinaryState::Head {
            match self.head()? {
                Some(()) => *state = BinaryState::Rows,
                None if is_last => return Err(bad("COPY file signature not recognized").into()),
                None => return Ok(None),
            }
        }
        if *state == BinaryState::Over {
            return match self.bytes.len() > self.at {
                true => Err(failed(bad("received copy data after EOF marker"), *row + 1)),
                false => Ok(None),
            };
        }
        match self.row(load, *row + 1)? {
            Some(Some(values)) => {
                *row += 1;
                Ok(Some(values))
            }
            Some(None) => {
                *state = BinaryState::Over;
                Ok(None)
            }
            // The end may be left out where a row ends.
            None if is_last && self.at < self.bytes.len() => {
                Err(failed(bad("unexpected EOF in COPY data"), *row + 1))
            }
            None => Ok(None),
        }
    }

    /// None: it is not whole; an inner none: it is the end.
    fn row(&mut self, load: &Load, row: u64) -> Result<Option<Option<Vec<Value>>>, Failure> {
        let start = self.at;
        let table = &load.table.name;
        let columns = &load.table.columns;
        let Some(count) = self.int2() else {
            self.at = start;
            return Ok(None);
        };
        if count == -1 {
            return Ok(Some(None));
        }
        if usize::try_from(count) != Ok(columns.len()) {
            let message = format!("row field count is {count}, expected {}", columns.len());
            let context = Some(format!("COPY {table}, line {row}"));
            return Err(Failure { context, ..bad(message).into() });
        }
        let mut values = Vec::with_capacity(columns.len());
        for ((name, _), ty) in columns.iter().zip(load.types()) {
            let failed = |error: SqlError| {
                let context = format!("COPY {table}, line {row}, column {name}");
                Failure { context: Some(context), ..error.into() }
            };
            let bytes = match self.int4() {
                Some(-1) => {
                    values.push(Value::Null);
                    continue;
                }
                Some(length) => match usize::try_from(length) {
                    Ok(length) => self.take(length),
                    Err(_) => return Err(failed(bad("invalid field size"))),
                },
                None => None,
            };
            let Some(bytes) = bytes else {
                self.at = start;
                return Ok(None);
            };
            values.push(parse_binary(bytes, ty).map_err(failed)?);
        }
        Ok(Some(Some(values)))
    }
}
