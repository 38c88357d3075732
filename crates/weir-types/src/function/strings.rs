//! String functions; positions and lengths count characters.

use std::collections::{HashMap, HashSet};

use super::arguments::{array, int, text};
use super::{Arg, CallTypes, Function};
use crate::arrays::type_of;
use crate::error::{SqlError, SqlState};
use crate::interrupt::{check, room_for, room_for_more};
use crate::sql_type::SqlType;
use crate::text::{parse_text, to_text};
use crate::value::Value;

use Arg::*;

type Evaluated = Result<Value, SqlError>;

/// PostgreSQL's limit of a value's size.
pub(super) const SIZE_MAX: usize = 0x3fff_ffff;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("length", &[Text], Int4, char_length),
    Function::new("char_length", &[Text], Int4, char_length),
    Function::new("character_length", &[Text], Int4, char_length),
    Function::new("octet_length", &[Text], Int4, |a, _| Ok(Value::Int(text(&a[0])?.len() as i64))),
    Function::new("bit_length", &[Text], Int4, |a, _| Ok(Value::Int(text(&a[0])?.len() as i64 * 8))),
    Function::new("lower", &[Text], Text, |a, _| Ok(Value::text(map_chars(text(&a[0])?, lower)))),
    Function::new("upper", &[Text], Text, |a, _| Ok(Value::text(map_chars(text(&a[0])?, upper)))),
    Function::new("initcap", &[Text], Text, initcap),
    Function::new("substr", &[Text, Int4, Int4], Text, substring),
    Function::new("substr", &[Text, Int4], Text, substring),
    Function::new("substring", &[Text, Int4, Int4], Text, substring),
    Function::new("substring", &[Text, Int4], Text, substring),
    Function::new("left", &[Text, Int4], Text, |a, _| {
        let (text, n) = (text(&a[0])?, int(&a[1])?);
        Ok(Value::text(part(text, 0..from_end(n, count(text)))))
    }),
    Function::new("right", &[Text, Int4], Text, |a, _| {
        let (text, n) = (text(&a[0])?, int(&a[1])?);
        let len = count(text);
        Ok(Value::text(part(text, len - from_end(n, len)..len)))
    }),
    Function::new("lpad", &[Text, Int4, Text], Text, |a, _| pad(a, true)).optional(1),
    Function::new("rpad", &[Text, Int4, Text], Text, |a, _| pad(a, false)).optional(1),
    Function::new("ltrim", &[Text, Text], Text, |a, _| trim(a, true, false)).optional(1),
    Function::new("rtrim", &[Text, Text], Text, |a, _| trim(a, false, true)).optional(1),
    Function::new("btrim", &[Text, Text], Text, |a, _| trim(a, true, true)).optional(1),
    Function::new("trim", &[Text, Text], Text, |a, _| trim(a, true, true)).optional(1),
    Function::new("repeat", &[Text, Int4], Text, repeat),
    Function::new("replace", &[Text, Text, Text], Text, replace),
    Function::new("reverse", &[Text], Text, |a, _| {
        Ok(Value::text(text(&a[0])?.chars().rev().collect::<String>()))
    }),
    Function::new("strpos", &[Text, Text], Int4, |a, _| position(text(&a[0])?, text(&a[1])?)),
    Function::new("position", &[Text, Text], Int4, |a, _| position(text(&a[0])?, text(&a[1])?)),
    Function::new("split_part", &[Text, Text, Int4], Text, split_part),
    Function::new("concat", &[Any], Text, concat).variadic().accepts_null(),
    Function::new("concat_ws", &[Text, Any], Text, concat_ws).variadic().accepts_null(),
    Function::new("chr", &[Int4], Text, chr),
    Function::new("ascii", &[Text], Int4, |a, _| {
        Ok(Value::Int(text(&a[0])?.chars().next().map_or(0, |c| i64::from(u32::from(c)))))
    }),
    Function::new("translate", &[Text, Text, Text], Text, translate),
    Function::new("starts_with", &[Text, Text], Bool, |a, _| {
        Ok(Value::Bool(text(&a[0])?.starts_with(text(&a[1])?)))
    }),
    Function::new("to_hex", &[Int4], Text, |a, _| Ok(Value::text(format!("{:x}", int(&a[0])? as i32)))),
    Function::new("to_hex", &[Int8], Text, |a, _| Ok(Value::text(format!("{:x}", int(&a[0])?)))),
    Function::new("overlay", &[Text, Text, Int4, Int4], Text, overlay).optional(1),
    Function::new("quote_literal", &[Text], Text, |a, _| Ok(Value::text(quote_literal(text(&a[0])?)))),
    Function::new("quote_literal", &[Any], Text, |a, types| {
        Ok(Value::text(quote_literal(&printed(&a[0], &types.args[0]))))
    }),
    Function::new("quote_nullable", &[Any], Text, |a, types| {
        Ok(Value::text(match &a[0] {
            Value::Null => "NULL".to_owned(),
            value => quote_literal(&printed(value, &types.args[0])),
        }))
    })
    .accepts_null(),
    Function::new("quote_ident", &[Text], Text, |a, _| Ok(Value::text(quote_identifier(text(&a[0])?)))),
    Function::new("format", &[Text, Any], Text, format).variadic().accepts_null(),
    Function::new("similar_to_escape", &[Text, Text], Text, similar_pattern).optional(1),
    Function::new("string_to_array", &[Text, Text, Text], TextArray, string_to_array)
        .optional(1)
        .accepts_null(),
    Function::new("array_to_string", &[AnyArray, Text, Text], Text, array_to_string)
        .optional(1)
        .accepts_null(),
];

