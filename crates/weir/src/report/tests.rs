//! The page holds what it should, refers to nothing outside, and takes names that look like markup.

use serde_json::json;
use weir_server::report::{
    InvariantReport, Latency, LatencyBucket, RunReport, Second, Setup, TransactionReport,
};
use weir_sql::Sources;

/// A document as large as TPC-C's in kind, with every optional part there.
pub fn sample() -> RunReport {
    let latency = |centre: f64| Latency {
        p50: centre,
        p95: centre * 2.4,
        p99: centre * 4.0,
        max: centre * 40.0,
        histogram: (-10..40)
            .map(|step| LatencyBucket {
                below_us: centre * 2f64.powf(f64::from(step) / 8.0),
                calls: (9_000.0 * (-f64::from(step * step) / 60.0).exp()) as u64 + 2,
            })
            .collect(),
    };
    let mix = [
        ("new_order", 22_500, 60.0),
        ("payment", 21_500, 25.0),
        ("delivery", 2_000, 400.0),
        ("order_status", 2_000, 18.0),
        ("stock_level", 2_000, 210.0),
    ];
    let by_transaction = mix
        .iter()
        .map(|&(name, rate, centre)| {
            let aborted = if name == "new_order" { 3_311 } else { 0 };
            let report = TransactionReport {
                committed: rate * 15,
                aborted,
                throughput: rate as f64,
                latency_us: latency(centre),
                abort_reasons: (aborted > 0)
                    .then(|| ("item number is not valid".to_owned(), aborted))
                    .into_iter()
                    .collect(),
            };
            (name.to_owned(), report)
        })
        .collect();
    let series = (0..15)
        .map(|second| Second {
            second,
            length: 1.0,
            committed: mix
                .iter()
                .map(|&(name, rate, _)| (name.to_owned(), rate + (second * 7_919 + rate) % (rate / 8)))
                .collect(),
            aborted: 225,
        })
        .collect();
    let holds = |id: &str, rows| InvariantReport {
        id: id.to_owned(),
        holds: true,
        rows_checked: rows,
        violation: None,
    };
    RunReport {
        version: 1,
        seconds: 15.0,
        committed: 750_000,
        throughput: 50_000.0,
        aborted: [("item number is not valid".to_owned(), 3_311)].into_iter().collect(),
        latency_us: latency(40.0),
        by_transaction,
        invariants: vec![
            holds("c1_warehouse_ytd", 4),
            holds("c2_next_order_id", 40),
            InvariantReport {
                id: "c12_balance".to_owned(),
                holds: false,
                rows_checked: 120_000,
                violation: Some(
                    json!({"c_w_id": 1, "c_d_id": 4, "c_id": 77, "left": "310.20", "right": "620.40"}),
                ),
            },
            holds("orders_pkey", 131_000),
        ],
        converged: true,
        plan: sample_plan(),
        setup: Setup {
            protocol: "ramp-fast".to_owned(),
            shards: 4,
            clients: 64,
            seed: 1,
            parameters: [("warehouses".to_owned(), json!(4))].into_iter().collect(),
            rows_loaded: 2_000_000,
            load_seconds: 4.2,
        },
        series,
        memory: None,
        never_committed: Vec::new(),
        interrupted: false,
    }
}

fn sample_plan() -> serde_json::Value {
    json!({
        "version": 1,
        "invariants": [
            {"id": "c2_next_order_id", "kind": "assertion"}, {"id": "c12_balance", "kind": "assertion"},
            {"id": "c1_warehouse_ytd", "kind": "assertion"}, {"id": "orders_pkey", "kind": "primary_key"}],
        "transactions": [
            {"name": "new_order", "confluent": false, "read_only": false, "class": "local/global", "mechanism": "ramp",
             "round_trips": 2, "guards": [{"kind": "sequence", "on": "district.d_next_o_id", "keeps": ["c2_next_order_id"]}],
             "why": "order ids are dense: the next one is taken at the district's owner, at commit"},
            {"name": "payment", "confluent": true, "read_only": false, "class": "local/global", "mechanism": "ramp",
             "round_trips": 2, "guards": [], "why": "only adds; sums move by the same amount on both sides"},
            {"name": "delivery", "confluent": false, "read_only": false, "class": "local", "mechanism": "ramp",
             "round_trips": 1, "guards": [{"kind": "claim", "on": "new_order (no_w_id, no_d_id, no_o_id)", "keeps": ["c12_balance"]}],
             "why": "takes a row that another Delivery might take"},
            {"name": "order_status", "confluent": true, "read_only": true, "class": "local", "mechanism": "merge",
             "round_trips": 1, "guards": [], "why": "reads one shard"}],
        "verdicts": [
            {"invariant": "c2_next_order_id", "transaction": "new_order", "operation": "inserts with the next number", "confluent": false,
             "alone": "proved", "assumes": [], "because": "Both branches hand out the same number.", "decided_by": "rule",
             "witness": {"initial": {"district": [{"d_id": "1", "d_name": "north", "d_next_o_id": "8"}], "item": [{"i_id": "1"}]},
                         "left": [{"call": "new_order", "arguments": {"d": "1"}, "text": "new_order(1)"}],
                         "right": [{"call": "new_order", "arguments": {"d": "2"}, "text": "new_order(2)"}],
                         "later": "right",
                         "merged": {"district": [{"d_id": "1", "d_name": "north", "d_next_o_id": "10"}]},
                         "violates": {"invariant": "c2_next_order_id", "row": {"d_next_o_id": "10"},
                                      "shown": ["d_id", "d_next_o_id"], "text": "d_id = 1, d_next_o_id = 10"}}},
            {"invariant": "c12_balance", "transaction": "delivery", "with": "delivery", "operation": "deletes the oldest new_order row and adds its amount",
             "confluent": false, "alone": "proved", "assumes": ["delivered lines do not change"],
             "because": "Both take the same order; the row is gone once, the amount is added twice.", "decided_by": "rule", "witness": null}],
        "diagnostics": [{"id": "lost-update", "severity": "warning", "message": "c_data is read and written back: <script>",
                         "source": {"file": "procedures.sql", "line": 12, "column": 5}}]
    })
}

