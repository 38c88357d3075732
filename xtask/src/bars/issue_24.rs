//! The bars of issue 24: nothing lies and nothing falls over. Those of its speed are in `unchanged`.

use super::issue_02::tests;
use super::issue_03::analyzed;
use super::triggered_schema::{self, Size};
use super::weir::{Captured, Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

const HERMITAGE: [Chosen; 1] =
    [Chosen::of("product", &["processes::transactions_like_postgres::row_locks::hermitage"])];

const CLIENTS: [Chosen; 1] =
    [Chosen::of("product", &["processes::catalogs::", "processes::migrations::", "processes::drivers::"])];

pub const BARS: &[Bar] = &[
    Bar {
        id: "small-applications",
        issue: 24,
        claim: "small applications with verdicts derived by hand (`testdata/small`): none is confluent that should not be",
        bar: "≥ 200 applications, none wrong",
        kind: Kind::Computed,
        measure: |weir, _| tests(weir, &[Chosen::of("analysis", &["small::"])], &[]),
    },
    Bar {
        id: "hot-runs",
        issue: 24,
        claim: "the small applications and the examples run hot on 4 shards as `weir analyze` says they do, and keep every invariant",
        bar: "all",
        kind: Kind::Real,
        measure: |weir, _| tests(weir, &[Chosen::of("bench", &["simulated::hot_runs::"])], &[]),
    },
    Bar {
        id: "random-applications",
        issue: 24,
        claim: "rules and search never contradict each other on random applications",
        bar: "100,000 applications, no contradiction",
        kind: Kind::Computed,
        measure: random_applications,
    },
    Bar {
        id: "wire-mutations",
        issue: 24,
        claim: "mutated messages of PostgreSQL's protocol, before and after login: the process lives, its memory is flat, every answer is a well-formed message with a proper SQLSTATE, a healthy connection goes on",
        bar: "1,000,000 messages, no failure",
        kind: Kind::Real,
        measure: wire_mutations,
    },
    Bar {
        id: "analyze-triggers",
        issue: 24,
        claim: "`weir analyze` takes 400 tables, 800 foreign keys and 300 triggers of four IFs each, which set off each other",
        bar: "under 10 s and 1 GiB",
        kind: Kind::Real,
        measure: analyze_triggers,
    },
    Bar {
        id: "hermitage",
        issue: 24,
        claim: "Hermitage's scenarios at READ COMMITTED are as PostgreSQL's, on one shard and on three",
        bar: "19 of 19",
        kind: Kind::Real,
        measure: |weir, _| tests(weir, &HERMITAGE, &[]),
    },
    Bar {
        id: "definitions",
        issue: 24,
        claim: "every form of a definition has PostgreSQL's effect or is refused, on one shard and on three (`testdata/sql/definitions`)",
        bar: "all",
        kind: Kind::Real,
        measure: |weir, _| tests(weir, &[Chosen::of("product", &["processes::definitions::"])], &[]),
    },
    Bar {
        id: "clients",
        issue: 24,
        claim: "pgjdbc's DatabaseMetaData, dumps of PostgreSQL, and the first connections of clients and mappers are answered as by PostgreSQL",
        bar: "all",
        kind: Kind::Real,
        measure: |weir, _| tests(weir, &CLIENTS, &[]),
    },
];

fn random_applications(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let seeds = if effort == Effort::Quick { "300..600" } else { "300..100300" };
    let which = Chosen::fast("search", &["simulated::property::no_confluent"]);
    let seen = tests(weir, &[which], &[("WEIR_CASES", seeds)])?;
    Ok(Seen { interval: format!("seeds {seeds}, {}", seen.interval), ..seen })
}

fn wire_mutations(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let count = if effort == Effort::Quick { "20000" } else { "1000000" };
    let test = Chosen::release("product", &["processes::connections::damaged_messages"]);
    let ran = weir.tests(&test, Captured::No, &[("WEIR_WIRE_MESSAGES", count)])?;
    let text = ran.text;
    let figure = text.lines().find(|line| line.contains(" messages, ")).ok_or("no figure is said")?;
    Ok(Seen { met: ran.failed == 0, figure: figure.to_owned(), interval: String::new() })
}

fn analyze_triggers(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let size = Size { tables: 400, foreign_keys: 800, triggers: 300 };
    analyzed(weir, "triggers", |directory| triggered_schema::write(directory, &size))
}
