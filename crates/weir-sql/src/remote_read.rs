//! An UPDATE or a DELETE that asks for rows which live elsewhere than those that it writes, apart: a query of all that it asks for,
//! and the statement with those rows given, as arrays, one for each column. Nothing here is bound to run, and nothing runs.
//!
//! The query gives the keys of the rows that are to be written, too, and no others are written: so all that decides is of one read.
//! The statement asks its conditions again, of the rows that it writes as they are when it holds them.

mod clauses;
mod sources;
#[cfg(test)]
mod tests;

use pg_query::protobuf::{
    Alias, BoolExpr, BoolExprType, LimitOption, Node, RangeSubselect, SelectStmt, SetOperation, node,
};
use weir_types::SqlType;
use weir_types::function::double_quoted;

use self::clauses::{Clauses, clauses_mut};
use self::sources::{Kind, Source, sources};
use crate::bound::{OutputColumn, Statement};
use crate::catalog::{Catalog, TableId};
use crate::parse::deparse::{boxed, query_template};
use crate::parse::nodes::each_node_mut;
use crate::statement::ParsedText;
use crate::sub_statements::{PieceParameter, given_type};
use crate::walk::{self, Part, each_part};

#[derive(Clone, Debug, PartialEq)]
pub struct RemoteRead {
    /// With the parameters of the statement. Its first column says which source a row is of; 0 are the rows that are to be written.
    pub read: String,
    /// The statement with the rows of `read`, which is piece 0.
    pub write: String,
    /// Parameters of `write`: those of the client, then values of the read.
    pub parameters: Vec<(PieceParameter, SqlType)>,
}

impl RemoteRead {
    /// `types`: of all its parameters. `None`: it asks for nothing that may live elsewhere, or for something that cannot be read apart.
    pub fn of(
        catalog: &Catalog,
        parsed: &ParsedText<'_>,
        (statement, types): (&Statement, &[SqlType]),
        is_partitioned: &dyn Fn(TableId) -> bool,
    ) -> Option<RemoteRead> {
        let table = match statement {
            Statement::Update(update) => update.table,
            Statement::Delete(delete) => delete.table,
            Statement::Query(_) | Statement::Insert(_) => return None,
        };
        let clauses = Clauses::of(parsed.node()).filter(|_| parsed.can_be_rewritten())?;
        let sources = sources(catalog, parsed, (statement, types), is_partitioned)?;
        if sources.is_empty() || has_chance(statement) {
            return None;
        }
        let table = catalog.table(table);
        let key = table.primary_key.as_ref()?.columns.iter().map(|&column| &table.columns[column]);
        let key = key.map(|column| OutputColumn::new(column.name.clone(), column.ty.clone())).collect();
        let builder = Builder { parsed, clauses, types, read: Vec::new(), arms: Vec::new() };
        builder.build(key, &sources)
    }
}

/// Which rows it writes is worked out twice, and would not be the same.
fn has_chance(statement: &Statement) -> bool {
    let (others, filter) = match statement {
        Statement::Update(update) => (&update.from, &update.filter),
        Statement::Delete(delete) => (&delete.using, &delete.filter),
        Statement::Query(_) | Statement::Insert(_) => return false,
    };
    let mut found = filter.as_ref().is_some_and(walk::is_volatile);
    for item in others {
        each_part(Part::From(item), &mut |part| {
            if let Part::Expr(expr) = part {
                found |= expr.kind.is_volatile();
            }
        });
    }
    found
}

/// A SELECT of the read.
struct Arm {
    /// Its columns among all: from there on.
    first: usize,
    outputs: Vec<String>,
    from: Vec<Node>,
    filter: Option<Box<Node>>,
}

struct Builder<'s, 't> {
    parsed: &'s ParsedText<'t>,
    clauses: Clauses<'s>,
    /// Types of the client's parameters.
    types: &'s [SqlType],
    /// Types of what is read, behind the number of the source.
    read: Vec<SqlType>,
    arms: Vec<Arm>,
}

