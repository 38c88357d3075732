//! `COMMENT ON TABLE t IS 'weir: …'`: what Weir wants to know of a table, in a place that PostgreSQL and
//! its tools carry along.
//!
//! One comment may hold several directives, separated by semicolons:
//! `weir: partition by (w_id); assert positive check (balance >= 0)`.

use pg_query::protobuf::{CommentStmt, ObjectType, node};
use weir_types::SqlState;

use super::types::object_path;
use super::{PendingAssertion, Schema};
use crate::lexer::{Lexer, Token, TokenKind, closing_end};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

const KNOWN: &str = "weir: partition by (a, b), weir: replicated and weir: assert name check (…) are known";

/// The comment's text, and where each of its bytes stands in the file.
struct Directive<'t> {
    text: &'t str,
    places: &'t [u32],
    file: u32,
}

impl Directive<'_> {
    fn span(&self, start: usize, end: usize) -> Span {
        let at = |i: usize| self.places.get(i).or(self.places.last()).copied().unwrap_or(0);
        Span { file: self.file, start: at(start), end: at(end.saturating_sub(1)).max(at(start)) + 1 }
    }

    fn error(&self, token: Option<&Token>, message: impl Into<String>) -> Diagnostic {
        let span = match token {
            Some(token) => self.span(token.start, token.end),
            None => self.span(self.text.len(), self.text.len()),
        };
        Diagnostic::new(SqlState::SYNTAX_ERROR, span, message).with_hint(KNOWN)
    }
}

impl Schema {
    pub(super) fn comment(
        &mut self,
        piece: Piece<'_>,
        comment: &CommentStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let trimmed = comment.comment.trim_start();
        let kept = self.keep_comment(piece, comment, span);
        self.tolerate(kept)?;
        if self.is_running {
            self.forget_directives(comment);
        }
        if !trimmed.get(..5).is_some_and(|prefix| prefix.eq_ignore_ascii_case("weir:")) {
            return Ok(());
        }
        let (text, places) = comment_text(piece, comment, span);
        let directive = Directive { text: &text, places: &places, file: piece.file };
        if ObjectType::try_from(comment.objtype) != Ok(ObjectType::ObjectTable) {
            return Err(directive.error(None, "a weir: comment belongs to a table"));
        }
        let name = match comment.object.as_deref().and_then(|object| object.node.as_ref()) {
            Some(node::Node::List(list)) => object_path(&list.items),
            _ => String::new(),
        };
        let table = self.catalog.tables.iter().position(|table| table.name == name).ok_or_else(|| {
            Diagnostic::new(SqlState::UNDEFINED_TABLE, span, format!("relation \"{name}\" does not exist"))
        })?;
        let start = text.find(':').map_or(0, |colon| colon + 1);
        let tokens: Vec<Token> = Lexer::new(&text, start).collect();
        for part in tokens.split(|token| token.is(b';')).filter(|part| !part.is_empty()) {
            self.directive(&directive, table, part)?;
        }
        Ok(())
    }

    /// A comment takes the place of the one before, with what that said.
    fn forget_directives(&mut self, comment: &CommentStmt) {
        let Some(node::Node::List(list)) = comment.object.as_deref().and_then(|object| object.node.as_ref())
        else {
            return;
        };
        let name = object_path(&list.items);
        let of_table = comment.objtype() == ObjectType::ObjectTable;
        let Some(table) = self.catalog.tables.iter_mut().find(|table| of_table && table.name == name) else {
            return;
        };
        (table.partition_by, table.replicated) = (None, false);
        let place = table.span;
        self.assertions.retain(|one| one.comment_on != Some(place));
    }

    /// Of tables, columns, views, indexes and sequences; others are not kept.
    fn keep_comment(
        &mut self,
        piece: Piece<'_>,
        comment: &CommentStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Some(node::Node::List(list)) = comment.object.as_deref().and_then(|object| object.node.as_ref())
        else {
            return Ok(());
        };
        // IS NULL is as IS ''.
        let text = Some(comment_text(piece, comment, span).0).filter(|text| !text.is_empty());
        let name = object_path(&list.items);
        let catalog = &mut self.catalog;
        let found = match comment.objtype() {
            ObjectType::ObjectTable => {
                catalog.tables.iter_mut().find(|table| table.name == name).map(|table| &mut table.comment)
            }
            ObjectType::ObjectView | ObjectType::ObjectMatview => {
                catalog.views.iter_mut().find(|view| view.name == name).map(|view| &mut view.comment)
            }
            ObjectType::ObjectSequence => {
                let mut sequences = catalog.sequences.iter_mut();
                sequences.find(|sequence| sequence.name == name).map(|sequence| &mut sequence.comment)
            }
            ObjectType::ObjectIndex => {
                let own = name.rsplit('.').next().unwrap_or(&name);
                let mut indexes = catalog.tables.iter_mut().flat_map(|table| &mut table.indexes);
                match indexes.find(|index| index.name == own) {
                    Some(index) => Some(&mut index.comment),
                    // Those of keys have none.
                    None => return Ok(()),
                }
            }
            ObjectType::ObjectColumn => {
                let Some((column, table)) = list.items.split_last() else { return Ok(()) };
                let (table, column) = (object_path(table), object_path(std::slice::from_ref(column)));
                let Some(table) = catalog.tables.iter_mut().find(|one| one.name == table) else {
                    return match catalog.views.iter().any(|view| view.name == table) {
                        true => Ok(()),
                        false => Err(missing(span, &table)),
                    };
                };
                let Some(at) = table.column_by_name(&column) else {
                    let message =
                        format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                    return Err(Diagnostic::new(SqlState::UNDEFINED_COLUMN, span, message));
                };
                Some(&mut table.columns[at].comment)
            }
            _ => return Ok(()),
        };
        match found {
            Some(kept) => *kept = text,
            None if catalog.partitions.contains_key(&name) => {}
            None => return Err(missing(span, &name)),
        }
        Ok(())
    }

