//! A statement whose WITH has statements that write, or whose queries run before it, as several: each is a statement of its own, which is given
//! the rows of those before it as arrays, one for each column. They are trees; nothing here is bound, and nothing runs.

use std::collections::BTreeSet;

use pg_query::protobuf::{
    CommonTableExpr, CteMaterialize, InsertStmt, Node, ParamRef, SelectStmt, SetOperation, WithClause, node,
};
use weir_types::SqlType;
use weir_types::function::double_quoted;

use crate::bound::{Delete, FromItem, InsertSource, OnConflict, Statement, Update};
use crate::catalog::{Catalog, ForeignKeyAction, TableId};
use crate::parse::deparse::{boxed, query_template};
use crate::parse::nodes::{each_node_mut, reads};
use crate::rows::names;
use crate::source::Diagnostic;
use crate::statement::ParsedText;
use crate::walk::{Part, each_part};

/// An element of WITH.
#[derive(Clone, Debug, PartialEq)]
struct Element {
    cte: Box<CommonTableExpr>,
    /// It is a piece of its own: it writes, or reads what was before.
    is_kept: bool,
}

/// The statement, apart.
#[derive(Clone, Debug)]
pub struct SubStatements<'t> {
    whole: ParsedText<'t>,
    is_recursive: bool,
    elements: Vec<Element>,
    /// Main statement without its WITH.
    main: node::Node,
}

/// One piece, whose parameters are counted anew.
#[derive(Clone, Debug)]
pub struct SubStatementTree<'t> {
    pub statement: ParsedText<'t>,
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
    /// It has a WITH of its own that cannot be one with the WITH around it.
    HasWith,
    /// It reads this one, which has no RETURNING.
    GivesNothing(String),
    /// Two elements of the WITH have this name.
    GivenTwice(String),
    /// A name or a type is none.
    Invalid(Diagnostic),
}

/// A column of the rows that a piece gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptColumn {
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

impl Element {
    fn name(&self) -> &str {
        &self.cte.ctename
    }

    fn query(&self) -> Option<&node::Node> {
        self.cte.ctequery.as_ref()?.node.as_ref()
    }
}

