//! Values in PostgreSQL's binary format: what clients bind and fetch, and binary COPY has.
//!
//! Integers are big-endian everywhere. The text format is [`crate::text`].

use std::sync::Arc;

use crate::error::{SqlError, SqlState};
use crate::sql_type::SqlType;
use crate::text::{parse_text, text_of, to_text};
use crate::value::{Array, Interval, Value};

/// The types with the numbers that PostgreSQL gives them and their arrays in every database.
const NUMBERED: [(SqlType, u32, u32); 18] = [
    (SqlType::Bool, 16, 1000),
    (SqlType::Bytea, 17, 1001),
    (SqlType::Int8, 20, 1016),
    (SqlType::Int2, 21, 1005),
    (SqlType::Int4, 23, 1007),
    (SqlType::Text, 25, 1009),
    (SqlType::Float4, 700, 1021),
    (SqlType::Float8, 701, 1022),
    (SqlType::Char(0), 1042, 1014),
    (SqlType::Varchar(None), 1043, 1015),
    (SqlType::Date, 1082, 1182),
    (SqlType::Timestamp, 1114, 1115),
    (SqlType::Timestamptz, 1184, 1185),
    (SqlType::Interval, 1186, 1187),
    (SqlType::Numeric(None), 1700, 1231),
    (SqlType::Uuid, 2950, 2951),
    (SqlType::Jsonb, 3802, 3807),
    (SqlType::Unknown, 705, 0),
];
const RECORD: u32 = 2249;
const VOID: u32 = 2278;

/// The type's number in `pg_type`; of an enumeration, which has one only in a database, that of text.
pub fn type_number(ty: &SqlType) -> u32 {
    let base = |ty: &SqlType| match ty {
        SqlType::Char(_) => SqlType::Char(0),
        SqlType::Enum(_) | SqlType::Opaque(_) => SqlType::Text,
        ty => ty.base(),
    };
    let of = |ty: &SqlType| NUMBERED.iter().find(|(one, ..)| *one == base(ty));
    match ty {
        SqlType::Record => RECORD,
        SqlType::Void => VOID,
        SqlType::Array(element) => of(element).map_or(0, |(.., array)| *array),
        ty => of(ty).map_or(0, |(_, number, _)| *number),
    }
}

/// The type of that number in `pg_type`; none: one that Weir does not have, or that only a database numbers.
pub fn type_of_number(number: u32) -> Option<SqlType> {
    if number == 0 {
        return Some(SqlType::Unknown);
    }
    let found = NUMBERED.iter().find(|(_, one, array)| *one == number || *array == number);
    found.map(|(ty, one, _)| if *one == number { ty.clone() } else { SqlType::array_of(ty.clone()) })
}

/// Appends the value, which is of the type and not NULL, without its length.
///
/// # Errors
/// A row value, whose fields have no types here (0A000).
pub fn write_binary(value: &Value, ty: &SqlType, out: &mut Vec<u8>) -> Result<(), SqlError> {
    match (value, ty) {
        (Value::Bool(bool), _) => out.push(u8::from(*bool)),
        (Value::Int(int), SqlType::Int2) => out.extend((*int as i16).to_be_bytes()),
        (Value::Int(int), SqlType::Int4) => out.extend((*int as i32).to_be_bytes()),
        (Value::Int(int), _) => out.extend(int.to_be_bytes()),
        (Value::Float4(float), _) => out.extend(float.to_be_bytes()),
        (Value::Float8(float), _) => out.extend(float.to_be_bytes()),
        (Value::Numeric(numeric), _) => write_numeric(&numeric.to_string(), out),
        (Value::Date(days), _) => out.extend(days.to_be_bytes()),
        (Value::Timestamp(microseconds), _) => out.extend(microseconds.to_be_bytes()),
        (Value::Interval(interval), _) => {
            out.extend(interval.microseconds.to_be_bytes());
            out.extend(interval.days.to_be_bytes());
            out.extend(interval.months.to_be_bytes());
        }
        (Value::Uuid(bytes), _) => out.extend(bytes.iter()),
        (Value::Bytea(bytes), _) => out.extend(bytes.iter()),
        (Value::Jsonb(json), _) => {
            out.push(1);
            out.extend(json.to_string().bytes());
        }
        (Value::Text(_), _) => out.extend(to_text(value, ty).bytes()),
        (Value::Array(array), _) => write_array(array, ty, out)?,
        (Value::Record(_) | Value::Null | Value::Deferred, _) => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "row values have no binary format here",
            )
            .with_hint("ask for its fields, or for the text format"));
        }
    }
    Ok(())
}

