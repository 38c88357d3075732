//! Logs, and the transactions that they show.

use std::collections::BTreeSet;

use super::read;
use crate::source::Severity;

/// The transactions without their digits, each with its count; then notes.
#[track_caller]
fn check(log: &str, expect: &str) {
    let routines = BTreeSet::from(["transfer".to_owned()]);
    let log = read(&[log], &routines);
    let mut out = String::new();
    let mut text = log.text.clone();
    for (name, count) in &log.calls {
        match name.rsplit_once('_') {
            Some((words, digits)) if digits.len() == 6 => {
                text = text.replace(name, &format!("{words} {count}"))
            }
            _ => out.push_str(&format!("{name} {count}\n")),
        }
    }
    for line in text.lines().filter(|line| !line.is_empty() && line.trim() != super::ACCEPTED.trim()) {
        out.push_str(line.strip_prefix("-- transaction: ").unwrap_or(line));
        out.push('\n');
    }
    if log.aborted > 0 {
        out.push_str(&format!("aborted {}\n", log.aborted));
    }
    for note in &log.notes {
        let kind = if note.severity == Severity::Warning { "missing" } else { "note" };
        out.push_str(&format!("{kind}: {}\n", note.message));
    }
    assert_eq!(out.trim_end(), expect.trim_end());
}

/// `session message` lines as stderr writes them.
fn stderr(lines: &[(u32, &str)]) -> String {
    let mut text = String::new();
    for (session, message) in lines {
        let (label, message) = match message.split_once(":: ") {
            Some((label, message)) => (label, message),
            None => ("LOG", *message),
        };
        text.push_str(&format!("2026-01-31 12:00:00.1 UTC [{session}] {label}:  {message}\n"));
    }
    text
}

#[test]
fn statements_of_sessions_become_transactions() {
    check(
        &stderr(&[
            (1, "statement: BEGIN"),
            (2, "statement: begin isolation level serializable"),
            (1, "statement: UPDATE account SET balance = balance - 5 WHERE id = 7"),
            (2, "statement: UPDATE account SET balance = balance - 6 WHERE id = 8 -- a comment"),
            (1, "statement: INSERT INTO history VALUES (7, 5)"),
            (2, "statement: INSERT INTO history VALUES (8, 6)"),
            (1, "statement: COMMIT"),
            (2, "statement: END"),
            (
                3,
                "statement: BEGIN; UPDATE account SET balance = balance - 1 WHERE id = 2; INSERT INTO history VALUES (2, 1); COMMIT",
            ),
        ]),
        "update_account_insert_history 2\n\
         UPDATE account SET balance = balance - $1 WHERE id = $2;\n\
         INSERT INTO history VALUES ($2, $1);\n\
         update_account_insert_history 1 serializable\n\
         UPDATE account SET balance = balance - $1 WHERE id = $2;\n\
         INSERT INTO history VALUES ($3, $4);",
    );
}

#[test]
fn prepared_statements_keep_their_own_constants() {
    let execute =
        "duration: 0.1 ms  execute s1: UPDATE t SET state = 'done', n = $2 WHERE id = $1 AND kind = 3";
    check(
        &stderr(&[
            (1, execute),
            (1, "DETAIL:: parameters: $1 = '5', $2 = '1'"),
            (1, "duration: 0.1 ms  bind s1: UPDATE t SET state = 'done', n = $2 WHERE id = $1 AND kind = 3"),
            (1, execute),
            (1, "DETAIL:: parameters: $1 = '6', $2 = '2'"),
            (1, "duration: 0.1 ms  execute s2: UPDATE u SET n = 1 WHERE id = 2"),
            (1, "duration: 0.1 ms  execute s2: UPDATE u SET n = 1 WHERE id = 3"),
        ]),
        "update_t 2\n\
         UPDATE t SET state = 'done', n = $1 WHERE id = $2 AND kind = 3;\n\
         update_u 2\n\
         UPDATE u SET n = 1 WHERE id = $1;",
    );
}

