//! Functions of regular expressions ([`crate::regexp`]), with the defaults and errors of PostgreSQL 15.

use std::rc::Rc;

use super::arguments::{int, text};
use super::strings::text_array;
use super::{Arg, CallTypes, Function};
use crate::error::{SqlError, SqlState};
use crate::regexp::{Flags, Groups, Regex, Subject, compile};
use crate::value::Value;

use Arg::*;

type Evaluated = Result<Value, SqlError>;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("substring", &[Text, Text], Text, substring),
    Function::new("regexp_replace", &[Text, Text, Text, Text], Text, |a, _| replace(a, None, a.get(3)))
        .optional(1),
    Function::new("regexp_replace", &[Text, Text, Text, Int4], Text, |a, _| {
        replace(a, Some((3, None)), None)
    }),
    Function::new("regexp_replace", &[Text, Text, Text, Int4, Int4, Text], Text, |a, _| {
        replace(a, Some((3, Some(4))), a.get(5))
    })
    .optional(1),
    Function::new("regexp_match", &[Text, Text, Text], TextArray, regexp_match).optional(1),
    Function::new("regexp_split_to_array", &[Text, Text, Text], TextArray, split).optional(1),
    Function::new("regexp_like", &[Text, Text, Text], Bool, |a, _| {
        Ok(Value::Bool(one_of(a, "regexp_like", a.get(2))?.is_match(text(&a[0])?)?))
    })
    .optional(1),
    Function::new("regexp_count", &[Text, Text, Int4, Text], Int4, count).optional(2),
    Function::new("regexp_substr", &[Text, Text, Int4, Int4, Text, Int4], Text, substr).optional(4),
    Function::new("regexp_instr", &[Text, Text, Int4, Int4, Int4, Text, Int4], Int4, instr).optional(5),
];

/// The compiled expression, and whether all matches are wanted.
fn regex_of(pattern: &Value, flags: Option<&Value>) -> Result<(Rc<Regex>, bool), SqlError> {
    let (mut options, mut everywhere) = (Flags::default(), false);
    for letter in flags.map_or(Ok(""), text)?.chars() {
        match letter {
            'g' => everywhere = true,
            letter => options.set(letter)?,
        }
    }
    Ok((compile(text(pattern)?, options)?, everywhere))
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Regular expression of a function that does not accept the option g.
fn one_of(args: &[Value], name: &str, flags: Option<&Value>) -> Result<Rc<Regex>, SqlError> {
    match regex_of(&args[1], flags)? {
        (_, true) => {
            let error = invalid(format!("{name}() does not support the \"global\" option"));
            Err(match name {
                "regexp_match" => error.with_hint("Use the regexp_matches function instead."),
                _ => error,
            })
        }
        (regex, false) => Ok(regex),
    }
}

/// An argument that has a least value and a default.
fn at_least(args: &[Value], at: usize, name: &str, least: i64, default: i64) -> Result<usize, SqlError> {
    let value = args.get(at).map_or(Ok(default), int)?;
    if value < least {
        return Err(invalid(format!("invalid value for parameter \"{name}\": {value}")));
    }
    Ok(value as usize)
}

/// The groups in text, or the whole match if there are none.
fn texts(regex: &Regex, subject: &Subject<'_>, groups: &Groups) -> Value {
    let skipped = usize::from(regex.groups > 0);
    let value =
        |group: &Option<(usize, usize)>| group.map_or(Value::Null, |of| Value::text(subject.part(of)));
    text_array(groups[skipped..].iter().map(value).collect())
}

fn substring(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (regex, _) = regex_of(&args[1], None)?;
    let subject = Subject::new(text(&args[0])?)?;
    let group = usize::from(regex.groups > 0);
    let found = regex.find_at(&subject, 0)?.and_then(|groups| groups[group]);
    Ok(found.map_or(Value::Null, |of| Value::text(subject.part(of))))
}

/// `numbers`: where the start stands among the arguments, and which match is meant (0: all).
fn replace(args: &[Value], numbers: Option<(usize, Option<usize>)>, flags: Option<&Value>) -> Evaluated {
    if let (None, Some(flags)) = (numbers, flags)
        && text(flags)?.starts_with(|c: char| c.is_ascii_digit())
    {
        let letter: String = text(flags)?.chars().take(1).collect();
        let error = invalid(format!("invalid regular expression option: \"{letter}\""));
        return Err(error.with_hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
        ));
    }
    let (start, nth) = match numbers {
        None => (1, None),
        Some((start, nth)) => {
            let start = at_least(args, start, "start", 1, 1)?;
            (start, nth.map(|nth| at_least(args, nth, "n", 0, 1)).transpose()?)
        }
    };
    let (regex, everywhere) = regex_of(&args[1], flags)?;
    let nth = nth.unwrap_or(usize::from(!everywhere));
    let subject = Subject::new(text(&args[0])?)?;
    let replacement = text(&args[2])?;
    let (mut out, mut copied) = (String::new(), 0);
    for (number, groups) in regex.matches(&subject, start - 1).enumerate() {
        let groups = groups?;
        if nth > 0 && number + 1 != nth {
            continue;
        }
        let Some((from, to)) = groups[0] else { continue };
        out.push_str(subject.part((copied, from)));
        expand(replacement, &subject, &groups, &mut out);
        copied = to;
        if nth > 0 {
            break;
        }
    }
    out.push_str(subject.part((copied, subject.chars.len())));
    Ok(Value::text(out))
}

