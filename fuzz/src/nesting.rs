//! Deeply nested constructs, to test recursion limits.

use crate::mutate::Chance;

/// Opening, innermost and closing text.
type Form = (&'static str, &'static str, &'static str);

/// In the place of a number.
const EXPRESSIONS: [Form; 15] = [
    ("(", "1", ")"),
    ("(SELECT ", "1", ")"),
    ("- ", "1", ""),
    ("1 + ", "1", ""),
    ("", "1", " + 1"),
    ("CASE WHEN true THEN ", "1", " END"),
    ("coalesce(1, ", "1", ")"),
    ("abs(", "1", ")"),
    ("", "1", "::integer"),
    ("CAST(", "1", " AS integer)"),
    ("nullif(", "1", ", 2)"),
    ("(SELECT max(x) FROM (SELECT ", "1", " AS x) y)"),
    ("greatest(1, CASE WHEN NOT (true AND (false OR 1 < ", "1", ")) THEN 1 END)"),
    ("(SELECT 1 UNION (SELECT ", "1", ") LIMIT 1)"),
    ("(WITH x AS (SELECT 1) SELECT ", "1", " FROM x)"),
];

/// Behind BEGIN.
const STATEMENTS: [Form; 8] = [
    ("BEGIN ", "NULL;", " END;"),
    ("IF true THEN ", "NULL;", " END IF;"),
    ("LOOP ", "EXIT;", " END LOOP;"),
    ("BEGIN ", "NULL;", " EXCEPTION WHEN OTHERS THEN NULL; END;"),
    ("IF true THEN NULL; ELSE ", "NULL;", " END IF;"),
    ("CASE WHEN true THEN ", "NULL;", " END CASE;"),
    ("FOR i IN 1..2 LOOP ", "NULL;", " END LOOP;"),
    ("IF true THEN NULL; ELSIF true THEN NULL; END IF; ", "NULL;", ""),
];

/// Wherever.
const OTHERS: [Form; 15] = [
    ("SELECT * FROM (", "SELECT 1", ") x"),
    ("EXISTS (SELECT 1 WHERE ", "true", ")"),
    ("NOT ", "true", ""),
    ("", "'a'", " || 'a'"),
    ("(a OR b AND ", "c", ")"),
    ("ARRAY[", "1", "]"),
    ("", "a", "[1]"),
    ("WITH x AS (", "SELECT 1", ") SELECT * FROM x"),
    ("", "SELECT 1", " UNION ALL SELECT 1"),
    ("t JOIN (", "t", ") ON true"),
    ("", "FROM t", " CROSS JOIN t"),
    ("/* ", "", " */"),
    ("row(", "1", ")"),
    ("{\"a\":[", "1", "]}"),
    ("a.", "b", ""),
];

/// Where a deep construct is to go.
pub enum Place {
    Number,
    Block,
    Anywhere,
}

pub fn deep(chance: &mut Chance) -> (Place, String) {
    let (place, (open, middle, close)) = match chance.below(4) {
        0 | 1 => (Place::Number, *chance.pick::<Form>(&EXPRESSIONS)),
        2 => (Place::Block, *chance.pick::<Form>(&STATEMENTS)),
        _ => (Place::Anywhere, *chance.pick::<Form>(&OTHERS)),
    };
    let depth = *chance.pick(&DEPTHS);
    (place, nested((open, middle, close), depth))
}

const DEPTHS: [usize; 8] = [5, 10, 20, 40, 90, 300, 2_000, 20_000];

fn nested((open, middle, close): Form, depth: usize) -> String {
    format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
}

/// The forms that have a place of their own, each at every depth and in every place where it may stand; `None`
/// behind the last of them.
pub fn systematic(number: u64) -> Option<String> {
    let number = usize::try_from(number).ok()?;
    let depth = *DEPTHS.get(number % DEPTHS.len())?;
    let form = number / DEPTHS.len();
    let (expression, statement) = match EXPRESSIONS.get(form) {
        Some(form) => (nested(*form, depth), "NULL;".to_owned()),
        None => ("1".to_owned(), nested(*STATEMENTS.get(form - EXPRESSIONS.len())?, depth)),
    };
    Some(format!(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer DEFAULT {expression} CHECK (a > {expression}));
         CREATE INDEX i ON t ((a + {expression}));
         CREATE VIEW v AS SELECT {expression} AS x FROM t WHERE a = {expression};
         CREATE PROCEDURE p(n integer) LANGUAGE plpgsql AS $$
         DECLARE x integer := {expression}; i integer;
         BEGIN
           UPDATE t SET a = a + {expression} WHERE id = {expression};
           IF x > {expression} THEN {statement} END IF;
           x := {expression};
           {statement}
         END $$;
         CREATE PROCEDURE q() LANGUAGE sql AS $$ INSERT INTO t VALUES ({expression}, 1); $$;
         CREATE ASSERTION s CHECK (NOT EXISTS (SELECT 1 FROM t WHERE a < {expression}));\n"
    ))
}
