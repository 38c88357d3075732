//! Effects take time in proportion to an application's text, not to its paths: where too many paths lead to one body
//! they are joined, and nothing that any of them does is missing.

use crate::support;

use std::collections::BTreeSet;
use std::fmt::Write;

use weir_analysis::effects::Frame;
use weir_analysis::{Analysis, InvariantId, analyze};
use weir_sql::Application;

fn read(text: &str) -> (Application, Analysis) {
    let app = support::read_to_analyze(text);
    let analysis = analyze(&app);
    (app, analysis)
}

fn procedure(app: &Application, name: &str) -> usize {
    app.procedures.iter().position(|procedure| procedure.name == name).expect("a procedure of this name")
}

fn written(app: &Application, analysis: &Analysis, name: &str) -> BTreeSet<String> {
    let writes = &analysis.effects[procedure(app, name)].writes;
    writes.iter().map(|write| app.catalog.table(write.table).name.clone()).collect()
}

fn is_confluent(app: &Application, analysis: &Analysis, name: &str, invariant: &str) -> bool {
    let at = analysis.invariants.iter().position(|each| each.name == invariant);
    let id = InvariantId(at.expect("an invariant of this name") as u32);
    analysis.verdict(procedure(app, name), id).confluent
}

/// Tables t0, t1, …, of which an update updates the next one in each of four IFs.
fn chain(tables: usize) -> String {
    let mut text = String::new();
    for table in 0..tables {
        let _ = writeln!(text, "CREATE TABLE t{table} (id int PRIMARY KEY, n int NOT NULL, CHECK (n >= 0));");
    }
    for table in 1..tables {
        let mut body = String::new();
        for sign in [1, 2, 3, 4] {
            let _ = writeln!(
                body,
                "IF NEW.n > {sign} THEN UPDATE t{table} SET n = n - 1 WHERE id = NEW.id; END IF;"
            );
        }
        let before = table - 1;
        let _ = writeln!(
            text,
            "CREATE FUNCTION f{before}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$;
             CREATE TRIGGER g{before} AFTER UPDATE ON t{before} FOR EACH ROW EXECUTE FUNCTION f{before}();"
        );
    }
    text += "CREATE PROCEDURE touch(p_id int) LANGUAGE plpgsql AS $$ BEGIN UPDATE t0 SET n = n + 1 WHERE id = p_id; END $$;";
    text
}

/// 4^6 paths lead to the last of seven tables.
#[test]
fn a_chain_of_triggers_takes_effects_in_proportion_to_its_length() {
    let writes = |tables: usize| {
        let (app, analysis) = read(&chain(tables));
        assert_eq!(written(&app, &analysis, "touch").len(), tables, "every table of the chain is written");
        let last = format!("t{}_n_check", tables - 1);
        assert!(
            !is_confluent(&app, &analysis, "touch", &last),
            "{last} is decremented at the end of the chain"
        );
        analysis.effects[procedure(&app, "touch")].writes.len()
    };
    let (short, long) = (writes(7), writes(14));
    assert!(short < 400, "{short} writes");
    assert!(long < 3 * short, "{short} writes of 7 tables, {long} of 14");
}

#[test]
fn calls_of_calls_are_joined() {
    let mut text = "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0));
        CREATE PROCEDURE level0(p_id int, p_n int) LANGUAGE plpgsql AS
        $$ BEGIN UPDATE t SET n = n - p_n WHERE id = p_id; END $$;"
        .to_owned();
    for level in 1..=10 {
        let below = level - 1;
        let _ = write!(
            text,
            "CREATE PROCEDURE level{level}(p_id int, p_n int) LANGUAGE plpgsql AS
             $$ BEGIN CALL level{below}(p_id, p_n); CALL level{below}(p_id + 1, p_n); END $$;"
        );
    }
    let (app, analysis) = read(&text);
    let effects = &analysis.effects[procedure(&app, "level10")];
    assert!(effects.writes.len() <= 10, "{} writes", effects.writes.len());
    assert!(!is_confluent(&app, &analysis, "level10", "t_n_check"));
}

