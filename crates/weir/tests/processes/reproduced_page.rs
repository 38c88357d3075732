//! `weir reproduce` end to end at a tiny scale: Weir, PostgreSQL and MariaDB run, and the page of their figures is looked at in a real browser.

use std::process::Command;

use serde_json::Value;

use crate::browser::Browser;

#[test]
fn figures_are_reproduced_and_their_page_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["reproduce", "cat-fig7", "confluence-fig3", "ramp-table1", "elia-table1"])
        .args(["--tiny", "--format", "json", "--out"])
        .arg(folder.path())
        .output()
        .expect("weir runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let claims = document["claims"].as_array().expect("there are claims");
    let of = |id: &str| claims.iter().filter(|claim| claim["id"] == id).count();
    assert!(of("cat-fig7") >= 2 && of("confluence-fig3") == 7, "{document}");
    // Of each RAMP variant writes and two kinds of reads; of two applications four classes and two counts.
    assert_eq!((of("ramp-table1"), of("elia-table1")), (9, 12), "{document}");
    assert_eq!(document["figures"][0]["points"].as_array().map(Vec::len), Some(9));
    // No transaction of these two aborts at any scale.
    for target in ["weir-confluent", "weir-ordered"] {
        let text = format!("{target}: aborts grow");
        let claim =
            claims.iter().find(|claim| claim["claim"].as_str().is_some_and(|claim| claim.starts_with(&text)));
        assert_eq!(claim.expect(target)["verdict"], "exceeded", "{claim:?}");
    }
    let mut browser = Browser::start();
    browser.open(&folder.path().join("index.html"), "cat-fig7");
    assert_eq!(browser.complaints, Vec::<String>::new());
    assert_eq!(browser.evaluate("document.querySelectorAll('svg').length"), Value::from(4));
    assert_eq!(browser.evaluate("document.querySelectorAll('h2').length"), Value::from(4));
    let widest = "Math.max(...[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().right)) <= innerWidth";
    assert_eq!(browser.evaluate(widest), Value::from(true));
}

#[test]
fn a_figure_that_cannot_be_measured_does_not_end_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let reproduce = |ids: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("reproduce")
            .args(ids)
            .args(["--tiny", "--format", "json", "--out"])
            .arg(folder.path())
            .env("WEIR_POSTGRES_BIN", folder.path())
            .output()
            .expect("weir runs")
    };
    let output = reproduce(&["cat-fig8", "confluence-fig3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1 of 2 figures could not be measured: cat-fig8"), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(document["missing"][0]["id"], "cat-fig8");
    assert_eq!(document["claims"].as_array().map(Vec::len), Some(7));
    let page = std::fs::read_to_string(folder.path().join("index.html")).expect("a page");
    assert!(
        page.contains("cat-fig8 could not be measured") && page.contains("PostgreSQL 15 is not installed")
    );
    assert!(folder.path().join("confluence-fig3.jsonl").exists());

    let output = reproduce(&["cat-fig8"]);
    assert_eq!(output.status.code(), Some(2));
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let message = document["errors"][0]["message"].as_str().expect("a message");
    assert!(
        message.contains("weir reproduce cat-fig8: error: ") && message.contains("not installed"),
        "{message}"
    );
}
