//! Statements whose parts are within each other, to a depth that users write, to one that programs write, and far beyond: the first are
//! answered as by PostgreSQL, the last are refused, and nobody else is harmed.

use std::time::Instant;

use postgres::{Client as Driver, NoTls, SimpleQueryMessage};
use weir_bench::postgres::Server as Postgres;

use crate::alone::Alone;

/// Prefix, text repeated before the middle, the middle, text repeated after it, and suffix.
type Form = [&'static str; 5];

const FORMS: [Form; 22] = [
    ["SELECT a", "", "", " + a", " FROM one"],
    ["SELECT length(t", "", "", " || 'b'", ") FROM one"],
    ["SELECT a", "", "", " + 1 - 1", " FROM one WHERE a > 0"],
    ["SELECT ", "(", "1", ")", ""],
    ["SELECT ", "NOT (", "true", ")", ""],
    ["SELECT ", "- ", "1", "", ""],
    ["SELECT 1", "", "", "::int", ""],
    ["SELECT ", "CASE WHEN a = 1 THEN ", "a", " END", " FROM one"],
    ["SELECT ", "coalesce(", "a", ", 2)", " FROM one"],
    ["SELECT ", "greatest(1, ", "a", ")", " FROM one"],
    ["SELECT ", "abs(", "a", ")", " FROM one"],
    ["SELECT ", "(SELECT ", "1", ")", ""],
    ["SELECT count(*) FROM (SELECT 1", "", "", " UNION ALL SELECT 1", ") s"],
    ["SELECT 1", "", "", " INTERSECT SELECT 1", ""],
    ["SELECT count(*) FROM one WHERE ", "a IN (SELECT a FROM one WHERE ", "true", ")", ""],
    ["SELECT count(*) FROM one WHERE ", "EXISTS (SELECT 1 FROM one WHERE ", "true", ")", ""],
    ["SELECT count(*) FROM one o", "", "", " CROSS JOIN (SELECT 1) s", ""],
    ["SELECT count(*) FROM one WHERE a = 0", "", "", " OR a = 1", ""],
    ["SELECT '", "[", "1", "]", "'::jsonb IS NULL"],
    ["UPDATE one SET a = a", "", "", " + 0", " WHERE a = 1 RETURNING a"],
    ["DO $$ DECLARE y int := 1; BEGIN y := y", "", "", " + 0", "; END $$"],
    ["DO $$ BEGIN ", "IF true THEN ", "NULL;", " END IF;", " END $$"],
];

fn nested([before, open, middle, close, behind]: Form, depth: usize) -> String {
    format!("{before}{}{middle}{}{behind}", open.repeat(depth), close.repeat(depth))
}

/// The first value, or the SQLSTATE.
fn told(driver: &mut Driver, text: &str) -> Result<String, String> {
    let answers = driver.simple_query(text);
    let answers = answers
        .map_err(|error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()))?;
    let row = answers.iter().find_map(|one| match one {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    });
    Ok(row.unwrap_or_default())
}

#[test]
fn what_nests_is_answered_or_refused_and_harms_nobody() {
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let mut theirs = Driver::connect(&postgres.connection_string(), NoTls).unwrap();
    let weir = Alone::start(1);
    let mut ours = weir.driver();
    for driver in [&mut theirs, &mut ours] {
        driver
            .batch_execute("CREATE TABLE one (a int PRIMARY KEY, t text); INSERT INTO one VALUES (1, 'x')")
            .unwrap();
    }
    for form in FORMS {
        for depth in [20, 30] {
            let text = nested(form, depth);
            assert_eq!(told(&mut ours, &text), told(&mut theirs, &text), "{depth} deep: {text}");
        }
        // Weir refuses some that PostgreSQL has the stack for; it gives no other answer.
        for depth in [100, 400, 2_000, 20_000] {
            let text = nested(form, depth);
            let refused = |state: &String| ["54001", "42601", "54000"].contains(&state.as_str());
            match told(&mut ours, &text) {
                Err(state) if refused(&state) => {}
                answer => assert_eq!(answer, told(&mut theirs, &text), "{depth} deep: {}", nested(form, 2)),
            }
            assert_eq!(
                told(&mut weir.driver(), "SELECT a FROM one"),
                Ok("1".to_owned()),
                "{}",
                nested(form, 2)
            );
        }
    }
    // A list of alternatives takes as long as it is long: four times as many, never nine times as long.
    let mut took = |count: usize| {
        let alternatives: Vec<String> = (0..count).map(|at| format!("a = {at}")).collect();
        let begun = Instant::now();
        let text = format!("SELECT count(*) FROM one WHERE {}", alternatives.join(" OR "));
        assert_eq!(told(&mut ours, &text), Ok("1".to_owned()));
        begun.elapsed()
    };
    let (few, many) =
        ([2_500; 3].map(&mut took).into_iter().min(), [10_000; 3].map(&mut took).into_iter().min());
    assert!(many < few.map(|few| few * 9), "{few:?}, {many:?}");
    let sum = nested(FORMS[0], 900);
    assert_eq!(told(&mut ours, &sum), Ok("901".to_owned()), "what programs write");
}
