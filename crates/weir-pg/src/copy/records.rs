//! Splits the data of a COPY in text or CSV format into records of fields.

use std::borrow::Cow;

use memchr::{memchr2, memchr3};
use weir_types::interrupt::VALUE_BYTES_MAX;
use weir_types::{SqlError, SqlState};

use super::options::{Format, Options};

/// The ending of lines, once a line has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    Newline,
    Return,
    Both,
}

/// A record as it came.
#[derive(Clone, Copy, Debug)]
pub struct Record<'b> {
    /// Without what ends it.
    pub line: &'b [u8],
    /// Its number from 1; of several lines the last.
    pub number: u64,
}

#[derive(Debug)]
pub struct Records {
    is_csv: bool,
    quote: u8,
    /// None where it is the quote itself.
    escape: Option<u8>,
    buffer: Vec<u8>,
    /// Where the next record begins.
    at: usize,
    number: u64,
    ends: Option<LineEnd>,
    /// How far the record that is not whole yet has been read.
    scanned: Option<Scanned>,
    /// `\.` has come, or nothing more will.
    is_over: bool,
    is_last: bool,
}

/// Part of a record that is not read again when more of it comes.
#[derive(Clone, Copy, Debug)]
struct Scanned {
    at: usize,
    lines: u64,
    in_quote: bool,
    was_escape: bool,
}

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

