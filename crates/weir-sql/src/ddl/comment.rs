//! `COMMENT ON TABLE t IS 'weir: …'`: what Weir wants to know of a table, in a place that PostgreSQL and
//! its tools carry along.
//!
//! One comment may hold several directives, separated by semicolons:
//! `weir: partition by (w_id); assert positive check (balance >= 0)`.

use pg_query::protobuf::{CommentStmt, Node, ObjectType, node};
use weir_types::SqlState;

use super::names::{own_name, split};
use super::types::object_path;
use super::{PendingAssertion, Schema, has_index};
use crate::binder::expr_strings;
use crate::catalog::{Table, UserType};
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
        // A dump carries an assertion by a constraint: it comes back when there are rows.
        if comment.objtype() == ObjectType::ObjectTabconstraint {
            return self.directives(&directive, None);
        }
        if comment.objtype() != ObjectType::ObjectTable {
            return Err(directive.error(None, "a weir: comment belongs to a table"));
        }
        let name = match comment.object.as_deref().and_then(|object| object.node.as_ref()) {
            Some(node::Node::List(list)) => object_path(&list.items),
            _ => String::new(),
        };
        let table = self.catalog.tables.iter().position(|table| table.name == name).ok_or_else(|| {
            Diagnostic::new(SqlState::UNDEFINED_TABLE, span, format!("relation \"{name}\" does not exist"))
        })?;
        self.directives(&directive, Some(table))
    }

    /// None as table: the comment is on a constraint.
    fn directives(&mut self, directive: &Directive<'_>, table: Option<usize>) -> Result<(), Diagnostic> {
        let start = directive.text.find(':').map_or(0, |colon| colon + 1);
        let tokens: Vec<Token> = Lexer::new(directive.text, start).collect();
        for part in tokens.split(|token| token.is(b';')).filter(|part| !part.is_empty()) {
            self.directive(directive, table, part)?;
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
        let object = comment.object.as_deref();
        if self.notes.is_none() && !is_kept(comment.objtype()) {
            return self.comment_on_other(piece, comment, span);
        }
        let Some(node::Node::List(list)) = object.and_then(|object| object.node.as_ref()) else {
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
                let materialized = comment.objtype() == ObjectType::ObjectMatview;
                let mut views = catalog.views.iter_mut().filter(|view| view.materialized == materialized);
                views.find(|view| view.name == name).map(|view| &mut view.comment)
            }
            ObjectType::ObjectSequence => {
                let mut sequences = catalog.sequences.iter_mut();
                sequences.find(|sequence| sequence.name == name).map(|sequence| &mut sequence.comment)
            }
            ObjectType::ObjectIndex => {
                let (schema, own) = split(&name);
                let tables = catalog.tables.iter_mut().filter(|table| split(&table.name).0 == schema);
                let is_own = |table: &&mut Table| has_index(table, &name);
                match tables.into_iter().find(is_own) {
                    // Those of keys have none.
                    Some(table) => match table.indexes.iter_mut().find(|index| index.name == own) {
                        Some(index) => Some(&mut index.comment),
                        None => return Ok(()),
                    },
                    None => None,
                }
            }
            ObjectType::ObjectColumn => {
                let Some((column, table)) = list.items.split_last() else { return Ok(()) };
                let (table, column) = (object_path(table), object_path(std::slice::from_ref(column)));
                let Some(table) = catalog.tables.iter_mut().find(|one| one.name == table) else {
                    return match catalog.views.iter().find(|view| view.name == table) {
                        Some(view) if view.query.columns.iter().all(|one| one.name != column) => {
                            let message =
                                format!("column \"{column}\" of relation \"{table}\" does not exist");
                            Err(Diagnostic::new(SqlState::UNDEFINED_COLUMN, span, message))
                        }
                        Some(_) => Ok(()),
                        None if catalog.partitions.contains_key(&table) => Ok(()),
                        None => Err(self.no_relation(&table, span)),
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
        if let Some(kept) = found {
            *kept = text;
            return Ok(());
        }
        match self.relation_exists(&name) {
            _ if self.catalog.partitions.contains_key(&name) => Ok(()),
            true => {
                let (own, kind) = (own_name(&name), word_of(comment.objtype()));
                let message = format!("\"{own}\" is not {kind}");
                Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, span, message))
            }
            false => Err(self.no_relation(&name, span)),
        }
    }

    /// A comment that is not kept: what it is on is there.
    fn comment_on_other(
        &self,
        piece: Piece<'_>,
        comment: &CommentStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let object = comment.object.as_deref();
        let parts = match object.and_then(|object| object.node.as_ref()) {
            Some(node::Node::List(list)) => list.items.as_slice(),
            _ => &[],
        };
        let name = match object.and_then(|object| object.node.as_ref()) {
            Some(node::Node::String(name)) => name.sval.clone(),
            Some(node::Node::List(list)) => object_path(&list.items),
            _ => String::new(),
        };
        let unknown = |word: &str, name: &str| {
            let message = format!("{word} \"{name}\" does not exist");
            Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, span, message))
        };
        let known = |word: &str, is_known: bool| match is_known {
            true => Ok(()),
            false => unknown(word, &name),
        };
        let last = || expr_strings(parts).last().map(|name| (*name).to_owned()).unwrap_or_default();
        match comment.objtype() {
            ObjectType::ObjectTabconstraint => {
                let (table, own) = (self.table_of_comment(parts, span)?, last());
                match table.constraint_names().any(|name| name == own) {
                    true => Ok(()),
                    false => {
                        let of = format!("constraint \"{own}\" for table \"{}\"", own_name(&table.name));
                        let message = format!("{of} does not exist");
                        Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, span, message))
                    }
                }
            }
            ObjectType::ObjectDomconstraint => self.comment_on_domain_constraint(parts, span),
            ObjectType::ObjectTrigger | ObjectType::ObjectRule | ObjectType::ObjectPolicy => {
                self.table_of_comment(parts, span)?;
                unknown(word_of(comment.objtype()), &last())
            }
            ObjectType::ObjectExtension => {
                known("extension", name == "plpgsql" || self.catalog.extensions.contains(&name))
            }
            ObjectType::ObjectLanguage => {
                known("language", ["plpgsql", "sql", "internal", "c"].contains(&&*name))
            }
            ObjectType::ObjectTablespace => known("tablespace", name.starts_with("pg_")),
            ObjectType::ObjectAccessMethod => {
                known("access method", ["heap", "btree", "hash"].contains(&&*name))
            }
            // Databases and roles exist, but their names are not known here.
            ObjectType::ObjectDatabase | ObjectType::ObjectRole => Err(Diagnostic::unsupported(
                span,
                "COMMENT ON DATABASE or ROLE",
                "tables, columns, views, sequences and indexes keep their comments",
            )),
            ObjectType::ObjectForeignTable => Err(self.no_relation(&name, span)),
            ObjectType::ObjectAggregate => {
                let message = "such an aggregate does not exist";
                Err(Diagnostic::new(SqlState::UNDEFINED_FUNCTION, span, message))
            }
            kind => match self.is_there(piece, kind, object, span)? {
                true => Ok(()),
                false => unknown(word_of(kind), &name),
            },
        }
    }

    /// The table that a part of it is named with: the part's name is the last.
    fn table_of_comment(&self, parts: &[Node], span: Span) -> Result<&Table, Diagnostic> {
        let name = object_path(parts.split_last().map_or(&[][..], |(_, table)| table));
        self.catalog.table_by_name(&name).ok_or_else(|| self.no_relation(&name, span))
    }

    fn comment_on_domain_constraint(&self, parts: &[Node], span: Span) -> Result<(), Diagnostic> {
        let [Node { node: Some(node::Node::TypeName(domain)) }, constraint] = parts else { return Ok(()) };
        let name = object_path(&domain.names);
        self.user_type_named(ObjectType::ObjectDomain, &name, span)?;
        let own = object_path(std::slice::from_ref(constraint));
        match self.catalog.types.get(&name) {
            Some(UserType::Domain(domain)) if domain.checks.iter().all(|check| check.name != own) => {
                Err(super::domain::no_constraint(domain, &own, span))
            }
            _ => Ok(()),
        }
    }

    fn directive(
        &mut self,
        directive: &Directive<'_>,
        table: Option<usize>,
        tokens: &[Token],
    ) -> Result<(), Diagnostic> {
        let word =
            |i: usize, word: &str| tokens.get(i).is_some_and(|token| token.is_word(directive.text, word));
        if let Some(table) = table {
            if word(0, "replicated") && tokens.len() == 1 {
                self.catalog.tables[table].replicated = true;
                return Ok(());
            }
            if word(0, "partition") && word(1, "by") {
                return self.partition_by(directive, table, &tokens[2..]);
            }
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
                comment_on: table.map(|table| self.catalog.tables[table].span),
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

/// Comments on these are kept.
fn is_kept(kind: ObjectType) -> bool {
    matches!(
        kind,
        ObjectType::ObjectTable
            | ObjectType::ObjectColumn
            | ObjectType::ObjectView
            | ObjectType::ObjectMatview
            | ObjectType::ObjectSequence
            | ObjectType::ObjectIndex
    )
}

fn word_of(kind: ObjectType) -> &'static str {
    match kind {
        ObjectType::ObjectTable => "a table",
        ObjectType::ObjectView => "a view",
        ObjectType::ObjectMatview => "a materialized view",
        ObjectType::ObjectSequence => "a sequence",
        ObjectType::ObjectIndex => "an index",
        ObjectType::ObjectTrigger => "trigger",
        ObjectType::ObjectRule => "rule",
        ObjectType::ObjectPolicy => "policy",
        ObjectType::ObjectStatisticExt => "statistics object",
        ObjectType::ObjectPublication => "publication",
        ObjectType::ObjectSubscription => "subscription",
        ObjectType::ObjectForeignServer => "server",
        ObjectType::ObjectEventTrigger => "event trigger",
        ObjectType::ObjectFdw => "foreign-data wrapper",
        ObjectType::ObjectCollation => "collation",
        _ => "object",
    }
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
