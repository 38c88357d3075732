//! An UPDATE or a DELETE that asks for rows which live elsewhere than those that it writes, apart: a query of all that it asks for,
//! and the statement with those rows given, as arrays, one for each column. Nothing here is bound to run, and nothing runs.
//!
//! The query gives the keys of the rows that are to be written, too, and no others are written: so all that decides is of one read.
//! The statement asks its conditions again, of the rows that it writes as they are when it holds them.

mod clauses;
mod sources;
#[cfg(test)]
mod tests;

use weir_types::SqlType;
use weir_types::function::double_quoted;

use self::clauses::Clauses;
use self::sources::{Kind, Source, sources};
use crate::bound::{OutputColumn, Statement};
use crate::catalog::{Catalog, TableId};
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
        sql: &str,
        (statement, types): (&Statement, &[SqlType]),
        is_partitioned: &dyn Fn(TableId) -> bool,
    ) -> Option<RemoteRead> {
        let table = match statement {
            Statement::Update(update) => update.table,
            Statement::Delete(delete) => delete.table,
            Statement::Query(_) | Statement::Insert(_) => return None,
        };
        let clauses = Clauses::of(sql)?;
        let sources = sources(catalog, sql, (statement, types), is_partitioned)?;
        if sources.is_empty() || has_chance(statement) {
            return None;
        }
        let table = catalog.table(table);
        let key = table.primary_key.as_ref()?.columns.iter().map(|&column| &table.columns[column]);
        let key = key.map(|column| OutputColumn::new(column.name.clone(), column.ty.clone())).collect();
        let builder = Builder { sql, clauses: &clauses, types, read: Vec::new(), arms: Vec::new() };
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
    /// FROM, and what is behind it.
    rest: String,
}

struct Builder<'s> {
    sql: &'s str,
    clauses: &'s Clauses,
    /// Types of the client's parameters.
    types: &'s [SqlType],
    /// Types of what is read, behind the number of the source.
    read: Vec<SqlType>,
    arms: Vec<Arm>,
}