    fn directive(
        &mut self,
        directive: &Directive<'_>,
        table: usize,
        tokens: &[Token],
    ) -> Result<(), Diagnostic> {
        let word =
            |i: usize, word: &str| tokens.get(i).is_some_and(|token| token.is_word(directive.text, word));
        if word(0, "replicated") && tokens.len() == 1 {
            self.catalog.tables[table].replicated = true;
            return Ok(());
        }
        if word(0, "partition") && word(1, "by") {
            return self.partition_by(directive, table, &tokens[2..]);
        }
        if word(0, "assert") && word(2, "check") {
            let name = tokens[1]
                .name(directive.text)
                .ok_or_else(|| directive.error(tokens.get(1), "an assertion needs a name"))?;
            let open = tokens.get(3).filter(|token| token.is(b'('));
            let Some(open) = open else {
                return Err(directive.error(tokens.get(3), "CHECK wants a condition in parentheses"));
            };
            let end = closing_end(directive.text, open.start);
            let (start, end) = (open.end, end.saturating_sub(1).max(open.end));
            if let Some(stray) = tokens.iter().find(|token| token.start > end) {
                return Err(directive.error(Some(stray), "unexpected text after the assertion"));
            }
            self.assertions.push(PendingAssertion {
                name,
                name_span: directive.span(tokens[1].start, tokens[1].end),
                span: directive.span(start, end),
                text: directive.text[start..end].to_owned(),
                places: directive.places[start..end].to_vec(),
                comment_on: Some(self.catalog.tables[table].span),
            });
            return Ok(());
        }
        Err(directive.error(tokens.first(), "unknown weir: directive"))
    }

    fn partition_by(
        &mut self,
        directive: &Directive<'_>,
        table: usize,
        tokens: &[Token],
    ) -> Result<(), Diagnostic> {
        let table = &mut self.catalog.tables[table];
        let bracketed = tokens.first().is_some_and(|token| token.is(b'('))
            && tokens.last().is_some_and(|token| token.is(b')'));
        if !bracketed {
            return Err(directive.error(tokens.first(), "PARTITION BY wants columns in parentheses"));
        }
        let mut columns = Vec::new();
        for (i, token) in tokens[1..tokens.len() - 1].iter().enumerate() {
            if i % 2 == 1 {
                if !token.is(b',') {
                    return Err(directive.error(Some(token), "a comma is missing here"));
                }
                continue;
            }
            let name = token
                .name(directive.text)
                .ok_or_else(|| directive.error(Some(token), "the name of a column is missing here"))?;
            columns.push(table.column_named(&name, directive.span(token.start, token.end))?);
        }
        if columns.is_empty() {
            return Err(directive.error(tokens.last(), "PARTITION BY wants at least one column"));
        }
        table.partition_by = Some(columns);
        Ok(())
    }
}

fn missing(span: Span, name: &str) -> Diagnostic {
    Diagnostic::new(SqlState::UNDEFINED_TABLE, span, format!("relation \"{name}\" does not exist"))
}

/// The tree has no place for the comment: it is the statement's last string, whose doubled quotes are
/// undone here byte by byte so that places stay exact.
fn comment_text(piece: Piece<'_>, comment: &CommentStmt, span: Span) -> (String, Vec<u32>) {
    let start = (span.start - piece.offset) as usize;
    let end = (span.end - piece.offset) as usize;
    let tokens = Lexer::new(piece.text, start).take_while(|token| token.end <= end);
    let literal = tokens.filter(|token| token.kind == TokenKind::Text).last();
    let fallback = || (comment.comment.clone(), vec![span.start; comment.comment.len()]);
    let Some(literal) = literal else { return fallback() };
    let raw = &piece.text[literal.start..literal.end];
    let (mut text, mut places) = (String::new(), Vec::new());
    if let Some(body) = raw.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        let mut at = 0;
        while let Some(c) = body[at..].chars().next() {
            for byte in 0..c.len_utf8() {
                places.push(piece.offset + (literal.start + 1 + at + byte) as u32);
            }
            text.push(c);
            at += if c == '\'' { 2 } else { c.len_utf8() };
        }
    } else if let Some(rest) = raw.strip_prefix('$') {
        let tag = rest.find('$').map_or(raw.len(), |end| end + 2);
        let body = raw.get(tag..raw.len().saturating_sub(tag)).unwrap_or("");
        text.push_str(body);
        places = (0..body.len()).map(|i| piece.offset + (literal.start + tag + i) as u32).collect();
    }
    if text == comment.comment { (text, places) } else { fallback() }
}
