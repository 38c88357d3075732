//! Times without an offset in a definition: they are of the zone of the session that defines it, and stay what they are.
//!
//! Texts of definitions are kept and bound again, in UTC, wherever the schema is needed. So such a time gets an explicit offset in the
//! text before the text is stored or sent.

use std::cell::RefCell;

use weir_types::datetime::SessionZone;
use weir_types::text::{parse_text, to_text};
use weir_types::{SqlError, SqlType};

use crate::lexer::{Lexer, TokenKind};
use crate::source::Span;

type Noted = (Span, String, SqlType);

thread_local! {
    static NOTED: RefCell<Option<Vec<Noted>>> = const { RefCell::new(None) };
}

/// A definition has such a literal.
pub(crate) fn note(span: Span, literal: &str, ty: &SqlType) {
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = noted {
            noted.push((span, literal.to_owned(), ty.clone()));
        }
    });
}

/// Runs a binding, and collects the time literals that it meets.
pub(crate) fn noting<T>(bind: impl FnOnce() -> T) -> (T, Vec<Noted>) {
    let before = NOTED.replace(Some(Vec::new()));
    let bound = bind();
    (bound, NOTED.replace(before).unwrap_or_default())
}

/// The text with offsets at those of the literals that stand in it, as its file; none where there are none.
///
/// # Errors
/// One of them is no time in the zone.
pub(crate) fn with_offsets(
    text: &str,
    file: u32,
    noted: &[Noted],
    zone: SessionZone,
) -> Result<Option<String>, SqlError> {
    let mut places: Vec<(usize, usize, String)> = Vec::new();
    for (span, literal, ty) in noted.iter().filter(|(span, ..)| span.file == file) {
        let start = span.start as usize;
        let Some(token) = text.get(start..).and_then(|_| Lexer::new(text, start).next()) else { continue };
        if token.start != start || token.kind != TokenKind::Text {
            continue;
        }
        let value = {
            let _zone = zone.enter();
            parse_text(literal, ty)?
        };
        let _utc = SessionZone::UTC.enter();
        places.push((start, token.end, format!("'{}'", to_text(&value, ty))));
    }
    places.sort();
    places.dedup();
    let (mut whole, mut copied) = (String::with_capacity(text.len()), 0);
    for (start, end, literal) in &places {
        whole.push_str(text.get(copied..*start).unwrap_or_default());
        whole.push_str(literal);
        copied = *end;
    }
    whole.push_str(&text[copied..]);
    Ok((!places.is_empty()).then_some(whole))
}
