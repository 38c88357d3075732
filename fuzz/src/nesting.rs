//! Constructs within themselves, as deep as whoever recurses over them will not like.

use crate::mutate::Chance;

/// What opens, what stands in the middle, and what closes.
const FORMS: [(&str, &str, &str); 30] = [
    ("(", "1", ")"),
    ("(SELECT ", "1", ")"),
    ("SELECT * FROM (", "SELECT 1", ") x"),
    ("EXISTS (SELECT 1 WHERE ", "true", ")"),
    ("NOT ", "true", ""),
    ("- ", "1", ""),
    ("1 + ", "1", ""),
    ("", "1", " + 1"),
    ("", "'a'", " || 'a'"),
    ("(a OR b AND ", "c", ")"),
    ("CASE WHEN true THEN ", "1", " END"),
    ("coalesce(1, ", "1", ")"),
    ("abs(", "1", ")"),
    ("ARRAY[", "1", "]"),
    ("", "1", "::integer"),
    ("CAST(", "1", " AS text)"),
    ("", "a", "[1]"),
    ("WITH x AS (", "SELECT 1", ") SELECT * FROM x"),
    ("", "SELECT 1", " UNION ALL SELECT 1"),
    ("(SELECT 1 UNION (", "SELECT 1", "))"),
    ("t JOIN (", "t", ") ON true"),
    ("", "FROM t", " CROSS JOIN t"),
    ("BEGIN ", "NULL;", " END;"),
    ("IF true THEN ", "NULL;", " END IF;"),
    ("LOOP ", "EXIT;", " END LOOP;"),
    ("<<a>> BEGIN ", "NULL;", " EXCEPTION WHEN OTHERS THEN NULL; END;"),
    ("/* ", "", " */"),
    ("row(", "1", ")"),
    ("{\"a\":[", "1", "]}"),
    ("a.", "b", ""),
];

pub fn deep(chance: &mut Chance) -> String {
    let (open, middle, close) = *chance.pick(&FORMS);
    let depth = *chance.pick(&[5, 20, 40, 90, 300, 2_000, 20_000]);
    format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
}
