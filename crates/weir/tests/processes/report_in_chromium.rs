//! The report in a real browser: no error, filters filter, cells open their reasons, names that look like markup stay
//! text. Screenshots are kept in the build folder; the tests say where.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::browser::Browser;
use serde_json::{Value, json};

/// Where screenshots and the pages they show are kept.
fn artefacts() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&path).expect("a folder for artefacts");
    path
}

/// Past libtest's capture, so that a log of a good run has it too.
fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

fn report(name: &str, path: &Path) -> PathBuf {
    let page = artefacts().join(format!("{name}.html"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.arg("analyze").arg(path).args(["--active-active", "--format", "html", "--out"]);
    let output = output.arg(&page).output().expect("weir runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    report(name, &examples.canonicalize().expect("the examples").join(name))
}

fn shot(browser: &mut Browser, name: &str) {
    let file = artefacts().join(format!("{name}.png"));
    browser.screenshot(&file, false);
    say(&format!("weir: screenshot {}", file.display()));
}

/// Loads a page and demands that it has nothing to complain of.
#[track_caller]
fn open(browser: &mut Browser, page: &Path, hash: &str) {
    browser.open(page, hash);
    assert_eq!(browser.complaints, Vec::<String>::new(), "{}#{hash}", page.display());
}

#[track_caller]
fn check(browser: &mut Browser, expression: &str, expected: impl Into<Value>) {
    assert_eq!(browser.evaluate(expression), expected.into(), "{expression}");
}

/// Clicks in the middle of the first element that a selector finds, as a mouse does.
#[track_caller]
fn click(browser: &mut Browser, selector: &str) {
    let place = browser.evaluate(&format!(
        "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}});
           const b = e.getBoundingClientRect(); return {{x: b.x + b.width / 2, y: b.y + b.height / 2}}; }})()"
    ));
    for kind in ["mousePressed", "mouseReleased"] {
        let event =
            json!({"type": kind, "x": place["x"], "y": place["y"], "button": "left", "clickCount": 1});
        browser.call("Input.dispatchMouseEvent", event);
    }
}

const ROWS: &str = "document.querySelectorAll('#grid tr.row').length";
const COLUMNS: &str = "document.querySelectorAll('#grid .column').length";
const DETAIL: &str =
    "document.getElementById('detail').hidden ? '' : document.getElementById('detail').innerText";
const NEW_ORDER: &str = "#grid .cell[title^='new_order × c_3_3_2_2:']";

