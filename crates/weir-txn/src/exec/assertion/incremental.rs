//! Incremental checks of assertions: of `NOT EXISTS (SELECT … FROM t WHERE …)` only those rows of `t` are looked at, the *anchors*, that rows
//! which a transaction has changed may concern.
//!
//! A *link* is a set of equalities between columns of a table in the condition and columns of the anchors. A row of that table has a part in
//! the condition of an anchor only if the equalities hold. So if it changes, comes or goes, the anchors to look at are those that equal its
//! old or its new values. Whoever writes a row of a table that has no link checks the whole assertion.

use std::collections::BTreeSet;

use weir_sql::bound::{Query, RelationId};
use weir_sql::catalog::{Assertion, ColumnIndex, TableId};
use weir_sql::{Catalog, walk};
use weir_types::SqlType;

use super::{narrowed, ranges_over, showing_rows};
use crate::exec::routing::Equalities;

/// Number of a link, or of no link: the whole assertion.
pub type LinkNumber = Option<u32>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub table: TableId,
    /// Columns of that table, and those of the anchors that equal them, in the same order.
    pub columns: Vec<ColumnIndex>,
    anchor: Vec<ColumnIndex>,
}

/// How an assertion is checked for changed rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    links: Vec<Link>,
    /// Tables of which a changed row may concern any anchor.
    whole: BTreeSet<TableId>,
}

impl Links {
    pub fn of(assertion: &Assertion, catalog: &Catalog) -> Links {
        let mut found = Links::default();
        let anchored = ranges_over(&assertion.expr).filter(|(_, _, table)| has_key(catalog, *table));
        let Some((query, relation, table)) = anchored else {
            walk::each_expr(&assertion.expr, &mut |part| {
                let tables = walk::subquery(part).map(walk::tables).unwrap_or_default();
                found.whole.extend(tables.into_iter().map(|(_, table)| table));
            });
            return found;
        };
        let shown = showing_rows(query, relation, table, catalog);
        found.links.extend(own_key(catalog, table));
        let mut outer = Equalities::default();
        outer.query(&shown);
        found.part(outer, relation);
        found
    }

    /// Links of the tables of a part of the query, and of the parts within it.
    fn part(&mut self, mut part: Equalities<'_>, anchor: RelationId) {
        for (relation, table) in std::mem::take(&mut part.tables) {
            if relation == anchor {
                continue;
            }
            let pairs = equal_columns(&part, relation, anchor);
            match pairs.is_empty() {
                true => drop(self.whole.insert(table)),
                false => {
                    let (columns, anchor) = pairs.into_iter().unzip();
                    let link = Link { table, columns, anchor };
                    if !self.links.contains(&link) {
                        self.links.push(link);
                    }
                }
            }
        }
        for within in std::mem::take(&mut part.within) {
            let mut inner = part.around_parts();
            within.take_in(&mut inner);
            self.part(inner, anchor);
        }
    }

    /// The numbers of the links of a table, and [`None`] if its rows have to do with the whole assertion.
    pub fn of_table(&self, table: TableId) -> impl Iterator<Item = LinkNumber> {
        let whole = self.whole.contains(&table).then_some(None);
        let links = self.links.iter().enumerate().filter(move |(_, link)| link.table == table);
        whole.into_iter().chain(links.map(|(number, _)| Some(number as u32)))
    }

    pub fn link(&self, number: u32) -> Option<&Link> {
        self.links.get(number as usize)
    }
}

impl Link {
    /// The query for violating anchors that equal the variables, and the types of these.
    pub(in crate::exec) fn narrowed(
        &self,
        assertion: &Assertion,
        catalog: &Catalog,
    ) -> Option<(Query, Vec<SqlType>)> {
        let (query, relation, table) = ranges_over(&assertion.expr)?;
        let shown = showing_rows(query, relation, table, catalog);
        let types = self.anchor.iter().map(|&column| catalog.table(table).columns[column].ty.clone());
        Some((narrowed(&shown, relation, table, &self.anchor, catalog), types.collect()))
    }
}

fn has_key(catalog: &Catalog, table: TableId) -> bool {
    catalog.table(table).primary_key.is_some()
}

