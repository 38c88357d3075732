//! Kinds of statements, as the front tells them apart: the beginning or the end of a transaction, a setting, a call, a statement to be matched, or something that
//! cannot be carried.

use weir_sql::normal::tokens;

use crate::application::unquoted;

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    Parameter(usize),
    /// None: NULL.
    Constant(Option<String>),
}

/// The kind of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Empty,
    /// With the statement that begins the transaction at the server.
    Begin(String),
    Commit,
    RollBack,
    /// SAVEPOINT, RELEASE, ROLLBACK TO: of the transaction that is open.
    Savepoint,
    /// A setting of the session: its statement goes before each transaction.
    Set,
    /// Settings of the session go back to those of its startup.
    ResetAll,
    /// The same, and its prepared statements are forgotten.
    Discard,
    /// It would change what all transactions have: the answer is as if it had.
    Ignored(&'static str),
    /// It touches nothing of the application.
    Neutral,
    /// It names a transaction of the application, if there is one of that name.
    Call(String, Vec<Argument>),
    /// It is matched.
    Ordinary,
    /// COPY FROM STDIN. Its rows come behind it; the number of its columns, if it names them.
    CopyIn {
        columns: usize,
        is_binary: bool,
    },
    /// It changes the schema: allowed in the maintenance mode only.
    Definition,
    /// A prepared statement of the session is forgotten. None: all are.
    Deallocate(Option<String>),
    Refused(&'static str),
}

/// A statement, classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub text: String,
    /// The part of it that is matched: the query of a cursor, or of EXPLAIN ANALYZE, for instance.
    pub matched: String,
    pub kind: Kind,
}

/// Functions that lock until the session ends.
const SESSION_LOCKS: [&str; 6] = [
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
];

/// Statements of a text, cut at their semicolons.
pub fn split(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut end) = (None, 0);
    for token in tokens(text) {
        let at = token.as_ptr() as usize - text.as_ptr() as usize;
        if token == ";" {
            if let Some(start) = start.take() {
                pieces.push(&text[start..end]);
            }
            continue;
        }
        start.get_or_insert(at);
        end = at + token.len();
    }
    if let Some(start) = start {
        pieces.push(&text[start..end]);
    }
    pieces
}

impl Statement {
    pub fn of(text: &str) -> Statement {
        let inner = inner(text);
        Statement { text: text.to_owned(), matched: inner.unwrap_or(text).to_owned(), kind: kind_of(text) }
    }
}

/// The query within a statement that runs it.
fn inner(text: &str) -> Option<&str> {
    let tokens = tokens(text);
    let is =
        |place: usize, word: &str| tokens.get(place).is_some_and(|token| token.eq_ignore_ascii_case(word));
    let place = match () {
        () if is(0, "declare") => 1 + (0..tokens.len()).find(|place| is(*place, "for"))?,
        () if is(0, "explain") && is(1, "(") => 1 + (0..tokens.len()).find(|place| is(*place, ")"))?,
        () if is(0, "explain") => {
            (1..tokens.len()).find(|place| !is(*place, "analyze") && !is(*place, "verbose"))?
        }
        () => return None,
    };
    let from = tokens.get(place)?.as_ptr() as usize - text.as_ptr() as usize;
    Some(&text[from..])
}