#[test]
fn tpcc_filters_and_opens_its_cells() {
    let page = example("tpcc");
    let mut browser = Browser::start();
    browser.window(1440, 1000, false);
    open(&mut browser, &page, "");
    shot(&mut browser, "tpcc");
    check(&mut browser, COLUMNS, 5);
    check(&mut browser, "document.querySelector('#grid .corner').innerText", "125 of 125 invariants");
    check(&mut browser, "document.querySelectorAll('.graph .node').length", 5);
    check(&mut browser, "document.querySelectorAll('#diamonds figure').length", 5);
    check(&mut browser, "document.documentElement.scrollWidth <= innerWidth", true);
    check(&mut browser, &format!("document.querySelector({NEW_ORDER:?}).innerText"), "S");

    // A click opens the reasons, and the address keeps them.
    click(&mut browser, NEW_ORDER);
    let words = browser.evaluate(DETAIL).as_str().unwrap_or_default().to_owned();
    for expected in [
        "new_order × c_3_3_2_2",
        "Two branches hand out the same next number",
        "sequence on district (d_next_o_id)",
        "merged: violated",
        "WEIR-D01",
        "SET d_next_o_id = d_next_o_id + 1",
        "procedures.sql:100:12",
        "invariants.sql:",
    ] {
        assert!(words.contains(expected), "{expected}\n{words}");
    }
    shot(&mut browser, "tpcc-cell");
    check(&mut browser, "location.hash", "#show=c_3_3_2_2&by=new_order");

    // By keyboard: Escape closes and goes back to the cell, arrows move, Enter opens.
    browser.press("Escape", 27);
    check(&mut browser, DETAIL, "");
    check(&mut browser, &format!("document.activeElement === document.querySelector({NEW_ORDER:?})"), true);
    browser.press("ArrowDown", 40);
    browser.press("ArrowRight", 39);
    browser.press("Enter", 13);
    let words = browser.evaluate(DETAIL).as_str().unwrap_or_default().to_owned();
    assert!(words.starts_with("×") || words.contains("payment × c_3_3_2_3"), "{words}");
    browser.press("Escape", 27);

    // Typing filters; so does the address.
    browser.press("/", 191);
    browser.call("Input.insertText", json!({"text": "d_next_o_id"}));
    browser.evaluate("new Promise((done) => setTimeout(done, 400))");
    check(&mut browser, "location.hash", "#q=d_next_o_id");
    check(&mut browser, &format!("{ROWS} > 0 && {ROWS} < 10"), true);
    open(&mut browser, &page, "verdict=guard");
    check(&mut browser, ROWS, 5);
    check(&mut browser, COLUMNS, 2);
    open(&mut browser, &page, "transaction=delivery&costly=1");
    check(&mut browser, ROWS, 3);
    check(&mut browser, COLUMNS, 1);
    check(&mut browser, "document.querySelectorAll('#diamonds figure').length", 3);
    check(&mut browser, "document.querySelectorAll('#plan tr.filtered:not(.gone)').length", 1);
    open(&mut browser, &page, "table=history");
    check(
        &mut browser,
        "[...document.querySelectorAll('#grid tr.group .fold')].map((one) => one.innerText).join()",
        "Assertions,history",
    );
    click(&mut browser, "#filter button[type=reset]");
    browser.evaluate("new Promise((done) => setTimeout(done, 50))");
    check(&mut browser, "document.querySelector('#grid .corner').innerText", "125 of 125 invariants");
    check(&mut browser, "location.hash", "");
    click(&mut browser, ".graph .node");
    check(&mut browser, COLUMNS, 1);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn every_example_looks_well_wide_narrow_dark_and_printed() {
    let mut browser = Browser::start();
    for name in ["payroll", "tpcw", "rubis"] {
        let page = example(name);
        for (kind, width, height, dark) in
            [("wide", 1440, 1000, false), ("dark", 1440, 1000, true), ("narrow", 390, 844, false)]
        {
            browser.window(width, height, dark);
            open(&mut browser, &page, "");
            check(&mut browser, &format!("document.documentElement.scrollWidth <= {width}"), true);
            browser.evaluate("jump('matrix')");
            shot(&mut browser, &format!("{name}-{kind}"));
            click(&mut browser, "#grid .cell.s2");
            check(&mut browser, "document.getElementById('detail').getBoundingClientRect().right", width);
            shot(&mut browser, &format!("{name}-{kind}-cell"));
        }
        let printed = artefacts().join(format!("{name}.pdf"));
        browser.print(&printed);
        say(&format!("weir: printed {}", printed.display()));
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// Names, declarations, comments and bodies all try to be markup.
#[test]
fn names_that_look_like_markup_stay_text() {
    let folder = artefacts().join("<b>markup");
    std::fs::create_dir_all(&folder).expect("a folder");
    let evil = "<script>alert(1)</script>";
    let schema = format!(
        "CREATE TABLE \"{evil}\" (\"</script><img src=x onerror=alert(2)>\" integer PRIMARY KEY, \"<!--\" integer NOT NULL \
         CONSTRAINT \"'\"\"><svg onload=alert(3)>\" CHECK (\"<!--\" > 0));\n\
         CREATE TABLE child (id integer PRIMARY KEY, parent integer CONSTRAINT \"</td><script>alert(4)</script>\" \
         REFERENCES \"{evil}\");\n"
    );
    let procedures = format!(
        "CREATE PROCEDURE \"<script>alert(5)</script>\"(\"<a>\" integer) LANGUAGE plpgsql AS $$ BEGIN\n\
         -- </script><script>alert(6)</script>\n\
         UPDATE \"{evil}\" SET \"<!--\" = \"<!--\" - 1 WHERE \"</script><img src=x onerror=alert(2)>\" = \"<a>\";\nEND; $$;\n\
         CREATE PROCEDURE \"&lt;\"(a integer) LANGUAGE plpgsql AS $$ BEGIN\n\
         DELETE FROM \"{evil}\" WHERE \"</script><img src=x onerror=alert(2)>\" = a; \
         INSERT INTO \"{evil}\" VALUES (a, 1); INSERT INTO child VALUES (a, a);\nEND; $$;\n"
    );
    for (file, text) in [("schema.sql", &schema), ("procedures.sql", &procedures)] {
        std::fs::write(folder.join(file), text).expect("a file");
    }
    let page = report("markup", &folder);
    let mut browser = Browser::start();
    browser.window(1440, 1000, false);
    let hash = "show=%27%22%3E%3Csvg%20onload%3Dalert(3)%3E&by=%3Cscript%3Ealert(5)%3C%2Fscript%3E";
    // A dialog would stop the page, and this with it; the policy's refusals would be complaints.
    open(&mut browser, &page, hash);
    shot(&mut browser, "markup");
    check(&mut browser, "document.scripts.length", 2);
    check(&mut browser, "document.querySelectorAll('img, iframe, object, svg[onload], [onerror]').length", 0);
    check(&mut browser, "document.querySelector('h1').innerText.endsWith('<b>markup')", true);
    let words = browser.evaluate(DETAIL).as_str().unwrap_or_default().to_owned();
    for expected in [
        "<script>alert(5)</script> × '\"><svg onload=alert(3)>",
        "<script>alert(1)</script> (",
        "merged: violated",
    ] {
        assert!(words.contains(expected), "{expected}\n{words}");
    }
    check(
        &mut browser,
        "[...document.querySelectorAll('#plan b')].map((b) => b.innerText).join()",
        "<script>alert(5)</script>,&lt;",
    );
}

/// Errors in a page, and scripts that are not the page's own, are noticed: the other tests depend on it.
#[test]
fn complaints_are_heard() {
    let page = example("auction");
    let text = std::fs::read_to_string(&page).expect("the page");
    let mut browser = Browser::start();
    for (name, changed) in [
        (
            "error",
            text.replace("Content-Security-Policy", "none")
                .replace("restore();", "restore(); undefined.broken;"),
        ),
        ("foreign", text.replace("</main>", "<script>document.title = 'taken'</script></main>")),
    ] {
        assert_ne!(text, changed);
        let file = artefacts().join(format!("auction-{name}.html"));
        std::fs::write(&file, changed).expect("the page can be written");
        browser.complaints.clear();
        browser.open(&file, "");
        assert_ne!(browser.complaints, Vec::<String>::new(), "{name}");
        check(&mut browser, "document.title.startsWith('Weir: ')", true);
    }
}

#[test]
fn a_run_has_the_same_page_with_its_plots() {
    let page = artefacts().join("run.html");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/payroll");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("run").arg(example).args(["--shards", "1", "--transactions", "300", "--report"]).arg(&page);
    let output = command.output().expect("weir runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut browser = Browser::start();
    browser.window(1440, 1000, false);
    open(&mut browser, &page, "");
    shot(&mut browser, "run");
    check(&mut browser, "document.querySelectorAll('#run svg').length > 0", true);
    check(&mut browser, COLUMNS, 10);
    check(&mut browser, "document.querySelector('#invariants .badge').innerText", "holds");
}
