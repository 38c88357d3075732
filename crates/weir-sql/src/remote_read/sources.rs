//! Sources of a writing statement, besides its target: independent queries, and tables.

use std::collections::{BTreeMap, BTreeSet};

use pg_query::protobuf::{Alias, RangeVar, SubLinkType, node};
use weir_types::SqlType;

use crate::bound::{Expr, ExprKind, FromItem, JoinKind, OutputColumn, Query, RelationId, Statement};
use crate::catalog::{Catalog, ColumnIndex, TableId};
use crate::parse::nodes::{each_node, reads};
use crate::statement::{BoundText, CLIENT, ParsedText};
use crate::sub_statements::parts;
use crate::walk::{self, Part, each_part};

/// Something that it asks for.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Which node of the tree it is, as [`each_node`] counts them; none below a source is counted.
    pub place: usize,
    /// The query, or the table as an item of FROM.
    pub node: node::Node,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Query(Vec<OutputColumn>),
    Table {
        /// All its visible columns.
        columns: Vec<OutputColumn>,
        /// Columns that this statement reads.
        used: Vec<usize>,
        alias: Alias,
        /// Its columns can be read under its alias: each needed row occurs in a row of the join of all sources.
        is_joined: bool,
    },
}

/// `None`: there is something among them that cannot be read apart.
pub(super) fn sources(
    catalog: &Catalog,
    parsed: &ParsedText<'_>,
    (statement, types): (&Statement, &[SqlType]),
    is_partitioned: &dyn Fn(TableId) -> bool,
) -> Option<Vec<Source>> {
    let tables = Tables::of(statement, is_partitioned)?;
    let names = names_of_with(parsed.node());
    let names = names.iter().map(String::as_str).collect();
    let mut finder = Finder { catalog, parsed, types, is_partitioned, names, tables, count: 0, array: None };
    let (mut found, mut is_possible) = (Vec::new(), true);
    each_node(parsed.node(), &mut |node| {
        let place = finder.count;
        finder.count += 1;
        match finder.kind(place, node) {
            Ok(Some(kind)) => {
                found.push(Source { place, node: node.clone(), kind });
                false
            }
            Ok(None) => is_possible,
            Err(Inseparable) => {
                is_possible = false;
                false
            }
        }
    });
    (is_possible && finder.tables.at.is_empty()).then_some(found)
}

/// It cannot be read apart.
struct Inseparable;

struct Finder<'f, 't> {
    catalog: &'f Catalog,
    parsed: &'f ParsedText<'t>,
    types: &'f [SqlType],
    is_partitioned: &'f dyn Fn(TableId) -> bool,
    /// All names that WITH gives.
    names: Vec<&'f str>,
    tables: Tables<'f>,
    count: usize,
    /// The node that is the query of an ARRAY(…).
    array: Option<usize>,
}

impl Finder<'_, '_> {
    fn kind(&mut self, place: usize, node: &node::Node) -> Result<Option<Kind>, Inseparable> {
        match node {
            node::Node::SubLink(link) => {
                let is_array = link.sub_link_type == SubLinkType::ArraySublink as i32;
                self.array = is_array.then_some(place + 1).or(self.array);
                Ok(None)
            }
            node::Node::SelectStmt(_) => {
                let Some(query) = self.query(node) else { return Ok(None) };
                // Its rows come in no order.
                let is_ordered = self.array == Some(place) && !query.order_by.is_empty();
                if is_ordered || query.has_effects() || walk::query_is_volatile(&query) {
                    return Err(Inseparable);
                }
                self.tables.leave_out(node);
                Ok(Some(Kind::Query(query.columns)))
            }
            node::Node::RangeVar(table) => self.tables.kind(self.catalog, table),
            _ => Ok(None),
        }
    }

    /// The query by itself. `None`: it refers to something around it, or to nothing that lives elsewhere.
    fn query(&self, node: &node::Node) -> Option<Query> {
        if !reads(node, &self.names).is_empty() {
            return None;
        }
        let bound = self.parsed.rewritten(node.clone()).bind(self.catalog, &[], self.types);
        let (BoundText::Statement(bound), _) = bound.ok()? else { return None };
        let Statement::Query(query) = *bound else { return None };
        walk::tables(&query).iter().any(|(_, table)| (self.is_partitioned)(*table)).then_some(query)
    }
}

/// The tables that may live elsewhere, by where they stand, as often as they were bound.
struct Tables<'s> {
    at: BTreeMap<i32, Vec<(RelationId, TableId, &'s str)>>,
    joined: BTreeSet<RelationId>,
    used: BTreeMap<RelationId, BTreeSet<ColumnIndex>>,
}

impl<'s> Tables<'s> {
    /// `None`: a query holds its rows.
    fn of(statement: &'s Statement, is_partitioned: &dyn Fn(TableId) -> bool) -> Option<Tables<'s>> {
        let mut tables = Tables { at: BTreeMap::new(), joined: BTreeSet::new(), used: BTreeMap::new() };
        let mut holds = false;
        for part in parts(statement) {
            each_part(part, &mut |part| match part {
                Part::From(FromItem::Table { relation, table, alias, span })
                    if is_partitioned(*table) && span.file == CLIENT =>
                {
                    let place = i32::try_from(span.start).unwrap_or(i32::MAX);
                    tables.at.entry(place).or_default().push((*relation, *table, alias));
                }
                Part::Query(query) => holds |= !query.locks.is_empty(),
                _ => {}
            });
        }
        others(statement).iter().for_each(|item| add_joined(item, &mut tables.joined));
        walk::each_statement_expr(statement, &mut |expr| note(&mut tables.used, expr));
        (!holds).then_some(tables)
    }

    /// Those within a query that is read as a whole.
    fn leave_out(&mut self, query: &node::Node) {
        each_node(query, &mut |node| {
            if let node::Node::RangeVar(table) = node {
                self.at.remove(&table.location);
            }
            true
        });
    }

    fn kind(&mut self, catalog: &Catalog, of: &RangeVar) -> Result<Option<Kind>, Inseparable> {
        let Some(relations) = self.at.remove(&of.location) else { return Ok(None) };
        let Some(&(_, table, alias)) = relations.first() else { return Ok(None) };
        if !of.inh {
            return Err(Inseparable);
        }
        let reads = |column: &ColumnIndex| {
            relations
                .iter()
                .any(|(relation, ..)| self.used.get(relation).is_some_and(|used| used.contains(column)))
        };
        let visible = catalog.table(table).columns.iter().enumerate().filter(|(_, column)| !column.is_hidden);
        let (places, columns): (Vec<ColumnIndex>, Vec<OutputColumn>) = visible
            .map(|(at, column)| (at, OutputColumn::new(column.name.clone(), column.ty.clone())))
            .unzip();
        let used = (0..columns.len()).filter(|&at| reads(&places[at])).collect();
        let own = Alias { aliasname: alias.to_owned(), colnames: Vec::new() };
        let alias = of.alias.clone().unwrap_or(own);
        let is_joined = alias.colnames.is_empty()
            && relations.iter().all(|(relation, ..)| self.joined.contains(relation));
        Ok(Some(Kind::Table { columns, used, alias, is_joined }))
    }
}

fn names_of_with(node: &node::Node) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    each_node(node, &mut |node| {
        if let node::Node::CommonTableExpr(element) = node {
            names.insert(element.ctename.clone());
        }
        true
    });
    names
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
