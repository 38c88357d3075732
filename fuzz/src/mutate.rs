//! Damage to a text: bytes, tokens, lines, and words that readers look for.

pub use weir_fuzz::chance::Chance;

use crate::nesting::{self, Place};

/// A place in the text where a character begins.
fn place(text: &str, chance: &mut Chance) -> usize {
    let mut at = chance.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

const WORDS: [&str; 96] = [
    "SELECT",
    "FROM",
    "WHERE",
    "INSERT INTO",
    "UPDATE",
    "DELETE FROM",
    "VALUES",
    "SET",
    "RETURNING",
    "ON CONFLICT",
    "DO NOTHING",
    "DO UPDATE SET",
    "GROUP BY",
    "HAVING",
    "ORDER BY 1",
    "LIMIT",
    "OFFSET",
    "UNION ALL",
    "EXCEPT",
    "WITH RECURSIVE x AS",
    "EXISTS",
    "NOT",
    "NULL",
    "IS NULL",
    "IS DISTINCT FROM",
    "IN",
    "BETWEEN",
    "LIKE",
    "ANY",
    "CASE WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "::numeric(1000,999)",
    "::text[]",
    "ARRAY[",
    "]",
    "(",
    ")",
    ",",
    ";",
    ";;",
    "$$",
    "$a$",
    "'",
    "\"",
    "E'\\",
    "U&'\\",
    "--",
    "/*",
    "*/",
    "$1",
    "$0",
    "$99999999999",
    ":name",
    "@x",
    ".",
    "..",
    "*",
    "=",
    "<>",
    "||",
    "->>",
    "@>",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "1e309",
    "0.0000000000000001",
    "'infinity'::timestamp",
    "interval '1000000 years'",
    "nextval('s')",
    "count(*)",
    "sum(a)",
    "max(a) OVER ()",
    "now()",
    "random()",
    "BEGIN",
    "DECLARE",
    "IF",
    "ELSIF",
    "LOOP",
    "WHILE",
    "FOR r IN",
    "EXIT",
    "RETURN",
    "RAISE EXCEPTION",
    "EXCEPTION WHEN OTHERS THEN",
    "EXECUTE",
    "PERFORM",
    "GET DIAGNOSTICS",
    "COMMENT ON TABLE t IS 'weir: assert a check (",
    "CREATE ASSERTION a CHECK (",
    "-- transaction: t(a, b int) serializable\n",
    "é\u{0}\u{feff}",
];

/// Damages the text once or some times. `other` is where pieces come from.
pub fn damage(text: &str, other: &str, chance: &mut Chance) -> String {
    let mut text = text.to_owned();
    for _ in 0..1 + chance.below(4) {
        text = once(&text, other, chance);
    }
    text
}

fn once(text: &str, other: &str, chance: &mut Chance) -> String {
    match chance.below(12) {
        0 => bytes(text, chance),
        1 => text[..place(text, chance)].to_owned(),
        2 => text[place(text, chance)..].to_owned(),
        3 | 4 => insert(text, chance.pick::<&str>(&WORDS), chance),
        5 => {
            let (from, to) = range(other, chance);
            insert(text, &other[from..to], chance)
        }
        6 => {
            let (from, to) = range(text, chance);
            format!("{}{}", &text[..from], &text[to..])
        }
        7 => {
            let (from, to) = range(text, chance);
            let times = 1 + chance.below(4);
            format!("{}{}{}", &text[..from], text[from..to].repeat(times), &text[to..])
        }
        8 => exchange_words(text, other, chance),
        9 => lines(text, chance),
        10 => nest(text, chance),
        _ => exchange_words(text, text, chance),
    }
}

fn insert(text: &str, what: &str, chance: &mut Chance) -> String {
    let at = place(text, chance);
    format!("{} {what} {}", &text[..at], &text[at..])
}

fn range(text: &str, chance: &mut Chance) -> (usize, usize) {
    let (a, b) = (place(text, chance), place(text, chance));
    // Short ones are more interesting than halves of the text.
    let end = b.min(a + 200).max(a);
    let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    (a, end)
}

/// As they may arrive from a file: what is no UTF-8 becomes marks, as the readers are given text.
fn bytes(text: &str, chance: &mut Chance) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + chance.below(8) {
        if bytes.is_empty() {
            break;
        }
        let at = chance.below(bytes.len());
        bytes[at] = match chance.below(3) {
            0 => bytes[at] ^ 1 << chance.below(8),
            1 => chance.below(256) as u8,
            _ => *chance.pick(b"()[]{},;.'\"$\\-*/0\n"),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn words(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (c.is_alphanumeric() || c == '_', start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    found.extend(start.map(|from| (from, text.len())));
    found
}

/// A deep construct, where the grammar takes it if it can be told.
fn nest(text: &str, chance: &mut Chance) -> String {
    let (place, deep) = nesting::deep(chance);
    let is_place = |word: &str| match place {
        Place::Number => word.bytes().all(|byte| byte.is_ascii_digit()),
        Place::Block => word == "BEGIN",
        Place::Anywhere => false,
    };
    let places: Vec<(usize, usize)> =
        words(text).into_iter().filter(|&(start, end)| is_place(&text[start..end])).collect();
    if places.is_empty() {
        return insert(text, &deep, chance);
    }
    let (start, end) = *chance.pick(&places);
    let before = if matches!(place, Place::Block) { end } else { start };
    format!("{} {deep} {}", &text[..before], &text[end..])
}

/// A word of the text becomes a word of the other.
fn exchange_words(text: &str, other: &str, chance: &mut Chance) -> String {
    let (own, others) = (words(text), words(other));
    if own.is_empty() || others.is_empty() {
        return text.to_owned();
    }
    let ((from, to), (start, end)) = (*chance.pick(&own), *chance.pick(&others));
    format!("{}{}{}", &text[..from], &other[start..end], &text[to..])
}

/// Two lines change places.
fn lines(text: &str, chance: &mut Chance) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.len() > 1 {
        let (a, b) = (chance.below(lines.len()), chance.below(lines.len()));
        lines.swap(a, b);
    }
    lines.join("\n")
}
