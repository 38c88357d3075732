//! Output of `weir analyze` for CI: SARIF, annotations, Markdown, baselines, comments that let findings through, and exit codes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::directory::Directory;
use serde_json::Value;

const SCHEMA: &str = "\
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, name text UNIQUE);
";

const PAY: &str = "\
CREATE PROCEDURE pay(a integer, n integer) LANGUAGE plpgsql AS $$ DECLARE x integer; BEGIN
    SELECT balance INTO x FROM account WHERE id = a;
    UPDATE account SET balance = x - n WHERE id = a;
END; $$;
";

fn analyze(path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("analyze").arg(path).args(arguments).output().unwrap()
}

fn json(path: &Path, arguments: &[&str]) -> Value {
    let output = analyze(path, arguments);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn fingerprints(document: &Value) -> BTreeSet<String> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["fingerprint"].as_str().unwrap().to_owned()).collect()
}

fn ids(document: &Value, which: impl Fn(&Value) -> bool) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().filter(|one| which(one)).map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// The properties that SARIF 2.1.0 requires, and the values that it allows, of what is written here.
fn check_sarif(document: &Value) {
    assert_eq!(document["version"], "2.1.0");
    assert!(document["$schema"].as_str().unwrap().ends_with("sarif-schema-2.1.0.json"));
    for run in document["runs"].as_array().unwrap() {
        let driver = &run["tool"]["driver"];
        assert_eq!(driver["name"], "weir");
        assert_eq!(run["columnKind"], "unicodeCodePoints");
        let rules = driver["rules"].as_array().unwrap();
        let mut seen = BTreeSet::new();
        for rule in rules {
            assert!(seen.insert(rule["id"].as_str().unwrap()), "{rule}");
            for part in ["shortDescription", "fullDescription", "help"] {
                assert!(!rule[part]["text"].as_str().unwrap().is_empty(), "{rule}");
            }
        }
        for result in run["results"].as_array().unwrap() {
            let index = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            let place = &result["locations"][0]["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            assert!(uri.chars().all(|c| c.is_ascii_graphic()) && !uri.contains('\\'), "{uri}");
            let number = |name: &str| place["region"][name].as_u64().unwrap();
            assert!(number("startLine") >= 1 && number("startColumn") >= 1);
            assert!((number("endLine"), number("endColumn")) >= (number("startLine"), number("startColumn")));
            assert_eq!(result["partialFingerprints"]["weir/v1"].as_str().unwrap().len(), 16);
            for suppression in result["suppressions"].as_array().unwrap_or(&Vec::new()) {
                assert!(["inSource", "external"].contains(&suppression["kind"].as_str().unwrap()));
            }
            if let Some(state) = result["baselineState"].as_str() {
                assert!(["new", "unchanged", "updated", "absent"].contains(&state));
            }
        }
    }
}

#[test]
fn sarif_has_the_required_shape() {
    let directory = Directory::with("sarif", &[("schema.sql", SCHEMA), ("procedures.sql", PAY)]);
    let document = json(&directory.0, &["--format", "sarif", "--active-active"]);
    check_sarif(&document);
    let results = document["runs"][0]["results"].as_array().unwrap();
    let rules: Vec<&str> = results.iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(rules, ["WEIR-A01", "WEIR-M01"]);
    for example in ["payroll", "tpcw", "rubis"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
        check_sarif(&json(&path, &["--format", "sarif", "--active-active"]));
    }
}

#[test]
fn a_baseline_lets_old_findings_be_and_fails_on_new_ones() {
    let directory = Directory::with("baseline", &[("schema.sql", SCHEMA), ("procedures.sql", PAY)]);
    for format in ["json", "sarif"] {
        let file = directory.0.join(format!("known.{format}")).display().to_string();
        assert_eq!(analyze(&directory.0, &["--format", format, "--out", &file]).status.code(), Some(0));
        assert_eq!(analyze(&directory.0, &["--baseline", &file]).status.code(), Some(0));
    }
    let known = directory.0.join("known.json").display().to_string();
    // Moved lines and other blanks change nothing.
    let moved = format!("-- A remark.\n\n\n{}", PAY.replace("    SELECT", "\tSELECT  "));
    std::fs::write(directory.0.join("procedures.sql"), &moved).unwrap();
    assert_eq!(analyze(&directory.0, &["--baseline", &known]).status.code(), Some(0));
    let more = moved + &PAY.replace("pay(", "pay_again(");
    std::fs::write(directory.0.join("procedures.sql"), &more).unwrap();
    let output = analyze(&directory.0, &["--baseline", &known]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("1 new finding fails") && message.contains("pay_again"), "{message}");
    // A wrong file is an error with a remedy.
    for (name, content, expect) in [
        ("no.json", None, "no such file"),
        ("bad.json", Some("{"), "no JSON"),
        ("empty.json", Some("{}"), "no findings"),
    ] {
        let file = directory.0.join(name);
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let output = analyze(&directory.0, &["--baseline", &file.display().to_string()]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expect) && message.contains("hint: "), "{message}");
    }
}