#[test]
fn what_fails_or_rolls_back_is_nothing() {
    check(
        &stderr(&[
            (1, "statement: INSERT INTO t VALUES (1)"),
            (1, "ERROR:: duplicate key value violates unique constraint \"t_pkey\""),
            (1, "STATEMENT:: INSERT INTO t VALUES (1)"),
            (1, "statement: INSERT INTO t VALUES (2)"),
            (2, "statement: BEGIN"),
            (2, "statement: DELETE FROM t WHERE id = 1"),
            (2, "statement: ROLLBACK"),
            (3, "statement: BEGIN"),
            (3, "statement: DELETE FROM t WHERE id = 1"),
            (3, "ERROR:: no"),
            (3, "statement: COMMIT"),
            (4, "statement: BEGIN"),
            (4, "statement: DELETE FROM t WHERE id = 1"),
            (4, "disconnection: session time: 0:00:00"),
            (5, "statement: BEGIN"),
            (5, "statement: DELETE FROM t WHERE id = 1"),
            (5, "statement: SAVEPOINT s"),
            (5, "statement: INSERT INTO u VALUES (1)"),
            (5, "ERROR:: no"),
            (5, "statement: ROLLBACK TO s"),
            (5, "statement: COMMIT"),
        ]),
        "delete_t 1\nDELETE FROM t WHERE id = $1;\ninsert_t 1\nINSERT INTO t VALUES ($1);\naborted 4",
    );
}

#[test]
fn loops_stand_twice_and_lists_have_no_length() {
    let line = |n: u32| format!("statement: INSERT INTO line VALUES (9, {n})");
    let mut lines = vec![(1, "statement: BEGIN".to_owned())];
    lines.extend((1..6).map(|n| (1, line(n))));
    lines.push((1, "statement: COMMIT".to_owned()));
    lines.push((2, "statement: BEGIN".to_owned()));
    lines.extend((3..13).map(|n| (2, line(n).replace('9', "8"))));
    lines.push((2, "statement: COMMIT".to_owned()));
    lines.push((3, "statement: SELECT * FROM line WHERE n IN (1, 2)".to_owned()));
    lines.push((3, "statement: SELECT * FROM line WHERE n IN (1, 2, 3) ORDER BY 1, 2 LIMIT 5".to_owned()));
    lines.push((3, "statement: SELECT * FROM line WHERE n IN (4)".to_owned()));
    let lines: Vec<(u32, &str)> = lines.iter().map(|(session, line)| (*session, line.as_str())).collect();
    check(
        &stderr(&lines),
        "insert_line 2\n\
         INSERT INTO line VALUES ($1, $2);\n\
         INSERT INTO line VALUES ($1, $3);\n\
         select_line 2\n\
         SELECT * FROM line WHERE n IN ($1, $2);\n\
         select_line 1\n\
         SELECT * FROM line WHERE n IN ($1, $2, $3) ORDER BY 1, 2 LIMIT $4;",
    );
}

#[test]
fn calls_are_counted_and_what_is_no_transaction_is_told() {
    check(
        &stderr(&[
            (1, "statement: CALL transfer(1, 2, 3)"),
            (1, "statement: SELECT transfer(4, 5, 6)"),
            (1, "statement: SELECT * FROM public.transfer(4, 5, 6)"),
            (1, "statement: SET search_path = x"),
            (1, "statement: SELECT 1"),
            (1, "statement: SELECT relname FROM pg_catalog.pg_class WHERE oid = 5"),
            (1, "statement: CREATE TABLE t (id integer)"),
            (1, "statement: CREATE TABLE u (id integer)"),
            (1, "statement: SELEC 1"),
            (1, "statement: SELECT * FROM t WHERE at > now() - interval '1 day' AND x::numeric(10,2) = 1"),
        ]),
        "transfer 3\n\
         not_understood 1\n\
         DO $statement$ EXECUTE SELEC 1 $statement$;\n\
         select_t 1\n\
         SELECT * FROM t WHERE at > now() - interval '1 day' AND x::numeric(10,2) = $1;\n\
         note: CREATE TABLE in the log is passed over (2 times)\n\
         missing: a statement of the log is not understood: syntax error at or near \"SELEC\"",
    );
    check(
        "LOG:  statement: DELETE FROM t\nwho?\n",
        "delete_t 1\nDELETE FROM t;\nnote: a line is no entry of a log\n",
    );
}