impl<'s> Builder<'s> {
    fn text(&self, (from, to): (usize, usize)) -> &'s str {
        let sql: &'s str = self.sql;
        &sql[from..to]
    }

    fn build(mut self, key: Vec<OutputColumn>, sources: &[Source]) -> Option<RemoteRead> {
        let called = self.text(self.clauses.called).to_owned();
        let places = self.read_all(&called, &key, sources)?;
        let client = self.types.iter().enumerate();
        let parameters = client.map(|(at, ty)| (PieceParameter::Client(at), ty.clone())).collect();
        let mut given = Given { read: &self.read, parameters };
        let mut edits: Vec<(usize, usize, String)> = Vec::new();
        for (source, (arm, first)) in sources.iter().zip(places) {
            let (start, end) = source.place;
            edits.push((start, end, given.source(source, arm, first)));
        }
        let Clauses { sources: listed, lists, listed: behind, filter, end, gives_all, .. } = *self.clauses;
        let condition = if gives_all {
            given.is_among(&called, &key)
        } else {
            let (item, condition) = given.listed(&called, &key);
            let before = if listed.is_some() { ", ".to_owned() } else { format!(" {lists} ") };
            edits.push((behind, behind, before + &item));
            condition
        };
        match filter {
            Some((start, end)) => {
                edits.push((start, start, "(".to_owned()));
                edits.push((end, end, format!(") AND {condition}")));
            }
            None => edits.push((end, end, format!(" WHERE {condition}"))),
        }
        let parameters = given.parameters;
        Some(RemoteRead { read: self.query(), write: edited(self.sql, edits)?, parameters })
    }

    /// Gives of each source which SELECT reads it, and the place of its first column.
    fn read_all(
        &mut self,
        called: &str,
        key: &[OutputColumn],
        sources: &[Source],
    ) -> Option<Vec<(usize, usize)>> {
        let mut rest = format!("FROM {}", self.text(self.clauses.target));
        if let Some(listed) = self.clauses.sources {
            rest.push_str(&format!(", {}", self.text(listed)));
        }
        if let Some(filter) = self.clauses.filter {
            rest.push_str(&format!(" WHERE {}", self.text(filter)));
        }
        self.arms.push(Arm { first: 0, outputs: Vec::new(), rest });
        self.add(0, key.iter().map(|of| (qualified(called, of), &of.ty)))?;
        let mut places = vec![(0, 0); sources.len()];
        // What stands in a row with the key of one that is to be written is read with it; what is read by itself comes behind.
        for (source, place) in sources.iter().zip(&mut places) {
            if let Kind::Table { columns, used, joined: Some(called), .. } = &source.kind {
                *place = (0, self.read.len());
                let used = used.iter().map(|&at| &columns[at]);
                self.add(0, used.map(|of| (qualified(called, of), &of.ty)))?;
            }
        }
        for (source, place) in sources.iter().zip(&mut places) {
            let text = self.text(source.place);
            let (arm, first) = (self.arms.len(), self.read.len());
            match &source.kind {
                Kind::Table { joined: Some(_), .. } => continue,
                Kind::Table { columns, used, .. } => {
                    self.arms.push(Arm { first, outputs: Vec::new(), rest: format!("FROM {text}") });
                    let used = used.iter().map(|&at| &columns[at]);
                    self.add(arm, used.map(|of| (double_quoted(&of.name), &of.ty)))?;
                }
                Kind::Query(columns) => {
                    let names: Vec<String> = (0..columns.len()).map(|at| format!("c{at}")).collect();
                    let rest = format!("FROM ({text}) AS q ({})", names.join(", "));
                    self.arms.push(Arm { first, outputs: Vec::new(), rest });
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

    fn query(&self) -> String {
        let select = |(number, arm): (usize, &Arm)| {
            let output = |at: usize| match at.checked_sub(arm.first).and_then(|own| arm.outputs.get(own)) {
                Some(output) => output.clone(),
                None => format!("CAST(NULL AS {})", self.read[at]),
            };
            let outputs: String = (0..self.read.len()).map(|at| format!(", {}", output(at))).collect();
            format!("SELECT {number}{outputs} {}", arm.rest)
        };
        let arms: Vec<String> = self.arms.iter().enumerate().map(select).collect();
        format!("{}{}", &self.sql[..self.clauses.verb], arms.join(" UNION ALL "))
    }
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

    /// Replacement text of a source. `first`: position of its first column in the read.
    fn source(&mut self, source: &Source, arm: usize, first: usize) -> String {
        match &source.kind {
            Kind::Query(columns) => {
                let own: Vec<usize> = (0..columns.len()).map(|at| first + 1 + at).collect();
                let output = |(at, of): (usize, &OutputColumn)| self.output(own[at], of);
                let outputs: Vec<String> = columns.iter().enumerate().map(output).collect();
                format!("SELECT {} {}", outputs.join(", "), self.rows(arm, &own))
            }
            Kind::Table { columns, used, called, .. } => {
                let own: Vec<usize> = (0..used.len()).map(|at| first + 1 + at).collect();
                let output = |(at, of): (usize, &OutputColumn)| match used.iter().position(|used| *used == at)
                {
                    Some(place) => self.output(own[place], of),
                    None => format!("CAST(NULL AS {}) AS {}", of.ty, double_quoted(&of.name)),
                };
                let outputs: Vec<String> = columns.iter().enumerate().map(output).collect();
                let called = called.as_ref().map_or(String::new(), |called| format!(" AS {called}"));
                // A row comes with each of those that it goes with.
                let distinct = if arm == 0 { "DISTINCT " } else { "" };
                format!("(SELECT {distinct}{} {}){called}", outputs.join(", "), self.rows(arm, &own))
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
    fn listed(&mut self, called: &str, key: &[OutputColumn]) -> (String, String) {
        let own: Vec<usize> = (1..=key.len()).collect();
        let outputs: Vec<String> = own.iter().map(|at| format!("c{at} AS \"key {at}\"")).collect();
        let item = format!("(SELECT DISTINCT {} {}) AS {FOUND}", outputs.join(", "), self.rows(0, &own));
        let equal = |(at, column): (usize, &OutputColumn)| {
            format!("{} = {FOUND}.\"key {}\"", qualified(called, column), at + 1)
        };
        (item, key.iter().enumerate().map(equal).collect::<Vec<_>>().join(" AND "))
    }

    /// The same as a condition alone, where another item would be seen.
    fn is_among(&mut self, called: &str, key: &[OutputColumn]) -> String {
        let names: Vec<String> = key.iter().map(|column| qualified(called, column)).collect();
        let own: Vec<usize> = (1..=key.len()).collect();
        let outputs: Vec<String> = own.iter().map(|column| format!("c{column}")).collect();
        let (names, outputs) = (names.join(", "), outputs.join(", "));
        format!("({names}) IN (SELECT {outputs} {})", self.rows(0, &own))
    }
}

/// Name of the relation of found rows; no other relation can have it.
const FOUND: &str = "\"found by weir\"";

fn qualified(called: &str, column: &OutputColumn) -> String {
    format!("{called}.{}", double_quoted(&column.name))
}

/// The text with others in these places, of which none begins within another.
fn edited(sql: &str, mut edits: Vec<(usize, usize, String)>) -> Option<String> {
    edits.sort_by_key(|(start, end, _)| (*start, *end));
    let (mut text, mut copied) = (String::with_capacity(2 * sql.len()), 0);
    for (start, end, instead) in edits {
        text.push_str(sql.get(copied..start)?);
        text.push_str(&instead);
        copied = end;
    }
    text.push_str(sql.get(copied..)?);
    Some(text)
}
