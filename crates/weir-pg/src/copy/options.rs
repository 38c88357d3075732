//! Options of COPY, validated as in PostgreSQL.

use weir_sql::session::CopyOption;
use weir_types::{SqlError, SqlState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Csv,
    Binary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    None,
    Skipped,
    /// It must name the columns.
    Matched,
}

/// By name; all of them, or some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    These(Vec<String>),
    All,
}

impl Named {
    pub fn has(&self, name: &str) -> bool {
        match self {
            Named::All => true,
            Named::These(names) => names.iter().any(|one| one == name),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub format: Format,
    pub delimiter: u8,
    pub null: String,
    pub header: Header,
    pub quote: u8,
    pub escape: u8,
    pub force_quote: Named,
    pub force_not_null: Named,
    pub force_null: Named,
}

fn wrong(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

fn syntax(message: impl Into<String>) -> SqlError {
    wrong(SqlState::SYNTAX_ERROR, message)
}

fn unsupported(message: impl Into<String>) -> SqlError {
    wrong(SqlState::FEATURE_NOT_SUPPORTED, message)
}

impl Options {
    /// # Errors
    /// An error of PostgreSQL, or an unsupported option.
    pub fn of(given: &[(String, CopyOption)], is_from: bool) -> Result<Options, SqlError> {
        for (at, (name, _)) in given.iter().enumerate() {
            if given[..at].iter().any(|(other, _)| other == name) {
                return Err(syntax("conflicting or redundant options"));
            }
        }
        let of = |name: &str| given.iter().find(|(one, _)| one == name).map(|(_, value)| value);
        let text = |name: &str| match of(name) {
            None => Ok(None),
            Some(CopyOption::Text(text)) => Ok(Some(text.clone())),
            Some(_) => Err(syntax(format!("{name} requires a parameter"))),
        };
        let format = match text("format")?.as_deref() {
            None | Some("text") => Format::Text,
            Some("csv") => Format::Csv,
            Some("binary") => Format::Binary,
            Some(other) => {
                let message = format!("COPY format \"{other}\" not recognized");
                return Err(wrong(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
        for (name, value) in given {
            refuse_unknown(name, value)?;
        }
        let is_csv = format == Format::Csv;
        if format == Format::Binary {
            for (name, shown) in [("delimiter", "DELIMITER"), ("null", "NULL"), ("header", "HEADER")] {
                if of(name).is_some_and(|value| name != "header" || !is_off(value)) {
                    return Err(syntax(format!("cannot specify {shown} in BINARY mode")));
                }
            }
        }
        for (name, shown) in [
            ("quote", "quote"),
            ("escape", "escape"),
            ("force_quote", "force quote"),
            ("force_not_null", "force not null"),
            ("force_null", "force null"),
        ] {
            if !is_csv && of(name).is_some() {
                return Err(unsupported(format!("COPY {shown} available only in CSV mode")));
            }
        }
        for (name, shown, only) in [
            ("force_quote", "force quote", false),
            ("force_not_null", "force not null", true),
            ("force_null", "force null", true),
        ] {
            if of(name).is_some() && is_from != only {
                let way = if only { "COPY FROM" } else { "COPY TO" };
                return Err(unsupported(format!("COPY {shown} only available using {way}")));
            }
        }
        let quote = one_byte("quote", text("quote")?, b'"')?;
        let options = Options {
            format,
            delimiter: one_byte("delimiter", text("delimiter")?, if is_csv { b',' } else { b'\t' })?,
            null: text("null")?.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() }),
            header: header(of("header"), is_from)?,
            quote,
            escape: one_byte("escape", text("escape")?, quote)?,
            force_quote: named(of("force_quote"))?,
            force_not_null: named(of("force_not_null"))?,
            force_null: named(of("force_null"))?,
        };
        options.judge(is_csv)?;
        Ok(options)
    }

    pub fn is_binary(&self) -> bool {
        self.format == Format::Binary
    }

    fn judge(&self, is_csv: bool) -> Result<(), SqlError> {
        let invalid = |message: &str| Err(wrong(SqlState::INVALID_PARAMETER_VALUE, message));
        if matches!(self.delimiter, b'\n' | b'\r') {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.contains(['\n', '\r']) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        if !is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&self.delimiter) {
            return invalid(&format!("COPY delimiter cannot be \"{}\"", self.delimiter as char));
        }
        if is_csv && self.delimiter == self.quote {
            return invalid("COPY delimiter and quote must be different");
        }
        if self.format != Format::Binary && self.null.as_bytes().contains(&self.delimiter) {
            return Err(unsupported("COPY delimiter must not appear in the NULL specification"));
        }
        if is_csv && self.null.as_bytes().contains(&self.quote) {
            return Err(unsupported("CSV quote character must not appear in the NULL specification"));
        }
        Ok(())
    }
}

fn refuse_unknown(name: &str, value: &CopyOption) -> Result<(), SqlError> {
    match name {
        "format" | "delimiter" | "null" | "header" | "quote" | "escape" | "force_quote"
        | "force_not_null" | "force_null" => Ok(()),
        "encoding" if matches!(value, CopyOption::Text(text) if matches!(text.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode")) => {
            Ok(())
        }
        "encoding" => Err(unsupported("not supported yet: COPY in an encoding other than UTF8")),
        // Rows that are never to be frozen are frozen already.
        "freeze" => Ok(()),
        _ => Err(syntax(format!("option \"{name}\" not recognized"))),
    }
}

fn is_off(value: &CopyOption) -> bool {
    matches!(value, CopyOption::Text(text) if matches!(text.to_ascii_lowercase().as_str(), "false" | "off" | "0"))
}

fn header(value: Option<&CopyOption>, is_from: bool) -> Result<Header, SqlError> {
    match value {
        None => Ok(Header::None),
        Some(value) if is_off(value) => Ok(Header::None),
        Some(CopyOption::Bare) => Ok(Header::Skipped),
        Some(CopyOption::Text(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(Header::Skipped),
            "match" if is_from => Ok(Header::Matched),
            "match" => Err(syntax("cannot use \"match\" with HEADER in COPY TO")),
            _ => Err(syntax("header requires a Boolean value or \"match\"")),
        },
        Some(_) => Err(syntax("header requires a Boolean value or \"match\"")),
    }
}

fn named(value: Option<&CopyOption>) -> Result<Named, SqlError> {
    match value {
        None => Ok(Named::These(Vec::new())),
        Some(CopyOption::All) => Ok(Named::All),
        Some(CopyOption::Names(names)) => Ok(Named::These(names.clone())),
        Some(_) => {
            Err(wrong(SqlState::INVALID_PARAMETER_VALUE, "argument to option must be a list of column names"))
        }
    }
}

fn one_byte(what: &str, text: Option<String>, first: u8) -> Result<u8, SqlError> {
    match text.as_deref().map(str::as_bytes) {
        None => Ok(first),
        Some([byte]) => Ok(*byte),
        Some(_) if what == "delimiter" => {
            Err(unsupported("COPY delimiter must be a single one-byte character"))
        }
        Some(_) => Err(wrong(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("COPY {what} must be a single one-byte character"),
        )),
    }
}
