//! CREATE ASSERTION and DROP ASSERTION, which PostgreSQL's grammar does not know: cut out of the text before parsing.
//!
//! The statements are replaced by blanks, so that all other positions in the file remain valid. psql's backslash commands, and rows after
//! COPY … FROM stdin, are blanked here too, for the same reason.

use std::borrow::Cow;
use std::collections::BTreeSet;

use weir_types::{SqlState, SqlType};

use crate::binder::{self, Context};
use crate::bound::{Expr, ExprKind, FromItem, Query, RelationId, Select};
use crate::catalog::{Assertion, Catalog, Column, TableId};
use crate::ddl::PendingAssertion;
use crate::lexer::{Lexer, Token, closing_end};
use crate::notes::{self, Notes};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::walk::{self, Part};

/// The assertions that a text declares or drops.
#[derive(Clone, Debug)]
pub(crate) enum AssertionStatement {
    Create(PendingAssertion),
    Drop(Dropped),
}

impl AssertionStatement {
    /// Command tag for the client.
    pub fn tag(&self) -> &'static str {
        match self {
            AssertionStatement::Create(_) => "CREATE ASSERTION",
            AssertionStatement::Drop(_) => "DROP ASSERTION",
        }
    }

    /// Applies it to the assertions that there are. Gives what IF EXISTS has passed over.
    ///
    /// # Errors
    /// There is none of that name (42704).
    pub fn apply(self, assertions: &mut Vec<PendingAssertion>) -> Result<Vec<Diagnostic>, Diagnostic> {
        let dropped = match self {
            AssertionStatement::Create(pending) => {
                assertions.push(pending);
                return Ok(Vec::new());
            }
            AssertionStatement::Drop(dropped) => dropped,
        };
        let mut passed = Vec::new();
        for (name, span) in dropped.names {
            let before = assertions.len();
            assertions.retain(|one| one.name != name);
            let message = format!("assertion \"{name}\" does not exist");
            match dropped.if_exists {
                _ if assertions.len() < before => {}
                true => {
                    let message = format!("{message}, skipping");
                    passed.push(Diagnostic::new(SqlState::SUCCESSFUL_COMPLETION, span, message));
                }
                false => return Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, span, message)),
            }
        }
        Ok(passed)
    }
}

/// DROP ASSERTION: which, with their places.
#[derive(Clone, Debug)]
pub(crate) struct Dropped {
    pub names: Vec<(String, Span)>,
    pub if_exists: bool,
}

/// A text without its statements about assertions, and these with their places.
pub(crate) type CutOut<'t> = (Cow<'t, str>, Vec<(AssertionStatement, Span)>);

/// The statements about assertions that a client's text holds, with their bytes without semicolons, and the text with blanks for them.
///
/// # Errors
/// One is not closed, or not understood.
pub(crate) fn cut_out(text: &str) -> Result<CutOut<'_>, Diagnostic> {
    const WORD: &str = "assertion";
    let has_word =
        text.as_bytes().windows(WORD.len()).any(|bytes| bytes.eq_ignore_ascii_case(WORD.as_bytes()));
    if !has_word {
        return Ok((Cow::Borrowed(text), Vec::new()));
    }
    let (rest, found) = cut(Piece::new(0, 0, text), |_| Ok(None))?;
    Ok((Cow::Owned(rest), found))
}

/// The text with blanks for its statements about assertions, and for whatever else `also` finds where a statement begins: it is given
/// the tokens from there, and gives the byte behind it.
fn cut(
    piece: Piece<'_>,
    also: impl Fn(&[Token]) -> Result<Option<usize>, Diagnostic>,
) -> Result<(String, Vec<(AssertionStatement, Span)>), Diagnostic> {
    let text = piece.text;
    let tokens: Vec<Token> = Lexer::new(text, 0).collect();
    let mut rest = text.to_owned();
    let mut found = Vec::new();
    let (mut i, mut starts) = (0, true);
    while i < tokens.len() {
        let start = tokens[i].start;
        if let Some((statement, next, end)) =
            about_assertions(piece, &tokens, i).filter(|_| starts).transpose()?
        {
            blank(&mut rest, start, end);
            let end = start + text[start..end].trim_end_matches(';').trim_end().len();
            found.push((statement, piece.range(start, end)));
            i = next;
            continue;
        }
        if starts && let Some(end) = also(&tokens[i..])? {
            blank(&mut rest, start, end);
            i += tokens[i..].iter().take_while(|token| token.start < end).count();
            continue;
        }
        starts = tokens[i].is(b';');
        i += 1;
    }
    Ok((rest, found))
}

/// The statement at token `i`, the next token's index, and the byte after its semicolon; none: it is about something else.
type Found = Result<(AssertionStatement, usize, usize), Diagnostic>;