fn kind_of(text: &str) -> Kind {
    let tokens = tokens(text);
    let words: Vec<String> = tokens.iter().map(|token| token.to_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != ";").collect();
    let Some(first) = words.first() else { return Kind::Empty };
    let second = words.get(1).copied().unwrap_or_default();
    match (*first, second) {
        ("begin", _) | ("start", "transaction") => Kind::Begin(begin(&words)),
        ("commit" | "rollback", "prepared") => Kind::Refused("two-phase commit (PREPARE TRANSACTION)"),
        ("commit" | "end", _) if words.contains(&"chain") && !words.contains(&"no") => {
            Kind::Refused("COMMIT AND CHAIN")
        }
        ("commit" | "end", _) => Kind::Commit,
        ("rollback", _) if words.contains(&"to") => Kind::Savepoint,
        ("rollback" | "abort", _) => Kind::RollBack,
        ("savepoint" | "release", _) => Kind::Savepoint,
        ("set", _) => set(&words),
        ("reset", "all") => Kind::ResetAll,
        ("reset", _) => Kind::Set,
        ("discard", "all") => Kind::Discard,
        // Plans, sequences and temporary tables are the pool's.
        ("discard", _) => Kind::Ignored("DISCARD"),
        ("show", _) => Kind::Neutral,
        // Nothing of the query runs.
        ("explain", _) if !words.contains(&"analyze") => Kind::Neutral,
        ("unlisten", _) => Kind::Ignored("UNLISTEN"),
        ("listen" | "notify", _) => Kind::Refused("LISTEN and NOTIFY"),
        ("prepare", "transaction") => Kind::Refused("two-phase commit (PREPARE TRANSACTION)"),
        ("prepare" | "execute", _) => Kind::Refused("PREPARE and EXECUTE as statements"),
        ("deallocate", _) => deallocate(&tokens, &words),
        ("declare", _) if words.windows(2).any(|pair| pair == ["with", "hold"]) => {
            Kind::Refused("cursors WITH HOLD")
        }
        ("create", "temp" | "temporary") | ("create", "local" | "global") => {
            Kind::Refused("temporary tables")
        }
        ("copy", _) if words.contains(&"stdin") => copy_in(&words),
        ("lock", _) => Kind::Refused("LOCK TABLE"),
        ("load", _) => Kind::Refused("LOAD"),
        ("fetch" | "move" | "close", _) => Kind::Savepoint,
        (
            "create" | "alter" | "drop" | "truncate" | "grant" | "revoke" | "comment" | "reindex" | "cluster"
            | "vacuum" | "analyze" | "refresh" | "security" | "import" | "reassign" | "checkpoint",
            _,
        ) => Kind::Definition,
        ("select" | "with", _)
            if words.windows(2).any(|pair| matches!(pair, ["into", "temp" | "temporary"])) =>
        {
            Kind::Refused("temporary tables")
        }
        // SELECT … INTO makes a table.
        ("select" | "with", _)
            if words.windows(2).any(|pair| pair[1] == "into" && !matches!(pair[0], "insert" | "merge")) =>
        {
            Kind::Definition
        }
        _ if words.iter().any(|word| SESSION_LOCKS.contains(word)) => Kind::Refused("session advisory locks"),
        _ if words.contains(&"set_config") => set_config(&tokens, &words),
        _ => match call(&tokens, &words) {
            Some((name, arguments)) => Kind::Call(name, arguments),
            None => Kind::Ordinary,
        },
    }
}

/// Everything runs SERIALIZABLE, so a level that the client names is met.
fn begin(words: &[&str]) -> String {
    let mut begin = "BEGIN ISOLATION LEVEL SERIALIZABLE".to_owned();
    for pair in words.windows(2) {
        match pair {
            ["read", "only"] => begin.push_str(" READ ONLY"),
            ["not", "deferrable"] => begin.push_str(" NOT DEFERRABLE"),
            [_, "deferrable"] => begin.push_str(" DEFERRABLE"),
            _ => {}
        }
    }
    begin
}

fn set(words: &[&str]) -> Kind {
    let skipped = words.iter().skip(1).copied().find(|word| !matches!(*word, "session" | "local"));
    match skipped.unwrap_or_default() {
        "transaction" if words.contains(&"isolation") || words.contains(&"snapshot") => Kind::Ignored("SET"),
        "transaction" => Kind::Savepoint,
        "characteristics" | "default_transaction_isolation" | "transaction_isolation" => Kind::Ignored("SET"),
        "role" | "authorization" => Kind::Refused("SET ROLE and SET SESSION AUTHORIZATION"),
        "session_replication_role" => Kind::Refused("SET session_replication_role"),
        "synchronous_commit" => Kind::Ignored("SET"),
        name if name.starts_with("weir_conveyor") => Kind::Refused("settings of weir conveyor"),
        _ if words.get(1) == Some(&"local") => Kind::Savepoint,
        _ => Kind::Set,
    }
}

