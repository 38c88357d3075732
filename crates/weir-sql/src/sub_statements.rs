//! A statement whose WITH has statements that write, cut into pieces: each is a statement of its own, which is given the rows of
//! those before it as arrays, one for each column. Nothing here is bound, and nothing runs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use weir_types::SqlType;

use crate::bound::{Delete, FromItem, InsertSource, OnConflict, Statement, Update};
use crate::catalog::{Catalog, ForeignKeyAction, TableId};
use crate::lexer::{Lexer, Token, TokenKind, closing_end};
use crate::rows::before_query;
use crate::walk::{Part, each_part};

/// An element of WITH.
#[derive(Clone, Debug, PartialEq)]
struct Element<'t> {
    /// As PostgreSQL folds it, and as it was written.
    name: String,
    written: &'t str,
    /// The names of its columns that were given, with their parentheses.
    columns: &'t str,
    body: &'t str,
    /// It is a piece of its own: it writes, or reads what was before.
    is_kept: bool,
}

/// The statement, apart.
#[derive(Clone, Debug, PartialEq)]
pub struct SubStatements<'t> {
    is_recursive: bool,
    elements: Vec<Element<'t>>,
    /// Main statement after WITH.
    main: Cow<'t, str>,
}

/// One piece as a text, whose parameters are counted anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubStatementText {
    pub sql: String,
    /// By parameter.
    pub parameters: Vec<PieceParameter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceParameter {
    /// The parameter of the client's with this index.
    Client(usize),
    /// All values that the piece has given in that column.
    Column { piece: usize, column: usize },
}

/// Why a piece cannot be a statement of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncut {
    /// It has a WITH of its own.
    HasWith,
    /// It reads this one, which has no RETURNING.
    GivesNothing(String),
}

/// A column of the rows that a piece gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptColumn {
    /// In quotes.
    pub name: String,
    /// Its values come as texts, for there are no arrays of arrays: the type that they are of.
    pub cast: Option<String>,
}

/// The type in which the values of a column are given: of arrays there are no arrays, and lengths are none of a parameter's.
pub fn given_type(ty: &SqlType) -> SqlType {
    match ty {
        SqlType::Unknown | SqlType::Array(_) => SqlType::Text,
        ty => ty.base(),
    }
}