/// Number of characters.
fn count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// The characters with these numbers.
fn part(text: &str, range: std::ops::Range<usize>) -> &str {
    if text.is_ascii() {
        return &text[range];
    }
    let mut bounds = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let start = bounds.nth(range.start).unwrap_or(text.len());
    let end = if range.is_empty() { start } else { bounds.nth(range.len() - 1).unwrap_or(text.len()) };
    &text[start..end]
}

fn lower(c: char) -> char {
    let mut folded = c.to_lowercase();
    if folded.len() == 1 { folded.next().unwrap_or(c) } else { c }
}

fn upper(c: char) -> char {
    let mut folded = c.to_uppercase();
    if folded.len() == 1 { folded.next().unwrap_or(c) } else { c }
}

fn map_chars(text: &str, map: fn(char) -> char) -> String {
    text.chars().map(map).collect()
}

fn char_length(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    Ok(Value::Int(text(&args[0])?.chars().count() as i64))
}

fn initcap(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let mut inside = false;
    let capital = |c: char| {
        let mapped = if inside { lower(c) } else { upper(c) };
        inside = c.is_alphanumeric();
        mapped
    };
    Ok(Value::text(text(&args[0])?.chars().map(capital).collect::<String>()))
}

/// The part of `len` elements that `FROM from FOR count` names.
pub(super) fn substring_range(
    from: i64,
    count: Option<i64>,
    len: usize,
) -> Result<std::ops::Range<usize>, SqlError> {
    let start = from - 1;
    let end = match count {
        None => i64::MAX,
        Some(count) if count < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(count) => start + count,
    };
    let clamp = |at: i64| at.clamp(0, len as i64) as usize;
    Ok(clamp(start)..clamp(end).max(clamp(start)))
}

fn substring(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let text = text(&args[0])?;
    let wanted = args.get(2).map(int).transpose()?;
    Ok(Value::text(part(text, substring_range(int(&args[1])?, wanted, count(text))?)))
}

/// Number of elements that `n` keeps: a negative number leaves so many out.
fn from_end(n: i64, len: usize) -> usize {
    let kept = if n < 0 { len as i64 + n } else { n };
    kept.clamp(0, len as i64) as usize
}

#[cold]
fn too_large() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

fn pad(args: &[Value], on_left: bool) -> Evaluated {
    let (whole, len) = (text(&args[0])?, count(text(&args[0])?));
    let wanted = int(&args[1])?.max(0) as usize;
    if wanted > SIZE_MAX {
        return Err(too_large());
    }
    let fill = args.get(2).map_or(Ok(" "), text)?;
    if wanted <= len {
        return Ok(Value::text(part(whole, 0..wanted)));
    }
    if fill.is_empty() {
        return Ok(args[0].clone());
    }
    let (times, rest) = ((wanted - len) / count(fill), (wanted - len) % count(fill));
    room_for(whole.len() + fill.len().saturating_mul(times + 1))?;
    let mut padded = String::new();
    if !on_left {
        padded.push_str(whole);
    }
    (0..times).for_each(|_| padded.push_str(fill));
    padded.push_str(part(fill, 0..rest));
    if on_left {
        padded.push_str(whole);
    }
    Ok(Value::text(padded))
}