/// `SELECT set_config('name', 'value', false)` is a SET, and with `true` it is a SET LOCAL. In other forms nobody knows what it sets.
fn set_config(tokens: &[&str], words: &[&str]) -> Kind {
    const FORM: &str = "set_config() other than SELECT set_config('name', 'value', true or false)";
    let (name, value, is_local) = match (words, tokens) {
        (["select", "set_config", "(", _, ",", _, ",", is_local, ")"], [_, _, _, name, _, value, ..]) => {
            (unquoted(name), value, *is_local)
        }
        _ => return Kind::Refused(FORM),
    };
    let is_text = |token: &str| token.starts_with('\'');
    if !is_text(value) || !is_text(tokens[3]) {
        return Kind::Refused(FORM);
    }
    let name = name.to_lowercase();
    match (set(&["set", &name]), is_local) {
        (Kind::Set, "true") => Kind::Savepoint,
        (Kind::Set, "false") => Kind::Set,
        (Kind::Refused(what), _) => Kind::Refused(what),
        _ => Kind::Refused("set_config() of the isolation level or of durability"),
    }
}

/// `COPY table (a, b) FROM STDIN …`.
fn copy_in(words: &[&str]) -> Kind {
    let from = words.iter().position(|word| *word == "from").unwrap_or(words.len());
    let named = words[..from].iter().position(|word| *word == "(");
    let columns = named.map_or(0, |open| 1 + words[open..from].iter().filter(|word| **word == ",").count());
    Kind::CopyIn { columns, is_binary: words[from..].contains(&"binary") }
}

fn deallocate(tokens: &[&str], words: &[&str]) -> Kind {
    let name = tokens.iter().zip(words).skip(1).find(|(_, word)| **word != "prepare");
    match name {
        Some((_, &"all")) | None => Kind::Deallocate(None),
        Some((token, word)) => match token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => Kind::Deallocate(Some(quoted.to_owned())),
            None => Kind::Deallocate(Some((*word).to_owned())),
        },
    }
}