impl Records {
    pub fn new(options: &Options) -> Records {
        Records {
            is_csv: options.format == Format::Csv,
            quote: options.quote,
            escape: (options.escape != options.quote).then_some(options.escape),
            buffer: Vec::new(),
            at: 0,
            number: 0,
            ends: None,
            scanned: None,
            is_over: false,
            is_last: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        if let Some(scanned) = &mut self.scanned {
            scanned.at -= self.at;
        }
        self.at = 0;
        if !self.is_over {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.is_last = true;
    }

    /// The line that is being read.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next one that is whole.
    ///
    /// # Errors
    /// Lines end in different ways, or a quoted field does not.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, SqlError> {
        if self.is_over || self.at == self.buffer.len() {
            return Ok(None);
        }
        let Some((end, next, lines)) = self.scan()? else { return Ok(None) };
        self.number += lines;
        let line = &self.buffer[self.at..end];
        self.at = next;
        if line == b"\\." {
            self.is_over = true;
            return Ok(None);
        }
        Ok(Some(Record { line, number: self.number }))
    }

    /// Where the record ends, where the next begins, and how many lines it takes.
    fn scan(&mut self) -> Result<Option<(usize, usize, u64)>, SqlError> {
        let bytes = &self.buffer;
        let begun = Scanned { at: self.at, lines: 1, in_quote: false, was_escape: false };
        let Scanned { mut at, mut lines, mut in_quote, mut was_escape } =
            self.scanned.take().unwrap_or(begun);
        while at < bytes.len() {
            let byte = bytes[at];
            if self.is_csv {
                if in_quote && Some(byte) == self.escape {
                    was_escape = !was_escape;
                }
                if byte == self.quote && !was_escape {
                    in_quote = !in_quote;
                }
                if Some(byte) != self.escape {
                    was_escape = false;
                }
                if in_quote {
                    // As PostgreSQL counts, which does not know yet how lines end.
                    let counted = if self.ends == Some(LineEnd::Newline) { b'\n' } else { b'\r' };
                    lines += u64::from(byte == counted);
                    at += 1;
                    continue;
                }
            } else if byte == b'\\' {
                at += 2;
                continue;
            } else if !matches!(byte, b'\n' | b'\r') {
                at = memchr3(b'\\', b'\n', b'\r', &bytes[at..]).map_or(bytes.len(), |ahead| at + ahead);
                continue;
            }
            match byte {
                b'\n' => return self.newline(at, lines).map(Some),
                b'\r' => {
                    let follows = bytes.get(at + 1).copied();
                    if follows.is_none() && !self.is_last {
                        self.scanned = Some(Scanned { at, lines, in_quote, was_escape });
                        return Ok(None);
                    }
                    return self.carriage_return(at, lines, follows == Some(b'\n')).map(Some);
                }
                _ => at += 1,
            }
        }
        if bytes.len() - self.at > VALUE_BYTES_MAX {
            let message = "a record of COPY has more than 1 GB";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        // An unterminated CSV quote is reported when the fields are parsed.
        let last = self.is_last.then_some((bytes.len(), bytes.len(), lines));
        self.scanned = Some(Scanned { at, lines, in_quote, was_escape });
        Ok(last)
    }

    fn newline(&mut self, at: usize, lines: u64) -> Result<(usize, usize, u64), SqlError> {
        match self.ends.get_or_insert(LineEnd::Newline) {
            LineEnd::Newline => Ok((at, at + 1, lines)),
            _ => {
                self.number += lines;
                let (what, hint) = match self.is_csv {
                    true => ("unquoted newline found in data", "Use quoted CSV field to represent newline."),
                    false => ("literal newline found in data", "Use \"\\n\" to represent newline."),
                };
                Err(bad(what).with_hint(hint))
            }
        }
    }

    fn carriage_return(
        &mut self,
        at: usize,
        lines: u64,
        both: bool,
    ) -> Result<(usize, usize, u64), SqlError> {
        let found = if both { LineEnd::Both } else { LineEnd::Return };
        match *self.ends.get_or_insert(found) == found {
            true => Ok((at, at + 1 + usize::from(both), lines)),
            false => {
                self.number += lines;
                let (what, hint) = match self.is_csv {
                    true => (
                        "unquoted carriage return found in data",
                        "Use quoted CSV field to represent carriage return.",
                    ),
                    false => {
                        ("literal carriage return found in data", "Use \"\\r\" to represent carriage return.")
                    }
                };
                Err(bad(what).with_hint(hint))
            }
        }
    }
}

/// A field: what it says, none where that is the NULL of the options, and whether it was quoted.
pub type Field<'l> = (Option<Cow<'l, [u8]>>, bool);

/// The fields of a record in text format.
pub fn text_fields<'l>(line: &'l [u8], options: &Options) -> Vec<Field<'l>> {
    let mut fields = Vec::new();
    let mut start = 0;
    loop {
        let (mut at, mut has_escape) = (start, false);
        let end = loop {
            match line.get(at..).and_then(|rest| memchr2(options.delimiter, b'\\', rest)) {
                None => break line.len(),
                Some(ahead) if line[at + ahead] == b'\\' => (at, has_escape) = (at + ahead + 2, true),
                Some(ahead) => break at + ahead,
            }
        };
        let raw = &line[start..end];
        let value = match raw == options.null.as_bytes() {
            true => None,
            false if has_escape => Some(Cow::Owned(unescaped(raw))),
            false => Some(Cow::Borrowed(raw)),
        };
        fields.push((value, false));
        if end >= line.len() {
            return fields;
        }
        start = end + 1;
    }
}

fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let byte = raw[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&escaped) = raw.get(at) else {
            out.push(b'\\');
            break;
        };
        at += 1;
        let digits = |at: usize, base: u32, most: usize| -> (u32, usize) {
            let digit = |byte: &u8| (*byte as char).to_digit(base);
            raw[at..]
                .iter()
                .take(most)
                .map_while(digit)
                .fold((0, 0), |(value, count), digit| (value * base + digit, count + 1))
        };
        match escaped {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'x' => match digits(at, 16, 2) {
                (_, 0) => out.push(b'x'),
                (value, count) => {
                    out.push(value as u8);
                    at += count;
                }
            },
            b'0'..=b'7' => {
                let (value, count) = digits(at - 1, 8, 3);
                out.push((value & 0xff) as u8);
                at += count - 1;
            }
            other => out.push(other),
        }
    }
    out
}