impl Builder<'_, '_> {
    fn build(mut self, key: Vec<OutputColumn>, sources: &[Source]) -> Option<RemoteRead> {
        let called = self.clauses.called();
        let places = self.read_all(&key, sources)?;
        let client = self.types.iter().enumerate();
        let parameters = client.map(|(at, ty)| (PieceParameter::Client(at), ty.clone())).collect();
        let mut given = Given { read: &self.read, parameters };
        let mut instead = Vec::new();
        for (source, (arm, first)) in sources.iter().zip(places) {
            instead.push((source.place, given.source(source, arm, first)?));
        }
        let mut write = self.parsed.node().clone();
        replace(&mut write, instead);
        let (listed, filter) = clauses_mut(&mut write)?;
        let found = if self.clauses.gives_all {
            given.is_among(called, &key)?
        } else {
            given.listed(called, &key)?
        };
        listed.extend(found.from_clause);
        add_condition(filter, found.where_clause?);
        let parameters = given.parameters;
        let write = self.parsed.rewritten(write).sql().ok()?;
        Some(RemoteRead { read: self.query()?, write, parameters })
    }

    /// Gives of each source which SELECT reads it, and the place of its first column.
    fn read_all(&mut self, key: &[OutputColumn], sources: &[Source]) -> Option<Vec<(usize, usize)>> {
        let Clauses { target, others, filter, .. } = self.clauses;
        let mut from = vec![Node { node: Some(node::Node::RangeVar(target.clone())) }];
        from.extend(others.iter().cloned());
        self.arms.push(Arm { first: 0, outputs: Vec::new(), from, filter: filter.clone() });
        let called = self.clauses.called();
        self.add(0, key.iter().map(|of| (qualified(called, of), &of.ty)))?;
        let mut places = vec![(0, 0); sources.len()];
        // Columns in a row with the key of one that is written are read with it; columns that are read by themselves come behind.
        for (source, place) in sources.iter().zip(&mut places) {
            if let Kind::Table { columns, used, alias, is_joined: true } = &source.kind {
                *place = (0, self.read.len());
                let used = used.iter().map(|&at| &columns[at]);
                self.add(0, used.map(|of| (qualified(&alias.aliasname, of), &of.ty)))?;
            }
        }
        for (source, place) in sources.iter().zip(&mut places) {
            let (arm, first) = (self.arms.len(), self.read.len());
            match &source.kind {
                Kind::Table { is_joined: true, .. } => continue,
                Kind::Table { columns, used, .. } => {
                    self.arms.push(Arm::of(first, without_alias(&source.node)));
                    let used = used.iter().map(|&at| &columns[at]);
                    self.add(arm, used.map(|of| (double_quoted(&of.name), &of.ty)))?;
                }
                Kind::Query(columns) => {
                    let names: Vec<String> = (0..columns.len()).map(|at| format!("c{at}")).collect();
                    let alias = format!("SELECT 1 FROM (SELECT 1) AS q ({})", names.join(", "));
                    let mut from = query_template(&alias).ok()?.from_clause;
                    if let Some(node::Node::RangeSubselect(item)) = from.first_mut()?.node.as_mut() {
                        item.subquery = boxed(source.node.clone());
                    }
                    self.arms.push(Arm::of(first, from.pop()?.node?));
                    self.add(
                        arm,
                        columns.iter().zip(&names).map(|(of, name)| (format!("q.{name}"), &of.ty)),
                    )?;
                }
            }
            *place = (arm, first);
        }
        Some(places)
    }