/// `CALL f(…)`, `SELECT f(…)` or `SELECT * FROM f(…)`, with parameters and constants only.
fn call(tokens: &[&str], words: &[&str]) -> Option<(String, Vec<Argument>)> {
    let begin = match words {
        ["call", ..] => 1,
        ["select", "*", "from", ..] => 3,
        ["select", ..] => 1,
        _ => return None,
    };
    let open = words.iter().position(|word| *word == "(").filter(|open| *open > begin)?;
    let name = match &words[begin..open] {
        [name] | ["public", ".", name] => (*name).to_owned(),
        _ => return None,
    };
    let close = words.iter().rposition(|word| *word == ")")?;
    let is_over = matches!(words[close + 1..], [] | ["as", _] | [_]);
    if !is_over {
        return None;
    }
    let (mut arguments, mut at) = (Vec::new(), open + 1);
    while at < close {
        let (mut end, mut depth) = (at, 0_usize);
        while end < close && (depth > 0 || words[end] != ",") {
            match words[end] {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            end += 1;
        }
        arguments.push(argument(&tokens[at..end], &words[at..end])?);
        at = end + 1;
    }
    Some((name, arguments))
}

fn argument(tokens: &[&str], words: &[&str]) -> Option<Argument> {
    // JDBC writes a parameter as ('7'::int4) in the simple protocol.
    if let (["(", .., ")"], Some(last)) = (words, words.len().checked_sub(1)) {
        return argument(&tokens[1..last], &words[1..last]);
    }
    let cast = words.iter().position(|word| *word == "::").unwrap_or(words.len());
    match (&tokens[..cast], &words[..cast]) {
        (_, ["null"]) => Some(Argument::Constant(None)),
        (_, ["true"]) => Some(Argument::Constant(Some("t".to_owned()))),
        (_, ["false"]) => Some(Argument::Constant(Some("f".to_owned()))),
        (["-", number], _) => Some(Argument::Constant(Some(format!("-{number}")))),
        ([one], _) => match one.as_bytes() {
            [b'$', digit, ..] if digit.is_ascii_digit() => one[1..].parse().ok().map(Argument::Parameter),
            [b'\'' | b'0'..=b'9', ..] => Some(Argument::Constant(Some(unquoted(one)))),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a statement reads catalogs only, and calls no function of the application. None: it cannot be parsed. `is_own`: whether the
/// database has a function or a relation of that name that is not the server's own.
pub fn is_neutral(text: &str, is_own: impl Fn(&str) -> bool) -> Option<bool> {
    let parsed = pg_query::parse(text, 0).ok()?;
    let is_read = parsed.statement_types().iter().all(|kind| *kind == "SelectStmt");
    let is_catalog = |table: &String| {
        let is_named = table.starts_with("pg_catalog.") || table.starts_with("information_schema.");
        is_named || table.starts_with("pg_") && !is_own(table)
    };
    let calls_own = |function: &String| is_own(function.rsplit('.').next().unwrap_or(function));
    let writes = !parsed.dml_tables().is_empty() || !parsed.ddl_tables().is_empty();
    let calls = parsed.functions().iter().any(calls_own);
    Some(is_read && !writes && !calls && parsed.tables().iter().all(is_catalog))
}

/// Tables of a statement that reads, and calls no function of the application. None: it is another one, or cannot be parsed.
/// `is_own`: as for [`is_neutral`].
pub fn read_tables(text: &str, is_own: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let parsed = pg_query::parse(text, 0).ok()?;
    let is_read = parsed.statement_types().iter().all(|kind| *kind == "SelectStmt");
    let writes = !parsed.dml_tables().is_empty() || !parsed.ddl_tables().is_empty();
    let calls_own = |function: &String| is_own(function.rsplit('.').next().unwrap_or(function));
    let calls = parsed.functions().iter().any(calls_own);
    (is_read && !writes && !calls).then(|| parsed.tables())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        Statement::of(text).kind
    }

    #[test]
    fn statements_are_cut_at_their_semicolons() {
        let text = "begin; insert into t values (';');; select $$a;b$$ -- ;\n; commit";
        assert_eq!(split(text), ["begin", "insert into t values (';')", "select $$a;b$$", "commit"]);
        assert!(split(" ; -- nothing\n").is_empty());
    }

    #[test]
    fn a_transaction_is_serializable_whatever_its_client_says() {
        let begin = "BEGIN ISOLATION LEVEL SERIALIZABLE";
        assert_eq!(kind("begin"), Kind::Begin(begin.into()));
        assert_eq!(
            kind("START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY, NOT DEFERRABLE"),
            Kind::Begin(format!("{begin} READ ONLY NOT DEFERRABLE"))
        );
        assert_eq!(kind("set transaction isolation level read committed"), Kind::Ignored("SET"));
        assert_eq!(kind("SET default_transaction_isolation TO 'read committed'"), Kind::Ignored("SET"));
        assert_eq!(kind("set search_path to shop"), Kind::Set);
        assert_eq!(kind("SELECT set_config('TimeZone', 'UTC', false)"), Kind::Set);
        assert_eq!(kind("SELECT set_config('TimeZone', 'UTC', true)"), Kind::Savepoint);
        for text in [
            "SELECT set_config('default_transaction_isolation', 'read committed', false)",
            "SELECT set_config($1, 'UTC', false)",
            "SELECT a FROM t WHERE set_config('TimeZone', 'UTC', false) = a",
            "SELECT set_config('session_replication_role', 'replica', false)",
        ] {
            assert!(matches!(kind(text), Kind::Refused(_)), "{text}");
        }
    }

    #[test]
    fn a_call_names_its_transaction() {
        let number = |text: &str| Argument::Constant(Some(text.into()));
        let expected = Kind::Call("buy".into(), vec![number("7"), Argument::Parameter(2), number("it's")]);
        for text in [
            "CALL buy(7, $2, 'it''s')",
            "select buy(7,$2::int,'it''s')",
            "SELECT * FROM public.buy(7, $2, 'it''s') AS b",
            "select buy((('7'::int4)), ($2::numeric(12,2)), ('it''s'))",
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert_eq!(kind("SELECT buy(-7)"), Kind::Call("buy".into(), vec![number("-7")]));
        assert_eq!(kind("SELECT buy(a) FROM t"), Kind::Ordinary);
        assert_eq!(kind("SELECT buy(1) FROM t"), Kind::Ordinary);
    }

    #[test]
    fn the_query_of_a_cursor_is_matched() {
        let matched = |text: &str| Statement::of(text).matched;
        assert_eq!(matched("DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1"), "SELECT 1");
        assert_eq!(matched("EXPLAIN ANALYZE VERBOSE SELECT 1"), "SELECT 1");
        assert_eq!(matched("explain (analyze, costs off) SELECT 1"), "SELECT 1");
        assert_eq!(kind("EXPLAIN SELECT * FROM cart"), Kind::Neutral);
        assert_eq!(kind("EXPLAIN ANALYZE SELECT * FROM cart"), Kind::Ordinary);
    }

    #[test]
    fn what_cannot_be_carried_is_refused() {
        for text in [
            "LISTEN news",
            "CREATE TEMP TABLE t (a int)",
            "SELECT 1 AS a INTO TEMP t",
            "SELECT pg_advisory_lock(1)",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "PREPARE TRANSACTION 'x'",
            "SET session_replication_role = replica",
        ] {
            assert!(matches!(kind(text), Kind::Refused(_)), "{text}");
        }
        assert_eq!(kind("ALTER TABLE t ADD c int"), Kind::Definition);
        assert_eq!(kind("WITH a AS (SELECT 1) SELECT * INTO c FROM a"), Kind::Definition);
        assert_eq!(kind("WITH a AS (INSERT INTO t VALUES (1) RETURNING 1) SELECT * FROM a"), Kind::Ordinary);
        assert_eq!(kind("COPY t FROM STDIN"), Kind::CopyIn { columns: 0, is_binary: false });
        let binary = "copy s.t (a, \"b,\") from stdin (format binary)";
        assert_eq!(kind(binary), Kind::CopyIn { columns: 2, is_binary: true });
        assert!(!matches!(kind("SELECT pg_advisory_xact_lock(1)"), Kind::Refused(_)));
    }

    #[test]
    fn what_a_statement_reads_is_known_if_it_only_reads() {
        let tables = |text: &str| {
            let mut tables = read_tables(text, |name| name == "buy")?;
            tables.sort_unstable();
            Some(tables)
        };
        let known = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(tables("SELECT count(*) FROM public.a JOIN b USING (x)"), known(&["b", "public.a"]));
        assert_eq!(
            tables("WITH c AS (SELECT * FROM a) SELECT (SELECT max(x) FROM b) FROM c"),
            known(&["a", "b"])
        );
        for other in [
            "SELECT buy(x) FROM a",
            "WITH d AS (DELETE FROM a RETURNING 1) SELECT * FROM d",
            "UPDATE a SET x = 1",
            "SELEC 1",
        ] {
            assert_eq!(tables(other), None, "{other}");
        }
    }

    #[test]
    fn statements_about_catalogs_are_neutral() {
        let neutral = |text: &str| is_neutral(text, |name| name == "buy" || name == "pg_own");
        assert_eq!(neutral("SELECT 1, version()"), Some(true));
        assert_eq!(neutral("SELECT c.relname FROM pg_catalog.pg_class c, pg_namespace n"), Some(true));
        assert_eq!(neutral("SELECT buy(x) FROM pg_class"), Some(false));
        assert_eq!(neutral("SELECT * FROM cart"), Some(false));
        assert_eq!(neutral("WITH d AS (DELETE FROM cart RETURNING 1) SELECT * FROM d"), Some(false));
        assert_eq!(neutral("SELECT * FROM pg_own"), Some(false));
        assert_eq!(neutral("SELEC 1"), None);
    }
}