fn about_assertions(piece: Piece<'_>, tokens: &[Token], i: usize) -> Option<Found> {
    let word = |ahead: usize, word: &str| {
        tokens.get(i + ahead).is_some_and(|token: &Token| token.is_word(piece.text, word))
    };
    match word(1, "assertion") {
        true if word(0, "create") => {
            Some(one(piece, tokens, i).map(|(one, next, end)| (AssertionStatement::Create(one), next, end)))
        }
        true if word(0, "drop") => {
            Some(drop_of(piece, tokens, i).map(|(one, next, end)| (AssertionStatement::Drop(one), next, end)))
        }
        _ => None,
    }
}

/// The text without assertions, and what it says of them. A tolerant reading notes other things that are cut out.
pub(crate) fn split(
    file: u32,
    text: &str,
    notes: Option<&Notes>,
) -> Result<(String, Vec<AssertionStatement>), Diagnostic> {
    let piece = Piece::new(file, 0, text);
    let (rest, found) = cut(piece, |tokens| match &tokens[0] {
        first if text.as_bytes()[first.start] == b'\\' => backslash(piece, first.start, notes).map(Some),
        first if first.is_word(text, "copy") => rows(piece, tokens, notes),
        _ => Ok(None),
    })?;
    Ok((rest, found.into_iter().map(|(statement, _)| statement).collect()))
}

/// Spaces, with the line ends kept.
pub(crate) fn blank(text: &mut String, start: usize, end: usize) {
    let blanks: String =
        text[start..end].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(start..end, &blanks);
}

/// psql commands without effect on what the file means; the others would change it.
fn backslash(piece: Piece<'_>, start: usize, notes: Option<&Notes>) -> Result<usize, Diagnostic> {
    let line = piece.text[start..].lines().next().unwrap_or("");
    let end = start + line.len();
    let command = line[1..].split_whitespace().next().unwrap_or("");
    match command {
        "restrict" | "unrestrict" | "set" | "pset" | "timing" | "echo" | "qecho" | "encoding" => Ok(end),
        _ => {
            let refusal = Diagnostic::unsupported(
                piece.range(start, start + 1 + command.len()),
                format!("the psql command \\{command}"),
                "pass every file to weir by itself, in order",
            );
            notes::note(notes, refusal, Notes::leave_out)?;
            Ok(end)
        }
    }
}

/// `COPY … FROM stdin` and the rows behind it: a tolerant reading skips them, to the byte that is returned.
fn rows(piece: Piece<'_>, tokens: &[Token], notes: Option<&Notes>) -> Result<Option<usize>, Diagnostic> {
    let statement = tokens.iter().take_while(|token| !token.is(b';'));
    if !statement.clone().any(|token| token.is_word(piece.text, "stdin")) {
        return Ok(None);
    }
    let refusal = Diagnostic::unsupported(
        piece.range(tokens[0].start, tokens[0].end),
        "COPY with rows in a schema file",
        "schema files hold no rows: describe the load in workload.toml (pg_dump --schema-only)",
    );
    notes::note(notes, refusal, |notes, refusal| notes.ignore(refusal, false))?;
    let start = tokens[0].start;
    let end = piece.text[start..].find("\n\\.").map_or(piece.text.len(), |at| start + at + 3);
    Ok(Some(end))
}

/// The assertion at token `i`, the next token's index, and the byte after its semicolon.
fn one(piece: Piece<'_>, tokens: &[Token], i: usize) -> Result<(PendingAssertion, usize, usize), Diagnostic> {
    let text = piece.text;
    let span = |token: Option<&Token>| match token {
        Some(token) => piece.range(token.start, token.end),
        None => piece.range(text.len(), text.len()),
    };
    let error = |token: Option<&Token>, message: &str| {
        let near = match token {
            Some(token) => format!("{message} at or near \"{}\"", &text[token.start..token.end]),
            None => format!("{message} at end of input"),
        };
        Diagnostic::new(SqlState::SYNTAX_ERROR, span(token), near)
            .with_hint("CREATE ASSERTION name CHECK (condition);")
    };
    let name_at = if tokens.get(i + 3).is_some_and(|token| token.is(b'.')) { i + 4 } else { i + 2 };
    let name_token = tokens.get(name_at);
    let Some(name) = name_token.and_then(|token| token.name(text)) else {
        return Err(error(name_token, "the name of the assertion is missing"));
    };
    let check = tokens.get(name_at + 1);
    if !check.is_some_and(|token| token.is_word(text, "check")) {
        return Err(error(check, "CHECK is missing"));
    }
    let open = tokens.get(name_at + 2);
    let Some(open) = open.filter(|token| token.is(b'(')) else {
        return Err(error(open, "a parenthesis is missing"));
    };
    let end = closing_end(text, open.start);
    if !text[..end].ends_with(')') || end == open.end {
        return Err(error(None, "the parenthesis of CHECK does not close"));
    }
    let close = end - 1;
    let after = tokens.iter().position(|token| token.start >= end).unwrap_or(tokens.len());
    let (after, end) = match characteristics(text, tokens, after) {
        Characteristics::None => (after, end),
        Characteristics::Deferred(count) => (after + count, tokens[after + count - 1].end),
        Characteristics::Immediate => {
            return Err(Diagnostic::unsupported(
                span(tokens.get(after)),
                "an assertion that is checked after each statement",
                "assertions are checked when a transaction commits: say DEFERRABLE INITIALLY DEFERRED, or leave it away",
            ));
        }
    };
    let (next, last) = match tokens.get(after) {
        None => (after, end),
        Some(token) if token.is(b';') => (after + 1, token.end),
        token => return Err(error(token, "syntax error")),
    };
    let assertion = PendingAssertion {
        name,
        name_span: span(name_token),
        span: piece.range(open.end, close),
        text: text[open.end..close].to_owned(),
        places: Vec::new(),
        comment_on: None,
    };
    Ok((assertion, next, last))
}

