//! Assertions and foreign keys that a definition leaves to be asked of the rows that there are, as queries whose rows say what breaks
//! them.
//!
//! An assertion concerns the whole database, and a row's parent may live on another shard, so no shard can check alone: the coordinator
//! of the definition asks all shards, in the definition's transaction, which keeps all other writers out.

use pg_query::protobuf::{AExpr, BoolExprType, Node, SelectStmt, SubLinkType, node};
use weir_types::function::double_quoted;

use crate::Application;
use crate::bound::FromItem;
use crate::catalog::{Assertion, ForeignKey, Table, TableId};
use crate::definition::Matching;
use crate::lexer::{Lexer, closing_end};
use crate::parse::{Piece, parse_expression};
use crate::walk::{Part, each_part};

/// Number of violating rows queried: one more than are shown.
const ROWS_ASKED: usize = 4;

/// A query that gives nothing where the assertion or the foreign key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// Name of the assertion or the foreign key.
    pub name: String,
    pub query: String,
    pub gives: Gives,
}

/// Meaning of the rows of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gives {
    /// Keys of rows of the table without a row of the parent.
    Orphans { table: String, parent: String },
    /// Rows whose absence the assertion demands.
    Rows,
    /// Both sides of the comparison that is false.
    Sides,
    /// Nothing but that it is false.
    Nothing,
}

/// Checks needed after a definition has changed one application into the other, or has emptied tables.
pub fn validations(before: &Application, after: &Application, emptied: &[TableId]) -> Vec<Validation> {
    let matching = Matching::new(&before.catalog, &after.catalog);
    let is_open = |one: &&Assertion| {
        let was = before.assertions.iter().find(|was| was.span == one.span);
        was.is_none_or(|was| {
            // Positions distinguish a replaced view from the earlier one.
            format!("{:?}", was.expr) != format!("{:?}", one.expr)
                || tables_of(one)
                    .into_iter()
                    .any(|table| emptied.contains(&table) || !is_kept((before, after), &matching, table))
        })
    };
    after.assertions.iter().filter(is_open).map(of).collect()
}

/// Foreign keys that the definition has brought, or whose columns it has changed: the table of each, its place there, and the query for
/// a row without a parent. A key with a NULL in it has none to look for.
pub fn foreign_keys(before: &Application, after: &Application) -> Vec<(TableId, usize, Validation)> {
    let matching = Matching::new(&before.catalog, &after.catalog);
    let kept = |table: TableId| is_kept((before, after), &matching, table);
    let mut asked = Vec::new();
    let was_there = |table: &&TableId| matching.tables[table.0 as usize].is_some();
    // A key is asked about where its own table or its parent has changed.
    let tables: Vec<&Table> = match matching.changed.iter().filter(was_there).all(|table| kept(*table)) {
        true => matching.changed.iter().map(|table| after.catalog.table(*table)).collect(),
        false => after.catalog.tables.iter().collect(),
    };
    for table in tables {
        // A table that is new has no rows.
        let Some(was) = matching.tables[table.id.0 as usize] else { continue };
        let had = |span| before.catalog.table(was).foreign_keys.iter().any(|key| key.span == span);
        for (at, key) in table.foreign_keys.iter().enumerate() {
            if !had(key.span) || !kept(table.id) || !kept(key.parent) {
                asked.push((table.id, at, orphans(table, key, after.catalog.table(key.parent))));
            }
        }
    }
    asked
}

fn orphans(table: &Table, key: &ForeignKey, parent: &Table) -> Validation {
    let name = |of: &Table| of.name.split('.').map(double_quoted).collect::<Vec<_>>().join(".");
    let column =
        |alias: &str, of: &Table, at: usize| format!("{alias}.{}", double_quoted(&of.columns[at].name));
    let own: Vec<String> = key.columns.iter().map(|&at| column("child", table, at)).collect();
    let pairs = own.iter().zip(&key.parent_columns);
    let equal: Vec<String> =
        pairs.map(|(own, &theirs)| format!("{} = {own}", column("parent", parent, theirs))).collect();
    let there: Vec<String> = own.iter().map(|own| format!("{own} IS NOT NULL")).collect();
    let query = format!(
        "SELECT {} FROM {} AS child WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS parent WHERE {}) LIMIT 1",
        own.join(", "),
        name(table),
        there.join(" AND "),
        name(parent),
        equal.join(" AND ")
    );
    let gives = Gives::Orphans { table: table.name.clone(), parent: parent.name.clone() };
    Validation { name: key.name.clone(), query, gives }
}