fn trim(args: &[Value], left: bool, right: bool) -> Evaluated {
    let mut trimmed = text(&args[0])?;
    match args.get(1).map_or(Ok(" "), text)? {
        " " => trimmed = trimmed_of(trimmed, left, right, |c| c == ' '),
        set => {
            let set: HashSet<char> = set.chars().collect();
            trimmed = trimmed_of(trimmed, left, right, |c| set.contains(&c));
        }
    }
    Ok(Value::text(trimmed))
}

fn trimmed_of(mut text: &str, left: bool, right: bool, is_in: impl Fn(char) -> bool) -> &str {
    if left {
        text = text.trim_start_matches(&is_in);
    }
    if right {
        text = text.trim_end_matches(&is_in);
    }
    text
}

fn repeat(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (text, times) = (text(&args[0])?, int(&args[1])?.max(0) as usize);
    if text.len().checked_mul(times).is_none_or(|size| size > SIZE_MAX) {
        return Err(too_large());
    }
    room_for(text.len() * times)?;
    Ok(Value::text(text.repeat(times)))
}

fn replace(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (whole, from, to) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    if from.is_empty() {
        return Ok(args[0].clone());
    }
    if to.len() > from.len() {
        room_for(whole.len() + whole.matches(from).count() * (to.len() - from.len()))?;
    }
    Ok(Value::text(whole.replace(from, to)))
}

fn position(whole: &str, part: &str) -> Evaluated {
    let at = whole.find(part).map_or(0, |at| whole[..at].chars().count() + 1);
    Ok(Value::Int(at as i64))
}

fn split_part(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (whole, separator, n) = (text(&args[0])?, text(&args[1])?, int(&args[2])?);
    if n == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    let at = (n.unsigned_abs() - 1) as usize;
    let part = match (whole, separator) {
        ("", _) => None,
        (_, "") => (at == 0).then_some(whole),
        // Places where separators overlap are found from the left.
        _ if n > 0 => whole.split(separator).nth(at),
        _ => {
            let parts = whole.split(separator).count();
            parts.checked_sub(at + 1).and_then(|at| whole.split(separator).nth(at))
        }
    };
    Ok(Value::text(part.unwrap_or("")))
}

/// The type's output, `t` and `f` for booleans.
fn printed(value: &Value, ty: &SqlType) -> String {
    match ty {
        SqlType::Unknown => to_text(value, &type_of(value)),
        _ => to_text(value, ty),
    }
}

/// Appends to a value that is being made.
fn push(joined: &mut String, separator: &str, part: &str) -> Result<(), SqlError> {
    room_for_more(joined.len() + separator.len() + part.len(), separator.len() + part.len())?;
    joined.push_str(separator);
    joined.push_str(part);
    Ok(())
}

fn concat(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    let mut joined = String::new();
    for (value, ty) in args.iter().zip(types.args) {
        if !value.is_null() {
            push(&mut joined, "", &printed(value, ty))?;
        }
    }
    Ok(Value::text(joined))
}

fn concat_ws(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let (mut joined, mut between) = (String::new(), "");
    for (value, ty) in args.iter().zip(types.args).skip(1).filter(|(value, _)| !value.is_null()) {
        push(&mut joined, between, &printed(value, ty))?;
        between = text(&args[0])?;
    }
    Ok(Value::text(joined))
}

fn chr(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let code = int(&args[0])?;
    let refuse = |message: String| Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    if code < 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "character number must be positive"));
    }
    if code == 0 {
        return refuse("null character not permitted".to_owned());
    }
    match u32::try_from(code).ok().and_then(char::from_u32) {
        Some(c) => Ok(Value::text(c.to_string())),
        None if code > 0x10_ffff => refuse(format!("requested character too large for encoding: {code}")),
        None => refuse(format!("requested character not valid for encoding: {code}")),
    }
}

fn translate(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let mut known: HashMap<char, Option<char>> = HashMap::new();
    let mut to = text(&args[2])?.chars();
    for c in text(&args[1])?.chars() {
        let instead = to.next();
        known.entry(c).or_insert(instead);
    }
    let map = |c: char| known.get(&c).copied().unwrap_or(Some(c));
    Ok(Value::text(text(&args[0])?.chars().filter_map(map).collect::<String>()))
}

