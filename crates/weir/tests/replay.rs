//! Witnesses on the command line: in the analysis, and run again with `weir run --replay`.

use std::process::{Command, Output};

use crate::directory::Directory;
use serde_json::Value;

const APPLICATION: &str = "\
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL CONSTRAINT solvent CHECK (balance >= 0));
CREATE PROCEDURE withdraw(IN who integer, IN amount integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - amount WHERE id = who;
END $$;
";

/// The application in a directory of its own.
struct Case {
    directory: Directory,
}

impl Case {
    fn new(name: &str) -> Case {
        Case { directory: Directory::with(name, &[("schema.sql", APPLICATION)]) }
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(&arguments[..1]).arg(&self.directory.0).args(&arguments[1..]).output().unwrap()
    }

    fn analysis(&self) -> Value {
        let output = self.weir(&["analyze", "--format", "json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.directory.0.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Exit code and all output.
    fn replay(&self, reference: &str) -> (Option<i32>, String) {
        let output = self.weir(&["run", "--replay", reference]);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }
}

/// The one verdict that is not confluent.
fn negative(analysis: &Value) -> &Value {
    analysis["verdicts"].as_array().unwrap().iter().find(|verdict| verdict["confluent"] == false).unwrap()
}

#[test]
fn a_witness_is_found_and_replays() {
    let case = Case::new("found");
    let analysis = case.analysis();
    let witness = &negative(&analysis)["witness"];
    assert_eq!(witness["violates"]["invariant"], "solvent");
    let alone = case.file("witness.json", &witness.to_string());
    let whole = case.file("plan.json", &analysis.to_string());
    for reference in [alone, whole.clone(), format!("{whole}#solvent/withdraw")] {
        let (code, text) = case.replay(&reference);
        assert_eq!(code, Some(1), "{text}");
        for piece in [
            "Initial state: valid",
            "CALL withdraw(1, 1)",
            "Merged",
            "Violated: solvent: id = 1, balance = -1",
        ] {
            assert!(text.contains(piece), "expected {piece}\n{text}");
        }
    }
}

#[test]
fn what_is_mended_is_not_reproduced() {
    let case = Case::new("mended");
    let mut witness = negative(&case.analysis())["witness"].clone();
    witness["initial"]["account"][0]["balance"] = Value::from("2");
    let file = case.file("witness.json", &witness.to_string());
    let (code, text) = case.replay(&file);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Not reproduced: solvent holds in the merge"), "{text}");
}

#[test]
fn a_bad_witness_is_refused_with_its_place() {
    let case = Case::new("bad");
    let witness = negative(&case.analysis())["witness"].clone();
    let edit = |pointer: &str, value: Value| {
        let mut edited = witness.clone();
        *edited.pointer_mut(pointer).unwrap() = value;
        edited.to_string()
    };
    let cases = [
        ("{\n  oops".to_owned(), ":2:3: error: this is not JSON"),
        ("{}".to_owned(), "error: violates: it is missing"),
        (edit("/violates/invariant", "other".into()), "violates.invariant: there is no invariant `other`"),
        (edit("/left/0/call", "other".into()), "left[0].call: there is no procedure `other`"),
        (edit("/left/0/arguments/amount", "x".into()), "left[0].arguments.amount: invalid input syntax"),
        (edit("/right", Value::Array(Vec::new())), "right: it has no calls"),
        (edit("/initial/account/0/balance", "-1".into()), "initial: the state violates solvent"),
        (edit("/left/0/arguments/amount", "9".into()), "left: a call of this branch fails"),
        ("{\"verdicts\": []}".to_owned(), "there are 0 witnesses"),
    ];
    for (content, expected) in cases {
        let (code, text) = case.replay(&case.file("bad.json", &content));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "expected {expected}\n{text}");
        assert!(text.contains("hint: "), "{text}");
    }
    let whole = case.file("plan.json", &case.analysis().to_string());
    let (code, text) = case.replay(&format!("{whole}#other/withdraw"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("one of: solvent/withdraw"), "{text}");
}