/// The fields of a record in CSV.
///
/// # Errors
/// A quote is not closed.
pub fn csv_fields(line: &[u8], options: &Options) -> Result<Vec<Field<'static>>, SqlError> {
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        let (mut value, mut is_quoted, mut in_quote) = (Vec::new(), false, false);
        let mut ends = true;
        while let Some(&byte) = line.get(at) {
            at += 1;
            if !in_quote {
                if byte == options.delimiter {
                    ends = false;
                    break;
                }
                if byte == options.quote {
                    (is_quoted, in_quote) = (true, true);
                } else {
                    value.push(byte);
                }
                continue;
            }
            let next = line.get(at).copied().filter(|next| *next == options.quote || *next == options.escape);
            if byte == options.escape && next.is_some() {
                value.extend(next);
                at += 1;
            } else if byte == options.quote {
                in_quote = false;
            } else {
                value.push(byte);
            }
        }
        if in_quote {
            return Err(bad("unterminated CSV quoted field"));
        }
        let is_null = !is_quoted && value == options.null.as_bytes();
        fields.push((Some(Cow::Owned(value)).filter(|_| !is_null), is_quoted));
        if ends {
            return Ok(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_sql::session::CopyOption;

    use super::*;

    /// In pieces of all sizes it is the same.
    fn check(csv: bool, data: &str, expected: &[&[Option<&str>]]) {
        let format = CopyOption::Text(if csv { "csv" } else { "text" }.to_owned());
        let options = Options::of(&[("format".to_owned(), format)], true).unwrap();
        for size in [1, 2, 3, 7, 1_000] {
            let mut records = Records::new(&options);
            let mut seen = Vec::new();
            let mut take = |records: &mut Records| {
                while let Some(record) = records.next().unwrap() {
                    let fields = match csv {
                        true => csv_fields(record.line, &options).unwrap(),
                        false => text_fields(record.line, &options),
                    };
                    let text =
                        |(field, _): Field| field.map(|field| String::from_utf8(field.into_owned()).unwrap());
                    seen.push(fields.into_iter().map(text).collect::<Vec<_>>());
                }
            };
            for piece in data.as_bytes().chunks(size) {
                records.push(piece);
                take(&mut records);
            }
            records.finish();
            take(&mut records);
            let expected: Vec<Vec<Option<String>>> =
                expected.iter().map(|row| row.iter().map(|one| one.map(str::to_owned)).collect()).collect();
            assert_eq!(seen, expected, "{data:?} in pieces of {size}");
        }
    }

    /// A long line comes in many messages.
    #[test]
    fn what_is_not_whole_is_read_once() {
        for format in ["text", "csv"] {
            let option = ("format".to_owned(), CopyOption::Text(format.to_owned()));
            let mut records = Records::new(&Options::of(&[option], true).unwrap());
            for piece in 1..=3 {
                records.push(&[b'a'; 100]);
                assert!(records.next().unwrap().is_none());
                assert_eq!(records.scanned.map(|scanned| scanned.at), Some(100 * piece), "{format}");
            }
            records.push(b"b\nc\nd");
            let mut lines = 0;
            while let Some(record) = records.next().unwrap() {
                lines += record.line.len();
            }
            assert_eq!(lines, 302, "{format}");
        }
    }

    #[test]
    fn texts() {
        check(false, "1\ta\n2\t\\N\n", &[&[Some("1"), Some("a")], &[Some("2"), None]]);
        check(false, "a\\tb\\\\\\x41\\101\\q\\.\n", &[&[Some("a\tb\\AAq.")]]);
        check(false, "a\\\nb\tc", &[&[Some("a\nb"), Some("c")]]);
        check(false, "1\r\n\r\n2\r\n\\.\r\nnothing\r\n", &[&[Some("1")], &[Some("")], &[Some("2")]]);
        check(false, "1\r2\r", &[&[Some("1")], &[Some("2")]]);
        check(false, "\\N\t\\\\N\n", &[&[None, Some("\\N")]]);
    }

    #[test]
    fn csv() {
        check(
            true,
            "1,a\n2,\n3,\"\"\n",
            &[&[Some("1"), Some("a")], &[Some("2"), None], &[Some("3"), Some("")]],
        );
        check(true, "\"a,\"\"b\"\"\nc\",x\"y\"z\n", &[&[Some("a,\"b\"\nc"), Some("xyz")]]);
        check(true, "1\r\n\"a\r\nb\"\r\n\\.\r\n", &[&[Some("1")], &[Some("a\r\nb")]]);
    }
}