impl<'t> SubStatements<'t> {
    /// `None`: nothing in its WITH writes, or it nests too deeply.
    pub fn of(parsed: &ParsedText<'t>) -> Option<SubStatements<'t>> {
        let with = with_of(parsed.node()).filter(|_| parsed.can_be_rewritten())?;
        let elements = elements_of(with);
        if !elements.iter().any(|element| element.is_kept) {
            return None;
        }
        let mut main = parsed.node().clone();
        *with_of_mut(&mut main)? = None;
        Some(SubStatements { whole: parsed.clone(), is_recursive: with.recursive, elements, main })
    }

    /// Queries in it as pieces before it, each of which is run once: those that lock rows; of an INSERT also those whose values it inserts.
    /// `None`: there are none, or it nests too deeply. One that refers to what is around it is no statement: its piece names columns that
    /// are not there.
    pub fn of_queries(parsed: &ParsedText<'t>) -> Option<SubStatements<'t>> {
        let mut main = parsed.can_be_rewritten().then(|| parsed.node().clone())?;
        let is_insert = matches!(main, node::Node::InsertStmt(_));
        let (mut elements, mut is_main) = (Vec::new(), true);
        each_node_mut(&mut main, &mut |node| {
            let is_main = std::mem::take(&mut is_main);
            let locks = matches!(&*node, node::Node::SelectStmt(query) if !query.locking_clause.is_empty());
            let query = match node {
                node if locks && !is_main => Some(node),
                node::Node::SubLink(link) if is_insert => {
                    link.subselect.as_mut().and_then(|query| query.node.as_mut())
                }
                _ => None,
            };
            let Some(query) = query else { return true };
            let ctename = format!("query {}", elements.len() + 1);
            let Ok(rows) = query_template(&format!("SELECT * FROM {}", double_quoted(&ctename))) else {
                return true;
            };
            let query = std::mem::replace(query, node::Node::SelectStmt(rows));
            elements.push(Element { cte: element_of(ctename, query), is_kept: true });
            false
        });
        if elements.is_empty() {
            return None;
        }
        let with = with_of_mut(&mut main)?.take().unwrap_or_default();
        elements.extend(elements_of(&with));
        Some(SubStatements { whole: parsed.clone(), is_recursive: with.recursive, elements, main })
    }

    /// The same, but those arms of a UNION that read nothing of what writes are pieces, too, before it: they see what was before.
    /// `None`: there are none.
    pub fn with_readers_apart(&self) -> Option<SubStatements<'t>> {
        let mut apart = self.clone();
        let mut number = 0;
        let mut moved = Vec::new();
        each_arm(query_of(&mut apart.main)?, &mut |arm| {
            number += 1;
            let query = node::Node::SelectStmt(Box::new(arm.clone()));
            let needed = self.needed(self.elements.len(), &query);
            if !needed.iter().any(|&at| self.elements[at].is_kept) && arm.values_lists.is_empty() {
                let ctename = format!("arm {number}");
                let of_arm = query_template(&format!("SELECT * FROM {}", double_quoted(&ctename)));
                if let Ok(of_arm) = of_arm {
                    let cte = element_of(ctename, query);
                    moved.push((needed, Element { cte, is_kept: true }));
                    *arm = *of_arm;
                }
            }
        })?;
        let has_readers = !moved.is_empty();
        for (needed, element) in moved {
            // Behind what it reads, and what was put there before.
            let own = |one: &Element| needed.iter().any(|&at| self.elements[at].name() == one.name());
            let at = apart.elements.iter().rposition(own).map_or(0, |at| at + 1);
            apart.elements.insert(at, element);
        }
        has_readers.then_some(apart)
    }

    /// The elements that are kept, in order, by their names, and the names of columns that each was given. The main statement comes behind
    /// them, as the last piece.
    pub fn writers(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        let column = |name: &Node| match &name.node {
            Some(node::Node::String(name)) => Some(name.sval.clone()),
            _ => None,
        };
        let writers = self.elements.iter().filter(|element| element.is_kept);
        writers.map(move |element| {
            (element.name(), element.cte.aliascolnames.iter().filter_map(column).collect())
        })
    }

    /// The piece of that index, the main statement behind the others; `columns` are those of the pieces before it.
    ///
    /// # Errors
    /// It cannot be a statement of its own.
    pub fn piece(&self, piece: usize, columns: &[Vec<KeptColumn>]) -> Result<SubStatementTree<'t>, Uncut> {
        let mut names = BTreeSet::new();
        if let Some(again) = self.elements.iter().find(|element| !names.insert(element.name())) {
            return Err(Uncut::GivenTwice(again.name().to_owned()));
        }
        let mut writers = self.elements.iter().enumerate().filter(|(_, element)| element.is_kept);
        let (until, body) = match writers.nth(piece) {
            Some((at, element)) => (at, element.query()),
            None => (self.elements.len(), Some(&self.main)),
        };
        let mut body = body.cloned().ok_or(Uncut::HasWith)?;
        let needed = self.needed(until, &body);
        let mut parameters = Parameters::default();
        let (mut ctes, mut writer) = (Vec::new(), 0);
        for (at, element) in self.elements[..until].iter().enumerate() {
            let own = writer;
            writer += usize::from(element.is_kept);
            if !needed.contains(&at) {
                continue;
            }
            let cte = match element.is_kept {
                false => {
                    let mut cte = node::Node::CommonTableExpr(element.cte.clone());
                    parameters.count(&mut cte);
                    Node { node: Some(cte) }
                }
                true => match columns.get(own).filter(|columns| !columns.is_empty()) {
                    Some(columns) => {
                        let rows = parameters.rows(own, columns).map_err(Uncut::Invalid)?;
                        let cte = element_of(element.name().to_owned(), rows);
                        Node { node: Some(node::Node::CommonTableExpr(cte)) }
                    }
                    None => return Err(Uncut::GivesNothing(element.name().to_owned())),
                },
            };
            ctes.push(cte);
        }
        parameters.count(&mut body);
        if !ctes.is_empty() {
            self.add_with(&mut body, ctes)?;
        }
        Ok(SubStatementTree { statement: self.whole.rewritten(body), parameters: parameters.all })
    }