fn expand(replacement: &str, subject: &Subject<'_>, groups: &Groups, out: &mut String) {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let group = match chars.next() {
            Some('&') => Some(0),
            Some(digit @ '1'..='9') => Some(digit as usize - '0' as usize),
            Some('\\') => None,
            Some(other) => {
                out.extend(['\\', other]);
                continue;
            }
            None => None,
        };
        match group {
            None => out.push('\\'),
            Some(group) => {
                let of = groups.get(group).copied().flatten();
                out.push_str(of.map_or("", |of| subject.part(of)));
            }
        }
    }
}

fn regexp_match(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let regex = one_of(args, "regexp_match", args.get(2))?;
    let subject = Subject::new(text(&args[0])?)?;
    let found = regex.find_at(&subject, 0)?;
    Ok(found.map_or(Value::Null, |groups| texts(&regex, &subject, &groups)))
}

/// An array of each match; of the first one without the flag g.
pub(super) fn regexp_matches(args: &[Value]) -> Result<Vec<Value>, SqlError> {
    let (regex, everywhere) = regex_of(&args[1], args.get(2))?;
    let subject = Subject::new(text(&args[0])?)?;
    let count = if everywhere { usize::MAX } else { 1 };
    let found = regex.matches(&subject, 0).take(count);
    found.map(|groups| Ok(texts(&regex, &subject, &groups?))).collect()
}

/// Empty matches at the ends of the text, and at the end of another match, separate nothing.
fn split(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let regex = one_of(args, "regexp_split_to_array", args.get(2))?;
    let subject = Subject::new(text(&args[0])?)?;
    let (mut parts, mut start, mut last) = (Vec::new(), 0, 0);
    for groups in regex.matches(&subject, 0) {
        let Some((from, to)) = groups?[0] else { continue };
        if from < subject.chars.len() && to > last {
            parts.push(Value::text(subject.part((start, from))));
            start = to;
        }
        last = to;
    }
    parts.push(Value::text(subject.part((start, subject.chars.len()))));
    Ok(text_array(parts))
}

fn count(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let start = at_least(args, 2, "start", 1, 1)?;
    let regex = one_of(args, "regexp_count", args.get(3))?;
    let subject = Subject::new(text(&args[0])?)?;
    let count = regex.matches(&subject, start - 1).try_fold(0, |count, one| one.map(|_| count + 1))?;
    Ok(Value::Int(count))
}

/// The match of that number, from 1 on.
fn nth_of(
    matches: impl Iterator<Item = Result<Groups, SqlError>>,
    nth: usize,
) -> Result<Option<Groups>, SqlError> {
    for (before, groups) in matches.enumerate() {
        let groups = groups?;
        if before + 1 == nth {
            return Ok(Some(groups));
        }
    }
    Ok(None)
}

fn substr(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (start, nth) = (at_least(args, 2, "start", 1, 1)?, at_least(args, 3, "n", 1, 1)?);
    let group = at_least(args, 5, "subexpr", 0, 0)?;
    let regex = one_of(args, "regexp_substr", args.get(4))?;
    let subject = Subject::new(text(&args[0])?)?;
    let found = nth_of(regex.matches(&subject, start - 1), nth)?;
    let found = found.and_then(|groups| groups.get(group).copied().flatten());
    Ok(found.map_or(Value::Null, |of| Value::text(subject.part(of))))
}

fn instr(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let (start, nth) = (at_least(args, 2, "start", 1, 1)?, at_least(args, 3, "n", 1, 1)?);
    let end = args.get(4).map_or(Ok(0), int)?;
    if !(0..=1).contains(&end) {
        return Err(invalid(format!("invalid value for parameter \"endoption\": {end}")));
    }
    let group = at_least(args, 6, "subexpr", 0, 0)?;
    let regex = one_of(args, "regexp_instr", args.get(5))?;
    let subject = Subject::new(text(&args[0])?)?;
    let found = nth_of(regex.matches(&subject, start - 1), nth)?;
    let found = found.and_then(|groups| groups.get(group).copied().flatten());
    Ok(Value::Int(found.map_or(0, |(from, to)| if end == 1 { to + 1 } else { from + 1 } as i64)))
}