#[test]
fn the_page_stands_alone_and_says_everything() {
    let run = sample();
    let page = super::page("a <b> application", &run.plan, &Sources::default(), Some(&run));
    for expected in [
        "a &lt;b&gt; application",
        "new_order",
        "c12_balance",
        "violated",
        "d_id = 1, d_next_o_id = 10",
        "sequence on district.d_next_o_id",
        "Committed a second",
        "Latency of committed calls",
        "750,000",
        "prefers-color-scheme: dark",
        "read and written back: &lt;script&gt;",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    for forbidden in ["<script src", "<link", "http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    if let Some(path) = std::env::var_os("WEIR_SAMPLE_PAGE") {
        std::fs::write(path, page).unwrap();
    }
}

#[test]
fn a_plan_alone_has_a_page_and_an_empty_one_too() {
    let run = sample();
    let page = super::page("plan", &run.plan, &Sources::default(), None);
    assert!(page.contains("The plan") && !page.contains("The run"));
    assert!(super::page("nothing", &json!({}), &Sources::default(), None).contains("Nowhere"));
}

/// A thousand tables and five hundred functions: what touches is there, and the rest is not.
#[test]
fn a_large_application_has_a_page_that_a_browser_takes() {
    let place = |line: usize| json!({"file": "procedures.sql", "line": line, "column": 5});
    let table = |at: usize| format!("module_{}_table_{at}", at / 20);
    let invariant = |at: usize| {
        let table = table(at / 15);
        json!({"id": format!("{table}_constraint_{at}"), "kind": "check", "table": table, "columns": ["a", "b"], "tables": [table],
               "text": format!("CHECK (column_a_{at} <= column_b_{at} AND column_a_{at} > 0)"), "source": place(at)})
    };
    let access = |at: usize| json!({"table": table(at % 1000), "access": "update", "columns": ["a"], "source": place(at)});
    let example = json!({"initial": "x".repeat(200), "left": ["y".repeat(80)], "right": ["z".repeat(80)], "outcome": "w".repeat(90)});
    let transaction = |at: usize| {
        let anomaly = json!({"kind": "lost_update", "id": "WEIR-A01", "with": format!("function_{at}"), "message": "m".repeat(120),
                             "example": example, "remedies": ["r".repeat(80)], "source": place(at)});
        json!({"name": format!("function_{at}"), "confluent": false, "class": "global", "mechanism": "general", "round_trips": 2,
               "weight": 1.0, "why": "it shares data with another that runs in order", "anomalies": vec![anomaly; 10],
               "accesses": (at..at + 20).map(access).collect::<Vec<_>>()})
    };
    let rows: Vec<_> = (0..12).map(|row| json!({"id": row.to_string(), "value": "v".repeat(40)})).collect();
    let witness = json!({"initial": {"t": rows}, "left": [{"text": "f(1)"}], "right": [{"text": "f(2)"}], "merged": {"t": rows},
                         "violates": {"shown": ["id", "value"], "text": "id = 1"}});
    let verdict = |at: usize| {
        let fails = at.is_multiple_of(10);
        json!({"invariant": invariant(at)["id"], "transaction": format!("function_{}", at % 500), "confluent": !fails,
               "operation": format!("updates table_{at} (a, b)"), "because": format!("Two branches write table_{at} apart."),
               "alone": "checked", "assumes": [], "decided_by": "rule", "rule": "bound-toward", "id": "WEIR-B01",
               "witness": if fails { witness.clone() } else { json!(null) }})
    };
    let conflict = |at: usize| {
        let side = |at: usize| json!({"transaction": format!("function_{at}"), "access": "update", "rows": "any row", "source": place(at)});
        let clause =
            json!({"table": table(at % 1000), "left": side(at % 500), "right": side(at % 499), "equal": []});
        json!({"left": format!("function_{}", at % 500), "right": format!("function_{}", at % 499), "local": at.is_multiple_of(3),
               "clauses": vec![clause; 3], "clauses_in_all": 3})
    };
    let plan = json!({
        "tables": (0..1000).map(|at| json!({"name": table(at), "partition_columns": ["a"]})).collect::<Vec<_>>(),
        "invariants": (0..15_000).map(invariant).collect::<Vec<_>>(),
        "transactions": (0..500).map(transaction).collect::<Vec<_>>(),
        "verdicts": (0..15_000).map(verdict).collect::<Vec<_>>(),
        "verdicts_untouched": 7_485_000,
        "partitioning": {"cost": 2_000.0, "bound": 1_900.0, "gap": 0.05, "search": "branch and bound",
                         "conflicts": (0..2_000).map(conflict).collect::<Vec<_>>(), "conflicts_in_all": 125_250},
    });
    let page = super::page("large", &plan, &Sources::default(), None);
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
    for expected in [
        "module_49_table_999_constraint_14999",
        "7,485,000 pairs do not touch",
        "more are in the JSON",
        "the gap is 5.0 %",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
}