    /// Columns of one of the SELECTs. `None`: there are no parameters of a type among them.
    fn add<'c>(&mut self, arm: usize, columns: impl Iterator<Item = (String, &'c SqlType)>) -> Option<()> {
        for (output, ty) in columns {
            if matches!(ty, SqlType::Record | SqlType::Void | SqlType::Opaque(_)) {
                return None;
            }
            self.arms[arm].outputs.push(output);
            self.read.push(if *ty == SqlType::Unknown { given_type(ty) } else { ty.clone() });
        }
        Some(())
    }

    /// All of its SELECTs, behind the statement's WITH.
    fn query(self) -> Option<String> {
        let select = |(number, arm): (usize, Arm)| {
            let output = |at: usize| match at.checked_sub(arm.first).and_then(|own| arm.outputs.get(own)) {
                Some(output) => output.clone(),
                None => format!("CAST(NULL AS {})", self.read[at]),
            };
            let outputs: String = (0..self.read.len()).map(|at| format!(", {}", output(at))).collect();
            let mut select = query_template(&format!("SELECT {number}{outputs}")).ok()?;
            (select.from_clause, select.where_clause) = (arm.from, arm.filter);
            Some(select)
        };
        let arms: Vec<Box<SelectStmt>> =
            self.arms.into_iter().enumerate().map(select).collect::<Option<_>>()?;
        let mut query = arms.into_iter().reduce(union_all)?;
        query.with_clause = self.clauses.with.clone();
        self.parsed.rewritten(node::Node::SelectStmt(query)).sql().ok()
    }
}

impl Arm {
    fn of(first: usize, from: node::Node) -> Arm {
        Arm { first, outputs: Vec::new(), from: vec![Node { node: Some(from) }], filter: None }
    }
}

fn without_alias(table: &node::Node) -> node::Node {
    let mut table = table.clone();
    if let node::Node::RangeVar(table) = &mut table {
        table.alias = None;
    }
    table
}

fn union_all(left: Box<SelectStmt>, right: Box<SelectStmt>) -> Box<SelectStmt> {
    Box::new(SelectStmt {
        op: SetOperation::SetopUnion as i32,
        all: true,
        limit_option: LimitOption::Default as i32,
        larg: Some(left),
        rarg: Some(right),
        ..SelectStmt::default()
    })
}

/// Other nodes in these places, in their order.
fn replace(statement: &mut node::Node, instead: Vec<(usize, node::Node)>) {
    let (mut count, mut instead) = (0, instead.into_iter().peekable());
    each_node_mut(statement, &mut |node| {
        count += 1;
        match instead.next_if(|(place, _)| *place + 1 == count) {
            Some((_, other)) => {
                *node = other;
                false
            }
            None => true,
        }
    });
}

/// One more condition that WHERE has.
fn add_condition(filter: &mut Option<Box<Node>>, condition: Box<Node>) {
    let terms = |condition: Box<Node>| match condition.node {
        Some(node::Node::BoolExpr(and)) if and.boolop == BoolExprType::AndExpr as i32 => and.args,
        node => vec![Node { node }],
    };
    let Some(own) = filter.take() else {
        *filter = Some(condition);
        return;
    };
    let mut args = terms(own);
    args.extend(terms(condition));
    let and = BoolExpr { boolop: BoolExprType::AndExpr as i32, args, xpr: None, location: -1 };
    *filter = boxed(node::Node::BoolExpr(Box::new(and)));
}

/// Values of the read that are passed to the statement.
struct Given<'r> {
    read: &'r [SqlType],
    parameters: Vec<(PieceParameter, SqlType)>,
}