fn tables_of(assertion: &Assertion) -> Vec<TableId> {
    let mut tables = Vec::new();
    each_part(Part::Expr(&assertion.expr), &mut |part| {
        if let Part::From(FromItem::Table { table, .. }) = part {
            tables.push(*table);
        }
    });
    tables
}

/// Its columns are those that they were.
fn is_kept<'a>(
    (before, after): (&'a Application, &'a Application),
    matching: &Matching,
    table: TableId,
) -> bool {
    if matching.tables[table.0 as usize] != Some(table) {
        return false;
    }
    let columns = |one: &'a Application| &one.catalog.table(table).columns;
    let (old, new) = (columns(before), columns(after));
    let same = |at: usize| {
        matching.old_column(table, at).is_none_or(|was| {
            was == at && old[at].ty == new[at].ty && new[at].retyped_since(&old[at]).is_none()
        })
    };
    matching.changed.binary_search(&table).is_err() || (0..new.len()).all(same)
}

fn of(assertion: &Assertion) -> Validation {
    let mut text = assertion.text.clone();
    if text.contains("--") {
        // A comment at its end would take along what is put behind it.
        text.push('\n');
    }
    let text = text.as_str();
    let (query, gives) = match shape(text) {
        Some(Shape::NoRow(query)) => {
            (format!("SELECT * FROM ({query}) AS offending LIMIT {ROWS_ASKED}"), Gives::Rows)
        }
        Some(Shape::Comparison(at, end)) => {
            let (left, right) = (text[..at].trim(), text[end..].trim());
            let sides = format!("SELECT ({left})::text, ({right}\n)::text");
            (format!("{sides} WHERE NOT ({text})"), Gives::Sides)
        }
        None => (format!("SELECT false WHERE NOT ({text})"), Gives::Nothing),
    };
    Validation { name: assertion.name.clone(), query, gives }
}

enum Shape {
    /// A query for the rows that are not to be there.
    NoRow(String),
    /// A comparison, whose operator stands at these bytes.
    Comparison(usize, usize),
}

fn shape(text: &str) -> Option<Shape> {
    let piece = Piece::new(0, 0, text);
    let parsed = parse_expression(piece).ok()?;
    let Some(node::Node::SelectStmt(select)) = &parsed.node else { return None };
    let [Node { node: Some(node::Node::ResTarget(target)) }] = &select.target_list[..] else { return None };
    match target.val.as_deref()?.node.as_ref()? {
        node::Node::BoolExpr(not) if not.boolop() == BoolExprType::NotExpr => {
            let [Node { node: Some(node::Node::SubLink(link)) }] = &not.args[..] else { return None };
            let Some(node::Node::SelectStmt(rows)) = link.subselect.as_deref()?.node.as_ref() else {
                return None;
            };
            if link.sub_link_type() != SubLinkType::ExistsSublink {
                return None;
            }
            let start = usize::try_from(link.location).ok()?;
            let start = start + text.get(start..)?.find('(')?;
            let inner = (start + 1, closing_end(text, start).checked_sub(1)?);
            let whole = text.get(inner.0..inner.1)?;
            Some(Shape::NoRow(rows_of_first(text, rows, inner.1).unwrap_or_else(|| whole.to_owned())))
        }
        node::Node::AExpr(compared) => comparison(text, compared),
        _ => None,
    }
}

/// The rows of the first table in FROM instead of what is selected of them; none: they are grouped, or hard to tell.
fn rows_of_first(text: &str, select: &SelectStmt, end: usize) -> Option<String> {
    let is_plain = select.group_clause.is_empty()
        && select.having_clause.is_none()
        && select.distinct_clause.is_empty()
        && select.larg.is_none()
        && select.with_clause.is_none();
    let mut first = select.from_clause.first().filter(|_| is_plain)?.node.as_ref()?;
    while let node::Node::JoinExpr(join) = first {
        first = join.larg.as_deref()?.node.as_ref()?;
    }
    let node::Node::RangeVar(table) = first else { return None };
    let start = usize::try_from(table.location).ok()?;
    let before = Lexer::new(text, 0).take_while(|token| token.start < start).last()?;
    if !before.is_word(text, "from") {
        return None;
    }
    let name = table.alias.as_ref().map_or(&table.relname, |alias| &alias.aliasname);
    Some(format!("SELECT {}.* FROM {}", double_quoted(name), text.get(start..end)?))
}