/// When an assertion says that it is checked.
enum Characteristics {
    None,
    /// When a transaction commits, as every assertion is; number of the tokens that say it.
    Deferred(usize),
    /// After each statement, or whenever SET CONSTRAINTS says so.
    Immediate,
}

/// The constraint characteristics of SQL, at token `at`: `[ [NOT] DEFERRABLE ] [ INITIALLY {DEFERRED | IMMEDIATE} ]`.
fn characteristics(text: &str, tokens: &[Token], at: usize) -> Characteristics {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(text, word));
    let initially = if is(at, "deferrable") { at + 1 } else { at };
    match (is(initially, "initially"), is(initially + 1, "deferred")) {
        (true, true) => Characteristics::Deferred(initially + 2 - at),
        (true, false) if is(initially + 1, "immediate") => Characteristics::Immediate,
        _ if initially > at || is(at, "not") && is(at + 1, "deferrable") => Characteristics::Immediate,
        _ => Characteristics::None,
    }
}

/// DROP ASSERTION at token `i`, as [`one`].
fn drop_of(piece: Piece<'_>, tokens: &[Token], i: usize) -> Result<(Dropped, usize, usize), Diagnostic> {
    let text = piece.text;
    let wrong = |at: usize| {
        let (span, near) = match tokens.get(at) {
            Some(token) => (
                piece.range(token.start, token.end),
                format!("at or near \"{}\"", &text[token.start..token.end]),
            ),
            None => (piece.range(text.len(), text.len()), "at end of input".to_owned()),
        };
        Diagnostic::new(SqlState::SYNTAX_ERROR, span, format!("syntax error {near}"))
            .with_hint("DROP ASSERTION [IF EXISTS] name [, …];")
    };
    let word = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(text, word));
    let is = |at: usize, sign: u8| tokens.get(at).is_some_and(|token| token.is(sign));
    let if_exists = word(i + 2, "if") && word(i + 3, "exists");
    let mut at = if if_exists { i + 4 } else { i + 2 };
    let mut names = Vec::new();
    loop {
        if is(at + 1, b'.') {
            at += 2;
        }
        let name =
            tokens.get(at).and_then(|token| Some((token.name(text)?, piece.range(token.start, token.end))));
        names.push(name.ok_or_else(|| wrong(at))?);
        at += 1;
        if !is(at, b',') {
            break;
        }
        at += 1;
    }
    // Nothing depends on one.
    if word(at, "cascade") || word(at, "restrict") {
        at += 1;
    }
    match tokens.get(at) {
        None => Ok((Dropped { names, if_exists }, at, text.len())),
        Some(token) if token.is(b';') => Ok((Dropped { names, if_exists }, at + 1, token.end)),
        Some(_) => Err(wrong(at)),
    }
}

/// The condition of an assertion: a boolean whose subqueries hold everything.
pub(crate) fn bind(context: &Context<'_>, pending: PendingAssertion) -> Result<Assertion, Diagnostic> {
    let piece = Piece::new(pending.span.file, pending.span.start, &pending.text);
    let bound = binder::bind_check(context, piece)
        .map_err(|error| Diagnostic { span: original(&pending, error.span), ..error })?;
    if let Some(span) = walk::changing(&bound) {
        return Err(Diagnostic::unsupported(
            original(&pending, span),
            "a value that changes by itself in an assertion",
            "compare with columns and literals only",
        ));
    }
    if let Some((span, what)) = unreadable(&bound) {
        let remedy = "say it with EXISTS, joins, GROUP BY and aggregates";
        return Err(Diagnostic::unsupported(original(&pending, span), what, remedy));
    }
    debug_assert_eq!(bound.ty, SqlType::Bool);
    let (text, span) = (pending.text.trim().to_owned(), pending.name_span);
    Ok(Assertion { name: pending.name, expr: bound, text, comment_on: pending.comment_on, span })
}