fn write_array(array: &Array, ty: &SqlType, out: &mut Vec<u8>) -> Result<(), SqlError> {
    let element = match ty {
        SqlType::Array(element) => element,
        _ => &array.element,
    };
    let dimensions = i32::from(!array.values.is_empty());
    let has_null = array.values.iter().any(Value::is_null);
    out.extend(dimensions.to_be_bytes());
    out.extend(i32::from(has_null).to_be_bytes());
    out.extend(type_number(element).to_be_bytes());
    if dimensions == 1 {
        out.extend((array.values.len() as i32).to_be_bytes());
        out.extend(1_i32.to_be_bytes());
    }
    for value in &array.values {
        write_field(value, element, out)?;
    }
    Ok(())
}

/// Appends the value's length and the value; NULL has length −1.
///
/// # Errors
/// As [`write_binary`].
pub fn write_field(value: &Value, ty: &SqlType, out: &mut Vec<u8>) -> Result<(), SqlError> {
    let start = out.len();
    out.extend((-1_i32).to_be_bytes());
    if !value.is_null() {
        write_binary(value, ty, out)?;
        let length = (out.len() - start - 4) as i32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xC000;
const NUMERIC_INFINITY: u16 = 0xD000;
const NUMERIC_MINUS_INFINITY: u16 = 0xF000;
/// Decimal digits in one of numeric's.
const DIGITS: usize = 4;

/// From the decimal text: digits of base 10,000, the weight of the first one, the sign, the display scale.
fn write_numeric(text: &str, out: &mut Vec<u8>) {
    let special = match text {
        "NaN" => Some(NUMERIC_NAN),
        "Infinity" => Some(NUMERIC_INFINITY),
        "-Infinity" => Some(NUMERIC_MINUS_INFINITY),
        _ => None,
    };
    let mut put = |count: usize, weight: i16, sign: u16, scale: usize, digits: &[u16]| {
        out.extend((count as i16).to_be_bytes());
        out.extend(weight.to_be_bytes());
        out.extend(sign.to_be_bytes());
        out.extend((scale as i16).to_be_bytes());
        out.extend(digits.iter().flat_map(|digit| digit.to_be_bytes()));
    };
    if let Some(sign) = special {
        return put(0, 0, sign, 0, &[]);
    }
    let (sign, text) = text.strip_prefix('-').map_or((0, text), |rest| (NUMERIC_NEGATIVE, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    // Padded to whole digits on both sides of the point.
    let before = (DIGITS - whole.len() % DIGITS) % DIGITS;
    let after = (DIGITS - fraction.len() % DIGITS) % DIGITS;
    let decimals: Vec<u8> = std::iter::repeat_n(b'0', before)
        .chain(whole.bytes())
        .chain(fraction.bytes())
        .chain(std::iter::repeat_n(b'0', after))
        .collect();
    let digit = |four: &[u8]| four.iter().fold(0_u16, |digit, one| digit * 10 + u16::from(one - b'0'));
    let digits: Vec<u16> = decimals.chunks(DIGITS).map(digit).collect();
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    let trailing = digits[leading..].iter().rev().take_while(|digit| **digit == 0).count();
    let shown = &digits[leading..digits.len() - trailing];
    let weight = ((whole.len() + before) / DIGITS) as i16 - 1 - leading as i16;
    if shown.is_empty() {
        return put(0, 0, 0, fraction.len(), &[]);
    }
    put(shown.len(), weight, sign, fraction.len(), shown);
}

/// Reads a value of the type; a modifier applies as for a literal.
///
/// # Errors
/// 22P03 where the bytes are no such value, and what [`parse_text`] finds.
pub fn parse_binary(bytes: &[u8], ty: &SqlType) -> Result<Value, SqlError> {
    let mut input = Input { bytes, ty };
    let value = input.value()?;
    if input.bytes.is_empty() { Ok(value) } else { Err(input.wrong()) }
}

struct Input<'a> {
    bytes: &'a [u8],
    ty: &'a SqlType,
}

impl<'a> Input<'a> {
    #[cold]
    fn wrong(&self) -> SqlError {
        let message = format!("incorrect binary data format for type {}", self.ty);
        SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], SqlError> {
        let (first, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(|| self.wrong())?;
        self.bytes = rest;
        Ok(*first)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn text(&mut self) -> Result<&'a str, SqlError> {
        text_of(self.all())
    }

    fn int16(&mut self) -> Result<i16, SqlError> {
        Ok(i16::from_be_bytes(self.take()?))
    }

    fn int32(&mut self) -> Result<i32, SqlError> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    fn int64(&mut self) -> Result<i64, SqlError> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    fn value(&mut self) -> Result<Value, SqlError> {
        Ok(match self.ty {
            SqlType::Bool => Value::Bool(self.take::<1>()? != [0]),
            SqlType::Int2 => Value::Int(i64::from(self.int16()?)),
            SqlType::Int4 => Value::Int(i64::from(self.int32()?)),
            SqlType::Int8 => Value::Int(self.int64()?),
            SqlType::Float4 => Value::Float4(f32::from_be_bytes(self.take()?)),
            SqlType::Float8 => Value::Float8(f64::from_be_bytes(self.take()?)),
            SqlType::Numeric(_) => {
                let text = self.numeric()?;
                parse_text(&text, self.ty)?
            }
            SqlType::Date => Value::Date(self.int32()?),
            SqlType::Timestamp | SqlType::Timestamptz => Value::Timestamp(self.int64()?),
            SqlType::Interval => {
                let (microseconds, days, months) = (self.int64()?, self.int32()?, self.int32()?);
                Value::interval(Interval { months, days, microseconds })
            }
            SqlType::Uuid => Value::Uuid(Arc::new(self.take()?)),
            SqlType::Bytea => Value::bytea(self.all().to_vec()),
            SqlType::Jsonb => {
                if self.take::<1>()? != [1] {
                    return Err(self.wrong());
                }
                parse_text(self.text()?, self.ty)?
            }
            SqlType::Array(element) => self.array(element)?,
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Enum(_) | SqlType::Unknown => {
                parse_text(self.text()?, self.ty)?
            }
            SqlType::Opaque(_) | SqlType::Record | SqlType::Void => return Err(self.wrong()),
        })
    }

    fn array(&mut self, element: &'a SqlType) -> Result<Value, SqlError> {
        let (dimensions, _has_null, _element) = (self.int32()?, self.int32()?, self.int32()?);
        let count = match dimensions {
            0 => 0,
            1 => {
                let (count, lower) = (self.int32()?, self.int32()?);
                if lower != 1 {
                    return Err(self.wrong());
                }
                count
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "arrays of several dimensions are not supported",
                ));
            }
        };
        let mut values = Vec::new();
        for _ in 0..count {
            let length = self.int32()?;
            if length < 0 {
                values.push(Value::Null);
                continue;
            }
            let (bytes, rest) = self.bytes.split_at_checked(length as usize).ok_or_else(|| self.wrong())?;
            self.bytes = rest;
            values.push(parse_binary(bytes, element)?);
        }
        Ok(Value::array(element.clone(), values))
    }

    /// As decimal text.
    fn numeric(&mut self) -> Result<String, SqlError> {
        let (count, weight) = (self.int16()?, i64::from(self.int16()?));
        let (sign, scale) = (self.int16()? as u16, self.int16()?);
        let minus = match sign {
            0 => "",
            NUMERIC_NEGATIVE => "-",
            NUMERIC_NAN => return Ok("NaN".to_owned()),
            NUMERIC_INFINITY => return Ok("Infinity".to_owned()),
            NUMERIC_MINUS_INFINITY => return Ok("-Infinity".to_owned()),
            _ => return Err(self.wrong()),
        };
        let (Ok(count), Ok(scale)) = (usize::try_from(count), usize::try_from(scale)) else {
            return Err(self.wrong());
        };
        let mut digits = Vec::with_capacity(count);
        for _ in 0..count {
            let digit = self.int16()?;
            if !(0..10_000).contains(&digit) {
                return Err(self.wrong());
            }
            digits.push(digit);
        }
        // The digit that counts 10,000 to the power of `at`.
        let digit = |at: i64| {
            usize::try_from(weight - at).ok().and_then(|index| digits.get(index)).copied().unwrap_or(0)
        };
        let whole: String = (0..=weight.max(0)).rev().map(|at| format!("{:04}", digit(at))).collect();
        let after = scale.div_ceil(DIGITS) as i64;
        let mut fraction: String = (1..=after).map(|at| format!("{:04}", digit(-at))).collect();
        fraction.truncate(scale);
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let point = if scale == 0 { "" } else { "." };
        Ok(format!("{minus}{whole}{point}{fraction}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(text: &str, ty: &SqlType) -> Vec<u8> {
        let mut out = Vec::new();
        write_binary(&parse_text(text, ty).unwrap(), ty, &mut out).unwrap();
        out
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As PostgreSQL 15 has it: `SELECT encode(numeric_send(…), 'hex')` and so on.
    #[test]
    fn bytes_are_as_postgresql_sends_them() {
        let check = |text: &str, ty: SqlType, expected: &str| {
            let bytes = bytes_of(text, &ty);
            assert_eq!(hex(&bytes), expected, "{text} as {ty}");
            let back = parse_binary(&bytes, &ty).unwrap();
            assert_eq!(to_text(&back, &ty), to_text(&parse_text(text, &ty).unwrap(), &ty), "{text} as {ty}");
        };
        let numeric = SqlType::Numeric(None);
        check("t", SqlType::Bool, "01");
        check("-2", SqlType::Int2, "fffe");
        check("7", SqlType::Int4, "00000007");
        check("-1", SqlType::Int8, "ffffffffffffffff");
        check("1.5", SqlType::Float4, "3fc00000");
        check("-0.1", SqlType::Float8, "bfb999999999999a");
        check("12345.678", numeric.clone(), "0003000100000003000109291a7c");
        check("-0.00010", numeric.clone(), "0001ffff400000050001");
        check("0.000", numeric.clone(), "0000000000000003");
        check("0", numeric.clone(), "0000000000000000");
        check("10000", numeric.clone(), "00010001000000000001");
        check("100000000.5", numeric.clone(), "00040002000000010001000000001388");
        check("NaN", numeric.clone(), "00000000c0000000");
        check("-Infinity", numeric, "00000000f0000000");
        check("Grüße", SqlType::Text, "4772c3bcc39f65");
        check("ab", SqlType::Char(4), "61622020");
        check("2000-01-02", SqlType::Date, "00000001");
        check("2000-01-01 00:00:01", SqlType::Timestamp, "00000000000f4240");
        check("2000-01-01 01:00:01+01", SqlType::Timestamptz, "00000000000f4240");
        check("1 mon 2 days 00:00:00.000003", SqlType::Interval, "00000000000000030000000200000001");
        check("00112233-4455-6677-8899-aabbccddeeff", SqlType::Uuid, "00112233445566778899aabbccddeeff");
        check("\\x00ff", SqlType::Bytea, "00ff");
        check("{\"a\": 1}", SqlType::Jsonb, "017b2261223a20317d");
        check(
            "{1,NULL}",
            SqlType::array_of(SqlType::Int4),
            "00000001000000010000001700000002000000010000000400000001ffffffff",
        );
        check("{}", SqlType::array_of(SqlType::Text), "000000000000000000000019");
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let check = |bytes: &[u8], ty: SqlType, state: SqlState| {
            assert_eq!(parse_binary(bytes, &ty).unwrap_err().state(), state, "{bytes:?} as {ty}");
        };
        let wrong = SqlState::INVALID_BINARY_REPRESENTATION;
        for ty in NUMBERED.map(|(ty, ..)| ty).into_iter().chain([SqlType::array_of(SqlType::Int4)]) {
            // Half a value, and one byte too many.
            let whole = match &ty {
                SqlType::Text
                | SqlType::Varchar(_)
                | SqlType::Char(_)
                | SqlType::Unknown
                | SqlType::Bytea => continue,
                SqlType::Array(_) => bytes_of("{7}", &ty),
                SqlType::Bool => bytes_of("t", &ty),
                SqlType::Uuid => bytes_of("00112233-4455-6677-8899-aabbccddeeff", &ty),
                SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => bytes_of("2026-11-22", &ty),
                SqlType::Interval => bytes_of("1 day", &ty),
                SqlType::Jsonb => continue,
                _ => bytes_of("7", &ty),
            };
            check(&whole[..whole.len() - 1], ty.clone(), wrong);
            check(&[&whole[..], &[0]].concat(), ty, wrong);
        }
        check(b"\x02{}", SqlType::Jsonb, wrong);
        check(b"", SqlType::Jsonb, wrong);
        check(b"\x01{", SqlType::Jsonb, SqlState::INVALID_TEXT_REPRESENTATION);
        check(b"\xff", SqlType::Text, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        check(b"a\0", SqlType::Text, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        // A digit that is none, and a count that is not there.
        check(&[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10], SqlType::Numeric(None), wrong);
        check(&[0x7f, 0xff, 0, 0, 0, 0, 0, 0], SqlType::Numeric(None), wrong);
        check(&[0xff; 20], SqlType::array_of(SqlType::Int4), SqlState::FEATURE_NOT_SUPPORTED);
    }

    #[test]
    fn types_have_their_numbers() {
        for (ty, number, array) in NUMBERED {
            assert_eq!((type_number(&ty), type_of_number(number)), (number, Some(ty.clone())));
            if array != 0 {
                assert_eq!(type_of_number(array), Some(SqlType::array_of(ty.clone())));
                assert_eq!(type_number(&SqlType::array_of(ty)), array);
            }
        }
        assert_eq!(type_number(&SqlType::Varchar(Some(7))), 1043);
        assert_eq!(type_number(&SqlType::Numeric(Some((12, 2)))), 1700);
        assert_eq!((type_of_number(0), type_of_number(19)), (Some(SqlType::Unknown), None));
    }
}
