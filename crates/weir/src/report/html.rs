//! Text to HTML, numbers to text. Everything that comes from a user's file goes through [`escape`].

use serde_json::Value;

pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A JSON field as text: strings as they are, everything else as compact JSON, absence as nothing.
pub fn text(document: &Value, field: &str) -> String {
    plain(&document[field])
}

pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The elements of a field that holds an array; none if it does not.
pub fn list<'a>(document: &'a Value, field: &str) -> &'a [Value] {
    document[field].as_array().map_or(&[], Vec::as_slice)
}

/// 1234567 → "1,234,567".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds in the unit that reads best.
pub fn duration(microseconds: f64) -> String {
    match microseconds {
        us if us < 1.0 => format!("{:.0} ns", us * 1_000.0),
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 10_000.0 => format!("{:.1} ms", us / 1_000.0),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1_000.0),
        us => format!("{:.1} s", us / 1_000_000.0),
    }
}

/// A rate or count for an axis: 12500 → "12.5k".
pub fn short(number: f64) -> String {
    let (value, suffix) = match number {
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let text = format!("{value:.1}");
    format!("{}{suffix}", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            (grouped(7), grouped(1_234_567), grouped(100_000)),
            ("7".into(), "1,234,567".into(), "100,000".into())
        );
        for (us, expect) in
            [(0.25, "250 ns"), (3.2, "3.2 µs"), (42.4, "42 µs"), (2_500.0, "2.5 ms"), (2e6, "2.0 s")]
        {
            assert_eq!(duration(us), expect);
        }
        for (number, expect) in [(12.0, "12"), (12_500.0, "12.5k"), (2e6, "2M")] {
            assert_eq!(short(number), expect);
        }
    }

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("<b a=\"'&"), "&lt;b a=&quot;&#39;&amp;");
    }
}