#[test]
fn fingerprints_are_unique_and_stay() {
    let directory = Directory::with("prints", &[("schema.sql", SCHEMA), ("procedures.sql", PAY)]);
    let before = fingerprints(&json(&directory.0, &["--format", "json"]));
    std::fs::write(directory.0.join("procedures.sql"), format!("\n\n{PAY}")).unwrap();
    assert_eq!(before, fingerprints(&json(&directory.0, &["--format", "json"])));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/payroll");
    let document = json(&path, &["--format", "json", "--active-active"]);
    assert_eq!(fingerprints(&document).len(), document["findings"].as_array().unwrap().len());
}

#[test]
fn fail_on_takes_severities_and_ids() {
    let directory = Directory::with("fail-on", &[("schema.sql", SCHEMA), ("procedures.sql", PAY)]);
    for (words, code) in [
        ("error", 0),
        ("warning", 1),
        ("note", 1),
        ("WEIR-A01", 1),
        ("lost-update", 1),
        ("weir-u01,WEIR-A02", 0),
        ("error,WEIR-A01", 1),
        ("WEIR-Z01", 2),
    ] {
        let output = analyze(&directory.0, &["--fail-on", words]);
        assert_eq!(output.status.code(), Some(code), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(analyze(&directory.0, &["--fail-on", "error", "--active-active"]).status.code(), Some(1));
}

/// Kinds that count, kinds that are let through.
#[track_caller]
fn check_allow(name: &str, procedures: &str, counting: &[&str], allowed: &[&str]) {
    let directory = Directory::with(name, &[("schema.sql", SCHEMA), ("procedures.sql", procedures)]);
    let document = json(&directory.0, &["--format", "json"]);
    assert_eq!(ids(&document, |one| one["allowed"].is_null()), counting, "{name}");
    assert_eq!(ids(&document, |one| !one["allowed"].is_null()), allowed, "{name}");
}

#[test]
fn comments_beside_the_code_let_findings_through() {
    check_allow("plain", PAY, &["WEIR-A01"], &[]);
    let above = format!("-- weir:allow WEIR-A01 one caller at a time\n{PAY}");
    check_allow("above", &above, &[], &["WEIR-A01"]);
    let by_word = format!("-- weir:allow lost-update: one caller at a time\n\n-- pays\n{PAY}");
    check_allow("by-word", &by_word, &[], &["WEIR-A01"]);
    let beside = PAY
        .replace("FROM account WHERE id = a;", "FROM account WHERE id = a; -- weir:allow WEIR-A01 why not");
    check_allow("beside", &beside, &[], &["WEIR-A01"]);
    let unused = format!("-- weir:allow WEIR-A02 nothing here\n{PAY}");
    check_allow("unused", &unused, &["WEIR-A01", "WEIR-W01"], &[]);
    let silent = format!("-- weir:allow WEIR-A01\n{PAY}");
    check_allow("silent", &silent, &["WEIR-A01", "WEIR-W02"], &[]);
    let unknown = format!("-- weir:allow WEIR-Q77 because\n{PAY}");
    check_allow("unknown", &unknown, &["WEIR-A01", "WEIR-W03"], &[]);
}

#[test]
fn annotations_and_markdown() {
    let directory = Directory::with("github", &[("schema.sql", SCHEMA), ("procedures.sql", PAY)]);
    let output = analyze(&directory.0, &["--format", "github"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let file = directory.0.join("procedures.sql").display().to_string();
    assert!(text.starts_with(&format!("::warning file={file},line=2,")), "{text}");
    assert!(
        text.contains("title=WEIR-A01 lost-update::pay reads account.balance")
            && text.contains("%0ARemedy: "),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    let output = analyze(&directory.0, &["--format", "markdown"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("| pay | merge | 1 |") && text.contains("### Findings: 1"), "{text}");
}

/// Anomalies and conflicts come with two calls that were run.
#[test]
fn findings_are_shown_with_values() {
    let directory = Directory::with("executions", &[("schema.sql", SCHEMA), ("procedures.sql", PAY)]);
    let document = json(&directory.0, &["--format", "json", "--active-active"]);
    let anomaly = &document["transactions"][0]["anomalies"][0];
    let conflict = &document["active_active"][0]["conflicts"][0];
    for (finding, together) in [(anomaly, "both at once, merged"), (conflict, "both nodes")] {
        let execution = &finding["execution"];
        assert_eq!(finding["not_shown"], Value::Null);
        assert_eq!(execution["shows"], "no_order", "{finding}");
        assert_eq!(execution["left"][0]["call"], "pay");
        assert!(execution["together"][0]["run"].as_str().unwrap().starts_with(together), "{finding}");
        let balance = |run: &str| execution[run][0]["state"]["account"][0]["balance"].clone();
        assert_ne!(balance("together"), balance("serial"), "{finding}");
        assert_eq!(balance("together"), balance("alone"), "{finding}");
    }
    let output = analyze(&directory.0, &["--active-active"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("in order:").count(), 2, "{text}");
}

/// One call that breaks an assertion by itself is a finding, and a cell of the report.
#[test]
fn calls_that_break_an_assertion_alone() {
    let chat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/applications/chat");
    let document = json(&chat, &["--format", "json"]);
    let findings = document["findings"].as_array().unwrap();
    let found: Vec<&Value> = findings.iter().filter(|one| one["id"] == "WEIR-V04").collect();
    let transactions: Vec<&Value> = found.iter().map(|one| &one["transaction"]).collect();
    assert_eq!(transactions, ["create_room", "ban"]);
    let message = found[1]["message"].as_str().unwrap();
    assert!(message.contains("For example, before: ") && message.contains("call: ban(1, 1, "), "{message}");
    assert_eq!(analyze(&chat, &["--fail-on", "breaks-alone"]).status.code(), Some(1));
    let page = String::from_utf8_lossy(&analyze(&chat, &["--format", "html"]).stdout).into_owned();
    assert!(page.contains("are broken by one call alone"));
}

#[test]
fn a_schema_alone_says_so() {
    let directory = Directory::with("alone", &[("schema.sql", SCHEMA)]);
    let output = analyze(&directory.0, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("No procedures were given: insert, update and delete of every table"), "{text}");
    let directory = Directory::with("besides", &[("schema.sql", SCHEMA), ("procedures.sql", PAY)]);
    let document = json(&directory.0, &["--format", "json", "--every-table"]);
    let names: Vec<&str> = document["transactions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["pay", "insert account", "update account (balance)", "update account (name)", "delete account"]
    );
}

#[test]
fn weir_toml_beside_the_schema() {
    let toml = "[requirement]\ndefault = \"serializable\"\n";
    let directory =
        Directory::with("toml", &[("schema.sql", SCHEMA), ("procedures.sql", PAY), ("weir.toml", toml)]);
    let document = json(&directory.0, &["--format", "json"]);
    assert_eq!(document["transactions"][0]["requirement"], "serializable");
    assert_eq!(document["transactions"][0]["prevented"][0]["kind"], "lost_update");
    std::fs::write(directory.0.join("weir.toml"), "[requirement]\ndefault = \"snapshot\"\n").unwrap();
    let output = analyze(&directory.0, &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("weir.toml:2:11: error: there is no requirement \"snapshot\""), "{message}");
}
