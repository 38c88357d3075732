//! Functions of text that are compared call by call: thousands of calls by seed, asked of PostgreSQL in one query.

use std::fmt::Write;

use postgres::{Client, NoTls};
use weir_bench::postgres::Server;
use weir_types::function::{self, CallTypes};
use weir_types::text::to_text;
use weir_types::{SqlType, Value};

use super::random::Dice;

/// PostgreSQL's answer to a call with up to four texts (a NULL is omitted), or the SQLSTATE.
const ASK: &str = "
CREATE FUNCTION pg_temp.ask(call text, args text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    EXECUTE 'SELECT (' || call || ')::text' INTO answer USING args;
    RETURN coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN RETURN 'ERROR ' || SQLSTATE;
END $$";

struct Call {
    function: &'static str,
    args: Vec<String>,
}

impl Call {
    fn sql(&self) -> String {
        let args: Vec<String> = (1..=self.args.len()).map(|at| format!("$1[{at}]")).collect();
        format!("{}({})", self.function, args.join(", "))
    }

    fn weir(&self) -> String {
        let types = vec![SqlType::Text; self.args.len()];
        let resolved = function::resolve(self.function, &types).expect("the function is there");
        let values: Vec<Value> = self.args.iter().map(|arg| Value::text(arg.as_str())).collect();
        let types = CallTypes { args: &resolved.args, result: &resolved.result };
        match resolved.function.call(&values, &types) {
            Ok(Value::Null) => "NULL".to_owned(),
            Ok(Value::Bool(bool)) => bool.to_string(),
            Ok(value) => to_text(&value, &resolved.result),
            Err(error) => format!("ERROR {}", error.state()),
        }
    }
}

/// The calls that Weir answers otherwise; it may refuse some by name.
fn compare(calls: &[Call]) {
    let server = Server::start().expect("PostgreSQL starts");
    let mut client = Client::connect(&server.connection_string(), NoTls).expect("it can be reached");
    client.batch_execute(ASK).expect("it takes the function");
    let (mut wrong, mut different, mut refused) = (String::new(), 0, 0);
    for chunk in calls.chunks(1_000) {
        let asked: Vec<String> = chunk
            .iter()
            .map(|call| {
                let literal = |text: &String| format!("'{}'", text.replace('\'', "''"));
                let args: Vec<String> = call.args.iter().map(literal).collect();
                format!("pg_temp.ask('{}', ARRAY[{}]::text[])", call.sql(), args.join(", "))
            })
            .collect();
        let rows = client.query(&format!("SELECT unnest(ARRAY[{}])", asked.join(", ")), &[]).expect("rows");
        for (call, row) in chunk.iter().zip(rows) {
            let (expected, found): (String, String) = (row.get(0), call.weir());
            refused += usize::from(found == "ERROR 0A000");
            if found != expected && found != "ERROR 0A000" {
                different += 1;
                if different <= 60 {
                    let _ = writeln!(
                        wrong,
                        "{}{:?}\n  PostgreSQL {expected}\n  Weir       {found}",
                        call.function, call.args
                    );
                }
            }
        }
    }
    assert!(different == 0, "{different} of {} calls differ:\n{wrong}", calls.len());
    assert!(refused * 10 < calls.len(), "{refused} of {} are refused", calls.len());
}

fn pattern(dice: &mut Dice, depth: u64, groups: &mut u64) -> String {
    let mut out = String::new();
    for branch in 0..1 + dice.roll(8) / 5 {
        if branch > 0 {
            out.push('|');
        }
        for _ in 0..1 + dice.roll(4) {
            let is_group = depth > 0 && dice.roll(3) == 0;
            match is_group {
                true if dice.roll(12) == 0 => {
                    let look = dice.pick(&["(?=", "(?!", "(?<=", "(?<!"]);
                    let _ = write!(out, "{look}{})", pattern(dice, 0, &mut 0));
                    continue;
                }
                true if dice.roll(3) == 0 => {
                    let _ = write!(out, "(?:{})", pattern(dice, depth - 1, groups));
                }
                true => {
                    let inner = pattern(dice, depth - 1, groups);
                    *groups += 1;
                    let _ = write!(out, "({inner})");
                }
                false if depth > 0 && *groups > 0 && dice.roll(8) == 0 => {
                    let _ = write!(out, "\\{}", 1 + dice.roll(*groups));
                }
                false if dice.roll(12) == 0 => {
                    out.push_str(dice.pick(&["^", "$", "\\y", "\\m", "\\M", "\\Y", "\\A", "\\Z"]));
                    continue;
                }
                false => out.push_str(dice.pick(&[
                    "a",
                    "b",
                    "ab",
                    "a",
                    "b",
                    "c",
                    ".",
                    "[ab]",
                    "[^a]",
                    "\\w",
                    "\\d",
                    "\\s",
                    "1",
                    " ",
                    "[[:alpha:]]",
                    "[a-c1]",
                    "\\W",
                    "A",
                ])),
            }
            if dice.roll(2) == 0 {
                out.push_str(dice.pick(&[
                    "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{1,2}?", "{2,}", "{0,1}", "{2}?",
                    "{0}", "*",
                ]));
            }
        }
    }
    out
}

fn text(dice: &mut Dice) -> String {
    (0..dice.roll(10)).map(|_| dice.pick(&["a", "b", "a", "b", "c", "ab", "1", " ", "A", "\n"])).collect()
}

#[test]
fn random_regular_expressions_match_as_postgresql_matches() {
    let mut dice = Dice(2026);
    let mut calls = Vec::new();
    for _ in 0..4_000 {
        let (pattern, text) = (pattern(&mut dice, 2, &mut 0), text(&mut dice));
        let function = [
            "regexp_match",
            "regexp_match",
            "regexp_replace",
            "regexp_replace",
            "regexp_split_to_array",
            "regexp_substr",
            "substring",
            "regexp_count",
            "regexp_like",
            "regexp_instr",
        ][dice.roll(10) as usize];
        let mut args = vec![text, pattern];
        match function {
            "regexp_replace" => {
                args.push(dice.pick(&["<\\&>", "\\1-\\2", "x", "\\\\", ""]).to_owned());
                args.push(dice.pick(&["g", "", "gi", "n"]).to_owned());
            }
            "regexp_match" | "regexp_split_to_array" | "regexp_like" => {
                args.push(dice.pick(&["", "", "i", "n", "p", "w", "x", "q", "z"]).to_owned());
            }
            _ => {}
        }
        calls.push(Call { function, args });
    }
    // Patterns that are not well-formed.
    for wrong in [
        "(",
        ")",
        "a)",
        "[a",
        "a**",
        "*a",
        "a{2",
        "a{2,1}",
        "a{300}",
        "a{1,2",
        "[b-a]",
        "[[:no:]]",
        "\\",
        "\\q",
        "(?<a)",
        "\\1",
        "(a)\\2",
        "[a-",
        "a|*",
        "(?z)a",
        "***=a.b",
        "***:a.b",
        "(?i)A",
        "(?n)^b",
        "{1}",
        "a{,2}",
        "[[.a.]]",
        "[[=a=]]",
        "[[:<:]]a",
        "a[[:>:]]",
        "[]a]",
        "[^]a]",
        "[a-]",
        "[-a]",
        "a||b",
        "()",
        "(|a)",
        "a(?#comment)b",
        "\\x41",
        "\\101",
        "\\u0041",
        "\\cA",
        "[\\w-]",
        "[\\d]",
        "[\\D]",
        "(a)(?=\\1)",
        "^*",
        "$+",
        "(?x)a b # c",
        "a{0}b",
        "(a){0}b",
        "(a*)*",
        "(a*)+",
        "(a|b)*?c",
        "((a)|b)*",
        "(?:a|ab)(?:c|bcd)",
    ] {
        for text in ["a.b", "aab", "AB", "ab", "", "abcd", "a\nb", "]", "-", "abab"] {
            calls.push(Call { function: "regexp_match", args: vec![text.to_owned(), wrong.to_owned()] });
        }
    }
    compare(&calls);
}

#[test]
fn random_templates_read_as_postgresql_reads() {
    let mut dice = Dice(7);
    let mut calls = Vec::new();
    for _ in 0..1_500 {
        let (mut text, mut template) = (String::new(), String::new());
        let (mut year, mut month) = (false, false);
        for number in 0..1 + dice.roll(4) {
            let (field, value) = match dice.roll(9) {
                0 | 1 if !year => {
                    year = true;
                    ("YYYY", dice.pick(&["2024", "1999", "-44", "0044", "2000"]).to_owned())
                }
                2 if !month => {
                    month = true;
                    ("MM", format!("{}", 1 + dice.roll(13)))
                }
                3 => ("DD", format!("{}", dice.roll(33))),
                4 => ("HH24", format!("{}", dice.roll(25))),
                5 => ("MI", format!("{}", dice.roll(60))),
                6 => ("WW", format!("{}", 1 + dice.roll(53))),
                7 => ("W", format!("{}", 1 + dice.roll(5))),
                _ => ("DDD", format!("{}", 1 + dice.roll(366))),
            };
            if number > 0 {
                text.push(' ');
                template.push(' ');
            }
            text.push_str(&value);
            template.push_str(field);
        }
        if dice.roll(6) == 0 {
            text.push_str(dice.pick(&[" BC", " AD"]));
            template.push_str(" BC");
        }
        let function = if dice.roll(2) == 0 { "to_date" } else { "to_timestamp" };
        calls.push(Call { function, args: vec![text, template] });
    }
    for (text, template) in [
        ("2024-01-02 1234", "YYYY-MM-DD FF4"),
        ("2024 10", "YYYY WW"),
        ("2024 2 3", "YYYY MM W"),
        ("-44-02-01", "YYYY-MM-DD"),
        ("-44-02-01 BC", "YYYY-MM-DD BC"),
        ("21 24", "CC YY"),
        ("20", "CC"),
        ("6 00", "CC YY"),
        ("2024 10 3", "IYYY IW ID"),
        ("2024 100", "IYYY IDDD"),
        ("2024 10", "IYYY MM"),
        ("2024 2023", "YYYY YYYY"),
        ("100", "DDD"),
        ("2460000", "J"),
        ("24 3", "YY Q"),
        ("2024 Monday 10", "YYYY Day WW"),
        ("30 02", "DD MM"),
        ("86399", "SSSS"),
        ("12 PM", "HH AM"),
        ("0 AM", "HH12 AM"),
        ("1,999", "Y,YYY"),
    ] {
        for function in ["to_date", "to_timestamp"] {
            calls.push(Call { function, args: vec![text.to_owned(), template.to_owned()] });
        }
    }
    compare(&calls);
}

#[test]
fn random_formats_print_as_postgresql_prints() {
    let mut dice = Dice(11);
    let mut calls = Vec::new();
    for _ in 0..1_000 {
        let mut template = String::new();
        for _ in 0..1 + dice.roll(3) {
            let position = dice.pick(&["", "", "1$", "2$", "3$", "0$"]);
            let flag = dice.pick(&["", "", "-", "--"]);
            let width = dice.pick(&["", "", "5", "*", "*1$", "*2$", "*0$", "12"]);
            let _ = write!(
                template,
                "{}%{position}{flag}{width}{}",
                dice.pick(&["", "x", "%%"]),
                dice.pick(&["s", "s", "I", "L", "d", ""])
            );
        }
        let mut args = vec![template];
        for _ in 0..1 + dice.roll(3) {
            args.push(dice.pick(&["4", "-6", "word", "it's", "A b", ""]).to_owned());
        }
        calls.push(Call { function: "format", args });
    }
    compare(&calls);
}