    /// Puts elements before those that a statement has.
    fn add_with(&self, body: &mut node::Node, ctes: Vec<Node>) -> Result<(), Uncut> {
        let added = WithClause { ctes, recursive: self.is_recursive, location: -1 };
        let with = match body {
            node::Node::InsertStmt(insert) => with_of_insert(insert, &added),
            body => with_of_mut(body),
        };
        let with = with.ok_or(Uncut::HasWith)?;
        let Some(own) = with else {
            *with = Some(added);
            return Ok(());
        };
        let (mut all, own_names) = (added, names(own));
        // None of them may hide another one, or be seen where it was not.
        let own_names: Vec<&str> = own_names.iter().map(String::as_str).collect();
        let is_seen = |cte: &Node| cte.node.as_ref().is_some_and(|cte| !reads(cte, &own_names).is_empty());
        let hides = names(&all).iter().any(|name| own_names.contains(&name.as_str()));
        if own.recursive != all.recursive || hides || all.recursive && all.ctes.iter().any(is_seen) {
            return Err(Uncut::HasWith);
        }
        all.ctes.append(&mut own.ctes);
        *own = all;
        Ok(())
    }

    /// Elements before that place that a node reads, directly or indirectly.
    fn needed(&self, until: usize, body: &node::Node) -> BTreeSet<usize> {
        let all: Vec<&str> = self.elements[..until].iter().map(Element::name).collect();
        let mut needed = BTreeSet::new();
        let mut left = vec![(body, until)];
        while let Some((body, until)) = left.pop() {
            for name in reads(body, &all[..until]) {
                let Some(at) = all.iter().position(|one| *one == name) else { continue };
                let element = &self.elements[at];
                if needed.insert(at) && !element.is_kept {
                    let seen = if self.is_recursive { all.len() } else { at };
                    left.extend(element.query().map(|query| (query, seen)));
                }
            }
        }
        needed
    }
}

fn elements_of(with: &WithClause) -> Vec<Element> {
    let element = |cte: &Node| match &cte.node {
        Some(node::Node::CommonTableExpr(cte)) => {
            let query = cte.ctequery.as_ref().and_then(|query| query.node.as_ref());
            let is_kept = matches!(
                query,
                Some(node::Node::InsertStmt(_) | node::Node::UpdateStmt(_) | node::Node::DeleteStmt(_))
            );
            Some(Element { cte: cte.clone(), is_kept })
        }
        _ => None,
    };
    with.ctes.iter().filter_map(element).collect()
}

/// An element of WITH with that query.
fn element_of(ctename: String, query: node::Node) -> Box<CommonTableExpr> {
    Box::new(CommonTableExpr {
        ctename,
        ctematerialized: CteMaterialize::Default as i32,
        ctequery: boxed(query),
        ..CommonTableExpr::default()
    })
}

fn with_of(statement: &node::Node) -> Option<&WithClause> {
    match statement {
        node::Node::SelectStmt(select) => select.with_clause.as_ref(),
        node::Node::InsertStmt(insert) => insert.with_clause.as_ref(),
        node::Node::UpdateStmt(update) => update.with_clause.as_ref(),
        node::Node::DeleteStmt(delete) => delete.with_clause.as_ref(),
        _ => None,
    }
}

pub(crate) fn with_of_mut(statement: &mut node::Node) -> Option<&mut Option<WithClause>> {
    match statement {
        node::Node::SelectStmt(select) => Some(&mut select.with_clause),
        node::Node::InsertStmt(insert) => Some(&mut insert.with_clause),
        node::Node::UpdateStmt(update) => Some(&mut update.with_clause),
        node::Node::DeleteStmt(delete) => Some(&mut delete.with_clause),
        _ => None,
    }
}