fn overlay(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (whole, new, from) = (text(&args[0])?, text(&args[1])?, int(&args[2])?);
    let (len, replaced) = (count(whole), args.get(3).map_or(Ok(count(new) as i64), int)?);
    if from <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let before = part(whole, substring_range(1, Some(from - 1), len)?);
    let after = part(whole, substring_range(from + replaced, None, len)?);
    room_for(before.len() + new.len() + after.len())?;
    Ok(Value::text([before, new, after].concat()))
}

/// In quotes, doubled inside; with backslashes the `E'…'` form.
pub fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

/// PostgreSQL's key words that are not free to be names.
const KEYWORDS: &str = " all analyse analyze and any array as asc asymmetric authorization between bigint \
    binary bit boolean both case cast char character check coalesce collate collation column concurrently \
    constraint create cross current_catalog current_date current_role current_schema current_time \
    current_timestamp current_user dec decimal default deferrable desc distinct do else end except exists \
    extract false fetch float for foreign freeze from full grant greatest group grouping having ilike in \
    initially inner inout int integer intersect interval into is isnull join lateral leading least left like \
    limit localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric \
    offset on only or order out outer overlaps overlay placing position precision primary real references \
    returning right row select session_user setof similar smallint some substring symmetric table \
    tablesample then time timestamp to trailing treat trim true union unique user using values varchar \
    variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest \
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable ";

/// As it is if it is a plain name, else in double quotes.
pub fn quote_identifier(name: &str) -> String {
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let plain = starts_well
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !KEYWORDS.contains(&format!(" {name} "));
    if plain { name.to_owned() } else { double_quoted(name) }
}

/// A name in double quotes, needed or not.
pub fn double_quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// One `%` specifier of `format`.
struct Specifier {
    position: Option<usize>,
    left: bool,
    width: Width,
    kind: char,
}

enum Width {
    Fixed(usize),
    /// Width given by the next argument.
    Next,
    /// Width given by this argument.
    Argument(usize),
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn format_number(chars: &mut Characters<'_>) -> Result<Option<usize>, SqlError> {
    let mut number: Option<usize> = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        let next = number.unwrap_or(0) * 10 + digit as usize;
        if next > i32::MAX as usize {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range"));
        }
        number = Some(next);
    }
    Ok(number)
}

/// `%[position$][-][width]type`, where the width is a number, `*` or `*n$`.
fn specifier(chars: &mut Characters<'_>) -> Result<Specifier, SqlError> {
    let wrong = |message: &str| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let unterminated =
        || wrong("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".");
    let of_arguments = |number: usize| match number {
        0 => Err(wrong("format specifies argument 0, but arguments are numbered from 1")),
        number => Ok(number),
    };
    let mut found = Specifier { position: None, left: false, width: Width::Fixed(0), kind: 's' };
    let number = format_number(chars)?;
    chars.peek().ok_or_else(unterminated)?;
    match number {
        Some(number) if chars.peek() == Some(&'$') => {
            found.position = Some(of_arguments(number)?);
            chars.next();
        }
        Some(number) => found.width = Width::Fixed(number),
        None => {}
    }
    if number.is_none() || found.position.is_some() {
        while chars.next_if_eq(&'-').is_some() {
            found.left = true;
        }
        if chars.next_if_eq(&'*').is_some() {
            found.width = Width::Next;
            if let Some(number) = format_number(chars)? {
                chars.peek().ok_or_else(unterminated)?;
                if chars.next_if_eq(&'$').is_none() {
                    return Err(wrong("width argument position must be ended by \"$\""));
                }
                found.width = Width::Argument(of_arguments(number)?);
            }
        } else if let Some(number) = format_number(chars)? {
            found.width = Width::Fixed(number);
        }
    }
    found.kind = chars.next().ok_or_else(unterminated)?;
    Ok(found)
}

fn format_width(value: &Value, ty: &SqlType) -> Result<i64, SqlError> {
    match value {
        Value::Null => Ok(0),
        value => match parse_text(&printed(value, ty), &SqlType::Int4)? {
            Value::Int(width) => Ok(width),
            _ => Ok(0),
        },
    }
}

fn format(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let too_few = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "too few arguments for format()");
    let mut chars = text(&args[0])?.chars().peekable();
    let (mut out, mut next) = (String::new(), 1);
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut specifier = specifier(&mut chars)?;
        if !matches!(specifier.kind, 's' | 'I' | 'L') {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unrecognized format() type specifier \"{}\"", specifier.kind),
            )
            .with_hint("For a single \"%\" use \"%%\"."));
        }
        let of_argument = match specifier.width {
            Width::Fixed(_) => None,
            Width::Next => Some(next),
            Width::Argument(at) => Some(at),
        };
        let width = match (of_argument, specifier.width) {
            (Some(at), _) => {
                next = at + 1;
                let width = format_width(args.get(at).ok_or_else(too_few)?, &types.args[at])?;
                specifier.left |= width < 0;
                width.unsigned_abs() as usize
            }
            (None, Width::Fixed(width)) => width,
            (None, _) => 0,
        };
        let at = specifier.position.unwrap_or(next);
        let value = args.get(at).ok_or_else(too_few)?;
        next = at + 1;
        let item = format_item(value, &types.args[at], specifier.kind)?;
        let padding = width.min(SIZE_MAX).saturating_sub(item.chars().count());
        room_for(out.len() + item.len() + padding)?;
        if specifier.left {
            out.push_str(&item);
            out.extend(std::iter::repeat_n(' ', padding));
        } else {
            out.extend(std::iter::repeat_n(' ', padding));
            out.push_str(&item);
        }
    }
    Ok(Value::text(out))
}

