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