impl Given<'_> {
    /// The parameter of a column of the read, whose first one is the number of the source.
    fn parameter(&mut self, column: usize) -> usize {
        let parameter = PieceParameter::Column { piece: 0, column };
        let known = self.parameters.iter().position(|(one, _)| *one == parameter);
        known.unwrap_or_else(|| {
            let ty = match column.checked_sub(1).map(|at| &self.read[at]) {
                None => SqlType::Int4,
                Some(ty) => given_type(ty),
            };
            self.parameters.push((parameter, SqlType::array_of(ty)));
            self.parameters.len() - 1
        }) + 1
    }

    /// `FROM …` with these columns of the read, of one source.
    fn rows(&mut self, arm: usize, columns: &[usize]) -> String {
        let (mut arrays, mut names) = (Vec::new(), Vec::new());
        for column in [0].into_iter().chain(columns.iter().copied()) {
            arrays.push(format!("unnest(${})", self.parameter(column)));
            names.push(format!("c{column}"));
        }
        let (arrays, names) = (arrays.join(", "), names.join(", "));
        format!("FROM ROWS FROM ({arrays}) AS given ({names}) WHERE c0 = {arm}")
    }

    /// Replacement of a source. `first`: position of its first column in the read.
    fn source(&mut self, source: &Source, arm: usize, first: usize) -> Option<node::Node> {
        match &source.kind {
            Kind::Query(columns) => {
                let own: Vec<usize> = (0..columns.len()).map(|at| first + 1 + at).collect();
                let output = |(at, of): (usize, &OutputColumn)| self.output(own[at], of);
                let outputs: Vec<String> = columns.iter().enumerate().map(output).collect();
                let query = format!("SELECT {} {}", outputs.join(", "), self.rows(arm, &own));
                Some(node::Node::SelectStmt(query_template(&query).ok()?))
            }
            Kind::Table { columns, used, alias, .. } => {
                let own: Vec<usize> = (0..used.len()).map(|at| first + 1 + at).collect();
                let output = |(at, of): (usize, &OutputColumn)| match used.iter().position(|used| *used == at)
                {
                    Some(place) => self.output(own[place], of),
                    None => format!("CAST(NULL AS {}) AS {}", of.ty, double_quoted(&of.name)),
                };
                let outputs: Vec<String> = columns.iter().enumerate().map(output).collect();
                // A row comes with each of those that it goes with.
                let distinct = if arm == 0 { "DISTINCT " } else { "" };
                let query = format!("SELECT {distinct}{} {}", outputs.join(", "), self.rows(arm, &own));
                let query = node::Node::SelectStmt(query_template(&query).ok()?);
                Some(item(query, alias.clone()))
            }
        }
    }

    fn output(&self, column: usize, of: &OutputColumn) -> String {
        let (read, name) = (&self.read[column - 1], double_quoted(&of.name));
        match *read == given_type(read) {
            true => format!("c{column} AS {name}"),
            false => format!("CAST(c{column} AS {read}) AS {name}"),
        }
    }

    /// The rows that have been found, as an item of FROM, and that the row is one of them: it can be looked up.
    fn listed(&mut self, called: &str, key: &[OutputColumn]) -> Option<Box<SelectStmt>> {
        let own: Vec<usize> = (1..=key.len()).collect();
        let outputs: Vec<String> = own.iter().map(|at| format!("c{at} AS \"key {at}\"")).collect();
        let item = format!("(SELECT DISTINCT {} {}) AS {FOUND}", outputs.join(", "), self.rows(0, &own));
        let equal = |(at, column): (usize, &OutputColumn)| {
            format!("{} = {FOUND}.\"key {}\"", qualified(called, column), at + 1)
        };
        let condition = key.iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND ");
        query_template(&format!("SELECT 1 FROM {item} WHERE {condition}")).ok()
    }

    /// The same as a condition alone, where another item would be seen.
    fn is_among(&mut self, called: &str, key: &[OutputColumn]) -> Option<Box<SelectStmt>> {
        let names: Vec<String> = key.iter().map(|column| qualified(called, column)).collect();
        let own: Vec<usize> = (1..=key.len()).collect();
        let outputs: Vec<String> = own.iter().map(|column| format!("c{column}")).collect();
        let (names, outputs) = (names.join(", "), outputs.join(", "));
        query_template(&format!("SELECT 1 WHERE ({names}) IN (SELECT {outputs} {})", self.rows(0, &own))).ok()
    }
}

/// A query as an item of FROM.
fn item(query: node::Node, alias: Alias) -> node::Node {
    let item = RangeSubselect { lateral: false, subquery: boxed(query), alias: Some(alias) };
    node::Node::RangeSubselect(Box::new(item))
}

/// Name of the relation of found rows; no other relation can have it.
const FOUND: &str = "\"found by weir\"";

fn qualified(called: &str, column: &OutputColumn) -> String {
    format!("{}.{}", double_quoted(called), double_quoted(&column.name))
}