fn format_item(value: &Value, ty: &SqlType, kind: char) -> Result<String, SqlError> {
    match (kind, value) {
        ('s', Value::Null) => Ok(String::new()),
        ('L', Value::Null) => Ok("NULL".to_owned()),
        (_, Value::Null) => Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "null values cannot be formatted as an SQL identifier",
        )),
        ('s', value) => Ok(printed(value, ty)),
        ('I', value) => Ok(quote_identifier(&printed(value, ty))),
        (_, value) => Ok(quote_literal(&printed(value, ty))),
    }
}

pub(super) fn text_array(values: Vec<Value>) -> Value {
    Value::array(SqlType::Text, values)
}

/// The regular expression of a pattern of SIMILAR TO.
fn similar_pattern(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let escape = match args.get(1) {
        None => Some('\\'),
        Some(escape) => {
            let mut chars = text(escape)?.chars();
            let first = chars.next();
            if chars.next().is_some() {
                return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
                    .with_hint("Escape string must be empty or one character."));
            }
            first
        }
    };
    let mut out = String::from("^(?:");
    let mut within_class = false;
    let mut chars = text(&args[0])?.chars();
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                let Some(next) = chars.next() else { break };
                // Letters and digits stand for themselves; the rest is told apart from what means something.
                if !next.is_alphanumeric() {
                    out.push('\\');
                }
                out.push(next);
            }
            ']' if within_class => {
                within_class = false;
                out.push(']');
            }
            '\\' => out.push_str("\\\\"),
            c if within_class => out.push(c),
            '[' => {
                within_class = true;
                out.push('[');
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(Value::text(out))
}

fn string_to_array(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() {
        return Ok(Value::Null);
    }
    let whole = text(&args[0])?;
    let parts: Box<dyn Iterator<Item = &str>> = match &args[1] {
        _ if whole.is_empty() => Box::new(std::iter::empty()),
        Value::Null => Box::new(whole.char_indices().map(|(at, c)| &whole[at..at + c.len_utf8()])),
        separator => match text(separator)? {
            "" => Box::new(std::iter::once(whole)),
            separator => Box::new(whole.split(separator)),
        },
    };
    let null = match args.get(2) {
        Some(Value::Text(null)) => Some(null.as_str()),
        _ => None,
    };
    let mut values = Vec::new();
    for part in parts {
        check()?;
        values.push(if null == Some(part) { Value::Null } else { Value::text(part) });
    }
    Ok(text_array(values))
}

fn array_to_string(args: &[Value], types: &CallTypes<'_>) -> Evaluated {
    if args[0].is_null() || args[1].is_null() {
        return Ok(Value::Null);
    }
    let (array, separator) = (array(&args[0])?, text(&args[1])?);
    let element = match &types.args[0] {
        SqlType::Array(element) => element,
        _ => &array.element,
    };
    let null = match args.get(2) {
        Some(Value::Text(null)) => Some(null.as_str()),
        _ => None,
    };
    let (mut joined, mut between) = (String::new(), "");
    for value in &array.values {
        match (value, null) {
            (Value::Null, None) => continue,
            (Value::Null, Some(null)) => push(&mut joined, between, null)?,
            (value, _) => push(&mut joined, between, &printed(value, element))?,
        }
        between = separator;
    }
    Ok(Value::text(joined))
}
