//! TPC-C as workloads.md has it from exhaustive search, and variants in which one cause is changed.

use crate::support;

use std::collections::BTreeSet;

use weir_analysis::{Analysis, GuardKind, Mechanism, analyze};
use weir_sql::Application;

/// `transaction: invariant` of every verdict that is not confluent.
fn refused(app: &Application, analysis: &Analysis) -> BTreeSet<String> {
    let name = |verdict: &weir_analysis::Verdict| {
        let invariant = &analysis.invariants[verdict.invariant.0 as usize].name;
        format!("{}: {invariant}", app.procedures[verdict.transaction].name)
    };
    analysis.verdicts.iter().filter(|verdict| !verdict.confluent).map(name).collect()
}

/// `transaction: kind table` of every guard.
fn guards(app: &Application, analysis: &Analysis) -> BTreeSet<String> {
    let mut guards = BTreeSet::new();
    for plan in &analysis.plan.transactions {
        for guard in &plan.guards {
            let table = &app.catalog.table(guard.table).name;
            guards.insert(format!("{}: {} {table}", app.procedures[plan.procedure].name, guard.kind.name()));
        }
    }
    guards
}

fn set(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|item| item.to_string()).collect()
}

const REFUSED: &[&str] = &[
    "delivery: c_3_3_2_10",
    "delivery: c_3_3_2_11",
    "delivery: c_3_3_2_12",
    "new_order: c_3_3_2_2",
    "new_order: c_3_3_2_3",
];

#[test]
fn as_the_exhaustive_search_says() {
    let app = support::example("tpcc", |_, text| text);
    let analysis = analyze(&app);
    assert_eq!(refused(&app, &analysis), set(REFUSED));
    assert_eq!(guards(&app, &analysis), set(&["delivery: claim new_order", "new_order: sequence district"]));
    for plan in &analysis.plan.transactions {
        let name = app.procedures[plan.procedure].name.as_str();
        let expected = match name {
            "new_order" | "payment" => (Mechanism::Ramp, false),
            "delivery" => (Mechanism::Ramp, true),
            _ => (Mechanism::Merge, true),
        };
        assert_eq!((plan.mechanism, plan.single_partition), expected, "{name}");
    }
}

/// A guard's place is the statement that takes it.
#[test]
fn guards_point_at_their_statements() {
    let app = support::example("tpcc", |_, text| text);
    let analysis = analyze(&app);
    for plan in &analysis.plan.transactions {
        for guard in &plan.guards {
            let place = app.sources.place(guard.statement);
            let file = &app.sources.files[guard.statement.file as usize];
            let text = file.text.lines().nth(place.line as usize - 1).unwrap_or_default().trim();
            let expected = match guard.kind {
                GuardKind::Sequence => "UPDATE district",
                _ => "DELETE FROM new_order",
            };
            assert!(text.starts_with(expected), "{text}");
        }
    }
}

/// One edit of the example and what it makes of the verdicts.
struct Variant {
    what: &'static str,
    from: &'static str,
    to: &'static str,
    /// Verdicts that must be refused besides (or instead of) the original ones.
    refused: &'static [&'static str],
    /// Verdicts that are confluent now.
    mended: &'static [&'static str],
}

const VARIANTS: &[Variant] = &[
    Variant {
        what: "a stock update that overwrites instead of adding",
        from: "s_ytd = s_ytd + quantities[line]",
        to: "s_ytd = quantities[line]",
        refused: &["new_order: stock_matches_order_lines"],
        mended: &[],
    },
    Variant {
        what: "the newest order is delivered instead of the oldest",
        from: "ORDER BY no_o_id\n",
        to: "ORDER BY no_o_id DESC\n",
        refused: &["delivery: c_3_3_2_2", "delivery: c_3_3_2_3"],
        mended: &[],
    },
    Variant {
        what: "the order's number is the caller's",
        from: "VALUES (order_id, district_id, warehouse_id);",
        to: "VALUES (customer_id, district_id, warehouse_id);",
        // Nothing keeps the conditions then, so no guard hands out numbers for the other keys either. The row of new_order
        // belongs to an order that others deliver.
        refused: &[
            "delivery: c_3_3_2_5",
            "new_order: c_3_3_2_5",
            "new_order: new_order_pkey",
            "new_order: order_line_pkey",
            "new_order: orders_pkey",
        ],
        mended: &[],
    },
    Variant {
        what: "delivery sets the carrier but takes the date away",
        from: "SET ol_delivery_d = delivery_date",
        to: "SET ol_delivery_d = NULL",
        refused: &["delivery: c_3_3_2_7"],
        mended: &[],
    },
    Variant {
        what: "payment overwrites the balance",
        from: "SET c_balance = c_balance - amount",
        to: "SET c_balance = amount",
        refused: &["payment: c_3_3_2_10", "payment: c_3_3_2_12"],
        mended: &[],
    },
    Variant {
        what: "delivery overwrites its count",
        from: "c_delivery_cnt = c_delivery_cnt + 1",
        to: "c_delivery_cnt = 0",
        refused: &["delivery: c_3_3_2_11"],
        mended: &[],
    },
    Variant {
        what: "another name: no rule knows an assertion by its name",
        from: "CREATE ASSERTION c_3_3_2_2 ",
        to: "CREATE ASSERTION other ",
        refused: &["new_order: other"],
        mended: &["new_order: c_3_3_2_2"],
    },
];

#[test]
fn variants() {
    let original = set(REFUSED);
    let mut errors = Vec::new();
    for variant in VARIANTS {
        let app = support::example("tpcc", |_, text| text.replacen(variant.from, variant.to, 1));
        let analysis = analyze(&app);
        let actual = refused(&app, &analysis);
        let mut expected: BTreeSet<String> = original.difference(&set(variant.mended)).cloned().collect();
        expected.extend(set(variant.refused));
        if actual != expected {
            errors.push(format!("{}:\n  is {actual:?}\n  not {expected:?}", variant.what));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Negative control for the variants: each edit is one that the file really contains.
#[test]
fn variants_edit_something() {
    for variant in VARIANTS {
        let mut found = 0;
        let folder = support::root().join("examples/tpcc");
        for file in ["schema.sql", "procedures.sql", "invariants.sql"] {
            let text = std::fs::read_to_string(folder.join(file)).expect("the example's file");
            found += text.matches(variant.from).count();
        }
        assert!(found > 0, "{}: nothing to edit", variant.what);
    }
}

/// Without the density conditions the keys ask for the commit-time number themselves.
#[test]
fn keys_ask_for_the_sequence_when_nothing_else_does() {
    let app =
        support::example("tpcc", |file, text| if file == "invariants.sql" { String::new() } else { text });
    let analysis = analyze(&app);
    let expected = ["new_order: new_order_pkey", "new_order: order_line_pkey", "new_order: orders_pkey"];
    assert_eq!(refused(&app, &analysis), set(&expected));
    assert_eq!(guards(&app, &analysis), set(&["new_order: sequence district"]));
}
