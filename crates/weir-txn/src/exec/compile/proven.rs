//! Parents that a call has seen: foreign keys of inserted rows that need no look-up any more.
//!
//! `UPDATE stock … WHERE s_w_id = a[i] AND s_i_id = b[i] RETURNING … INTO STRICT` ends the call unless the row is
//! there. If a later INSERT of the same call refers to that row, and no procedure takes such rows away, its
//! foreign key holds. This is told from the text alone: the earlier statement runs whenever the later one
//! does, and the variables that name the row keep their values between them. Saves the look-up; and over several
//! shards the whole statement at every shard but its own, since nobody else has a parent to look for.

use std::collections::BTreeMap;

use weir_sql::bound::{
    Expr, ExprKind, Insert, InsertSource, Procedure, Statement, Step, StepKind, VariableId,
};
use weir_sql::catalog::{ColumnIndex, ForeignKey, TableId};
use weir_sql::{Catalog, Span};

use super::{Closed, each_statement, effects};
use crate::exec::routing::{fixed_columns, inserted, same_expr, without_integer_cast};

/// By INSERT: the indexes of its table's foreign keys that hold.
#[derive(Debug, Default)]
pub struct Proven(BTreeMap<Span, Vec<usize>>);

/// The rounds of `FOR variable IN from .. to`.
#[derive(Clone, Copy)]
struct Rounds<'a> {
    variable: VariableId,
    from: &'a Expr,
    to: &'a Expr,
}

/// After this statement there is a row of the table with these values; if it stands in a loop, one for each round.
struct Witness<'a> {
    table: TableId,
    columns: Vec<(ColumnIndex, &'a Expr)>,
    rounds: Option<Rounds<'a>>,
}

impl Proven {
    /// `closed`: the tables whose rows some procedure removes or gives other keys.
    pub fn of(catalog: &Catalog, procedure: &Procedure, closed: &Closed) -> Proven {
        let mut proven = Proven::default();
        let mut witnesses = Vec::new();
        for (at, step) in procedure.body.iter().enumerate() {
            let rounds = Rounds::of(step);
            each_statement(std::slice::from_ref(step), &mut |statement, _| {
                if let Statement::Insert(insert) = statement {
                    proven.note(catalog, insert, rounds, &witnesses);
                }
            });
            let assigned_from_here = effects(&procedure.body[at..]).assigned;
            let own = rounds.map(|rounds| rounds.variable);
            let keeps =
                |variable: VariableId| Some(variable) == own || !assigned_from_here.contains(&variable.0);
            let found = witnesses_of(step, rounds).into_iter();
            let may_go = |one: &Witness<'_>| closed.may_lose_rows(catalog.table(one.table));
            witnesses.extend(found.filter(|one| !may_go(one) && one.depends_on(&keeps)));
        }
        proven
    }

    /// Whether the foreign key of every row that the statement inserts is known to hold.
    pub fn holds(&self, insert: &Insert, foreign_key: usize) -> bool {
        self.0.get(&insert.span).is_some_and(|keys| keys.contains(&foreign_key))
    }

    fn note(
        &mut self,
        catalog: &Catalog,
        insert: &Insert,
        rounds: Option<Rounds<'_>>,
        witnesses: &[Witness<'_>],
    ) {
        let InsertSource::Values(rows) = &insert.source else { return };
        for (at, key) in catalog.table(insert.table).foreign_keys.iter().enumerate() {
            let seen = |row: &Vec<Expr>| {
                witnesses.iter().any(|one| one.is_parent(catalog, key, insert, row, rounds))
            };
            if rows.iter().all(seen) {
                self.0.entry(insert.span).or_default().push(at);
            }
        }
    }
}

impl<'a> Rounds<'a> {
    /// The loop's, if its variable goes through all numbers between the bounds.
    fn of(step: &'a Step) -> Option<Rounds<'a>> {
        let StepKind::ForRange { variable, from, to, by: None, reverse: false, body, .. } = &step.kind else {
            return None;
        };
        (!effects(body).assigned.contains(&variable.0)).then_some(Rounds { variable: *variable, from, to })
    }
}

/// The step's own, or those that stand in every round of its loop.
fn witnesses_of<'a>(step: &'a Step, rounds: Option<Rounds<'a>>) -> Vec<Witness<'a>> {
    match &step.kind {
        StepKind::Sql { .. } => witness(step, None).into_iter().collect(),
        StepKind::ForRange { body, .. } if rounds.is_some() && !effects(body).leaves => {
            body.iter().filter_map(|step| witness(step, rounds)).collect()
        }
        _ => Vec::new(),
    }
}

fn witness<'a>(step: &'a Step, rounds: Option<Rounds<'a>>) -> Option<Witness<'a>> {
    let StepKind::Sql { statement, into } = &step.kind else { return None };
    let (table, columns) = match &**statement {
        Statement::Insert(insert) => {
            let InsertSource::Values(rows) = &insert.source else { return None };
            let ([row], None) = (rows.as_slice(), &insert.on_conflict) else { return None };
            let given = insert.columns.iter();
            (
                insert.table,
                given.filter_map(|&column| Some((column, inserted(insert, row, column)?))).collect(),
            )
        }
        _ if into.as_ref().is_some_and(|into| into.strict) => fixed_columns(statement)?,
        _ => return None,
    };
    Some(Witness { table, columns, rounds })
}

impl Witness<'_> {
    /// Whether all variables that say which row it is satisfy the condition.
    fn depends_on(&self, keeps: &dyn Fn(VariableId) -> bool) -> bool {
        let bounds = self.rounds.iter().flat_map(|rounds| [rounds.from, rounds.to]);
        let exprs = self.columns.iter().map(|(_, expr)| *expr).chain(bounds);
        exprs.into_iter().all(|expr| variables(expr).is_some_and(|all| all.into_iter().all(keeps)))
    }

