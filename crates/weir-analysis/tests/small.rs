//! Small applications with verdicts that were derived by hand (`testdata/small`), each with the reason.
//!
//! An application begins with `-- app: name`, says `-- why:`, and then `-- transaction: invariant yes|no` of what was derived from
//! Definition 7 of coordination-avoidance.txt: *no* is of a pair of branches, valid by themselves, whose merge breaks the invariant,
//! where the transaction is one that takes part. A *yes* of the analysis where a *no* was derived is a fault. A *no* where a *yes* was
//! derived costs coordination that is not needed: how many of these there are is kept, and may only fall.

mod support;

use weir_analysis::{Analysis, analyze};
use weir_sql::Application;

/// A generated key beside chosen ones: the verdict assumes that nobody chooses a value that the generator has yet to give, and says so. A
/// generated value lives on the shard that gives it, where a chosen one that is the same is found.
const ASSUMED: [&str; 1] = ["key-generated-and-chosen: draw and t_pkey"];

/// Verdicts that are stricter than what was derived, of the rules alone: no solver is asked here. It may only fall.
const TOO_STRICT_MAX: usize = 15;

struct Small<'t> {
    name: &'t str,
    sql: &'t str,
    /// Transaction, invariant, and whether it is confluent.
    derived: Vec<(&'t str, &'t str, bool)>,
}

fn read(text: &str) -> Vec<Small<'_>> {
    let apps = text.split("-- app: ").skip(1);
    apps.map(|sql| {
        let name = sql.lines().next().unwrap_or_default();
        let comments = sql.lines().skip(1).map_while(|line| line.strip_prefix("-- "));
        let derived = comments.filter(|line| !line.starts_with("why: ")).map(|line| {
            let (transaction, rest) = line.split_once(": ").expect("transaction: invariant yes|no");
            let (invariant, verdict) = rest.rsplit_once(' ').expect("an invariant, and yes or no");
            assert!(matches!(verdict, "yes" | "no"), "{name}: {line}");
            (transaction, invariant, verdict == "yes")
        });
        Small { name, sql: sql.split_once('\n').map_or("", |(_, rest)| rest), derived: derived.collect() }
    })
    .collect()
}

fn confluent(app: &Application, analysis: &Analysis, transaction: &str, invariant: &str) -> Option<bool> {
    let procedure = app.procedures.iter().position(|one| one.name == transaction)?;
    let at = analysis.invariants.iter().position(|one| one.name == invariant)?;
    let verdict = analysis.verdict(procedure, weir_analysis::InvariantId(at as u32));
    Some(verdict.confluent)
}

#[test]
fn verdicts_are_never_laxer_than_what_was_derived() {
    let folder = support::root().join("testdata/small");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut applications, mut wrong, mut strict) = (0, Vec::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for small in read(&text) {
            applications += 1;
            let app = support::read_to_analyze(small.sql);
            let analysis = analyze(&app);
            for (transaction, invariant, derived) in small.derived {
                let line = format!("{}: {transaction} and {invariant}", small.name);
                match (confluent(&app, &analysis, transaction, invariant), derived) {
                    (None, _) => {
                        let known: Vec<&str> =
                            analysis.invariants.iter().map(|one| one.name.as_str()).collect();
                        wrong.push(format!("{line}: there is none; there are {}", known.join(", ")));
                    }
                    (Some(true), false) if ASSUMED.contains(&line.as_str()) => {}
                    (Some(true), false) => wrong.push(format!("{line}: confluent, and should not be")),
                    (Some(false), true) => strict.push(line),
                    _ => {}
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(applications >= 164, "{applications} applications");
    assert!(strict.len() <= TOO_STRICT_MAX, "{} of {applications}:\n{}", strict.len(), strict.join("\n"));
}
