//! The table, the procedures and the rows of the workload (cat-theorem.txt §4.1), as SQL.

use std::fmt::Write as _;

/// How a write changes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `v + 1`: increments commute.
    Increment,
    /// A read-modify-write that does not commute with others.
    Modify,
}

/// So that values stay small however often they are modified.
const MODULUS: i64 = 1_000_003;

impl Change {
    /// The new value, as SQL.
    pub fn sql(self) -> String {
        match self {
            Change::Increment => "v + 1".to_owned(),
            Change::Modify => format!("(v * 3 + 1) % {MODULUS}"),
        }
    }

    /// The value after so many more writes: what shows that no write was lost.
    pub fn applied(self, value: i64, writes: u64) -> i64 {
        match self {
            Change::Increment => value + writes as i64,
            Change::Modify => (0..writes).fold(value, |value, _| (value * 3 + 1) % MODULUS),
        }
    }

    /// As settings and procedures are called.
    pub fn name(self) -> &'static str {
        match self {
            Change::Increment => "increment",
            Change::Modify => "modify",
        }
    }

    pub fn by_name(name: &str) -> Option<Change> {
        [Change::Increment, Change::Modify].into_iter().find(|change| change.name() == name)
    }
}

/// Lengths of transactions that there are procedures for.
pub const LENGTHS: [usize; 9] = [1, 2, 4, 6, 8, 10, 12, 14, 16];

pub const TABLE: &str = "CREATE TABLE kv (k integer PRIMARY KEY, v bigint NOT NULL)";

/// Name of the procedure that writes so many rows.
pub fn writer(change: Change, length: usize) -> String {
    format!("{}_{length}", change.name())
}

/// Name of the function that reads so many rows.
pub fn reader(length: usize) -> String {
    format!("look_{length}")
}

fn numbered(length: usize, what: impl Fn(usize) -> String, between: &str) -> String {
    (1..=length).map(what).collect::<Vec<_>>().join(between)
}

/// Placeholders of a call.
pub fn placeholders(length: usize) -> String {
    numbered(length, |at| format!("${at}"), ", ")
}

fn define_procedure(text: &mut String, name: &str, parameters: &str, statements: &str) {
    let _ = writeln!(text, "CREATE PROCEDURE {name}({parameters}) LANGUAGE sql AS $$\n{statements}$$;");
}

fn define_function(text: &mut String, head: &str, query: &str) {
    let _ = writeln!(text, "CREATE FUNCTION {head} LANGUAGE sql AS $$ {query} $$;");
}

/// The procedures for transactions of these lengths. Weir wants those declared serializable that do not commute.
pub fn procedures(change: Change, lengths: &[usize]) -> String {
    let mut text = String::new();
    for length in lengths.iter().copied() {
        let parameters = numbered(length, |at| format!("k{at} integer"), ", ");
        let update = |at: usize| format!("  UPDATE kv SET v = {} WHERE k = k{at};\n", change.sql());
        let (writer, reader) = (writer(change, length), reader(length));
        define_procedure(&mut text, &writer, &parameters, &numbered(length, update, ""));
        if change == Change::Modify {
            let _ = writeln!(
                text,
                "ALTER PROCEDURE {writer} SET default_transaction_isolation = 'serializable';"
            );
        }
        let keys = numbered(length, |at| format!("k{at}"), ", ");
        let query = format!("SELECT sum(v) FROM kv WHERE k IN ({keys})");
        define_function(&mut text, &format!("{reader}({parameters}) RETURNS numeric"), &query);
    }
    text
}

/// The procedures of YCSB for transactions of these lengths.
pub fn ycsb_procedures(lengths: &[usize]) -> String {
    let mut text = String::new();
    for length in lengths.iter().copied() {
        let parameters = numbered(length, |at| format!("k{at} integer"), ", ");
        let update = |at: usize| {
            format!("  UPDATE usertable SET field0 = value, writes = writes + 1 WHERE ycsb_key = k{at};\n")
        };
        let (name, written) = (format!("put_{length}"), format!("value text, {parameters}"));
        define_procedure(&mut text, &name, &written, &numbered(length, update, ""));
        let keys = numbered(length, |at| format!("k{at}"), ", ");
        let query = format!("SELECT max(field0) FROM usertable WHERE ycsb_key IN ({keys})");
        define_function(&mut text, &format!("get_{length}({parameters}) RETURNS text"), &query);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procedures_name_each_key() {
        let text = procedures(Change::Modify, &[2]);
        assert_eq!(
            text,
            "CREATE PROCEDURE modify_2(k1 integer, k2 integer) LANGUAGE sql AS $$\n  \
             UPDATE kv SET v = (v * 3 + 1) % 1000003 WHERE k = k1;\n  \
             UPDATE kv SET v = (v * 3 + 1) % 1000003 WHERE k = k2;\n$$;\n\
             ALTER PROCEDURE modify_2 SET default_transaction_isolation = 'serializable';\n\
             CREATE FUNCTION look_2(k1 integer, k2 integer) RETURNS numeric LANGUAGE sql AS \
             $$ SELECT sum(v) FROM kv WHERE k IN (k1, k2) $$;\n"
        );
        assert_eq!(placeholders(3), "$1, $2, $3");
    }

    #[test]
    fn a_value_counts_its_writes() {
        assert_eq!(Change::Increment.applied(0, 7), 7);
        assert_eq!([0, 1, 2, 3].map(|writes| Change::Modify.applied(0, writes)), [0, 1, 4, 13]);
    }
}
