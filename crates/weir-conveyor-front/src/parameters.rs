//! Values of parameters as text, as far as they can route.

use crate::messages::FrontError;

const BOOL: u32 = 16;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const OID: u32 = 26;
const UUID: u32 = 2950;
/// text, varchar, bpchar, name, unknown, "char", json.
const TEXTS: [u32; 7] = [25, 1043, 1042, 19, 705, 18, 114];

/// A value of a parameter. `Opaque`: a type that does not route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    Null,
    Text(String),
    Opaque,
}

impl Given {
    /// The value as matching has it. Of a type that does not route any text is as good as another.
    pub fn text(&self) -> Option<&str> {
        match self {
            Given::Null => None,
            Given::Text(text) => Some(text),
            Given::Opaque => Some(""),
        }
    }
}

/// The value of a parameter. `kind`: the type as its client or its server says; 0 if neither has.
///
/// # Errors
/// It is binary, and its type is not known.
pub fn given(value: Option<&[u8]>, is_binary: bool, kind: u32) -> Result<Given, FrontError> {
    let Some(bytes) = value else { return Ok(Given::Null) };
    if !is_binary {
        return Ok(std::str::from_utf8(bytes).map_or(Given::Opaque, |text| Given::Text(text.to_owned())));
    }
    let number = |number: Option<i64>| number.map_or(Given::Opaque, |number| Given::Text(number.to_string()));
    Ok(match kind {
        0 => {
            let message = "a parameter in binary format whose type is not known cannot be matched";
            return Err(
                FrontError::new("0A000", message).with_hint("name its type, or describe the statement first")
            );
        }
        BOOL => Given::Text(if bytes == [0] { "f" } else { "t" }.to_owned()),
        INT2 => number(bytes.try_into().ok().map(|bytes| i64::from(i16::from_be_bytes(bytes)))),
        INT4 => number(bytes.try_into().ok().map(|bytes| i64::from(i32::from_be_bytes(bytes)))),
        OID => number(bytes.try_into().ok().map(|bytes| i64::from(u32::from_be_bytes(bytes)))),
        INT8 => number(bytes.try_into().ok().map(i64::from_be_bytes)),
        UUID => bytes.try_into().ok().map_or(Given::Opaque, |bytes| Given::Text(uuid(bytes))),
        kind if TEXTS.contains(&kind) => {
            std::str::from_utf8(bytes).map_or(Given::Opaque, |text| Given::Text(text.to_owned()))
        }
        _ => Given::Opaque,
    })
}

fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_postgresql_prints() {
        let text = |text: &str| Ok(Given::Text(text.into()));
        assert_eq!(given(Some(&(-7_i32).to_be_bytes()), true, INT4), text("-7"));
        assert_eq!(given(Some(b"-7"), false, 0), text("-7"));
        assert_eq!(given(Some(&[0xab; 16]), true, UUID), text("abababab-abab-abab-abab-abababababab"));
        assert_eq!(given(None, true, 0), Ok(Given::Null));
        assert_eq!(given(Some(&[0; 8]), true, 701), Ok(Given::Opaque), "a double");
        assert!(given(Some(&[0; 4]), true, 0).is_err());
    }
}
