//! Sources of a writing statement, besides its target: independent queries, and tables.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::SqlType;
use weir_types::function::double_quoted;

use super::clauses::{Range, names_of_with};
use crate::bound::{Expr, ExprKind, FromItem, JoinKind, OutputColumn, RelationId, Statement};
use crate::catalog::{Catalog, ColumnIndex, TableId};
use crate::lexer::{Lexer, Token, closing_end};
use crate::statement::{BoundText, CLIENT, bind_text};
use crate::sub_statements::parts;
use crate::walk::{self, Part, each_part};

/// Something that it asks for.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Text range that a replacement goes to.
    pub place: Range,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A query in parentheses.
    Query(Vec<OutputColumn>),
    Table {
        /// All its visible columns.
        columns: Vec<OutputColumn>,
        /// Columns that this statement reads.
        used: Vec<usize>,
        /// Its alias, quoted, if the text does not have one after the name.
        called: Option<String>,
        /// Qualifier of its columns, if each needed row occurs in a row of the join of all sources.
        joined: Option<String>,
    },
}

/// `None`: there is something among them that cannot be read apart.
pub(super) fn sources(
    catalog: &Catalog,
    sql: &str,
    (statement, types): (&Statement, &[SqlType]),
    is_partitioned: &dyn Fn(TableId) -> bool,
) -> Option<Vec<Source>> {
    let tokens: Vec<Token> = Lexer::new(sql, 0).collect();
    let mut sources = queries(catalog, sql, (&tokens, types), is_partitioned)?;
    let mut found = BTreeMap::<usize, Vec<(RelationId, TableId, &str)>>::new();
    let mut holds = false;
    for part in parts(statement) {
        each_part(part, &mut |part| match part {
            Part::From(FromItem::Table { relation, table, alias, span })
                if is_partitioned(*table) && span.file == CLIENT =>
            {
                found.entry(span.start as usize).or_default().push((*relation, *table, alias));
            }
            Part::Query(query) => holds |= !query.locks.is_empty(),
            _ => {}
        });
    }
    if holds {
        return None;
    }
    let mut joined = BTreeSet::new();
    others(statement).iter().for_each(|item| add_joined(item, &mut joined));
    let mut used = BTreeMap::<RelationId, BTreeSet<ColumnIndex>>::new();
    walk::each_statement_expr(statement, &mut |expr| note(&mut used, expr));
    for (start, relations) in found {
        if sources.iter().any(|source| source.place.0 <= start && start < source.place.1) {
            continue;
        }
        let &(_, table, alias) = relations.first()?;
        let reads = |column: &ColumnIndex| {
            relations
                .iter()
                .any(|(relation, ..)| used.get(relation).is_some_and(|used| used.contains(column)))
        };
        let named = Named::of(sql, &tokens, start, alias)?;
        let visible = catalog.table(table).columns.iter().enumerate().filter(|(_, column)| !column.is_hidden);
        let (places, columns): (Vec<ColumnIndex>, Vec<OutputColumn>) = visible
            .map(|(at, column)| (at, OutputColumn::new(column.name.clone(), column.ty.clone())))
            .unzip();
        let used = (0..columns.len()).filter(|&at| reads(&places[at])).collect();
        let is_joined = !named.renames && relations.iter().all(|(relation, ..)| joined.contains(relation));
        let quoted = double_quoted(alias);
        let kind = Kind::Table {
            columns,
            used,
            joined: is_joined.then(|| quoted.clone()),
            called: (!named.is_called).then_some(quoted),
        };
        sources.push(Source { place: (start, named.end), kind });
    }
    sources.sort_by_key(|source| source.place);
    Some(sources)
}

fn others(statement: &Statement) -> &[FromItem] {
    match statement {
        Statement::Update(update) => &update.from,
        Statement::Delete(delete) => &delete.using,
        Statement::Query(_) | Statement::Insert(_) => &[],
    }
}

/// The tables of which no row counts that is not in a row of all items together.
fn add_joined(item: &FromItem, joined: &mut BTreeSet<RelationId>) {
    match item {
        FromItem::Table { relation, .. } => {
            joined.insert(*relation);
        }
        FromItem::Join { kind, left, right, .. } => {
            if matches!(kind, JoinKind::Inner | JoinKind::Cross | JoinKind::Left) {
                add_joined(left, joined);
            }
            if matches!(kind, JoinKind::Inner | JoinKind::Cross | JoinKind::Right) {
                add_joined(right, joined);
            }
        }
        _ => {}
    }
}

fn note(used: &mut BTreeMap<RelationId, BTreeSet<ColumnIndex>>, expr: &Expr) {
    if let ExprKind::Column { relation, column } = expr.kind {
        used.entry(relation).or_default().insert(column);
    }
}

/// The outermost queries in brackets that refer to nothing around them. `None`: one cannot be read apart.
fn queries(
    catalog: &Catalog,
    sql: &str,
    (tokens, types): (&[Token], &[SqlType]),
    is_partitioned: &dyn Fn(TableId) -> bool,
) -> Option<Vec<Source>> {
    let names = names_of_with(sql);
    let mut sources = Vec::<Source>::new();
    for (at, open) in tokens.iter().enumerate().filter(|(_, token)| token.is(b'(')) {
        let is_query = |token: &&Token| ["select", "with"].iter().any(|word| token.is_word(sql, word));
        let Some(first) = tokens.get(at + 1).filter(is_query) else { continue };
        if sources.last().is_some_and(|last| open.start < last.place.1) {
            continue;
        }
        let place = (first.start, closing_end(sql, open.start).checked_sub(1)?);
        let text = sql.get(place.0..place.1)?;
        let refers =
            || Lexer::new(text, 0).any(|token| token.name(text).is_some_and(|name| names.contains(&name)));
        let Ok((BoundText::Statement(bound), _)) = bind_text(catalog, &[], text, types) else { continue };
        let Statement::Query(query) = *bound else { continue };
        if !walk::tables(&query).iter().any(|(_, table)| is_partitioned(*table)) || refers() {
            continue;
        }
        // Its rows come in no order.
        let is_array = at > 0 && tokens[at - 1].is_word(sql, "array");
        if is_array && !query.order_by.is_empty() || query.has_effects() || walk::query_is_volatile(&query) {
            return None;
        }
        sources.push(Source { place, kind: Kind::Query(query.columns) });
    }
    Some(sources)
}

/// How a table is named in FROM.
struct Named {
    /// End of the name alone.
    end: usize,
    /// It is called something behind its name, even if that is the same.
    is_called: bool,
    /// The columns are renamed too.
    renames: bool,
}

impl Named {
    fn of(sql: &str, tokens: &[Token], start: usize, alias: &str) -> Option<Named> {
        let mut at = tokens.iter().position(|token| token.start == start)?;
        if at > 0 && tokens[at - 1].is_word(sql, "only") {
            return None;
        }
        tokens[at].name(sql)?;
        while tokens.get(at + 1).is_some_and(|token| token.is(b'.')) {
            at += 2;
            tokens.get(at)?.name(sql)?;
        }
        let end = tokens[at].end;
        let written = |at: usize| tokens.get(at).map_or("", |token| &sql[token.start..token.end]);
        if written(at + 1) == "*" {
            return None;
        }
        let as_word = tokens.get(at + 1).is_some_and(|token| token.is_word(sql, "as"));
        let name = at + 1 + usize::from(as_word);
        let is_called =
            as_word || tokens.get(name).and_then(|token| token.name(sql)).is_some_and(|name| name == alias);
        Some(Named { end, is_called, renames: is_called && written(name + 1) == "(" })
    }
}