/// The later turns of what calls itself are effects too: any number of them, of rows and values that nobody knows.
#[test]
fn recursion_is_an_effect_without_a_bound() {
    let (app, analysis) = read(
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
         CREATE PROCEDURE down(p_id int) LANGUAGE plpgsql AS $$ BEGIN
             UPDATE t SET n = n + 1 WHERE id = p_id;
             IF p_id > 0 THEN CALL down(p_id - 1); END IF;
         END $$;",
    );
    let effects = &analysis.effects[procedure(&app, "down")];
    let unbounded = effects.writes.iter().filter(|write| {
        matches!(write.context[..], [Frame::Loop { count: None, .. }]) && effects.key_of(write).len() == 1
    });
    assert_eq!(unbounded.count(), 1, "{:?}", effects.writes);
    assert_eq!(effects.unknown.len(), 1);
}

/// A BEFORE trigger whose paths are joined leaves the columns that it assigns unknown, and no others.
#[test]
fn a_joined_before_trigger_may_have_set_what_it_assigns() {
    let mut body = String::new();
    for id in 0..20 {
        let _ = writeln!(body, "INSERT INTO t VALUES ({id}, 1, 1);");
    }
    let (app, analysis) = read(&format!(
        "CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n > 0), m int CHECK (m > 0));
         CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN IF NEW.m > 7 THEN NEW.n := NEW.m; END IF; RETURN NEW; END $$;
         CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
         CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
    ));
    let effects = &analysis.effects[procedure(&app, "fill")];
    let unknown = |write: &weir_analysis::effects::Write, column: usize| match &write.operation {
        weir_analysis::effects::Operation::Insert { values, .. } => {
            matches!(effects.terms.get(values[column]), weir_analysis::effects::Term::Unknown(_))
        }
        _ => false,
    };
    let inserts: Vec<_> = effects.writes.iter().filter(|write| write.is_insert()).collect();
    assert_eq!(inserts.len(), 20);
    assert!(!unknown(inserts[0], 1), "the first paths are followed by themselves");
    assert!(unknown(inserts[19], 1));
    assert!(
        inserts.iter().all(|write| !unknown(write, 0) && !unknown(write, 2)),
        "what it leaves alone is known"
    );
}

/// Triggers that look whether a column has changed, in an IF and in WHEN.
const WATCHED: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int, note text);
    CREATE TABLE raised (id int PRIMARY KEY);
    CREATE TABLE changed (id int PRIMARY KEY);
    CREATE TABLE always (id int PRIMARY KEY);
    CREATE FUNCTION in_if() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.id > 0 AND NEW.n > OLD.n THEN
            INSERT INTO raised VALUES (NEW.id);
        ELSIF NEW.n <> OLD.n OR NEW.n IS DISTINCT FROM OLD.n THEN
            INSERT INTO changed VALUES (NEW.id);
        ELSE
            INSERT INTO always VALUES (NEW.id);
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER a AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION in_if();
    CREATE FUNCTION in_when() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO changed VALUES (NEW.id); RETURN NEW; END $$;
    CREATE TRIGGER b AFTER UPDATE ON t FOR EACH ROW WHEN (NEW.n IS DISTINCT FROM OLD.n) EXECUTE FUNCTION in_when();";

fn written_by(statement: &str) -> BTreeSet<String> {
    let (app, analysis) = read(&format!(
        "{WATCHED} CREATE PROCEDURE p(p_id int, p_n int, p_note text) LANGUAGE plpgsql AS $$ BEGIN {statement} END $$;"
    ));
    written(&app, &analysis, "p")
}

#[test]
fn a_column_that_a_statement_leaves_alone_does_not_differ() {
    let left_alone = written_by("UPDATE t SET note = p_note WHERE id = p_id;");
    assert_eq!(left_alone, ["always", "t"].map(str::to_owned).into());
    let every = ["always", "changed", "raised", "t"].map(str::to_owned).into();
    assert_eq!(written_by("UPDATE t SET n = n + 1 WHERE id = p_id;"), every);
    assert_eq!(written_by("UPDATE t SET n = p_n WHERE id = p_id;"), every);
}

/// DO UPDATE may find other values than the statement would have inserted, even where those are NULL.
#[test]
fn an_upsert_may_change_every_column() {
    let upsert =
        written_by("INSERT INTO t VALUES (p_id, NULL, p_note) ON CONFLICT (id) DO UPDATE SET n = NULL;");
    assert_eq!(upsert, ["always", "changed", "raised", "t"].map(str::to_owned).into());
}