/// The link of the anchors to themselves.
fn own_key(catalog: &Catalog, table: TableId) -> Option<Link> {
    let key = catalog.table(table).primary_key.as_ref()?;
    Some(Link { table, columns: key.columns.clone(), anchor: key.columns.clone() })
}

/// Columns of a relation, each with a column of the anchors that equals it. Of an anchor's column once.
fn equal_columns(
    equalities: &Equalities<'_>,
    relation: RelationId,
    anchor: RelationId,
) -> Vec<(ColumnIndex, ColumnIndex)> {
    let of = |wanted: RelationId| {
        equalities
            .classes
            .iter()
            .filter(move |((of, _), _)| *of == wanted)
            .map(|((_, column), class)| (*column, equalities.find(*class)))
    };
    let mut pairs = Vec::new();
    for (column, class) in of(anchor) {
        if let Some((own, _)) = of(relation).find(|(_, other)| *other == class) {
            pairs.push((own, column));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use weir_sql::Sources;

    use super::*;

    const TABLES: &str = "
        CREATE TABLE account (id int PRIMARY KEY, owner int, balance int NOT NULL);
        CREATE TABLE entry (id int PRIMARY KEY, account int NOT NULL, amount int NOT NULL);
        CREATE TABLE line (entry int, no int, PRIMARY KEY (entry, no));
        CREATE TABLE loose (k text);";

    /// By table: its columns with those of the anchors, and `*` for the whole assertion.
    fn links(condition: &str) -> String {
        let mut sources = Sources::default();
        sources.add("schema.sql", format!("{TABLES} CREATE ASSERTION a CHECK ({condition});"));
        let application = weir_sql::load(sources).unwrap_or_else(|(_, wrong)| panic!("{wrong:?}"));
        let links = Links::of(&application.assertions[0], &application.catalog);
        let tables = application.catalog.tables.iter();
        let of = |table: &weir_sql::catalog::Table| {
            let each = links.of_table(table.id).map(|number| match number.and_then(|at| links.link(at)) {
                Some(link) => format!("{:?}={:?}", link.columns, link.anchor),
                None => "*".to_owned(),
            });
            let each: Vec<String> = each.collect();
            (!each.is_empty()).then(|| format!("{} {}", table.name, each.join(" ")))
        };
        tables.filter_map(of).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_changed_row_concerns_the_anchors_that_equal_it() {
        let cases = [
            ("NOT EXISTS (SELECT 1 FROM account WHERE balance < 0)", "account [0]=[0]"),
            (
                "NOT EXISTS (SELECT 1 FROM account a WHERE a.balance <> (SELECT sum(e.amount) FROM entry e WHERE e.account = a.id))",
                "account [0]=[0]; entry [1]=[0]",
            ),
            // By way of another table.
            (
                "NOT EXISTS (SELECT 1 FROM account a WHERE EXISTS (SELECT 1 FROM entry e JOIN line l ON l.entry = e.id
                 WHERE e.account = a.id))",
                "account [0]=[0]; entry [1]=[0]; line *",
            ),
            (
                "NOT EXISTS (SELECT 1 FROM account a WHERE a.balance > (SELECT max(amount) FROM entry))",
                "account [0]=[0]; entry *",
            ),
            // Twice the same table.
            (
                "NOT EXISTS (SELECT 1 FROM account a WHERE EXISTS (SELECT 1 FROM account b WHERE b.owner = a.owner AND b.id <> a.id))",
                "account [0]=[0] [1]=[1]",
            ),
            (
                "NOT EXISTS (SELECT 1 FROM account a WHERE NOT EXISTS (SELECT 1 FROM entry e WHERE e.account = a.id AND e.amount = a.balance))",
                "account [0]=[0]; entry [1, 2]=[0, 2]",
            ),
            ("(SELECT count(*) FROM entry) < 9", "entry *"),
            ("NOT EXISTS (SELECT 1 FROM loose WHERE k = '')", "loose *"),
            (
                "NOT EXISTS (SELECT account FROM entry GROUP BY account HAVING count(*) > 3)",
                "entry *",
            ),
        ];
        for (condition, expected) in cases {
            assert_eq!(links(condition), expected, "{condition}");
        }
    }
}
