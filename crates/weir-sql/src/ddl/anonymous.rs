//! DO: what its body creates, alters and drops is read as if nothing stood around it.
//!
//! Migrations write so what is to be done only once (`IF NOT EXISTS (…) THEN CREATE TYPE …`), so that
//! taking it as done is mostly right; a note says that it was taken so. To run, DO is refused.

use super::{Schema, names};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::parse::{self, Piece};
use crate::source::{Diagnostic, Span};

use pg_query::protobuf::node;

impl Schema {
    pub(super) fn anonymous_block(
        &mut self,
        piece: Piece<'_>,
        statement: &node::Node,
        span: Span,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let refusal = names::refusal(statement, head);
        let Some(notes) = &self.notes else { return Err(refusal) };
        notes.replace(Diagnostic {
            message: "of DO only what it creates, alters and drops is read".to_owned(),
            ..refusal
        });
        let Some(body) = body(piece, span) else { return Ok(()) };
        for (start, end) in parse::split(body.text) {
            let Some(inner) = definition(body, start, end) else { continue };
            let Ok(statements) = parse::parse_statements(inner) else { continue };
            for statement in statements {
                // The bodies of routines are looked up in the whole file, by places that these do not have.
                let routine = matches!(
                    statement.node,
                    node::Node::CreateFunctionStmt(_) | node::Node::CreateTrigStmt(_)
                );
                if !routine {
                    let result = self.apply(inner, statement);
                    self.tolerate(result)?;
                }
            }
        }
        Ok(())
    }
}

/// Text between the quotes.
fn body<'p>(piece: Piece<'p>, span: Span) -> Option<Piece<'p>> {
    let start = (span.start - piece.offset) as usize;
    let token = Lexer::new(piece.text, start).find(|token| token.kind == TokenKind::Text)?;
    let written = piece.text.get(token.start..token.end)?;
    let quote = written.strip_prefix('$')?.find('$')? + 2;
    let inner = written.get(quote..written.len().checked_sub(quote)?)?;
    Some(Piece::new(piece.file, piece.offset + (token.start + quote) as u32, inner))
}

/// From the first word of a definition to the end of its statement.
fn definition<'p>(body: Piece<'p>, start: usize, end: usize) -> Option<Piece<'p>> {
    let text = &body.text[..end];
    let defines = |token: &Token| ["create", "alter", "drop"].iter().any(|word| token.is_word(text, word));
    let first = Lexer::new(text, start).find(defines)?;
    Some(Piece::new(body.file, body.offset + first.start as u32, &text[first.start..]))
}