/// Position of the operator of the outermost comparison, if the text consists of its two sides.
fn comparison(text: &str, compared: &AExpr) -> Option<Shape> {
    let Some(node::Node::String(name)) = &compared.name.first()?.node else { return None };
    let is_comparison = matches!(name.sval.as_str(), "=" | "<>" | "<" | "<=" | ">" | ">=");
    let at = usize::try_from(compared.location).ok().filter(|_| is_comparison)?;
    let operator = text.get(at..)?;
    let length = operator.find(|c: char| !"=<>!".contains(c))?;
    compared.lexpr.as_ref().and(compared.rexpr.as_ref())?;
    (length > 0).then_some(Shape::Comparison(at, at + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Sources;

    const SCHEMA: &str = "
        CREATE TABLE a (id int PRIMARY KEY, x int);
        CREATE TABLE b (id int PRIMARY KEY, a int);
        CREATE VIEW v AS SELECT x FROM a;
    ";

    fn application() -> Application {
        let mut sources = Sources::default();
        sources.add("schema.sql", SCHEMA);
        crate::load(sources).unwrap_or_else(|(_, wrong)| panic!("{wrong:?}"))
    }

    /// `expect`: of each assertion that is to be asked after the last text, the query.
    fn check(texts: &[&str], expect: &[&str]) {
        let (mut before, mut after) = (application(), application());
        for text in texts {
            before = after;
            after = crate::define(&before, "definition", text)
                .unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        }
        let queries: Vec<String> = validations(&before, &after, &[])
            .into_iter()
            .map(|one| format!("{:?} {}", one.gives, one.query))
            .collect();
        assert_eq!(queries, expect, "{texts:?}");
    }

    #[test]
    fn an_assertion_is_a_query_for_what_breaks_it() {
        check(
            &["CREATE ASSERTION c CHECK (NOT EXISTS (SELECT 1 FROM a AS \"A\" WHERE x < 0))"],
            &["Rows SELECT * FROM (SELECT \"A\".* FROM a AS \"A\" WHERE x < 0) AS offending LIMIT 4"],
        );
        check(
            &[
                "CREATE ASSERTION c CHECK (not exists(SELECT a FROM b LEFT JOIN a p ON p.id = b.a WHERE p.id IS NULL))",
            ],
            &[
                "Rows SELECT * FROM (SELECT \"b\".* FROM b LEFT JOIN a p ON p.id = b.a WHERE p.id IS NULL) AS offending LIMIT 4",
            ],
        );
        check(
            &[
                "CREATE ASSERTION c CHECK (NOT EXISTS (SELECT a, count(*) FROM b GROUP BY a HAVING count(*) > 2))",
            ],
            &[
                "Rows SELECT * FROM (SELECT a, count(*) FROM b GROUP BY a HAVING count(*) > 2) AS offending LIMIT 4",
            ],
        );
        check(
            &["CREATE ASSERTION c CHECK ((SELECT sum(x) FROM a) >= (SELECT count(*) FROM b))"],
            &["Sides SELECT ((SELECT sum(x) FROM a))::text, ((SELECT count(*) FROM b)\n)::text \
               WHERE NOT ((SELECT sum(x) FROM a) >= (SELECT count(*) FROM b))"],
        );
        check(
            &["CREATE ASSERTION c CHECK (EXISTS (SELECT 1 FROM a))"],
            &["Nothing SELECT false WHERE NOT (EXISTS (SELECT 1 FROM a))"],
        );
    }

    #[test]
    fn what_cannot_have_changed_is_not_asked_again() {
        let create = "CREATE ASSERTION c CHECK (EXISTS (SELECT 1 FROM v))";
        let again = &["Nothing SELECT false WHERE NOT (EXISTS (SELECT 1 FROM v))"][..];
        check(&[create, "CREATE TABLE d (id int)"], &[]);
        check(&[create, "ALTER TABLE a ADD COLUMN y int"], &[]);
        check(&[create, "DROP TABLE b"], &[]);
        let of_b = "CREATE ASSERTION c CHECK (EXISTS (SELECT 1 FROM b))";
        let again_of_b = &["Nothing SELECT false WHERE NOT (EXISTS (SELECT 1 FROM b))"];
        check(&[of_b, "ALTER TABLE b ALTER COLUMN a TYPE bigint"], again_of_b);
        check(&[of_b, "ALTER TABLE b ALTER COLUMN a TYPE int USING a + 1"], again_of_b);
        check(&[create, "CREATE OR REPLACE VIEW v AS SELECT x FROM a WHERE x > 0"], again);
        check(&[create, "DROP ASSERTION c"], &[]);
        let (before, after) = (application(), application());
        let with = |application: &Application| crate::define(application, "definition", create).unwrap();
        assert_eq!(validations(&with(&before), &with(&after), &[TableId(0)]).len(), 1);
        assert_eq!(validations(&with(&before), &with(&after), &[TableId(1)]).len(), 0);
    }
}
