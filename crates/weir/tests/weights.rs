//! `weir analyze --weights` and the [mix] of a workload: which conflict is worth avoiding.

use std::process::{Command, Output};

use crate::directory::Directory;
use serde_json::Value;

/// `both` meets `one` on one table and `other` on the other, by different parameters.
const APPLICATION: &str = "
CREATE TABLE t1 (id bigint PRIMARY KEY, v bigint NOT NULL);
CREATE TABLE t2 (id bigint PRIMARY KEY, v bigint NOT NULL);
CREATE PROCEDURE \"both\"(a bigint, b bigint) LANGUAGE plpgsql AS $$
BEGIN UPDATE t1 SET v = v + 1 WHERE id = a; UPDATE t2 SET v = v + 1 WHERE id = b; END; $$;
CREATE PROCEDURE one(a bigint) LANGUAGE plpgsql AS $$ BEGIN UPDATE t1 SET v = v + 1 WHERE id = a; END; $$;
CREATE PROCEDURE other(b bigint) LANGUAGE plpgsql AS $$ BEGIN UPDATE t2 SET v = v + 1 WHERE id = b; END; $$;
";

/// `weir analyze` of a directory with the application and further files; `weights` is given by `--weights`.
fn analyze(name: &str, files: &[(&str, &str)], weights: Option<&str>) -> Output {
    let directory = Directory::with(name, &[files, &[("schema.sql", APPLICATION)]].concat());
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(&directory.0).args(["analyze", ".", "--format", "json"]);
    if let Some(file) = weights {
        command.args(["--weights", file]);
    }
    command.output().unwrap()
}

/// The parameter that `both` is routed by.
#[track_caller]
fn check(name: &str, files: &[(&str, &str)], weights: Option<&str>, routed: &str) {
    let output = analyze(name, files, weights);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let both = plan["transactions"].as_array().unwrap().iter().find(|each| each["name"] == "both").unwrap();
    assert_eq!(both["partitioning_parameters"][0], routed, "{name}");
}

#[test]
fn frequencies_decide() {
    check("none", &[], None, "a");
    check("one", &[("calls", "one = 90\nother = 10\nboth = 1")], Some("calls"), "a");
    check("other", &[("calls", "one = 10\nother = 90.5\nboth = 1")], Some("calls"), "b");
    let mix = "[set]\nmany = 50\n[mix]\nboth = 1\nother = \"many * 2\"\none = 3\n";
    check("beside", &[("workload.toml", mix)], None, "b");
    check("over", &[("workload.toml", mix), ("calls", "one = 9\nother = 1")], Some("calls"), "a");
    check("workload", &[("calls", mix)], Some("calls"), "b");
}

#[test]
fn what_is_wrong_has_its_place() {
    for (name, text, expect) in [
        ("unknown", "one = 1\nthird = 2\n", "calls:2:1: error: there is no procedure third"),
        ("negative", "one = -1\n", "calls:1:7: error: a weight is a number from 0"),
        ("syntax", "one = \n", "calls:1:"),
    ] {
        let output = analyze(name, &[("calls", text)], Some("calls"));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expect), "{name}: {message}");
    }
    let output = analyze("missing", &[], Some("calls"));
    assert_eq!(output.status.code(), Some(2));
}
