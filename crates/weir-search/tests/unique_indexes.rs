//! Unique indexes over expressions and over some of the rows, which the engine does not keep, are searched all the same:
//! they must hold in each branch, and a merge may break them.

use weir_search::Limits;
use weir_sql::{Reading, Sources};

const SCHEMA: &str = "
    CREATE TABLE person (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, mail text, team integer,
                         active boolean NOT NULL, n integer NOT NULL DEFAULT 0 CHECK (n >= 0));
    CREATE PROCEDURE add(m text, t integer) LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO person (mail, team, active) VALUES (m, t, true); END; $$;
    CREATE PROCEDURE add_idle(m text, t integer) LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO person (mail, team, active) VALUES (m, t, false); END; $$;
    CREATE PROCEDURE wake(who bigint) LANGUAGE plpgsql AS $$
    BEGIN UPDATE person SET active = true WHERE id = who; END; $$;
    CREATE PROCEDURE lower_n(who bigint) LANGUAGE plpgsql AS $$
    BEGIN UPDATE person SET n = n - 1 WHERE id = who; END; $$;
";

/// Which procedures have a witness against the index, and whether another verdict on the table has one.
#[track_caller]
fn check(index: &str, expect: &[&str]) {
    let mut sources = Sources::default();
    sources.add("schema.sql", format!("{SCHEMA}CREATE UNIQUE INDEX claim ON person {index};"));
    let app =
        weir_sql::load_with(sources, Reading::Tolerant).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    let mut analysis = weir_analysis::analyze(&app);
    weir_search::attach(&app, &mut analysis, Limits::default());
    let witnessed = |invariant: &str| {
        let of = analysis.verdicts.iter().filter(|verdict| {
            verdict.witness.is_some() && analysis.invariants[verdict.invariant.0 as usize].name == invariant
        });
        of.map(|verdict| app.procedures[verdict.transaction].name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(witnessed("claim"), expect, "{index}");
    assert_eq!(
        witnessed("person_n_check"),
        ["lower_n"],
        "{index}: the table is searched for everything else"
    );
}

#[test]
fn each_index_has_its_witnesses() {
    check("(lower(mail))", &["add", "add_idle"]);
    check("(mail) WHERE active", &["add", "wake"]);
    check("(lower(mail), team) WHERE active", &["add", "wake"]);
    check("((team + 1)) NULLS NOT DISTINCT WHERE active", &["add", "wake"]);
}
