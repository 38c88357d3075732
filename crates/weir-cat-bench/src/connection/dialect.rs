//! Differences between the databases' SQL, as far as the workloads have them.
//!
//! Statements are written as PostgreSQL takes them, with `$1` for the first parameter.

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    MySql,
    Sqlite,
}

impl Dialect {
    /// A statement as the database takes it, and for each of its placeholders the number of the parameter, from 0.
    pub fn statement(self, text: &str) -> (String, Vec<usize>) {
        let text = match self {
            Dialect::Postgres | Dialect::MySql => text.to_owned(),
            // Writers of a file are alone from their BEGIN.
            Dialect::Sqlite => text.replace(" FOR UPDATE", ""),
        };
        if self == Dialect::Postgres {
            let count = placeholders(&text).map(|(_, _, number)| number + 1).max().unwrap_or(0);
            return (text, (0..count).collect());
        }
        let (mut out, mut order, mut copied) = (String::with_capacity(text.len()), Vec::new(), 0);
        for (from, to, number) in placeholders(&text) {
            out.push_str(&text[copied..from]);
            out.push('?');
            order.push(number);
            copied = to;
        }
        out.push_str(&text[copied..]);
        (out, order)
    }
}

/// Begin, end and number (from 0) of each `$N` outside of strings.
fn placeholders(text: &str) -> impl Iterator<Item = (usize, usize, usize)> {
    let bytes = text.as_bytes();
    let (mut at, mut quoted) = (0, false);
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let from = at;
            at += 1;
            quoted ^= bytes[from] == b'\'';
            if quoted || bytes[from] != b'$' {
                continue;
            }
            let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = text[at..at + digits].parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            at += digits;
            if let Some(number) = number {
                return Some((from, at, number));
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_those_of_the_database() {
        let text = "UPDATE t SET a = $2 WHERE k = $1 AND b <> '$3 ''$4' AND c = $2";
        assert_eq!(Dialect::Postgres.statement(text), (text.to_owned(), vec![0, 1]));
        let (mysql, order) = Dialect::MySql.statement(text);
        assert_eq!(mysql, "UPDATE t SET a = ? WHERE k = ? AND b <> '$3 ''$4' AND c = ?");
        assert_eq!(order, [1, 0, 1]);
        let (sqlite, order) = Dialect::Sqlite.statement("SELECT v FROM kv WHERE k = $1 FOR UPDATE");
        assert_eq!((sqlite.as_str(), order), ("SELECT v FROM kv WHERE k = ?", vec![0]));
        assert_eq!(Dialect::MySql.statement("SELECT $$ $0").0, "SELECT $$ $0");
    }
}