impl<'t> SubStatements<'t> {
    /// `None`: nothing in its WITH writes.
    pub fn of(sql: &'t str) -> Option<SubStatements<'t>> {
        let mut tokens = Lexer::new(sql, 0).peekable();
        tokens.next().filter(|token| token.is_word(sql, "with"))?;
        let is_recursive = tokens.next_if(|token| token.is_word(sql, "recursive")).is_some();
        let mut elements = Vec::new();
        loop {
            let name = tokens.next()?;
            let folded = name.name(sql)?;
            let mut columns = "";
            if let Some(open) = tokens.next_if(|token| token.is(b'(')) {
                let end = closing_end(sql, open.start);
                columns = sql.get(open.start..end)?;
                tokens = Lexer::new(sql, end).peekable();
            }
            tokens.next().filter(|token| token.is_word(sql, "as"))?;
            tokens.next_if(|token| token.is_word(sql, "not"));
            tokens.next_if(|token| token.is_word(sql, "materialized"));
            let open = tokens.next().filter(|token| token.is(b'('))?;
            let end = closing_end(sql, open.start);
            let body = sql.get(open.end..end.checked_sub(1)?)?.trim();
            let is_kept = first_is(body, &["insert", "update", "delete"]);
            let written = sql.get(name.start..name.end)?;
            elements.push(Element { name: folded, written, columns, body, is_kept });
            tokens = Lexer::new(sql, end).peekable();
            if tokens.next_if(|token| token.is(b',')).is_none() {
                let main = Cow::Borrowed(sql.get(tokens.peek()?.start..)?);
                return elements.iter().any(|one| one.is_kept).then_some(SubStatements {
                    is_recursive,
                    elements,
                    main,
                });
            }
        }
    }

    /// The same, but those arms of a UNION that read nothing of what writes are pieces, too, before it: they see what was before.
    /// `None`: there are none.
    pub fn with_readers_apart(&self, sql: &'t str) -> Option<SubStatements<'t>> {
        let start = sql.len() - self.main.len();
        let mut apart = self.clone();
        let mut main = String::new();
        let mut copied = start;
        for (number, (from, to)) in arms(sql, start)?.into_iter().enumerate() {
            let body = sql.get(from..to)?;
            let needed = self.needed(&self.elements, body);
            if needed.iter().any(|&at| self.elements[at].is_kept) || !first_is(body, &["select"]) {
                continue;
            }
            let written = *READERS.get(number)?;
            let name = written.trim_matches('"').to_owned();
            let element = Element { name, written, columns: "", body, is_kept: true };
            // Behind what it reads, and what was put there before.
            let own = |element: &Element<'_>| needed.iter().any(|&at| self.elements[at].name == element.name);
            let at = apart.elements.iter().rposition(own).map_or(0, |at| at + 1);
            apart.elements.insert(at, element);
            main.push_str(sql.get(copied..from)?);
            main.push_str(&format!("SELECT * FROM {written} "));
            copied = to;
        }
        main.push_str(sql.get(copied..)?);
        apart.main = Cow::Owned(main);
        (copied > start).then_some(apart)
    }

    /// The elements that are kept, in order, by their names, and the names of columns that each was given. The main statement comes behind
    /// them, as the last piece.
    pub fn writers(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        let writers = self.elements.iter().filter(|element| element.is_kept);
        writers.map(|element| (&*element.name, names(element.columns)))
    }

    /// The piece of that index, the main statement behind the others; `columns` are those of the pieces before it.
    ///
    /// # Errors
    /// It cannot be a statement of its own.
    pub fn text(&self, piece: usize, columns: &[Vec<KeptColumn>]) -> Result<SubStatementText, Uncut> {
        let mut writers = self.elements.iter().enumerate().filter(|(_, element)| element.is_kept);
        let (until, body) = match writers.nth(piece) {
            Some((at, element)) => (at, element.body),
            None => (self.elements.len(), &*self.main),
        };
        let seen = &self.elements[..until];
        let needed = self.needed(seen, body);
        let mut text = SubStatementText { sql: String::new(), parameters: Vec::new() };
        // A query of its own runs where its rows are.
        let (head, body) = before_query(body).filter(|_| !needed.is_empty()).unwrap_or(("", body));
        text.push(head);
        if !needed.is_empty() {
            if first_is(body, &["with"]) {
                return Err(Uncut::HasWith);
            }
            text.sql.push_str(if self.is_recursive { "WITH RECURSIVE " } else { "WITH " });
        }
        let mut writer = 0;
        let mut is_first = true;
        for (at, element) in seen.iter().enumerate() {
            let own = writer;
            writer += usize::from(element.is_kept);
            if !needed.contains(&at) {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                text.sql.push_str(", ");
            }
            match element.is_kept {
                false => {
                    text.sql.push_str(&format!("{} {} AS (", element.written, element.columns));
                    text.push(element.body);
                    text.sql.push_str(") ");
                }
                true => match columns.get(own).filter(|columns| !columns.is_empty()) {
                    Some(columns) => text.push_rows(element.written, own, columns),
                    None => return Err(Uncut::GivesNothing(element.name.clone())),
                },
            }
        }
        text.push(body);
        Ok(text)
    }

    /// Earlier elements that a text reads, directly or indirectly.
    fn needed(&self, seen: &[Element<'t>], body: &str) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut left = vec![body];
        while let Some(text) = left.pop() {
            let words: BTreeSet<String> = Lexer::new(text, 0).filter_map(|token| token.name(text)).collect();
            for (at, element) in seen.iter().enumerate() {
                if words.contains(&element.name) && needed.insert(at) && !element.is_kept {
                    left.push(element.body);
                }
            }
        }
        needed
    }
}

impl SubStatementText {
    /// With its parameters counted anew.
    fn push(&mut self, text: &str) {
        let mut copied = 0;
        for token in Lexer::new(text, 0).filter(|token| token.kind == TokenKind::Parameter) {
            let Some(number) = number_of(text, &token) else { continue };
            self.sql.push_str(&text[copied..token.start]);
            self.push_parameter(PieceParameter::Client(number - 1));
            copied = token.end;
        }
        self.sql.push_str(&text[copied..]);
    }

    fn push_parameter(&mut self, parameter: PieceParameter) {
        let known = self.parameters.iter().position(|one| *one == parameter);
        let at = known.unwrap_or_else(|| {
            self.parameters.push(parameter);
            self.parameters.len() - 1
        });
        self.sql.push_str(&format!("${}", at + 1));
    }

    fn push_rows(&mut self, written: &str, piece: usize, columns: &[KeptColumn]) {
        // Two of them may have one name, which says nothing then.
        let are_plain = columns.iter().all(|column| column.cast.is_none());
        let output = |(at, column): (usize, &KeptColumn)| column.output(at);
        let all = match are_plain {
            true => "*".to_owned(),
            false => columns.iter().enumerate().map(output).collect::<Vec<_>>().join(", "),
        };
        self.sql.push_str(&format!("{written} AS (SELECT {all} FROM ROWS FROM ("));
        for column in 0..columns.len() {
            self.sql.push_str(if column > 0 { ", unnest(" } else { "unnest(" });
            self.push_parameter(PieceParameter::Column { piece, column });
            self.sql.push(')');
        }
        let name = |(at, column): (usize, &KeptColumn)| match are_plain {
            true => column.name.clone(),
            false => format!("k{at}"),
        };
        let names: Vec<String> = columns.iter().enumerate().map(name).collect();
        self.sql.push_str(&format!(") AS kept ({})) ", names.join(", ")));
    }
}

impl KeptColumn {
    /// Output expression for the values of column `at`.
    fn output(&self, at: usize) -> String {
        let KeptColumn { name, cast } = self;
        match cast {
            Some(ty) => format!("CAST(k{at} AS {ty}) AS {name}"),
            None => format!("k{at} AS {name}"),
        }
    }
}

/// Names of what reads apart.
const READERS: [&str; 4] = ["\"arm 1\"", "\"arm 2\"", "\"arm 3\"", "\"arm 4\""];

/// The bytes of the queries that a UNION joins, from there on; `None` for anything else.
fn arms(sql: &str, start: usize) -> Option<Vec<(usize, usize)>> {
    const ENDS: [&str; 6] = ["union", "order", "limit", "offset", "fetch", "for"];
    let (mut arms, mut depth, mut begin, mut last) = (Vec::new(), 0_usize, Some(start), start);
    let mut tokens = Lexer::new(sql, start).peekable();
    while let Some(token) = tokens.next() {
        match token.kind {
            TokenKind::Punctuation(b'(') => depth += 1,
            TokenKind::Punctuation(b')') => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            TokenKind::Punctuation(b';') => break,
            _ if token.is_word(sql, "intersect") || token.is_word(sql, "except") => return None,
            _ if ENDS.iter().any(|word| token.is_word(sql, word)) => {
                if let Some(begin) = begin.take() {
                    arms.push((begin, last));
                }
                if token.is_word(sql, "union") {
                    tokens.next_if(|next| next.is_word(sql, "all") || next.is_word(sql, "distinct"));
                    begin = Some(tokens.peek()?.start);
                }
            }
            _ => {}
        }
        last = token.end;
    }
    arms.extend(begin.map(|begin| (begin, last)));
    (arms.len() > 1).then_some(arms)
}

fn number_of(text: &str, token: &Token) -> Option<usize> {
    text.get(token.start + 1..token.end)?.parse().ok().filter(|number| *number > 0)
}

fn first_is(text: &str, words: &[&str]) -> bool {
    Lexer::new(text, 0).next().is_some_and(|first| words.iter().any(|word| first.is_word(text, word)))
}

/// Names in a list like `(a, "B")`.
fn names(columns: &str) -> Vec<String> {
    Lexer::new(columns, 0).filter_map(|token| token.name(columns)).collect()
}

/// Tables that a statement reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub reads: BTreeSet<TableId>,
    pub writes: BTreeSet<TableId>,
}

impl Touched {
    pub fn of(catalog: &Catalog, statement: &Statement) -> Touched {
        let mut touched = Touched::default();
        for part in parts(statement) {
            each_part(part, &mut |part| {
                if let Part::From(FromItem::Table { table, .. }) = part {
                    touched.reads.insert(*table);
                }
            });
        }
        let changed = match statement {
            Statement::Query(_) => None,
            Statement::Insert(insert) => {
                touched.writes.insert(insert.table);
                insert.on_conflict.is_some().then_some(insert.table)
            }
            Statement::Update(update) => Some(update.table),
            Statement::Delete(delete) => Some(delete.table),
        };
        touched.reads.extend(changed);
        touched.follow(catalog, changed);
        touched
    }

    /// The tables whose rows follow those that are changed.
    fn follow(&mut self, catalog: &Catalog, changed: Option<TableId>) {
        let mut left: Vec<TableId> = changed.into_iter().collect();
        while let Some(parent) = left.pop() {
            self.writes.insert(parent);
            for child in &catalog.tables {
                let acts =
                    |action| !matches!(action, ForeignKeyAction::NoAction | ForeignKeyAction::Restrict);
                let mut keys = child.foreign_keys.iter().filter(|key| key.parent == parent);
                if keys.any(|key| acts(key.on_delete) || acts(key.on_update))
                    && !self.writes.contains(&child.id)
                {
                    left.push(child.id);
                }
            }
        }
    }
}

pub(crate) fn parts(statement: &Statement) -> Vec<Part<'_>> {
    match statement {
        Statement::Query(query) => vec![Part::Query(query)],
        Statement::Insert(insert) => {
            let mut parts = match &insert.source {
                InsertSource::Values(rows) => rows.iter().flatten().map(Part::Expr).collect(),
                InsertSource::Query(query) => vec![Part::Query(query)],
            };
            parts.extend(insert.returning.iter().map(|(_, expr)| Part::Expr(expr)));
            if let Some(OnConflict { update: Some((assignments, filter)), .. }) = &insert.on_conflict {
                parts.extend(assignments.iter().map(|(_, expr)| Part::Expr(expr)));
                parts.extend(filter.iter().map(Part::Expr));
            }
            parts
        }
        Statement::Update(Update { assignments, from, filter, returning, .. }) => {
            let exprs = assignments.iter().map(|(_, expr)| expr).chain(filter);
            let exprs = exprs.chain(returning.iter().map(|(_, expr)| expr));
            exprs.map(Part::Expr).chain(from.iter().map(Part::From)).collect()
        }
        Statement::Delete(Delete { using, filter, returning, .. }) => {
            let exprs = filter.iter().chain(returning.iter().map(|(_, expr)| expr));
            exprs.map(Part::Expr).chain(using.iter().map(Part::From)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expect: &[&str]) {
        let found = SubStatements::of(sql).map(|pieces| {
            let column = |(name, cast): (&str, Option<&str>)| KeptColumn {
                name: name.to_owned(),
                cast: cast.map(str::to_owned),
            };
            let columns: Vec<Vec<KeptColumn>> = pieces
                .writers()
                .map(|(name, _)| [("a", None), ("b", (name == "z").then_some("text[]"))].map(column).to_vec())
                .collect();
            let text = |at| {
                pieces.text(at, &columns).map_or_else(
                    |wrong| format!("{wrong:?}"),
                    |text: SubStatementText| {
                        let parameter = |one: &PieceParameter| match one {
                            PieceParameter::Client(at) => format!("${}", at + 1),
                            PieceParameter::Column { piece, column } => format!("{piece}.{column}"),
                        };
                        let parameters: Vec<String> = text.parameters.iter().map(parameter).collect();
                        format!("{} [{}]", text.sql, parameters.join(" "))
                    },
                )
            };
            (0..=columns.len()).map(text).collect::<Vec<_>>()
        });
        assert_eq!(found.unwrap_or_default(), expect, "{sql}");
    }

    #[test]
    fn arms_of_a_union_see_what_was_before() {
        let sql = "WITH k AS (SELECT 1), w AS (INSERT INTO t VALUES ($1) RETURNING a, b) \
                   SELECT a FROM w UNION ALL SELECT a FROM t WHERE b = $1 UNION SELECT a, (1) FROM k LIMIT 1";
        let apart = SubStatements::of(sql).unwrap().with_readers_apart(sql).unwrap();
        let names: Vec<&str> = apart.elements.iter().map(|element| &*element.name).collect();
        assert_eq!(names, ["arm 2", "k", "arm 3", "w"]);
        assert_eq!(
            apart.main,
            "SELECT a FROM w UNION ALL SELECT * FROM \"arm 2\"  UNION SELECT * FROM \"arm 3\"  LIMIT 1"
        );
        assert_eq!(apart.text(0, &[]).unwrap().sql, "SELECT a FROM t WHERE b = $1");
        for sql in [
            "WITH a AS (DELETE FROM t RETURNING a) SELECT a FROM a",
            "WITH a AS (DELETE FROM t) SELECT 1 EXCEPT SELECT 2",
        ] {
            assert_eq!(SubStatements::of(sql).unwrap().with_readers_apart(sql), None, "{sql}");
        }
    }

    #[test]
    fn what_writes_is_a_statement_of_its_own() {
        check(
            "WITH moved AS (DELETE FROM t WHERE x = $2 RETURNING *) INSERT INTO u SELECT *, $1 FROM moved",
            &[
                "DELETE FROM t WHERE x = $1 RETURNING * [$2]",
                "INSERT INTO u WITH moved AS (SELECT * FROM ROWS FROM (unnest($1), unnest($2)) AS kept (a, b)) \
                 SELECT *, $3 FROM moved [0.0 0.1 $1]",
            ],
        );
        check(
            "with p (n) as materialized (select 1), q as not materialized (update t set a = (select n from p) returning a, b), \
             r as (select ')' from q) select * from r",
            &[
                "WITH p (n) AS (select 1) update t set a = (select n from p) returning a, b []",
                "WITH q AS (SELECT * FROM ROWS FROM (unnest($1), unnest($2)) AS kept (a, b)) , r  AS (select ')' from q) \
                 select * from r [0.0 0.1]",
            ],
        );
        check(
            "WITH a AS (DELETE FROM t RETURNING a, b), c AS (WITH x AS (SELECT * FROM a) SELECT * FROM x), d AS (INSERT INTO t SELECT 1) \
             SELECT 1",
            &["DELETE FROM t RETURNING a, b []", "INSERT INTO t SELECT 1 []", "SELECT 1 []"],
        );
        check(
            "WITH z AS (DELETE FROM t RETURNING a, b) SELECT b FROM z",
            &[
                "DELETE FROM t RETURNING a, b []",
                "WITH z AS (SELECT k0 AS a, CAST(k1 AS text[]) AS b FROM ROWS FROM (unnest($1), unnest($2)) AS kept (k0, k1)) SELECT b FROM z \
                 [0.0 0.1]",
            ],
        );
        check("WITH a AS (SELECT 1) SELECT * FROM a", &[]);
        check("SELECT 1", &[]);
        check("WITH a AS (DELETE FROM t", &[]);
    }
}