    /// Whether it is the parent of the row, inserted in one of these rounds.
    fn is_parent(
        &self,
        catalog: &Catalog,
        key: &ForeignKey,
        insert: &Insert,
        row: &[Expr],
        rounds: Option<Rounds<'_>>,
    ) -> bool {
        let renamed = match (self.rounds, rounds) {
            (None, _) => None,
            (Some(of), Some(rounds)) if same_expr(of.from, rounds.from) && same_expr(of.to, rounds.to) => {
                Some((of.variable, rounds.variable))
            }
            _ => return false,
        };
        let is_integer =
            |table: TableId, column: ColumnIndex| catalog.table(table).columns[column].ty.is_integer();
        key.parent == self.table
            && key.columns.iter().zip(&key.parent_columns).all(|(&child, &parent)| {
                let seen = self.columns.iter().find(|(column, _)| *column == parent);
                // Other types compare as equal what is not the same (char(n)).
                is_integer(insert.table, child)
                    && is_integer(key.parent, parent)
                    && seen
                        .zip(inserted(insert, row, child))
                        .is_some_and(|((_, seen), given)| same_value(seen, given, renamed))
            })
    }
}

/// The variables of an expression that is copied, not computed.
fn variables(expr: &Expr) -> Option<Vec<VariableId>> {
    match &without_integer_cast(expr).kind {
        ExprKind::Literal(_) => Some(Vec::new()),
        ExprKind::Variable(variable) => Some(vec![*variable]),
        ExprKind::Subscript { array, index } => {
            let mut all = variables(array)?;
            all.extend(variables(index)?);
            Some(all)
        }
        _ => None,
    }
}

/// `renamed`: the variables of the two loops, which go through the same numbers.
fn same_value(seen: &Expr, given: &Expr, renamed: Option<(VariableId, VariableId)>) -> bool {
    let (seen, given) = (without_integer_cast(seen), without_integer_cast(given));
    match (&seen.kind, &given.kind, renamed) {
        (ExprKind::Variable(a), ExprKind::Variable(b), Some((of, to))) if *a == of || *b == to => {
            (*a, *b) == (of, to)
        }
        (ExprKind::Subscript { array: a, index: i }, ExprKind::Subscript { array: b, index: j }, Some(_)) => {
            same_value(a, b, renamed) && same_value(i, j, renamed)
        }
        _ => same_expr(seen, given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "
        CREATE TABLE city (id integer PRIMARY KEY);
        CREATE TABLE shop (
            id integer PRIMARY KEY, visits integer, city integer REFERENCES city ON DELETE CASCADE);
        CREATE TABLE stock (shop integer, item integer, left_over integer, PRIMARY KEY (shop, item));
        CREATE TABLE label (code char(4) PRIMARY KEY);
        CREATE TABLE line (
            id integer PRIMARY KEY,
            shop integer CONSTRAINT of_shop REFERENCES shop,
            item integer,
            code char(4) CONSTRAINT of_label REFERENCES label,
            CONSTRAINT of_stock FOREIGN KEY (shop, item) REFERENCES stock);
    ";

    /// The foreign keys of the last INSERT that need no look-up.
    fn seen(body: &str, other: &str) -> String {
        let procedure = format!(
            "CREATE PROCEDURE p(IN s integer, IN t integer, IN n integer, IN items integer[], IN c char(4)) LANGUAGE
             plpgsql AS $$ DECLARE found_one integer; k integer; BEGIN {body} END $$;
             CREATE PROCEDURE other(IN s integer) LANGUAGE SQL AS $$ {other} $$;"
        );
        let mut sources = weir_sql::Sources::default();
        sources.add("tables.sql", TABLES);
        sources.add("procedures.sql", &procedure);
        let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{body}: {errors:?}"));
        let closed = Closed::open_from(&application, usize::MAX);
        let proven = Proven::of(&application.catalog, &application.procedures[0], &closed);
        let mut last = None;
        each_statement(&application.procedures[0].body, &mut |statement, _| {
            if let Statement::Insert(insert) = statement {
                last = Some(insert);
            }
        });
        let insert = last.expect("there is an INSERT");
        let keys = application.catalog.table(insert.table).foreign_keys.iter().enumerate();
        let names = keys.filter(|&(at, _)| proven.holds(insert, at)).map(|(_, key)| key.name.as_str());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn parents_that_the_call_has_seen() {
        let check = |body: &str, expected: &str| assert_eq!(seen(body, "SELECT 1"), expected, "{body}");
        let strict =
            "UPDATE shop SET visits = visits + 1 WHERE id = s RETURNING visits INTO STRICT found_one;";
        let line = "INSERT INTO line (id, shop, item) VALUES (1, s, 5);";
        check(&format!("{strict} {line}"), "of_shop");
        check(&format!("SELECT visits INTO STRICT found_one FROM shop WHERE id = s; {line}"), "of_shop");
        check(&format!("INSERT INTO shop VALUES (s, 0); {line}"), "of_shop");
        check(&format!("INSERT INTO shop VALUES (s, 0) ON CONFLICT DO NOTHING; {line}"), "");
        check(&format!("UPDATE shop SET visits = 1 WHERE id = s; {line}"), "");
        check(&format!("SELECT count(*) INTO STRICT found_one FROM shop WHERE id = s; {line}"), "");
        check(&format!("SELECT visits INTO STRICT found_one FROM shop WHERE id = t; {line}"), "");
        check(&format!("SELECT visits INTO STRICT found_one FROM shop WHERE id >= s; {line}"), "");
        check(&format!("{line} {strict}"), "");
        check(&format!("IF t > 1 THEN {strict} END IF; {line}"), "");
        check(&format!("{strict} IF t > 1 THEN {line} END IF;"), "of_shop");
        check(&format!("{strict} s := s + 1; {line}"), "");
        check(
            &format!("k := s; {} {}", strict.replace("= s", "= k"), line.replace("1, s", "1, k")),
            "of_shop",
        );
        // The statement itself gives the values that name the row.
        check(
            "SELECT id INTO STRICT s FROM shop WHERE id = s; INSERT INTO line (id, shop, item) VALUES (1, s, 5);",
            "",
        );
        check(&format!("{strict} INSERT INTO line (id, shop, item) VALUES (1, s, 5), (2, t, 5);"), "");
        check(
            "SELECT code INTO STRICT c FROM label WHERE code = c; INSERT INTO line (id, code) VALUES (1, c);",
            "",
        );
    }

    #[test]
    fn a_row_for_each_round() {
        let first = "FOR i IN 1 .. n LOOP UPDATE stock SET left_over = left_over - 1 WHERE shop = s AND item = items[i]
                     RETURNING left_over INTO STRICT found_one; END LOOP;";
        let second =
            "FOR j IN 1 .. n LOOP INSERT INTO line (id, shop, item) VALUES (j, s, items[j]); END LOOP;";
        let check = |first: &str, second: &str, expected: &str| {
            assert_eq!(seen(&format!("{first} {second}"), "SELECT 1"), expected, "{first} {second}");
        };
        check(first, second, "of_stock");
        check(first, &second.replace("1 .. n", "1 .. t"), "");
        check(&first.replace("1 .. n", "2 .. n"), second, "");
        check(first, &second.replace("items[j]", "items[s]"), "");
        check(first, &second.replace("items[j]", "j"), "");
        check(&first.replace("END LOOP", "EXIT WHEN i > t; END LOOP"), second, "");
        check(&first.replace("END LOOP", "i := i + 1; END LOOP"), second, "");
        check(&first.replace("END LOOP", "items[i] := 7; END LOOP"), second, "");
        check(
            first,
            "items[1] := 7; FOR j IN 1 .. n LOOP INSERT INTO line (id, shop, item) VALUES (j, s, items[j]); END LOOP;",
            "",
        );
        check(&first.replace("1 .. n", "1 .. n BY 2"), &second.replace("1 .. n", "1 .. n BY 2"), "");
        check(first, "INSERT INTO line (id, shop, item) VALUES (1, s, items[1]);", "");
    }

    #[test]
    fn parents_that_may_go() {
        let body = "UPDATE shop SET visits = visits + 1 WHERE id = s RETURNING visits INTO STRICT found_one;
                    INSERT INTO line (id, shop, item) VALUES (1, s, 5);";
        assert_eq!(seen(body, "UPDATE shop SET visits = 0 WHERE id = s"), "of_shop");
        assert_eq!(seen(body, "DELETE FROM shop WHERE id = s"), "");
        assert_eq!(seen(body, "UPDATE shop SET id = 7 WHERE id = s"), "");
        assert_eq!(seen(body, "DELETE FROM city WHERE id = s"), "", "its shops go with it");
    }
}
