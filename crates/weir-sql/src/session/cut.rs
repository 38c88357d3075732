//! Parts of a text, cut out by its tokens.

use crate::lexer::{self, Lexer, Token};
use crate::parse::Piece;
use crate::source::Span;

/// Text after the first such word outside of parentheses.
pub(super) fn behind(piece: Piece<'_>, span: Span, word: &str) -> Span {
    let mut depth = 0usize;
    for token in tokens(piece, span) {
        if token.is(b'(') {
            depth += 1;
        } else if token.is(b')') {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is_word(piece.text, word) {
            return trimmed(piece, Span { start: token.end as u32, ..span });
        }
    }
    Span { start: span.end, ..span }
}

/// Text between the first parenthesis and the matching one; empty without parentheses.
pub(super) fn in_parentheses(piece: Piece<'_>, span: Span) -> Span {
    let open = tokens(piece, span).find(|token| token.is(b'('));
    match open {
        Some(open) => {
            let end = lexer::closing_end(piece.text, open.start) as u32;
            Span { start: open.end as u32, end: end.saturating_sub(1).max(open.end as u32), ..span }
        }
        None => Span { start: span.end, ..span },
    }
}

pub(super) fn tokens<'p>(piece: Piece<'p>, span: Span) -> impl Iterator<Item = Token> + use<'p> {
    Lexer::new(piece.text, span.start as usize).take_while(move |token| token.end <= span.end as usize)
}

fn trimmed(piece: Piece<'_>, span: Span) -> Span {
    let first = tokens(piece, span).next();
    Span { start: first.map_or(span.end, |token| token.start as u32), ..span }
}

/// The query in front of WITH [NO] DATA.
pub(super) fn without_data(piece: Piece<'_>, span: Span) -> Span {
    let tokens: Vec<Token> = tokens(piece, span).collect();
    let is = |from_end: usize, word: &str| {
        let at = tokens.len().checked_sub(from_end);
        at.is_some_and(|at| tokens[at].is_word(piece.text, word))
    };
    let left = match () {
        () if is(1, "data") && is(2, "no") && is(3, "with") => tokens.len() - 3,
        () if is(1, "data") && is(2, "with") => tokens.len() - 2,
        () => return span,
    };
    Span { end: tokens.get(left.wrapping_sub(1)).map_or(span.start, |token| token.end as u32), ..span }
}