/// Where a WITH of an INSERT belongs: to its query, which runs where its rows are, unless something else reads it.
fn with_of_insert<'i>(insert: &'i mut InsertStmt, added: &WithClause) -> Option<&'i mut Option<WithClause>> {
    let added = names(added);
    let added: Vec<&str> = added.iter().map(String::as_str).collect();
    let others = InsertStmt { select_stmt: None, ..insert.clone() };
    let is_read = !reads(&node::Node::InsertStmt(Box::new(others)), &added).is_empty();
    let query = insert.select_stmt.as_mut().and_then(|query| query.node.as_mut());
    match query {
        Some(node::Node::SelectStmt(select)) if !is_read && select.values_lists.is_empty() => {
            Some(&mut select.with_clause)
        }
        _ => Some(&mut insert.with_clause),
    }
}

/// The query of a SELECT or an INSERT.
fn query_of(statement: &mut node::Node) -> Option<&mut SelectStmt> {
    match statement {
        node::Node::SelectStmt(select) => Some(select),
        node::Node::InsertStmt(insert) => match insert.select_stmt.as_mut()?.node.as_mut()? {
            node::Node::SelectStmt(select) => Some(select),
            _ => None,
        },
        _ => None,
    }
}

/// Visits the queries that a UNION joins. `None` for anything else.
fn each_arm(query: &mut SelectStmt, visit: &mut dyn FnMut(&mut SelectStmt)) -> Option<()> {
    if query.op != SetOperation::SetopUnion as i32 {
        return None;
    }
    for arm in [&mut query.larg, &mut query.rarg].into_iter().flatten() {
        let is_whole = arm.with_clause.is_some()
            || !arm.sort_clause.is_empty()
            || arm.limit_count.is_some()
            || arm.limit_offset.is_some();
        if is_whole || each_arm(arm, visit).is_none() {
            visit(arm);
        }
    }
    Some(())
}

/// The parameters of a piece so far.
#[derive(Default)]
struct Parameters {
    all: Vec<PieceParameter>,
}

impl Parameters {
    fn number(&mut self, parameter: PieceParameter) -> usize {
        let known = self.all.iter().position(|one| *one == parameter);
        known.unwrap_or_else(|| {
            self.all.push(parameter);
            self.all.len() - 1
        }) + 1
    }

    /// Counts those of a tree of the client's anew.
    fn count(&mut self, node: &mut node::Node) {
        each_node_mut(node, &mut |node| {
            if let node::Node::ParamRef(ParamRef { number, .. }) = node
                && let Some(client) = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1))
            {
                *number = i32::try_from(self.number(PieceParameter::Client(client))).unwrap_or(i32::MAX);
            }
            true
        });
    }

    /// A query of the rows that a piece has given.
    fn rows(&mut self, piece: usize, columns: &[KeptColumn]) -> Result<node::Node, Diagnostic> {
        // Two of them may have one name, which says nothing then.
        let are_plain = columns.iter().all(|column| column.cast.is_none());
        let output = |(at, column): (usize, &KeptColumn)| column.output(at);
        let all = match are_plain {
            true => "*".to_owned(),
            false => columns.iter().enumerate().map(output).collect::<Vec<_>>().join(", "),
        };
        let array = |column| format!("unnest(${})", self.number(PieceParameter::Column { piece, column }));
        let arrays: Vec<String> = (0..columns.len()).map(array).collect();
        let name = |(at, column): (usize, &KeptColumn)| match are_plain {
            true => double_quoted(&column.name),
            false => format!("k{at}"),
        };
        let names: Vec<String> = columns.iter().enumerate().map(name).collect();
        let (arrays, names) = (arrays.join(", "), names.join(", "));
        let rows = query_template(&format!("SELECT {all} FROM ROWS FROM ({arrays}) AS kept ({names})"))?;
        Ok(node::Node::SelectStmt(rows))
    }
}

impl KeptColumn {
    /// Output expression for the values of column `at`.
    fn output(&self, at: usize) -> String {
        let (name, cast) = (double_quoted(&self.name), &self.cast);
        match cast {
            Some(ty) => format!("CAST(k{at} AS {ty}) AS {name}"),
            None => format!("k{at} AS {name}"),
        }
    }
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
mod tests;
