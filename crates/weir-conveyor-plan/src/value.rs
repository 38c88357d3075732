//! Values of parameters as text, by the type that decides whether two texts are one value.

use weir_conveyor::routing::RoutingValue;
use weir_types::SqlType;

/// How the text of a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Text,
    Uuid,
    Boolean,
    Date,
    /// Equal values have several texts, or nothing is known of the type: it never routes, and its values are compared as texts.
    Other,
}

impl Kind {
    pub fn of(ty: &SqlType) -> Kind {
        match ty {
            SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => Kind::Integer,
            SqlType::Text | SqlType::Varchar(_) | SqlType::Enum(_) => Kind::Text,
            SqlType::Uuid => Kind::Uuid,
            SqlType::Bool => Kind::Boolean,
            SqlType::Date => Kind::Date,
            _ => Kind::Other,
        }
    }

    /// The value of a text, so that equal values of the type are equal. None: the text has a form that is not read here, so that nobody knows
    /// where the operation belongs.
    pub fn value(self, text: Option<&str>) -> Option<RoutingValue> {
        let Some(text) = text else { return Some(RoutingValue::Null) };
        match self {
            Kind::Integer => text.trim().parse().ok().map(RoutingValue::Integer),
            Kind::Text | Kind::Other => Some(RoutingValue::Text(text.to_owned())),
            Kind::Uuid => is_shaped(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
                .then(|| RoutingValue::Text(text.to_ascii_lowercase())),
            Kind::Boolean => match text {
                "t" | "true" => Some(RoutingValue::Text("t".into())),
                "f" | "false" => Some(RoutingValue::Text("f".into())),
                _ => None,
            },
            Kind::Date => is_shaped(text, "dddd-dd-dd").then(|| RoutingValue::Text(text.to_owned())),
        }
    }
}

/// `x`: a hexadecimal digit, `d`: a digit, anything else: itself.
fn is_shaped(text: &str, shape: &str) -> bool {
    let fits = |(byte, shape): (u8, u8)| match shape {
        b'x' => byte.is_ascii_hexdigit(),
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_equal() {
        assert_eq!(Kind::Integer.value(Some(" 07")), Some(RoutingValue::Integer(7)));
        assert_eq!(Kind::Integer.value(None), Some(RoutingValue::Null));
        let upper = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
        assert_eq!(Kind::Uuid.value(Some(upper)), Kind::Uuid.value(Some(&upper.to_ascii_lowercase())));
        assert_eq!(Kind::Boolean.value(Some("true")), Kind::Boolean.value(Some("t")));
    }

    #[test]
    fn a_text_of_another_form_is_not_guessed() {
        let wrong = [
            (Kind::Integer, "5.0"),
            (Kind::Uuid, "{a0eebc99}"),
            (Kind::Boolean, "on"),
            (Kind::Date, "May 1"),
        ];
        for (kind, text) in wrong {
            assert_eq!(kind.value(Some(text)), None, "{kind:?} {text}");
        }
    }
}