/// It may be any condition on every row and column of these tables.
pub(crate) fn of_any_kind(catalog: &Catalog, tables: BTreeSet<TableId>, span: Span) -> Expr {
    let rows_of = |(number, id): (usize, TableId)| {
        let (table, relation) = (catalog.table(id), RelationId(number as u32));
        let from = FromItem::Table { relation, table: id, alias: table.name.clone(), span };
        let column = |(column, of): (usize, &Column)| Expr {
            kind: ExprKind::Column { relation, column },
            ty: of.ty.clone(),
            span,
        };
        let outputs = table.columns.iter().enumerate().map(column).collect();
        let query = Query::of_select(Select::plain(outputs, vec![from], None), Vec::new(), span);
        let kind = ExprKind::Exists { query: Box::new(query), negated: false };
        Expr { kind, ty: SqlType::Bool, span }
    };
    let parts = tables.into_iter().enumerate().map(rows_of).collect();
    Expr { kind: ExprKind::Opaque(parts), ty: SqlType::Bool, span }
}

/// Finds a construct that no rule of the analysis supports.
fn unreadable(expr: &Expr) -> Option<(Span, &'static str)> {
    let mut found = None;
    walk::each_part(Part::Expr(expr), &mut |part| match part {
        Part::Expr(Expr { kind: ExprKind::Window(_), span, .. }) => {
            found.get_or_insert((*span, "a window function in an assertion"));
        }
        Part::Query(query) if query.with_ties => {
            found.get_or_insert((query.span, "WITH TIES in an assertion"));
        }
        Part::Query(query) if query.ctes.iter().any(|cte| cte.recursive) => {
            found.get_or_insert((query.span, "WITH RECURSIVE in an assertion"));
        }
        _ => {}
    });
    found
}

/// From a place in the text whose escapes are undone, to the place in the file.
fn original(pending: &PendingAssertion, span: Span) -> Span {
    if pending.places.is_empty() {
        return span;
    }
    let at = |position: u32| {
        let i = position.saturating_sub(pending.span.start) as usize;
        pending.places.get(i).copied().unwrap_or(pending.span.end)
    };
    Span { start: at(span.start), end: at(span.end).max(at(span.start)), ..span }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let found = match split(0, text, None) {
            Ok((rest, assertions)) => {
                assert_eq!(rest.len(), text.len());
                let names = assertions.iter().map(|one| match one {
                    AssertionStatement::Create(one) => format!("{}[{}]", one.name, one.text),
                    AssertionStatement::Drop(one) => format!("drop {:?} {}", one.names, one.if_exists),
                });
                format!("{} | {}", names.collect::<Vec<_>>().join(" "), rest.trim())
            }
            Err(error) => {
                format!("{}..{} {} {}", error.span.start, error.span.end, error.state, error.message)
            }
        };
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn splitting() {
        check(
            "create table t(a int); create assertion a check ((1 = ')')); select 1;",
            "a[(1 = ')')] | create table t(a int);                                       select 1;",
        );
        check("CREATE ASSERTION \"A b\" CHECK (f(/* ) */ x) -- )\n); ", "A b[f(/* ) */ x) -- )\n] | ");
        check("select $$ create assertion x check (1) $$;", " | select $$ create assertion x check (1) $$;");
        check("create assertion", "16..16 42601 the name of the assertion is missing at end of input");
        check("create assertion a chek (true)", "19..23 42601 CHECK is missing at or near \"chek\"");
        check(
            "create assertion a check (true",
            "30..30 42601 the parenthesis of CHECK does not close at end of input",
        );
        check("create assertion a check (true) x", "32..33 42601 syntax error at or near \"x\"");
        check("drop assertion a", "drop [(\"a\", Span { file: 0, start: 15, end: 16 })] false | ");
        check(
            "DROP ASSERTION IF EXISTS s.A, \"B\" CASCADE; select 1",
            "drop [(\"a\", Span { file: 0, start: 27, end: 28 }), (\"B\", Span { file: 0, start: 30, end: 33 })] true | select 1",
        );
        check("drop assertion a b", "17..18 42601 syntax error at or near \"b\"");
        check("drop assertion", "14..14 42601 syntax error at end of input");
        check("\\restrict abc\nselect 1", " | select 1");
        check("\\i other.sql", "0..2 0A000 the psql command \\i is not supported");
    }
}
